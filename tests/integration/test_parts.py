"""Limits beside the rate of a destination: keys, routes, quotas, requests in flight and costs; by one process and over a fleet."""
import json
import threading
import time

import pytest

from origin import ok, reply
from rig import eventually, free_port, ini
from wire import request

OVER_SECONDS = 60


class Fleet:
    """Replicas with one destination, the origin, and as many more sections as a test has."""

    def __init__(self, rig, origin, redis, replicas, keys, more="", name="api"):
        sections = {name: {"hosts": origin.authority, "max_wait": "60s", **keys}}
        text = ini(redis={"url": redis.url} if redis else None, destinations=sections) + more
        self.origin = origin
        self.replicas = [rig.sluice(text) for _ in range(replicas)]
        self.rig = rig
        if redis:
            for sluice in self.replicas:
                sluice.wait_event("redis_up")

    def send(self, paths, *headers):
        """A request for each path, over all replicas in turn."""
        return self.rig.crowd(self.replicas, [request("GET", self.origin.url(p), *headers, "Connection: close") for p in paths])


def most_in(stamps, seconds):
    stamps = sorted(stamps)
    return max((sum(1 for other in stamps if stamp <= other < stamp + seconds) for stamp in stamps), default=0)


def stamps(origin, prefix):
    return [r.arrived for r in origin.requests if r.path.startswith(prefix)]


@pytest.fixture(params=[0, 1, 3], ids=["alone", "one-replica", "three-replicas"])
def fleet(request, rig, origin):
    """Makes a fleet: alone, with a Redis, three on a Redis."""
    redis = rig.redis() if request.param else None
    return lambda keys, more="", **options: Fleet(rig, origin, redis, request.param or 1, keys, more, **options)


def test_each_api_key_has_the_rate_by_itself(fleet, origin):
    """One key at fifty times its rate does not slow the other by more than one slot, and each keeps to the rate."""
    it = fleet({"rate": "5/s", "key": "header:X-Api-Key, client_ip"})
    busy = it.send([f"/busy/{n}" for n in range(250)], "X-Api-Key: sk-busy-secret")
    eventually(lambda: len(stamps(origin, "/busy")) >= 2, why="the busy one")
    calm = it.send([f"/calm/{n}" for n in range(16)], "X-Api-Key: sk-calm-secret")
    assert calm.statuses(OVER_SECONDS) == [200] * 16
    calm_stamps = sorted(stamps(origin, "/calm"))
    took = calm_stamps[-1] - calm_stamps[0]
    assert took < 15 / 5 * 1.03 + 0.25 + 0.2, f"16 at 5/s took {took:.2f} s"
    busy_stamps = stamps(origin, "/busy")
    busy.close()
    assert most_in(busy_stamps, 1) <= 5 and most_in(calm_stamps, 1) <= 5


def test_an_api_key_is_seen_nowhere(rig, origin):
    redis = rig.redis()
    it = Fleet(rig, origin, redis, 1, {"rate": "100/s", "key": "header:Authorization, query:api_key"}, "[route r]\n"
               "destination = api\nmatch = /r/*\nkey = bearer\nrate = 100/s\nmax_in_flight = 5\nquota = 50/1m\n")
    secret = "c2VjcmV0LWtleQ"
    statuses = it.send(["/x", "/r/y"], f"Authorization: Bearer {secret}").statuses() + it.send([f"/z?api_key={secret}"]).statuses()
    assert statuses == [200] * 3
    keys = redis.command_all("KEYS", "*")
    assert sum("k=" in key for key in keys) >= 3, keys
    kept = " ".join(keys)
    for key in keys:
        kind = redis.command("TYPE", key)
        if kind.endswith("hash"):
            kept += " ".join(redis.command_all("HGETALL", key))
    assert secret not in kept and secret not in it.replicas[0].text()


def test_replicas_with_one_secret_have_one_bucket_for_a_key(rig, origin):
    redis = rig.redis()
    files = [rig.directory / "one", rig.directory / "other"]
    for file, secret in zip(files, ("first secret\n", "second secret\n")):
        file.write_text(secret)
        file.chmod(0o600)
    def start(file):
        sluice = rig.sluice(ini(redis={"url": redis.url, "hash_secret_file": file}, destinations={
            "api": {"hosts": origin.authority, "rate": "50/s", "key": "bearer"}}))
        sluice.wait_event("redis_up")
        assert sluice.get(origin.url("/"), "Authorization: Bearer t0ken").status == 200
        return {key.split("k=")[1].split(":")[0] for key in redis.command_all("KEYS", "*k=*")}

    first = start(files[0])
    assert len(first) == 1 and len(first | start(files[0])) == 1
    assert len(start(files[1])) == 2
    assert "first secret" not in " ".join(sluice.text() for sluice in rig.things if hasattr(sluice, "text"))


