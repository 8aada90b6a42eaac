# sluice: build, run, test.  `make help` lists the targets.

B ?= build
ifeq ($(origin CC),default)
CC = gcc
endif
CFLAGS ?= -O2 -g
PKGS = libcurl libevent hiredis inih libcrypto libssl jansson ncurses
PKG_CONFIG ?= pkg-config
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
CONF ?= conf/sluice-minimal.ini
LISTEN ?= 127.0.0.1:3128
PY = /usr/bin/python3
SHELL = /bin/bash

WARN = -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith
CPPFLAGS += -Iinclude -D_GNU_SOURCE
CSTD = -std=c11 -pthread
LLHTTP = /usr/share/llhttp
LLHTTP_FLAGS = -DLLHTTP_STRICT_MODE=1 -isystem /usr/share/include/llhttp

# A stack that notices being overrun, checked copies, everything relocatable and nothing writable that need not be. The
# checked copies need an optimising compiler and get in the way of the sanitizers' own.
HARDEN = -fPIE -fstack-protector-strong \
    $(if $(findstring -fsanitize,$(CFLAGS)),,$(if $(filter -O1 -O2 -O3 -Os,$(CFLAGS)),-D_FORTIFY_SOURCE=2))
LDHARDEN = -pie -Wl,-z,relro,-z,now

SAN_CFLAGS = -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
SAN_MAKE = $(MAKE) --no-print-directory B=build/asan CFLAGS="$(SAN_CFLAGS)"
COV_MAKE = $(MAKE) --no-print-directory B=build/cov CFLAGS="-O0 -g --coverage"

SRC := $(wildcard src/*.c src/*/*.c)
LUA := $(wildcard src/lua/*.lua)
OBJ := $(SRC:%.c=$(B)/%.o)
LUA_OBJ := $(LUA:%.lua=$(B)/%.o)
PAGE_OBJ := $(B)/src/admin/page.o
LLHTTP_OBJ := $(B)/llhttp/llhttp.o $(B)/llhttp/api.o $(B)/llhttp/http.o
LIBS = $(shell $(PKG_CONFIG) --libs $(PKGS)) -levent_openssl -lcrypt -lm -pthread

# One line per step; V=1 shows the commands.
Q = $(if $(V),,@)
say = @$(if $(V),:,printf '  %-4s %s\n' $(1) $(2))

all: $(B)/sluice

# ---- building

$(OBJ) $(LLHTTP_OBJ): | tools
tools:
	@command -v $(CC) >/dev/null && command -v $(PKG_CONFIG) >/dev/null && $(PKG_CONFIG) --exists $(PKGS) && \
	  [ -d $(LLHTTP) ] || { echo "A compiler or a library is missing: \`make deps\` installs them (so does \`make run\`)." >&2; exit 1; }

$(B)/sluice: $(OBJ) $(LUA_OBJ) $(PAGE_OBJ) $(LLHTTP_OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDHARDEN) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CSTD) $(CFLAGS) $(HARDEN) $(WARN) $(CPPFLAGS) -Isrc $(LLHTTP_FLAGS) -MMD -MP -c -o $@ $<

$(B)/llhttp/%.o: $(LLHTTP)/%.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) -std=c11 $(CFLAGS) $(HARDEN) $(LLHTTP_FLAGS) -c -o $@ $<

# A script becomes a C string under its own name: src/lua/reserve.lua -> struct script script_reserve.
$(B)/src/lua/%.c: src/lua/%.lua
	@mkdir -p $(@D)
	$(call say,LUA,$<)
	$(Q){ printf '#include "redis/link.h"\nextern const struct script script_$*;\nconst struct script script_$* = {"$*",\n'; \
	  sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/.*/"&\\n"/' $<; printf ', 0};\n'; } > $@

$(B)/src/lua/%.o: $(B)/src/lua/%.c
	$(Q)$(CC) $(CSTD) $(CFLAGS) $(HARDEN) $(CPPFLAGS) -c -o $@ $<

