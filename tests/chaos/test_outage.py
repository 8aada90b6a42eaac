"""Redis is out of reach, for all or for one: each loss mode does what it says, and everything recovers by itself."""
import pytest

from fleet import LATE, MS, S, Fleet, at_least, eventually, now, sleep_until, stretch, used_between, when
from origin import most_in_window


def drained(fleet, lost):
    """When all that was in hand at the loss has left or passed."""
    return lost + int((len(fleet.replicas) + 1) * fleet.interval) + LATE


@pytest.mark.parametrize("seconds", [10, pytest.param(3, marks=pytest.mark.quick)])
def test_hold_uses_what_is_in_hand_and_then_nothing(rig, figures, seconds):
    """Requests past max_wait are told; after the return there is no burst."""
    fleet = Fleet(rig, "20/s", max_wait="2s")
    fleet.load(15)
    fleet.flowing()
    fleet.redis.kill()
    lost = now()
    told = eventually(lambda: [e for s in fleet.replicas for e in s.events("access") if e["status"] == "504"], why="a 504")
    sleep_until(lost + seconds * S)
    held = fleet.stamps(lost)
    fleet.redis.start()
    back = now()
    fleet.unload()
    fleet.load(15)
    fleet.wait_arrivals(25, since=back)
    figures(most=fleet.strict(), of=20, left_after_the_loss=len(held), told=len(told))
    assert len(held) <= 3 + 3 and all(at <= drained(fleet, lost) for at in held)


@pytest.mark.parametrize("seconds", [10, pytest.param(4, marks=pytest.mark.quick)])
def test_reserve_sends_its_permits_and_no_more(rig, figures, seconds):
    """One a second for each of three replicas, from at most a second after the loss on; with the rest never above the rate."""
    fleet = Fleet(rig, "20/s", on_redis_down="reserve", outage_permits="1", replicas_max="3")
    fleet.load()
    fleet.flowing()
    fleet.redis.kill()
    lost = now()
    sleep_until(lost + seconds * S)
    meanwhile = fleet.arrivals(drained(fleet, lost), lost + seconds * S)
    fleet.redis.start()
    back = now()
    fleet.wait_arrivals(20, since=back)
    each = [[a.at for a in meanwhile if a.path.startswith(f"/{n}/")] for n in range(3)]
    figures(most=fleet.strict(), of=20, sent_without_redis=[len(own) for own in each])
    for own in each:
        assert own[0] - lost <= 1.3 * S and most_in_window(own, S) <= 1
        assert len(own) >= seconds - 1.5 - 0.05 * seconds


@pytest.mark.parametrize("mode", ["hold", "reserve"])
def test_a_replica_that_is_cut_off_leaves_its_share_to_the_others(rig, figures, mode):
    """Its questions arrive, the answers do not, and nothing is closed. It notices by its timeout of half a second."""
    more = {"on_redis_down": mode, **({"outage_permits": "1", "replicas_max": "3"} if mode == "reserve" else {})}
    fleet = Fleet(rig, "20/s", relays=True, **more)
    fleet.load()
    fleet.flowing()
    fleet.relays[0].mute = True
    cut = now()
    noticed = when(fleet.replicas[0].wait_event("redis_down")[0])
    sleep_until(cut + 2 * S)
    shared = 20 if mode == "hold" else 17

    def of_the_others():
        since = now()
        sleep_until(since + 8 * S)
        others = [a.at for a in fleet.arrivals() if not a.path.startswith("/0/")]
        return used_between(others, fleet, since, since + 8 * S) * 20 / shared, 8 * S

    used = at_least(0.97, fleet, of_the_others, but=fleet.replicas[0])
    alone = [a.at for a in fleet.arrivals(cut + 2 * S) if a.path.startswith("/0/")]
    fleet.relays[0].mute = False
    back = now()
    eventually(lambda: [a for a in fleet.arrivals(back) if a.path.startswith("/0/")], why="the cut off one is back")
    sleep_until(now() + S)
    figures(most=fleet.strict(), of=20, others_used=used, noticed_ms=noticed - cut, sent_alone=len(alone))
    assert noticed - cut <= 600 * MS + fleet.interval * 4
    assert not alone if mode == "hold" else most_in_window(alone, S) <= 1


def refuses_to_write(redis):
    redis.command("CONFIG", "SET", "min-replicas-to-write", "1")
    return lambda: redis.command("CONFIG", "SET", "min-replicas-to-write", "0")


def becomes_a_copy(redis):
    redis.command("REPLICAOF", "127.0.0.1", "1")
    return lambda: redis.command("REPLICAOF", "NO", "ONE")


def is_out_of_memory(redis):
    redis.command("CONFIG", "SET", "maxmemory", "1")
    return lambda: redis.command("CONFIG", "SET", "maxmemory", "0")


def is_busy_with_a_script(redis):
    """Which runs until it is killed; after 20 ms Redis answers everything with BUSY."""
    redis.command("CONFIG", "SET", "busy-reply-threshold", "20")
    redis.begin("EVAL", "while true do end", "0")
    return lambda: redis.command("SCRIPT", "KILL")


@pytest.mark.parametrize("trouble, word", [(refuses_to_write, "NOREPLICAS"), (becomes_a_copy, "READONLY"), (is_out_of_memory, "OOM"),
                                           (is_busy_with_a_script, "BUSY")], ids=["NOREPLICAS", "READONLY", "OOM", "BUSY"])
def test_a_server_that_cannot_serve_counts_as_lost_until_it_can(rig, figures, trouble, word):
    fleet = Fleet(rig, "20/s")
    fleet.load()
    fleet.flowing()
    began = now()
    cure = trouble(fleet.redis)
    for sluice in fleet.replicas:
        sluice.wait_event("redis_down")
    why = {event["why"] for sluice in fleet.replicas for event in sluice.events("redis_down")}
    lost = now()
    sleep_until(began + 2 * S)
    meanwhile = fleet.stamps(drained(fleet, lost))
    cured = now()
    cure()
    fleet.wait_arrivals(20, since=cured)
    for sluice in fleet.replicas:
        eventually(lambda s=sluice: len(s.events("redis_up")) >= 2, why="up again")
    figures(most=fleet.strict(), of=20, sent_meanwhile=len(meanwhile), reasons=len(why))
    assert any(word in text for text in why), why
    # out of memory, Redis refuses a script at its first write that needs some; one that has written before may go on, and so its
    # grants are on record like any other
    assert word == "OOM" or not meanwhile


def test_a_server_that_is_still_loading_is_waited_for(rig, figures):
    """Four thousand keys, half a millisecond each."""
    fleet = Fleet(rig, "20/s", redis=["--enable-debug-command", "yes", "--dbfilename", "d.rdb"])
    fleet.load()
    fleet.flowing()
    fleet.redis.command("DEBUG", "POPULATE", "4000")
    fleet.redis.command("SAVE")
    fleet.redis.kill()
    lost = now()
    fleet.redis.options += ["--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024"]
    fleet.redis.start(ready="Loading RDB")
    fleet.redis.process.wait_line(lambda line: "ready to accept connections at" in line or "Ready to accept" in line)
    ready = now()
    fleet.wait_arrivals(10, since=ready)
    meanwhile = fleet.stamps(drained(fleet, lost), ready)
    sleep_until(now() + S)
    figures(most=fleet.strict(), of=20, loaded_in_ms=ready - lost, sent_meanwhile=len(meanwhile))
    assert not meanwhile and ready - lost > S
