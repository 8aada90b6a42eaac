"""https = intercept: callers CONNECT and trust our CA; each request inside takes a slot and leaves over verified TLS."""
import os
import socket
import ssl
import stat
import subprocess
import time

import pytest

from origin import most_in_window, ok
from pki import Pki, TlsOrigin, openssl
from rig import free_port, ini, run, with_file
from wire import Stream, chunk


@pytest.fixture
def pki(rig):
    return Pki(rig.directory)


@pytest.fixture
def ca(rig):
    assert run("ca", "init", "--dir", str(rig.directory / "ca")).returncode == 0
    return rig.directory / "ca"


def start(rig, pki, ca, origin, **keys):
    keys = {"hosts": f"localhost:{origin.port}, 127.0.0.1:{origin.port}", "https": "intercept", "ca_file": pki.ca, "rate": "1000/s", **keys}
    return rig.sluice(proxy={"connect_ports": str(origin.port), "ca_dir": ca}, destinations={"api": keys})


class TlsCaller(Stream):
    """A caller inside an intercepted CONNECT."""

    def __init__(self, sluice, origin, ca, host="localhost", name=None, alpn=("http/1.1",), trusted=True):
        self.host = f"{host}:{origin.port}"
        caller = sluice.caller()
        caller.send(f"CONNECT {self.host} HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
        assert caller.head().status == 200
        context = ssl.create_default_context(cafile=ca / "ca.pem" if trusted else None)
        context.check_hostname = name is None
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        context.set_alpn_protocols(list(alpn))
        self.tls = context.wrap_socket(caller.sock, server_hostname=name or host)
        super().__init__(self.tls)

    def more(self):
        data = self.tls.recv(1 << 18)
        self.buffer += data
        return bool(data)

    def send(self, data):
        self.tls.sendall(data)
        return self

    def get(self, path="/", *headers, method="GET", body=b""):
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.host}", f"Content-Length: {len(body)}", *headers]
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        return self.response()

    def response(self):
        from wire import Response
        return self.body_of(Response(self.until(b"\r\n\r\n", "a head")), until_close=True)


def test_the_key_is_ours_alone_and_nothing_is_overwritten(ca):
    assert stat.S_IMODE(os.stat(ca / "ca-key.pem").st_mode) == 0o600
    again = run("ca", "init", "--dir", str(ca))
    assert again.returncode != 0 and "not replaced" in again.stderr
    shown = run("ca", "show", "--dir", str(ca))
    assert shown.returncode == 0 and (ca / "ca.pem").read_text() in shown.stdout and "SHA-256" in shown.stdout
    text = subprocess.run(["openssl", "x509", "-in", ca / "ca.pem", "-noout", "-text"], capture_output=True, text=True, check=True).stdout
    assert "prime256v1" in text and "CA:TRUE, pathlen:0" in text


def test_a_ca_can_be_restricted_to_domains(rig):
    where = str(rig.directory / "ca")
    assert run("ca", "init", "--dir", where, "--permit", "example.com, example.org").returncode == 0
    text = subprocess.run(["openssl", "x509", "-in", where + "/ca.pem", "-noout", "-text"], capture_output=True, text=True, check=True).stdout
    assert "DNS:example.com" in text and "DNS:example.org" in text


@pytest.mark.parametrize("arguments", [(), ("init",), ("show",), ("other", "--dir", "x"), ("init", "--dir", "x", "more")])
def test_wrong_words_are_told_what_would_be_right(arguments):
    done = run("ca", *arguments)
    assert done.returncode == 2 and "sluice ca init --dir DIR" in done.stderr


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_requests_inside_are_answered_by_the_third_party(rig, pki, ca, host):
    origin = rig.add(TlsOrigin(pki.issue()))
    sluice = start(rig, pki, ca, origin)
    caller = TlsCaller(sluice, origin, ca, host)
    for number in range(3):
        assert caller.get(f"/{number}?a=b", "X-A: 1").body == b"ok"
    seen = origin.requests[0]
    assert seen.target == "/0?a=b" and seen.get("Host") == caller.host and seen.get("X-A") == "1"
    assert caller.tls.selected_alpn_protocol() == "http/1.1"
    assert len(sluice.access(3, verdict="forwarded", destination="api")) == 3
    assert sluice.access(3, verdict="forwarded")[0]["target"] == f"https://{caller.host}/0?a=..."
    sluice.access(verdict="intercept")


