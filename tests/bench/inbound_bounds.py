"""inbound_bounds.py BUILD - how many requests each algorithm admits in the worst window, through the real reverse proxy.

20 per second (token bucket: capacity 10), three kinds of caller: one that is idle for two seconds and then bursts, again and
again; one that puts its burst around the edge of each second; and 64 connections that hammer one key all the time. Admitted
requests are counted at the API by when the kernel received them. They are decided a little earlier, at Redis, so windows are
taken a tenth shorter than the second: a delay on the way must not look like an admission too many.
"""
import asyncio
import bisect
import os
import subprocess
import sys
import tempfile
import time

from inbound import free_port, until_it_listens

BUILD = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
N, CAPACITY, WINDOW_NS = 20, 10, 900_000_000
SECONDS = 6
BOUNDS = {"token_bucket": CAPACITY + N - 1, "leaky_bucket": N, "fixed_window": 2 * N, "sliding_window_counter": 2 * N - 1,
          "sliding_window_strict": N, "sliding_window_log": N}


async def caller(port, path, when, until):
    """Asks on one connection at the moments that `when` yields; counts what it is told."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    counts = {}
    for wait in when():
        if wait > 0:
            await asyncio.sleep(wait)
        if time.time() > until:
            break
        writer.write(f"GET {path} HTTP/1.1\r\nHost: api\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        counts[head[9:12]] = counts.get(head[9:12], 0) + 1
    writer.close()
    return counts


def idle_then_burst():
    while True:
        yield 2
        for _ in range(4):
            yield 0


def around_the_edge():
    """Bursts 60 ms before and 60 ms after each whole second."""
    while True:
        yield (0.94 - time.time() % 1) % 1
        for _ in range(4):
            yield 0
        yield (1.06 - time.time() % 1) % 1
        for _ in range(4):
            yield 0


def always():
    while True:
        yield 0


CALLERS = {"idle, then bursts": (16, idle_then_burst), "around the edge": (16, around_the_edge), "64 connections": (64, always)}


def worst_window(stamps):
    stamps.sort()
    return max((bisect.bisect_left(stamps, stamp + WINDOW_NS) - at for at, stamp in enumerate(stamps)), default=0)


async def run(ports, path):
    until = time.time() + SECONDS
    jobs = [caller(port, path(name), when, until)
            for name, (count, when) in CALLERS.items() for port in [ports[name]] * count]
    return await asyncio.gather(*jobs)


def measure(directory, redis, algorithm):
    """Each kind of caller meets an API and limit of its own, all at the same time."""
    children, ports, logs = [], {}, {}
    text = f"[proxy]\nlisten = 127.0.0.1:{free_port()}\nprivate_upstreams = allow\n[redis]\nurl = unix:{redis}\nprefix = {algorithm}\n"
    for number, name in enumerate(CALLERS):
        api, ports[name], logs[name] = free_port(), free_port(), os.path.join(directory, f"{algorithm}{number}.csv")
        children.append(subprocess.Popen([f"{BUILD}/rig/origin", "-p", str(api), "-l", logs[name]], stdout=subprocess.DEVNULL))
        capacity = f"capacity = {CAPACITY}\n" if algorithm == "token_bucket" else ""
        text += (f"[inbound api{number}]\nlisten = 127.0.0.1:{ports[name]}\nupstream = http://127.0.0.1:{api}\n"
                 f"algorithm = {algorithm}\nrate = {N}/s\n{capacity}timeout = 1s\n")
    with open(os.path.join(directory, "s.ini"), "w", encoding="ascii") as file:
        file.write(text)
    log = open(os.path.join(directory, "log"), "wb")
    children.append(subprocess.Popen([f"{BUILD}/sluice", "-c", "s.ini"], cwd=directory, stdout=log, stderr=log))
    try:
        for port in ports.values():
            until_it_listens(port)
        asyncio.run(run(ports, lambda name: "/x"))
    finally:
        for child in reversed(children):
            child.terminate()
            child.wait(10)
    found = {}
    for name, path in logs.items():
        with open(path, encoding="ascii") as file:
            stamps = [int(line.split(",")[0]) for line in list(file)[1:]]
        found[name] = (len(stamps), worst_window(stamps))
    return found


def main():
    over = False
    print(f"{'algorithm':24} {'bound':>6}" + "".join(f"{name:>26}" for name in CALLERS))
    with tempfile.TemporaryDirectory() as directory:
        sock = os.path.join(directory, "r.sock")
        redis = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", sock, "--save", "", "--appendonly", "no"],
                                 stdout=subprocess.DEVNULL, cwd=directory)
        try:
            while not os.path.exists(sock):
                time.sleep(0.01)
            for algorithm, bound in BOUNDS.items():
                found = measure(directory, sock, algorithm)
                over = over or any(worst > bound for _, worst in found.values())
                print(f"{algorithm:24} {bound:6}" + "".join(f"{f'{worst} ({admitted} in {SECONDS} s)':>26}"
                                                             for admitted, worst in found.values()), flush=True)
        finally:
            redis.terminate()
            redis.wait(10)
    if over:
        raise SystemExit("a bound was exceeded")


if __name__ == "__main__":
    main()
