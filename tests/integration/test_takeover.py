"""Another process in place of this one, without a failed request: side by side on one address, or by handed-down sockets."""
import os
import socket
import subprocess
import threading

import pytest

from rig import PROGRAM, Process, Sluice, environment, eventually, free_port, ini
from wire import Caller, request


class Load:
    """Steady calls by several threads: on a new connection each, and on kept ones that are replaced when they end."""

    def __init__(self, address, url, threads=4):
        self.address, self.url = address, url
        self.good, self.failed = 0, []
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(number % 2 == 0,)) for number in range(threads)]
        for thread in self.threads:
            thread.start()

    def _run(self, keep):
        caller = None
        while not self.over.is_set():
            try:
                caller = caller or Caller(self.address)
                answer = caller.send(request("GET", self.url)).response()
                assert answer.status == 200, answer.raw
                self.good += 1
                if not keep or answer.get("Connection", "").lower() == "close":
                    caller.close()
                    caller = None
            except (OSError, AssertionError) as error:
                self.failed.append(repr(error))
                caller = None
        if caller is not None:
            caller.close()

    def goes_on(self, count=100):
        """Waits until that many more were answered."""
        until = self.good + count
        eventually(lambda: self.good >= until or self.failed, why="calls are answered")

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


@pytest.fixture
def load(rig, request):
    loads = []
    yield lambda *args, **options: loads.append(Load(*args, **options)) or loads[-1]
    for each in loads:
        each.end()


def test_a_new_process_takes_over_an_address_under_load_without_a_failed_request(rig, origin, load):
    """Three upgrades in a row: start the new one on the same address, wait until it is ready, end the old one."""
    admin = f"\n[admin]\nlisten = 127.0.0.1:{free_port()}\n"
    old = rig.sluice(ini(default={"rate": "100000/s"}) + admin)
    calls = load(old.address, origin.url("/steady"))
    for _ in range(3):
        calls.goes_on()
        new = rig.sluice(ini(default={"rate": "100000/s"}, proxy={"listen": "%s:%d" % old.address}) + admin)
        new.wait_event("ready")
        calls.goes_on()
        old.signal(15)
        assert old.exit_code() == 0
        calls.goes_on()
        old = new
    calls.end()
    assert calls.failed == []
    assert old.events("access"), "the last one has answered"


def test_who_has_just_connected_when_it_ends_is_still_answered(rig, origin):
    sluice = rig.sluice()
    callers = [sluice.caller() for _ in range(20)]
    sluice.signal(15)
    for number, caller in enumerate(callers):
        assert caller.get(origin.url(f"/{number}")).status == 200
        assert caller.at_end()
    assert sluice.exit_code() == 0


class Activated(Process):
    """The program with listening sockets handed down, as systemd does it."""

    def __init__(self, rig, name, text, sockets, notify=None):
        config = rig.directory / f"{name}.ini"
        config.write_text(text)
        env = {**environment(), "LISTEN_FDS": str(len(sockets))}
        if notify:
            env.update(NOTIFY_SOCKET=notify, WATCHDOG_USEC="200000")
        fds = [s.fileno() for s in sockets]
        assert all(fd > 20 for fd in fds)
        # a shell becomes the program, so that LISTEN_PID is right
        moves = " ".join(f"{3 + n}<&{fd}" for n, fd in enumerate(fds))
        script = f'export LISTEN_PID=$$; exec {moves}; exec "$0" -c "$1"'
        super().__init__(name, ["bash", "-c", script, PROGRAM, str(config)], cwd=rig.directory, env=env, pass_fds=fds)
        rig.add(self)

    events, wait_event = Sluice.events, Sluice.wait_event

    def stop(self):
        if self.alive():
            self.signal(15)
            assert self.exit_code() == 0, self.text()
        self.forget()


def listening():
    sock = socket.create_server(("127.0.0.1", 0), backlog=128)
    high = socket.socket(fileno=os.dup(sock.fileno()))
    while high.fileno() <= 20:
        keep = high
        high = socket.socket(fileno=os.dup(high.fileno()))
        _held.append(keep)
    sock.close()
    return high


_held = []


@pytest.fixture
def handed():
    sock = listening()
    yield sock
    sock.close()
    while _held:
        _held.pop().close()


def settings(sock, **proxy):
    return ini(proxy={"listen": "%s:%d" % sock.getsockname(), **proxy}, default={"rate": "100000/s"})


def test_a_handed_down_socket_is_used(rig, origin, handed):
    sluice = Activated(rig, "one", settings(handed), [handed])
    sluice.wait_event("ready")
    assert sluice.events("listening_shared") == [] and sluice.events("socket_unused") == []
    caller = Caller(handed.getsockname())
    assert caller.get(origin.url()).status == 200
    caller.close()
    with open(f"/proc/{sluice.pid}/environ", "rb") as env:
        assert b"LISTEN_FDS" in env.read(), "it was handed down indeed"


def test_a_socket_that_nobody_asked_for_is_named(rig, handed):
    other = socket.create_server(("127.0.0.1", 0))
    port = other.getsockname()[1]
    other.close()
    sluice = Activated(rig, "one", ini(proxy={"listen": f"127.0.0.1:{port}"}), [handed])
    assert sluice.wait_event("socket_unused")[0]["address"] == "%s:%d" % handed.getsockname()


def test_sockets_for_another_process_are_left_alone(rig, origin):
    environ = {**environment(), "LISTEN_FDS": "1", "LISTEN_PID": "1"}
    path = rig.directory / "bad.ini"
    path.write_text(ini(proxy={"listen": origin.authority}))
    done = subprocess.run([PROGRAM, "-c", str(path)], env=environ, capture_output=True, text=True, timeout=15, check=False)
    assert done.returncode == 1 and "can't listen" in done.stderr


def test_callers_wait_in_a_handed_down_socket_while_one_process_follows_another(rig, origin, handed, load):
    """Stopped first, started afterwards: no call fails, as the socket belongs to neither."""
    first = Activated(rig, "one", settings(handed), [handed])
    first.wait_event("ready")
    calls = load(handed.getsockname(), origin.url("/steady"))
    for number in range(2):
        calls.goes_on()
        first.signal(15)
        assert first.exit_code() == 0
        first = Activated(rig, f"next{number}", settings(handed), [handed])
        calls.goes_on()
    calls.end()
    assert calls.failed == []


def test_a_service_manager_is_told_how_it_is(rig, origin, handed):
    path = str(rig.directory / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(10)
        told = []

        def wait_for(line):
            while not any(line in words for words in told):
                told.append(manager.recv(4096).decode())
            told.clear()

        sluice = Activated(rig, "one", settings(handed), [handed], notify=path)
        wait_for("READY=1")
        wait_for("WATCHDOG=1")
        sluice.signal(1)
        wait_for("RELOADING=1\nMONOTONIC_USEC=")
        wait_for("READY=1")
        sluice.signal(15)
        wait_for("STOPPING=1")
        assert sluice.exit_code() == 0
