"""The commands of those who operate, as typed: what they say, what they change, and the exit codes that scripts rely on."""
import json
import os
import pty
import select
import signal
import struct
import termios
import fcntl
import time

from oncall import api, ask_away, command, operated
from rig import EXIT_SECONDS, PROGRAM, environment, eventually, free_port, run


def test_status_says_who_waits_and_how_long(rig, origin):
    admin = operated(rig, destinations=api(origin, rate="1/1h", max_wait="10h"))
    assert admin.sluice.get(origin.url("/")).status == 200
    ask_away(admin.sluice, origin.url("/"), 2)
    admin.when("api", lambda row: row["waiting"] == 2)
    said = command(admin, "status")
    assert said.returncode == 0, said.stderr
    lines = said.stdout.splitlines()
    assert lines[0].startswith("sluice ") and lines[0].endswith("ready") and "no Redis" in lines[1] and "127.0.0.1 3" in lines[2]
    heads = next(line for line in lines if line.startswith("DESTINATION"))
    row = next(line for line in lines if line.startswith("api "))
    assert "waiting" in row and "1/1h" in row and "1 of 1" in row and "2xx:1" in row
    assert heads.index("WAITING") < row.index(" 2 ") + 3
    only = command(admin, "status", "api")
    assert only.stdout.splitlines()[1].split()[:4] == row.split()[:4]
    assert command(admin, "status", "nobody").returncode == 1


def test_json_is_what_the_admin_says(rig, origin):
    admin = operated(rig, destinations=api(origin))
    status = json.loads(command(admin, "status", "--json").stdout)
    assert [it["name"] for it in status["destinations"]] == ["api", "default", "-"]
    said = command(admin, "pause", "api", "--json", "--for", "90s")
    assert json.loads(said.stdout)["done"] is True
    assert 60e6 < admin.destination("api")["paused_us"] <= 90e6


def test_pause_resume_and_set_rate_reach_every_replica_within_a_second(rig, origin):
    redis = rig.redis()
    fleet = [operated(rig, redis={"url": redis.url}, destinations=api(origin, rate="100/s")) for _ in range(3)]
    for admin in fleet:
        eventually(lambda a=admin: a.status()["fleet"]["replicas"] == 3, why="three replicas")
    for words, condition in [(("pause", "api", "--for", "5m"), lambda row: row["paused_us"] > 0),
                             (("resume", "api"), lambda row: row["paused_us"] == 0),
                             (("set-rate", "api", "30/1m", "--for", "2h"), lambda row: row["rate"]["count"] == 30),
                             (("set-rate", "api", "configured"), lambda row: row["rate"]["count"] == 100)]:
        began = time.monotonic()
        said = command(fleet[0], *words)
        assert (said.returncode, said.stdout, said.stderr) == (0, "done, on all 3 replicas\n", "")
        for admin in fleet:
            admin.when("api", condition)
        assert time.monotonic() - began < 3  # a second, and what a busy machine takes


def test_purge_log_level_and_drain_do_what_they_say(rig, origin):
    admin = operated(rig, destinations=api(origin, rate="1/1h", max_wait="10h"))
    assert admin.sluice.get(origin.url("/")).status == 200
    threads, statuses = ask_away(admin.sluice, origin.url("/"), 2)
    admin.when("api", lambda row: row["waiting"] == 2)
    assert command(admin, "purge", "api").returncode == 0
    for thread in threads:
        thread.join(10)
    assert statuses == [503, 503]
    assert command(admin, "log-level", "warn").returncode == 0 and admin.status()["log_level"] == "warn"
    assert command(admin, "log-level", "loud").returncode == 1
    assert command(admin, "drain").stdout == "done\n"
    assert admin.sluice.exit_code() == 0


def test_who_cannot_be_reached_or_does_not_know_the_token_is_told_what_to_do(rig):
    nobody = f"http://127.0.0.1:{free_port()}"
    said = command(nobody, "status")
    assert said.returncode == 3 and nobody in said.stderr and "--admin" in said.stderr and "[admin]" in said.stderr
    admin = operated(rig, "ann 0123456789abcdef\n")
    said = command(admin, "status")
    assert said.returncode == 4 and "--token-file" in said.stderr
    path = rig.directory / "tokens"
    assert command(admin, "status", "--token-file", str(path)).returncode == 0
    assert command(admin, "status", env={"SLUICE_ADMIN_TOKEN_FILE": str(path)}).returncode == 0
    (rig.directory / "other").write_text("another-token-of-somebody\n")
    assert command(admin, "status", "--token-file", str(rig.directory / "other")).returncode == 4
    missing = command(admin, "status", "--token-file", "/nonexistent")
    assert missing.returncode == 2 and "/nonexistent" in missing.stderr


