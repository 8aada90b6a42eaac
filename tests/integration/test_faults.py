"""Third parties, networks, callers and disks that fail: each has a named answer, nothing leaks, nobody else waits."""
import contextlib
import json
import signal
import socket
import time

import pytest

from origin import ok, reply
from rig import eventually, free_port
from wire import Ended, chunk, request


@pytest.fixture
def sluice(rig):
    return rig.sluice()


def check_refusal(response, status, error, reason=None):
    assert response.status == status, response.raw + response.body
    assert response.get("Proxy-Status").startswith(f"sluice; error={error}")
    problem = json.loads(response.body)
    assert problem["status"] == status and (reason is None or problem["reason"] == reason)
    assert "127.0.0.1" not in problem.get("detail", ""), "no inner addresses"


@contextlib.contextmanager
def never_accepting():
    """An address whose backlog is full: further SYNs are dropped."""
    with contextlib.ExitStack() as sockets:
        full = sockets.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):
            filler = sockets.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        yield full.getsockname()


# ---- third parties that can't be reached

def test_a_dead_third_party_is_a_502(rig, sluice):
    check_refusal(sluice.get(f"http://127.0.0.1:{free_port()}/"), 502, "connection_refused")
    sluice.access(status=502)


def test_a_failed_connect_costs_no_slot(rig, origin):
    dead = f"127.0.0.1:{free_port()}"
    sluice = rig.sluice(destinations={"both": {"hosts": f"{dead}, {origin.authority}", "rate": "1/1h", "max_wait": "1d"}})
    assert sluice.get(f"http://{dead}/").status == 502
    assert sluice.get(origin.url()).status == 200


def test_a_queue_in_front_of_a_dead_third_party_does_not_wait_for_slots(rig):
    sluice = rig.sluice(default={"rate": "1/1h", "max_wait": "1d"})
    dead = free_port()
    requests = [request("GET", f"http://127.0.0.1:{dead}/", "Connection: close")] * 20
    assert rig.crowd([sluice], requests).statuses(10) == [502] * 20


def test_a_host_that_never_accepts_does_not_hold_up_others_of_its_destination(rig, origin):
    """Slots go to whoever has a connection."""
    with never_accepting() as address:
        silent = "127.0.0.1:%d" % address[1]
        sluice = rig.sluice(default={"connect_timeout": "2s"},
                            destinations={"both": {"hosts": f"{silent}, {origin.authority}", "rate": "5/s"}})
        caller = sluice.caller().send(request("GET", f"http://{silent}/"))
        assert caller.silent_for(0.1)
        started = time.monotonic()
        for _ in range(3):
            assert sluice.get(origin.url()).status == 200
        assert time.monotonic() - started < 1.8
        assert caller.response().status == 504


def test_few_connections_to_a_slow_third_party_are_shared(rig, origin):
    sluice = rig.sluice(default={"max_connections": "2"})
    origin.fallback = lambda peer, _: (time.sleep(0.05), peer.send(ok()))
    assert rig.crowd([sluice], [request("GET", origin.url(), "Connection: close")] * 12).statuses() == [200] * 12
    assert origin.connections == 2


def test_an_unknown_name_is_a_502_and_holds_up_nobody(sluice, origin):
    caller = sluice.caller().send(request("GET", "http://no-such-host.invalid/"))
    assert sluice.get(origin.url()).status == 200
    response = caller.response()
    assert (response.status, "dns_" in response.get("Proxy-Status")) in ((502, True), (504, True))
    caller.close()
    assert sluice.get(origin.url()).status == 200


def test_a_third_party_that_never_accepts_is_a_504(rig):
    with never_accepting() as address:
        sluice = rig.sluice(default={"connect_timeout": "300ms"})
        started = time.monotonic()
        response = sluice.get("http://127.0.0.1:%d/" % address[1])
        assert time.monotonic() - started >= 0.28
        check_refusal(response, 504, "connection_timeout")


def test_private_addresses_are_refused_unless_allowed(rig, origin):
    sluice = rig.sluice(proxy={"private_upstreams": "deny"})
    for host in ("127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254"):
        check_refusal(sluice.get(f"http://{host}:{origin.port}/"), 403, "destination_ip_prohibited")
    assert origin.connections == 0
    listed = rig.sluice(proxy={"private_upstreams": "127.0.0.0/8"})
    assert listed.get(origin.url()).status == 200


