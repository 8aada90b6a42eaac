"""Third parties that do more than answer: in this process, with the kernel's stamps all the same."""
import ssl
import time

from fleet import Arrival, S, now
from origin import Origin
from pki import TlsOrigin
from wire import Ended


class Scripted(Origin):
    """As fleet.ThirdParty, with handlers. The kernel stamps in wall time, and one translation serves all of a list."""

    def arrivals(self):
        offset = min(now() - time.time_ns() for _ in range(5))  # the one that was interrupted least
        with self.changed:
            return sorted(Arrival(int(r.arrived * S) + offset, r.path) for r in self.requests)


class StampedTls:
    """TLS over a socket whose stamps are kept: the time of what was read is that of the packet that brought its end."""

    def __init__(self, sock, context):
        self.sock, self.ancillary = sock, []
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)

    def __getattr__(self, name):
        return getattr(self.sock, name)

    def _until_done(self, step):
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                self._flush()
                data, self.ancillary, _, _ = self.sock.recvmsg(65536, 64)
                if not data:
                    raise Ended("closed inside TLS") from None
                self.incoming.write(data)
            else:
                self._flush()
                return result

    def _flush(self):
        if data := self.outgoing.read():
            self.sock.sendall(data)

    def do_handshake(self):
        self._until_done(self.tls.do_handshake)

    def recvmsg(self, size, _ancillary):
        try:
            data = self._until_done(lambda: self.tls.read(size))
        except (ssl.SSLZeroReturnError, Ended):
            return b"", [], 0, None
        return data, self.ancillary, 0, None

    def sendall(self, data):
        self._until_done(lambda: self.tls.write(data))


class SlowTls(Scripted, TlsOrigin):
    """A handshake takes `seconds`, and no connection is used twice."""

    def __init__(self, certificate, seconds):
        self.seconds = seconds
        super().__init__(certificate)

    def _shake_hands(self, peer):
        time.sleep(self.seconds)
        peer.sock = StampedTls(peer.sock, self.context)
        peer.sock.do_handshake()
        self.handshakes.append(peer.sock)
