"""The rig: starts the real program, a real Redis and origins, each in a directory of its own, and ends them.

    def test_x(rig, origin):
        sluice = rig.sluice(default={"rate": "10/s"})
        assert sluice.caller().get(origin.url("/a")).status == 200

Every program is waited for by what it says or does, never for a time that happens to be enough. At the end of a test
sluice is asked to stop and must then end by itself with exit code 0 (under a sanitizer: without a leak).
"""
import itertools
import json
import os
import pathlib
import random
import re
import resource
import selectors
import signal
import socket
import subprocess
import threading
import time

from origin import Origin
from wire import PATIENCE_SECONDS, Caller, Stream, request

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.path.abspath(os.environ.get("SLUICE", ROOT / "build" / "sluice"))
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
EXIT_SECONDS = 15

_living = []


def logs_of_living():
    """What each running program of the current test has said, for the report of a failure."""
    return [(f"log of {process.name}", process.text()[-20000:]) for process in _living]


def eventually(condition, seconds=PATIENCE_SECONDS, why="the condition"):
    """Waits until `condition()` is true and returns what it returned."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"{why} did not come true in {seconds} s"
        time.sleep(0.01)
    return value


def burst(origin, count):
    """As many requests, each with a connection of its own, to be sent at once."""
    return [request("GET", origin.url(f"/{n}"), "Connection: close") for n in range(count)]


_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])  # tests that run at the same time take ports apart
_ports = itertools.cycle(range(20000 + 1500 * _WORKER, 21500 + 1500 * _WORKER))


def free_port():
    """A port on which nothing listens, below those that the kernel gives to outgoing connections; another one each time."""
    for port in itertools.islice(_ports, random.randrange(200), None):
        try:
            socket.create_server(("127.0.0.1", port)).close()
            return port
        except OSError:
            pass


def environment():
    """Ours without proxies, and with a small quarantine: freed memory must not look like used memory."""
    env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    env["ASAN_OPTIONS"] = ":".join(filter(None, [env.get("ASAN_OPTIONS"), "quarantine_size_mb=4"]))
    return env


def split_address(text):
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def answers(address):
    try:
        socket.create_connection(address, PATIENCE_SECONDS).close()
        return True
    except ConnectionError:
        return False


class Process:
    """A running program whose standard error (and output) is read all the time."""

    def __init__(self, name, command, **options):
        self.name = name
        self.lines = []
        self.changed = threading.Condition()
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
        self.pid = self.process.pid
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        _living.append(self)

    def _read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.lines.append("(end of output)")
            self.changed.notify_all()

    def text(self):
        return "\n".join(self.lines)

    def wait_line(self, wanted, seconds=PATIENCE_SECONDS):
        """The first line for which `wanted(line)` is true; fails when the program ends before it says so."""
        found = []

        def look():
            found[:] = [line for line in self.lines if wanted(line)][:1]
            return found or self.lines[-1:] == ["(end of output)"]

        with self.changed:
            self.changed.wait_for(look, seconds)
        assert found, f"{self.name} did not say it:\n{self.text()}"
        return found[0]

    def signal(self, number):
        os.kill(self.pid, number)

    def alive(self):
        return self.process.poll() is None

    def kill(self):
        """SIGKILL, and wait until it is gone."""
        if self.alive():
            self.signal(signal.SIGKILL)
        self.process.wait(EXIT_SECONDS)
        self.forget()

    def exit_code(self, seconds=EXIT_SECONDS):
        code = self.process.wait(seconds)
        self.reader.join(seconds)
        return code

    def forget(self):
        if self in _living:
            _living.remove(self)

    def status_kb(self, field):
        """A field of /proc/PID/status, like VmRSS or VmHWM (the highest it ever was)."""
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            return int(re.search(rf"^{field}:\s+(\d+) kB", status.read(), re.M)[1])

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu_seconds(self):
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


def ini(proxy=None, default=None, redis=None, destinations=None):
    """Settings for a test: a free port, origins on loopback allowed, fast unless the test says otherwise."""
    sections = [("proxy", {"listen": "127.0.0.1:0", "private_upstreams": "allow", **(proxy or {})})]
    if redis is not None:
        sections.append(("redis", redis))
    sections.append(("default", {"rate": "1000/s", **(default or {})}))
    sections += [(f"destination {label}", keys) for label, keys in (destinations or {}).items()]
    return "".join(
        f"[{title}]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items()) + "\n" for title, keys in sections)


def run(*arguments):
    """The program with those arguments, for as long as it takes to say no (or to print something)."""
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=EXIT_SECONDS, env=environment(), check=False)


def with_file(directory, text, *arguments):
    path = directory / "s.ini"
    path.write_text(text)
    return run("-c", str(path), *arguments)


LOGFMT = re.compile(r'([A-Za-z_]+)=("(?:[^"\\]|\\.)*"|\S*)')


def log_fields(line):
    """A line of the log as a dict, from either form; {} when it is neither."""
    if line.startswith("{"):
        return json.loads(line)
    return {k: json.loads(v) if v.startswith('"') else v for k, v in LOGFMT.findall(line)}


class Sluice(Process):
    """The program with the given settings; port 0 in `listen` stands for a free one."""

    def __init__(self, directory, name, text, descriptors=None):
        text = re.sub(r"^listen = .*$", lambda line: re.sub(r":0\b(?=,|$)", lambda _: f":{free_port()}", line[0]), text, flags=re.M)
        self.config = directory / f"{name}.ini"
        self.config.write_text(text)
        limit = descriptors and (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors)))
        super().__init__(name, [PROGRAM, "-c", str(self.config)], cwd=directory, env=environment(), preexec_fn=limit)
        listen = re.search(r"^listen = (.*)$", text, re.M)[1]
        self.addresses = [split_address(address.strip()) for address in listen.split(",")]
        self.address = self.addresses[0]
        self.url = "http://%s:%d" % self.address
        self.callers = []
        self.may_fail = False
        self._wait_until_it_listens("log_file" in text)

    def _wait_until_it_listens(self, silent):
        def listens():
            return all(map(answers, self.addresses)) if silent else len(self.events("listening")) == len(self.addresses)

        try:
            eventually(lambda: not self.alive() or listens(), why=f"{self.name} listening")
            assert self.alive(), f"{self.name} did not start"
        except AssertionError as problem:
            self.kill()
            raise AssertionError(f"{problem}:\n{self.text()}") from None

    def caller(self, **options):
        caller = Caller(self.address, **options)
        self.callers.append(caller)
        return caller

    def get(self, url, *headers, **options):
        """One exchange on a connection of its own."""
        caller = self.caller()
        try:
            return caller.get(url, *headers, **options)
        finally:
            caller.close()

    def events(self, name):
        with self.changed:
            lines = list(self.lines)
        return [fields for fields in map(log_fields, lines) if fields.get("event") == name]

    def wait_event(self, name, count=1, seconds=PATIENCE_SECONDS, **wanted):
        """The first `count` events of that name with those fields."""
        def matching():
            found = [e for e in self.events(name) if all(str(e.get(k)) == str(v) for k, v in wanted.items())]
            return len(found) >= count and found[:count]

        return eventually(matching, seconds, f"{count} x event={name} {wanted or ''} in the log")

    def access(self, count=1, **wanted):
        return self.wait_event("access", count, **wanted)

    def hang_up(self):
        for caller in self.callers:
            caller.close()
        self.callers.clear()

    def stop(self):
        """Ends it as an operator would, and judges how it went."""
        self.hang_up()
        if self.alive():
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
            ended_by = 0
            try:
                self.process.wait(2)
            except subprocess.TimeoutExpired:
                self.signal(signal.SIGTERM)
                ended_by = 1  # a second signal breaks off what is left
            try:
                code = self.exit_code()
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"{self.name} did not end:\n{self.text()}") from None
            assert code in (0, ended_by), f"{self.name} ended with {code}:\n{self.text()}"
        else:
            assert self.may_fail or self.process.returncode in (0, -signal.SIGKILL), f"{self.name} died ({self.process.returncode}):\n{self.text()}"
        self.forget()


class Redis:
    """A real redis-server, reachable by a socket file, and by TCP where a test needs it."""

    def __init__(self, directory, options=()):
        self.path = str(directory / "redis.sock")
        self.directory = directory
        self.options = list(options)
        self.url = f"unix:{self.path}"
        self.process = None

    def start(self):
        self.process = Process("redis", ["redis-server", "--port", "0", "--unixsocket", self.path, "--save", "",
                                         "--appendonly", "no", *self.options], cwd=self.directory)
        self.process.wait_line(lambda line: "ready to accept connections at" in line)
        return self

    def command_all(self, *words):
        """Sends one command; the reply as a list of strings (integers as ":1", a single value as a list of one)."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(self.path)
            stream = Stream(sock)
            sock.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words))
            line = stream.until(b"\r\n", "a reply")
            if not line.startswith(b"*"):
                return [self._value(stream, line)]
            return [self._value(stream, stream.until(b"\r\n", "an element")) for _ in range(int(line[1:]))]

    @staticmethod
    def _value(stream, line):
        text = line.decode().strip()
        assert not text.startswith("-"), text
        return stream.exactly(int(text[1:]) + 2)[:-2].decode() if text.startswith("$") else text

    def command(self, *words):
        return self.command_all(*words)[0]

    def kill(self):
        self.process.kill()

    def stop(self):
        if self.process is not None and self.process.alive():
            self.process.signal(signal.SIGCONT)
            self.kill()


