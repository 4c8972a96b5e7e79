"""A coordinator's port on the loopback, whoever knocks at it, and servers that lie; real sockets, real TLS."""

import asyncio
import contextlib
import http.client
import socket
import ssl
import threading
import time
import tracemalloc
import warnings
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import NamedTuple

import pytest

pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dpadmm.federation import messages
from dpadmm.federation.coordinator_store import CoordinatorStore
from dpadmm.federation.https.processes import StopRequested
from dpadmm.federation.https.queue import MessageQueue
from dpadmm.federation.https.server import TlsServer
from dpadmm.federation.https.tls import client_context, server_context, trust
from dpadmm.federation.studies import Studies

HERE = "127.0.0.1"
SECONDS = 20.0
"""How long anything here may take before a test fails; nothing does."""


def wait_for(is_true, what):
    """Return when something is true."""
    end = time.monotonic() + SECONDS
    while not is_true():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.01)


@contextlib.contextmanager
def grown():
    """Yield what will hold the greatest growth of memory, in bytes, of both ends of a connection."""
    found = SimpleNamespace(peak=0)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    try:
        yield found
    finally:
        found.peak = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()


class Port:
    """The door of a coordinator, open in a thread of its own."""

    def __init__(self, key, keys, place):
        self.key, self.keys, self.place = key, keys, place
        self.context = server_context(key, place / "tls.pem")
        trust(self.context, [each.public for each in keys.values()])
        self.listener = socket.create_server((HERE, 0))
        self.number = self.listener.getsockname()[1]
        self.loop = asyncio.new_event_loop()
        self.queue = MessageQueue(self.loop)
        if not (place / "coordinator.db").exists():
            CoordinatorStore.create(place / "coordinator.db")
        self.server = TlsServer(
            self.queue,
            self.context,
            self.listener,
            Studies(CoordinatorStore(place / "coordinator.db", any_thread=True), key),
        )
        self._contexts, self._open = {}, []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        self.loop.run_until_complete(self.server.serve())
        self.loop.close()

    def close(self):
        """End it."""
        self.hang_up()
        self.server.should_exit = True
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()

    def hang_up(self):
        """Close every connection to it, and see that it is left alone."""
        while self._open:
            self._open.pop().close()
        wait_for(lambda: not self.strangers and not any(self.server._silos.values()), "the end of all connections")

    @property
    def strangers(self):
        """Connections that have not shown a certificate."""
        return len(self.server._handshakes)

    @property
    def silos(self):
        """By key, how many connections it has."""
        return {key: len(own) for key, own in self.server._silos.items() if own}

    def context_of(self, name):
        """Return the TLS of a silo."""
        if name not in self._contexts:
            self._contexts[name] = client_context(self.keys[name], self.place / f"{name}.pem", [self.key.public])
        return self._contexts[name]

    def knock(self, source=HERE):
        """Connect, and say nothing."""
        made = socket.socket()
        self._open.append(made)
        made.settimeout(SECONDS)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.bind((source, 0))
        made.connect((HERE, self.number))
        return made

    def connect(self, who):
        """Connect with the TLS of a silo, by name, or with any other."""
        context = self.context_of(who) if isinstance(who, str) else who
        made = context.wrap_socket(self.knock())
        self._open.append(made)
        return made

    def call(self, who, method, path, body=None, **headers):
        """Make one request over a new connection; return the status and the body."""
        return call(self.connect(who), method, path, body, **headers)

    def exchange(self, box, name, line=None):
        """Let a silo do what silos do: wait for a letter and answer it."""
        silo, line = self.keys[name], line or self.connect(name)
        mark = ask(box, silo)
        assert call(line, "GET", "/next") == (200, silo.seal(b"a letter"))
        assert call(line, "PUT", f"/answers/{mark}", b"an answer") == (204, b"")
        assert list(box.receive()) == [(silo.public, b"an answer")]


def ask(box, silo, text=b"a letter"):
    """Send a letter to a silo; return its mark."""
    box.send(silo.public, silo.seal(text))
    return messages.mark(text)


def call(line, method, path, body=None, **headers):
    """Make one request over a connection; return the status and the body."""
    reported = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        reported.setdefault("content-length", len(body))
    head = "".join(f"{name}: {value}\r\n" for name, value in reported.items() if value is not None)
    line.sendall(f"{method} {path} HTTP/1.1\r\nhost: x\r\n{head}\r\n".encode() + (body or b""))
    return heard(line, method)


