#!/bin/sh
# Fails when a setting is missing from the example file or the README, or the example has one that does not exist.
# Keys come from the program itself: sluice --help-config prints "[section] key = default" for each.
set -eu

sluice=${SLUICE:-build/sluice}
example=${EXAMPLE:-conf/sluice.ini}
readme=${README:-README.md}
bad=0

complain() {
    echo "optscan: $*" >&2
    bad=1
}

help=$("$sluice" --help-config) || {
    echo "optscan: $sluice --help-config failed" >&2
    exit 1
}
keys=$(printf '%s\n' "$help" | sed -n 's/^\[\([a-z-]*\)\] \([a-z_]*\) =.*$/\1.\2/p')
[ -n "$keys" ] || {
    echo "optscan: $sluice --help-config lists no keys" >&2
    exit 1
}

# "section.key" of every line "key = value", commented out or not, under the "[section]" last seen, commented out or not.
shown=$(sed -n -e 's/^\(# \)\{0,1\}\[\([a-z-]*\)[] ].*$/[\2/p' -e 's/^\(# \)\{0,1\}\([a-z_]*\) = .*$/\2/p' "$example" |
    awk '/^\[/ { section = substr($0, 2); next } { print section "." $0 }')

for key in $keys; do
    name=${key#*.}
    printf '%s\n' "$shown" | grep -qxF "$key" || complain "$example lacks $name in [${key%%.*}]"
    # some names are ordinary words: only `name` or "name =" counts
    grep -qE -- "\`$name\`|(^|[^a-z_])$name =" "$readme" || complain "$readme lacks $name"
done
for key in $shown; do
    # a key of [default] may be shown in a destination or a route, one of [inbound] in an [inbound-rule]
    printf '%s\n' "$keys" | grep -qxF -e "$key" -e "default.${key#destination.}" -e "default.${key#route.}" -e "inbound.${key#inbound-rule.}" ||
        complain "$example has ${key#*.} in [${key%%.*}], which does not exist"
done
exit $bad
