"""The inbound path: the team's own API behind a limit, by a reverse proxy or by a gateway that asks."""
import collections
import concurrent.futures
import json
import time

import pytest

from origin import ok
from rig import eventually, free_port, ini
from wire import Caller, chunk


class Place:
    """An [inbound] of a running sluice."""

    def __init__(self, rig, origin, api="", rules="", redis=None):
        self.port, self.check_port = free_port(), free_port()
        own = f"rate = 1/s\ncapacity = 10\n{api}" if "rate" not in api else api
        text = ini(redis={"url": redis.url} if redis else None) + (
            f"[inbound api]\nlisten = 127.0.0.1:{self.port}\ncheck_listen = 127.0.0.1:{self.check_port}\n"
            f"upstream = http://{origin.authority}\n{own}\n{rules}\n")
        self.sluice = rig.sluice(text)

    def caller(self, port=None):
        return Caller(("127.0.0.1", port or self.port))

    def ask(self, path="/x", *headers, method="GET", port=None):
        caller = self.caller(port)
        try:
            lines = "".join(f"{line}\r\n" for line in headers)
            caller.send(f"{method} {path} HTTP/1.1\r\nHost: api.example\r\n{lines}\r\n".encode())
            return caller.response(method)
        finally:
            caller.close()

    def check(self, *headers, method="GET"):
        return self.ask("/check/api", *headers, method=method, port=self.check_port)


def together(calls):
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        return collections.Counter(answer.status for answer in pool.map(lambda call: call(), calls))


def test_of_twenty_at_once_exactly_the_capacity_is_admitted(rig, origin):
    """Capacity 10, 20 callers at once: 10 times 200 and 10 times 429, whichever key, again and again."""
    origin.on("/x", ok())
    place = Place(rig, origin, "rate = 1/1h\ncapacity = 10\nkey = header:X-Key")
    for number in range(10):
        calls = [lambda n=number: place.ask("/x", f"X-Key: {n}")] * 20
        assert together(calls) == {200: 10, 429: 10}
    assert len(origin.to("/x")) == 100, "refused requests do not reach the API"


def test_three_replicas_count_as_one(rig, origin):
    """The same through three replicas that share a Redis, callers dealt out over them."""
    origin.on("/x", ok())
    redis = rig.redis()
    places = [Place(rig, origin, "rate = 1/1h\ncapacity = 10\nkey = header:X-Key", redis=redis) for _ in range(3)]
    for place in places:
        eventually(lambda p=place: p.check("X-Key: warm").status == 204, why="counting in Redis")
    for number in range(10):
        calls = [lambda n=number, p=places[i % 3]: p.ask("/x", f"X-Key: {n}") for i in range(20)]
        assert together(calls) == {200: 10, 429: 10}


def test_a_refusal_says_why_and_when(rig, origin):
    """429 with Retry-After in whole seconds, the RateLimit fields and problem+json; the fields stand on admitted answers too."""
    origin.on("/x", ok())
    place = Place(rig, origin, "rate = 6/1m\ncapacity = 1")
    first, second = place.ask(), place.ask()
    assert (first.status, second.status) == (200, 429)
    assert first.get("RateLimit-Policy").startswith('"default";q=1;w=') and first.get("RateLimit").startswith('"default";r=0;t=')
    assert 1 <= int(second.get("Retry-After")) <= 10
    assert second.get("Content-Type") == "application/problem+json"
    assert json.loads(second.body)["violated-policies"] == ["default"]


def test_legacy_fields_where_asked_for(rig, origin):
    """headers = legacy: the X-RateLimit trio as well."""
    origin.on("/x", ok())
    answer = Place(rig, origin, "rate = 5/1m\nheaders = legacy").ask()
    assert answer.get("X-RateLimit-Limit") == "5" and answer.get("X-RateLimit-Remaining") == "4"
    assert answer.get("X-RateLimit-Reset") is not None


def test_the_user_counts_before_the_address(rig, origin):
    """The first key that is present: two users behind one address have a limit each, and one without a name has the address's."""
    origin.on("/x", ok())
    place = Place(rig, origin, "rate = 1/1h\ncapacity = 1\nkey = bearer, client_ip")
    for key in (["Authorization: Bearer a"], ["Authorization: Bearer b"], []):
        assert [place.ask("/x", *key).status for _ in range(2)] == [200, 429]
    assert "Bearer" not in place.sluice.text()


