"""node: its own http module with a keep-alive agent, the http-proxy-agent package, and undici's ProxyAgent."""
import fcntl
import shutil
import subprocess

import pytest

from client import LONGEST_SECONDS, needs, run
from rig import ROOT, environment

pytestmark = needs("node")
PACKAGES = ["undici@6", "http-proxy-agent@7"]

PLAIN_AGENT = """
const http = require("http");
const [proxy, url] = process.argv.slice(1).map((u) => new URL(u));
const agent = new http.Agent({keepAlive: true, maxSockets: 2});
let left = 10;
for (let i = 0; i < 10; i++) {
  const request = http.request({host: proxy.hostname, port: proxy.port, method: "POST", path: url.href + i,
                                headers: {Host: url.host}, agent}, (response) => {
    let body = "";
    response.on("data", (d) => body += d).on("end", () => { console.log(response.statusCode, body); if (--left === 0) agent.destroy(); });
  });
  request.write("first "); request.end("last");
}
"""

PROXY_AGENT = """
const http = require("http"), {HttpProxyAgent} = require("http-proxy-agent");
const [proxy, url] = process.argv.slice(1);
const agent = new HttpProxyAgent(proxy, {keepAlive: false});
for (let i = 0; i < 5; i++)
  http.get(url + i, {agent}, (response) => { response.resume(); response.on("end", () => console.log(response.statusCode, "ok")); });
"""

UNDICI = """
const {ProxyAgent, request, fetch} = require("undici");
const [proxy, url, tunnel] = process.argv.slice(1);
(async () => {
  const dispatcher = new ProxyAgent({uri: proxy, proxyTunnel: tunnel === "true"});
  const answers = await Promise.all([...Array(5).keys()].map((i) => request(url + i, {dispatcher})));
  for (const answer of answers) console.log(answer.statusCode, await answer.body.text());
  const posted = await fetch(url + "fetched", {dispatcher, method: "POST", body: "x".repeat(100000)});
  console.log(posted.status, await posted.text());
  await dispatcher.close();
})();
"""


def install(where):
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed here")
    try:
        subprocess.run(["npm", "install", "--prefix", str(where), "--no-audit", "--no-fund", *PACKAGES], env=environment(),
                       check=True, capture_output=True, timeout=LONGEST_SECONDS, stdin=subprocess.DEVNULL)
    except subprocess.SubprocessError:
        pytest.skip("npm can't install undici here")


@pytest.fixture(scope="module")
def packages():
    """Installed once, below the build directory; tests that run at the same time wait for it."""
    where = ROOT / "build" / "npm"
    where.mkdir(parents=True, exist_ok=True)
    with open(where / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (where / "installed").exists():
            install(where)
            (where / "installed").touch()
    return where


def test_the_http_module_with_a_keep_alive_agent(rig, origin):
    sluice = rig.sluice()
    done = run(sluice, rig.directory, "node", "-e", PLAIN_AGENT, sluice.url, origin.url("/"))
    assert done.stdout.splitlines() == [b"200 ok"] * 10
    assert {r.body for r in origin.requests} == {b"first last"} and len({e["client"] for e in sluice.access(10)}) <= 2


def test_http_proxy_agent(rig, origin, packages):
    sluice = rig.sluice()
    done = run(sluice, packages, "node", "-e", PROXY_AGENT, sluice.url, origin.url("/"))
    assert done.stdout.splitlines() == [b"200 ok"] * 5
    assert len(sluice.access(5, verdict="forwarded")) == 5


def test_undici_through_tunnels(rig, origin, packages):
    """What undici's ProxyAgent does with plain http as well, unless told otherwise."""
    sluice = rig.sluice(proxy={"connect_ports": str(origin.port)})
    done = run(sluice, packages, "node", "-e", UNDICI, sluice.url, origin.url("/"), "true")
    assert done.stdout.splitlines() == [b"200 ok"] * 6
    assert sluice.access(verdict="tunnel")


def test_undici_without_tunnels(rig, origin, packages):
    sluice = rig.sluice()
    done = run(sluice, packages, "node", "-e", UNDICI, sluice.url, origin.url("/"), "false")
    assert done.stdout.splitlines() == [b"200 ok"] * 6
    assert len(sluice.access(6, verdict="forwarded")) == 6 and len(origin.to("/fetched")[0].body) == 100000
