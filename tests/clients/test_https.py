"""Other people's HTTP clients against a third party that speaks https: a row for each client, a column for each mode.

Every client makes ten calls, uploads 2 MB, downloads 3 MB and makes five more calls, over connections that it keeps, in each
column: `originate`, `intercept`, and `tunnel` to a third party with TLS 1.2 and with TLS 1.3. What it was charged is compared
with what the third party saw: never less, and more only in tunnels, by one for each upload that the third party interrupted
(100 Continue, session tickets). The figures are printed at the end of the run.

Clients trust what the README says, by a file that holds sluice's CA and, for the tunnels, the third party's.
"""
import os
import shutil
import ssl
import subprocess
import sys

import pytest

from client import LONGEST_SECONDS, env_for, needs
from origin import ok
from pki import Pki, TlsOrigin
from rig import ROOT
from rig import run as run_sluice

CALLS = ROOT / "tests" / "clients" / "https"
TLS12 = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)
TLS13 = (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3)
COLUMNS = {"originate": ("originate", TLS13), "intercept": ("intercept", TLS13), "tunnel, TLS 1.2": ("tunnel", TLS12),
           "tunnel, TLS 1.3": ("tunnel", TLS13)}
USUAL = 17  # requests of a client in each column
UPLOAD, DOWNLOAD = b"x" * 2000000, b"x" * 3000000


def receive(peer, request):
    if request.get("Expect"):
        peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
    peer.send(ok(str(len(peer.read_body(request))).encode()))


class Column:
    def __init__(self, rig, name, certificate):
        self.name = name
        self.mode, versions = COLUMNS[name]
        self.label = name.replace(", TLS ", "")
        self.origin = rig.add(TlsOrigin(certificate, versions))
        self.origin.on("/up", receive)
        self.origin.on("/down", ok(DOWNLOAD))
        self.scheme = "http" if self.mode == "originate" else "https"
        self.url = f"{self.scheme}://localhost:{self.origin.port}"

    def charged(self, sluice):
        if self.mode != "tunnel":
            return len(sluice.access(len(self.origin.requests), verdict="forwarded", destination=self.label))
        return sum(int(e["turns"]) for e in sluice.access(self.origin.connections, verdict="tunnel", destination=self.label))


class Table:
    """A sluice with a destination for each column."""

    def __init__(self, rig, record_property):
        self.rig, self.record_property = rig, record_property
        pki = Pki(rig.directory)
        certificate = pki.issue()
        self.columns = [Column(rig, name, certificate) for name in COLUMNS]
        assert run_sluice("ca", "init", "--dir", str(rig.directory / "ca")).returncode == 0
        self.ca = rig.directory / "ca" / "ca.pem"
        self.trusted = rig.directory / "trusted.pem"
        self.trusted.write_text(self.ca.read_text() + pki.ca.read_text())
        self.sluice = rig.sluice(
            proxy={"connect_ports": ", ".join(str(c.origin.port) for c in self.columns), "ca_dir": self.ca.parent},
            destinations={c.label: {"hosts": f"localhost:{c.origin.port}", "https": c.mode, "ca_file": pki.ca} for c in self.columns})

    @property
    def urls(self):
        return [column.url for column in self.columns]

    def run(self, *command, **env):
        """With every variable that the README names for some client."""
        trust = {name: str(self.trusted) for name in ("CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")}
        env = {**env_for(self.sluice, self.rig.directory), **trust, "NODE_PATH": "/usr/share/nodejs", "PYTHONDONTWRITEBYTECODE": "1", **env}
        done = subprocess.run([str(word) for word in command], cwd=self.rig.directory, env=env, capture_output=True,
                              timeout=LONGEST_SECONDS, stdin=subprocess.DEVNULL, check=False)
        assert done.returncode == 0, done.stdout.decode("utf-8", "replace") + done.stderr.decode("utf-8", "replace")
        return done.stdout

    def judge(self, client, exactly=None, least=1, connections=2):
        """`connections`: most of them in a column."""
        cells = []
        for column in self.columns:
            came, charged = len(column.origin.requests), column.charged(self.sluice)
            uploads = sum(r.method != "GET" for r in column.origin.requests)
            cells.append(f"{column.name} {charged}/{came}")
            assert came == exactly or exactly is None and came >= least, column.name
            assert came <= charged <= came + (uploads if column.mode == "tunnel" else 0), f"{column.name}: {charged} for {came}"
            assert column.origin.connections <= connections, f"{column.name}: {column.origin.connections} connections"
        self.record_property("figure", f"{client:9} charged/came: " + "  ".join(cells))


@pytest.fixture
def table(rig, record_property):
    return Table(rig, record_property)


@needs("curl")
def test_curl(table):
    (table.rig.directory / "much").write_bytes(UPLOAD)
    for url in table.urls:
        first, more = ([f"{url}/{n}" for n in range(count)] for count in (10, 5))
        same = ["-sS", "--fail", "--http1.1"]
        said = table.run("curl", *same, *first, "--next", *same, "--data-binary", "@much", f"{url}/up", "--next", *same, "-o", "down",
                         f"{url}/down", "--next", *same, *more)
        assert said == b"ok" * 10 + b"2000000" + b"ok" * 5 and (table.rig.directory / "down").stat().st_size == len(DOWNLOAD)
    table.judge("curl", USUAL)


