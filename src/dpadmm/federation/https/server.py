"""The coordinator's port: who may connect, how many, for how long, and what is answered.

Connections are accepted here rather than by uvicorn, so that they are counted and timed before anything of them is
read. Once TLS has verified the certificate of a participant, or of somebody invited, uvicorn reads the HTTP and `Api`
answers: `GET /next` waits for a request of the coordinator, `PUT /answers/MARK` answers it. Those who are merely
invited to a study register by `PUT /entry` and fetch the terms by `GET /terms`. What is too large, compressed, slow or
too frequent is refused before it is read; everything else is 404.
"""

import asyncio
import logging
import re
import socket
import sqlite3
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from ipaddress import ip_address
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from dpadmm.errors import DpadmmError
from dpadmm.federation.errors import printable, refusing_unexpected
from dpadmm.federation.https.queue import POLL_SECONDS, MessageQueue
from dpadmm.federation.https.tls import issuer
from dpadmm.federation.studies import Studies

BODY_SECONDS = 60.0
"""How long a body may take."""

LARGEST_ENTRY = 16 * 1024
"""Bytes that a silo may send when it registers."""

RATE, BURST = 100.0, 200.0
"""Requests per second of one silo, and how many at once."""

INVITED_COST = 10.0
"""What a request of somebody who is merely invited counts: entries and terms are looked up in the file for each."""

MOST_HANDSHAKES = 64
"""Connections that have not shown a certificate yet; one more ends the oldest of the network that has most of them."""

MOST_PER_SILO = 4
"""Connections of one silo; one more ends its oldest."""

HANDSHAKE_SECONDS = 5.0
"""How long a certificate may take."""

HEAD_SECONDS = 10.0
"""How long the head of a request may take."""

READ_SECONDS = 60.0
"""How long a silo may take to read what is ready for it."""

IDLE_SECONDS = 120
"""How long a connection may be idle between requests: a silo may be computing."""

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_log = logging.getLogger("dpadmm.coordinator")
_LOG_SECONDS = 60.0
_MOST_HEAD = 16 * 1024
_BACKLOG = 1024  # who finds no place here tries again after a second or more
_CHUNK = 64 * 1024
_MARK = re.compile("/answers/([0-9a-f]{64})")
_REASONS = {
    400: "The length of the body differs from the announced one.",
    403: "You do not take part in any open run here.",
    404: "Nothing is waiting for this.",
    408: "The body took too long.",
    411: "Announce the length of the body.",
    413: "The body is longer than the terms allow.",
    415: "Compressed bodies are not accepted here.",
    429: "Too many requests.",
    503: "It could not be stored; try again later.",
}


@dataclass
class RateLimit:
    """Requests that a silo may still make; grows with time up to `BURST`."""

    left: float = BURST
    at: float = field(default_factory=time.monotonic)

    def take(self, cost: float = 1.0) -> bool:
        """Use so many, if there are as many."""
        now = time.monotonic()
        self.left, self.at = min(BURST, self.left + RATE * (now - self.at)), now
        if self.left < cost:
            return False
        self.left -= cost
        return True


class RequestRefused(Exception):
    """A request is refused with this HTTP status."""

    def __init__(self, status: int, reason: str = "") -> None:
        super().__init__(reason or _REASONS[status])
        self.status = status


