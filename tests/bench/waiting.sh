#!/bin/bash
# waiting.sh BUILD [WAITING] - holds 10,000 requests (or WAITING) in one queue at the same time and says what each costs in memory.
# Two callers open half of the connections each; the limit is so low that next to nothing leaves meanwhile.
set -u
BUILD=${1:-build} wanted=${2:-10000}
cd "$(dirname "$0")/../.." || exit 1
ulimit -n "$(ulimit -Hn)" 2>/dev/null
. tests/rig/lib.sh

descriptors=$(ulimit -n)
if [ "$descriptors" != unlimited ] && [ "$descriptors" -lt $((wanted + 200)) ]; then
    echo "only $descriptors descriptors are allowed here: holding $((descriptors - 200)) requests instead of $wanted"
    wanted=$((descriptors - 200))
fi

sockets() { find "/proc/$1/fd" -lname 'socket:*' 2>/dev/null | wc -l; }
holds() { [ "$(sockets "$1")" -ge "$2" ]; }
rss_kib() { awk '/^VmRSS:/ { print $2 }' "/proc/$1/status"; }

# Memory grows while requests are being taken in: it is read once it has been the same for half a second.
settled_kib() {
    local before=-1 now same=0
    while [ $same -lt 5 ]; do
        now=$(rss_kib "$1")
        if [ "$now" = "$before" ]; then same=$((same + 1)); else same=0; fi
        before=$now
        sleep 0.1
    done
    echo "$now"
}

start_origin "$DIR/left.csv"
start_sluice 1 "1/5s" ''
sluice=$pid
# The first request may leave at once; let it, so that what is counted below really waits.
"$RIG/burst" -x "127.0.0.1:$sluice_port" -u "http://127.0.0.1:$origin_port/first" -c 1 -n 1 -T 10 >/dev/null
empty=$(settled_kib "$sluice")

half=$((wanted / 2))
for caller in 1 2; do
    start "caller$caller" "$RIG/burst" -x "127.0.0.1:$sluice_port" -u "http://127.0.0.1:$origin_port/held/$caller/{seq}" \
        -c $half -n $half -T 600 -w "$DIR/sent$caller"
done
until_true 60 caller1 test -e "$DIR/sent1"
until_true 60 caller2 test -e "$DIR/sent2"
until_true 60 sluice1 holds "$sluice" $((half * 2))
full=$(settled_kib "$sluice")
tell_origin /__stats >/dev/null
refused=$(grep -c 'event=access' "$DIR/sluice1.log")
left=$(($(wc -l <"$DIR/left.csv") - 1))

echo "waiting: $((half * 2)) requests held at once ($(sockets "$sluice") sockets open, $left of them reached the third party so far)"
echo "memory:  $empty KiB before, $full KiB with them: $(((full - empty) * 1024 / (half * 2))) bytes for each (resident)"
[ "$refused" -eq 0 ] || fail "sluice refused $refused of them"