def test_a_leaf_is_for_its_host_for_some_weeks_and_has_a_serial_of_its_own(rig, pki, ca):
    origin = rig.add(TlsOrigin(pki.issue()))
    sluice = start(rig, pki, ca, origin)
    name, address, again = (TlsCaller(sluice, origin, ca, host).tls.getpeercert() for host in ("localhost", "127.0.0.1", "localhost"))
    assert name["subjectAltName"] == (("DNS", "localhost"),) and address["subjectAltName"] == (("IP Address", "127.0.0.1"),)
    for leaf in (name, address):
        begins, ends = (ssl.cert_time_to_seconds(leaf[key]) - time.time() for key in ("notBefore", "notAfter"))
        assert begins < 0 and 7 * 86400 < ends < 60 * 86400
    assert name["serialNumber"] != address["serialNumber"] and again == name


def test_requests_in_one_connection_leave_at_the_rate(rig, pki, ca):
    origin = rig.add(TlsOrigin(pki.issue()))
    caller = TlsCaller(start(rig, pki, ca, origin, rate="10/s"), origin, ca)
    assert [caller.get(f"/{n}").status for n in range(20)] == [200] * 20
    stamps = origin.stamps()
    assert most_in_window(stamps, 1.0) <= 10 and stamps[-1] - stamps[0] >= 1.9


def test_bodies_larger_than_any_buffer_pass_both_ways(rig, pki, ca):
    origin = rig.add(TlsOrigin(pki.issue()))
    data = os.urandom(5 << 20)
    origin.fallback = lambda peer, request: peer.send(ok(peer.read_body(request)))
    caller = TlsCaller(start(rig, pki, ca, origin), origin, ca)
    for _ in range(2):
        assert caller.get("/", method="POST", body=data).body == data


def test_answers_are_streamed_and_pipelined_requests_are_answered_in_order(rig, pki, ca):
    origin = rig.add(TlsOrigin(pki.issue()))
    gate = origin.gate()

    def slowly(peer, _):
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(b"first"))
        gate.wait(20)
        peer.send(chunk(b"last") + b"0\r\n\r\n")

    origin.on("/slow", slowly)
    origin.on("/b", ok(b"b"))
    caller = TlsCaller(start(rig, pki, ca, origin), origin, ca)
    caller.send(f"GET /slow HTTP/1.1\r\nHost: {caller.host}\r\n\r\nGET /b HTTP/1.1\r\nHost: {caller.host}\r\n\r\n".encode())
    caller.until(b"first\r\n", "the first chunk")
    gate.set()
    caller.until(b"last\r\n0\r\n\r\n", "the last chunk")
    assert caller.response().body == b"b"


def test_an_upgraded_connection_carries_bytes_both_ways(rig, pki, ca):
    origin = rig.add(TlsOrigin(pki.issue()))

    def switch(peer, _):
        peer.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nhello")
        while peer.buffer or peer.more():
            peer.send(peer.take(len(peer.buffer)))
        peer.close()

    origin.on("/ws", switch)
    sluice = start(rig, pki, ca, origin)
    caller = TlsCaller(sluice, origin, ca)
    caller.send(f"GET /ws HTTP/1.1\r\nHost: {caller.host}\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n".encode())
    assert caller.until(b"\r\n\r\n", "a head").startswith(b"HTTP/1.1 101") and caller.exactly(5) == b"hello"
    for size in (1, 100, 300000):
        data = os.urandom(size)
        assert caller.send(data).exactly(size) == data
    caller.tls.close()
    sluice.access(verdict="tunnel", status=101)


