#!/bin/bash
# lint.sh BUILD - everything that can be said about the sources without running them. BUILD has the object files.
set -u
build=${1:-build}
cd "$(dirname "$0")/../.." || exit 1
here=tests/lint status=0

# try NAME COMMAND...: silent when there is nothing to say.
try() {
    local name=$1 words
    shift
    if words=$("$@" 2>&1); then
        [ -z "$words" ] || printf '%s\n' "$words"
    else
        printf '%s\n' "$words"
        echo "lint: $name: not in order"
        status=1
    fi
}

top_level() {
    local name odd=0
    for name in *; do
        case "$name" in
        src | include | conf | tests | docker-compose.yml | Makefile | README.md | build) ;;
        *) echo "$name does not belong at the top" && odd=1 ;;
        esac
    done
    return $odd
}

mapfile -t c_files < <(find src include -name '*.[ch]' | sort)
mapfile -t texts < <(find src include conf tests .ci README.md Makefile docker-compose.yml -type f -not -path '*/node_modules/*' \
    -not -path '*/__pycache__/*' -not -path '*/corpus/*' 2>/dev/null | sort)
# Only objects whose source is still there: a build directory remembers more.
objects=()
for source in $(find src -name '*.c' -o -name '*.lua' | sort); do
    [ -e "$build/${source%.*}.o" ] && objects+=("$build/${source%.*}.o")
done
mapfile -t scripts < <(find tests .ci -type f \( -name '*.sh' -o -path '.ci/run' \) 2>/dev/null | sort)

try "top level" top_level
try "layers" awk -f $here/layers.awk "${c_files[@]}"
try "sizes" env LC_ALL=C.UTF-8 awk -v function_max=120 -v file_max=800 -f $here/metrics.awk "${c_files[@]}"
try "words" bash $here/words.sh "${texts[@]}"
if [ ${#objects[@]} -gt 0 ]; then
    try "circles" bash $here/cycles.sh "${objects[@]}"
    try "state" bash $here/state.sh "${objects[@]}"
fi
[ ! -x "$build/sluice" ] || try "settings" env SLUICE="$build/sluice" sh $here/optscan.sh
if command -v shellcheck >/dev/null; then
    try "shell" shellcheck -x -S warning "${scripts[@]}"
fi
if command -v cppcheck >/dev/null; then
    # It must see the list macros; and it takes must_be() for a doubt about the pointer, and uthash's search for its result.
    queue=$(gcc -E -x c - <<<'#include <sys/queue.h>' | sed -n 's/^# 1 "\(.*queue.h\)".*/\1/p')
    try "cppcheck" cppcheck -q -j2 --std=c11 --error-exitcode=1 --enable=warning,portability --inline-suppr --library=posix \
        ${queue:+--include="$queue"} -Iinclude -Isrc --suppress=missingInclude --suppress=nullPointerRedundantCheck \
        --suppress=uninitvar --suppress=varFuncNullUB --suppress=internalAstError "${c_files[@]}"
fi
[ $status -ne 0 ] || echo "lint: in order"
exit $status
