"""Several limits at once, requests in flight, keys and costs: none is ever exceeded, on real processes with a real Redis."""
import pytest

from fleet import DISPLACED, MS, S, Fleet, now, sleep_until
from origin import most_in_window
from wire import Caller

ANSWER_MS = 300


@pytest.mark.parametrize("seconds", [15, pytest.param(6, marks=pytest.mark.quick)])
def test_a_rate_a_quota_and_requests_in_flight_together(rig, figures, seconds):
    """The third party takes 300 ms (its timers may be a few milliseconds early), so as many arrivals are in flight as any 290 ms hold."""
    fleet = Fleet(rig, "20/s", quota="50/5s rolling", max_in_flight="4")
    fleet.load(20, path=f"/delay/{ANSWER_MS}")
    fleet.flowing()
    sleep_until(now() + seconds * S)
    stamps = fleet.stamps()
    flying, quota = most_in_window(stamps, (ANSWER_MS - 10) * MS), most_in_window(stamps, 5 * S)
    figures(most=fleet.strict(), of=20, in_flight=f"{flying} of 4", in_5_s=f"{quota} of 50", late=fleet.slots("late"), wasted=fleet.slots("wasted"))
    assert flying <= 4 and quota <= 50
    assert quota >= 48 or seconds < 15
    assert fleet.slots("late") + fleet.slots("wasted") <= 0.05 * len(stamps) + 3, "slots were spent that could not be used"


def test_what_a_killed_replica_had_in_flight_counts_until_its_lease_ends(rig, figures):
    lease = 4
    fleet = Fleet(rig, "20/s", replicas=2, max_in_flight="4", lease_time=f"{lease}s")
    fleet.load(10, only=[fleet.replicas[0]], path="/delay/60000")
    fleet.wait_arrivals(4)
    sleep_until(now() + S + S // 2)  # a renewal at least
    assert len(fleet.stamps()) == 4
    fleet.load(10, only=[fleet.replicas[1]])
    sleep_until(now() + S)
    assert len(fleet.stamps()) == 4
    fleet.replicas[0].kill()
    killed = now()
    first = fleet.wait_arrivals(5)[4]
    figures(lease_of_s=lease, others_began_after_ms=first - killed)
    assert (lease - 1.2) * S <= first - killed <= (lease + 1.5) * S, "leases are renewed once a second"


def test_two_keys_of_one_host_do_not_hinder_each_other(rig, figures):
    """One at many times its limit, the other now and then; and neither value is in Redis or a log."""
    secrets = ("Bearer c29tZSBsb25nIHNlY3JldA", "Bearer YW5vdGhlciBzZWNyZXQ")
    fleet = Fleet(rig, "5/s", replicas=2, key="header:Authorization")
    fleet.load(100, path="/hog", headers=[f"Authorization: {secrets[0]}"])
    fleet.wait_arrivals(10)
    waits, begun = [], now()
    for number in range(8):
        caller = Caller(fleet.replicas[number % 2].address)
        sleep_until(begun + number * S)
        sent = now()
        assert caller.get(fleet.third_party.url("/polite"), f"Authorization: {secrets[1]}").status == 200
        waits.append(now() - sent)
        caller.close()
    arrivals = fleet.arrivals()
    most = {path: most_in_window([a.at for a in arrivals if a.path.startswith(path)], S) for path in ("/hog", "/polite")}
    kept = [key + " ".join(dump(fleet.redis, key)) for key in fleet.redis.command_all("KEYS", "*")]
    figures(most_of_the_hog=most["/hog"], of=5, polite_waited_at_most_ms=sorted(waits)[-1], keys_in_redis=len(kept))
    assert max(most.values()) <= 5
    assert sorted(waits[2:])[-1] <= fleet.interval + 100 * MS  # each replica listens for a while before a bucket's first slot
    for secret in secrets:
        value = secret.removeprefix("Bearer ")
        assert not any(value in text for text in kept + [sluice.text() for sluice in fleet.replicas])


def dump(redis, key):
    kind = redis.command("TYPE", key).lstrip("+")
    command = {"hash": ("HGETALL", key), "list": ("LRANGE", key, "0", "-1"), "zset": ("ZRANGE", key, "0", "-1"),
               "set": ("SMEMBERS", key), "string": ("GET", key)}[kind]
    return redis.command_all(*command)


def test_a_request_that_costs_eight_is_followed_by_eight_intervals(rig, figures):
    fleet = Fleet(rig, "20/s", replicas=2, cost_header="X-Cost", cost_most="8")
    fleet.load(5, path="/eight", headers=["X-Cost: 8"])
    fleet.load(5, path="/one")
    fleet.wait_arrivals(40, seconds=40)
    arrivals = fleet.arrivals()
    after = [later.at - earlier.at for earlier, later in zip(arrivals, arrivals[1:]) if earlier.path.startswith("/eight")]
    units = [at for a in arrivals for at in [a.at] * (8 if a.path.startswith("/eight") else 1)]
    most = most_in_window(units, S)
    figures(units_in_a_window=most, of=27, gap_after_eight_min_ms=min(after), eights=len(after))
    assert most <= 20 + 7 and min(after) >= 8 * fleet.interval - DISPLACED
