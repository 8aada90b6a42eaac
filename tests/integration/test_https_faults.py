"""HTTPS that goes wrong, in each of the modes: hellos nobody expects, handshakes that stall or begin again, ends that come
too early or in halves, clients that do not wait, CAs that are no good, and what must never be in a log.
"""
import base64
import os
import ssl

import pytest

import hello
from origin import ok
from pki import Pki, TlsOrigin, openssl
from rig import Process, eventually, free_port, ini, run, with_file
from wire import Caller, Response

MODES = ["originate", "intercept", "tunnel"]
INSIDE = ["intercept", "tunnel"]
TLS12 = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)
ALERT_UNRECOGNIZED_NAME, ALERT_DECODE_ERROR = 112, 50
OP_ALLOW_CLIENT_RENEGOTIATION = 1 << 8  # OpenSSL's; the ssl module does not name it


@pytest.fixture
def pki(rig):
    return Pki(rig.directory)


@pytest.fixture
def origin(rig, pki):
    return rig.add(TlsOrigin(pki.issue()))


def start(rig, pki, origin, mode, proxy=None, **keys):
    ca = rig.directory / "ca"
    if not ca.exists():
        assert run("ca", "init", "--dir", str(ca)).returncode == 0
    hosts = f"localhost:{origin.port}, 127.0.0.1:{origin.port}"
    return rig.sluice(proxy={"connect_ports": str(origin.port), "ca_dir": ca, **(proxy or {})},
                      destinations={"api": {"hosts": hosts, "https": mode, "ca_file": pki.ca, **keys}})


