"""https = originate: callers say http://, the third party hears TLS that was verified, and each request takes a slot."""
import os

import pytest

from origin import most_in_window, ok, reply
from pki import Pki, TlsOrigin
from rig import free_port, ini, with_file
from wire import Ended, request


@pytest.fixture
def pki(rig):
    return Pki(rig.directory)


def start(rig, pki, origin, host="127.0.0.1", **keys):
    keys = {"hosts": f"{host}:{origin.port}", "https": "originate", "ca_file": pki.ca, "rate": "1000/s", **keys}
    return rig.sluice(destinations={"api": keys})


def test_a_call_in_plain_arrives_in_tls(rig, pki):
    origin = rig.add(TlsOrigin(pki.issue()))
    sluice = start(rig, pki, origin)
    answer = sluice.get(origin.url("/a?b=c"), "X-A: 1")
    assert answer.status == 200 and answer.body == b"ok"
    (seen,) = origin.requests
    assert seen.target == "/a?b=c" and seen.get("Host") == origin.authority and seen.get("X-A") == "1"
    assert origin.handshakes[0].version() == "TLSv1.3"
    assert sluice.access(verdict="forwarded")[0]["destination"] == "api"


def test_an_https_url_is_taken_too(rig, pki):
    origin = rig.add(TlsOrigin(pki.issue()))
    assert start(rig, pki, origin).get(origin.secure_url("/x")).status == 200


def test_an_https_url_is_refused_where_tls_does_not_begin_here(rig, origin):
    answer = rig.sluice().get(f"https://{origin.authority}/")
    assert answer.status == 501 and b"https = originate" in answer.body and origin.connections == 0


@pytest.mark.parametrize("kind, words", [
    ("expired", b"has expired"), ("early", b"not valid yet"), ("name", b"another name"),
    ("self-signed", b"self-signed"), ("issuer", b"unknown issuer")])
def test_a_certificate_that_is_no_good_is_a_502_that_says_why(rig, pki, kind, words, tmp_path_factory):
    certificate = {
        "expired": lambda: pki.issue(days=(-10, -1)),
        "early": lambda: pki.issue(days=(1, 10)),
        "name": lambda: pki.issue("other.test", "DNS:other.test"),
        "self-signed": pki.self_signed,
        "issuer": lambda: Pki(tmp_path_factory.mktemp("other")).issue(),
    }[kind]()
    origin = rig.add(TlsOrigin(certificate))
    sluice = start(rig, pki, origin)
    answer = sluice.get(origin.url())
    assert answer.status == 502 and "tls_certificate_error" in answer.get("Proxy-Status")
    assert words in answer.body and b"127.0.0.1" not in answer.body
    assert words.decode() in sluice.access(status=502)[0]["detail"]
    assert origin.requests == []


def test_the_systems_certificates_are_the_default(rig, pki):
    origin = rig.add(TlsOrigin(pki.issue()))
    assert start(rig, pki, origin, ca_file="-").get(origin.url()).status == 502


def test_a_client_certificate_is_shown(rig, pki):
    origin = rig.add(TlsOrigin(pki.issue(), client_ca=pki.ca))
    cert, key = pki.issue("us", "DNS:us")
    assert start(rig, pki, origin, client_cert=cert, client_key=key).get(origin.url()).status == 200
    assert ("commonName", "us") in [pair for rdn in origin.handshakes[0].getpeercert()["subject"] for pair in rdn]
    assert start(rig, pki, origin).get(origin.url()).status == 502


def test_two_destinations_may_trust_differently(rig, pki, tmp_path_factory):
    other = Pki(tmp_path_factory.mktemp("other"))
    origins = [rig.add(TlsOrigin(p.issue())) for p in (pki, other)]
    sluice = rig.sluice(destinations={
        f"d{n}": {"hosts": o.authority, "https": "originate", "ca_file": p.ca} for n, (o, p) in enumerate(zip(origins, (pki, other)))})
    assert [sluice.get(o.url()).status for o in origins] == [200, 200]


