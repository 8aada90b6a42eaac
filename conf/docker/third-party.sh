#!/bin/bash
# third-party.sh N/SECONDS - a third party that lets N requests come in any SECONDS, answers 429 to every other one and counts
# those as violations. Says every 5 s what came.
set -u
limit=$1 port=8080

origin -b 0.0.0.0 -p "$port" -r "$limit" &
origin=$!
trap 'kill "$origin"; exit 0' TERM INT

# The counters, as JSON; asking for them is no call.
stats() {
    local line
    exec 3<>"/dev/tcp/127.0.0.1/$port" || return
    printf 'GET /__stats HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
    while IFS= read -r line <&3 && [ "${line%$'\r'}" != "" ]; do :; done
    cat <&3
    exec 3>&-
}

before=0
while sleep 5 & wait $!; do
    counted=$(stats) || exit 1
    [[ $counted =~ \"arrivals\":\ ([0-9]+),\ \"violations\":\ ([0-9]+) ]] || exit 1
    calls=${BASH_REMATCH[1]} violations=${BASH_REMATCH[2]}
    echo "calls: $calls ($((calls - before)) in the last 5 s; allowed: $limit s), violations: $violations"
    before=$calls
done