def connect(sluice, origin, host="localhost"):
    caller = sluice.caller()
    caller.send(f"CONNECT {host}:{origin.port} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert caller.head().status == 200
    return caller


def trusted(rig, pki, mode):
    return pki.ca if mode == "tunnel" else rig.directory / "ca" / "ca.pem"


class Inside(Caller):
    """TLS on a tunnel that is open."""

    def __init__(self, caller, ca, alpn=("http/1.1",), host="localhost"):
        self.raw = caller.sock.dup()
        context = ssl.create_default_context(cafile=ca)
        context.set_alpn_protocols(list(alpn))
        self.sock = context.wrap_socket(caller.sock, server_hostname=host)
        self.buffer = bytearray()

    def more(self):
        data = self.sock.recv(1 << 16)
        self.buffer += data
        return bool(data)

    def ask(self, path, port):
        self.send(f"GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode())
        return self.body_of(Response(self.until(b"\r\n\r\n", "a head")), until_close=False)


# ---- hellos


def first_answer(caller, hello_bytes):
    """(type of the first record, its body) that a hello is answered with."""
    caller.send(hello_bytes)
    head = caller.exactly(5)
    return head[0], caller.exactly(int.from_bytes(head[3:5], "big"))


@pytest.mark.parametrize("mode", INSIDE)
def test_a_name_of_no_bytes_is_refused(rig, pki, origin, mode):
    sluice = start(rig, pki, origin, mode)
    kind, body = first_answer(connect(sluice, origin), hello.in_records(hello.changed(name=b"")))
    assert kind == 21 and body[1] in (ALERT_UNRECOGNIZED_NAME, ALERT_DECODE_ERROR)
    assert origin.requests == [] and origin.handshakes == []


@pytest.mark.parametrize("mode", INSIDE)
def test_an_address_as_name_must_be_that_of_the_connect(rig, pki, origin, mode):
    sluice = start(rig, pki, origin, mode)
    record = hello.in_records(hello.changed(name=b"127.0.0.1"))
    assert first_answer(connect(sluice, origin, "127.0.0.1"), record)[0] == 22
    kind, body = first_answer(connect(sluice, origin, "localhost"), record)
    assert kind == 21 and body[1] == ALERT_UNRECOGNIZED_NAME


@pytest.mark.parametrize("mode", INSIDE)
def test_grease_and_an_encrypted_hello_beside_the_plain_one_are_let_alone(rig, pki, origin, mode):
    grease = [(0x1A1A, b""), (0xFAFA, b"\0"), (hello.ECH, b"\0\0\x01\0\x01\x2a" + hello.vector(b"k" * 32, 2) + hello.vector(b"p" * 200, 2))]
    record = hello.in_records(hello.changed(more=grease, ciphers=b"\x2a\x2a"))
    assert first_answer(connect(start(rig, pki, origin, mode), origin), record)[0] == 22


def test_an_encrypted_hello_under_another_name_is_refused_as_that_name(rig, pki, origin):
    sluice = start(rig, pki, origin, "tunnel")
    record = hello.in_records(hello.changed(name=b"public.test", more=[(hello.ECH, b"\0" * 100)]))
    assert first_answer(connect(sluice, origin), record)[0] == 21
    assert "sni_check" in sluice.access(verdict="sni_mismatch")[0]["detail"]


@pytest.mark.parametrize("mode", INSIDE)
def test_a_huge_hello_in_several_records_and_segments_is_read(rig, pki, origin, mode):
    names = [f"{n:03}" + "x" * 200 for n in range(140)] + ["http/1.1"]  # 28 kB
    caller = Inside(connect(start(rig, pki, origin, mode), origin), trusted(rig, pki, mode), alpn=names)
    assert caller.ask("/a", origin.port).body == b"ok" and caller.ask("/b", origin.port).body == b"ok"


def test_a_hello_too_large_to_be_looked_at_is_refused_or_counted(rig, pki, origin):
    huge = hello.in_records(hello.changed(more=[(0x1A1A, b"\0" * 40000)]))
    sluice = start(rig, pki, origin, "tunnel")
    assert first_answer(connect(sluice, origin), huge)[0] == 21
    sluice.access(verdict="sni_mismatch", turns=0)
    lenient = start(rig, pki, origin, "tunnel", sni_check="off")
    caller = connect(lenient, origin)
    assert first_answer(caller, huge)[0] == 22
    caller.close()
    lenient.access(verdict="tunnel", turns=1)


def test_a_refused_offer_of_http_2_never_reaches_the_third_party(rig, pki):
    origin = rig.origin()
    heard = []
    origin.on_connect = lambda peer: heard.append(peer.rest())
    sluice = start(rig, pki, origin, "tunnel", tunnel_h2="refuse")
    with pytest.raises(ssl.SSLError, match="(?i)no.application.protocol"):
        Inside(connect(sluice, origin), pki.ca, alpn=("h2", "http/1.1"))
    assert "https = originate" in sluice.access(verdict="h2_refused", turns=0)[0]["detail"]
    eventually(lambda: heard, why="the end of the connection")
    assert heard == [b""]


# ---- handshakes that stall, and that begin again


@pytest.mark.parametrize("mode", ["originate", "intercept"])
def test_a_third_party_that_never_ends_its_handshake_is_a_504(rig, pki, mode):
    origin = rig.origin()
    gate = origin.gate()
    origin.on_connect = lambda peer: gate.wait(20)
    sluice = start(rig, pki, origin, mode, connect_timeout="300ms")
    if mode == "originate":
        answer = sluice.get(f"http://localhost:{origin.port}/")
    else:
        answer = Inside(connect(sluice, origin), trusted(rig, pki, mode)).ask("/", origin.port)
    assert answer.status == 504 and sluice.access(status=504)


def test_handshakes_that_stall_inside_a_tunnel_are_idle_tunnels(rig, pki):
    origin = rig.origin()
    gate = origin.gate()
    origin.on_connect = lambda peer: gate.wait(20)
    sluice = start(rig, pki, origin, "tunnel", tunnel_idle="1s")
    silent, half, whole = (connect(sluice, origin) for _ in range(3))
    record = hello.in_records(hello.changed())
    half.send(record[:100])
    whole.send(record)
    assert all(caller.at_end() for caller in (silent, half, whole))
    assert [e["turns"] for e in sluice.access(3, verdict="tunnel", detail="tunnel_idle")] == ["0"] * 3


class Told(Process):
    """A program that is told what to do by a fifo, so that it never sees the end of its input."""

    def __init__(self, rig, name, *words):
        fifo = rig.directory / f"{name}.fifo"
        if not fifo.exists():
            os.mkfifo(fifo)
        super().__init__(name, ["sh", "-c", f"exec 0<{fifo}; exec \"$@\"", "sh", *map(str, words)], cwd=rig.directory)
        self.input = os.open(fifo, os.O_WRONLY)

    def say(self, text):
        os.write(self.input, text.encode())

    def close(self):
        if self.input is not None:
            os.close(self.input)
            self.input = None
            self.kill()


class OpensslClient(Told):
    """`openssl s_client` through the proxy; a line "R" makes it shake hands again."""

    def __init__(self, rig, sluice, origin, ca, *more):
        super().__init__(rig, "s_client", "openssl", "s_client", "-proxy", "%s:%d" % sluice.address, "-connect", f"localhost:{origin.port}",
                         "-servername", "localhost", "-CAfile", ca, "-crlf", *more)

    def get(self, path):
        self.say(f"GET {path} HTTP/1.1\nHost: localhost\n\n")


def renegotiating(rig, sluice, origin, ca):
    client = rig.add(OpensslClient(rig, sluice, origin, ca, "-tls1_2"))
    client.get("/before")
    origin.wait(1)
    client.wait_line(lambda line: line == "ok")
    client.say("R\n")
    client.wait_line(lambda line: "RENEGOTIATING" in line)
    return client


def test_hands_shaken_again_inside_a_tunnel_are_no_turn_and_hide_none(rig, pki):
    origin = rig.add(TlsOrigin(pki.issue(), TLS12))
    origin.context.options |= OP_ALLOW_CLIENT_RENEGOTIATION
    origin.fallback = lambda peer, request: peer.send(ok(b"ok\n"))
    sluice = start(rig, pki, origin, "tunnel")
    client = renegotiating(rig, sluice, origin, pki.ca)
    eventually(lambda: "verify return" in client.text().partition("RENEGOTIATING")[2], why="the second handshake")
    client.get("/after")
    origin.wait(2)
    client.close()
    sluice.access(verdict="tunnel", turns=2)


def test_an_intercepted_caller_may_not_shake_hands_again(rig, pki):
    origin = rig.add(TlsOrigin(pki.issue()))
    origin.fallback = lambda peer, request: peer.send(ok(b"ok\n"))
    sluice = start(rig, pki, origin, "intercept")
    client = renegotiating(rig, sluice, origin, rig.directory / "ca" / "ca.pem")
    client.wait_line(lambda line: "no renegotiation" in line)
    client.close()
    assert Inside(connect(sluice, origin), rig.directory / "ca" / "ca.pem").ask("/", origin.port).status == 200


class OpensslServer(Told):
    """`openssl s_server`, which prints what comes and sends what it is told; a line "r" shakes hands again."""

    def __init__(self, rig, certificate, *more):
        self.port = free_port()
        cert, key = certificate
        super().__init__(rig, "s_server", "openssl", "s_server", "-accept", f"127.0.0.1:{self.port}", "-cert", cert, "-key", key, "-crlf", *more)
        self.wait_line(lambda line: line == "ACCEPT")


def test_a_third_party_that_wants_to_shake_hands_again_is_refused_and_its_answer_not_taken_for_whole(rig, pki):
    server = rig.add(OpensslServer(rig, pki.issue(), "-tls1_2", "-msg"))
    sluice = start(rig, pki, server, "originate")
    caller = sluice.caller().send(f"GET http://localhost:{server.port}/ HTTP/1.1\r\nHost: localhost:{server.port}\r\n\r\n".encode())
    server.wait_line(lambda line: line.startswith("GET / HTTP/1.1"))
    server.say("HTTP/1.1 200 OK\nContent-Length: 6\n\n")
    assert caller.head().status == 200
    server.say("r\n")
    assert caller.at_end()
    sluice.access(verdict="broken_off")
    assert "no_renegotiation" in server.text()


def test_a_request_sent_before_the_handshake_is_a_turn(rig, pki):
    """0-RTT, of a session that an earlier tunnel brought."""
    server = rig.add(OpensslServer(rig, pki.issue(), "-tls1_3", "-early_data", "-no_anti_replay"))
    sluice = start(rig, pki, server, "tunnel")
    first = rig.add(OpensslClient(rig, sluice, server, pki.ca, "-sess_out", "session"))
    eventually((rig.directory / "session").exists, why="a session ticket")
    first.close()
    sluice.access(verdict="tunnel", turns=0)
    (rig.directory / "early").write_bytes(b"GET /early HTTP/1.1\r\nHost: localhost\r\n\r\n")
    second = rig.add(OpensslClient(rig, sluice, server, pki.ca, "-sess_in", "session", "-early_data", "early"))
    server.wait_line(lambda line: line.startswith("GET /early"))
    second.wait_line(lambda line: "Early data was accepted" in line)
    second.close()
    assert 1 <= int(sluice.access(2, method="CONNECT")[1]["turns"]) <= 2  # its Finished can't be told from a request then


# ---- ends


@pytest.mark.parametrize("mode", MODES)
def test_a_whole_answer_is_whole_without_close_notify(rig, pki, origin, mode):
    def cut(peer, _):
        peer.send(ok(b"whole"))
        peer.close()

    origin.on("/cut", cut)
    sluice = start(rig, pki, origin, mode)
    for _ in range(2):
        if mode == "originate":
            answer = sluice.get(f"http://localhost:{origin.port}/cut")
        else:
            answer = Inside(connect(sluice, origin), trusted(rig, pki, mode)).ask("/cut", origin.port)
        assert answer.status == 200 and answer.body == b"whole"


def test_an_intercepted_caller_that_ends_without_close_notify_leaves_nothing(rig, pki, origin):
    gate = origin.gate()

    def late(peer, _):
        gate.wait(20)
        peer.send(ok())

    origin.on("/slow", late)
    sluice = start(rig, pki, origin, "intercept")
    caller = Inside(connect(sluice, origin), trusted(rig, pki, "intercept"))
    caller.send(f"GET /slow HTTP/1.1\r\nHost: localhost:{origin.port}\r\n\r\n".encode())
    origin.wait(1)
    caller.raw.close()
    os.close(caller.sock.detach())
    sluice.hang_up()
    gate.set()
    sluice.access(destination="api", method="GET")
    assert Inside(connect(sluice, origin), trusted(rig, pki, "intercept")).ask("/", origin.port).status == 200


def test_the_answer_comes_through_a_tunnel_whose_caller_half_closed(rig, pki, origin):
    gate, data = origin.gate(), os.urandom(1 << 20)

    def late(peer, _):
        gate.wait(20)
        peer.send(ok(data))

    origin.on("/late", late)
    caller = Inside(connect(start(rig, pki, origin, "tunnel"), origin), pki.ca)
    caller.send(b"GET /late HTTP/1.1\r\nHost: a\r\n\r\n")
    origin.wait(1)
    caller.raw.shutdown(1)
    gate.set()
    caller.until(b"\r\n\r\n", "a head")
    assert caller.exactly(len(data)) == data


# ---- clients that do not wait


def test_a_client_that_pipelines_in_a_tunnel_is_served_and_said_to_be_uncounted(rig, pki, origin):
    """Several requests in a turn: no way to tell. So --check, the README and the start of the log say it."""
    sluice = start(rig, pki, origin, "tunnel")
    caller = Inside(connect(sluice, origin), pki.ca)
    caller.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % n for n in range(10)))
    for _ in range(10):
        assert caller.body_of(Response(caller.until(b"\r\n\r\n", "a head")), until_close=False).body == b"ok"
    caller.raw.close()
    caller.close()
    sluice.hang_up()
    assert 1 <= int(sluice.access(verdict="tunnel")[0]["turns"]) <= 10
    assert "pipelined requests only the turns are counted" in sluice.wait_event("destination", label="api")[0]["https"]