def test_answers_are_made_fit_for_http(rig, pki):
    origin = rig.add(TlsOrigin(pki.issue()))
    headers = [f"Location: https://{origin.authority}/next", "Set-Cookie: a=b; Path=/; Secure; HttpOnly", "X-A: https://as.it/is"]
    origin.fallback = reply(ok(b"", *headers, status="302 Found"))
    answer = start(rig, pki, origin).get(origin.url())
    assert answer.get("Location") == origin.url("/next") and answer.get("X-A") == "https://as.it/is"
    assert answer.get("Set-Cookie") == "a=b; Path=/; HttpOnly"
    for sluice, url in ((start(rig, pki, origin, rewrite="off"), origin.url()), (start(rig, pki, origin), origin.secure_url())):
        answer = sluice.get(url)
        assert answer.get("Location") == origin.secure_url("/next") and "Secure" in answer.get("Set-Cookie")


def test_a_redirect_elsewhere_is_left_alone(rig, pki):
    origin = rig.add(TlsOrigin(pki.issue()))
    origin.fallback = reply(ok(b"", "Location: https://elsewhere.test/", status="302 Found"))
    assert start(rig, pki, origin).get(origin.url()).get("Location") == "https://elsewhere.test/"


def test_bodies_larger_than_any_buffer_pass_both_ways(rig, pki):
    origin = rig.add(TlsOrigin(pki.issue()))
    data = bytes(range(256)) * 20000

    def echo(peer, received):
        peer.send(ok(peer.read_body(received)))

    origin.fallback = echo
    caller = start(rig, pki, origin).caller()
    assert caller.send(request("POST", origin.url(), body=data)).response().body == data


def test_an_upgraded_connection_carries_bytes_both_ways(rig, pki):
    origin = rig.add(TlsOrigin(pki.issue()))

    def switch(peer, _):
        peer.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nhello")
        while peer.buffer or peer.more():
            peer.send(peer.take(len(peer.buffer)))
        peer.close()

    origin.on("/ws", switch)
    sluice = start(rig, pki, origin)
    caller = sluice.caller()
    caller.send(request("GET", origin.url("/ws"), "Connection: upgrade", "Upgrade: echo"))
    assert caller.head().status == 101 and caller.exactly(5) == b"hello"
    for size in (1, 100, 300000):
        data = os.urandom(size)
        assert caller.send(data).exactly(size) == data
    caller.close()
    sluice.access(verdict="tunnel", status=101)


def test_a_third_party_that_cuts_the_connection_is_not_taken_for_an_end(rig, pki):
    origin = rig.add(TlsOrigin(pki.issue()))

    def cut(peer, _):
        peer.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf")
        peer.close()

    origin.on("/cut", cut)
    caller = start(rig, pki, origin).caller()
    with pytest.raises(Ended):
        caller.get(origin.url("/cut"))


def test_requests_on_one_connection_leave_at_the_rate(rig, pki):
    origin = rig.add(TlsOrigin(pki.issue()))
    caller = start(rig, pki, origin, rate="10/s").caller()
    assert [caller.get(origin.url(f"/{n}")).status for n in range(20)] == [200] * 20
    stamps = origin.stamps()
    assert most_in_window(stamps, 1.0) <= 10 and stamps[-1] - stamps[0] >= 1.9
    assert len({r.connection for r in origin.requests}) == 1


def settings(**keys):
    return ini(proxy={"listen": f"127.0.0.1:{free_port()}"}, destinations={"api.test": {"https": "originate", **keys}})


@pytest.mark.parametrize("keys, words", [
    ({"ca_file": "/nowhere/ca.pem"}, "ca_file: can't read /nowhere/ca.pem"),
    ({"client_cert": "s.ini"}, "client_cert: s.ini is not a good PEM file")])
def test_files_that_are_no_good_stop_the_start(rig, keys, words):
    text = settings(**keys).replace("s.ini", str(rig.directory / "s.ini"))
    for more in ((), ("--check",)):
        done = with_file(rig.directory, text, *more)
        assert done.returncode != 0 and words.replace("s.ini", str(rig.directory / "s.ini")) in done.stderr


def test_check_says_what_is_metered(rig):
    done = with_file(rig.directory, settings(), "--check")
    assert done.returncode == 0 and "originate: each request for http:// takes a slot" in done.stdout
