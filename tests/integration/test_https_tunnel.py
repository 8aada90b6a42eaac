"""https = tunnel: each request inside a tunnel takes a slot, though nobody opens it. Judged at the origin: never more
requests than turns, never more than N in a window, whoever the client is.
"""
import os
import socket
import ssl
import subprocess
import time

import pytest

from origin import most_in_window, ok
from pki import Pki, TlsOrigin
from rig import environment, eventually
from wire import Stream

TLS12 = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)
TLS13 = (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3)
versions = pytest.mark.parametrize("versions", [TLS12, TLS13], ids=["tls1.2", "tls1.3"])


@pytest.fixture
def pki(rig):
    return Pki(rig.directory)


def start(rig, origin, **keys):
    return rig.sluice(proxy={"connect_ports": str(origin.port)}, default=keys)


def turns(sluice, tunnels=1):
    return sum(int(e["turns"]) for e in sluice.access(tunnels, method="CONNECT"))


class TlsCaller(Stream):
    """Speaks HTTP/1.1 in TLS in a tunnel; `name` is the SNI."""

    def __init__(self, sluice, origin, pki, name="localhost", alpn=("http/1.1",), host="localhost", certificate=None):
        caller = sluice.caller()
        caller.send(f"CONNECT {host}:{origin.port} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        self.answer = caller.head()
        context = ssl.create_default_context(cafile=pki.ca)
        context.check_hostname = False
        context.set_alpn_protocols(list(alpn))
        if certificate:
            context.load_cert_chain(*certificate)
        self.tls = context.wrap_socket(caller.sock, server_hostname=name)
        super().__init__(self.tls)

    def more(self):
        data = self.tls.recv(1 << 18)
        self.buffer += data
        return bool(data)

    def get(self, path="/"):
        self.tls.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head = self.until(b"\r\n\r\n", "a head").decode()
        length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
        return head, self.exactly(length)


@versions
def test_requests_in_one_tunnel_leave_at_the_rate(rig, pki, versions):
    origin = rig.add(TlsOrigin(pki.issue(), versions))
    sluice = start(rig, origin, rate="10/s")
    caller = TlsCaller(sluice, origin, pki)
    for number in range(20):
        assert caller.get(f"/{number}")[1] == b"ok"
    stamps = origin.stamps()
    assert most_in_window(stamps, 1.0) <= 10 and stamps[-1] - stamps[0] >= 1.9
    assert origin.connections == 1
    caller.close()
    assert turns(sluice) == 20


def test_tunnels_opened_early_earn_no_burst(rig, pki):
    origin = rig.add(TlsOrigin(pki.issue()))
    sluice = start(rig, origin, rate="10/s")
    callers = [TlsCaller(sluice, origin, pki) for _ in range(15)]
    for caller in callers:
        caller.tls.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    origin.wait(15)
    assert most_in_window(origin.stamps(), 1.0) <= 10


@pytest.mark.parametrize("tickets", [0, 2])
def test_a_client_certificate_shown_early_makes_no_request_free(rig, pki, tickets):
    origin = rig.add(TlsOrigin(pki.issue(), TLS13, client_ca=pki.ca))
    origin.context.num_tickets = tickets
    sluice = start(rig, origin, rate="20/s")
    certificate = pki.issue("us", "DNS:us")
    callers = [TlsCaller(sluice, origin, pki, certificate=certificate) for _ in range(25)]
    eventually(lambda: len(origin.handshakes) == 25)
    quiet = time.time() + 1.2
    eventually(lambda: time.time() > quiet)
    for caller in callers:
        caller.tls.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    origin.wait(25)
    assert most_in_window(origin.stamps(), 1.0) <= 20
    for caller in callers:
        caller.close()
    assert 25 <= turns(sluice, 25) <= 3 * 25


def test_the_name_in_the_client_hello_must_be_that_of_the_connect(rig, pki):
    origin = rig.add(TlsOrigin(pki.issue()))
    sluice = start(rig, origin)
    with pytest.raises(ssl.SSLError, match="(?i)unrecognized.name"):
        TlsCaller(sluice, origin, pki, name="elsewhere.test")
    assert sluice.access(verdict="sni_mismatch")[0]["turns"] == "0" and origin.handshakes == []
    assert TlsCaller(sluice, origin, pki, name="LOCALHOST").get()[1] == b"ok"
    assert TlsCaller(sluice, origin, pki, name=None).get()[1] == b"ok"
    assert TlsCaller(sluice, origin, pki, name=None, host="127.0.0.1").get()[1] == b"ok"
    lenient = start(rig, origin, sni_check="off")
    assert TlsCaller(lenient, origin, pki, name="elsewhere.test").get()[1] == b"ok"


def test_callers_that_offer_http_2_are_warned_of_once_or_refused(rig, pki):
    origin = rig.add(TlsOrigin(pki.issue()))
    sluice = start(rig, origin)
    for _ in range(3):
        assert TlsCaller(sluice, origin, pki, alpn=("h2", "http/1.1")).get()[1] == b"ok"
    sluice.hang_up()
    sluice.access(3)
    assert len(sluice.events("tunnel_h2")) == 1
    strict = start(rig, origin, tunnel_h2="refuse")
    with pytest.raises(ssl.SSLError, match="(?i)no.application.protocol"):
        TlsCaller(strict, origin, pki, alpn=("h2", "http/1.1"))
    assert "tunnel_h2" in strict.access(verdict="h2_refused")[0]["detail"]
    assert TlsCaller(strict, origin, pki).get()[1] == b"ok"


@versions
def test_long_downloads_and_uploads_larger_than_any_buffer(rig, pki, versions):
    origin = rig.add(TlsOrigin(pki.issue(), versions))
    data = os.urandom(4 << 20)
    origin.on("/down", lambda peer, request: peer.send(ok(data)))
    origin.on("/up", lambda peer, request: peer.send(ok(peer.read_body(request))))
    sluice = start(rig, origin)
    caller = TlsCaller(sluice, origin, pki)
    assert caller.get("/down")[1] == data
    caller.tls.sendall(f"POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
    caller.until(b"\r\n\r\n", "a head")
    assert caller.exactly(len(data)) == data
    caller.close()
    assert turns(sluice) == 2


def test_a_client_hello_cut_at_every_byte_passes(rig, pki):
    origin = rig.add(TlsOrigin(pki.issue()))
    sluice = start(rig, origin)
    caller = sluice.caller()
    caller.send(f"CONNECT localhost:{origin.port} HTTP/1.1\r\nHost: a\r\n\r\n".encode()).head()
    inside, outside = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.create_default_context(cafile=pki.ca).wrap_bio(inside, outside, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    for byte in outside.read():
        caller.send(bytes([byte]))
    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            inside.write(caller.sock.recv(65536))
    caller.send(outside.read())
    tls.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    for byte in outside.read():
        caller.send(bytes([byte]))
    origin.wait(1)
    sluice.hang_up()
    assert turns(sluice) == 1


def client(sluice, directory, pki, *command):
    env = {**environment(), "HOME": str(directory), "HTTPS_PROXY": sluice.url, "https_proxy": sluice.url,
           "REQUESTS_CA_BUNDLE": str(pki.ca), "NODE_EXTRA_CA_CERTS": str(pki.ca)}
    done = subprocess.run([str(word) for word in command], cwd=directory, env=env, capture_output=True, timeout=60,
                          stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stdout.decode("utf-8", "replace") + done.stderr.decode("utf-8", "replace")
    return done


@versions
def test_an_upload_that_waits_for_100_continue_counts_no_less(rig, pki, versions):
    origin = rig.add(TlsOrigin(pki.issue(), versions))

    def handler(peer, request):
        if request.get("Expect"):
            peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        peer.read_body(request)
        peer.send(ok())

    origin.fallback = handler
    sluice = start(rig, origin)
    (rig.directory / "up").write_bytes(b"x" * (2 << 20))
    client(sluice, rig.directory, pki, "curl", "-sS", "--http1.1", "--cacert", pki.ca, "-H", "Expect: 100-continue",
           "-T", "up", f"https://localhost:{origin.port}/a", "-T", "up", f"https://localhost:{origin.port}/b")
    assert len(origin.requests) == 2 and 2 <= turns(sluice, origin.connections) <= 6


def test_a_held_turn_is_dropped_when_the_caller_closes(rig, pki):
    origin = rig.add(TlsOrigin(pki.issue()))
    sluice = start(rig, origin, rate="1/2s", late="400ms")
    callers = [TlsCaller(sluice, origin, pki) for _ in range(2)]
    assert callers[0].get()[1] == b"ok"
    callers[1].tls.sendall(b"GET /never HTTP/1.1\r\nHost: a\r\n\r\n")
    callers[1].tls.shutdown(socket.SHUT_RDWR)
    callers[1].close()
    assert sluice.access(verdict="caller_gone")[0]["turns"] == "0"
    begun = time.monotonic()
    assert callers[0].get()[1] == b"ok" and time.monotonic() - begun < 3
    assert origin.to("/never") == []


def test_three_replicas_share_the_turns(rig, pki):
    origin = rig.add(TlsOrigin(pki.issue()))
    redis = rig.redis()
    keys = {"proxy": {"connect_ports": str(origin.port)}, "default": {"rate": "10/s"}, "redis": {"url": redis.url}}
    replicas = [rig.sluice(**keys) for _ in range(3)]
    callers = [TlsCaller(sluice, origin, pki) for sluice in replicas for _ in range(7)]
    for caller in callers:
        caller.tls.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    origin.wait(21)
    assert most_in_window(origin.stamps(), 1.0) <= 10