def test_a_refusal_by_one_rule_consumes_from_no_other(rig, origin):
    """/login has its own stricter limit; what it refuses leaves the general limit alone."""
    origin.on("/login", ok())
    origin.on("/x", ok())
    rule = "[inbound-rule login]\ninbound = api\npath = /login*\nrate = 1/1h\ncapacity = 2\n"
    place = Place(rig, origin, "rate = 1/1h\ncapacity = 5", rules=rule)
    assert [place.ask("/login").status for _ in range(6)] == [200, 200, 429, 429, 429, 429]
    assert [place.ask("/x").status for _ in range(4)] == [200, 200, 200, 429]


def test_a_dry_run_counts_and_tells_but_never_refuses(rig, origin):
    origin.on("/x", ok())
    place = Place(rig, origin, "rate = 1/1h\ncapacity = 1\ndry_run = on")
    assert [place.ask().status for _ in range(3)] == [200, 200, 200]


def test_a_gateway_may_ask_instead(rig, origin):
    """/check/NAME answers 204 or 429 for the method, path and address that the gateway passes on."""
    place = Place(rig, origin, "rate = 1/1h\ncapacity = 2", "[inbound-rule post]\ninbound = api\nmethods = POST\nrate = 1/1h\ncapacity = 1\n")
    seen = [place.check("X-Original-Method: POST", "X-Original-URI: /a", "X-Forwarded-For: 203.0.113.7").status for _ in range(2)]
    assert seen == [204, 429]
    assert place.check("X-Original-URI: /a", "X-Forwarded-For: 203.0.113.7").status == 204
    assert place.check("X-Original-URI: /a", "X-Forwarded-For: 203.0.113.8", method="POST").status == 204
    assert place.ask("/check/nobody", port=place.check_port).status == 404
    assert origin.to("/a") == []


def test_what_the_api_gets(rig, origin):
    """Host as the caller said it, its address in X-Forwarded-For, path and query unchanged, Via."""
    origin.on("/a?b=%2F", ok())
    Place(rig, origin).ask("/a?b=%2F", "X-Forwarded-For: 198.51.100.1")
    got = origin.wait(1)[0]
    assert got.target == "/a?b=%2F" and got.get("Host") == "api.example"
    assert got.get("X-Forwarded-For").endswith("127.0.0.1") and "sluice" in got.get("Via")


def dripping(origin):
    """An answer of which the second piece is made when the gate is opened."""
    gate = origin.gate()

    def drip(peer, request):
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(b"one"))
        gate.wait(10)
        peer.send(chunk(b"two") + b"0\r\n\r\n")

    origin.on("/drip", drip)
    return gate


def test_bodies_stream_both_ways(rig, origin):
    """An answer is passed on while it is made; an upload arrives whole."""
    gate = dripping(origin)
    place = Place(rig, origin)
    caller = place.caller()
    caller.send(b"GET /drip HTTP/1.1\r\nHost: a\r\n\r\n")
    caller.until(b"one", "the first piece before the second is made")
    gate.set()
    caller.until(b"two", "the second piece")
    caller.close()
    origin.on("/up", lambda peer, request: peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n%07d" % len(peer.read_body(request))))
    caller = place.caller()
    caller.send(b"POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1000000)
    assert caller.response().body == b"1000000"
    caller.close()


def test_a_web_socket_passes(rig, origin):
    """An upgrade is admitted like any request and then talks both ways."""
    switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    origin.on("/ws", lambda peer, request: (peer.send(switch), peer.send(b"you said " + peer.exactly(5)), peer.close()))
    caller = Place(rig, origin).caller()
    caller.send(b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    assert caller.head().status == 101
    caller.send(b"hello")
    caller.until(b"you said hello", "the echo")
    caller.close()


def test_a_dead_api_is_a_502(rig, origin):
    origin.authority = f"127.0.0.1:{free_port()}"
    assert Place(rig, origin).ask().status == 502


@pytest.mark.parametrize("mode, expected", [("open", 200), ("local", 200), ("closed", 503)])
def test_without_redis(rig, origin, mode, expected):
    """Redis dies: open admits and says so loudly, local counts by itself, closed refuses; none is slow; it comes back by itself."""
    origin.on("/x", ok())
    redis = rig.redis()
    place = Place(rig, origin, f"rate = 1000/s\ncapacity = 1000\non_redis_down = {mode}\ntimeout = 100ms", redis=redis)
    eventually(lambda: place.ask().status == 200, why="the first admission")
    redis.kill()
    began = time.monotonic()
    assert {place.ask().status for _ in range(10)} == {expected}
    assert time.monotonic() - began < 5
    redis.start()
    eventually(lambda: place.ask().get("RateLimit") is not None, why="counting in Redis again")
