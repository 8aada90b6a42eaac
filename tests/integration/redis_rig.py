"""Several real redis-servers that belong together: a primary with replicas and sentinels, a cluster, a server with TLS or users.

Everything listens on loopback, on ports that were free; each server has a directory of its own, is waited for by what it
answers, and is ended by the rig.
"""
import os
import socket
import subprocess
import threading
import time

from origin import most_in_window
from rig import ROOT, Process, burst, eventually, free_port
from wire import PATIENCE_SECONDS, Stream

SLOTS = 16384


def parse(stream):
    """One RESP2 reply: text, int, None, a list, or RedisError (not raised)."""
    line = stream.until(b"\r\n", "a reply").decode("utf-8", "replace").rstrip("\r\n")
    kind, rest = line[0], line[1:]
    if kind == "*":
        return None if rest == "-1" else [parse(stream) for _ in range(int(rest))]
    if kind == "$":
        return None if rest == "-1" else stream.exactly(int(rest) + 2)[:-2].decode("utf-8", "replace")
    return int(rest) if kind == ":" else RedisError(rest) if kind == "-" else rest


class RedisError(Exception):
    pass


def skewed_environment(rig, skew_seconds):
    """That of a server whose clock is off by so much."""
    library = rig.directory / "skew.so"
    if not library.exists():
        subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", library, ROOT / "tests" / "rig" / "skew.c"], check=True, timeout=60)
    return {**os.environ, "LD_PRELOAD": str(library), "SKEW_US": str(int(skew_seconds * 1000000))}


