"""git over smart HTTP: clone, fetch and a push whose body is sent in chunks, against git's own server program."""
import os
import subprocess

import pytest

from client import needs, run

pytestmark = needs("git")


def git(directory, *words):
    env = {"PATH": os.environ["PATH"], "HOME": str(directory), "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "a",
           "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    return subprocess.run(["git", *words], cwd=directory, env=env, check=True, capture_output=True, timeout=30).stdout.decode().strip()


def backend(root):
    """A handler that runs git http-backend, by the rules of CGI (RFC 3875)."""

    def handler(peer, request):
        body = peer.read_body(request)
        env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(root), "GIT_HTTP_EXPORT_ALL": "1", "REMOTE_USER": "a",
               "REQUEST_METHOD": request.method, "PATH_INFO": request.path, "QUERY_STRING": request.target.partition("?")[2],
               "CONTENT_TYPE": request.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
               "HTTP_CONTENT_ENCODING": request.get("Content-Encoding", ""), "GIT_PROTOCOL": request.get("Git-Protocol", "")}
        out = subprocess.run(["git", "http-backend"], input=body, env=env, check=True, capture_output=True, timeout=30).stdout
        head, _, body = out.partition(b"\r\n\r\n")
        lines = [line for line in head.split(b"\r\n") if not line.startswith(b"Status:")]
        status = next((line[8:] for line in head.split(b"\r\n") if line.startswith(b"Status: ")), b"200 OK")
        peer.send(b"\r\n".join([b"HTTP/1.1 " + status, *lines, b"Content-Length: %d" % len(body)]) + b"\r\n\r\n" + body)

    return handler


@pytest.fixture
def remote(rig, origin):
    """A repository with some megabytes that do not compress."""
    if not os.path.exists(os.path.join(git(rig.directory, "--exec-path"), "git-http-backend")):
        pytest.skip("git http-backend is not installed here")
    (rig.directory / "work").mkdir()
    git(rig.directory / "work", "init", "-q", "-b", "main")
    (rig.directory / "work" / "large").write_bytes(os.urandom(2 << 20))
    git(rig.directory / "work", "add", ".")
    git(rig.directory / "work", "commit", "-q", "-m", "one")
    git(rig.directory, "clone", "-q", "--bare", "work", "repo.git")
    git(rig.directory / "repo.git", "config", "http.receivepack", "true")
    origin.fallback = backend(rig.directory)
    return origin.url("/repo.git")


def test_clone_push_and_fetch(rig, remote, origin):
    sluice = rig.sluice(default={"rate": "50/s"})
    run(sluice, rig.directory, "git", "clone", "-q", remote, "copy")
    copy = rig.directory / "copy"
    assert (copy / "large").read_bytes() == (rig.directory / "work" / "large").read_bytes()
    (copy / "more").write_bytes(os.urandom(1 << 20))
    git(copy, "add", ".")
    git(copy, "commit", "-q", "-m", "two")
    run(sluice, copy, "git", "-c", "http.postBuffer=65536", "push", "-q", "origin", "main")
    assert git(rig.directory / "repo.git", "rev-parse", "main") == git(copy, "rev-parse", "main")
    assert any(r.chunked for r in origin.requests if r.path.endswith("git-receive-pack"))
    run(sluice, copy, "git", "fetch", "-q")
    assert all(r.all("Via") for r in origin.requests)
