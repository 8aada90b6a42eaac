"""The queue in front of a destination: bounded, first come first served, honest about the wait, free to leave."""
import json
import socket
import struct
import time

import pytest

from rig import eventually
from wire import Ended, request

FOREVER = {"rate": "1/1h", "max_wait": "1d", "max_queue": "1000"}


def occupy(sluice, origin, count):
    """Uses the first slot, then then sends requests of `count` more callers, which have to wait; returns those."""
    assert sluice.get(origin.url("/first")).status == 200
    callers = [sluice.caller().send(request("GET", origin.url(f"/waiting/{n}"))) for n in range(count)]
    return callers


def refused_at_once(sluice, url, *headers):
    """The answer to one more request, when it comes without a wait; None when that one waits too."""
    caller = sluice.caller()
    caller.send(request("GET", url, *headers))
    return None if caller.silent_for(0.3) else caller.response()


def check_refusal(response, reason):
    assert response.status == 429
    assert response.get("Content-Type") == "application/problem+json"
    assert response.get("Proxy-Status").startswith("sluice; error=http_request_denied")
    problem = json.loads(response.body)
    assert problem["type"] == "about:blank" and problem["title"]
    assert (problem["status"], problem["reason"]) == (429, reason)
    assert problem["destination"]
    assert int(response.get("Retry-After")) >= 1
    return problem


def test_a_full_queue_refuses_at_once_and_says_when_to_come_back(rig, origin):
    """Whoever comes back after Retry-After is served."""
    sluice = rig.sluice(default={"rate": "2/s", "max_queue": "3"})
    occupy(sluice, origin, 3)
    refused = eventually(lambda: refused_at_once(sluice, origin.url("/late")), 2, "a full queue")
    problem = check_refusal(refused, "queue_full")
    assert problem["position"] >= 2 and problem["predicted_wait_ms"] >= 500
    time.sleep(int(refused.get("Retry-After")))
    assert sluice.get(origin.url("/again")).status == 200


def test_a_wait_beyond_max_wait_is_refused_at_once_and_says_when_to_come_back(rig, origin):
    sluice = rig.sluice(default={"rate": "2/s", "max_wait": "1s"})
    occupy(sluice, origin, 1)
    started = time.monotonic()
    for _ in range(4):
        sluice.caller().send(request("GET", origin.url("/more")))
    refused = eventually(lambda: refused_at_once(sluice, origin.url("/late")), 2, "a long queue")
    assert time.monotonic() - started < 1
    problem = check_refusal(refused, "wait_too_long")
    assert problem["predicted_wait_ms"] > 1000
    time.sleep(int(refused.get("Retry-After")))
    assert sluice.get(origin.url("/again")).status == 200


def test_a_caller_may_be_less_patient_than_the_queue(rig, origin):
    sluice = rig.sluice(default={"rate": "1/5s", "max_wait": "30s"})
    occupy(sluice, origin, 0)
    check_refusal(sluice.get(origin.url("/x"), "Prefer: respond-async, wait=2"), "wait_too_long")
    assert refused_at_once(sluice, origin.url("/x"), "Prefer: wait=20") is None


def test_a_deadline_that_comes_while_waiting_is_a_504_and_never_early(rig, origin):
    """No Redis ever answers, so no turn ever comes."""
    sluice = rig.sluice(default={"rate": "10/s", "max_wait": "700ms"}, redis={"url": f"unix:{rig.directory}/none.sock"})
    caller = sluice.caller()
    started = time.monotonic()
    response = caller.get(origin.url())
    assert time.monotonic() - started >= 0.7
    assert response.status == 504 and json.loads(response.body)["reason"] == "deadline"
    assert response.get("Proxy-Status").startswith("sluice; error=")
    assert origin.connections == 0 or origin.requests == []
    sluice.access(verdict="deadline", status=504)


@pytest.mark.parametrize("how", ["close", "reset"])
def test_callers_that_hang_up_leave_at_once_and_cost_no_slot(rig, origin, how):
    """A hundred wait, all hang up; the next caller has the next slot: no more than one interval away."""
    sluice = rig.sluice(default={"rate": "1/2s", "max_queue": "100", "max_wait": "1h"})
    callers = occupy(sluice, origin, 100)
    eventually(lambda: refused_at_once(sluice, origin.url("/probe")), why="a full queue")
    sluice.hang_up() if how == "close" else [caller.reset() for caller in callers]
    sluice.wait_event("access", 95, seconds=1, verdict="caller_gone")
    started = time.monotonic()
    assert sluice.get(origin.url("/next")).status == 200
    assert time.monotonic() - started < 2.05 + 0.5
    assert len(origin.requests) <= 4, "no slot went to a caller that had left"


def test_a_caller_that_only_half_closes_still_gets_its_answer(rig, origin):
    sluice = rig.sluice(default={"rate": "2/s"})
    occupy(sluice, origin, 0)
    caller = sluice.caller().send(request("GET", origin.url("/half")))
    caller.sock.shutdown(socket.SHUT_WR)
    assert caller.response().status == 200


