"""Sequences of all these faults, several at a time, from fixed seeds: never one too many, and in the end all goes on.

CHAOS_SEEDS says how many sequences, CHAOS_FIRST the first seed: `make chaos CHAOS_SEEDS=200`. What is printed is the schedule.
"""
import heapq
import itertools
import os
import random
import signal

import pytest

from fleet import MS, S, Fleet, now, sleep_until

SEEDS, FIRST, SECONDS = int(os.environ.get("CHAOS_SEEDS") or 16), int(os.environ.get("CHAOS_FIRST") or 1), 9


class Chaos:
    """Faults begin at random times, last for a random while, and are undone."""

    def __init__(self, fleet, seed):
        self.fleet, self.dice, self.ends, self.order = fleet, random.Random(seed), [], itertools.count()
        self.said, self.begun = [], now()

    def say(self, what):
        self.said.append(f"{(now() - self.begun) / S:.3f} s: {what}")

    def later(self, low, high, undo):
        heapq.heappush(self.ends, (now() + int(self.dice.uniform(low, high) * S), next(self.order), undo))

    def freeze(self):
        sluice = self.dice.choice(self.fleet.alive())
        sluice.signal(signal.SIGSTOP)
        self.later(0.05, 1.5, lambda: sluice.alive() and sluice.signal(signal.SIGCONT))

    def kill(self):
        if len(self.fleet.alive()) > 2:
            self.dice.choice(self.fleet.alive()).kill()
            self.later(0.0, 0.5, self.join)

    def join(self):
        self.fleet.load(30, only=[self.fleet.add(wait=False)])

    def empty_redis(self):
        self.fleet.redis.kill()
        self.fleet.redis.start()

    def flush(self):
        self.fleet.redis.command("FLUSHALL")

    def forget_scripts(self):
        self.fleet.redis.command("SCRIPT", "FLUSH")

    def freeze_redis(self):
        process = self.fleet.redis.process
        process.signal(signal.SIGSTOP)
        sleep_until(now() + int(self.dice.uniform(0.02, 1.0) * S))
        process.signal(signal.SIGCONT)

    def step_clock(self):
        self.fleet.clock.step(int(self.dice.choice([1, -1]) * self.dice.choice([2_000, 20_000, 200_000, 5_000_000])))

    def cut_off(self):
        relay = self.dice.choice(self.fleet.relays)
        relay.mute = True
        self.later(0.2, 1.5, lambda: setattr(relay, "mute", False))

    def black_hole(self):
        relay = self.dice.choice(self.fleet.relays)
        relay.hole = True
        self.later(0.2, 1.5, lambda: setattr(relay, "hole", False))

    def delay(self):
        relay = self.dice.choice(self.fleet.relays)
        relay.delay = (self.dice.uniform(0.02, 0.5), self.dice.uniform(0.001, 0.3))
        self.later(0.3, 2, lambda: setattr(relay, "delay", (0.0, 0.0)))

    def lose_an_answer(self):
        self.dice.choice(self.fleet.relays).cut_next += 1

    def hang_up(self):
        load = self.dice.choice(self.fleet.loads)
        load.end()
        self.fleet.load(30, only=[sluice for sluice in self.fleet.alive() if sluice is self.fleet.replicas[load.number]] or None)

    def play(self, seconds):
        faults = [self.freeze, self.freeze, self.kill, self.empty_redis, self.flush, self.forget_scripts, self.freeze_redis, self.step_clock,
                  self.step_clock, self.cut_off, self.black_hole, self.delay, self.lose_an_answer, self.hang_up]
        end = self.begun + seconds * S
        while now() < end or self.ends:
            following = now() + int(self.dice.expovariate(2.0) * S) if now() < end else 1 << 62
            while self.ends and self.ends[0][0] <= following:
                at, _, undo = heapq.heappop(self.ends)
                sleep_until(at)
                undo()
            if following < end:
                sleep_until(following)
                fault = self.dice.choice(faults)
                self.say(fault.__name__)
                fault()


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.quick if seed == FIRST else ()) for seed in
                                  range(FIRST, FIRST + SEEDS)])
def test_random_faults(rig, figures, seed):
    fleet = Fleet(rig, "20/500ms", relays=True, shifted=True)
    fleet.load(30)
    fleet.flowing()
    chaos = Chaos(fleet, seed)
    chaos.play(SECONDS)
    print("\n".join(chaos.said))
    fleet.wait_arrivals(10, since=now() + 50 * MS)
    figures(most=fleet.strict(), of=20, faults=len(chaos.said), arrivals=len(fleet.stamps()), late=fleet.slots("late"))
