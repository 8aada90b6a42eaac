#!/bin/bash
# selftest.sh - plants one fault after another in a small tree of its own, and fails when lint does not notice one.
set -u
cd "$(dirname "$0")/../.." || exit 1
top=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
missed=0

fresh() {
    rm -rf "${work:?}/tree"
    mkdir -p "$work"/tree/{include/{base,http,redis,proxy},src/{base,http,redis,proxy},conf,tests/unit}
    cd "$work/tree" || exit 1
    cp -r "$top/tests/lint" tests/
    echo 'int base_one(void);' >include/base/one.h
    echo 'int http_two(void);' >include/http/two.h
    echo 'int redis_three(void);' >include/redis/three.h
    echo 'int redis_inner(void);' >src/redis/inner.h
    echo 'int proxy_four(void);' >include/proxy/four.h
    printf '#include "base/one.h"\n\nint base_one(void)\n{\n    return 1;\n}\n' >src/base/one.c
    printf '#include "http/two.h"\n\n#include "base/one.h"\n\nint http_two(void)\n{\n    return base_one();\n}\n' >src/http/two.c
    touch Makefile README.md
}

compile() {
    local source
    for source in src/*/*.c; do
        mkdir -p "build/$(dirname "$source")"
        gcc -fPIE -Iinclude -Isrc -c -o "build/${source%.c}.o" "$source" 2>/dev/null
    done
}

# expect NAME WORDS: lint must now fail and say WORDS.
expect() {
    local said
    compile
    if said=$(bash tests/lint/lint.sh build) || ! grep -qF -- "$2" <<<"$said"; then
        echo "lint did not notice: $1"
        printf '%s\n' "$said" | sed 's/^/    /'
        missed=1
    fi
}

fresh
compile
if ! said=$(bash tests/lint/lint.sh build); then
    echo "lint complains about a tree that is in order:"
    printf '%s\n' "$said"
    exit 1
fi

fresh && echo '#include "proxy/four.h"' >>src/base/one.c && expect "an include upwards" 'must not know row'
fresh && echo '#include "redis/three.h"' >>src/http/two.c && expect "a sibling" 'stand in the same row'
fresh && echo '#include "redis/inner.h"' >src/proxy/four.c && expect "another's private header" 'private to src/redis'
fresh && echo '#include "../base/one.h"' >>src/http/two.c && expect "an include by path" 'not of the form'
fresh && mkdir src/odd && echo 'int odd_a;' >src/odd/a.c && expect "a directory without a row" 'has no row'
fresh && printf 'int http_two(void);\nint base_x(void);\nint base_x(void)\n{\n    return http_two();\n}\n' >>src/base/one.c &&
    expect "objects in a circle" 'in a circle'
fresh && printf 'int base_count(void);\nint base_count(void)\n{\n    static int n;\n    return n++;\n}\n' >>src/base/one.c &&
    expect "state in a function" 'keeps state of its own'
fresh && { echo 'int base_long(void);' && echo 'int base_long(void)' && echo '{' && yes '    ;' | head -120 && echo '    return 0;' &&
    echo '}'; } >>src/base/one.c && expect "a long function" 'more than 120'
fresh && yes '' | head -801 >>src/base/one.c && expect "a long file" 'more than 800'
fresh && printf 'int base_b(void);\nint base_b(void) {\n    return 0;\n}\n' >>src/base/one.c && expect "a brace out of place" 'line of its own'
fresh && echo '/* T''ODO */' >>src/base/one.c && expect "an unfinished mark" 'unfinished'
fresh && echo 'see /w''ork/x' >README.md && expect "a path of one machine" 'a path of one machine'
fresh && echo '#define BASE_COPY(a, b) str''cpy(a, b)' >>src/base/one.c && expect "an unbounded copy" 'without a bound'
fresh && echo 'void t(void) { us''leep(1); }' >tests/unit/test_x.c && expect "a test that sleeps" 'sleeps instead'
fresh && touch notes.txt && expect "a stray file at the top" 'does not belong at the top'

[ $missed -ne 0 ] || echo "lint: notices all that it should"
exit $missed
