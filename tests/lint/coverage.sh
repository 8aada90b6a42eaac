#!/bin/bash
# coverage.sh BUILD - lines reached per source file and in all, from what a --coverage build has left behind.
set -u
cd "$(dirname "$0")/../.." || exit 1
find "$1/src" -name '*.gcda' -print0 | while IFS= read -r -d '' data; do
    gcov -n -o "$(dirname "$data")" "$data" 2>/dev/null
done | awk '
    /^File / { gsub(/\047/, "", $2); file = $2 }
    /^Lines executed:/ && file ~ /^src\// {
        split($2, share, /[:%]/)
        count[file] = $NF
        reached[file] = share[2] / 100 * $NF
        file = ""
    }
    END {
        for (name in count) {
            printf "%6.1f %%  %5d lines  %s\n", 100 * reached[name] / count[name], count[name], name | "sort -n"
            all += count[name]
            hit += reached[name]
        }
        close("sort -n")
        if (all) printf "%6.1f %%  %5d lines  in all\n", 100 * hit / all, all
    }'
