"""Limits that cannot be kept, and replicas that were told different ones: refused at the start, or shouted about with what to do."""
import signal

import pytest

from fleet import S, Fleet, eventually, metrics, now, sleep_until, smallest_gap
from origin import most_in_window
from rig import ini, with_file


@pytest.mark.quick
@pytest.mark.parametrize("keys, words", [
    ({"horizon": "50ms", "late": "80ms"}, ["horizon", "50ms", "shorter than late, 80ms", "make it at least that long"]),
    ({"on_redis_down": "reserve", "outage_permits": "6", "replicas_max": "4"}, ["24", "more than the 20 of rate", "lower one of the two"]),
    ({"on_redis_down": "reserve", "outage_permits": "5", "replicas_max": "4"}, ["all of rate", "nothing is left", "lower one of the two"]),
    ({"on_redis_down": "reserve"}, ["outage_permits of at least 1"])])
def test_limits_that_cannot_be_kept_end_the_start(tmp_path, keys, words):
    answer = with_file(tmp_path, ini(redis={"url": "unix:/nowhere"}, destinations={"t": {"hosts": "h.test", "rate": "20/s", **keys}}))
    said = answer.stdout + answer.stderr
    assert answer.returncode not in (0, None) and all(word in said for word in words), said


def differing(sluice):
    return sluice.events("limits_differ")


@pytest.mark.quick
def test_different_rates_on_two_replicas_are_shouted_about_and_the_smaller_one_is_kept(rig, figures):
    fleet = Fleet(rig, "20/s", replicas=1)
    other = fleet.add(rate="40/s")
    fleet.load()
    shouts = [sluice.wait_event("limits_differ")[0] for sluice in fleet.replicas]
    assert all(shout["level"] == "error" and shout["destination"] == "t" and "same settings" in shout["what_to_do"] for shout in shouts)
    assert [shout["limits"].split(" late")[0] for shout in shouts] == ["rate 20/1s", "rate 40/1s"]
    assert [shout["other_limits"].split(" late")[0] for shout in shouts] == ["rate 40/1s", "rate 20/1s"]
    names = [shout["replica"] for shout in shouts]
    assert names == [shout["other_replica"] for shout in reversed(shouts)] and names[1].endswith(f"/{other.pid}")
    since = fleet.flowing() + S // 2  # what was granted before the other was known has left by then
    sleep_until(since + 4 * S)
    stamps = fleet.stamps(since)
    most = most_in_window(stamps, S)
    figures(most=most, of="20, where one was told 40", gap_min_ms=smallest_gap(stamps))
    assert most <= 20
    assert all(len(differing(sluice)) == 1 for sluice in fleet.replicas), "once a minute is often enough"
    assert all('sluice_limits_differ_total{destination="t"} 0' not in metrics(sluice) for sluice in fleet.replicas)


@pytest.mark.parametrize("end", [signal.SIGTERM, pytest.param(signal.SIGKILL, marks=pytest.mark.quick)], ids=["SIGTERM", "SIGKILL"])
def test_a_replica_that_comes_back_with_another_rate_is_no_difference(rig, figures, end):
    """What its predecessor said is still in Redis for a while, but its predecessor is not there any more."""
    fleet = Fleet(rig, "20/s", replicas=1)
    fleet.load()
    fleet.flowing()
    sleep_until(now() + 2 * S)
    fleet.unload()
    fleet.replicas[0].signal(end)
    eventually(lambda: not fleet.replicas[0].alive())
    assert fleet.redis.command_all("KEYS", "*:m"), "the predecessor's word is still there"
    successor = fleet.add(rate="40/s")
    fleet.load()
    since = fleet.wait_arrivals(20, since=now())[0]
    sleep_until(since + 4 * S)
    stamps = fleet.stamps(since + S)
    figures(most=most_in_window(stamps, S), of=40)
    assert not differing(successor) and most_in_window(stamps, S) > 20


def test_replicas_without_callers_find_out_too(rig, figures):
    """Twice a minute each says its limits, whether anybody waits or not."""
    fleet = Fleet(rig, "20/s", replicas=1)
    fleet.add(rate="40/s")
    begun = now()
    for sluice in fleet.replicas:
        sluice.wait_event("limits_differ", seconds=65)
    figures(found_after_ms=now() - begun)


def test_the_limits_of_a_killed_replica_are_forgotten_after_a_minute(rig, figures):
    fleet = Fleet(rig, "20/s", replicas=1)
    fleet.add(rate="40/s")
    fleet.load(100)
    fleet.replicas[1].wait_event("limits_differ")
    killed = now()
    fleet.replicas[0].kill()
    waited = eventually(lambda: len(s := fleet.stamps(now() - 2 * S)) >= 60 and now(), seconds=80, why="40/s again")
    figures(forgotten_after_ms=waited - killed, shouts=len(differing(fleet.replicas[1])))
    assert len(differing(fleet.replicas[1])) <= 2