class Api:
    """The ASGI app."""

    def __init__(self, queue: MessageQueue, studies: Studies) -> None:
        """Serve requests from this queue, and whoever is invited to these studies."""
        self._queue, self._studies = queue, studies
        self._limits: dict[str, RateLimit] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            async with asyncio.timeout(POLL_SECONDS + BODY_SECONDS):
                body = await self._answer(scope, receive)
                status = 204 if body is None else 200
        except RequestRefused as refusal:
            status, body = refusal.status, str(refusal).encode()
        body = body or b""
        headers = [(b"content-type", b"application/octet-stream"), (b"content-length", str(len(body)).encode())]
        headers.append((b"date", formatdate(usegmt=True).encode()))  # of now: uvicorn's is that of the poll's beginning
        if status >= 400:
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for start in range(0, max(len(body), 1), _CHUNK):  # what is not read in time waits here, not in a buffer
            rest = {"body": body[start : start + _CHUNK], "more_body": start + _CHUNK < len(body)}
            await send({"type": "http.response.body", **rest})

    async def _answer(self, scope: Scope, receive: Receive) -> bytes | None:
        """Return the body of the answer, None for one without."""
        key, headers = str(scope["state"]["silo"]), dict(scope["headers"])
        route: tuple[str, str] = scope["method"], scope["path"]
        largest = self._queue.largest(key)
        if largest is None and not self._studies.is_invited(key):
            raise RequestRefused(403)
        if not self._limits.setdefault(key, RateLimit()).take(INVITED_COST if largest is None else 1.0):
            raise RequestRefused(429)
        if largest is None:
            if route == ("GET", "/terms"):
                return self._answer_invited(key, None)
            if route != ("PUT", "/entry"):
                raise RequestRefused(404)
            return self._answer_invited(key, await _read_body(headers, receive, LARGEST_ENTRY))
        if route == ("GET", "/next"):
            return await self._queue.next(key, POLL_SECONDS)
        mark = _MARK.fullmatch(route[1])
        if route[0] != "PUT" or mark is None:
            raise RequestRefused(404)
        body = await _read_body(headers, receive, largest)
        if not self._queue.deliver(key, mark[1], body):
            raise RequestRefused(404)
        return None

    def _answer_invited(self, key: str, entry: bytes | None) -> bytes | None:
        """Register the silo that holds an invitation; without an entry return the terms, None before they are there."""
        try:
            with refusing_unexpected():
                if entry is None:
                    return self._studies.terms(key)
                self._studies.register(key, entry)
                return None
        except DpadmmError as refusal:
            raise RequestRefused(409, printable(str(refusal))) from None
        except (OSError, sqlite3.Error) as problem:
            _log.warning("a silo's registration could not be stored: %s", problem)
            raise RequestRefused(503) from None


async def _read_body(headers: Mapping[bytes, bytes], receive: Receive, largest: int) -> bytes:
    """Return the body of a request, which must announce its length, and be no longer."""
    if b"content-encoding" in headers:
        raise RequestRefused(415)
    length = headers.get(b"content-length", b"")
    if not length.isdigit() or b"transfer-encoding" in headers:  # which would hold, whatever the length says
        raise RequestRefused(411)
    if int(length) > largest:
        raise RequestRefused(413)
    body, is_more = bytearray(), True
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while is_more and len(body) <= int(length):
                part = await receive()
                body += part.get("body", b"")
                is_more = bool(part.get("more_body")) and part["type"] == "http.request"
    except TimeoutError:
        raise RequestRefused(408) from None
    if len(body) != int(length):
        raise RequestRefused(400)
    return bytes(body)