def test_a_client_that_pipelines_into_an_intercepted_connection_waits_for_each_turn(rig, pki, origin):
    sluice = start(rig, pki, origin, "intercept", rate="20/s")
    caller = Inside(connect(sluice, origin), trusted(rig, pki, "intercept"))
    caller.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: localhost:%d\r\n\r\n" % (n, origin.port) for n in range(10)))
    for _ in range(10):
        assert caller.body_of(Response(caller.until(b"\r\n\r\n", "a head")), until_close=False).body == b"ok"
    stamps = origin.stamps()
    assert all(later - earlier > 0.03 for earlier, later in zip(stamps, stamps[1:]))


# ---- the CA


def test_an_expired_ca_stops_the_start_and_says_what_to_do(rig, tmp_path_factory):
    made, ca = tmp_path_factory.mktemp("made"), rig.directory / "ca"
    ca.mkdir()
    (made / "root").mkdir()
    authority = Pki(made / "root")
    cert, key = authority.issue("sluice", "DNS:sluice", days=(-10, -1))
    for name, source in (("ca.pem", cert), ("ca-key.pem", key)):
        (ca / name).write_bytes(source.read_bytes())
        os.chmod(ca / name, 0o600)
    text = ini(proxy={"listen": f"127.0.0.1:{free_port()}", "ca_dir": ca}, destinations={"api.test": {"https": "intercept"}})
    assert "is not the certificate of a CA" in with_file(rig.directory, text).stderr
    openssl(made / "root", "ca", "-batch", "-notext", "-config", "ca.conf", "-selfsign", "-keyfile", key, "-in", made / "root" / "1.csr",
            "-out", ca / "ca.pem", "-startdate", "20200101000000Z", "-enddate", "20210101000000Z", "-extfile", extensions(made))
    for more in ((), ("--check",)):
        done = with_file(rig.directory, text, *more)
        assert done.returncode != 0 and "has expired" in done.stderr and "sluice ca init --dir" in done.stderr, done.stderr


