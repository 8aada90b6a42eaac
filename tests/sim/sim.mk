# The simulator: the real outbound and the real scripts, in virtual time. `make sim` plays every scenario, 10,000 random fault
# sequences, and the guards taken away one by one; `make sim-quick` fewer, `make sim-long` many more.
# `$(B)/sim/sim --seed N` repeats one random fault sequence, `--runs N --first S` plays others.
SIM_SRC = $(filter-out src/outbound/fleet.c,$(wildcard src/outbound/*.c)) src/conf/policy.c src/conf/feedback.c src/base/histogram.c src/base/mem.c src/base/must.c src/base/str.c \
          tests/sim/sim.c tests/sim/chance.c tests/sim/fleet.c tests/sim/link_virtual.c tests/sim/fake_redis.c \
          tests/sim/fake_commands.c tests/sim/loop_virtual.c tests/sim/policy_fixed.c tests/sim/log_quiet.c
SIM_OBJ = $(SIM_SRC:%.c=$(B)/%.o) $(addprefix $(B)/src/lua/,reserve.o settle.o pause.o members.o fly.o word.o)
LUA51_LIBS = $(shell $(PKG_CONFIG) --libs lua5.1)

# Only the fake Redis includes Lua.
$(B)/tests/sim/fake_redis.o $(B)/tests/sim/fake_commands.o: CPPFLAGS += $(shell $(PKG_CONFIG) --cflags lua5.1)
# Unit tests that run the scripts.
$(B)/unit/test_vectors $(B)/unit/test_claim $(B)/unit/test_strikes $(B)/unit/test_word $(B)/unit/test_outage $(B)/unit/test_fleet $(B)/unit/test_admission $(B)/unit/test_admission_bounds $(B)/unit/test_admission_vectors: UNIT_LIBS += $(LUA51_LIBS)

$(B)/sim/sim: $(SIM_OBJ)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LUA51_LIBS) -lm

# The same with other programs than sim.c: several limits at once.
LIMITS_OBJ = $(filter-out $(B)/tests/sim/sim.o $(B)/tests/sim/chance.o,$(SIM_OBJ)) $(B)/tests/sim/limits.o
$(B)/sim/limits: $(LIMITS_OBJ)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LUA51_LIBS) -lm

# Two processes at a time.
SIM_RUNS ?= 10000
SIM_FIRST ?= 1
random = seq 0 3 | xargs -P 2 -I@ sh -c '$(B)/sim/sim --runs $$(($(1) / 4)) --first $$(($(SIM_FIRST) + @ * $(1) / 4))'

sim: $(B)/sim/sim $(B)/sim/limits
	@$(B)/sim/sim
	@$(B)/sim/limits
	@seq 0 1 | xargs -P 2 -I@ sh -c '$(B)/sim/limits --runs 150 --first $$((100 + @ * 150))'
	@$(call random,$(SIM_RUNS))
	@SIM_OBJ="$(SIM_OBJ)" CC="$(CC) $(CSTD) $(CFLAGS) $(CPPFLAGS)" LIBS="$(LUA51_LIBS) -lm" bash tests/sim/guards.sh $(B)
sim-quick: $(B)/sim/sim $(B)/sim/limits
	@$(B)/sim/sim
	@$(B)/sim/limits
	@$(call random,600)
sim-long: $(B)/sim/sim
	@$(MAKE) --no-print-directory sim SIM_RUNS=200000

-include $(SIM_OBJ:.o=.d) $(B)/tests/sim/limits.d
.PHONY: sim sim-quick sim-long
