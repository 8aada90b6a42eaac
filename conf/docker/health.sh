#!/bin/bash
# health.sh [PORT] - 0 when sluice answers on this machine. A request that goes no further than the first proxy (Max-Forwards: 0)
# takes nobody's turn. An answer that asks who we are is an answer, too; 503 is that of a sluice about to end.
set -u
exec 3<>"/dev/tcp/127.0.0.1/${1:-3128}" || exit 1
printf 'OPTIONS * HTTP/1.1\r\nHost: localhost\r\nMax-Forwards: 0\r\nConnection: close\r\n\r\n' >&3
read -r -t 2 _ status _ <&3
echo "answered ${status:=nothing}"
case $status in
200 | 403 | 407) exit 0 ;;
esac
exit 1
