"""Between a replica and its Redis: passes bytes on, late, not at all, or not back; and can lead to another server.

It is a socket file like Redis' own. Nothing is ever reordered on a connection: what is delayed holds up what follows.
"""
import contextlib
import heapq
import itertools
import os
import random
import selectors
import socket
import threading
import time


class Pair:
    """One connection of the replica's and the one to the server that belongs to it."""

    def __init__(self, near, far):
        self.near, self.far = near, far
        self.clear_at = 0.0  # replies that come before are not passed on before

    def close(self):
        for sock in (self.near, self.far):
            sock.close()


class Relay:
    def __init__(self, path, target):
        self.path, self.target = str(path), str(target)
        self.hole = False         # nothing passes in either direction, nothing is closed; new connections open and stay silent
        self.mute = False         # replies are swallowed: what was asked is done, and nobody hears of it
        self.delay = (0.0, 0.0)   # share of the replies, and by how many seconds
        self.cut_next = 0         # so many replies are swallowed and their connection is closed
        self.cuts = self.delayed = self.accepted = 0
        self.dice = random.Random(1)
        self.pairs, self.late, self.order = {}, [], itertools.count()
        self.ended = False
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(64)
        self.waiting = selectors.DefaultSelector()
        self.waiting.register(self.listener, selectors.EVENT_READ)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"unix:{self.path}"

    def lead_to(self, target):
        """New connections go there; what is open to the old server is closed."""
        self.target = str(target)
        for pair in {id(p): p for p in list(self.pairs.values())}.values():
            for sock in (pair.near, pair.far):
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.ended = True
        self.thread.join(5)
        for pair in self.pairs.values():
            pair.close()
        self.listener.close()
        os.unlink(self.path)

    def _run(self):
        while not self.ended:
            now = time.monotonic()
            timeout = min(0.02, max(0.0, self.late[0][0] - now)) if self.late else 0.02
            for key, _ in self.waiting.select(timeout):
                if key.fileobj is self.listener:
                    self._accept()
                elif key.fileobj in self.pairs:
                    self._pass(key.fileobj)
            while self.late and self.late[0][0] <= time.monotonic():
                _, _, pair, data = heapq.heappop(self.late)
                self._send(pair, pair.near, data)

    def _accept(self):
        near, _ = self.listener.accept()
        self.accepted += 1
        far = socket.socket(socket.AF_UNIX)
        try:
            far.connect(self.target)
        except OSError:
            near.close()
            far.close()
            return
        pair = Pair(near, far)
        for sock in (near, far):
            self.pairs[sock] = pair
            self.waiting.register(sock, selectors.EVENT_READ)

    def _pass(self, sock):
        pair = self.pairs[sock]
        try:
            data = sock.recv(65536)
        except OSError:
            data = b""
        if not data:
            self._drop(pair)
        elif self.hole or (self.mute and sock is pair.far):
            pass
        elif sock is pair.near:
            self._send(pair, pair.far, data)
        else:
            self._reply(pair, data)

    def _reply(self, pair, data):
        share, seconds = self.delay
        if self.cut_next > 0:
            self.cut_next -= 1
            self.cuts += 1
            self._drop(pair)
            return
        now = time.monotonic()
        if self.dice.random() < share:
            self.delayed += 1
            pair.clear_at = max(pair.clear_at, now + seconds)
        if pair.clear_at > now:
            heapq.heappush(self.late, (pair.clear_at, next(self.order), pair, data))
        else:
            self._send(pair, pair.near, data)

    def _send(self, pair, sock, data):
        if sock.fileno() >= 0:
            try:
                sock.sendall(data)
            except OSError:
                self._drop(pair)

    def _drop(self, pair):
        for sock in (pair.near, pair.far):
            if self.pairs.pop(sock, None):
                self.waiting.unregister(sock)
        pair.close()
