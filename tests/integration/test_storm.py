"""Everything that can go wrong at once, at random but from a fixed seed: it must neither crash, hang, leak nor tell secrets."""
import contextlib
import os
import random
import re
import socket
import threading
import time

import pytest

from rig import eventually

SECONDS = 6
CALLERS = 30
RESET = b"\1\0\0\0\0\0\0\0"  # SO_LINGER: close sends a reset
ANSWERS = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
    b"garbage\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 70000,
    b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + b"y" * 300000,
    b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokEXTRA",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 204 No Content\r\n\r\n",
]


def answer_wildly(peer, dice):
    with contextlib.suppress(OSError), peer:
        peer.settimeout(3)
        while peer.recv(65536):
            answer = dice.choice(ANSWERS)
            cut = dice.randrange(len(answer)) if dice.random() < 0.3 else len(answer)
            peer.sendall(answer[:cut])
            if dice.random() < 0.3:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            if cut < len(answer) or dice.random() < 0.2:
                return


@contextlib.contextmanager
def wild_third_party():
    with socket.create_server(("127.0.0.1", 0), backlog=500) as listening:

        def accept():
            with contextlib.suppress(OSError):
                for number in range(10**9):
                    peer = listening.accept()[0]
                    threading.Thread(target=answer_wildly, args=(peer, random.Random(number)), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def wild_request(dice, port):
    url = f"http://{dice.choice(['127.0.0.1', 'localhost'])}:{port}/x?key=SECRETVALUE"
    body = b"z" * dice.choice([200000, 100, 0, 199999])
    chunks = dice.choice([b"3\r\nabc\r\n0\r\n\r\n", b"3\r\nab", b"zz\r\n", b"3\r\nabc\r\n0\r\nT: x\r\n\r\n"])
    return dice.choice([
        f"GET {url} HTTP/1.1\r\nHost: h\r\n\r\n".encode(),
        f"POST {url} HTTP/1.1\r\nHost: h\r\nContent-Length: 200000\r\n\r\n".encode() + body,
        f"POST {url} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + chunks,
        f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: q\r\n\r\n".encode(),
        f"GET {url} HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nearly".encode(),
        os.urandom(dice.randrange(1, 300)),
        f"GET {url} HTTP/1.1\r\nHost: h\r\n\r\n".encode() * 4,
        f"POST {url} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n".encode(),
        f"HEAD {url} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".encode(),
        f"GET {url} HTTP/1.1\r\nHost: h\r\nPrefer: wait=0\r\n\r\n".encode(),
    ])


def call_wildly(address, port, seed, ends):
    dice = random.Random(seed)
    while time.monotonic() < ends:
        with contextlib.suppress(OSError), socket.create_connection(address) as caller:
            caller.settimeout(1)
            for _ in range(dice.randrange(1, 4)):
                wanted = wild_request(dice, port)
                cut = dice.randrange(1, len(wanted) + 1) if dice.random() < 0.3 else len(wanted)
                caller.sendall(wanted[:cut])
                caller.sendall(wanted[cut:])
                fate = dice.random()
                if fate < 0.1:
                    caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                if fate < 0.25:
                    break
                if fate < 0.35:
                    caller.shutdown(socket.SHUT_WR)
                if not caller.recv(65536):
                    break


@pytest.mark.parametrize("mode", ["hold", "reject", "open"])
def test_a_storm_of_broken_callers_and_third_parties_with_a_dying_redis(rig, mode):
    """Callers and third parties break off in every way while Redis is killed again and again."""
    redis = rig.redis()
    timeouts = {"max_wait": "2s", "response_timeout": "1s", "body_timeout": "1s", "tunnel_idle": "1s", "max_queue": "50"}
    sluice = rig.sluice(
        proxy={"connect_ports": "1-65535", "unlisted": "pass", "head_timeout": "1s", "drain_timeout": "3s"},
        default={"on_redis_down": mode, **timeouts},
        redis={"url": redis.url},
        destinations={"a": {"hosts": "127.0.0.1", "rate": "200/s"}, "b": {"hosts": "localhost", "rate": "50/s"}},
    )
    before = sluice.descriptors()
    ends = time.monotonic() + SECONDS
    with wild_third_party() as port:
        callers = [threading.Thread(target=call_wildly, args=(sluice.address, port, seed, ends)) for seed in range(CALLERS)]
        for caller in callers:
            caller.start()
        while time.monotonic() < ends:
            callers[0].join(1.2)
            redis.kill()
            redis.start()
        for caller in callers:
            caller.join()
    assert sluice.alive()
    eventually(lambda: sluice.descriptors() <= before + 4, why="all descriptors closed")
    assert "SECRETVALUE" not in sluice.text()
    verdicts = re.findall(r"event=access .*verdict=(\S+)", sluice.text())
    assert len(verdicts) > 100 and "forwarded" in verdicts
