#!/bin/sh
# install.sh build|check|demo - installs the Debian packages that the targets of the Makefile need and that are not there yet.
#
# Does nothing (and asks nobody) when all are there. Never starts a service: where no policy-rc.d exists, one that says
# "not now" stands in for the time of the installation and is removed at the end, however that comes.
set -eu

build="gcc libc6-dev pkg-config libcrypt-dev libcurl4-openssl-dev libevent-dev libhiredis-dev libinih-dev libssl-dev
       libjansson-dev libncurses-dev uthash-dev node-llhttp"
demo="$build redis-server"
check="$demo binutils check libsubunit-dev liblua5.1-0-dev python3 python3-pytest python3-pytest-xdist python3-requests
       python3-httpx python3-aiohttp node-undici node-axios node-got curl wget nodejs git man-db
       cppcheck prometheus chromium valgrind shellcheck openssl ca-certificates"

case "${1:-}" in
build) wanted=$build ;;
demo) wanted=$demo ;;
check) wanted=$check ;;
*)
    echo "usage: install.sh build|check|demo" >&2
    exit 2
    ;;
esac

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    echo "install: this is no Debian; please install by hand what provides: $wanted" >&2
    exit 0
fi

missing=
for package in $wanted; do
    state=$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null || true)
    case "$state" in
    ii*) ;;
    *) missing="$missing $package" ;;
    esac
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "install: missing:$missing; neither root nor sudo here, so please install them" >&2
        exit 1
    fi
    as_root=sudo
fi

policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
    trap '$as_root rm -f "$policy"' EXIT
    trap 'exit 130' INT TERM HUP
    $as_root chmod 755 "$policy"
fi

log=$(mktemp)
quietly() {
    $as_root env DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1 </dev/null || {
        cat "$log" >&2
        rm -f "$log"
        return 1
    }
}

echo "install: reading the package lists (apt-get update)"
quietly apt-get -q update
echo "install: apt-get install$missing"
# shellcheck disable=SC2086 # a list of words
quietly apt-get -q -y --no-install-recommends install $missing
rm -f "$log"
echo "install: done"