def test_a_route_keeps_to_its_own_rate_and_to_the_destinations(fleet, origin):
    it = fleet({"rate": "20/s"}, "[route search]\ndestination = api\nmatch = GET /search/*\nrate = 2/s\n")
    slow = it.send([f"/search/{n}" for n in range(30)])
    rest = it.send([f"/list/{n}" for n in range(120)])
    assert rest.statuses(OVER_SECONDS) == [200] * 120
    lists, searches = sorted(stamps(origin, "/list")), stamps(origin, "/search")
    slow.close()
    assert most_in(searches, 1) <= 2 and len(searches) >= 8
    assert most_in(lists + searches, 1) <= 20
    # what the route leaves of 20/s, of which its waiting must not cost the rest more than a twentieth (and as much for a busy machine)
    used = len(lists) / (lists[-1] - lists[0]) / (20 - 2)
    assert used > 0.90, f"the rest got {used:.0%} of what the route leaves"


def test_a_rolling_quota(fleet, origin):
    it = fleet({"rate": "50/s", "quota": "20/2s"})
    assert it.send([f"/{n}" for n in range(50)]).statuses(OVER_SECONDS) == [200] * 50
    assert most_in(stamps(origin, "/"), 2) <= 20
    assert most_in(stamps(origin, "/"), 1) > 10, "the quota is not the pace"
    assert max(stamps(origin, "/")) - min(stamps(origin, "/")) < 7