# ---- third parties that break off

@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_connection_that_ends_instead_of_an_answer_is_a_502_and_never_sent_again(sluice, origin, how):
    origin.fallback = lambda peer, req: (peer.read_body(req), peer.close() if how == "close" else peer.reset())
    caller = sluice.caller()
    check_refusal(caller.get(origin.url()), 502, "connection_terminated")
    caller.send(request("POST", origin.url(), body=b"pay"))
    assert caller.response().status == 502
    assert len(origin.requests) == 2


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_kept_connection_that_dies_under_a_request_is_a_502_and_never_sent_again(sluice, origin, method):
    """Bytes have left: nobody can tell whether the third party acted on them."""
    caller = sluice.caller()
    assert caller.get(origin.url("/first")).status == 200
    origin.on("/dies", lambda peer, _: peer.reset())
    assert caller.get(origin.url("/dies"), "Content-Length: 0", method=method).status == 502
    assert len(origin.to("/dies")) == 1
    assert origin.to("/dies")[0].connection == 1, "it went over the kept connection"
    assert caller.get(origin.url("/after")).status == 200


def test_a_kept_connection_that_died_while_idle_is_replaced_under_the_same_slot(rig, origin):
    """The third party closes after its answer. The next request goes out on a fresh connection, at its own slot and once."""
    sluice = rig.sluice(default={"rate": "4/s"})
    origin.fallback = reply(ok(), close=True)  # without saying so
    caller = sluice.caller()
    for _ in range(5):
        assert caller.get(origin.url()).status == 200
    stamps = origin.stamps()
    assert len(stamps) == 5 and origin.connections == 5
    assert all(0.25 <= after - before < 0.5 for before, after in zip(stamps, stamps[1:]))


def test_a_connection_that_dies_while_its_request_waits_is_replaced(rig, origin):
    """The connection is there before the slot; the third party drops it meanwhile."""
    sluice = rig.sluice(default={"rate": "1/1s"})
    gate = origin.gate()

    def drop_fresh(peer):
        if peer.number == 2:
            gate.wait()
            peer.reset()

    origin.on_connect = drop_fresh
    origin.fallback = lambda peer, _: (peer.send(ok()), peer.close())
    caller = sluice.caller()
    assert caller.get(origin.url("/first")).status == 200
    caller.send(request("GET", origin.url("/second")))
    eventually(lambda: origin.connections >= 2, why="a warm connection")
    gate.set()
    assert caller.response().status == 200
    first, second = origin.stamps()
    assert second - first < 1.5 and len(origin.requests) == 2


def test_a_connection_that_the_third_party_will_close_is_not_used_again(sluice, origin):
    """It said so, though it has not done it yet."""
    origin.fallback = reply(ok(b"x", "Connection: close"))
    caller = sluice.caller()
    for _ in range(3):
        assert caller.get(origin.url()).status == 200
    assert [r.connection for r in origin.requests] == [1, 2, 3]


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("how", ["close", "reset"])
def test_an_answer_that_breaks_off_is_seen_to_be_broken(sluice, origin, framing, how):
    head = b"Content-Length: 1000\r\n\r\nhalf" if framing == "length" else b"Transfer-Encoding: chunked\r\n\r\n" + chunk(b"half")
    gate = origin.gate()

    def handler(peer, _):
        peer.send(b"HTTP/1.1 200 OK\r\n" + head)
        gate.wait()
        peer.close() if how == "close" else peer.reset()

    origin.fallback = handler
    caller = sluice.caller().send(request("GET", origin.url()))
    response = caller.head()
    assert caller.until(b"half", "the first half")
    gate.set()
    with pytest.raises(Ended):
        caller.exactly(1000) if framing == "length" else caller.until(b"\r\n0\r\n", "the end")
    assert response.status == 200
    sluice.access(verdict="broken_off")


def test_an_answer_that_comes_before_the_body_was_read_is_relayed(sluice, origin):
    origin.fallback = lambda peer, _: (peer.send(ok(b"too much", "Connection: close", status="413 Content Too Large")), peer.close())
    caller = sluice.caller().send(request("POST", origin.url(), "Content-Length: 100000000"))
    response = caller.response()
    assert (response.status, response.body) == (413, b"too much")


