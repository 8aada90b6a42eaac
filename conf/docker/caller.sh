#!/bin/bash
# caller.sh URL CALLS PAUSE - makes CALLS calls at the same moment, over as many connections dealt out over all replicas that the
# name "sluice" stands for just now; waits for the answers; rests PAUSE seconds; again.
set -u
url=$1 calls=$2 pause=$3
trap 'exit 0' TERM INT

while :; do
    proxies=()
    while read -r address kind _; do
        [ "$kind" != STREAM ] || proxies+=(-x "$address:3128")
    done < <(getent ahostsv4 sluice | head -n 48) # three lines each, and burst takes 16
    if [ ${#proxies[@]} -gt 0 ]; then
        burst "${proxies[@]}" -u "$url" -c "$calls" -n "$calls" -T 60 &
        wait $!
    else
        echo "no replica of sluice is there"
    fi
    sleep "$pause" &
    wait $!
done