class Rig:
    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.things = []

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        problems = []
        for thing in self.things:  # callers first: nothing that was waited for may keep a proxy from ending
            if isinstance(thing, Sluice):
                thing.hang_up()
        for thing in reversed(self.things):
            try:
                thing.stop() if hasattr(thing, "stop") else thing.close()
            except AssertionError as problem:
                problems.append(str(problem))
        problems += [e for thing in self.things if isinstance(thing, Origin) for e in thing.errors]
        assert kind is not None or not problems, "\n".join(problems)

    def add(self, thing):
        self.things.append(thing)
        return thing

    def origin(self, *where):
        return self.add(Origin(*where))

    def sluice(self, text=None, descriptors=None, **sections):
        name = f"sluice{sum(isinstance(thing, Sluice) for thing in self.things) + 1}"
        return self.add(Sluice(self.directory, name, text if text is not None else ini(**sections), descriptors))

    def redis(self, *options, started=True):
        redis = self.add(Redis(self.directory, options))
        return redis.start() if started else redis

    def crowd(self, sluices, requests):
        crowd = self.add(Crowd([s.address for s in sluices], requests))
        return crowd


class Crowd:
    """Many callers at once, each with one request on a connection of its own that ends with the answer."""

    def __init__(self, addresses, requests):
        self.members = selectors.DefaultSelector()
        self.answers = {}
        for number, data in enumerate(requests):
            sock = socket.create_connection(addresses[number % len(addresses)], PATIENCE_SECONDS)
            sock.sendall(data)
            sock.setblocking(False)
            self.members.register(sock, selectors.EVENT_READ, number)
            self.answers[number] = b""

    def statuses(self, seconds=60):
        """Reads until every connection is closed. The status of each answer, None where there was none."""
        end = time.monotonic() + seconds
        while self.members.get_map():
            assert time.monotonic() < end, f"{len(self.members.get_map())} callers still wait after {seconds} s"
            for key, _ in self.members.select(0.5):
                self._read(key)
        return [int(a[9:12]) if a.startswith(b"HTTP/1.") else None for _, a in sorted(self.answers.items())]

    def _read(self, key):
        try:
            data = key.fileobj.recv(65536)
        except ConnectionError:
            data = b""
        self.answers[key.data] += data
        if not data:
            self.members.unregister(key.fileobj)
            key.fileobj.close()

    def close(self):
        """Hangs up."""
        for key in list(self.members.get_map().values()):
            self.members.unregister(key.fileobj)
            key.fileobj.close()