def test_an_aligned_quota(fleet, origin):
    it = fleet({"rate": "100/s", "quota": "15/2s aligned"})
    assert it.send([f"/{n}" for n in range(40)]).statuses(OVER_SECONDS) == [200] * 40
    windows = {}
    for stamp in stamps(origin, "/"):
        windows[int(stamp // 2)] = windows.get(int(stamp // 2), 0) + 1
    assert max(windows.values()) <= 15, windows


def test_a_quota_that_rejects_says_when_there_is_some_again(fleet, origin):
    it = fleet({"rate": "100/s", "quota": "3/1h", "quota_action": "reject"})
    assert sorted(it.send(["/1", "/2", "/3"]).statuses()) == [200] * 3

    def refused():
        answer = it.replicas[0].get(origin.url("/more"))
        return answer.status == 429 and answer

    answer = eventually(refused, why="a refusal")
    assert json.loads(answer.body)["reason"] in ("quota_used_up", "wait_too_long")
    again = eventually(lambda: (a := it.replicas[0].get(origin.url("/more"))).status == 429 and a, why="another")
    assert json.loads(again.body)["reason"] == "quota_used_up"
    assert 3500 < int(again.get("Retry-After")) <= 3620
    assert len(origin.requests) == 3


class Busy:
    """An origin's handler that holds answers back, and counts how many it holds."""

    def __init__(self, origin, path):
        self.now = self.most = 0
        self.lock = threading.Lock()
        self.gate = origin.gate()
        origin.on(path, self.hold)

    def hold(self, peer, _request):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.gate.wait(20)
        time.sleep(0.05)
        with self.lock:
            self.now -= 1
        peer.send(ok())


def test_no_more_in_flight_than_may_be(fleet, origin):
    busy = Busy(origin, "/held")
    it = fleet({"rate": "200/s", "max_in_flight": "3"})
    crowd = it.send(["/held"] * 12)
    eventually(lambda: busy.now == 3, why="three in flight")
    time.sleep(0.5)
    assert (busy.now, len(origin.requests)) == (3, 3), "a fourth left while three were in flight"
    busy.gate.set()
    assert crowd.statuses(OVER_SECONDS) == [200] * 12
    assert busy.most == 3


def test_what_a_dead_replica_had_in_flight_counts_until_its_lease_is_over(rig, origin):
    busy = Busy(origin, "/held")
    redis = rig.redis()
    it = Fleet(rig, origin, redis, 2, {"rate": "200/s", "max_in_flight": "5", "lease_time": "3s"})
    dying, other = it.replicas
    rig.crowd([dying], [request("GET", origin.url("/held"), "Connection: close")] * 5)
    eventually(lambda: busy.now == 5, why="five in flight")
    dying.kill()
    killed = time.monotonic()
    crowd = rig.crowd([other], [request("GET", origin.url("/after"), "Connection: close")] * 5)
    assert crowd.statuses(OVER_SECONDS) == [200] * 5
    took = time.monotonic() - killed
    assert 1.5 < took < 6, f"they left {took:.1f} s after the other replica had died"


def test_a_request_costs_as_much_as_its_header_says(fleet, origin):
    it = fleet({"rate": "20/s", "cost_header": "X-Cost", "cost_most": "10"})
    expensive = it.send(["/expensive"], "X-Cost: 10")
    assert expensive.statuses() == [200]
    assert it.send([f"/cheap/{n}" for n in range(2)]).statuses() == [200] * 2
    first, second = sorted(stamps(origin, "/"))[:2]
    assert second - first >= 0.45, f"the next one left {second - first:.3f} s after one of 10 units at 20/s"
    assert all(r.get("X-Cost") is None for r in origin.requests), "it is for us alone"
    refused = it.replicas[0].get(origin.url("/"), "X-Cost: 11")
    assert refused.status == 400 and "cost" in json.loads(refused.body)["detail"]


def test_a_route_has_a_cost_of_its_own(fleet, origin):
    it = fleet({"rate": "20/s"}, "[route depth]\ndestination = api\nmatch = /depth*\ncost = 8\n")
    assert it.send(["/depth"]).statuses() == [200]
    assert it.send(["/one"]).statuses() == [200]
    assert stamps(origin, "/one")[0] - stamps(origin, "/depth")[0] >= 0.35


def test_the_answer_may_correct_the_cost(fleet, origin):
    it = fleet({"rate": "20/s", "cost_answer": "X-Used", "cost_header": "X-Cost", "cost_most": "20"})
    origin.on("/more", reply(b"HTTP/1.1 200 OK\r\nX-Used: 12\r\nContent-Length: 0\r\n\r\n"))
    assert it.send(["/more"]).statuses() == [200]
    eventually(lambda: it.replicas[0].get(origin.url("/next")).status == 200, why="the next")
    gap = stamps(origin, "/next")[0] - stamps(origin, "/more")[0]
    assert gap >= 0.5, f"the next left after {gap:.3f} s, though 12 units were spent at 20/s"


def test_an_answer_may_say_that_others_have_spent_of_the_quota(fleet, origin):
    it = fleet({"rate": "50/s", "quota": "10/1h", "quota_action": "reject", "cost_answer": "X-Left remaining"})
    origin.on("/first", reply(b"HTTP/1.1 200 OK\r\nX-Left: 3\r\nContent-Length: 0\r\n\r\n"))
    assert it.send(["/first"]).statuses() == [200]
    time.sleep(0.2)
    statuses = it.send([f"/{n}" for n in range(8)]).statuses()
    assert set(statuses) == {200, 429} and statuses.count(200) <= 3, "a slot may be lost on a busy machine, none be had too many"


def test_three_limits_at_once(fleet, origin):
    """A pace, a quota and requests in flight: none is exceeded."""
    count = {"now": 0, "most": 0}
    lock = threading.Lock()

    def handler(peer, _request):
        with lock:
            count["now"] += 1
            count["most"] = max(count["most"], count["now"])
        time.sleep(0.15)
        with lock:
            count["now"] -= 1
        peer.send(ok())

    origin.fallback = handler
    it = fleet({"rate": "20/s", "quota": "25/2s", "max_in_flight": "4"})
    assert it.send([f"/{n}" for n in range(40)]).statuses(OVER_SECONDS) == [200] * 40
    assert most_in(stamps(origin, "/"), 1) <= 20 and most_in(stamps(origin, "/"), 2) <= 25 and count["most"] <= 4


def test_one_script_call_a_claim_whatever_the_number_of_limits(rig, origin):
    redis = rig.redis()
    it = Fleet(rig, origin, redis, 1, {"rate": "50/s", "quota": "1000/1m, 5000/1h, 9000/1d aligned", "max_in_flight": "100"},
               "[route r]\ndestination = api\nmatch = *\nrate = 40/s\nquota = 800/1m\n")
    before = calls(redis)
    assert it.send([f"/{n}" for n in range(60)]).statuses(OVER_SECONDS) == [200] * 60
    spent = (calls(redis) - before) / 60
    assert spent < 4.5, f"{spent:.2f} commands a request"


def calls(redis):
    info = redis.command("INFO", "commandstats")
    return sum(int(line.split("calls=")[1].split(",")[0]) for line in info.splitlines() if line.startswith("cmdstat_evalsha:"))


def test_hosts_of_a_wildcard_may_have_the_rate_each(rig, origin):
    sluice = rig.sluice(ini(destinations={"local": {"hosts": f"127.0.0.1:{origin.port}, localhost:{origin.port}", "rate": "1/1h",
                                                    "bucket": "per_host", "max_wait": "1s"}}))
    assert sluice.get(origin.url("/a")).status == 200
    assert sluice.get(f"http://localhost:{origin.port}/b").status == 200
    assert sluice.get(origin.url("/c")).status == 429


def test_made_up_keys_fill_no_memory(rig, origin):
    """Ever new key values, more than there may be buckets: idle ones make room, and who is busy stays."""
    redis = rig.redis()
    sluice = rig.sluice(ini(redis={"url": redis.url}, proxy={"max_buckets": 100}, destinations={
        "api": {"hosts": origin.authority, "rate": "2/s", "key": "header:X-Key", "max_wait": "60s"}}))
    sluice.wait_event("redis_up")
    busy = rig.crowd([sluice], [request("GET", origin.url("/busy"), "X-Key: busy", "Connection: close")] * 12)
    caller = sluice.caller()
    statuses = [caller.get(origin.url("/one"), f"X-Key: {number}").status for number in range(1000)]
    assert statuses.count(200) >= 90 and set(statuses) <= {200, 503}
    refused = eventually(lambda: (a := caller.get(origin.url("/one"), f"X-Key: {time.monotonic()}")).status == 503 and a, why="a refusal")
    problem = json.loads(refused.body)
    assert problem["reason"] == "too_many_buckets" and "max_buckets" in problem["detail"]
    assert busy.statuses(OVER_SECONDS) == [200] * 12
    assert most_in(stamps(origin, "/busy"), 1) <= 2
    eventually(lambda: caller.get(origin.url("/one"), "X-Key: at last").status == 200, why="room again")
