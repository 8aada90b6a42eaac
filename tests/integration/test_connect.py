"""CONNECT: a slot, then a tunnel for bytes of any kind, both ways, until both sides are done."""
import hashlib
import os
import signal
import socket
import threading
import time

import pytest

from rig import eventually, free_port
from wire import Caller, request


def echo(peer):
    """Sends back what comes; at the end of it, says so and ends too."""
    while peer.buffer or peer.more():
        peer.send(peer.take(len(peer.buffer)))
    peer.send(b"end")
    peer.close()


@pytest.fixture
def origin(rig):
    one = rig.origin()
    one.on_connect = echo
    return one


@pytest.fixture
def sluice(rig, origin):
    return rig.sluice(proxy={"connect_ports": f"443, {origin.port}"})


def connect(sluice, authority, early=b""):
    caller = sluice.caller()
    caller.send(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode() + early)
    return caller


def test_bytes_pass_both_ways_after_200(sluice, origin):
    caller = connect(sluice, origin.authority)
    head = caller.head()
    assert head.status == 200
    assert head.all("Content-Length") == [] and head.all("Transfer-Encoding") == []
    for data in (b"\x80\x03\x01 not HTTP at all", b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 100):
        assert caller.send(data).exactly(len(data)) == data


def test_early_bytes_behind_the_request_are_kept(sluice, origin):
    caller = connect(sluice, origin.authority, early=b"early bytes")
    assert caller.head().status == 200
    assert caller.exactly(11) == b"early bytes"


def test_a_third_party_that_speaks_first_is_heard(sluice, origin):
    origin.on_connect = lambda peer: (peer.send(b"220 welcome\r\n"), echo(peer))
    caller = connect(sluice, origin.authority)
    assert caller.head().status == 200
    assert caller.until(b"\r\n", "the greeting") == b"220 welcome\r\n"


def test_a_half_closed_caller_still_hears(sluice, origin):
    caller = connect(sluice, origin.authority)
    caller.head()
    caller.send(b"last words")
    caller.sock.shutdown(socket.SHUT_WR)
    assert caller.rest() == b"last wordsend"


def test_a_half_closed_third_party_still_hears(sluice, origin):
    heard = []

    def half(peer):
        peer.send(b"nothing more from here")
        peer.sock.shutdown(socket.SHUT_WR)
        heard.append(peer.rest())
        peer.close()

    origin.on_connect = half
    caller = connect(sluice, origin.authority)
    caller.head()
    assert caller.rest() == b"nothing more from here"
    caller.send(b"still talking")
    caller.sock.shutdown(socket.SHUT_WR)
    eventually(lambda: heard == [b"still talking"])


def test_a_reset_ends_the_other_side_too(sluice, origin):
    caller = connect(sluice, origin.authority)
    caller.head()
    assert caller.send(b"x").exactly(1) == b"x"
    caller.reset()
    eventually(lambda: not origin.peers[0].open)
    sluice.access(verdict="tunnel")


@pytest.mark.parametrize("what", ["port", "host"])
def test_a_refused_tunnel_is_answered_and_closed_without_parsing_what_follows(rig, origin, what):
    allowed = origin.port if what == "host" else 443
    sluice = rig.sluice(proxy={"connect_ports": str(allowed), "unlisted": "deny"},
                        destinations={"x": {"hosts": "127.0.0.1" if what == "port" else "other.example"}})
    caller = connect(sluice, origin.authority, early=request("GET", origin.url("/smuggled")))
    response = caller.response()
    assert response.status == 403 and response.get("Proxy-Status")
    assert caller.at_end()
    assert origin.connections == 0


def test_an_unreachable_third_party_is_a_502(rig, sluice):
    port = free_port()
    sluice = rig.sluice(proxy={"connect_ports": str(port)})
    caller = connect(sluice, f"127.0.0.1:{port}", early=b"\x16\x03")
    response = caller.response()
    assert response.status == 502 and "connection_refused" in response.get("Proxy-Status")
    assert caller.at_end()


def test_each_turn_inside_takes_a_slot_and_the_tunnel_none(rig, origin):
    sluice = rig.sluice(proxy={"connect_ports": str(origin.port)}, default={"rate": "10/s"})
    callers = [connect(sluice, origin.authority) for _ in range(30)]
    start = time.monotonic()
    for caller in callers:
        assert caller.head().status == 200
    assert time.monotonic() - start < 1
    for caller in callers[:2]:
        for _ in range(5):
            assert caller.send(b"tu").exactly(2) == b"tu"
    assert time.monotonic() - start >= 0.9
    assert sorted(int(e["turns"]) for e in end_all(sluice, callers)) == [0] * 28 + [5, 5]


def test_a_tunnel_that_passes_is_not_counted(rig, origin):
    sluice = rig.sluice(proxy={"connect_ports": str(origin.port), "unlisted": "pass"}, default={"rate": "1/1m"})
    caller = connect(sluice, origin.authority)
    assert caller.head().status == 200
    for _ in range(20):
        assert caller.send(b"turn").exactly(4) == b"turn"
    assert "turns" not in end_all(sluice, [caller])[0]


def test_a_turn_that_would_wait_too_long_ends_the_tunnel(rig, origin):
    sluice = rig.sluice(proxy={"connect_ports": str(origin.port)}, default={"rate": "1/10s", "max_wait": "1s"})
    caller = connect(sluice, origin.authority)
    caller.head()
    assert caller.send(b"one").exactly(3) == b"one"
    assert caller.send(b"two").at_end()
    assert sluice.access(verdict="wait_too_long")[0]["turns"] == "1"