def extensions(directory):
    path = directory / "extensions"
    path.write_text("basicConstraints = critical, CA:TRUE\nkeyUsage = critical, keyCertSign\n")
    return path


def test_no_key_is_ever_in_a_log(rig, pki, origin):
    sluice = start(rig, pki, origin, "intercept", proxy={"log_level": "debug"})
    for host in ("localhost", "127.0.0.1"):
        assert Inside(connect(sluice, origin, host), trusted(rig, pki, "intercept"), host=host).send(
            f"GET / HTTP/1.1\r\nHost: {host}:{origin.port}\r\n\r\n".encode()).until(b"\r\n\r\n", "a head")
    os.chmod(rig.directory / "ca" / "ca-key.pem", 0o644)
    refused = with_file(rig.directory, ini(proxy={"listen": f"127.0.0.1:{free_port()}", "ca_dir": rig.directory / "ca", "log_level": "debug"},
                                           destinations={"api.test": {"https": "intercept"}}))
    assert refused.returncode != 0
    pem = (rig.directory / "ca" / "ca-key.pem").read_text().splitlines()
    secret = base64.b64decode("".join(pem[1:-1]))
    shown = run("ca", "show", "--dir", str(rig.directory / "ca")).stdout
    for text in (sluice.text(), refused.stderr, refused.stdout, shown):
        assert "PRIVATE KEY" not in text and not any(line in text for line in pem[1:-1])
        assert secret[-40:].hex() not in text.lower()
    assert sorted(os.listdir(rig.directory / "ca")) == ["ca-key.pem", "ca.pem"]  # and no leaf's key beside it


