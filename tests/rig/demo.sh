#!/bin/bash
# demo.sh BUILD - shows what sluice does: 40 calls from 4 callers, all at the same moment, to a third party that allows 10 in
# any second. First through one replica, then through three that share a Redis. When calls came is taken from the callers,
# when they left from the third party: the moment its kernel received each.
set -u
BUILD=${1:-build}
cd "$(dirname "$0")/../.." || exit 1
. tests/rig/lib.sh

[ ! -t 1 ] || COLUMNS=${COLUMNS:-$(stty size <&1 | cut -d' ' -f2)}
export COLUMNS=${COLUMNS:-92}
allowed=10 callers=4 calls_each=10

# burst_and_draw PROXY_PORT...
burst_and_draw() {
    local proxies=() came=() jobs=() i port status=0
    for port in "$@"; do proxies+=(-x "127.0.0.1:$port"); done
    tell_origin /__reset >/dev/null
    lines_before=$(wc -l <"$DIR/left.csv")
    for ((i = 0; i < callers; i++)); do
        start "caller$i" "$RIG/burst" "${proxies[@]}" -u "http://127.0.0.1:$origin_port/call/$i/{seq}" \
            -c $calls_each -n $calls_each -o "$DIR/came$i.csv" -T 15
        jobs+=("$pid")
        came+=(-c "$DIR/came$i.csv")
    done
    for i in "${jobs[@]}"; do
        wait "$i" || status=1
    done
    tell_origin /__stats >"$DIR/stats"
    { echo ns,path && tail -n "+$((lines_before + 1))" "$DIR/left.csv"; } >"$DIR/left-now.csv"
    [ $status -eq 0 ] || cat "$DIR"/caller*.log "$DIR"/sluice*.log >&2
    "$RIG/chart" -r $allowed/1 "${came[@]}" -l "$DIR/left-now.csv" || status=1
    echo "  the third party counted $(tr -d '{}"\n' <"$DIR/stats")"
    return $status
}

begin=$SECONDS result=0
start_origin "$DIR/left.csv" -r $allowed/1

echo
echo "$((callers * calls_each)) calls from $callers callers at once, a limit of $allowed per second, ONE replica"
echo
start_sluice 1 $allowed/s ''
alone=$pid
burst_and_draw "$sluice_port" || result=1
kill "$alone" && wait "$alone"

start_redis
ports=()
for n in 1 2 3; do
    start_sluice "$n" $allowed/s "$redis_socket"
    ports+=("$sluice_port")
done
echo
echo "the same, dealt out over ${#ports[@]} replicas that know each other only by a Redis"
echo "(it has only just started, so it may have forgotten turns: for a second none is given)"
echo
burst_and_draw "${ports[@]}" || result=1
echo
echo "The third party saw one even stream both times. ($((SECONDS - begin)) s)" | {
    if [ $result -eq 0 ]; then cat; else
        echo "Something was wrong: see above."
    fi
}
exit $result