class Server:
    """A redis-server (or sentinel) on a port of its own. `login`: user and password of the test's own commands."""

    def __init__(self, rig, *options, name="redis", sentinel=False, tls=None, login=None, skew_seconds=0):
        self.environment = skewed_environment(rig, skew_seconds) if skew_seconds else None
        self.port = free_port()
        self.directory = rig.directory / f"{name}-{self.port}"
        self.directory.mkdir()
        self.name = name
        self.login = login
        self.path = str(self.directory / "redis.sock")  # the test's own way in, whatever the port asks for
        listen = ["--port", "0", "--tls-port", str(self.port), *tls] if tls else ["--port", str(self.port)]
        self.command_line = ["--bind", "127.0.0.1", *listen, "--unixsocket", self.path, "--dir", str(self.directory)]
        if not sentinel:
            self.command_line += ["--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"]
        self.command_line += list(map(str, options))
        self.sentinel = sentinel
        self.process = None
        rig.add(self)

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def start(self, wait=True):
        config = []
        if self.sentinel:
            path = self.directory / "sentinel.conf"
            if not path.exists():
                path.write_text("")
            config = [str(path)]
        self.process = Process(self.name, ["redis-server", *config, *self.command_line, *(["--sentinel"] if self.sentinel else [])],
                               cwd=self.directory, env=self.environment)
        if wait:
            eventually(self._answers, why=f"{self.name} on {self.port} answering")
        return self

    def _answers(self):
        assert self.process.alive(), self.process.text()
        try:
            return self.command("PING") == "PONG"
        except (OSError, RedisError):
            return False

    def command(self, *words, login=None):
        """One command on a connection of its own; an error is raised. `login`: user and password, None = self.login."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(PATIENCE_SECONDS)
            sock.connect(self.path)
            stream = Stream(sock)
            login = login or self.login
            for line in ([("AUTH", *login)] if login else []) + [words]:
                parts = [str(word).encode() for word in line]
                sock.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
                answer = parse(stream)
                if isinstance(answer, RedisError):
                    raise answer
            return answer

    def info(self, section, field):
        for line in self.command("INFO", section).splitlines():
            if line.startswith(field + ":"):
                return line.partition(":")[2]
        return None

    def role(self):
        return self.command("ROLE")[0]

    def kill(self):
        self.process.kill()

    def stop(self):
        if self.process is not None and self.process.alive():
            self.kill()


class Watched:
    """A primary, replicas of it, and sentinels who agree on who is the primary."""

    def __init__(self, rig, replicas=1, options=(), sentinel_options=(), down_after_ms=1500, login=None, sentinel_login=None, tls=None,
                 skews=(0, 0)):
        self.secure = tls is not None
        self.primary = Server(rig, *options, login=login, tls=tls, skew_seconds=skews[0]).start()
        self.servers = [self.primary]
        for _ in range(replicas):
            self.servers.append(Server(rig, *options, "--replicaof", "127.0.0.1", self.primary.port, login=login, tls=tls,
                                       skew_seconds=skews[1]).start())
        for server in self.servers[1:]:
            eventually(lambda s=server: s.info("replication", "master_link_status") == "up", why="replication")
        self.sentinels = [Server(rig, *sentinel_options, name="sentinel", sentinel=True, login=sentinel_login, tls=tls).start()
                          for _ in range(3)]
        for sentinel in self.sentinels:
            sentinel.command("SENTINEL", "MONITOR", "mymaster", "127.0.0.1", self.primary.port, 2)
            for key, value in (("down-after-milliseconds", down_after_ms), ("failover-timeout", 6000), ("parallel-syncs", 2),
                               *((("auth-user", login[0]), ("auth-pass", login[1])) if login else ())):
                sentinel.command("SENTINEL", "SET", "mymaster", key, value)
        for sentinel in self.sentinels:
            eventually(lambda s=sentinel: self._sees_all(s), why="sentinels that know each other and the replicas")
        self.rig = rig

    def _sees_all(self, sentinel):
        words = sentinel.command("SENTINEL", "MASTER", "mymaster")
        state = dict(zip(words[::2], words[1::2]))
        return int(state["num-other-sentinels"]) == 2 and int(state["num-slaves"]) == len(self.servers) - 1

    @property
    def url(self):
        return f"sentinel{'s' if self.secure else ''}://" + ",".join(s.address for s in self.sentinels) + "/mymaster"

    def named(self, sentinel=0):
        """The server that a sentinel says is the primary."""
        port = int(self.sentinels[sentinel].command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster")[1])
        return next(s for s in self.servers if s.port == port)

    def wait_for_another(self, old, seconds=40):
        """Until all sentinels name another primary and that is one."""
        def switched():
            names = {self.named(n) for n in range(3)}
            return len(names) == 1 and (new := names.pop()) is not old and new.role() == "master" and new

        return eventually(switched, seconds, "a failover")


def crc16(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


def slot_of(tag):
    return crc16(tag.encode()) % SLOTS


class Cluster:
    """Primaries with the slots shared out evenly, and replicas of them."""

    def __init__(self, rig, primaries=3, replicas=1, options=(), timeout_ms=1500, login=None, tls=None, skews=()):
        self.secure = tls is not None
        options = ("--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", timeout_ms,
                   "--cluster-replica-validity-factor", 0, *options)
        buses = [free_port() for _ in range(primaries * (1 + replicas))]
        self.servers = [Server(rig, *options, "--cluster-port", bus, name="cluster", login=login, tls=tls,
                               skew_seconds=skews[n] if skews else 0).start() for n, bus in enumerate(buses)]
        self.primaries, rest = self.servers[:primaries], self.servers[primaries:]
        for n, server in enumerate(self.primaries):
            first, last = SLOTS * n // primaries, SLOTS * (n + 1) // primaries - 1
            server.command("CLUSTER", "ADDSLOTSRANGE", first, last)
            server.command("CLUSTER", "SET-CONFIG-EPOCH", n + 1)
        for server in self.servers[1:]:
            server.command("CLUSTER", "MEET", "127.0.0.1", self.servers[0].port, buses[0])
        for server in self.servers:
            eventually(lambda s=server: self._known_to(s) == len(self.servers), 30, "servers that know each other")
        for n, server in enumerate(rest):
            eventually(lambda s=server, p=self.primaries[n % primaries]: self._replicate(s, p), 30, "replicas of their primaries")
        for server in self.servers:
            eventually(lambda s=server: s.command("CLUSTER", "INFO").startswith("cluster_state:ok"), 30, "a cluster in order")
        for server in rest:
            eventually(lambda s=server: s.info("replication", "master_link_status") == "up", 30, "replication")

    @staticmethod
    def _known_to(server):
        return int(server.command("CLUSTER", "INFO").partition("cluster_known_nodes:")[2].split()[0])

    def _replicate(self, server, primary):
        try:
            return server.command("CLUSTER", "REPLICATE", primary.command("CLUSTER", "MYID")) == "OK"
        except RedisError:
            return False  # it does not know that one yet

    @property
    def url(self):
        return f"cluster{'s' if self.secure else ''}://" + ",".join(s.address for s in self.servers[:3])

    def at(self, port):
        return next(s for s in self.servers if s.port == port)

    def owner(self, slot, seen_by=None):
        """The primary of a slot, as a living server sees it; None when none."""
        for server in [seen_by] if seen_by else self.servers:
            if server.process.alive():
                for first, last, (_, port, *_rest), *_replicas in server.command("CLUSTER", "SLOTS"):
                    if first <= slot <= last:
                        return self.at(port)
                return None
        return None

    def replica_of(self, primary):
        name = primary.command("CLUSTER", "MYID")
        lines = primary.command("CLUSTER", "NODES").splitlines()
        port = next(int(line.split()[1].split("@")[0].rpartition(":")[2]) for line in lines if line.split()[3] == name)
        return self.at(port)

    def begin_move(self, slot, to):
        """The slot is on its way: keys that are not there any more are asked for elsewhere (ASK)."""
        old = self.owner(slot)
        to.command("CLUSTER", "SETSLOT", slot, "IMPORTING", old.command("CLUSTER", "MYID"))
        old.command("CLUSTER", "SETSLOT", slot, "MIGRATING", to.command("CLUSTER", "MYID"))
        return old

    def move_keys(self, slot, old, to):
        while keys := old.command("CLUSTER", "GETKEYSINSLOT", slot, 100):
            old.command("MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS", *keys)

    def end_move(self, slot, old, to):
        for server in (to, old, *(s for s in self.servers if s not in (to, old))):
            if server.process.alive() and server.role() == "master":
                server.command("CLUSTER", "SETSLOT", slot, "NODE", to.command("CLUSTER", "MYID"))

    def move(self, slot, to):
        old = self.begin_move(slot, to)
        self.move_keys(slot, old, to)
        self.end_move(slot, old, to)
        return old


class Relay:
    """A way to a server that can be slow, silent, or lie. What it does is looked at for every piece that comes."""

    def __init__(self, rig, port):
        self.target = port
        self.delay_seconds = 0.0  # of every reply
        self.silent = False       # replies vanish, nothing is closed (half-open)
        self.garbage = b""        # sent once in place of the next reply
        self.listener = socket.create_server(("127.0.0.1", free_port()))
        self.port = self.listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.socks = []
        threading.Thread(target=self._accept, daemon=True).start()
        rig.add(self)

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            for sock in (near, far):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socks += [near, far]
            threading.Thread(target=self._copy, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._copy, args=(far, near, True), daemon=True).start()

    def _copy(self, source, sink, replies):
        try:
            while data := source.recv(65536):
                if replies and self.delay_seconds:
                    time.sleep(self.delay_seconds)
                if replies and self.silent:
                    continue
                if replies and self.garbage:
                    data, self.garbage = self.garbage, b""
                sink.sendall(data)
        except OSError:
            pass
        for sock in (source, sink):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()
        for sock in self.socks:
            sock.close()


OUTAGE_RATE = 80  # per second, what served_through() expects the replicas to keep to
OUTAGE_LOAD = 240


def served_through(rig, origin, replicas, trouble):
    """A load with `trouble` in its midst: all of it is served, much of it afterwards, and no window has more than the rate."""
    crowd = rig.crowd(replicas, burst(origin, OUTAGE_LOAD))
    origin.wait(OUTAGE_LOAD // 4)
    trouble()
    before = len(origin.stamps())
    assert crowd.statuses(80) == [200] * OUTAGE_LOAD
    assert before < OUTAGE_LOAD, "there was nothing left to show that it goes on"
    assert most_in_window(origin.stamps(), 1.0) <= OUTAGE_RATE