# The page of operators becomes a C string, as it is. (In C even two question marks may mean something.)
$(B)/src/admin/page.c: src/admin/page.html
	@mkdir -p $(@D)
	$(call say,HTML,$<)
	$(Q){ printf '#include "admin/page.h"\nconst char admin_page[] =\n'; \
	  sed -e 's/[\\"?]/\\&/g' -e 's/.*/"&\\n"/' $<; printf ';\n'; } > $@

$(PAGE_OBJ): $(B)/src/admin/page.c src/admin/page.h
	$(Q)$(CC) $(CSTD) $(CFLAGS) $(HARDEN) $(CPPFLAGS) -Isrc -c -o $@ $<

# A unit test names what it links in its first line: /* links: src/base/str.c src/conf/ */
UNIT := $(patsubst tests/unit/%.c,$(B)/unit/%,$(wildcard tests/unit/test_*.c))
UNIT_LIBS = $(LIBS) $(shell $(PKG_CONFIG) --libs check)
links = $(addprefix $(B)/,$(patsubst %.lua,%.o,$(patsubst %.c,%.o,$(foreach l,$(shell sed -n '1s|^/\* links: \(.*\) \*/$$|\1|p' $(1)),$(if $(filter %/,$(l)),$(wildcard $(l)*.c),$(l))))))
.SECONDEXPANSION:
$(B)/unit/%: $(B)/tests/unit/%.o $$(call links,tests/unit/$$*.c) $(LLHTTP_OBJ)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDHARDEN) $(LDFLAGS) -o $@ $^ $(UNIT_LIBS)

# A measuring program names what it links in the same way.
$(B)/bench/%: $(B)/tests/bench/%.o $$(call links,tests/bench/$$*.c)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDHARDEN) $(LDFLAGS) -o $@ $^ $(LIBS)

# The rig: a third party that keeps the time, callers that all come at once, and what judges and draws the two.
RIG = $(B)/rig/origin $(B)/rig/burst $(B)/rig/judge $(B)/rig/chart $(B)/rig/clockshift.so
rig: $(RIG)
$(B)/rig/origin $(B)/rig/burst: $(B)/rig/%: $(B)/tests/rig/%.o $(B)/tests/rig/net.o $(LLHTTP_OBJ)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDHARDEN) $(LDFLAGS) -o $@ $^ -levent_core
# Preloaded into a redis-server, moves its clock.
$(B)/rig/clockshift.so: tests/chaos/clockshift.c
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CSTD) -O2 -fPIC -shared $(WARN) $(CPPFLAGS) -o $@ $<
$(B)/rig/judge $(B)/rig/chart: $(B)/rig/%: $(B)/tests/rig/%.o $(B)/tests/rig/series.o
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDHARDEN) $(LDFLAGS) -o $@ $^ -lm

# ---- running

deps:
	@sh tests/rig/install.sh build

# exec, so that Ctrl-C and the like reach sluice itself.
run: deps
	@$(MAKE) --no-print-directory -j2 all
	@printf '\nsluice is about to listen on $(LISTEN). In the shell of the program whose calls it shall pace:\n\n'
	@printf '    export HTTP_PROXY=http://$(LISTEN) http_proxy=http://$(LISTEN)\n'
	@printf '    export HTTPS_PROXY=http://$(LISTEN) https_proxy=http://$(LISTEN)\n'
	@printf '    export NO_PROXY=localhost,127.0.0.1 no_proxy=localhost,127.0.0.1\n\nWith an [admin] on 127.0.0.1:3129, as in conf/sluice-minimal.ini: http://127.0.0.1:3129/ shows it live. Ctrl-C ends it.\n\n'
	@exec $(B)/sluice -c $(CONF)

demo:
	@sh tests/rig/install.sh demo
	@$(MAKE) --no-print-directory -j2 all rig
	@exec bash tests/rig/demo.sh $(B)

# Settings that are there stay as they are. Nothing is started, and no user is made: systemd-sysusers does that.
INSTALLED = $(PREFIX)/bin/sluice $(MANDIR)/man8/sluice.8 $(MANDIR)/man5/sluice.ini.5 $(UNITDIR)/sluice.service \
    $(UNITDIR)/sluice.socket $(PREFIX)/lib/sysusers.d/sluice.conf $(BASHDIR)/sluice $(ZSHDIR)/_sluice $(FISHDIR)/sluice.fish
