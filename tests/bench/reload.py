"""reload.py BUILD [DESTINATIONS] [RELOADS] - how long a reload takes, and what it does to slots.

One destination releases 500 requests a second all the time, while every other destination's rate is changed again and
again. Beside the reloads there is the same run without any, so that what else the machine does shows in both: how late
releases were after the beginning of their slots, as sluice counts it. Also: the time from the signal to "reloaded".
"""
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "integration"))
BUILD = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
os.environ.setdefault("SLUICE", os.path.join(BUILD, "sluice"))

from rig import free_port, ini  # noqa: E402

DESTINATIONS = int(sys.argv[2]) if len(sys.argv) > 2 else 10000
RELOADS = int(sys.argv[3]) if len(sys.argv) > 3 else 10
RATE, SECONDS = 500, 5


def settings(rate, port, admin):
    many = {f"d{n}": {"hosts": f"h{n}.example.com, *.w{n}.example.com", "rate": f"{rate + n % 50}/s"} for n in range(DESTINATIONS)}
    paced = {"paced": {"hosts": "127.0.0.1", "rate": f"{RATE}/s", "max_queue": "10000", "max_wait": "60s", "late": "20ms"}}
    return ini({"listen": f"127.0.0.1:{port}", "log_file": "log", "log_level": "info"},
               destinations={**paced, **many}) + f"[admin]\nlisten = 127.0.0.1:{admin}\n"


def lateness(admin):
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://127.0.0.1:{admin}/metrics") as answer:
        text = answer.read().decode()
    return {float(le): int(count) for le, count in re.findall(
        r'sluice_release_lateness_seconds_bucket\{destination="paced",le="([0-9.e-]+|\+Inf)"\} (\d+)', text) if le != "+Inf"} | {
        float("inf"): int(re.search(r'sluice_release_lateness_seconds_count\{destination="paced"\} (\d+)', text)[1])}


def start(directory, *command):
    return subprocess.Popen([str(word) for word in command], cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def until_listening(port):
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.01)


def run(reloads):
    """Nothing of Python is busy meanwhile: it would take the processor from whom it measures."""
    port, admin, third = free_port(), free_port(), free_port()
    with tempfile.TemporaryDirectory() as directory:
        here = pathlib.Path(directory)
        for number in range(2):
            (here / f"{number}.ini").write_text(settings(10 + number, port, admin))
        (here / "s.ini").symlink_to("0.ini")
        programs = [start(directory, f"{BUILD}/rig/origin", "-b", "127.0.0.1", "-p", third, "-l", "left.csv"),
                    start(directory, f"{BUILD}/sluice", "-c", "s.ini")]
        until_listening(port)
        until_listening(third)
        count = RATE * SECONDS
        burst = start(directory, f"{BUILD}/rig/burst", "-x", f"127.0.0.1:{port}", "-u", f"http://127.0.0.1:{third}/{{seq}}",
                      "-c", count, "-n", count, "-T", 60)
        time.sleep(0.5)
        for number in range(reloads):
            (here / "next").symlink_to(f"{(number + 1) % 2}.ini")
            os.replace(here / "next", here / "s.ini")
            programs[1].send_signal(signal.SIGHUP)
            time.sleep(SECONDS * 0.8 / reloads)
        assert burst.wait() == 0
        found = lateness(admin), [int(ms) for ms in re.findall(r"event=reloaded .* ms=(\d+)", (here / "log").read_text())]
        for program in reversed(programs):
            program.terminate()
            program.wait()
        return found


def row(name, buckets):
    total = buckets[float("inf")]
    cells = [f"{buckets[bound] / total:8.2%}" for bound in (0.0001, 0.0005, 0.001, 0.002, 0.005)]
    print(f"{name:22}{total:8} " + " ".join(cells))


def main():
    print(f"{DESTINATIONS} destinations, {RATE} releases a second; share of releases at most that late")
    print(f"{'':22}{'releases':>8} " + " ".join(f"{head:>8}" for head in ("0.1 ms", "0.5 ms", "1 ms", "2 ms", "5 ms")))
    for _ in range(2):
        row("without reloads", run(0)[0])
        buckets, times = run(RELOADS)
        row(f"with {RELOADS} reloads", buckets)
        print(f"  a reload with all of them changed: median {statistics.median(times):.0f} ms, most {max(times)} ms")


if __name__ == "__main__":
    main()