def test_the_queue_is_first_come_first_served(rig, origin):
    sluice = rig.sluice(default={"rate": "50/s"})
    callers = [sluice.caller() for _ in range(12)]
    for caller in callers:
        assert caller.get(origin.url("/warm")).status == 200
    for number, caller in enumerate(callers):
        caller.send(request("GET", origin.url(f"/{number:02}")))
    for caller in callers:
        assert caller.response().status == 200
    order = [r.path for r in sorted(origin.requests, key=lambda r: r.arrived) if r.path != "/warm"]
    assert order == sorted(order)


def test_destinations_do_not_wait_for_each_other(rig, origin):
    other = rig.origin()
    sluice = rig.sluice(destinations={"slow": {"hosts": origin.authority, **FOREVER}, "fast": {"hosts": other.authority}})
    occupy(sluice, origin, 5)
    for _ in range(10):
        assert sluice.get(other.url()).status == 200
    assert len(origin.requests) == 1


def test_hosts_of_one_destination_share_its_slots(rig, origin):
    other = rig.origin()
    sluice = rig.sluice(destinations={"both": {"hosts": f"{origin.authority}, {other.authority}", "rate": "4/s"}})
    for one in (origin, other, origin, other):
        sluice.get(one.url())
    stamps = sorted(origin.stamps() + other.stamps())
    assert all(after - before >= 0.24 for before, after in zip(stamps, stamps[1:]))


def pushed(caller, most):
    """Sends until the kernels between us and the proxy take no more; how much that was."""
    caller.sock.setblocking(False)
    total, block, quiet_since = 0, bytes(1 << 16), time.monotonic()
    while total < most and time.monotonic() - quiet_since < 0.2:
        try:
            total += caller.sock.send(block)
            quiet_since = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)
    return total


def test_the_body_of_a_waiting_request_stays_in_the_kernel(rig, origin):
    """Ten callers each offer 64 MB while they wait; the proxy takes up to 64 KB of each."""
    sluice = rig.sluice(default=FOREVER)
    occupy(sluice, origin, 0)
    before_kb = sluice.status_kb("VmRSS")
    for number in range(10):
        caller = sluice.caller()
        caller.send(request("PUT", origin.url(f"/{number}"), f"Content-Length: {64 << 20}"))
        assert pushed(caller, 64 << 20) < 32 << 20
    assert sluice.status_kb("VmRSS") - before_kb < 16384
    for caller in sluice.callers:
        caller.reset()  # a plain close would wait behind the bytes that nobody reads


def test_memory_for_queued_bodies_is_capped_over_all_callers(rig, origin):
    """Beyond max_queued_bytes a caller is refused; the others keep their place."""
    sluice = rig.sluice(proxy={"max_queued_bytes": "64k"}, default=FOREVER)
    occupy(sluice, origin, 0)
    callers = [sluice.caller().send(request("POST", origin.url(), body=bytes(30000))) for _ in range(4)]
    eventually(lambda: any(e["status"] == "503" for e in sluice.events("access")), why="a refusal for want of memory")
    refused = [caller for caller in callers if not caller.silent_for(0.1)]
    assert 0 < len(refused) <= 2
    for caller in refused:
        response = caller.response()
        assert response.status == 503 and json.loads(response.body)["reason"] == "queued_bytes"


def test_connections_are_capped(rig, origin):
    sluice = rig.sluice(proxy={"max_connections": "5"})
    callers = [sluice.caller() for _ in range(5)]
    for caller in callers:
        assert caller.get(origin.url()).status == 200
    extra = sluice.caller()
    try:
        response = extra.get(origin.url("/extra"))
        assert response.status == 503 and "connection_limit_reached" in response.get("Proxy-Status")
    except (Ended, ConnectionError):
        pass  # refused without an answer
    assert origin.to("/extra") == []
    callers.pop().close()
    sluice.callers.remove(extra)
    extra.close()
    eventually(lambda: try_get(sluice, origin.url("/later")) == 200, why="room again")


def try_get(sluice, url):
    try:
        return sluice.get(url).status
    except (Ended, ConnectionError):
        return None


def test_a_waiting_caller_may_pipeline_and_is_answered_in_order(rig, origin):
    """What is behind a waiting request waits behind it, and is lost with it when the caller resets."""
    sluice = rig.sluice(default={"rate": "5/s"})
    caller = sluice.caller()
    caller.send(b"".join(request("GET", origin.url(f"/{n}")) for n in range(3)))
    for _ in range(3):
        assert caller.response().status == 200
    assert [r.path for r in origin.requests] == ["/0", "/1", "/2"]
    caller.send(b"".join(request("GET", origin.url(f"/lost/{n}")) for n in range(3)))
    caller.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    caller.close()
    sluice.access(verdict="caller_gone")
    assert len(origin.requests) <= 4
