"""The inbound path where it is easy to get wrong: trust, dry runs, a Redis that is silent rather than gone, the end of the program."""
import signal
import time

from origin import ok
from rig import eventually
from test_inbound import Place, dripping
from wire import Caller


def test_a_dry_run_tells_by_header_and_log(rig, origin):
    """What it would have refused is passed on, and said to the caller and in the log; real limits say nothing of it."""
    origin.on("/x", ok())
    rule = "[inbound-rule trial]\ninbound = api\nrate = 1/1h\ncapacity = 1\ndry_run = on\n"
    place = Place(rig, origin, "rate = 1/1h\ncapacity = 5", rules=rule)
    first, second = place.ask(), place.ask()
    assert (first.status, second.status) == (200, 200)
    assert first.get("Sluice-Dry-Run").startswith('"trial";r=0;t=') and not first.get("Sluice-Dry-Run").endswith("refused")
    assert second.get("Sluice-Dry-Run").startswith('"trial";r=0;t=') and second.get("Sluice-Dry-Run").endswith(";refused")
    assert "trial" not in second.get("RateLimit") + second.get("RateLimit-Policy")
    assert place.sluice.access(inbound="api", dry_run_refused="trial")


def test_headers_off_says_nothing(rig, origin):
    origin.on("/x", ok())
    place = Place(rig, origin, "rate = 1/1h\ncapacity = 1\nheaders = off")
    first, second = place.ask(), place.ask()
    assert (first.status, second.status) == (200, 429) and second.get("Retry-After") is not None
    assert first.get("RateLimit") is None and second.get("RateLimit") is None


def test_only_trusted_proxies_may_ask(rig, origin):
    """Anybody else could use up another's limit."""
    place = Place(rig, origin, "rate = 1/1h\ncapacity = 1\ntrusted_proxies = 10.0.0.0/8")
    assert place.check("X-Forwarded-For: 203.0.113.7").status == 403


def test_what_is_asked_about_is_read_in_every_dialect(rig, origin):
    """nginx and Traefik tell it in fields, Envoy behind the name."""
    rule = "[inbound-rule login]\ninbound = api\npath = /login\nmethods = POST\nrate = 1/1h\ncapacity = 1\nkey = query:t\n"
    place = Place(rig, origin, "rate = 1/1h\ncapacity = 100", rules=rule)
    dialects = [
        lambda t: place.check("X-Original-Method: POST", f"X-Original-URI: /login?t={t}"),
        lambda t: place.check("X-Original-Method: POST", f"X-Original-URL: http://api.example/login?t={t}"),
        lambda t: place.check("X-Forwarded-Method: POST", f"X-Forwarded-Uri: /login?t={t}"),
        lambda t: place.ask(f"/check/api/login?t={t}", method="POST", port=place.check_port),
    ]
    for number, dialect in enumerate(dialects):
        assert [dialect(number).status for _ in range(2)] == [204, 429], number
    assert place.check("X-Forwarded-Method: GET", "X-Forwarded-Uri: /login?t=0").status == 204


def test_an_untrusted_caller_cannot_choose_its_address(rig, origin):
    """Neither to get a limit of its own, nor to make the API believe it."""
    origin.on("/x", ok())
    place = Place(rig, origin, "rate = 1/1h\ncapacity = 1\ntrusted_proxies = 10.0.0.0/8")
    found = [place.ask("/x", f"X-Forwarded-For: 203.0.113.{n}", "Connection: close, X-Forwarded-For") for n in (1, 2)]
    assert [answer.status for answer in found] == [200, 429]
    assert origin.wait(1)[0].all("X-Forwarded-For") == ["127.0.0.1"]


def test_no_spelling_of_a_path_goes_past_its_limit(rig, origin):
    for path in ("/login", "//login", "/%6Cogin", "/a/../login", "/./login?x"):
        origin.on(path, ok())
    rule = "[inbound-rule login]\ninbound = api\npath = /login\nrate = 1/1h\ncapacity = 1\n"
    place = Place(rig, origin, "rate = 1/1h\ncapacity = 100", rules=rule)
    assert [place.ask(p).status for p in ("/login", "//login", "/%6Cogin", "/a/../login", "/./login?x")] == [200] + 4 * [429]


def test_one_connection_carries_admitted_and_refused_requests(rig, origin):
    """Keep-alive on both; a HEAD has no body; a refused upload ends the connection, for nobody reads it."""
    origin.on("/x", ok(b"body"))
    place = Place(rig, origin, "rate = 1/1h\ncapacity = 2")
    caller = place.caller()
    found = []
    for method in ("GET", "HEAD", "GET", "HEAD"):
        caller.send(f"{method} /x HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        found.append(caller.response(method).status)
    assert found == [200, 200, 429, 429]
    caller.send(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + b"x" * 1000)
    answer = caller.response()
    assert answer.status == 429 and answer.get("Connection") == "close"
    caller.close()


def test_a_silent_redis_delays_nobody(rig, origin):
    """Redis is stopped, not gone: each decision waits for `timeout` at most, soon for nothing; afterwards limits are looked at again."""
    origin.on("/x", ok())
    redis = rig.redis()
    place = Place(rig, origin, "rate = 1000/s\ncapacity = 1000\ntimeout = 50ms", redis=redis)
    eventually(lambda: place.ask().get("RateLimit") is not None, why="counting in Redis")
    redis.process.signal(signal.SIGSTOP)
    began = time.monotonic()
    found = [place.ask() for _ in range(40)]
    spent = time.monotonic() - began
    redis.process.signal(signal.SIGCONT)
    assert {answer.status for answer in found} == {200}
    assert spent < 3, f"40 requests took {spent:.1f} s"
    assert place.sluice.wait_event("admission_without_redis")
    eventually(lambda: place.ask().get("RateLimit") is not None, why="counting in Redis again")


def test_without_redis_a_refusal_claims_nothing(rig, origin):
    redis = rig.redis()
    place = Place(rig, origin, "rate = 10/s\non_redis_down = closed\ntimeout = 100ms", redis=redis)
    redis.kill()
    answer = eventually(lambda: (a := place.check()).status == 503 and a, why="refusing without Redis")
    assert answer.get("RateLimit") is None and answer.get("Retry-After") == "1"
    redis.start()


def test_a_flushed_script_cache_refuses_nobody(rig, origin):
    origin.on("/x", ok())
    redis = rig.redis()
    place = Place(rig, origin, "rate = 1000/s\ncapacity = 1000\ntimeout = 500ms", redis=redis)
    eventually(lambda: place.ask().get("RateLimit") is not None, why="counting in Redis")
    redis.command("SCRIPT", "FLUSH")
    assert {place.ask().status for _ in range(5)} == {200}
    eventually(lambda: place.ask().get("RateLimit") is not None, why="counting in Redis again")


def test_what_is_under_way_is_finished_at_the_end(rig, origin):
    """TERM: the listeners close, an answer that is being made is passed on whole, then the program ends."""
    gate = dripping(origin)
    place = Place(rig, origin)
    caller = place.caller()
    caller.send(b"GET /drip HTTP/1.1\r\nHost: a\r\n\r\n")
    assert caller.head().status == 200
    caller.until(b"one", "the first piece")
    place.sluice.signal(signal.SIGTERM)
    place.sluice.wait_event("draining")

    def refused():
        try:
            Caller(("127.0.0.1", place.port)).close()
            return False
        except ConnectionError:
            return True

    eventually(refused, why="the listener closed")
    gate.set()
    caller.until(b"two", "the rest")
    caller.until(b"0\r\n\r\n", "the end")
    assert caller.at_end()
    assert place.sluice.exit_code() == 0