# ---- what is said of it


@pytest.mark.parametrize("mode, words", [
    ("tunnel", "tunnel: each request inside a tunnel takes a slot"), ("originate", "originate: each request for http:// takes a slot"),
    ("intercept", "intercept: each request inside a CONNECT takes a slot")])
def test_the_check_the_start_the_metrics_and_the_access_log_say_what_is_metered(rig, pki, origin, mode, words):
    admin = free_port()
    sluice = start(rig, pki, origin, mode, tunnel_h2="count")
    assert words in sluice.wait_event("destination", label="api")[0]["https"]
    sluice.wait_event("ready")  # from then on it ends as it should
    text = sluice.config.read_text() + f"[admin]\nlisten = 127.0.0.1:{admin}\n"
    sluice.stop()
    done = with_file(rig.directory, text, "--check")
    assert done.returncode == 0 and words in done.stdout
    sluice = rig.sluice(text=text)
    if mode == "originate":
        sluice.get(f"http://localhost:{origin.port}/")
    else:
        Inside(connect(sluice, origin), trusted(rig, pki, mode), alpn=("h2", "http/1.1")).ask("/", origin.port)
    sluice.hang_up()
    sluice.access(destination="api", metered={"tunnel": "h2_turns", "originate": "request", "intercept": "request"}[mode])
    metrics = Caller(("127.0.0.1", admin)).get(f"http://127.0.0.1:{admin}/metrics", "Connection: close").body.decode().splitlines()
    metered = "turns" if mode == "tunnel" else "requests"
    assert f'sluice_destination_info{{destination="api",https="{mode}",metered="{metered}",tunnel_h2="count"}} 1' in metrics
    assert 'sluice_h2_tunnels_total{destination="api"} %d' % (mode == "tunnel") in metrics
    assert 'sluice_slots_total{destination="api",outcome="used"} 1' in metrics
    assert len(sluice.events("tunnel_h2")) == (mode == "tunnel")
