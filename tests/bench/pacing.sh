#!/bin/bash
# pacing.sh BUILD - a burst against limits of 10, 100 and 1000 per second: through one process, through three replicas that
# share a Redis, and through nginx's limit_req where nginx is there, one after the other in the same run. Prints a table; its
# columns are explained in tests/rig/judge.c. Exit 1 when sluice let too many into some window.
#
# BENCH_RATES="10 100 1000"   which limits
# BENCH_CALLS=N               calls in each burst (if not said 500, 1000 and 2000)
# BENCH_KIT=DIR               measure with another kit's origin and burst: DIR/build/origin -b ADDRESS -l LOG -k, whose log is
#                             "mono_ns,krx_ns,conn,host,path", and DIR/build/burst -x PROXY -u URL -c N -n N
set -u
BUILD=${1:-build}
cd "$(dirname "$0")/../.." || exit 1
. tests/rig/lib.sh
rates=${BENCH_RATES:-10 100 1000}
kit=${BENCH_KIT:-}
result=0

calls_for() {
    case "$1" in
    10) echo "${BENCH_CALLS:-500}" ;;
    100) echo "${BENCH_CALLS:-1000}" ;;
    *) echo "${BENCH_CALLS:-2000}" ;;
    esac
}

# A fresh third party for each burst: its log is then just that burst's.
start_third_party() {
    if [ -z "$kit" ]; then
        start_origin "$DIR/left.csv"
    else
        origin_port=$(free_port)
        start origin "$kit/build/origin" -b "127.0.0.1:$origin_port" -k -l "$DIR/kit.csv"
        until_true 5 origin listens "$origin_port"
    fi
    origin_pid=$pid
}

# Ends it, so that its log is complete, and brings another kit's log into the form that judge reads.
end_third_party() {
    kill "$origin_pid"
    wait "$origin_pid" 2>/dev/null
    [ -z "$kit" ] || awk -F, 'NR == 1 { print "ns,path" } NR > 1 { print ($2 > 0 ? $2 : $1) "," $5 }' "$DIR/kit.csv" >"$DIR/left.csv"
}

# send_burst CALLS SECONDS PORT...: the calls are dealt out over the ports, all at once.
send_burst() {
    local share=$(($1 / ($# - 2))) rest=$(($1 % ($# - 2))) seconds=$2 burst=$RIG/burst jobs=() port i
    [ -z "$kit" ] || burst=$kit/build/burst
    shift 2
    for port in "$@"; do
        start "burst${#jobs[@]}" "$burst" -x "127.0.0.1:$port" -u "http://127.0.0.1:$origin_port/bytes/100?seq={seq}" \
            -c $((share + rest)) -n $((share + rest)) -T "$seconds"
        jobs+=("$pid")
        rest=0
    done
    for i in "${jobs[@]}"; do wait "$i"; done
}

# measure NAME RATE PORT...
measure() {
    local name=$1 rate=$2 calls
    shift 2
    calls=$(calls_for "$rate")
    send_burst "$calls" $((calls / rate * 5 / 4 + 20)) "$@"
    end_third_party
    "$RIG/judge" -r "$rate/1" -t "$name" "$DIR/left.csv"
}

one_process() {
    start_third_party
    start_sluice 1 "$1/s" ''
    measure "sluice, one process" "$1" "$sluice_port" || result=1
    stop_all
}

three_replicas() {
    local ports=() n
    start_third_party
    start_redis
    for n in 1 2 3; do
        start_sluice "$n" "$1/s" "$redis_socket"
        ports+=("$sluice_port")
    done
    measure "sluice, three replicas" "$1" "${ports[@]}" || result=1
    stop_all
}

# What breaches nginx commits are its own; they do not fail the run.
with_nginx() {
    local port
    command -v nginx >/dev/null || return 0
    start_third_party
    port=$(free_port)
    mkdir -p "$DIR/nginx"
    cat >"$DIR/nginx/nginx.conf" <<CONF
daemon off;
pid $DIR/nginx/pid;
error_log $DIR/nginx/error.log;
worker_processes 1;
worker_rlimit_nofile 8192;
events { worker_connections 8192; }
http {
    access_log off;
    client_body_temp_path $DIR/nginx/body;
    proxy_temp_path $DIR/nginx/proxy;
    fastcgi_temp_path $DIR/nginx/fastcgi;
    uwsgi_temp_path $DIR/nginx/uwsgi;
    scgi_temp_path $DIR/nginx/scgi;
    limit_req_zone all zone=paced:1m rate=${1}r/s;
    upstream third_party { server 127.0.0.1:$origin_port; keepalive 64; }
    server {
        listen 127.0.0.1:$port;
        location / {
            limit_req zone=paced burst=20000;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_pass http://third_party;
        }
    }
}
CONF
    start nginx nginx -p "$DIR/nginx" -c "$DIR/nginx/nginx.conf" -e "$DIR/nginx/error.log"
    until_true 5 nginx listens "$port"
    measure "nginx limit_req" "$1" "$port"
    stop_all
}

"$RIG/judge" -H
for rate in $rates; do
    one_process "$rate"
    three_replicas "$rate"
    with_nginx "$rate"
done
command -v nginx >/dev/null || echo "(nginx is not installed: no comparison)"
exit $result
