"""ClientHellos that no library sends: a real one, taken apart, changed and put together again (RFC 8446 section 4.1.2)."""
import ssl

SERVER_NAME, ECH = 0, 0xFE0D


def number(value, size):
    return value.to_bytes(size, "big")


def vector(body, size):
    return number(len(body), size) + body


def server_name(name):
    """The body of that extension."""
    return vector(b"\0" + vector(name, 2), 2)


def in_records(message, piece=16384):
    return b"".join(b"\x16\x03\x01" + vector(message[at:at + piece], 2) for at in range(0, len(message), piece))


def real():
    """The handshake message that Python's ssl begins with."""
    outside = ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.wrap_bio(ssl.MemoryBIO(), outside, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outside.read()[5:]


def _take(data, size):
    length = int.from_bytes(data[:size], "big")
    return data[size:size + length], data[size + length:]


def changed(name=b"localhost", more=(), ciphers=b""):
    """With that name (None: without any), further ciphers in front, and further (type, body) extensions."""
    message = real()
    head, rest = message[4:4 + 34], message[4 + 34:]
    session, rest = _take(rest, 1)
    suites, rest = _take(rest, 2)
    compression, rest = _take(rest, 1)
    extensions, _ = _take(rest, 2)
    made = b"" if name is None else number(SERVER_NAME, 2) + vector(server_name(name), 2)
    while extensions:
        kind, (body, extensions) = int.from_bytes(extensions[:2], "big"), _take(extensions[2:], 2)
        if kind != SERVER_NAME:
            made += number(kind, 2) + vector(body, 2)
    made = b"".join(number(kind, 2) + vector(body, 2) for kind, body in more) + made
    body = head + vector(session, 1) + vector(ciphers + suites, 2) + vector(compression, 1) + vector(made, 2)
    return b"\x01" + vector(body, 3)