def test_a_third_party_that_does_not_answer_in_time_is_a_504(rig, origin):
    sluice = rig.sluice(default={"response_timeout": "300ms"})
    gate = origin.gate()
    origin.fallback = lambda peer, _: gate.wait()
    started = time.monotonic()
    check_refusal(sluice.get(origin.url()), 504, "http_response_timeout")
    assert time.monotonic() - started >= 0.3


def test_a_body_that_stalls_is_broken_off(rig, origin):
    sluice = rig.sluice(default={"body_timeout": "300ms"})
    gate = origin.gate()
    origin.fallback = lambda peer, _: (peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"), gate.wait())
    with pytest.raises(Ended):
        sluice.get(origin.url())


# ---- callers that fail

def test_a_caller_that_leaves_inside_an_answer_takes_the_connection_with_it(sluice, origin):
    gate = origin.gate()
    origin.fallback = lambda peer, _: (peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"), gate.wait())
    caller = sluice.caller().send(request("GET", origin.url()))
    caller.head()
    caller.reset()
    sluice.access(verdict="caller_gone")
    assert origin.peers[0].at_end()  # while its handler still waits: afterwards it closes this socket itself
    gate.set()


def test_a_caller_that_leaves_inside_its_body_breaks_the_request_off(sluice, origin):
    ended = []

    def handler(peer, req):
        try:
            peer.read_body(req)
            ended.append("complete")
        except Ended:
            ended.append("broken")
            raise

    origin.fallback = handler
    caller = sluice.caller().send(request("POST", origin.url(), "Content-Length: 100") + b"some")
    origin.wait(1)
    caller.close()
    eventually(lambda: ended == ["broken"])


@pytest.mark.parametrize("sent", [b"", b"GET http", b"GET http://127.0.0.1/ HTTP/1.1\r\nHost: x\r\nX-A: 1\r\n"])
def test_a_head_that_does_not_come_in_time_is_closed(rig, sent):
    sluice = rig.sluice(proxy={"head_timeout": "400ms", "keepalive_timeout": "400ms"})
    started = time.monotonic()
    caller = sluice.caller().send(sent)
    if not caller.at_end():
        assert caller.response().status == 408
        assert caller.at_end()
    assert 0.39 <= time.monotonic() - started < 5


def test_a_head_that_drips_is_closed_all_the_same(rig):
    """The time runs from the first byte and is not prolonged by more."""
    sluice = rig.sluice(proxy={"head_timeout": "500ms"})
    caller = sluice.caller()
    started = time.monotonic()
    caller.send(b"GET http://127.0.0.1/ HTTP/1.1\r\n")
    with pytest.raises(ConnectionError):
        while time.monotonic() - started < 10:
            caller.send(b"X")
            time.sleep(0.05)
            if not caller.silent_for(0.01):
                raise ConnectionError("answered or closed")
    assert time.monotonic() - started < 5


def test_an_idle_caller_is_closed_without_a_word(rig, origin):
    sluice = rig.sluice(proxy={"keepalive_timeout": "300ms"})
    caller = sluice.caller()
    assert caller.get(origin.url()).status == 200
    assert caller.rest() == b""


def test_a_request_body_that_stalls_is_given_up(rig, origin):
    sluice = rig.sluice(default={"body_timeout": "300ms"})
    caller = sluice.caller().send(request("POST", origin.url(), "Content-Length: 10") + b"half")
    try:
        assert caller.response().status in (408, 502, 504)
    except Ended:
        pass
    assert caller.at_end()


# ---- this machine fails

def test_out_of_descriptors_it_rests_and_then_goes_on(rig, origin):
    """Neither spins nor dies; callers wait in the kernel's backlog or are told, and are served once there is room."""
    sluice = rig.sluice(descriptors=70)
    assert sluice.get(origin.url()).status == 200
    crowd = []
    for _ in range(150):
        crowd.append(sluice.caller())
    eventually(lambda: sluice.descriptors() >= 30, why="many callers")
    used = sluice.cpu_seconds()
    time.sleep(1)
    assert sluice.cpu_seconds() - used < 0.3, "it spins"
    sluice.hang_up()
    assert eventually(lambda: served(sluice, origin), why="room again")


def test_callers_over_the_limit_take_nothing_from_those_who_are_in(rig, origin):
    sluice = rig.sluice(descriptors=60, default={"rate": "10000/s"})
    limit = int(sluice.wait_event("few_descriptors")[0]["used"])
    admitted = [sluice.caller() for _ in range(limit)]
    for caller in admitted:
        assert caller.get(origin.url()).status == 200
    over = [sluice.caller() for _ in range(100)]
    sluice.wait_event("access", verdict="too_many_connections")
    for caller in admitted:
        assert caller.get(origin.url("/again")).status == 200
    assert len(over) == 100 and sluice.events("access")[-1]["verdict"] == "forwarded"


def served(sluice, origin):
    try:
        return sluice.get(origin.url()).status == 200
    except (Ended, OSError):
        return False


def test_a_full_disk_under_the_log_stops_nothing(rig, origin):
    sluice = rig.sluice(proxy={"log_file": "/dev/full"})
    caller = sluice.caller()
    for _ in range(200):
        assert caller.get(origin.url()).status == 200
    assert sluice.alive()


def test_nothing_leaks_over_many_broken_exchanges(rig, origin):
    """After a churn of callers and third parties that break off in every way it holds no more descriptors than before."""
    sluice = rig.sluice(proxy={"connect_ports": str(origin.port)}, default={"upstream_idle": "200ms"})
    origin.on("/ok", ok(b"x" * 1000))
    origin.on("/reset", lambda peer, _: peer.reset())
    origin.on("/half", lambda peer, _: (peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"), peer.close()))
    before = sluice.descriptors()
    for number in range(60):
        caller = sluice.caller()
        path = ("/ok", "/reset", "/half", "/ok")[number % 4]
        if number % 5 == 0:
            caller.send(f"CONNECT {origin.authority} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        else:
            caller.send(request("POST", origin.url(path), body=b"y" * 500))
        if number % 3:
            caller.at_end()
        caller.reset() if number % 2 else caller.close()
    sluice.callers.clear()
    eventually(lambda: sluice.descriptors() <= before + 4, why="all descriptors closed")



def test_a_body_that_comes_while_a_dead_connection_is_replaced_is_not_lost(rig):
    """The connection is found dead at the slot and its replacement takes a while: what the caller sends meanwhile goes out too."""
    with contextlib.ExitStack() as sockets:
        listening = sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        url = "http://%s:%d/" % listening.getsockname()
        sluice = rig.sluice(default={"rate": "1/s", "late": "900ms"})  # a slot 1.9 s later, open for 0.9 s
        first = sluice.caller().send(request("GET", url))
        peer = listening.accept()[0]
        peer.recv(65536)
        peer.sendall(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        assert first.response().status == 204
        peer.close()
        caller = sluice.caller(patience=20)
        caller.send(f"POST {url} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + chunk(b"begin"))
        warm = listening.accept()[0]
        time.sleep(1.2)  # accepted here is not yet connected there; a connect that fails would be another story
        sluice.signal(signal.SIGSTOP)
        warm.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        warm.close()
        fillers = [sockets.enter_context(socket.socket()) for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(listening.getsockname())
        time.sleep(1)  # the slot opens while the process stands still, so it finds the connection dead only by sending
        sluice.signal(signal.SIGCONT)
        for _ in range(3):
            time.sleep(0.1)
            caller.send(chunk(b"-middle-"))
        peers = []
        listening.settimeout(0.1)

        def the_one_that_got_it():
            with contextlib.suppress(OSError):
                peers.append(sockets.enter_context(listening.accept()[0]))
                peers[-1].settimeout(0)
            for peer in peers:
                with contextlib.suppress(OSError):
                    if peer.recv(4, socket.MSG_PEEK) == b"POST":
                        return peer
            return None

        peer = eventually(the_one_that_got_it, why="the request on another connection")
        caller.send(chunk(b"end") + b"0\r\n\r\n")
        peer.settimeout(10)
        body = b""
        while not body.endswith(b"0\r\n\r\n"):
            body += peer.recv(65536)
        assert b"".join(part for part in body.partition(b"\r\n\r\n")[2].split(b"\r\n")[1::2]) == b"begin" + b"-middle-" * 3 + b"end"
        peer.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
        assert caller.response().status == 204
