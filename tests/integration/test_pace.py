"""The point of it all: however calls come, the third party never sees more than N in any half-open window of the
period, and sees close to N while there is a backlog. Judged by the arrival times that the origin's kernel stamped.
"""
import signal
import time

import pytest

from origin import most_in_window
from rig import burst, eventually

LEAST_USED = 0.95  # of N under backlog; the bench measures it finely, a busy machine may cost a few slots


def used(stamps, rate):
    """What share of the rate was used between the first and the last."""
    return (len(stamps) - 1) / (stamps[-1] - stamps[0]) / rate


def check(stamps, count, rate, period=1.0, least=LEAST_USED):
    assert len(stamps) == count
    assert most_in_window(stamps, period) <= rate * period
    assert used(stamps, rate) >= least


@pytest.mark.parametrize("rate, count", [(10, 25), (100, 250)])
def test_a_burst_leaves_at_the_rate(rig, origin, rate, count):
    sluice = rig.sluice(default={"rate": f"{rate}/s"})
    assert rig.crowd([sluice], burst(origin, count)).statuses() == [200] * count
    check(origin.stamps(), count, rate)


def test_slots_are_even_not_bunched(rig, origin):
    """No two calls are closer than the interval less what a release may be late."""
    sluice = rig.sluice(default={"rate": "20/s"})
    rig.crowd([sluice], burst(origin, 40)).statuses()
    stamps = origin.stamps()
    assert min(after - before for before, after in zip(stamps, stamps[1:])) >= 0.05 - 0.015


def test_a_strict_gap_is_never_undercut(rig, origin):
    sluice = rig.sluice(default={"rate": "20/s", "strict": "gap"})
    rig.crowd([sluice], burst(origin, 40)).statuses()
    stamps = origin.stamps()
    assert min(after - before for before, after in zip(stamps, stamps[1:])) >= 0.05


def test_bursts_with_pauses_between_them_earn_no_credit(rig, origin):
    sluice = rig.sluice(default={"rate": "10/300ms"})
    for number in range(3):
        rig.crowd([sluice], burst(origin, 15)).statuses()
        last = origin.stamps()[-1]
        eventually(lambda at=last: time.time() > at + 0.4)
        assert len(origin.requests) == 15 * (number + 1)
    assert most_in_window(origin.stamps(), 0.3) <= 10


def test_a_proxy_that_was_frozen_does_not_catch_up(rig, origin):
    """Slots that passed meanwhile are lost, not sent in a bunch."""
    sluice = rig.sluice(default={"rate": "50/s"})
    crowd = rig.crowd([sluice], burst(origin, 100))
    origin.wait(30)
    sluice.signal(signal.SIGSTOP)
    time.sleep(0.5)
    sluice.signal(signal.SIGCONT)
    assert crowd.statuses() == [200] * 100
    assert most_in_window(origin.stamps(), 1.0) <= 50
    stamps = origin.stamps()
    assert min(after - before for before, after in zip(stamps, stamps[1:])) >= 0.02 - 0.015


def test_a_lone_call_does_not_wait(rig, origin):
    sluice = rig.sluice(default={"rate": "1/10s"})
    sluice.get(origin.url())
    assert int(sluice.access()[0]["wait_ms"]) < 500


def test_unlisted_hosts_may_pass_unpaced(rig, origin):
    sluice = rig.sluice(proxy={"unlisted": "pass"}, default={"rate": "1/1h"})
    for _ in range(5):
        assert sluice.get(origin.url()).status == 200


@pytest.mark.parametrize("rate, count", [(10, 25), (100, 250)])
def test_three_replicas_on_one_redis_are_one(rig, origin, rate, count):
    redis = rig.redis()
    replicas = [rig.sluice(default={"rate": f"{rate}/s"}, redis={"url": redis.url}) for _ in range(3)]
    assert rig.crowd(replicas, burst(origin, count)).statuses() == [200] * count
    check(origin.stamps(), count, rate)


def test_replicas_of_another_prefix_are_another_fleet(rig, origin):
    redis = rig.redis()
    fleets = [rig.sluice(default={"rate": "2/s"}, redis={"url": redis.url, "prefix": prefix}) for prefix in ("a", "b")]
    assert rig.crowd(fleets, burst(origin, 2)).statuses() == [200, 200]
    first, second = origin.stamps()
    assert second - first < 0.5, "as one fleet they would have taken turns"


def test_when_one_of_three_is_killed_the_others_use_its_share(rig, origin):
    """From one second after the kill on; its callers see their connections break, nobody else does."""
    rate, count = 50, 240
    redis = rig.redis()
    replicas = [rig.sluice(default={"rate": f"{rate}/s"}, redis={"url": redis.url}) for _ in range(3)]
    crowd = rig.crowd(replicas, burst(origin, count))
    origin.wait(60)
    replicas[0].signal(signal.SIGKILL)
    killed_at = origin.stamps()[-1]
    statuses = crowd.statuses()
    assert set(statuses[1::3] + statuses[2::3]) == {200}
    assert statuses[0::3].count(200) < count / 3
    assert most_in_window(origin.stamps(), 1.0) <= rate
    after = [stamp for stamp in origin.stamps() if stamp > killed_at + 1]
    assert len(after) > rate / 2 and used(after, rate) >= LEAST_USED