MANDIR = $(PREFIX)/share/man
UNITDIR = $(PREFIX)/lib/systemd/system
BASHDIR = $(PREFIX)/share/bash-completion/completions
ZSHDIR = $(PREFIX)/share/zsh/site-functions
FISHDIR = $(PREFIX)/share/fish/vendor_completions.d
place = install -D -m $(1) $(2) $(DESTDIR)$(3)
place_in = install -d $(DESTDIR)$(2) && sed -e 's|@BINDIR@|$(PREFIX)/bin|' -e 's|@SYSCONFDIR@|$(SYSCONFDIR)|' conf/systemd/$(1) \
    >$(DESTDIR)$(2)/$(1) && chmod 644 $(DESTDIR)$(2)/$(1)
install: all
	$(call place,755,$(B)/sluice,$(PREFIX)/bin/sluice)
	$(call place,644,conf/man/sluice.8,$(MANDIR)/man8/sluice.8)
	install -d $(DESTDIR)$(MANDIR)/man5
	$(B)/sluice --manual >$(DESTDIR)$(MANDIR)/man5/sluice.ini.5
	chmod 644 $(DESTDIR)$(MANDIR)/man5/sluice.ini.5
	$(call place_in,sluice.service,$(UNITDIR))
	$(call place_in,sluice.socket,$(UNITDIR))
	$(call place,644,conf/sysusers/sluice.conf,$(PREFIX)/lib/sysusers.d/sluice.conf)
	$(call place,644,conf/completion/sluice.bash,$(BASHDIR)/sluice)
	$(call place,644,conf/completion/_sluice,$(ZSHDIR)/_sluice)
	$(call place,644,conf/completion/sluice.fish,$(FISHDIR)/sluice.fish)
	[ -e $(DESTDIR)$(SYSCONFDIR)/logrotate.d/sluice ] || $(call place,644,conf/logrotate/sluice,$(SYSCONFDIR)/logrotate.d/sluice)
	[ -e $(DESTDIR)$(SYSCONFDIR)/sluice/sluice.ini ] || $(call place,644,conf/sluice.ini,$(SYSCONFDIR)/sluice/sluice.ini)

uninstall:
	rm -f $(addprefix $(DESTDIR),$(INSTALLED)) $(DESTDIR)$(SYSCONFDIR)/logrotate.d/sluice
	@[ ! -e $(DESTDIR)$(SYSCONFDIR)/sluice ] || echo "left as it is: $(DESTDIR)$(SYSCONFDIR)/sluice"

VERSION = $(shell sed -n 's/.*SLUICE_VERSION "\(.*\)"/\1/p' include/app/app.h)
deb: all
	@sh conf/debian/build.sh $(B) $(VERSION)

# ---- testing

check:
	@sh tests/rig/install.sh check
	@$(MAKE) --no-print-directory -j2 all rig units
	@$(MAKE) --no-print-directory lint-selftest lint
	@$(MAKE) --no-print-directory unit sim-quick
	@$(MAKE) --no-print-directory integration
	@$(MAKE) --no-print-directory asan
	@echo "check: all passed"

# Two tests at a time, each one's words kept together; all are run before a failure ends it.
units: $(UNIT)
unit: units
	@printf '%s\n' $(UNIT) | xargs -r -P 2 -n 1 sh -c 'words=$$("$$0" 2>&1); rc=$$?; printf "%s\n" "$$words"; exit $$rc'

# The whole once more with every memory access and every undefined operation watched.
asan:
	@$(SAN_MAKE) -j2 all units
	@echo "unit tests, watched by the address and undefined-behaviour sanitizers:"
	@$(SAN_MAKE) unit
	@$(MAKE) --no-print-directory fuzz-quick
	@$(SAN_MAKE) integration

