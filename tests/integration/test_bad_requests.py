"""Bytes that are not the HTTP/1.1 they claim to be, from either side.

Each bad request gets its own status, in problem+json, then the connection is closed and what follows on it is never
taken for a request. Each bad response becomes a 502, or breaks off where the damage is.
"""
import json

import pytest

from origin import ok, reply
from wire import chunk, request

BAD = [
    # what is wrong, raw bytes (U stands for the origin's URL, H for its authority), allowed statuses
    ("garbage", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", {400}),
    ("no version", b"GET U\r\n\r\n", {400, 505}),
    ("HTTP/2.0", b"GET U HTTP/2.0\r\nHost: H\r\n\r\n", {400, 505}),
    ("HTTP/1.2", b"GET U HTTP/1.2\r\nHost: H\r\n\r\n", {400, 505}),
    ("HTTP/0.9", b"GET U HTTP/0.9\r\nHost: H\r\n\r\n", {400, 505}),
    ("another protocol", b"GET U ICE/1.0\r\nHost: H\r\n\r\n", {400, 505}),
    ("a bare line feed", b"GET U HTTP/1.1\nHost: H\n\n", {400}),
    ("a bare line feed inside", b"GET U HTTP/1.1\r\nHost: H\r\nX-A: 1\nX-B: 2\r\n\r\n", {400}),
    ("a bare carriage return", b"GET U HTTP/1.1\r\nHost: H\r\nX-Abc:\rxTransfer-Encoding: chunked\r\n\r\n", {400}),
    ("a head ended by CR only", b"GET U HTTP/1.1\r\nHost: H\r\nX: y\r\n\rZ\r\n\r\n", {400}),
    ("a folded field", b"GET U HTTP/1.1\r\nHost: H\r\nX-A: 1\r\n two\r\n\r\n", {400}),
    ("space before the colon", b"GET U HTTP/1.1\r\nHost: H\r\nX-A : 1\r\n\r\n", {400}),
    ("space in a name", b"GET U HTTP/1.1\r\nHost: H\r\nX A: 1\r\n\r\n", {400}),
    ("space before the first field", b"GET U HTTP/1.1\r\n Host: H\r\n\r\n", {400}),
    ("no colon", b"GET U HTTP/1.1\r\nHost: H\r\nX-A\r\n\r\n", {400}),
    ("an empty name", b"GET U HTTP/1.1\r\nHost: H\r\n: 1\r\n\r\n", {400}),
    ("NUL in a value", b"GET U HTTP/1.1\r\nHost: H\r\nX-A: a\0b\r\n\r\n", {400}),
    ("a control in a value", b"GET U HTTP/1.1\r\nHost: H\r\nX-A: a\x01b\r\n\r\n", {400}),
    ("no Host", b"GET U HTTP/1.1\r\n\r\n", {400}),
    ("two Hosts", b"GET U HTTP/1.1\r\nHost: H\r\nHost: other\r\n\r\n", {400}),
    ("two equal Hosts", b"GET U HTTP/1.1\r\nHost: H\r\nHost: H\r\n\r\n", {400}),
    ("a list as Host", b"GET U HTTP/1.1\r\nHost: H, other\r\n\r\n", {400}),
    ("a path as Host", b"GET / HTTP/1.1\r\nHost: H/x\r\n\r\n", {400}),
    ("both framings", b"POST U HTTP/1.1\r\nHost: H\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", {400}),
    ("both framings, the other way", b"POST U HTTP/1.1\r\nHost: H\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
     {400}),
    ("two lengths", b"POST U HTTP/1.1\r\nHost: H\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", {400}),
    ("two equal lengths", b"POST U HTTP/1.1\r\nHost: H\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", {400}),
    ("a list as length", b"POST U HTTP/1.1\r\nHost: H\r\nContent-Length: 1, 1\r\n\r\nx", {400}),
    ("a signed length", b"POST U HTTP/1.1\r\nHost: H\r\nContent-Length: +1\r\n\r\nx", {400}),
    ("a negative length", b"POST U HTTP/1.1\r\nHost: H\r\nContent-Length: -1\r\n\r\nx", {400}),
    ("a hex length", b"POST U HTTP/1.1\r\nHost: H\r\nContent-Length: 0x1\r\n\r\nx", {400}),
    ("an empty length", b"POST U HTTP/1.1\r\nHost: H\r\nContent-Length:\r\n\r\n", {400}),
    ("a length beyond 64 bits", b"POST U HTTP/1.1\r\nHost: H\r\nContent-Length: 18446744073709551617\r\n\r\nx", {400, 413}),
    ("an unknown coding", b"POST U HTTP/1.1\r\nHost: H\r\nTransfer-Encoding: gzip\r\n\r\n", {400, 501}),
    ("a coding before chunked", b"POST U HTTP/1.1\r\nHost: H\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", {400, 501}),
    ("chunked not last", b"POST U HTTP/1.1\r\nHost: H\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", {400, 501}),
    ("chunked twice", b"POST U HTTP/1.1\r\nHost: H\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", {400, 501}),
    ("chunked in two fields", b"POST U HTTP/1.1\r\nHost: H\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     {400, 501}),
    ("a quoted coding", b"POST U HTTP/1.1\r\nHost: H\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", {400, 501}),
    ("an empty coding", b"POST U HTTP/1.1\r\nHost: H\r\nTransfer-Encoding:\r\nContent-Length: 1\r\n\r\nx", {400}),
    ("chunked in HTTP/1.0", b"POST U HTTP/1.0\r\nHost: H\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", {400}),
    ("a method in lower case", b"get U HTTP/1.1\r\nHost: H\r\n\r\n", {400, 501}),
    ("a method in mixed case", b"Get U HTTP/1.1\r\nHost: H\r\n\r\n", {501}),
    ("a method with a bad character", b"GE(T U HTTP/1.1\r\nHost: H\r\n\r\n", {400, 501}),
    ("space in the target", b"GET U/a b HTTP/1.1\r\nHost: H\r\n\r\n", {400}),
    ("a control in the target", b"GET U/a\x07b HTTP/1.1\r\nHost: H\r\n\r\n", {400}),
    ("an 8-bit target", b"GET U/\xe4 HTTP/1.1\r\nHost: H\r\n\r\n", {400}),
    ("userinfo", b"GET http://user:pass@H/ HTTP/1.1\r\nHost: H\r\n\r\n", {400}),
    ("another scheme", b"GET ftp://H/ HTTP/1.1\r\nHost: H\r\n\r\n", {400}),
    ("no host in the target", b"GET http:///x HTTP/1.1\r\nHost: H\r\n\r\n", {400}),
    ("a port that is none", b"GET http://127.0.0.1:http/ HTTP/1.1\r\nHost: H\r\n\r\n", {400}),
    ("a port beyond 65535", b"GET http://127.0.0.1:65536/ HTTP/1.1\r\nHost: H\r\n\r\n", {400}),
    ("a host of forbidden characters", b"GET http://a_b\\c/ HTTP/1.1\r\nHost: H\r\n\r\n", {400}),
    ("an unclosed bracket", b"GET http://[::1/ HTTP/1.1\r\nHost: H\r\n\r\n", {400}),
    ("an address with a zone", b"GET http://[fe80::1%25lo]/ HTTP/1.1\r\nHost: H\r\n\r\n", {400}),
    ("a TRACE with content", b"TRACE U HTTP/1.1\r\nHost: H\r\nContent-Length: 1\r\n\r\nx", {400}),
    ("CONNECT without a port", b"CONNECT 127.0.0.1 HTTP/1.1\r\nHost: H\r\n\r\n", {400}),
    ("CONNECT with port 0", b"CONNECT 127.0.0.1:0 HTTP/1.1\r\nHost: H\r\n\r\n", {400}),
    ("CONNECT with a URL", b"CONNECT U HTTP/1.1\r\nHost: H\r\n\r\n", {400}),
    ("a target too long", b"GET U/" + b"a" * 40000 + b" HTTP/1.1\r\nHost: H\r\n\r\n", {414, 431}),
    ("a head too large", b"GET U HTTP/1.1\r\nHost: H\r\nX-A: " + b"a" * 40000 + b"\r\n\r\n", {431}),
    ("too many fields", b"GET U HTTP/1.1\r\nHost: H\r\n" + b"X-A: 1\r\n" * 101 + b"\r\n", {431}),
]


@pytest.fixture(scope="module")
def shared(shared_rig):
    return shared_rig.sluice()


@pytest.fixture(scope="module")
def shared_origin(shared_rig):
    return shared_rig.origin()


@pytest.mark.parametrize("raw, statuses", [case[1:] for case in BAD], ids=[case[0].replace(" ", "-") for case in BAD])
def test_a_bad_request_is_answered_and_nothing_behind_it_is_parsed(shared, shared_origin, raw, statuses):
    raw = raw.replace(b"U", shared_origin.url("").encode(), 1) if b" U" in raw else raw
    raw = raw.replace(b"Host: H", b"Host: " + shared_origin.authority.encode()).replace(b"@H/", b"@127.0.0.1/")
    raw = raw.replace(b"ftp://H/", b"ftp://127.0.0.1/")
    seen = len(shared_origin.requests)
    caller = shared.caller()
    caller.send(raw + request("GET", shared_origin.url("/smuggled")))
    response = caller.response()
    assert response.status in statuses, response.raw + response.body
    assert response.get("Date") is not None
    assert response.get("Connection").lower() == "close"
    assert response.get("Content-Type") == "application/problem+json"
    assert response.get("Proxy-Status").startswith("sluice; error=")
    problem = json.loads(response.body)
    assert problem["status"] == response.status and problem["title"] and problem["reason"]
    assert caller.at_end()
    assert len(shared_origin.requests) == seen


BAD_CHUNKS = {
    "size": b"5\r\nhello\r\nxyz\r\n",
    "negative size": b"-1\r\n",
    "no CRLF after the data": b"5\r\nhelloX\r\n0\r\n\r\n",
    "too large a size": b"fffffffffffffffff\r\n",
    "bare LF": b"5\nhello\n0\n\n",
    "endless extension": b"5;" + b"e" * 40000 + b"\r\nhello\r\n0\r\n\r\n",
    "endless trailers": b"0\r\n" + b"X-T: 1\r\n" * 5000 + b"\r\n",
    "bad trailer": b"0\r\nX T: 1\r\n\r\n",
}


@pytest.mark.parametrize("body", BAD_CHUNKS.values(), ids=[k.replace(" ", "-") for k in BAD_CHUNKS])
def test_a_request_body_that_breaks_inside_never_looks_complete(rig, body):
    """The third party sees the connection break off, the caller a 400 or a close; nothing behind it is parsed."""
    origin = rig.origin()
    outcome = []

    def handler(peer, req):
        try:
            req.body, req.trailers = peer.chunks()
            outcome.append("complete")
        finally:
            outcome.append("over")

    origin.on("/chunks", handler)
    sluice = rig.sluice()
    caller = sluice.caller()
    caller.send(request("POST", origin.url("/chunks"), "Transfer-Encoding: chunked") + body + request("GET", origin.url("/smuggled")))
    if not caller.at_end():
        assert caller.response().status == 400
        assert caller.at_end()
    sluice.access(verdict="bad_request")
    assert "complete" not in outcome and origin.to("/smuggled") == []


BAD_ANSWERS = {
    "garbage": b"\x15\x03\x01\r\n\r\n",
    "status line": b"HTTP/1.1 two hundred\r\n\r\n",
    "status of two digits": b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
    "another protocol": b"ICY 200 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/2.0": b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "both framings": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "a signed length": b"HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\nabc",
    "space inside a name": b"HTTP/1.1 200 OK\r\nContent Length: 3\r\n\r\nabc",
    "a switch of protocols": b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "NUL in a value": b"HTTP/1.1 200 OK\r\nX-A: a\0b\r\nContent-Length: 0\r\n\r\n",
    "bare CR": b"HTTP/1.1 200 OK\r\nX-A: a\rSet-Cookie: x=1\r\nContent-Length: 0\r\n\r\n",
    "too large a head": b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 70000 + b"\r\nContent-Length: 0\r\n\r\n",
    "too many fields": b"HTTP/1.1 200 OK\r\n" + b"X-A: 1\r\n" * 2000 + b"\r\n",
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Le",
}


@pytest.mark.parametrize("raw", BAD_ANSWERS.values(), ids=[k.replace(" ", "-") for k in BAD_ANSWERS])
def test_a_bad_answer_becomes_a_502(shared, shared_rig, raw):
    origin = shared_rig.origin()
    origin.fallback = reply(raw, close=True)
    caller = shared.caller()
    response = caller.get(origin.url())
    assert response.status == 502, response.raw
    assert response.get("Proxy-Status").startswith("sluice; error=")
    assert json.loads(response.body)["reason"].startswith("upstream_")
    assert "127.0.0.1" not in json.loads(response.body).get("detail", ""), "no inner addresses"
    origin.fallback = reply(ok(b"well"))
    assert caller.get(origin.url()).body == b"well"
    assert origin.connections == 2 and len(origin.requests) == 2


def test_a_bad_chunk_in_an_answer_breaks_it_off(shared, shared_rig):
    origin = shared_rig.origin()
    origin.fallback = reply(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(b"good") + b"zz\r\nbad\r\n")
    caller = shared.caller()
    caller.send(request("GET", origin.url()))
    assert caller.head().status == 200
    with pytest.raises(ConnectionError):
        caller.chunks()


def test_unasked_bytes_behind_an_answer_are_not_the_next_answer(shared, shared_rig):
    origin = shared_rig.origin()
    origin.fallback = reply(ok(b"first") + ok(b"poison"))
    caller = shared.caller()
    assert caller.get(origin.url()).body == b"first"
    origin.fallback = reply(ok(b"second"))
    assert caller.get(origin.url()).body == b"second"
    assert origin.connections == 2
