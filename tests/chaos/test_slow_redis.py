"""Redis, or the way there, is slow or loses answers: grants that came too late are given up, not used late."""
import signal

import pytest

from fleet import MS, S, Fleet, at_least, now, sleep_until, stretch


@pytest.mark.parametrize("milliseconds", [pytest.param(400, marks=pytest.mark.quick), 2000])
def test_a_redis_that_is_frozen_for_a_while(rig, figures, milliseconds):
    fleet = Fleet(rig, "20/s", relays=True)
    fleet.load()
    fleet.flowing()
    before = sum(relay.accepted for relay in fleet.relays)
    for _ in range(2):
        fleet.redis.process.signal(signal.SIGSTOP)
        sleep_until(now() + milliseconds * MS)
        fleet.redis.process.signal(signal.SIGCONT)
        thaw = now()
        fleet.wait_arrivals(10, since=thaw)
    sleep_until(now() + S)
    dialled = sum(relay.accepted for relay in fleet.relays) - before
    figures(most=fleet.strict(), of=20, slots_given_up=fleet.slots("late"), connections=dialled)
    assert dialled <= 3 * 2 * milliseconds / 50, "more than one attempt in 50 ms"


@pytest.mark.parametrize("seconds, least", [pytest.param(6, 0.93, marks=pytest.mark.quick), (30, 0.95)])
def test_one_answer_in_fifty_comes_150_ms_late(rig, figures, seconds, least):
    fleet = Fleet(rig, "20/s", relays=True)
    for number, relay in enumerate(fleet.relays):
        relay.dice.seed(number)
        relay.delay = (0.02, 0.15)
    fleet.load()
    fleet.flowing()
    used = at_least(least, fleet, stretch(fleet, seconds))
    figures(most=fleet.strict(), of=20, used=used, delayed=sum(relay.delayed for relay in fleet.relays), late=fleet.slots("late"))


def test_an_answer_that_is_lost_costs_one_slot_and_is_not_asked_for_again(rig, figures):
    """The relay swallows it and closes: the script has run, nobody knows what it said."""
    fleet = Fleet(rig, "20/s", relays=True)
    fleet.load()
    since = fleet.flowing()
    for number in range(6):
        fleet.relays[number % 3].cut_next = 1
        sleep_until(now() + S)
    sleep_until(now() + S)
    cuts = sum(relay.cuts for relay in fleet.relays)
    stamps = fleet.stamps(since)
    missing = (stamps[-1] - stamps[0]) / fleet.interval - (len(stamps) - 1)
    figures(most=fleet.strict(), of=20, answers_lost=cuts, slots_missing=missing)
    assert cuts == 6
    assert missing <= 2 * cuts + 2 + fleet.slots("late"), "a second one is what the closed connection could not ask for in time"