def heard(line, method="GET"):
    """Return status and body of the next response."""
    with contextlib.closing(http.client.HTTPResponse(line, method=method)) as answer:
        answer.begin()
        return answer.status, answer.read()


def is_cut(line):
    """Read until the other side ends the connection, whatever it says before; False if it does not end it."""
    with contextlib.suppress(ssl.SSLError, ConnectionError):
        try:
            while line.recv(65536):
                pass
        except TimeoutError:
            return False
    return True


def is_cut_while_sending(line, data, pause=0.0):
    """Send without end until the other side ends the connection; False if it does not end it."""
    end = time.monotonic() + SECONDS
    with contextlib.suppress(TimeoutError):
        try:
            while time.monotonic() < end:
                line.sendall(data)
                time.sleep(pause)
        except (ssl.SSLError, ConnectionError):
            return True
    return False


def issued(signer, issuer, place, *, named=None, usage="client", days=(-1, 1), ca=False, subject="dpadmm", chain=b""):
    """Write a certificate that anybody might make: signed by one key, in any name; return its own key as a signer.

    named: whose key it says has signed it.
    """
    own, now = Ed25519PrivateKey.generate(), datetime.now(UTC)
    usages = {"client": ExtendedKeyUsageOID.CLIENT_AUTH, "server": ExtendedKeyUsageOID.SERVER_AUTH}
    made = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(own.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=days[0]))
        .not_valid_after(now + timedelta(days=days[1]))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    if usage is not None:
        made = made.add_extension(x509.ExtendedKeyUsage([usages[usage]]), critical=False)
    if named is not None:
        hint = x509.AuthorityKeyIdentifier.from_issuer_public_key(named.private.public_key())
        made = made.add_extension(hint, critical=False)
    text = made.sign(signer.private, None).public_bytes(Encoding.PEM)
    secret = own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    place.write_bytes(secret + text + chain)
    return SimpleNamespace(private=own, public=own.public_key().public_bytes_raw().hex(), text=text)


def _name(text):
    with warnings.catch_warnings(action="ignore"):  # longer names than X.509 allows are sent too
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text, _validate=False)])


def showing(place=None, version=None):
    """Return the TLS of a client that shows this certificate, or none, and believes anybody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if version is not None:
        context.maximum_version = version
    if place is not None:
        context.load_cert_chain(place)
    return context


class Request(NamedTuple):
    """What came over TLS."""

    method: str
    path: str
    head: bytes
    body: bytes


class Liar:
    """A server that a silo's line dials: it says what a test wants. `heard` is what came."""

    def __init__(self, context, script):
        self.context, self.script = context, script
        self.listener = socket.create_server((HERE, 0))
        self.number = self.listener.getsockname()[1]
        self.heard, self.failures, self.shown = [], [], []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            try:
                plain, _ = self.listener.accept()
            except OSError:
                return
            plain.settimeout(SECONDS)
            with plain:
                try:
                    self._talk(plain)
                except OSError as problem:  # the silo hangs up
                    self.failures.append(problem)

    def _talk(self, plain):
        with self.context.wrap_socket(plain, server_side=True) as line:
            self.shown.append(line.getpeercert(binary_form=True))
            while self._request(line):
                self.script(line)

    def _request(self, line):
        """Read one request."""
        got = b""
        while b"\r\n\r\n" not in got:
            part = line.recv(65536)
            if not part:
                return False
            got += part
        head, _, body = got.partition(b"\r\n\r\n")
        fields = dict(each.lower().split(b": ", 1) for each in head.split(b"\r\n")[1:])
        while len(body) < int(fields.get(b"content-length", 0)):
            body += line.recv(65536)
        self.heard.append(Request(*head.decode().split(" HTTP", 1)[0].split(), head, body))
        return True

    def close(self):
        """End it."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()


class Tries:
    """Stands for the signals of a silo's process: ends its line when it would pause for the n-th time."""

    def __init__(self, number=1):
        self.left, self.is_asked = number, False

    @contextlib.contextmanager
    def waiting(self):
        if self.is_asked:
            raise StopRequested
        yield

    def sleep(self, _):
        self.left -= 1
        self.is_asked = self.left <= 0
