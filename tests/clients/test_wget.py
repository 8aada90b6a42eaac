"""wget: a download, one that resumes, a recursive fetch over one kept connection."""
import pytest

from client import needs, run
from origin import ok, reply

pytestmark = needs("wget")


@pytest.fixture
def sluice(rig):
    return rig.sluice()


def test_a_download(rig, sluice, origin):
    origin.on("/file", ok(b"z" * 300000))
    run(sluice, rig.directory, "wget", "-q", "-O", "got", origin.url("/file"))
    assert (rig.directory / "got").read_bytes() == b"z" * 300000


def test_a_download_that_resumes(rig, sluice, origin):
    (rig.directory / "file").write_bytes(b"abc")
    origin.on("/file", reply(b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 3-5/6\r\nContent-Length: 3\r\n\r\ndef"))
    run(sluice, rig.directory, "wget", "-q", "-c", origin.url("/file"))
    assert (rig.directory / "file").read_bytes() == b"abcdef" and origin.requests[0].get("Range") == "bytes=3-"


def test_a_recursive_fetch(rig, sluice, origin):
    links = b"".join(b'<a href="/p%d">x</a>' % n for n in range(5))
    origin.on("/", ok(links, "Content-Type: text/html"))
    run(sluice, rig.directory, "wget", "-q", "-r", "-l", "1", "-nd", "-e", "robots=off", origin.url("/"))
    assert sorted(r.path for r in origin.requests) == ["/"] + [f"/p{n}" for n in range(5)]
    assert origin.connections == 1