PYTESTS = $(dir $(firstword $(wildcard tests/integration/test_*.py))) $(dir $(firstword $(wildcard tests/clients/test_*.py)))
PYTEST = env -u http_proxy -u https_proxy -u HTTP_PROXY -u HTTPS_PROXY PYTHONDONTWRITEBYTECODE=1 \
    SLUICE=$(abspath $(B))/sluice RIG=$(abspath $(B))/rig $(PY) -m pytest -o cache_dir=$(abspath $(B))/pytest -q -n $(JOBS)
# Tests mostly wait, so more of them than there are cores run at a time.
JOBS ?= 3
REPORTS = $(abspath $(B))/reports
integration: all rig
	@rm -rf $(REPORTS); mkdir -p $(REPORTS)
	@export ASAN_OPTIONS=detect_leaks=1:log_path=$(REPORTS)/asan UBSAN_OPTIONS=print_stacktrace=1:log_path=$(REPORTS)/ubsan; \
	  for tests in $(PYTESTS) "-m quick tests/chaos"; do timeout 400 $(PYTEST) $$tests || \
	    { echo "once more and one by one, what failed: the machine may have been too busy"; timeout 300 $(PYTEST) -n 0 --lf $$tests; } || exit 1; done
	@! cat $(REPORTS)/* 2>/dev/null

# FULL=1: the paces of HTTPS too, 100 requests at 10/s in each mode.
clients: all
	@$(if $(FULL),FULL=1 )$(PYTEST) tests/clients $(if $(FULL),tests/integration/test_https_pace.py)

# Whole fleets with everything that can break, broken: some minutes. CHAOS_SEEDS random sequences, from CHAOS_FIRST on.
CHAOS_JOBS ?= 2
export CHAOS_SEEDS CHAOS_FIRST
chaos: all rig
	@$(PYTEST) -n $(CHAOS_JOBS) tests/chaos

# valgrind follows no fork, so tests that expect a child to die are left to the sanitizers.
VALGRIND_TESTS = $(patsubst tests/unit/%.c,$(B)/unit/%,$(shell grep -LE 'raise_signal|exit_test' tests/unit/test_*.c))
valgrind: units
	@set -e; for t in $(VALGRIND_TESTS); do echo "valgrind $$t"; \
	  CK_FORK=no valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite $$t; done

bench: all rig $(B)/bench/admission $(B)/bench/leaves
	@$(B)/bench/admission
	@bash tests/bench/pacing.sh $(B)
	@$(PY) tests/bench/fleet.py $(B) $(B)/fleet.json
	@bash tests/bench/waiting.sh $(B)
	@$(PY) tests/bench/inbound.py $(B)
	@$(PY) tests/bench/inbound_bounds.py $(B)
	@$(PY) tests/bench/limits.py $(B)
	@$(PY) tests/bench/reload.py $(B)
	@$(PY) tests/bench/https.py $(B)
	@$(B)/bench/leaves

coverage:
	@rm -rf build/cov/src build/cov/unit
	@$(COV_MAKE) -j2 all units
	@$(COV_MAKE) unit
	@$(COV_MAKE) integration
	@bash tests/lint/coverage.sh build/cov

# A fuzz target is tests/fuzz/fuzz_X.c with a first line like a unit test's; it starts from tests/fuzz/corpus/X.
FUZZ_SECONDS ?= 60
FUZZ := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_MAKE = $(MAKE) --no-print-directory B=build/fuzz CC=clang CFLAGS="-O1 -g -fsanitize=fuzzer-no-link,address,undefined"
fuzz:
	@command -v clang >/dev/null || { echo "fuzz: needs clang (apt-get install clang)" >&2; exit 1; }
	@$(FUZZ_MAKE) -j2 $(FUZZ:%=build/fuzz/%)
	@set -e; for t in $(FUZZ); do seeds=tests/fuzz/corpus/$${t#fuzz_}; mkdir -p build/fuzz/corpus/$$t; \
	  build/fuzz/$$t -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 -artifact_prefix=build/fuzz/ build/fuzz/corpus/$$t $$([ -d $$seeds ] && echo $$seeds); done

# What CI has time for, with gcc alone: the corpora, and changed copies of them, watched by the sanitizers.
FUZZ_QUICK_SECONDS ?= 2
fuzz-quick:
	@$(SAN_MAKE) -j2 $(FUZZ:%=build/asan/alone/%)
	@rm -rf build/asan/failed; mkdir -p build/asan/failed
	@printf '%s\n' $(FUZZ:fuzz_%=%) | xargs -r -P 2 -n 1 sh -c \
	  'exec build/asan/alone/fuzz_$$0 $(FUZZ_QUICK_SECONDS) build/asan/failed/$$0 tests/fuzz/corpus/$$0' \
	  || { echo "fuzz-quick: the inputs that failed are in build/asan/failed" >&2; exit 1; }
$(FUZZ:%=$(B)/alone/%): $(B)/alone/fuzz_%: $(B)/tests/fuzz/fuzz_%.o $(B)/tests/fuzz/alone.o $$(call links,tests/fuzz/fuzz_$$*.c) $(LLHTTP_OBJ)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDHARDEN) $(LDFLAGS) -o $@ $^ $(LIBS)

$(FUZZ:%=$(B)/%): $(B)/fuzz_%: $(B)/tests/fuzz/fuzz_%.o $$(call links,tests/fuzz/fuzz_$$*.c) $(LLHTTP_OBJ)
	$(Q)$(CC) $(CFLAGS) -fsanitize=fuzzer,address,undefined -o $@ $^ $(LIBS)

# ---- looking

LINTED = $(wildcard src/*.c src/*/*.c src/*/*.h include/*/*.h)
lint: $(OBJ) $(LUA_OBJ)
	@bash tests/lint/lint.sh $(B)
