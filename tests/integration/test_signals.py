"""Stopping: SIGTERM lets everybody who is here finish, within limits; a second one ends at once."""
import json
import signal
import time

import pytest

from origin import ok
from rig import answers, eventually
from wire import request


def drain(sluice):
    sluice.signal(signal.SIGTERM)
    sluice.wait_event("draining")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_proxy_ends_at_once(rig, origin, number):
    sluice = rig.sluice()
    caller = sluice.caller()
    caller.get(origin.url())
    sluice.signal(number)
    assert sluice.exit_code() == 0
    assert caller.at_end()


def test_who_waits_gets_its_turn_and_nobody_new_comes_in(rig, origin):
    sluice = rig.sluice(default={"rate": "4/s"})
    callers = [sluice.caller() for _ in range(4)]
    assert callers[0].get(origin.url()).status == 200
    for caller in callers:
        caller.send(request("GET", origin.url("/waits")))
    origin.wait(1, "/waits")
    drain(sluice)
    eventually(lambda: not answers(sluice.address), why="nobody listens any more")
    for caller in callers:
        response = caller.response()
        assert response.status == 200
        assert caller.at_end()
    assert sluice.exit_code() == 0
    stamps = origin.stamps()
    assert all(after - before >= 0.24 for before, after in zip(stamps, stamps[1:]))


def test_an_answer_under_way_is_finished(rig, origin):
    gate = origin.gate()
    origin.fallback = lambda peer, _: (peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf"), gate.wait(), peer.send(b"half"))
    sluice = rig.sluice()
    caller = sluice.caller().send(request("GET", origin.url()))
    caller.head()
    drain(sluice)
    gate.set()
    assert caller.exactly(8) == b"halfhalf"
    assert sluice.exit_code() == 0


def test_after_drain_timeout_who_still_waits_gets_a_503(rig, origin):
    sluice = rig.sluice(proxy={"drain_timeout": "500ms"}, default={"rate": "1/1h", "max_wait": "1d"})
    sluice.get(origin.url("/first"))
    callers = [sluice.caller().send(request("GET", origin.url("/waits"))) for _ in range(3)]
    assert callers[-1].silent_for(0.2)
    started = time.monotonic()
    drain(sluice)
    for caller in callers:
        response = caller.response()
        assert response.status == 503 and json.loads(response.body)["reason"] == "draining"
        assert int(response.get("Retry-After")) >= 1
        assert response.get("Connection").lower() == "close"
        assert caller.at_end()
    assert time.monotonic() - started >= 0.5
    assert sluice.exit_code() == 0


def test_after_drain_timeout_endless_answers_and_tunnels_are_cut(rig, origin):
    gate = origin.gate()
    origin.on("/endless", lambda peer, _: (peer.send(b"HTTP/1.1 200 OK\r\n\r\nx"), gate.wait()))
    sluice = rig.sluice(proxy={"drain_timeout": "300ms", "connect_ports": str(origin.port)})
    answer = sluice.caller().send(request("GET", origin.url("/endless")))
    answer.head()
    tunnel = sluice.caller().send(f"CONNECT {origin.authority} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    tunnel.head()
    drain(sluice)
    assert sluice.exit_code() == 0


def test_after_drain_timeout_who_waits_for_an_answer_is_told_so(rig, origin):
    gate = origin.gate()
    origin.fallback = lambda peer, _: gate.wait()
    sluice = rig.sluice(proxy={"drain_timeout": "300ms"})
    caller = sluice.caller().send(request("GET", origin.url()))
    origin.wait(1)
    drain(sluice)
    answer = caller.response()
    assert answer.status == 504 and json.loads(answer.body)["reason"] == "drain_cut"
    assert answer.get("Retry-After") is None, "the third party may have seen it"
    assert caller.at_end()
    assert sluice.exit_code() == 0
    assert sluice.access(verdict="drain_cut")


def test_a_second_signal_ends_at_once(rig, origin):
    sluice = rig.sluice(proxy={"drain_timeout": "1h"}, default={"rate": "1/1h", "max_wait": "1d"})
    sluice.get(origin.url("/first"))
    caller = sluice.caller().send(request("GET", origin.url("/waits")))
    assert caller.silent_for(0.2)
    drain(sluice)
    assert caller.silent_for(0.3) and sluice.alive()
    sluice.may_fail = True
    sluice.signal(signal.SIGTERM)
    assert sluice.exit_code(5) == 1
    assert caller.at_end()


def test_a_kept_connection_is_closed_after_its_answer_when_draining(rig, origin):
    gate = origin.gate()
    origin.fallback = lambda peer, _: (gate.wait(), peer.send(ok()))
    sluice = rig.sluice()
    caller = sluice.caller().send(request("GET", origin.url()) + request("GET", origin.url("/next")))
    origin.wait(1)
    drain(sluice)
    gate.set()
    assert caller.response().get("Connection").lower() == "close"
    assert caller.at_end()
    assert origin.to("/next") == []
    assert sluice.exit_code() == 0


def test_the_signal_to_reopen_starts_a_new_log_file(rig, origin):
    log = rig.directory / "access.log"
    sluice = rig.sluice(proxy={"log_file": str(log)})
    sluice.get(origin.url("/before"))
    eventually(lambda: "/before" in log.read_text())
    log.rename(rig.directory / "old.log")
    sluice.signal(signal.SIGUSR1)
    eventually(log.exists)
    sluice.get(origin.url("/after"))
    eventually(lambda: "/after" in log.read_text())


def test_hangup_does_not_end_it(rig, origin):
    sluice = rig.sluice()
    sluice.signal(signal.SIGHUP)
    assert sluice.get(origin.url()).status == 200
