# metrics.awk - sizes. With braces where .clang-format puts them, a function is what lies between a "{" and the next "}" in the
# first column: nothing else starts that way. Exit 1 with a line per function or file that is too long.
#
#   awk -v function_max=N -v file_max=N -f metrics.awk FILE...

FNR == 1 {
    end_of_file()
    file = FILENAME
}
{ lines = FNR }

/^\{/ {
    start = FNR
    name = previous
}
/^[a-z].*\)[ \t]*\{[ \t]*$/ { fault("a function's brace belongs on a line of its own") }
/^\}/ && start {
    length_of[++functions] = FNR - start + 1
    if (FNR - start + 1 > function_max)
        fault("function of " FNR - start + 1 " lines, more than " function_max ": " name)
    start = 0
}
length($0) > 160 { fault("line of " length($0) " characters") }
{ previous = $0 }

function end_of_file() {
    if (file != "" && lines > file_max) {
        printf "%s: %d lines, more than %d\n", file, lines, file_max
        faults = 1
    }
    total += lines
    files += file != ""
}

function fault(words) {
    printf "%s:%d: %s\n", FILENAME, FNR, words
    faults = 1
}

# Insertion sort: awk has none of its own that every awk knows.
function quantile(share) {
    return length_of[int(share * (functions - 1) + 1.5)]
}
END {
    end_of_file()
    for (i = 2; i <= functions; i++)
        for (j = i; j > 1 && length_of[j - 1] > length_of[j]; j--) {
            swap = length_of[j]
            length_of[j] = length_of[j - 1]
            length_of[j - 1] = swap
        }
    if (functions)
        printf "  sizes: %d files, %d lines; %d functions, median %d lines, 95 of 100 up to %d, longest %d\n", files, total, \
            functions, quantile(0.5), quantile(0.95), length_of[functions]
    exit faults
}
