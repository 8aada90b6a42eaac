"""The third party, in the test's own process: a server whose every byte is the test's choice.

It keeps each request exactly as it came, with the time at which the kernel received it: a busy machine may run this
process late, but that does not shift the stamps. A handler is a function of the connection and the request; it runs in a
thread of its own connection and may send what and when it likes, wait for a gate, close, or reset.
"""
import socket
import threading
import time

from wire import PATIENCE_SECONDS, SO_TIMESTAMPNS, Ended, Request, Stream


class Peer(Stream):
    """The origin's side of one connection."""

    def __init__(self, origin, sock, number):
        super().__init__(sock)
        self.origin = origin
        self.number = number
        self.open = True

    def send(self, data):
        self.sock.sendall(data)

    def close(self):
        self.open = False
        super().close()

    def read_body(self, request):
        if request.body is None:
            self.body_of(request, until_close=False)
        return request.body


def reply(raw, close=False, body_first=True):
    """A handler that sends the same bytes every time."""

    def handler(peer, request):
        if body_first:
            peer.read_body(request)
        peer.send(raw)
        if close:
            peer.close()

    return handler


def ok(body=b"ok", *headers, status="200 OK"):
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


class Origin:
    def __init__(self, host="127.0.0.1", port=0):
        self.handlers = {}
        self.fallback = reply(ok())
        self.on_connect = None  # takes over a connection before anything is read from it
        self.requests = []
        self.errors = []
        self.peers = []
        self.changed = threading.Condition()
        self.gates = []
        self.listener = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=4096)
        self.listener.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)  # connections inherit it
        self.address = self.listener.getsockname()[:2]
        self.port = self.address[1]
        self.authority = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, path="/"):
        return f"http://{self.authority}{path}"

    def on(self, path, handler):
        """Requests for that path (without its query) are answered by `handler`, a function or the bytes to send."""
        self.handlers[path] = handler if callable(handler) else reply(handler)
        return self.url(path)

    def gate(self):
        """Closed at first; handlers wait at it. Opened at the latest when the origin goes."""
        gate = threading.Event()
        self.gates.append(gate)
        return gate

    @property
    def connections(self):
        return len(self.peers)

    def to(self, path):
        with self.changed:
            return [request for request in self.requests if request.path == path]

    def stamps(self):
        with self.changed:
            return sorted(request.arrived for request in self.requests)

    def wait(self, count, path=None, seconds=PATIENCE_SECONDS):
        """Waits until that many requests (for that path) have come; returns them."""
        found = []

        def enough():
            found[:] = [r for r in self.requests if path is None or r.path == path]
            return len(found) >= count

        with self.changed:
            assert self.changed.wait_for(enough, seconds), f"{len(found)} of {count} requests came in {seconds} s"
        return found

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.changed:
                peer = Peer(self, sock, len(self.peers) + 1)
                self.peers.append(peer)
                self.changed.notify_all()
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer):
        try:
            if self.on_connect is not None:
                self.on_connect(peer)
            while peer.open:
                self._serve_one(peer)
        except (OSError, Ended):
            pass  # the other side left, or the test is over
        except Exception as error:  # pylint: disable=broad-except
            self.errors.append(f"connection {peer.number}: {error!r}")
        finally:
            peer.close()

    def _serve_one(self, peer):
        raw = peer.until(b"\r\n\r\n", "the end of a request head")
        request = Request(raw, peer.stamp or time.time())
        request.connection = peer.number
        with self.changed:
            self.requests.append(request)
            self.changed.notify_all()
        self.handlers.get(request.path, self.fallback)(peer, request)
        if peer.open:
            peer.read_body(request)

    def close(self):
        """Stops at once; a new connection is refused from now on."""
        try:
            self.listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts, as closing does not
        except OSError:
            pass
        self.listener.close()
        for gate in self.gates:
            gate.set()
        for peer in list(self.peers):
            try:
                peer.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def most_in_window(stamps, seconds):
    """The most stamps in any half-open window of that length."""
    stamps = sorted(stamps)
    most, first = 0, 0
    for last, stamp in enumerate(stamps):
        while stamp - stamps[first] >= seconds:
            first += 1
        most = max(most, last - first + 1)
    return most
