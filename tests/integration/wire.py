"""HTTP/1.1 read from a socket strictly and slowly: for both ends of a test, so that what went over the wire is judged
and not what a tolerant library made of it.
"""
import socket
import struct
import time

PATIENCE_SECONDS = 20
SO_TIMESTAMPNS = 35  # asm-generic/socket.h; the socket module does not name it
NO_BODY_STATUS = (204, 304)


class Ended(ConnectionError):
    """The other side closed or reset too early. `partial` is what had come of the body."""

    def __init__(self, why, partial=b""):
        super().__init__(why)
        self.partial = partial


class Head:
    """The head of a request or a response; header names and values exactly as they came, in order."""

    def __init__(self, raw):
        self.raw = raw
        lines = raw[:-4].decode("latin-1").split("\r\n")
        self.start_line = lines[0]
        self.headers = []
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            assert colon and name == name.strip(), f"not a header line: {line!r}"
            self.headers.append((name, value.strip(" \t")))

    def all(self, name):
        return [value for n, value in self.headers if n.lower() == name.lower()]

    def get(self, name, default=None):
        return next(iter(self.all(name)), default)

    def without(self, *names):
        """Headers except those named: what is left must have passed through unchanged."""
        drop = {name.lower() for name in names}
        return [(n, v) for n, v in self.headers if n.lower() not in drop]

    @property
    def chunked(self):
        return (self.get("Transfer-Encoding") or "").lower() == "chunked"


class Request(Head):
    def __init__(self, raw, arrived):
        super().__init__(raw)
        self.method, self.target, self.version = self.start_line.split(" ")
        self.path = self.target.partition("?")[0]
        self.arrived = arrived  # wall clock, stamped by the kernel when the last bytes of the head came in
        self.body = None
        self.trailers = []
        self.connection = 0  # number of the connection that it came on


class Response(Head):
    def __init__(self, raw):
        super().__init__(raw)
        self.version, status, self.reason = (self.start_line + " ").split(" ", 2)
        self.reason = self.reason.rstrip(" ")
        self.status = int(status)
        self.body = b""
        self.trailers = []
        self.interim = []  # 1xx responses that came before it
        self.arrived = time.time()


class Stream:
    """A socket with a buffer and a deadline for every read."""

    def __init__(self, sock, patience=PATIENCE_SECONDS):
        self.sock = sock
        self.buffer = bytearray()
        self.patience = patience
        self.stamp = 0.0
        sock.settimeout(patience)

    def more(self):
        """Reads once; False at the end of the stream."""
        try:
            data, ancillary, _, _ = self.sock.recvmsg(1 << 18, 64)
        except ConnectionError as error:
            raise Ended(f"reset: {error}") from None
        for level, kind, value in ancillary:
            if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
                seconds, nanoseconds = struct.unpack("qq", value)
                self.stamp = seconds + nanoseconds / 1e9
        self.buffer += data
        return bool(data)

    def until(self, mark, why):
        """Everything up to and including `mark`."""
        searched = 0
        while (at := self.buffer.find(mark, searched)) < 0:
            searched = max(0, len(self.buffer) - len(mark))
            if not self.more():
                raise Ended(f"closed before {why}", bytes(self.buffer))
        return self.take(at + len(mark))

    def take(self, count):
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        return data

    def exactly(self, count):
        while len(self.buffer) < count:
            if not self.more():
                raise Ended(f"closed {count - len(self.buffer)} bytes early", bytes(self.buffer))
        return self.take(count)

    def rest(self):
        while self.more():
            pass
        return self.take(len(self.buffer))

    def at_end(self):
        """Waits for the other side to close, in either way. False when it sends something instead."""
        try:
            return not self.buffer and not self.more()
        except Ended:
            return True

    def chunks(self):
        """A chunked body and its trailer lines."""
        body = bytearray()
        try:
            while (size := int(self.until(b"\r\n", "a chunk's size").partition(b";")[0], 16)) > 0:
                body += self.exactly(size)
                assert self.exactly(2) == b"\r\n", "a chunk does not end with CRLF"
            trailers = []
            while (line := self.until(b"\r\n", "the end of the trailers")) != b"\r\n":
                name, _, value = line.decode("latin-1").partition(":")
                trailers.append((name, value.strip()))
        except Ended as end:
            raise Ended(str(end), bytes(body)) from None
        return bytes(body), trailers

    def body_of(self, head, until_close):
        if head.chunked:
            head.body, head.trailers = self.chunks()
        elif head.get("Content-Length") is not None:
            head.body = self.exactly(int(head.get("Content-Length")))
        else:
            head.body = self.rest() if until_close else b""
        return head

    def reset(self):
        """Ends the connection with RST."""
        if self.sock.fileno() < 0:
            return
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self):
        self.sock.close()


class Caller(Stream):
    """A client's connection to the proxy (or to anything)."""

    def __init__(self, address, patience=PATIENCE_SECONDS, receive_buffer=None):
        sock = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.settimeout(patience)
        sock.connect(address[:2])
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().__init__(sock, patience)

    def send(self, data):
        self.sock.sendall(data)
        return self

    def head(self):
        """The next response head, 1xx too; its body is still to be read."""
        return Response(self.until(b"\r\n\r\n", "the end of a response head"))

    def response(self, method="GET"):
        """The next final response, whole."""
        interim = []
        while (head := self.head()).status < 200 and head.status != 101:
            interim.append(head)
        head.interim = interim
        if method == "HEAD" or head.status in NO_BODY_STATUS or head.status == 101:
            return head
        return self.body_of(head, until_close=True)

    def get(self, url, *headers, method="GET"):
        """Sends a request without a body to the proxy and reads the response."""
        return self.send(request(method, url, *headers)).response(method)

    def silent_for(self, seconds):
        """True when nothing comes for that long."""
        self.sock.settimeout(seconds)
        try:
            return not self.buffer and not self.more() and False
        except TimeoutError:
            return True
        finally:
            self.sock.settimeout(self.patience)


def authority(url):
    return url.partition("://")[2].partition("/")[0].partition("?")[0]


def request(method, url, *headers, body=None):
    """A request in absolute-form as a client writes it for its proxy."""
    lines = [f"{method} {url} HTTP/1.1", f"Host: {authority(url)}", *headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"