@needs("wget")
def test_wget(table):
    (table.rig.directory / "much").write_bytes(UPLOAD)
    for url in table.urls:
        words = ["wget", "-q", "-O", "-", f"--ca-certificate={table.trusted}"]
        said = table.run(*words, *(f"{url}/{n}" for n in range(10)), f"{url}/down", *(f"{url}/{n}" for n in range(5)))
        assert said == b"ok" * 10 + DOWNLOAD + b"ok" * 5
        assert table.run(*words, "--post-file=much", f"{url}/up") == b"2000000"
    table.judge("wget", USUAL)


def http_backend(where):
    """Serves the repositories below that directory as git's own CGI program does."""

    def handler(peer, request):
        body = peer.read_body(request)
        env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(where), "GIT_HTTP_EXPORT_ALL": "1", "REQUEST_METHOD": request.method,
               "PATH_INFO": request.path, "QUERY_STRING": request.target.partition("?")[2], "REMOTE_USER": "a",
               "CONTENT_TYPE": request.get("Content-Type", ""), "HTTP_CONTENT_ENCODING": request.get("Content-Encoding", ""),
               "CONTENT_LENGTH": str(len(body)), "GIT_PROTOCOL": request.get("Git-Protocol", "")}
        done = subprocess.run(["git", "http-backend"], env=env, input=body, capture_output=True, timeout=LONGEST_SECONDS, check=True)
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        status = next((line[8:] for line in lines if line.startswith("Status: ")), "200 OK")
        peer.send(ok(answer, *(line for line in lines if not line.startswith("Status: ")), status=status))

    return handler


@needs("git")
def test_git(table):
    """Clones, commits 2 MB, pushes and fetches, by git's protocol for http."""
    here = table.rig.directory

    def git(*words):
        return table.run("git", "-c", f"http.sslCAInfo={table.trusted}", "-c", "user.name=a", "-c", "user.email=a@a.test", *words)

    for number, column in enumerate(table.columns):
        column.origin.fallback = http_backend(here / "served")
        repository, copy = f"{number}.git", f"copy{number}"
        git("init", "-q", "--bare", f"served/{repository}")
        git("-C", f"served/{repository}", "config", "http.receivepack", "true")
        git("clone", "-q", f"{column.url}/{repository}", copy)
        (here / copy / "much").write_bytes(os.urandom(len(UPLOAD)))
        git("-C", copy, "add", "much")
        git("-C", copy, "commit", "-q", "-m", "much")
        git("-C", copy, "push", "-q", "origin", "HEAD:refs/heads/main")
        git("clone", "-q", "-b", "main", f"{column.url}/{repository}", f"again{number}")
        assert (here / f"again{number}" / "much").read_bytes() == (here / copy / "much").read_bytes()
    table.judge("git", least=6, connections=6)


@pytest.mark.parametrize("library", ["requests", "httpx", "aiohttp"])
def test_python(table, library):
    pytest.importorskip(library)
    table.run(sys.executable, CALLS / f"calls_{library}.py", *table.urls)
    table.judge(library, USUAL, connections=6 if library == "aiohttp" else 2)


def node_has(library):
    done = subprocess.run(["node", "-e", f"require({library!r})"], env={**os.environ, "NODE_PATH": "/usr/share/nodejs"}, capture_output=True,
                          timeout=LONGEST_SECONDS, check=False)
    return done.returncode == 0


@needs("node")
@pytest.mark.parametrize("library", ["undici", "axios", "got"])
def test_node(table, library):
    if not node_has(library):
        pytest.skip(f"node's {library} is not installed here")
    table.run("node", CALLS / "calls.js", library, *table.urls)
    table.judge(library, USUAL, connections=6)


@needs("go")
def test_go(table):
    cache = ROOT / "build" / "go"
    table.run("go", "run", CALLS / "calls.go", *table.urls, GOCACHE=str(cache), GOPATH=str(cache / "path"), GOFLAGS="-mod=mod", GO111MODULE="off")
    table.judge("go", USUAL)


@needs("java")
@needs("keytool")
def test_java(table):
    store = table.rig.directory / "trusted.p12"
    for alias, file in (("sluice", table.ca), ("third", table.rig.directory / "test-ca.pem")):
        table.run("keytool", "-importcert", "-keystore", store, "-storepass", "changeit", "-noprompt", "-alias", alias, "-file", file)
    host, port = table.sluice.address
    proxies = [f"-D{scheme}.{what}={value}" for scheme in ("http", "https") for what, value in (("proxyHost", host), ("proxyPort", port))]
    table.run("java", *proxies, "-Dhttp.nonProxyHosts=", f"-Djavax.net.ssl.trustStore={store}",
              "-Djavax.net.ssl.trustStorePassword=changeit", CALLS / "Calls.java", *table.urls)
    table.judge("java", USUAL)


@needs("curl")
@needs("update-ca-certificates")
def test_debians_own_store(table):
    """What the README does to all of a Debian, in a directory of the test's own."""
    made, ours, hooks = (table.rig.directory / name for name in ("made", "ours", "hooks"))
    for directory in (made, ours, hooks):
        directory.mkdir()
    shutil.copy(table.ca, ours / "sluice.crt")
    table.run("update-ca-certificates", "--etccertsdir", made, "--localcertsdir", ours, "--hooksdir", hooks)
    column = next(c for c in table.columns if c.mode == "intercept")
    assert table.run("curl", "-sS", "--cacert", made / "ca-certificates.crt", f"{column.url}/") == b"ok"
