"""Bodies far larger than memory may be used for: streamed both ways, with back-pressure, in bounded memory."""
import hashlib
import socket
import time

import pytest

from rig import eventually
from wire import request

MIB = 1 << 20
LARGE = 256 * MIB
BLOCK = bytes(range(256)) * (MIB // 256)
MOST_GROWTH_KB = 24 * 1024
MOST_IN_KERNEL = 48 * MIB  # both sockets' buffers, far below what is sent


def digest(count):
    whole = hashlib.blake2b()
    for _ in range(count // MIB):
        whole.update(BLOCK)
    return whole.hexdigest()


class Meter:
    """Counts what went; tells when nothing moves any more."""

    def __init__(self):
        self.bytes = 0

    def stands_still(self):
        before = self.bytes
        time.sleep(0.3)
        return before > 0 and self.bytes == before


def receive(stream, count):
    """Reads exactly that many bytes, those already read included, and digests them."""
    early = stream.take(min(len(stream.buffer), count))
    whole, left = hashlib.blake2b(early), count - len(early)
    while left > 0:
        data = stream.sock.recv(min(MIB, left))
        assert data, f"ended {left} bytes early"
        whole.update(data)
        left -= len(data)
    return whole.hexdigest()


@pytest.fixture
def sluice(rig):
    one = rig.sluice()
    one.before_kb = one.status_kb("VmRSS")
    yield one
    grown = one.status_kb("VmHWM") - one.before_kb
    assert grown < MOST_GROWTH_KB, f"{grown} kB for one body of {LARGE // 1024} kB"


def download(meter):
    def handler(peer, _request):
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % LARGE)
        view = memoryview(BLOCK)
        while meter.bytes < LARGE:
            meter.bytes += peer.sock.send(view[meter.bytes % MIB:])

    return handler


def test_a_large_download_arrives_whole_and_waits_for_a_slow_reader(sluice, origin):
    meter = Meter()
    origin.fallback = download(meter)
    caller = sluice.caller()
    caller.send(request("GET", origin.url()))
    assert caller.head().get("Content-Length") == str(LARGE)
    eventually(meter.stands_still, why="back-pressure")
    assert meter.bytes < MOST_IN_KERNEL
    assert receive(caller, LARGE) == digest(LARGE)
    assert caller.get(origin.url("/small"), method="HEAD").status == 200


def test_a_large_upload_arrives_whole_and_waits_for_a_slow_third_party(sluice, origin):
    gate = origin.gate()
    sums = []

    def handler(peer, req):
        gate.wait()
        sums.append(receive(peer, LARGE))
        req.body = b""
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    origin.fallback = handler
    caller = sluice.caller()
    caller.send(request("PUT", origin.url(), f"Content-Length: {LARGE}"))
    meter = push(caller.sock, LARGE, opened=gate.set)
    assert meter.bytes == LARGE
    assert caller.response().status == 200
    assert sums == [digest(LARGE)]


def push(sock, count, opened):
    """Sends until nothing is taken for a while, opens the gate, sends the rest."""
    meter = Meter()
    view = memoryview(BLOCK)
    sock.settimeout(0.5)
    while meter.bytes < count:
        try:
            meter.bytes += sock.send(view[meter.bytes % MIB:])
        except TimeoutError:
            assert meter.bytes < MOST_IN_KERNEL, "more was taken than kernels hold"
            opened()
            sock.settimeout(20)
    return meter


def test_a_large_chunked_download_reaches_an_http_1_0_caller(sluice, origin):
    """Unchunked on the way, and ended by closing."""
    count = 32 * MIB

    def handler(peer, _request):
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(count // MIB):
            peer.send(b"%x\r\n" % MIB + BLOCK + b"\r\n")
        peer.send(b"0\r\n\r\n")

    origin.fallback = handler
    caller = sluice.caller()
    caller.send(f"GET {origin.url()} HTTP/1.0\r\n\r\n".encode())
    caller.head()
    whole, got = hashlib.blake2b(caller.buffer), len(caller.buffer)
    while data := caller.sock.recv(MIB):
        whole.update(data)
        got += len(data)
    assert (got, whole.hexdigest()) == (count, digest(count))


def test_a_small_window_of_the_caller_is_enough(sluice, origin):
    """A caller with a tiny receive buffer gets everything, only later."""
    count = 4 * MIB
    origin.fallback = lambda peer, _: peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % count + BLOCK * (count // MIB))
    caller = sluice.caller(receive_buffer=4096)
    assert caller.sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) < 65536
    assert caller.get(origin.url()).body == BLOCK * (count // MIB)
