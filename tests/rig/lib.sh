# shellcheck shell=bash
# What demo and benches share: start programs, wait until they listen, and end them again whatever happens.
# Sourced with BUILD set to the build directory. Makes $DIR, a temporary directory of this run.

RIG=$BUILD/rig
pids=()
DIR=$(mktemp -d "${TMPDIR:-/tmp}/sluice-rig.XXXXXX")
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy

# Ends what start() started, the last one first, by process id; then waits for each.
stop_all() {
    local i
    for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
        kill "${pids[i]}" 2>/dev/null
        wait "${pids[i]}" 2>/dev/null
    done
    pids=()
}

cleanup() {
    local status=$?
    trap - EXIT INT TERM HUP
    stop_all
    rm -rf "$DIR"
    exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# start NAME COMMAND...: in the background, its words in $DIR/NAME.log; the process id is then in $pid.
start() {
    local name=$1
    shift
    "$@" >"$DIR/$name.log" 2>&1 </dev/null &
    pid=$!
    pids+=("$pid")
}

fail() {
    echo "$*" >&2
    exit 1
}

# until_true SECONDS NAME COMMAND...: looks every 20 ms; when the time is over, ends with what NAME has said.
until_true() {
    local tries=$(($1 * 50)) name=$2
    shift 2
    until "$@" 2>/dev/null; do
        ((tries-- > 0)) || {
            cat "$DIR/$name.log" >&2
            fail "$name did not get ready"
        }
        sleep 0.02
    done
}

listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1"); }

# A port below the range that the kernel gives to outgoing connections, on which nothing listens.
free_port() {
    local try
    while :; do
        try=$((20000 + RANDOM % 12000))
        listens "$try" 2>/dev/null || {
            echo "$try"
            return
        }
    done
}

# start_origin LOG [OPTION...]: the third party; its port is then in $origin_port.
start_origin() {
    local log=$1
    shift
    start origin "$RIG/origin" -l "$log" "$@"
    until_true 5 origin grep -q '^listening on' "$DIR/origin.log"
    origin_port=$(sed -n 's/^listening on .*:\([0-9]*\)$/\1/p' "$DIR/origin.log")
}

# tell_origin PATH: a request straight to the third party, whose body is printed.
tell_origin() {
    local line
    exec 3<>"/dev/tcp/127.0.0.1/$origin_port"
    printf 'GET %s HTTP/1.1\r\nHost: origin\r\nConnection: close\r\n\r\n' "$1" >&3
    while IFS= read -r line <&3 && [ "${line%$'\r'}" != "" ]; do :; done
    cat <&3
    exec 3>&-
}

# start_redis: an empty one that only this run can reach; its socket is then in $redis_socket.
start_redis() {
    redis_socket=$DIR/redis.sock
    start redis redis-server --port 0 --unixsocket "$redis_socket" --save '' --appendonly no --dir "$DIR"
    until_true 5 redis test -S "$redis_socket"
}

# write_conf FILE PORT RATE REDIS_SOCKET|'': one destination, the rig's origin, at RATE.
write_conf() {
    {
        printf '[proxy]\nlisten = 127.0.0.1:%s\nprivate_upstreams = allow\nmax_connections = 20000\n' "$2"
        printf 'log_level = warn\n\n'
        [ -z "$4" ] || printf '[redis]\nurl = unix:%s\n\n' "$4"
        printf '[destination third-party]\nhosts = 127.0.0.1:%s\nrate = %s\nmax_queue = 20000\nmax_wait = 1d\n' \
            "$origin_port" "$3"
    } >"$1"
}

# start_sluice NUMBER RATE REDIS_SOCKET|'': a replica; its port is then in $sluice_port, its process id in $pid.
start_sluice() {
    sluice_port=$(free_port)
    write_conf "$DIR/sluice$1.ini" "$sluice_port" "$2" "$3"
    start "sluice$1" "$BUILD/sluice" -c "$DIR/sluice$1.ini"
    until_true 5 "sluice$1" listens "$sluice_port"
}
