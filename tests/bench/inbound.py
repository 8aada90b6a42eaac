"""inbound.py BUILD [REQUESTS] - what the inbound path adds to a request's time over asking the API itself.

One caller on kept connections asks in turn: the API, the reverse proxy (counting alone, counting in a Redis), and the check
endpoint; so that whatever else the machine does meets all four alike. Median and 99th percentile, in microseconds.
"""
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
REQUESTS = int(sys.argv[2]) if len(sys.argv) > 2 else 5000


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Connection:
    def __init__(self, port, path):
        self.sock = socket.create_connection(("127.0.0.1", port), 10)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request = f"GET {path} HTTP/1.1\r\nHost: api.example\r\n\r\n".encode()
        self.took_us = []

    def ask(self):
        began = time.perf_counter_ns()
        self.sock.sendall(self.request)
        data = self.sock.recv(65536)
        head = data.index(b"\r\n\r\n")
        length = re.search(rb"\r\ncontent-length: *(\d+)", data[:head], re.I)
        while len(data) < head + 4 + (int(length[1]) if length else 0):
            data += self.sock.recv(65536)
        self.took_us.append((time.perf_counter_ns() - began) / 1000)
        assert data[9:10] == b"2", data


def until_it_listens(port):
    for _ in range(500):
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.01)
    raise SystemExit(f"nobody listens on port {port}")


def main():
    children = []
    with tempfile.TemporaryDirectory() as directory:
        def start(*command):
            log = open(os.path.join(directory, f"{len(children)}.log"), "wb")
            children.append(subprocess.Popen(command, cwd=directory, stdout=log, stderr=log, stdin=subprocess.DEVNULL))

        try:
            api, alone, shared, check = (free_port() for _ in range(4))
            sock = os.path.join(directory, "r.sock")
            start(f"{BUILD}/rig/origin", "-p", str(api))
            start("redis-server", "--port", "0", "--unixsocket", sock, "--save", "", "--appendonly", "no")
            limit = f"upstream = http://127.0.0.1:{api}\nrate = 1000000/s\ncapacity = 1000000\n"
            for name, port, redis in (("alone", alone, ""), ("shared", shared, f"[redis]\nurl = unix:{sock}\n")):
                with open(os.path.join(directory, f"{name}.ini"), "w", encoding="ascii") as file:
                    file.write(f"[proxy]\nlisten = 127.0.0.1:{free_port()}\nprivate_upstreams = allow\n{redis}"
                               f"[inbound api]\nlisten = 127.0.0.1:{port}\n"
                               + (f"check_listen = 127.0.0.1:{check}\n" if redis else "") + limit)
                start(f"{BUILD}/sluice", "-c", f"{name}.ini")
            ways = {}
            for what, port, path in (("the API itself", api, "/x"), ("reverse proxy, alone", alone, "/x"),
                                     ("reverse proxy, Redis", shared, "/x"), ("check endpoint, Redis", check, "/check/api")):
                until_it_listens(port)
                ways[what] = Connection(port, path)
            for number in range(REQUESTS + 200):
                for way in ways.values():
                    way.ask()
                if number == 200:
                    for way in ways.values():
                        way.took_us.clear()
        finally:
            for child in children:
                child.terminate()
            for child in children:
                child.wait(10)
    report(ways)


def report(ways):
    bare = None
    print(f"{'way':24} {'p50 us':>8} {'p99 us':>8} {'added p50':>10} {'added p99':>10}")
    for what, way in ways.items():
        cuts = statistics.quantiles(way.took_us, n=100)
        p50, p99 = cuts[49], cuts[98]
        bare = bare or (p50, p99)
        print(f"{what:24} {p50:8.0f} {p99:8.0f} {p50 - bare[0]:10.0f} {p99 - bare[1]:10.0f}")


if __name__ == "__main__":
    main()