def test_status_is_1_when_it_is_not_ready(rig):
    admin = operated(rig, redis={"url": f"redis://127.0.0.1:{free_port()}"})
    said = command(admin, "status")
    assert said.returncode == 1 and "NOT READY: redis is out of reach" in said.stdout


def test_wrong_use_is_2_and_names_the_help(rig):
    for words in (["pause"], ["pause", "a", "b"], ["pause", "a", "--for", "soon"], ["resume", "a", "--for", "5m"], ["set-rate", "a"],
                  ["status", "--loud"], ["drain", "now"]):
        said = run(*words)
        assert said.returncode == 2 and (words[0] in said.stderr or "--for" in said.stderr), words
    for word in ("status", "pause", "top"):
        said = run(word, "--help")
        assert said.returncode == 0 and "sluice set-rate DESTINATION RATE" in said.stdout and "Exit codes" in said.stdout


class Terminal:
    """`sluice top` in a terminal of its own; the screen as one text, cursor movements taken for line ends."""

    def __init__(self, admin, columns=120, rows=30):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(PROGRAM, [PROGRAM, "top", "--admin", admin.url], {**environment(), "TERM": "xterm"})
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.said = ""

    def read(self):
        while select.select([self.fd], [], [], 0.05)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                return self.said
            if not data:
                break
            self.said += data.decode("utf-8", "replace")
        return self.said

    def wait(self, text):
        """Control-L has the whole screen drawn; else only what changes would come."""
        def look():
            self.said = ""
            self.press("\f")
            return text in self.read()
        eventually(look, why=f"{text!r} on the screen")

    def press(self, key):
        os.write(self.fd, key.encode())

    def code(self):
        end = time.monotonic() + EXIT_SECONDS
        while time.monotonic() < end:
            self.read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        raise AssertionError("top did not end")

    def close(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


def test_top_shows_rows_pauses_what_is_chosen_and_ends_on_q(rig, origin):
    admin = operated(rig, destinations={"first": {}, **api(origin, rate="1/1h", max_wait="10h")})
    terminal = rig.add(Terminal(admin))
    terminal.wait("DESTINATION")
    terminal.wait("flowing")
    for name in ("first", "api", "default"):
        assert name in terminal.read()
    ask_away(admin.sluice, origin.url("/"), 3)
    terminal.wait("waiting")
    terminal.press("j")
    terminal.press("p")
    terminal.wait("api: paused")
    admin.when("api", lambda row: row["paused_us"] > 0)
    assert admin.destination("first")["paused_us"] == 0
    terminal.press("r")
    admin.when("api", lambda row: row["paused_us"] == 0)
    terminal.press("q")
    assert terminal.code() == 0


def test_top_without_a_terminal_names_what_scripts_use(rig):
    said = command(operated(rig), "top")
    assert said.returncode == 2 and "sluice status --json" in said.stderr


def test_reload_says_what_is_wrong_or_what_changed_and_an_ordered_rate_outlives_it(rig, origin):
    redis = rig.redis()
    admin = operated(rig, redis={"url": redis.url}, destinations=api(origin, rate="100/s"))
    eventually(lambda: admin.get("/readyz")[0] == 200, why="readiness")
    settings = admin.sluice.config.read_text()
    assert command(admin, "set-rate", "api", "7/1m").returncode == 0
    admin.sluice.config.write_text(settings.replace("rate = 100/s", "rate = fast"))
    said = command(admin, "reload")
    assert said.returncode == 1 and "nothing was changed" in said.stderr and "[destination api] rate" in said.stderr
    admin.sluice.config.write_text(settings.replace("rate = 100/s", "rate = 50/s"))
    said = command(admin, "reload", "--json")
    assert said.returncode == 0 and json.loads(said.stdout)["changes"] == 1, said
    assert admin.destination("api")["rate"] == {"count": 7, "period_us": 60_000_000}
    assert command(admin, "set-rate", "api", "configured").returncode == 0
    admin.when("api", lambda row: row["rate"] == {"count": 50, "period_us": 1_000_000})
