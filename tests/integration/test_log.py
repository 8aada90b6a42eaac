"""The log: one line per exchange that says who asked whom for what, how long it waited and what became of it, and no secret."""
import json
import re

import pytest

from origin import ok, reply
from rig import eventually, free_port
from wire import request

FIELDS = ("time", "level", "event", "client", "destination", "method", "target", "status", "bytes_in", "bytes_out", "wait_ms",
          "upstream_ms", "verdict")


def test_startup_tells_each_destinations_interval(rig):
    sluice = rig.sluice(destinations={"hourly": {"hosts": "a.example", "rate": "5000/1h"}, "quick": {"hosts": "b.example"}})
    intervals = {e["label"]: float(e["interval_ms"]) for e in sluice.wait_event("destination", 3)}
    assert set(intervals) == {"default", "hourly", "quick"}
    assert 720 <= intervals["hourly"] < 722 and 1 <= intervals["quick"] < 1.1


@pytest.mark.parametrize("form", ["logfmt", "json"])
def test_one_line_per_exchange_with_all_fields(rig, origin, form):
    sluice = rig.sluice(proxy={"log_format": form}, default={"rate": "4/s"}, destinations={"third-party": {"hosts": origin.authority}})
    origin.fallback = reply(ok(b"x" * 1000))
    caller = sluice.caller()
    for number in range(3):
        caller.send(request("POST", origin.url(f"/p/{number}"), body=b"y" * 100))
        assert caller.response().status == 200
    lines = sluice.access(3)
    for number, fields in enumerate(lines):
        assert not [f for f in FIELDS if f not in fields]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", fields["time"])
        assert (fields["level"], fields["destination"], fields["method"]) == ("info", "third-party", "POST")
        assert fields["client"] == "127.0.0.1:%d" % caller.sock.getsockname()[1]
        assert fields["target"] == origin.url(f"/p/{number}")
        assert (int(fields["status"]), fields["verdict"]) == (200, "forwarded")
        assert int(fields["bytes_in"]) >= 100 and int(fields["bytes_out"]) >= 1000
        assert int(fields["upstream_ms"]) >= 0
    assert int(lines[0]["wait_ms"]) < 250
    assert len(sluice.events("access")) == 3


def test_the_wait_and_the_third_partys_time_are_told_apart(rig, origin):
    gate = origin.gate()
    sluice = rig.sluice(default={"rate": "2/s"})
    sluice.get(origin.url("/first"))
    origin.on("/slow", lambda peer, _: (gate.wait(0.3), peer.send(ok())))
    sluice.get(origin.url("/slow"))
    fields = sluice.access(2)[1]
    assert int(fields["wait_ms"]) >= 300 and 290 <= int(fields["upstream_ms"]) < 5000


def test_secrets_of_the_query_and_of_headers_are_not_logged(rig, origin):
    sluice = rig.sluice()
    sluice.get(origin.url("/p?api_key=hunter2&q=hunter3"), "Authorization: Bearer hunter4", "Proxy-Authorization: Basic hunter5",
               "Cookie: hunter6")
    target = sluice.access()[0]["target"]
    assert target.startswith(origin.url("/p?")) and "api_key" in target
    assert "hunter" not in sluice.text()


def test_odd_bytes_in_a_target_cannot_forge_a_line(rig, origin):
    sluice = rig.sluice()
    sluice.get(origin.url('/p"status=999\\x'))
    fields = sluice.access()[0]
    assert fields["status"] == "200" and fields["target"] == origin.url('/p"status=...')


VERDICTS = {
    "forwarded": lambda s, o: s.get(o.url()),
    "bad_request": lambda s, o: s.caller().send(b"nonsense\r\n\r\n").response(),
    "bad_port": lambda s, o: s.caller().send(b"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: x\r\n\r\n").response(),
    "denied": lambda s, o: s.get("http://unlisted.example/"),
    "upstream_connection_refused": lambda s, o: s.get(f"http://127.0.0.1:{free_port()}/"),
    "tunnel": lambda s, o: s.caller().send(f"CONNECT {o.authority} HTTP/1.1\r\nHost: x\r\n\r\n".encode()).head(),
}


@pytest.mark.parametrize("verdict", VERDICTS)
def test_what_became_of_an_exchange_is_one_word(rig, origin, verdict):
    sluice = rig.sluice(proxy={"unlisted": "deny", "connect_ports": str(origin.port)}, destinations={"x": {"hosts": "127.0.0.1"}})
    status = VERDICTS[verdict](sluice, origin).status
    sluice.hang_up()
    fields = sluice.access()[0]
    assert (fields["verdict"], int(fields["status"])) == (verdict, status)


def test_the_log_may_go_to_a_file(rig, origin):
    log = rig.directory / "access.log"
    sluice = rig.sluice(proxy={"log_file": str(log), "log_format": "json"})
    sluice.get(origin.url("/filed"))
    eventually(lambda: "/filed" in log.read_text())
    for line in log.read_text().splitlines():
        json.loads(line)
    assert sluice.text() == ""


def test_a_level_keeps_lesser_events_out(rig, origin):
    sluice = rig.sluice(proxy={"log_level": "warn", "log_file": str(rig.directory / "l")})
    sluice.get(origin.url())
    sluice.get(f"http://127.0.0.1:{free_port()}/")
    eventually(lambda: "status=502" in (rig.directory / "l").read_text())
    assert "verdict=forwarded" not in (rig.directory / "l").read_text()
