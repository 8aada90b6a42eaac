#!/bin/bash
# cycles.sh OBJECT... - no object file may need, however indirectly, one that needs it. tsort finds the circle, nm the edges.
set -euo pipefail
export LC_ALL=C
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for object in "$@"; do
    nm -g --defined-only "$object" | awk -v o="$object" 'NF == 3 { print $3, o }'
done | sort -u >"$work/defined"
for object in "$@"; do
    nm -u "$object" | awk -v o="$object" '{ print $NF, o }'
done | sort -u >"$work/needed"

# "symbol needer definer" -> "needer definer"
join "$work/needed" "$work/defined" | awk '$2 != $3' >"$work/uses"
awk '{ print $2, $3 }' "$work/uses" | sort -u >"$work/edges"
tsort "$work/edges" >/dev/null 2>"$work/words" && exit 0

# What was in one of tsort's circles, with the names that tie them: the circle is to be cut at one of these.
sed -n 's/^tsort: \([^ ]*\.o\)$/\1/p' "$work/words" | sort -u >"$work/members"
echo "these objects need each other in a circle:"
awk 'NR == FNR { member[$1]; next } $2 in member && $3 in member { print "  " $2 " needs " $1 " of " $3 }' "$work/members" "$work/uses"
exit 1
