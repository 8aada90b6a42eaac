"""Upgrades (WebSocket): after its slot the connection becomes a tunnel; a refused upgrade is an ordinary exchange."""
from origin import ok
from wire import request

HANDSHAKE = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
SWITCHING = (b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
             b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")


def echo(peer, request_seen):
    request_seen.body = b""
    peer.send(SWITCHING + b"hello")  # its first frame right behind the head
    while peer.buffer or peer.more():
        peer.send(b"<" + peer.take(len(peer.buffer)) + b">")
    peer.send(b"bye")
    peer.close()


def test_a_web_socket_talks_both_ways_after_the_switch(rig, origin):
    sluice = rig.sluice()
    origin.fallback = echo
    caller = sluice.caller()
    caller.send(request("GET", origin.url("/ws"), *HANDSHAKE))
    head = caller.response()
    assert head.status == 101 and head.get("Upgrade") == "websocket" and "upgrade" in head.get("Connection").lower()
    assert head.get("Sec-WebSocket-Accept") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    assert caller.exactly(5) == b"hello"
    for frame in (b"one", b"\0\xff" * 5000):
        caller.send(frame)
        got = b""
        while len(got.replace(b"<", b"").replace(b">", b"")) < len(frame):
            got += caller.exactly(1) + bytes(caller.take(len(caller.buffer)))
        assert got.replace(b"<", b"").replace(b">", b"") == frame
    caller.sock.shutdown(1)
    assert caller.rest().endswith(b"bye")
    seen = origin.requests[0]
    assert seen.get("Upgrade") == "websocket" and "upgrade" in seen.get("Connection").lower()
    assert seen.get("Sec-WebSocket-Key") == "dGhlIHNhbXBsZSBub25jZQ=="


def test_bytes_sent_before_the_switch_are_kept_for_after_it(rig, origin):
    sluice = rig.sluice()
    origin.fallback = echo
    caller = sluice.caller()
    caller.send(request("GET", origin.url("/ws"), *HANDSHAKE) + b"early")
    assert caller.response().status == 101
    assert caller.exactly(12) == b"hello<early>"


def test_an_upgrade_waits_for_its_slot_like_any_request(rig, origin):
    sluice = rig.sluice(default={"rate": "2/s"})
    origin.on("/ws", echo)
    sluice.get(origin.url("/first"))
    caller = sluice.caller()
    caller.send(request("GET", origin.url("/ws"), *HANDSHAKE))
    assert caller.response().status == 101
    first, second = origin.stamps()
    assert second - first >= 0.5


def test_a_refused_upgrade_leaves_both_connections_usable(rig, origin):
    sluice = rig.sluice()
    origin.fallback = lambda peer, _: peer.send(ok(b"no", status="426 Upgrade Required"))
    caller = sluice.caller()
    for _ in range(2):
        caller.send(request("GET", origin.url(), *HANDSHAKE))
        assert (caller.response().status) == 426
    assert origin.connections == 1


def test_an_answer_of_101_that_nobody_asked_for_is_a_bad_answer(rig, origin):
    sluice = rig.sluice()
    origin.fallback = lambda peer, _: peer.send(SWITCHING)
    assert sluice.get(origin.url()).status == 502
