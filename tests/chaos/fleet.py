"""A fleet under test: replicas of sluice, their Redis, a third party that notes arrivals, callers that keep queues full.

Arrivals are stamped by the kernel (tests/rig/origin.c) on CLOCK_MONOTONIC, so they compare with time.monotonic_ns() here,
and no delay of this process or of the origin can be mistaken for one of the product's. All times here are in nanoseconds.

Strictness is judged exactly. Use of the rate is not strictness: a slot that a replica could not use because the machine
did not let it run is given up by design. at_least() therefore measures a second time when the kernel's own figures say
that the replicas waited for a processor, or that the hypervisor took it away, and only then.
"""
import collections
import datetime
import mmap
import os
import pathlib
import re
import socket
import struct
import time
import urllib.request

from origin import most_in_window
from rig import ROOT, Process, Redis, eventually, free_port, ini
from relay import Relay

RIG = pathlib.Path(os.environ.get("RIG", ROOT / "build" / "rig"))
S = 1_000_000_000
MS = 1_000_000
LATE, DISPLACED = 10 * MS, 15 * MS  # the defaults: L, and D = L + J + u
HORIZON = 1 * S
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")

Arrival = collections.namedtuple("Arrival", "at path")


def now():
    return time.monotonic_ns()


def sleep_until(at):
    """Until that time; a test that lets faults happen at chosen moments has nothing else to wait for."""
    while (left := at - now()) > 0:
        time.sleep(left / S)


class Rate:
    def __init__(self, text):
        count, period = text.split("/")
        number, unit = re.fullmatch(r"(\d*)(ms|s|m)", period).groups()
        self.text = text
        self.count = int(count)
        self.period = int(number or 1) * {"ms": MS, "s": S, "m": 60 * S}[unit]

    def interval(self, displaced=DISPLACED, gap=False):
        """Between two slots; each test of a fleet compares it with what the product says of itself."""
        span = self.period + displaced * (self.count if gap else 1)
        return span * 1001 / 1000 / self.count


class ThirdParty(Process):
    def __init__(self, directory):
        self.log = pathlib.Path(directory) / "arrivals.csv"
        super().__init__("third party", [str(RIG / "origin"), "-l", str(self.log)], cwd=directory)
        line = self.wait_line(lambda text: text.startswith("listening on "))
        self.authority = line.removeprefix("listening on ")

    def url(self, path="/"):
        return f"http://{self.authority}{path}"

    def ask(self, path):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        return opener.open(self.url(path), timeout=20).read().decode()

    def arrivals(self):
        self.ask("/__stats")  # the log is complete up to now
        rows = [line.split(",", 1) for line in self.log.read_text().splitlines()[1:]]
        return sorted(Arrival(int(at), path) for at, path in rows)

    def stop(self):
        self.kill()


class Load(Process):
    """Callers of one replica that keep `queued` requests waiting until `total` are through."""

    def __init__(self, number, address, url, queued, total, headers=()):
        self.number = number
        command = [str(RIG / "burst"), "-x", "%s:%d" % address, "-u", url, "-c", str(queued), "-n", str(total), "-T", "100"]
        command += [word for header in headers for word in ("-H", header)]
        super().__init__(f"callers {number}", command)

    def end(self):
        self.kill()

    def stop(self):
        self.kill()


class ClockShift:
    """The wall clock of a redis-server that was started with it."""

    def __init__(self, directory):
        path = pathlib.Path(directory) / "clock"
        path.write_bytes(bytes(24))
        with open(path, "r+b") as file:
            self.page = mmap.mmap(file.fileno(), 24)
        self.environment = {**os.environ, "LD_PRELOAD": str(RIG / "clockshift.so"), "CLOCKSHIFT": str(path)}
        self.offset = self.ppm = self.since = 0

    def _write(self):
        struct.pack_into("qqq", self.page, 0, self.offset, self.ppm, self.since)

    def step(self, microseconds):
        self.offset += microseconds
        self._write()

    def run_fast(self, ppm):
        self.since = now() // 1000
        self._write()
        self.ppm = ppm
        self._write()


