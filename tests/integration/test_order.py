"""Who goes first: turns of callers, priorities, and what neither may do to the others."""
import base64
import collections

from rig import eventually
from wire import request


def waiting(sluice, origin, paths, *headers):
    """One caller for each path, with a request that waits or leaves; they come in that order."""
    return [sluice.caller().send(request("GET", origin.url(path), *headers)) for path in paths]


def order_at(origin, count, seconds=20):
    eventually(lambda: len(origin.requests) >= count, seconds, f"{count} requests at the third party")
    return [r.path for r in origin.requests]


def user(name):
    return "Proxy-Authorization: Basic " + base64.b64encode(f"{name}:x".encode()).decode()


def test_callers_take_turns(rig, origin):
    """Thirty requests of one team are there first; three of another one each wait for one of them, not for thirty."""
    sluice = rig.sluice(default={"rate": "20/s", "order": "fair", "fair_by": "header:X-Team"})
    waiting(sluice, origin, [f"/big/{n}" for n in range(30)], "X-Team: big")
    eventually(lambda: len(origin.requests) >= 2, why="a start")
    before = len(origin.requests)
    waiting(sluice, origin, [f"/small/{n}" for n in range(3)], "X-Team: small")
    paths = order_at(origin, 33)
    small = [paths.index(f"/small/{n}") for n in range(3)]
    assert small[2] <= before + 3 * 2 + 4, f"{before} were gone, then the small ones came as numbers {small}"
    assert [p for p in paths if p.startswith("/small")] == [f"/small/{n}" for n in range(3)], "each one's own stay in order"


def test_a_weight_is_that_many_in_a_turn(rig, origin):
    sluice = rig.sluice(default={"rate": "40/s", "order": "fair", "fair_weights": "gold=3"})
    first = sluice.caller()
    first.send(request("GET", origin.url("/first")))
    eventually(lambda: len(origin.requests) == 1, why="the first")
    for n in range(20):
        waiting(sluice, origin, [f"/gold/{n}"], user("gold"))
        waiting(sluice, origin, [f"/iron/{n}"], user("iron"))
    paths = order_at(origin, 25)[5:25]
    gold = sum(path.startswith("/gold") for path in paths)
    assert 13 <= gold <= 17, paths


def test_an_interactive_request_goes_before_a_batch(rig, origin):
    sluice = rig.sluice(default={"rate": "10/s", "priority_high": "header:X-Priority=interactive", "priority_low": "path=/batch*"})
    waiting(sluice, origin, [f"/batch/{n}" for n in range(12)])
    eventually(lambda: len(origin.requests) >= 2, why="a start")
    for n in range(3):
        before = len(origin.requests)
        caller = sluice.caller()
        answer = caller.get(origin.url(f"/chat/{n}"), "X-Priority: interactive")
        assert answer.status == 200
        place = [r.path for r in origin.requests].index(f"/chat/{n}")
        assert place <= before + 2, f"{before} were gone when it came, it left as number {place}"
    paths = order_at(origin, 15)
    assert [p for p in paths if p.startswith("/batch")] == [f"/batch/{n}" for n in range(12)]


def test_a_batch_is_never_starved(rig, origin):
    sluice = rig.sluice(default={"rate": "50/s", "priority_high": "proxy_user=web", "low_share": "20"})
    waiting(sluice, origin, [f"/batch/{n}" for n in range(20)], user("nightly"))
    waiting(sluice, origin, [f"/web/{n}" for n in range(80)], user("web"))
    paths = order_at(origin, 70)[20:70]
    batch = sum(path.startswith("/batch") for path in paths)
    assert 5 <= batch <= 15, f"{batch} of 50"


def test_one_caller_cannot_fill_a_fair_queue(rig, origin):
    sluice = rig.sluice(default={"rate": "1/1h", "max_wait": "1d", "max_queue": "20", "order": "fair", "fair_by": "header:X-Team"})
    assert sluice.get(origin.url("/first"), "X-Team: big").status == 200
    big = waiting(sluice, origin, [f"/big/{n}" for n in range(20)], "X-Team: big")
    refused = [eventually(lambda c=c: not c.silent_for(0.2) and c.response(), why="a refusal") for c in big[11:]]
    assert {answer.status for answer in refused} == {429}
    (small,) = waiting(sluice, origin, ["/small"], "X-Team: small")
    assert small.silent_for(0.3), "another caller still has room"


def test_shares_are_even_over_three_replicas(rig, origin):
    """One caller sends ten times what the other does, to each of three replicas: both get half of the rate."""
    redis = rig.redis()
    replicas = [rig.sluice(default={"rate": "100/s", "order": "fair", "fair_by": "header:X-Team"}, redis={"url": redis.url})
                for _ in range(3)]
    requests = []
    for n in range(600):
        requests.append(request("GET", origin.url(f"/big/{n}"), "X-Team: big", "Connection: close"))
        if n % 6 < 3:  # spread over all three replicas alike
            requests.append(request("GET", origin.url(f"/small/{n}"), "X-Team: small", "Connection: close"))
    rig.crowd(replicas, [r for r in requests if b"/big" in r])
    rig.crowd(replicas, [r for r in requests if b"/small" in r])
    eventually(lambda: any(r.path.startswith("/small") for r in origin.requests), why="both waiting")
    start = len(origin.requests)
    paths = order_at(origin, start + 240)[start:start + 240]
    shares = collections.Counter(path.split("/")[1] for path in paths)
    assert abs(shares["small"] - 120) <= 12, shares