@pytest.mark.parametrize("kind, words", [("expired", b"has expired"), ("name", b"another name"), ("self-signed", b"self-signed")])
def test_a_bad_certificate_upstream_is_never_hidden(rig, pki, ca, kind, words):
    certificate = {"expired": lambda: pki.issue(days=(-10, -1)), "name": lambda: pki.issue("o.test", "DNS:o.test"),
                   "self-signed": pki.self_signed}[kind]()
    origin = rig.add(TlsOrigin(certificate))
    answer = TlsCaller(start(rig, pki, ca, origin), origin, ca).get()
    assert answer.status == 502 and words in answer.body and origin.requests == []


def test_only_destinations_that_ask_for_it_are_intercepted(rig, pki, ca):
    origin = rig.add(TlsOrigin(pki.issue()))
    sluice = rig.sluice(proxy={"connect_ports": str(origin.port), "ca_dir": ca},
                        destinations={"api": {"hosts": "elsewhere.test", "https": "intercept", "ca_file": pki.ca}})
    with pytest.raises(ssl.SSLCertVerificationError):
        TlsCaller(sluice, origin, ca)
    caller = sluice.caller()
    caller.send(f"CONNECT localhost:{origin.port} HTTP/1.1\r\nHost: a\r\n\r\n".encode()).head()
    tls = ssl.create_default_context(cafile=pki.ca).wrap_socket(caller.sock, server_hostname="localhost")
    assert ("commonName", "test authority") in [pair for rdn in tls.getpeercert()["issuer"] for pair in rdn]