class Server(Redis):
    """A redis-server of a fleet, with a shifted clock where a test wants one."""

    def __init__(self, directory, options=(), clock=None):
        directory.mkdir(exist_ok=True)
        super().__init__(directory, options)
        self.clock = clock
        self.begun = []

    def start(self, ready="ready to accept connections at"):
        options = {"env": self.clock.environment} if self.clock else {}
        command = ["redis-server", "--port", "0", "--unixsocket", self.path, "--save", "", "--appendonly", "no", *self.options]
        self.process = Process("redis", command, cwd=self.directory, **options)
        self.process.wait_line(lambda line: ready in line)
        return self

    def begin(self, *words):
        """Sends a command whose answer nobody waits for."""
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(self.path)
        sock.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words))
        self.begun.append(sock)

    def calls(self):
        """Scripts run so far."""
        stats = self.command_all("INFO", "commandstats")[0]
        return sum(int(re.search(r"calls=(\d+)", line)[1]) for line in stats.splitlines() if re.match("cmdstat_eval(sha)?:", line))

    def epoch(self):
        """How many epochs the only destination has had."""
        keys = [key for key in self.command_all("KEYS", "*") if key.endswith(":e")]
        assert len(keys) == 1, keys
        return int(self.command("HGET", keys[0], "n"))


class Fleet:
    def __init__(self, rig, rate, replicas=3, relays=False, shifted=False, redis=(), third_party=None, proxy=None,
                 **policy):
        self.rig, self.rate, self.policy, self.proxy = rig, Rate(rate), policy, proxy
        self.clock = ClockShift(rig.directory) if shifted else None
        self.third_party = third_party or rig.add(ThirdParty(rig.directory))
        self.redis = rig.add(Server(rig.directory / "redis", redis, self.clock)).start()
        self.with_relays, self.relays, self.replicas, self.loads = relays, [], [], []
        for _ in range(replicas):
            self.add()
        self.interval = self.rate.interval(gap=policy.get("strict") == "gap")

    def settings(self, url, rate=None):
        policy = {"hosts": self.third_party.authority, "rate": rate or self.rate.text, "max_queue": "20000", "max_wait": "1d",
                  **self.policy}
        return ini(self.proxy, redis={"url": url}, destinations={"t": policy}) + f"[admin]\nlisten = 127.0.0.1:{free_port()}\n"

    def add(self, rate=None, wait=True):
        """Another replica."""
        url = self.redis.url
        if self.with_relays:
            self.relays.append(self.rig.add(Relay(self.rig.directory / f"relay{len(self.relays) + 1}", self.redis.path)))
            url = self.relays[-1].url
        sluice = self.rig.sluice(self.settings(url, rate))
        sluice.admin = re.search(r"\[admin\]\nlisten = (\S+)", sluice.config.read_text())[1]
        self.replicas.append(sluice)
        if wait and self.proxy is None:
            sluice.wait_event("redis_up")
        return sluice

    def load(self, queued=50, total=1_000_000, only=None, path="", headers=()):
        """Callers for each replica; what replica K sends goes to /K/..., below `path`."""
        for number, sluice in enumerate(self.replicas):
            if sluice.alive() and (only is None or sluice in only):
                url = self.third_party.url(f"{path}/{number}/{{seq}}")
                self.loads.append(self.rig.add(Load(number, sluice.address, url, queued, total, headers)))
        return self.loads[-1]

    def unload(self):
        for load in self.loads:
            load.end()
        self.loads.clear()

    def arrivals(self, since=0, until=1 << 62):
        return [a for a in self.third_party.arrivals() if since <= a.at < until]

    def stamps(self, since=0, until=1 << 62):
        return [a.at for a in self.arrivals(since, until)]

    def wait_arrivals(self, count, seconds=20, since=0):
        return eventually(lambda: len(found := self.stamps(since)) >= count and found, seconds, f"{count} arrivals")

    def flowing(self, each=2):
        """Waits until every replica that has callers uses slots: each listens for a while after its start."""
        def all_flow():
            came = collections.Counter(a.path.split("/")[-2] for a in self.arrivals())
            return sum(count >= each for count in came.values()) >= len({load.number for load in self.loads})

        eventually(all_flow, why="slots used by all")
        return now()

    def strict(self):
        """No half-open window of the period holds more than the rate's count. The most that any holds."""
        most = most_in_window(self.stamps(), self.rate.period)
        assert most <= self.rate.count, f"{most} of {self.rate.count} in a window"
        return most

    def slots(self, outcome, of=None):
        """So many slots of all living replicas (or of those) ended like that."""
        wanted = rf'sluice_slots_total{{destination="t",outcome="{outcome}"}} (\d+)'
        found = [re.search(wanted, metrics(sluice)) for sluice in of or self.alive()]
        return sum(int(match[1]) for match in found)

    def interval_in_force(self):
        """The largest that any replica has now."""
        found = [re.search(r'sluice_slot_interval_seconds{destination="t"} (\S+)', metrics(s)) for s in self.alive()]
        return max(float(match[1]) for match in found) * S

    def alive(self):
        return [sluice for sluice in self.replicas if sluice.alive()]

    def tell_admin(self, sluice, verb):
        request = urllib.request.Request(f"http://{sluice.admin}{verb}", method="POST")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        return opener.open(request, timeout=10).read()


