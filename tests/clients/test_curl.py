"""curl: downloads, uploads with Expect: 100-continue, parallel bursts, HTTP/1.0, tunnels."""
import os

import pytest

from client import needs, run
from origin import most_in_window, ok, reply
from wire import chunk

pytestmark = needs("curl")


@pytest.fixture
def sluice(rig, origin):
    return rig.sluice(proxy={"connect_ports": str(origin.port)})


def test_get_head_and_headers(rig, sluice, origin):
    done = run(sluice, rig.directory, "curl", "-sS", "-i", "-H", "X-A: 1", origin.url("/a?b=c"))
    assert done.stdout.startswith(b"HTTP/1.1 200 OK\r\n") and done.stdout.endswith(b"ok")
    assert run(sluice, rig.directory, "curl", "-sS", "-I", origin.url()).stdout.startswith(b"HTTP/1.1 200")
    assert [r.method for r in origin.requests] == ["GET", "HEAD"] and origin.requests[0].get("X-A") == "1"


def test_an_upload_with_expect_continue(rig, sluice, origin):
    data = os.urandom(3 << 20)
    (rig.directory / "up").write_bytes(data)

    def handler(peer, request):
        peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        reply(ok(b"stored"))(peer, request)

    origin.fallback = handler
    done = run(sluice, rig.directory, "curl", "-sS", "-T", "up", "-H", "Expect: 100-continue", origin.url("/up"))
    assert done.stdout == b"stored" and origin.requests[0].body == data


def test_a_chunked_upload_and_download(rig, sluice, origin):
    origin.fallback = reply(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(b"a" * 5000) + chunk(b"b") + b"0\r\n\r\n")
    done = run(sluice, rig.directory, "curl", "-sS", "-H", "Transfer-Encoding: chunked", "-H", "Expect:", "-d", "x=y", origin.url())
    assert done.stdout == b"a" * 5000 + b"b" and origin.requests[0].body == b"x=y"


def test_http_1_0(rig, sluice, origin):
    assert run(sluice, rig.directory, "curl", "-sS", "-0", origin.url()).stdout == b"ok"


def test_a_parallel_burst_is_paced(rig, origin):
    sluice = rig.sluice(default={"rate": "20/s"})
    urls = [word for number in range(30) for word in (origin.url(f"/{number}"), "-o", "/dev/null")]
    run(sluice, rig.directory, "curl", "-sS", "-f", "-Z", "--parallel-max", "30", *urls)
    assert len(origin.requests) == 30 and most_in_window(origin.stamps(), 1.0) <= 20


def test_a_tunnel(rig, sluice, origin):
    assert run(sluice, rig.directory, "curl", "-sS", "-p", origin.url("/through")).stdout == b"ok"
    assert origin.requests[0].all("Via") == []
    sluice.access(verdict="tunnel")


def test_a_refusal_fails_the_command(rig, origin):
    sluice = rig.sluice(proxy={"unlisted": "deny"})
    done = run(sluice, rig.directory, "curl", "-sS", "-f", origin.url(), ok=False)
    assert done.returncode == 22 and b"403" in done.stderr
