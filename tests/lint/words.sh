#!/bin/bash
# words.sh FILE... - what must not stand in a file that others will read. Patterns are written so as not to find themselves.
set -u
status=0

# refuse REASON PATTERN FILE...
refuse() {
    local reason=$1 pattern=$2
    shift 2
    [ $# -gt 0 ] || return 0
    if grep -nEI -- "$pattern" "$@" /dev/null; then
        echo "  ^ $reason"
        status=1
    fi
}

c_files=() library_files=() unit_files=()
for file in "$@"; do
    case "$file" in
    src/*.[ch] | include/*.h) c_files+=("$file") ;;
    tests/unit/*.c | tests/sim/*.c) unit_files+=("$file") ;;
    esac
    case "$file" in
    src/base/* | src/http/* | src/redis/* | src/server/* | src/outbound/* | src/inbound/* | src/upstream/* | src/proxy/*)
        library_files+=("$file")
        ;;
    esac
done

refuse "a path of one machine" '/w[o]rk/|/r[o]ot/|/h[o]me/[a-z]|/f[a]rm/|\.l[i]brary' "$@"
refuse "unfinished" '\b(T[O]DO|F[I]XME|X[X]X|n[o]t implemented)\b' "$@"
refuse "a number that only a tracker knows" '\b([Ii]ssue|[Pp]ull request|[Tt]icket) ?#[0-9]' "$@"
refuse "blanks at the end of a line, or a tab in C" '[ 	]+$' "${c_files[@]+"${c_files[@]}"}"
refuse "a function without a bound" '\b(strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|atol|atof|alloca)\(' \
    "${c_files[@]+"${c_files[@]}"}"
refuse "printing from a library row: use the log" '\b(printf|puts|perror)\(' \
    "${library_files[@]+"${library_files[@]}"}"
refuse "a test that sleeps instead of waiting for what it waits for" '\b(sleep|usleep|nanosleep)\(' \
    "${unit_files[@]+"${unit_files[@]}"}"
exit $status
