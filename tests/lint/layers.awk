# layers.awk - who may include whom.
#
# Every file belongs to a directory, every directory to a row. A file includes headers of its own directory and of lower rows;
# directories of one row never see each other. A header under src/<dir>/ is private to that directory: the others only
# get what lies in include/<dir>/. A name without a directory is the neighbour in the same one.
#
# Run from the top of the tree with every .c and .h of src/ and include/ as arguments. Exit 1 with a line per fault.

BEGIN {
    split("base 0 conf 1 http 2 redis 2 lua 2 server 3 outbound 3 inbound 3 upstream 3 proxy 4 admin 5 app 6 main.c 7", pairs, " ")
    for (i = 1; i in pairs; i += 2)
        row[pairs[i]] = pairs[i + 1]
}

FNR == 1 {
    length_of_path = split(FILENAME, part, "/")
    here = part[2]
    if (!(here in row))
        fault("directory '" here "' has no row in tests/lint/layers.awk")
}

/^[ \t]*#[ \t]*include[ \t]*"/ {
    name = $0
    sub(/^[^"]*"/, "", name)
    sub(/".*/, "", name)
    check(name)
}

function check(name,    there, public, private) {
    if (name ~ /^[a-z0-9_]+\.h$/) {
        if (!exists(substr(FILENAME, 1, length(FILENAME) - length(part[length_of_path])) name))
            fault("includes " name ", which does not lie beside it")
        return
    }
    if (name ~ /\.\./ || name !~ /^[a-z0-9_]+\/[a-z0-9_]+\.h$/) {
        fault("include \"" name "\" is not of the form \"directory/file.h\"")
        return
    }
    there = substr(name, 1, index(name, "/") - 1)
    public = exists("include/" name)
    private = exists("src/" name)
    if (!public && !private)
        fault("includes " name ", which is neither in include/ nor in src/")
    else if (!(there in row))
        fault("includes " name ", whose directory has no row")
    else if (here == there)
        return
    else if (!public)
        fault("includes " name ", which is private to src/" there)
    else if (row[there] == row[here])
        fault("includes " name ": " here " and " there " stand in the same row " row[here])
    else if (row[there] > row[here])
        fault("includes " name ": row " row[here] " must not know row " row[there])
}

function exists(path,    line, result) {
    if (path in seen)
        return seen[path]
    result = (getline line < path) >= 0
    close(path)
    return seen[path] = result
}

function fault(words) {
    printf "%s:%d: %s\n", FILENAME, FNR, words
    faults = 1
}

END { exit faults }