def metrics(sluice):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return opener.open(f"http://{sluice.admin}/metrics", timeout=10).read().decode()


def gaps(stamps):
    return [after - before for before, after in zip(stamps, stamps[1:])]


def smallest_gap(stamps):
    return min(gaps(stamps))


def used(stamps, rate):
    """What share of the rate was used between the first and the last."""
    return (len(stamps) - 1) * rate.period / (stamps[-1] - stamps[0]) / rate.count if len(stamps) > 1 else 0.0


def used_between(stamps, fleet, since, until):
    """What share of the rate was used in a stretch. From arrival to arrival, so that it does not matter where between two it begins
    and ends; but a silence at an end counts."""
    inside = [at for at in stamps if since <= at < until]
    if len(inside) < 2:
        return 0.0
    span = max(inside[-1] - inside[0], until - since - 2 * max(fleet.interval, LATE))
    return (len(inside) - 1) * fleet.rate.period / span / fleet.rate.count


def jain(shares):
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))


def when(event):
    """The time of a line of the log, on our clock."""
    at = datetime.datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp()
    return now() - int((time.time() - at) * S)


# ---- the machine's part in it


class Machine:
    """How long programs were ready to run and did not, since this was made."""

    def __init__(self, fleet, but=None):
        self.pids = [s.pid for s in fleet.alive() if s is not but] + [fleet.redis.process.pid]
        self.began, self.waited, self.stolen = now(), self._waited(), self._stolen()

    def _waited(self):
        total = 0
        for pid in self.pids:
            try:
                total += int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[1])
            except (OSError, IndexError):
                pass  # it ended meanwhile, or this kernel does not tell
        return total

    @staticmethod
    def _stolen():
        with open("/proc/stat", encoding="ascii") as stat:
            return int(stat.readline().split()[8]) * S // CLOCK_TICKS

    def waited_share(self):
        return (self._waited() - self.waited) / (now() - self.began)

    def excuse(self):
        """What kept the programs from running, or nothing. The bound, half a percent of the time, is a third of what strictness costs."""
        waited, stolen = self.waited_share(), (self._stolen() - self.stolen) / (now() - self.began)
        if waited < 0.005 and stolen < 0.005:
            return ""
        return f"waited for a processor {waited:.1%}, stolen {stolen:.1%} of the time"


def at_least(bound, fleet, measure, but=None):
    """measure() returns a used share, and is asked again once when the machine was the cause of a bad one. The second time slots that
    came too late for the replicas count as used if that cause is still there: they are the machine's. Where round trips to Redis are slow, slots
    are further apart by design (a clock step can hide in a slow exchange), and less can be used. `but` is a replica that does not count."""
    watch = Machine(fleet, but)
    share, _ = measure()
    bound *= fleet.interval / max(fleet.interval, fleet.interval_in_force())
    if share < bound and (excuse := watch.excuse()):
        print(f"measured again: {share:.2%} used, but {excuse}")
        watch, late = Machine(fleet, but), fleet.slots("late")
        share, span = measure()
        if share < bound and watch.excuse():
            share += (fleet.slots("late") - late) * fleet.rate.period / span / fleet.rate.count
    assert share >= bound, f"{share:.2%} used, wanted {bound:.2%}"
    return share


def stretch(fleet, seconds):
    """A measure for at_least: the use of the rate in that many seconds from now on."""
    def measure():
        since = now()
        sleep_until(since + int(seconds * S))
        return used_between(fleet.stamps(), fleet, since, since + int(seconds * S)), int(seconds * S)
    return measure