def test_names_that_do_not_agree_are_refused(rig, pki, ca):
    origin = rig.add(TlsOrigin(pki.issue()))
    sluice = start(rig, pki, ca, origin)
    with pytest.raises(ssl.SSLError, match="(?i)unrecognized.name"):
        TlsCaller(sluice, origin, ca, name="elsewhere.test")
    caller = TlsCaller(sluice, origin, ca)
    answer = caller.send(b"GET / HTTP/1.1\r\nHost: elsewhere.test\r\n\r\n").response()
    assert answer.status == 421 and origin.requests == []
    assert caller.send(b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n").response().status == 400


def test_http_2_alone_is_refused_and_an_offer_of_both_gets_http_1(rig, pki, ca):
    origin = rig.add(TlsOrigin(pki.issue()))
    sluice = start(rig, pki, ca, origin)
    caller = TlsCaller(sluice, origin, ca, alpn=("h2", "http/1.1"))
    assert caller.tls.selected_alpn_protocol() == "http/1.1" and caller.get().body == b"ok"
    with pytest.raises(ssl.SSLError, match="(?i)no.application.protocol"):
        TlsCaller(sluice, origin, ca, alpn=("h2",))
    assert "HTTP/1.1" in sluice.wait_event("caller_tls")[0]["cure"]


def test_a_caller_that_does_not_trust_us_is_told_of_in_the_log(rig, pki, ca):
    origin = rig.add(TlsOrigin(pki.issue()))
    sluice = start(rig, pki, ca, origin)
    with pytest.raises(ssl.SSLCertVerificationError):
        TlsCaller(sluice, origin, ca, trusted=False)
    assert "trust our CA" in sluice.wait_event("caller_tls")[0]["cure"]


def test_a_handshake_that_stalls_or_breaks_off_ends(rig, pki, ca):
    origin = rig.add(TlsOrigin(pki.issue()))
    keys = {"hosts": f"localhost:{origin.port}", "https": "intercept"}
    sluice = rig.sluice(proxy={"connect_ports": str(origin.port), "ca_dir": ca, "head_timeout": "300ms"}, destinations={"api": keys})
    for early in (b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"):
        caller = sluice.caller()
        caller.send(f"CONNECT localhost:{origin.port} HTTP/1.1\r\nHost: a\r\n\r\n".encode() + early)
        assert caller.head().status == 200
        caller.rest()
        assert caller.at_end()
    caller = sluice.caller()
    caller.send(f"CONNECT localhost:{origin.port} HTTP/1.1\r\nHost: a\r\n\r\n\x16\x03".encode()).head()
    caller.sock.shutdown(socket.SHUT_WR)
    assert caller.at_end()


def test_a_handshake_that_came_with_the_connect_and_in_single_bytes(rig, pki, ca):
    origin = rig.add(TlsOrigin(pki.issue()))
    sluice = start(rig, pki, ca, origin)
    for single in (False, True):
        inside, outside = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = ssl.create_default_context(cafile=ca / "ca.pem").wrap_bio(inside, outside, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            tls.do_handshake()
        hello = outside.read()
        caller = sluice.caller()
        connect = f"CONNECT localhost:{origin.port} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
        for part in ([bytes([b]) for b in connect + hello] if single else [connect + hello]):
            caller.send(part)
        caller.head()
        inside.write(caller.take(len(caller.buffer)))
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                inside.write(caller.sock.recv(65536))
        tls.write(f"GET / HTTP/1.1\r\nHost: localhost:{origin.port}\r\n\r\n".encode())
        caller.send(outside.read())
        origin.wait(1 + single)


def check_start(rig, ca_dir, words):
    text = ini(proxy={"listen": f"127.0.0.1:{free_port()}", "ca_dir": ca_dir}, destinations={"api.test": {"https": "intercept"}})
    for more in ((), ("--check",)):
        done = with_file(rig.directory, text, *more)
        assert done.returncode != 0 and words in done.stderr, done.stderr


def test_a_ca_that_is_no_good_stops_the_start(rig, ca, tmp_path_factory):
    check_start(rig, rig.directory / "nowhere", "sluice ca init --dir")
    os.chmod(ca / "ca-key.pem", 0o640)
    check_start(rig, ca, "chmod 600")
    os.chmod(ca / "ca-key.pem", 0o600)
    other = tmp_path_factory.mktemp("other")
    openssl(other, "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "k.pem")
    (ca / "ca-key.pem").write_bytes((other / "k.pem").read_bytes())
    check_start(rig, ca, "do not belong together")


def test_intercept_needs_a_ca(rig):
    done = with_file(rig.directory, ini(proxy={"listen": f"127.0.0.1:{free_port()}"}, destinations={"a.test": {"https": "intercept"}}))
    assert done.returncode == 2 and "sluice ca init --dir DIR" in done.stderr


def test_three_replicas_share_the_rate(rig, pki, ca):
    origin = rig.add(TlsOrigin(pki.issue()))
    redis = rig.redis()
    replicas = [rig.sluice(proxy={"connect_ports": str(origin.port), "ca_dir": ca}, redis={"url": redis.url}, destinations={
        "api": {"hosts": f"localhost:{origin.port}", "https": "intercept", "ca_file": pki.ca, "rate": "10/s"}}) for _ in range(3)]
    callers = [TlsCaller(sluice, origin, ca) for sluice in replicas for _ in range(7)]
    for caller in callers:
        caller.send(f"GET / HTTP/1.1\r\nHost: {caller.host}\r\n\r\n".encode())
    assert [caller.response().status for caller in callers] == [200] * 21
    assert most_in_window(origin.stamps(), 1.0) <= 10


def test_a_third_partys_word_is_heard_and_fields_are_set_inside_an_intercepted_connect(rig, pki, ca):
    origin = rig.add(TlsOrigin(pki.issue()))
    answers = [ok(b"no", "Retry-After: 1", status="429 X")]
    origin.fallback = lambda peer, _: peer.send(answers.pop() if answers else ok())
    sluice = start(rig, pki, ca, origin, set_header="User-Agent: acme/1.0", retry="throttled")
    caller = TlsCaller(sluice, origin, ca)
    assert caller.get("/x", "User-Agent: mine").status == 200
    first, second = origin.to("/x")
    assert second.arrived - first.arrived >= 0.99
    assert first.all("User-Agent") == second.all("User-Agent") == ["acme/1.0"]
