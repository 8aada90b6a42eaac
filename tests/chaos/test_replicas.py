"""Replicas that freeze, die, come and go, and callers that leave: never too many, and the others use what is left."""
import signal

import pytest

from fleet import HORIZON, LATE, MS, S, Fleet, at_least, eventually, now, sleep_until, stretch, used_between
from wire import Caller


def of(fleet, replica, since=0, until=1 << 62):
    return [a.at for a in fleet.arrivals(since, until) if a.path.startswith(f"/{replica}/")]


def late_slots(fleet, replica):
    return fleet.slots("late", [fleet.replicas[replica]])


@pytest.mark.parametrize("seconds", [pytest.param(3, marks=pytest.mark.quick)])
def test_a_frozen_replica_gives_its_slots_up_and_the_others_go_on(rig, figures, seconds):
    """At most one request that was on its way (R1) comes from before the freeze; nothing is made up for afterwards."""
    fleet = Fleet(rig, "20/s")
    fleet.load()
    fleet.flowing()
    late, frozen, watch = late_slots(fleet, 0), fleet.replicas[0], []

    def freeze():
        since = now()
        frozen.signal(signal.SIGSTOP)
        sleep_until(since + seconds * S)
        until = now()
        frozen.signal(signal.SIGCONT)
        watch.append((since, until))
        fleet.wait_arrivals(10, since=until)
        begin = since + int(3 * fleet.interval)  # the slots in hand at the moment of the freeze are gone by then
        return used_between(fleet.stamps(), fleet, begin, until), until - begin

    used = at_least(0.95, fleet, freeze, but=frozen)
    since, until = watch[-1]
    meanwhile = [at for begin, end in watch for at in of(fleet, 0, begin + 2 * MS, end)]
    lost = late_slots(fleet, 0) - late
    figures(most=fleet.strict(), of=20, others_used=used, of_the_frozen_one=len(meanwhile), slots_given_up=lost)
    assert len(meanwhile) <= len(watch) and 1 <= lost <= 3 * len(watch)
    assert len(fleet.stamps(until, until + S)) <= 20


@pytest.mark.quick
def test_a_fleet_that_is_frozen_as_a_whole_wakes_without_a_burst(rig, figures):
    fleet = Fleet(rig, "20/s")
    fleet.load()
    fleet.flowing()
    for sluice in fleet.replicas:
        sluice.signal(signal.SIGSTOP)
    sleep_until(now() + 3 * S)
    thaw = now()
    for sluice in fleet.replicas:
        sluice.signal(signal.SIGCONT)
    fleet.wait_arrivals(25, since=thaw)
    first = len(fleet.stamps(thaw, thaw + S))
    figures(most=fleet.strict(), of=20, in_the_first_second=first)
    assert first <= 20


@pytest.mark.quick
def test_when_a_replica_is_killed_the_others_use_its_share(rig, figures):
    """From the next second on, although two hundred requests waited in it."""
    fleet = Fleet(rig, "20/s")
    fleet.load(200)
    fleet.flowing()
    fleet.replicas[0].signal(signal.SIGKILL)
    killed = now()
    eventually(lambda: not fleet.replicas[0].alive())
    silence = fleet.wait_arrivals(3, since=killed)
    sleep_until(killed + S)
    used = at_least(0.97, fleet, stretch(fleet, 5))
    figures(most=fleet.strict(), of=20, used=used, first_after_ms=silence[0] - killed)
    assert silence[0] - killed <= 4 * fleet.interval + LATE + 100 * MS, "more than the dead one's slots were lost"


def test_from_three_replicas_to_six_and_down_to_two(rig, figures):
    fleet = Fleet(rig, "20/s")
    fleet.load()
    fleet.flowing()
    listened = []
    for number in range(3, 6):
        sleep_until(now() + 2 * S)
        started = now()
        fleet.load(50, only=[fleet.add(wait=False)])
        listened.append((number, started))
    for number, started in listened:
        eventually(lambda n=number: of(fleet, n), why="a slot for the new one")
    firsts = [of(fleet, number)[0] - started for number, started in listened]
    sleep_until(now() + 2 * S)
    for sluice in fleet.replicas[:4]:
        sluice.signal(signal.SIGKILL)
    killed = now()
    sleep_until(killed + S)
    used = at_least(0.97, fleet, stretch(fleet, 5))
    figures(most=fleet.strict(), of=20, used_by_two=used, new_ones_first_after_ms=min(firsts))
    assert min(firsts) >= HORIZON + fleet.interval


@pytest.mark.quick
def test_callers_that_hang_up_cost_no_slots(rig, figures):
    """Eighty of a hundred at once, in every replica."""
    fleet = Fleet(rig, "20/s")
    fleet.load(20)
    patient = list(fleet.loads)
    fleet.load(80)
    fleet.flowing()
    for load in fleet.loads[len(patient):]:
        load.end()
    used = at_least(0.97, fleet, stretch(fleet, 5))
    figures(most=fleet.strict(), of=20, used=used, wasted=fleet.slots("wasted"))


def test_who_comes_after_a_crowd_has_left_does_not_wait_for_its_turns(rig, figures):
    """Six replicas at 1/s have turns for six seconds; when their callers hang up nobody is left to take them."""
    fleet = Fleet(rig, "1/s", replicas=6)
    fleet.load(5)
    fleet.wait_arrivals(4)
    fleet.unload()
    sleep_until(now() + int(2.2 * S))  # replicas say once a second whether anybody waits
    caller, sent = Caller(fleet.replicas[3].address), now()
    assert caller.get(fleet.third_party.url("/late")).status == 200
    waited = now() - sent
    caller.close()
    figures(most=fleet.strict(), of=1, waited_ms=waited)
    assert waited <= fleet.interval + S // 2
