"""Redis loses what it knew: nothing that was lost can be granted twice, and it does not take long."""
import signal

import pytest

from origin import most_in_window
from rig import free_port
from fleet import DISPLACED, HORIZON, LATE, MS, S, Fleet, Server, at_least, eventually, now, sleep_until, stretch, used_between, when


def resumed(fleet, lost, back):
    """What was in hand may leave, then nothing for a horizon and an interval from the first contact with what came back, then all goes on.
    Gives how long the silence was, counted from that contact."""
    fleet.wait_arrivals(5, since=back + HORIZON)
    contact = min(when(event) for sluice in fleet.replicas for event in sluice.events("redis_up") if when(event) > lost)
    in_hand_until = lost + int(4 * fleet.interval) + LATE
    after = fleet.stamps(in_hand_until)[0]
    assert after >= back + HORIZON + fleet.interval, "granted too early: what the other server granted could not be known"
    assert after - contact <= HORIZON + fleet.interval + S // 2
    return after - contact


@pytest.mark.quick
def test_a_redis_that_is_killed_and_comes_back_empty(rig, figures):
    fleet = Fleet(rig, "20/s")
    fleet.load()
    fleet.flowing()
    fleet.redis.kill()
    lost = now()
    sleep_until(lost + 100 * MS)
    back = now()
    fleet.redis.start()
    silence = resumed(fleet, lost, back)
    sleep_until(now() + S)
    figures(most=fleet.strict(), of=20, silence_after_contact_ms=silence)


@pytest.mark.parametrize("lost_for", [1.0, 0.05, 0.0])
def test_a_copy_takes_over_without_the_last_writes(rig, figures, lost_for):
    """The copy is stopped and cut off, the primary goes on granting and dies, the copy becomes the primary."""
    port = ("--port", str(free_port()))
    fleet = Fleet(rig, "20/s", relays=True, redis=port)
    copy = rig.add(Server(rig.directory / "copy", ["--replicaof", "127.0.0.1", port[1], "--repl-diskless-sync-delay", "0"])).start()
    eventually(lambda: "state=online" in fleet.redis.command("INFO", "replication"), why="the copy is in step")
    fleet.load()
    fleet.flowing()
    if lost_for > 0:
        copy.process.signal(signal.SIGSTOP)
        fleet.redis.command("CLIENT", "KILL", "TYPE", "replica")
        sleep_until(now() + int(lost_for * S))
    fleet.redis.kill()
    lost = now()
    copy.process.signal(signal.SIGCONT)
    copy.command("REPLICAOF", "NO", "ONE")
    back = now()
    for relay in fleet.relays:
        relay.lead_to(copy.path)
    last = fleet.stamps(0, lost)[-1]
    silence = resumed(fleet, lost, back)
    sleep_until(now() + S)
    first = fleet.stamps(back + HORIZON // 2)[0]
    figures(most=fleet.strict(), of=20, silence_after_contact_ms=silence)
    assert first - last >= fleet.interval - DISPLACED


def test_everything_is_flushed_again_and_again(rig, figures):
    fleet = Fleet(rig, "20/s")
    fleet.load()
    fleet.flowing()
    for _ in range(4):
        fleet.redis.command("FLUSHALL")
        sleep_until(now() + 2 * S)
    figures(most=fleet.strict(), of=20, arrivals=len(fleet.stamps()))


@pytest.mark.quick
def test_scripts_are_flushed_and_no_request_fails(rig, figures):
    fleet = Fleet(rig, "20/s")
    load = fleet.load(30, 60)
    fleet.flowing()
    since = now()
    for _ in range(3):
        fleet.redis.command("SCRIPT", "FLUSH")
        sleep_until(now() + S // 2)
    until = now()
    used = at_least(0.9, fleet, lambda: (used_between(fleet.stamps(), fleet, since, until), until - since))
    for load in fleet.loads:
        assert load.exit_code(30) == 0, "a request failed"
    figures(most=fleet.strict(), of=20, used=used)


def test_keys_deleted_by_hand_keep_to_what_each_replica_knows(rig, figures):
    """R5: without the bucket each replica's own floor holds; the worst is that others' slots in hand are granted again."""
    fleet = Fleet(rig, "20/s")
    fleet.load()
    fleet.flowing()
    for _ in range(3):
        for key in fleet.redis.command_all("KEYS", "*:b"):
            fleet.redis.command("DEL", key)
        sleep_until(now() + 2 * S + S // 5)  # so that no window holds two of these
    used = at_least(0.97, fleet, stretch(fleet, 4))
    most = most_in_window(fleet.stamps(), S)
    figures(most=most, of=20, used_afterwards=used)
    assert most <= 20 + 2
