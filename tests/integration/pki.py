"""Certificates made for a test by the openssl program, and an origin that speaks TLS with them."""
import ssl
import subprocess
import time

from origin import Origin, Peer
from wire import Caller, Ended, Response

CA_CONF = """
[ca]
default_ca = here
[here]
database = {d}/index.txt
serial = {d}/serial
new_certs_dir = {d}
default_md = sha256
policy = any
unique_subject = no
copy_extensions = copy
[any]
commonName = supplied
"""


def openssl(directory, *words):
    subprocess.run(["openssl", *map(str, words)], cwd=directory, check=True, capture_output=True, timeout=30)


class Pki:
    """An authority of its own: `ca` is its certificate's file."""

    def __init__(self, directory):
        self.directory = directory
        self.count = 0
        self.ca = directory / "test-ca.pem"
        (directory / "index.txt").write_text("")
        (directory / "serial").write_text("01\n")
        (directory / "ca.conf").write_text(CA_CONF.format(d=directory))
        openssl(directory, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "test-ca.key",
                "-out", self.ca, "-days", "30", "-subj", "/CN=test authority")

    def _request(self, name, alt):
        self.count += 1
        key, csr = self.directory / f"{self.count}.key", self.directory / f"{self.count}.csr"
        openssl(self.directory, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", csr,
                "-subj", f"/CN={name}", "-addext", f"subjectAltName={alt}")
        return key, csr

    def issue(self, name="localhost", alt="DNS:localhost,IP:127.0.0.1", days=(-1, 30)):
        """(certificate, key) files; `days` from now that it is valid from and to."""
        key, csr = self._request(name, alt)
        begin, end = (time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + 86400 * day)) for day in days)
        cert = self.directory / f"{self.count}.pem"
        openssl(self.directory, "ca", "-batch", "-notext", "-config", "ca.conf", "-cert", self.ca, "-keyfile", "test-ca.key",
                "-in", csr, "-out", cert, "-startdate", begin, "-enddate", end)
        return cert, key

    def self_signed(self, name="localhost", alt="DNS:localhost,IP:127.0.0.1"):
        self.count += 1
        cert, key = self.directory / f"{self.count}.pem", self.directory / f"{self.count}.key"
        openssl(self.directory, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out",
                cert, "-days", "30", "-subj", f"/CN={name}", "-addext", f"subjectAltName={alt}")
        return cert, key


class TlsSocket:
    """The server's side of TLS on a socket, with the kernel's time of the packet that completed what is read."""

    def __init__(self, context, sock):
        self.sock = sock
        self.inside, self.outside = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.inside, self.outside, server_side=True)
        self.ancillary = []
        while self._wants_more(self.tls.do_handshake):
            self._receive()

    def __getattr__(self, name):
        return getattr(self.tls if hasattr(self.tls, name) else self.sock, name)

    def _flush(self):
        if self.outside.pending:
            self.sock.sendall(self.outside.read())

    def _wants_more(self, step):
        """True when `step` can't go on before more has come."""
        try:
            step()
            return False
        except ssl.SSLWantReadError:
            return True
        finally:
            self._flush()

    def _receive(self):
        data, self.ancillary, _, _ = self.sock.recvmsg(1 << 18, 64)
        self.inside.write(data) if data else self.inside.write_eof()

    def recvmsg(self, size, _ancillary=0):
        found = []
        try:
            while self._wants_more(lambda: found.append(self.tls.read(size))):
                self._receive()
        except ssl.SSLZeroReturnError:
            return b"", [], 0, None
        except ssl.SSLError as error:
            raise ConnectionError(str(error)) from None
        return found[0], self.ancillary, 0, None

    def sendall(self, data):
        self.tls.write(data)
        self._flush()

    def unwrap(self):
        """Ends its side properly, with close_notify."""
        self._wants_more(self.tls.unwrap)


class TlsOrigin(Origin):
    """Like Origin, behind TLS. `versions`: the least and the highest."""

    def __init__(self, certificate, versions=(ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3), client_ca=None, alpn=("http/1.1",)):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version, self.context.maximum_version = versions
        self.context.load_cert_chain(*certificate)
        self.context.set_alpn_protocols(list(alpn))
        if client_ca:
            self.context.load_verify_locations(client_ca)
            self.context.verify_mode = ssl.CERT_REQUIRED
        self.handshakes = []
        super().__init__()
        self.on_connect = self._shake_hands

    def secure_url(self, path="/", host="127.0.0.1"):
        return f"https://{host}:{self.port}{path}"

    def _shake_hands(self, peer):
        try:
            peer.sock = TlsSocket(self.context, peer.sock)
        except ssl.SSLError as error:
            raise Ended(str(error)) from None
        self.handshakes.append(peer.sock)


class Tunnelled(Caller):
    """Speaks HTTP/1.1 in TLS behind a CONNECT."""

    def __init__(self, address, host, trusted):
        super().__init__(address)
        self.send(f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert self.head().status == 200
        self.sock = ssl.create_default_context(cafile=trusted).wrap_socket(self.sock, server_hostname="localhost")

    def more(self):
        data = self.sock.recv(1 << 16)
        self.buffer += data
        return bool(data)

    def ask(self, host):
        self.send(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        return self.body_of(Response(self.until(b"\r\n\r\n", "a head")), until_close=False)


__all__ = ["Peer", "Pki", "TlsOrigin", "Tunnelled"]