def test_a_turn_whose_deadline_comes_ends_the_tunnel(rig, origin):
    redis = rig.redis()
    sluice = rig.sluice(proxy={"connect_ports": str(origin.port)}, default={"max_wait": "3s"}, redis={"url": redis.url})
    caller = connect(sluice, origin.authority)
    caller.head()
    assert caller.send(b"one").exactly(3) == b"one"
    redis.process.signal(signal.SIGSTOP)
    assert caller.send(b"two").at_end()
    sluice.access(verdict="deadline")


def test_a_full_queue_ends_the_tunnel_and_a_caller_that_leaves_takes_no_slot(rig, origin):
    sluice = rig.sluice(proxy={"connect_ports": str(origin.port)}, default={"rate": "1/2s", "max_queue": 1})
    callers = [connect(sluice, origin.authority) for _ in range(3)]
    for caller in callers:
        caller.head()
    assert callers[0].send(b"a").exactly(1) == b"a"
    callers[1].send(b"b")
    assert callers[1].silent_for(0.3)
    assert callers[2].send(b"c").at_end()
    sluice.access(verdict="queue_full")
    callers[1].reset()
    sluice.access(verdict="caller_gone")
    assert callers[0].send(b"d").exactly(1) == b"d"  # the queue has room again
    assert origin.connections == 3


def test_tunnels_are_limited(rig, origin):
    sluice = rig.sluice(proxy={"connect_ports": str(origin.port)}, default={"max_tunnels": 2})
    callers = [connect(sluice, origin.authority) for _ in range(2)]
    assert [caller.head().status for caller in callers] == [200, 200]
    third = connect(sluice, origin.authority)
    assert third.response().status == 503 and sluice.access(verdict="too_many_tunnels")
    callers[0].close()
    sluice.access(verdict="tunnel")
    assert connect(sluice, origin.authority).head().status == 200


def test_an_old_tunnel_is_ended_after_tunnel_max_age(rig, origin):
    sluice = rig.sluice(proxy={"connect_ports": str(origin.port)}, default={"tunnel_max_age": "300ms"})
    caller = connect(sluice, origin.authority)
    caller.head()
    assert caller.at_end() and sluice.access(detail="tunnel_max_age")


def end_all(sluice, callers):
    for caller in callers:
        caller.close()
    return sluice.access(len(callers), verdict="tunnel")


def test_ipv6_tunnels(rig):
    origin = rig.origin("::1")
    origin.on_connect = echo
    sluice = rig.sluice(proxy={"connect_ports": str(origin.port)})
    caller = connect(sluice, origin.authority, early=b"six")
    assert caller.head().status == 200 and caller.exactly(3) == b"six"


def test_much_passes_both_ways_at_once_and_unchanged(sluice, origin):
    block = os.urandom(1 << 20)
    count = 64
    caller = connect(sluice, origin.authority)
    caller.head()
    before_kb = sluice.status_kb("VmRSS")

    def send():
        for _ in range(count):
            caller.sock.sendall(block)
        caller.sock.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send)
    sender.start()
    got, whole = 0, hashlib.blake2b()
    while got < count << 20:
        data = caller.sock.recv(min(1 << 20, (count << 20) - got))
        assert data
        whole.update(data)
        got += len(data)
    sender.join()
    assert caller.rest() == b"end"
    wanted = hashlib.blake2b()
    for _ in range(count):
        wanted.update(block)
    assert whole.hexdigest() == wanted.hexdigest()
    assert sluice.status_kb("VmHWM") - before_kb < 16 * 1024


def test_a_silent_tunnel_is_ended_after_tunnel_idle(rig, origin):
    sluice = rig.sluice(proxy={"connect_ports": str(origin.port)}, default={"tunnel_idle": "300ms"})
    caller = connect(sluice, origin.authority)
    caller.head()
    assert caller.at_end()
    eventually(lambda: not origin.peers[0].open)


def test_a_connect_that_arrives_in_pieces_keeps_its_early_bytes(sluice, origin):
    caller = sluice.caller()
    for byte in f"CONNECT {origin.authority} HTTP/1.1\r\nHost: {origin.authority}\r\n\r\nearly".encode():
        caller.send(bytes([byte]))
    assert caller.head().status == 200
    assert caller.exactly(5) == b"early"


def test_the_origin_can_be_reached_without_the_proxy(origin):
    """The rig itself: the echo behaves as the tests above expect of it."""
    caller = Caller(origin.address)
    assert caller.send(b"abc").exactly(3) == b"abc"
    caller.sock.shutdown(socket.SHUT_WR)
    assert caller.rest() == b"end"


def test_a_caller_that_resets_while_the_third_party_speaks_leaves_nothing_behind(rig):
    """Its turn waits, it resets, and in the same moment bytes come that can't be delivered: every descriptor is given back."""
    speaking = []
    sluice = rig.sluice(proxy={"connect_ports": "1-65535", "keepalive_timeout": "2s"}, default={"rate": "1/1m", "max_wait": "10m"})
    with socket.create_server(("127.0.0.1", 0)) as listening:
        where = "%s:%d" % listening.getsockname()
        before = sluice.descriptors()
        for _ in range(8):
            caller = sluice.caller().send(f"CONNECT {where} HTTP/1.1\r\nHost: a\r\n\r\nturn".encode())
            assert caller.head().status == 200
            speaking.append(listening.accept()[0])
            sluice.signal(signal.SIGSTOP)
            caller.reset()
            speaking[-1].sendall(b"the server speaks")
            sluice.signal(signal.SIGCONT)
        sluice.callers.clear()
        eventually(lambda: sluice.descriptors() <= before, why="all descriptors closed")
        for peer in speaking:
            peer.close()