class SiloConnection(H11Protocol):
    """A connection that has shown a certificate; what comes over it is known to be of the key that issued it."""

    tls_server: "TlsServer"

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Find out who it is."""
        super().connection_made(transport)
        self.app_state = {"silo": issuer(transport.get_extra_info("peercert"))}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.tls_server.add(self)
        self._limit_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave."""
        for what in list(self._timers):
            self._stop_timer(what)
        self.tls_server.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what came; the head of a request must be complete in time."""
        super().data_received(data)
        self._limit_head()

    def send_400_response(self, msg: str) -> None:
        """Hang up on what is no HTTP; answer so if nothing else was or will be sent."""
        if self.cycle:
            self.cycle.disconnected = True
            self.transport.abort()
        else:
            super().send_400_response(msg)

    def pause_writing(self) -> None:
        """Enough is ready; it must be read in time."""
        super().pause_writing()
        self._start_timer("read", READ_SECONDS)

    def resume_writing(self) -> None:
        """Most of it was read."""
        super().resume_writing()
        self._stop_timer("read")

    def _limit_head(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer("head")
        else:
            self._start_timer("head", HEAD_SECONDS)

    def _start_timer(self, what: str, seconds: float) -> None:
        """End the connection after so long, unless the timer is stopped before."""
        if what not in self._timers:
            self._timers[what] = self.loop.call_later(seconds, self.transport.abort)

    def _stop_timer(self, what: str) -> None:
        if what in self._timers:
            self._timers.pop(what).cancel()


class TlsServer(uvicorn.Server):
    """Accepts connections on a listening socket, and serves those of silos until `should_exit` is set."""

    def __init__(self, queue: MessageQueue, context: ssl.SSLContext, listener: socket.socket, studies: Studies) -> None:
        """Serve the requests in this queue, and whoever is invited, under this TLS."""
        listener.setblocking(False)
        listener.listen(_BACKLOG)
        super().__init__(
            uvicorn.Config(
                Api(queue, studies),
                http=SiloConnection,
                ws="none",
                loop="asyncio",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                log_level="error",  # a silo can send what is no HTTP as often as it likes
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                timeout_keep_alive=IDLE_SECONDS,
                timeout_graceful_shutdown=2,
                h11_max_incomplete_event_size=_MOST_HEAD,
            )
        )
        self._queue, self._context, self._listener = queue, context, listener
        self._handshakes: dict[SiloConnection, tuple[asyncio.Task[None], bytes]] = {}
        self._silos: dict[str, list[SiloConnection]] = {}
        self._refused, self._logged = 0, float("-inf")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept, in place of uvicorn's own way, which counts and times nothing before TLS."""
        await self.lifespan.startup()
        self.servers: list[Any] = []
        self._accepting = asyncio.create_task(self._accept())
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close all connections."""
        self._accepting.cancel()
        self._listener.close()
        for handshake, _ in self._handshakes.values():
            handshake.cancel()
        self._queue.close()
        await super().shutdown(sockets)

    def connected(self) -> set[str]:
        """Return the keys of the silos that have a connection now; any thread may ask."""
        return {key for key, own in list(self._silos.items()) if own}

    def add(self, connection: SiloConnection) -> None:
        """Count a connection as its silo's, no longer as a handshake; the silo's oldest goes if it has too many."""
        self._handshakes.pop(connection, None)
        own = self._silos.setdefault(connection.app_state["silo"], [])
        own.append(connection)
        if len(own) > MOST_PER_SILO:
            own.pop(0).transport.abort()

    def remove(self, connection: SiloConnection) -> None:
        """Forget a silo's connection."""
        own = self._silos.get(connection.app_state.get("silo", ""), [])
        if connection in own:
            own.remove(connection)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, (host, *_) = await loop.sock_accept(self._listener)
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError as problem:  # too many files, or a connection that is gone already
                _log.warning("a connection could not be accepted: %s", problem.strerror)
                await asyncio.sleep(0.2)
                continue
            if len(self._handshakes) >= MOST_HANDSHAKES:
                self._make_space()
            connection = SiloConnection(self.config, self.server_state, {}, loop)
            connection.tls_server = self
            handshake = loop.create_task(self._shake_hands(connection, accepted))
            self._handshakes[connection] = handshake, ip_address(host).packed[:8]  # an IPv6 host has 2^64 addresses
            await asyncio.sleep(0)  # whoever is in comes first, however many wait to be accepted

    def _make_space(self) -> None:
        """End the oldest handshake of the network that has most: a crowd keeps nobody else out."""
        ((busiest, _),) = Counter(network for _, network in self._handshakes.values()).most_common(1)
        oldest = next(each for each, (_, network) in self._handshakes.items() if network == busiest)
        self._handshakes.pop(oldest)[0].cancel()
        self._log_refused("too many at once")

    async def _shake_hands(self, connection: SiloConnection, accepted: socket.socket) -> None:
        """Ask for a certificate; whoever shows none of a participant's is gone before anything of it is read."""
        limits = {"ssl_handshake_timeout": HANDSHAKE_SECONDS, "ssl_shutdown_timeout": 1.0}
        try:
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(lambda: connection, accepted, ssl=self._context, **limits)
        except OSError as problem:
            self._log_refused(str(problem))
        finally:
            self._handshakes.pop(connection, None)

    def _log_refused(self, reason: str) -> None:
        """Log that strangers came, not each of them."""
        self._refused += 1
        if time.monotonic() - self._logged > _LOG_SECONDS:
            self._logged = time.monotonic()
            _log.warning(
                "connections refused without a participant's certificate: %d; the last: %s", self._refused, reason
            )
            self._refused = 0