lint-selftest:
	@bash tests/lint/selftest.sh

FORMATTED = $(LINTED) $(wildcard tests/*/*.c tests/*/*.h)
fmt:
	clang-format -i $(FORMATTED)
fmt-check:
	clang-format --dry-run -Werror $(FORMATTED)

clean:
	rm -rf build

help:
	@echo "make            build $(B)/sluice                    (CFLAGS, V=1, B=DIR)"
	@echo "make run        install what is missing, build, run on $(LISTEN) with CONF=$(CONF)"
	@echo "make demo       40 calls at once against a limit, drawn: one replica, then three on a Redis"
	@echo "make check      everything the build machine runs: lint, unit, sim, integration, and again under sanitizers"
	@echo "make unit|sim-quick|lint|integration|asan    parts of it"
	@echo "make sim|sim-long    10,000 (200,000) random fault sequences in virtual time, and each guard of pacing taken away"
	@echo "make deps       install what building needs"
	@echo "make chaos      fleets with all that can break, broken: strictness on real processes, with figures (some minutes)"
	@echo "make clients    integration tests with other people's HTTP clients; FULL=1: HTTPS at 10/s for 10 s in each mode, too"
	@echo "make valgrind   unit tests under valgrind"
	@echo "make coverage   lines that the tests reach, per file"
	@echo "make fuzz       FUZZ_SECONDS=$(FUZZ_SECONDS) for each of tests/fuzz"
	@echo "make fuzz-quick FUZZ_QUICK_SECONDS=$(FUZZ_QUICK_SECONDS) for each with gcc alone, as make check does"
	@echo "make bench      admissions per second, pacing under a burst and as a fleet, memory per waiting request; tables"
	@echo "make fmt        clang-format; fmt-check only looks"
	@echo "make install    PREFIX=$(PREFIX) DESTDIR=; make uninstall"
	@echo "make deb        a Debian package, in $(B)"
	@echo "make clean"

-include tests/sim/sim.mk
ifeq ($(wildcard tests/sim/sim.mk),)
sim:
endif

-include $(OBJ:.o=.d) $(wildcard $(B)/tests/*/*.d)
.PHONY: all tools deps run demo install uninstall deb check units unit asan sim integration chaos clients valgrind bench coverage fuzz fuzz-quick rig \
    lint lint-selftest fmt fmt-check clean help
.PRECIOUS: $(B)/%.o $(B)/src/lua/%.c
