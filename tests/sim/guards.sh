#!/bin/bash
# SIM_OBJ=OBJECTS CC=COMPILER LIBS=LIBS guards.sh BUILD [RUNS] - takes the guards of pacing away one by one and lets the simulator look for what they guard against.
# Each is a change to one source file, made on a copy; a guard that is not there any more, or whose loss nobody notices, fails.
set -u
build=${1:-build} runs=${2:-2000}
cd "$(dirname "$0")/../.." || exit 1
bad=0

compile() {
    local name=${1##*/}
    name=${name%.lua}
    if [ "$name" != "${1##*/}" ]; then
        { printf '#include "redis/link.h"\nextern const struct script script_%s;\nconst struct script script_%s = {"%s",\n' "$name" "$name" "$name"
            sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/.*/"&\\n"/' "$1"
            printf ', 0};\n'; } >"$1.c"
        set -- "$1.c"
    fi
    $CC -Isrc -c -o "$1.o" "$1" && changed=$1.o
}

# without NAME FILE FROM TO: FROM is a text that must be there once.
without() {
    local name=$1 file=$2 copy=$build/sim/without/$1/$2 changed objects=
    mkdir -p "$(dirname "$copy")"
    FROM=$3 TO=$4 python3 -c '
import os, sys
text = open(sys.argv[1], encoding="utf-8").read()
found = text.count(os.environ["FROM"])
if found != 1:
    sys.exit("guards: %s has this %d times instead of once: %s" % (sys.argv[1], found, os.environ["FROM"]))
open(sys.argv[2], "w", encoding="utf-8").write(text.replace(os.environ["FROM"], os.environ["TO"]))
' "$file" "$copy" && compile "$copy" || { bad=1; return; }
    for object in $SIM_OBJ; do
        [ "$object" = "$build/${file%.*}.o" ] || objects="$objects $object"
    done
    # shellcheck disable=SC2086
    $CC -o "$build/sim/without/$name/sim" $objects "$changed" $LIBS || { bad=1; return; }
    printf 'without %-24s ' "$name"
    "$build/sim/without/$name/sim" --without "$runs" || bad=1
}

without late-check src/outbound/pacer.c 'while (pacer->hand.count > 0 && pacer->hand.held[0].window.last.us < now.us) {' \
    'while (pacer->hand.count > 0 && (pacer->hand.held[0].window.last = mono_add(now, 1000), false)) {'
without epoch src/lua/reserve.lua 'if marker[1] ~= rid or since > now or ' 'if n == 0 or '
without step-detection src/outbound/slots_redis.c 'if (step == WINDOW_STEADY) {' 'if (step != WINDOW_STEP_BACKWARD || now.us > 0) {'
without floor src/lua/reserve.lua '  tat = max(tat, floor_us)' ''
without spacing src/conf/policy.c 'wide displacement = policy_displacement_us(policy);' 'wide displacement = 0;'
without quarantine src/lua/reserve.lua 'tat = max(tat, since + beyond)' 'tat = max(tat, now)'
without listening src/outbound/slots_asker.c 'if (is_stale(self, call->sent) || call->answered.us < self->listen_until.us) {' \
    'if (is_stale(self, call->sent)) {'
without settle-check src/lua/settle.lua "if redis.call('HGET', KEYS[1], 'tat') ~= ARGV[2] then return 0 end" ''
exit $bad
