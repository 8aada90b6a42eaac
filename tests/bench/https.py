"""https.py BUILD [SECONDS] - how exactly requests leave where TLS is in the way, and what TLS costs.

Departures: callers that always wait, at 50 per second, so that slots are one interval apart. "left" is when the kernel of the
third party had the packet, from the slots, which the earliest shows: median and 99th percentile. "released" is what sluice's own
histogram says (from the beginning of the slot; by a straight line inside a bucket). "warm" keeps connections; "cold" makes a new
one for every request (made before its slot): with the session of the one before, or without any.

Cost: CPU time of the whole process for a request on a kept connection and on a new one, with Debian's certificates and the
test's own to trust. The difference is what a connection costs; with TLS, the store and the sessions that are shared, it must be below
1 ms (exit 1 otherwise).
"""
import os
import re
import statistics
import sys
import tempfile
import threading

BUILD = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 3
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
os.environ["SLUICE"] = os.path.join(BUILD, "sluice")
sys.path.insert(0, os.path.join(ROOT, "tests", "integration"))
sys.dont_write_bytecode = True

from origin import Origin, ok, reply  # noqa: E402
from pki import Pki, TlsOrigin, Tunnelled  # noqa: E402
from rig import Rig, free_port, ini, run  # noqa: E402
from wire import Caller  # noqa: E402

SYSTEM = "/etc/ssl/certs/ca-certificates.crt"
RATE, CALLERS, ROUNDS, CONNECTIONS = 50, 12, 6, 100


