"""HTTPS in the two modes that clients notice: through a metered tunnel, trusting the third party, and intercepted, trusting
sluice's CA. Never fewer turns than requests; and each client is told whom to trust as the README says.
"""
import subprocess

import pytest

from client import LONGEST_SECONDS, env_for, needs
from origin import ok, reply
from pki import Pki, TlsOrigin
from rig import run as run_sluice

JAVA = """
import java.net.*;
public class Calls {
    public static void main(String[] args) throws Exception {
        for (int i = 0; i < 10; i++) {
            HttpURLConnection call = (HttpURLConnection) new URL(args[0] + i).openConnection();
            if (call.getResponseCode() != 200 || call.getInputStream().readAllBytes().length != 2) throw new Exception("not the answer");
        }
    }
}
"""


class Mode:
    def __init__(self, rig, name):
        self.rig = rig
        self.name = name
        pki = Pki(rig.directory)
        self.origin = rig.add(TlsOrigin(pki.issue()))
        keys = {"hosts": f"localhost:{self.origin.port}", "https": name, "ca_file": pki.ca, "rate": "1000/s"}
        proxy = {"connect_ports": str(self.origin.port)}
        if name == "intercept":
            assert run_sluice("ca", "init", "--dir", str(rig.directory / "ca")).returncode == 0
            proxy["ca_dir"] = rig.directory / "ca"
        self.trusted = rig.directory / "ca" / "ca.pem" if name == "intercept" else pki.ca
        self.sluice = rig.sluice(proxy=proxy, destinations={"api": keys})
        self.url = f"https://localhost:{self.origin.port}/"

    def run(self, *command, **env):
        done = subprocess.run([str(word) for word in command], cwd=self.rig.directory, env={**env_for(self.sluice, self.rig.directory), **env},
                              capture_output=True, timeout=LONGEST_SECONDS, stdin=subprocess.DEVNULL, check=False)
        assert done.returncode == 0, done.stdout.decode("utf-8", "replace") + done.stderr.decode("utf-8", "replace")
        return done.stdout

    def check(self, least):
        """So many requests came, and each took a slot."""
        count = len(self.origin.requests)
        assert count >= least
        if self.name == "intercept":
            assert len(self.sluice.access(count, verdict="forwarded", destination="api")) == count
        else:
            tunnels = self.sluice.access(self.origin.connections, verdict="tunnel", destination="api")
            assert count <= sum(int(e["turns"]) for e in tunnels) <= count + len(tunnels)


@pytest.fixture(params=["tunnel", "intercept"])
def mode(rig, request):
    return Mode(rig, request.param)


@needs("curl")
def test_curl(mode):
    assert mode.run("curl", "-sS", "--http1.1", *(f"{mode.url}{n}" for n in range(10)), CURL_CA_BUNDLE=str(mode.trusted)) == b"ok" * 10
    mode.check(10)


@needs("wget")
def test_wget(mode):
    assert mode.run("wget", "-q", "-O", "-", f"--ca-certificate={mode.trusted}", *(f"{mode.url}{n}" for n in range(10))) == b"ok" * 10
    mode.check(10)


@needs("git")
def test_git(mode):
    commit = "1234567890123456789012345678901234567890"
    mode.origin.fallback = reply(ok(b"no", status="404 Not Found"))
    mode.origin.on("/repo.git/info/refs", ok(f"{commit}\trefs/heads/main\n".encode(), "Content-Type: text/plain"))
    mode.origin.on("/repo.git/HEAD", ok(b"ref: refs/heads/main\n"))
    found = mode.run("git", "-c", f"http.sslCAInfo={mode.trusted}", "ls-remote", mode.url + "repo.git")
    assert commit.encode() in found
    mode.check(1)


@needs("java")
@needs("keytool")
def test_java(mode):
    store = mode.rig.directory / "trusted.p12"
    mode.run("keytool", "-importcert", "-keystore", store, "-storepass", "changeit", "-noprompt", "-alias", "sluice", "-file", mode.trusted)
    (mode.rig.directory / "Calls.java").write_text(JAVA)
    host, port = mode.sluice.address
    mode.run("java", f"-Dhttps.proxyHost={host}", f"-Dhttps.proxyPort={port}", "-Dhttp.nonProxyHosts=", f"-Djavax.net.ssl.trustStore={store}",
             "-Djavax.net.ssl.trustStorePassword=changeit", "Calls.java", mode.url)
    mode.check(10)