class Bench:
    def __init__(self, directory):
        self.directory = directory
        self.rig = Rig(directory)
        self.pki = Pki(self.rig.directory)
        self.certificate = self.pki.issue()
        self.bundle = self.rig.directory / "bundle.pem"
        self.bundle.write_text(self.pki.ca.read_text() + (open(SYSTEM, encoding="ascii").read() if os.path.exists(SYSTEM) else ""))
        assert run("ca", "init", "--dir", str(self.rig.directory / "ca")).returncode == 0

    def third_party(self, tls, close, sessions=True):
        origin = self.rig.add(TlsOrigin(self.certificate) if tls else Origin())
        if tls and not sessions:
            origin.context.num_tickets = 0
        origin.fallback = reply(ok(b"ok", *(["Connection: close"] if close else [])), close=close)
        return origin

    def start(self, origin, mode, rate):
        admin = free_port()
        proxy = {"connect_ports": str(origin.port), "ca_dir": self.rig.directory / "ca"}
        keys = {"hosts": f"localhost:{origin.port}", "https": "tunnel" if mode == "plain" else mode, "rate": f"{rate}/s"}
        if mode in ("originate", "intercept"):
            keys["ca_file"] = self.bundle
        text = ini(proxy=proxy, destinations={"api": keys}) + f"[admin]\nlisten = 127.0.0.1:{admin}\n"
        sluice = self.rig.sluice(text=text)
        sluice.admin = ("127.0.0.1", admin)
        return sluice

    def send(self, sluice, origin, mode, count, callers):
        """So many requests by so many callers, each with one under way."""
        host = f"localhost:{origin.port}"
        left = iter(range(count))
        lock = threading.Lock()

        def one():
            if mode in ("tunnel", "intercept"):
                trusted = self.pki.ca if mode == "tunnel" else self.rig.directory / "ca" / "ca.pem"
                caller = Tunnelled(sluice.address, host, trusted)
                ask = lambda: caller.ask(host)  # noqa: E731
            else:
                caller = Caller(sluice.address)
                ask = lambda: caller.get(f"http://{host}/")  # noqa: E731
            while True:
                with lock:
                    if next(left, None) is None:
                        break
                assert ask().status == 200
            caller.close()

        threads = [threading.Thread(target=one) for _ in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def from_slots(stamps, interval):
    """Microseconds behind the grid of slots that the earliest of them lies on."""
    rests = [stamp - stamps[0] - round((stamp - stamps[0]) / interval) * interval for stamp in stamps]
    return [(rest - min(rests)) * 1e6 for rest in rests]


def own_histogram(sluice):
    """(p50, p99) in microseconds of sluice_release_lateness_seconds."""
    caller = Caller(sluice.admin)
    text = caller.get("http://localhost/metrics", "Connection: close").body.decode()
    buckets = [(float(le) if le != "+Inf" else None, int(count)) for le, count in
               re.findall(r'sluice_release_lateness_seconds_bucket\{destination="api",le="([^"]+)"\} (\d+)', text)]
    caller.close()

    def at(share):
        below, least = 0, 0.0
        for bound, count in buckets:
            if count >= share * buckets[-1][1]:
                return (bound if bound is None else least + (bound - least) * (share * buckets[-1][1] - below) / max(1, count - below)) or 0.05
            below, least = count, bound
        return 0.0

    return at(0.5) * 1e6, at(0.99) * 1e6


def departures(bench, name, mode, tls, close, sessions=True):
    origin = bench.third_party(tls, close, sessions)
    sluice = bench.start(origin, mode, RATE)
    interval = float(sluice.wait_event("destination", label="api")[0]["interval_ms"]) / 1000
    bench.send(sluice, origin, mode, int(RATE * SECONDS) + CALLERS, CALLERS)
    late = from_slots(origin.stamps()[CALLERS:], interval)
    p50, p99 = own_histogram(sluice)
    print(f"{name:34}{len(late):6}{origin.connections:7}{statistics.median(late):11.0f}{quantile(late, 0.99):9.0f}{p50:13.0f}{p99:9.0f}",
          flush=True)
    end(bench, sluice, origin)


def end(bench, *things):
    for thing in things:
        bench.rig.things.remove(thing)
        thing.stop() if hasattr(thing, "stop") else thing.close()


def cpu_us(sluice):
    total = 0
    for task in os.listdir(f"/proc/{sluice.pid}/task"):
        with open(f"/proc/{sluice.pid}/task/{task}/schedstat", encoding="ascii") as stat:
            total += int(stat.read().split()[0]) / 1000
    return total


def cost(bench, mode, tls, close, sessions=True):
    """Microseconds of CPU for each request, after some that warm up: of several rounds the least, as others on the machine only add."""
    origin = bench.third_party(tls, close, sessions)
    sluice = bench.start(origin, mode, 100000)
    bench.send(sluice, origin, mode, 50, 1)
    used, connections = [], origin.connections
    for _ in range(ROUNDS):
        before = cpu_us(sluice)
        bench.send(sluice, origin, mode, CONNECTIONS, 1)
        used.append((cpu_us(sluice) - before) / CONNECTIONS)
    assert not close or origin.connections - connections >= ROUNDS * CONNECTIONS
    if tls and close:
        reused = sum(bool(sock.tls.session_reused) for sock in origin.handshakes[connections:])
        assert (reused > 0.9 * ROUNDS * CONNECTIONS) if sessions else reused == 0, f"{reused} sessions resumed"
    end(bench, sluice, origin)
    return min(used)


def main():
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(directory)
        print(f"{f'departures at {RATE}/s, microseconds':34}{'count':>6}{'conns':>7}{'left p50':>11}{'p99':>9}{'released p50':>13}{'p99':>9}")
        departures(bench, "plain http, warm", "plain", tls=False, close=False)
        departures(bench, "plain http, cold", "plain", tls=False, close=True)
        departures(bench, "originate, warm", "originate", tls=True, close=False)
        departures(bench, "originate, cold, resumed", "originate", tls=True, close=True)
        departures(bench, "originate, cold, full handshakes", "originate", tls=True, close=True, sessions=False)
        departures(bench, "intercept, warm", "intercept", tls=True, close=False)
        departures(bench, "tunnel, warm", "tunnel", tls=True, close=False)
        print(f"\n{'CPU, microseconds':34}{'kept':>9}{'new':>9}{'a connection':>15}")
        plain = cost(bench, "plain", False, False), cost(bench, "plain", False, True)
        kept = cost(bench, "originate", True, False)
        resumed, full = cost(bench, "originate", True, True), cost(bench, "originate", True, True, sessions=False)
        for name, (one, other) in (("plain http", plain), ("TLS, resumed", (kept, resumed)), ("TLS, full handshake", (kept, full))):
            print(f"{name:34}{one:9.0f}{other:9.0f}{other - one:15.0f}")
        good = resumed - kept < 1000
        print(f"a new TLS connection, resumed, costs less than 1 ms of CPU: {'yes' if good else 'NO'}")
        bench.rig.__exit__(None, None, None)
    return 0 if good else 1


sys.exit(main())
