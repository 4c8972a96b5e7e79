"""The coordinator's only inbound port: who may come in, how many, and how long they may take to show who they are.

Connections are accepted here, so that they are counted and timed before anything of them is read. Once TLS has found a
certificate of a participant, uvicorn reads the HTTP.
"""

import asyncio
import logging
import socket
import ssl
import time
from collections import Counter
from ipaddress import ip_address
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from dpadmm.federation.https.app import Mail
from dpadmm.federation.https.certificates import issuer
from dpadmm.federation.https.post import PostOffice
from dpadmm.federation.invitations import Studies

MOST_STRANGERS = 64
"""Connections that have not shown a certificate yet; one more ends the oldest of the network that has most of them."""

MOST_PER_SILO = 4
"""Connections of one silo; one more ends its oldest."""

STRANGER_SECONDS = 5.0
"""How long a certificate may take."""

HEAD_SECONDS = 10.0
"""How long the head of a request may take."""

READ_SECONDS = 60.0
"""How long a silo may take to read what is kept ready for it."""

IDLE_SECONDS = 120
"""How long a connection may be idle between requests: a silo may be computing."""

_SAY_SECONDS = 60.0
_MOST_HEAD = 16 * 1024
_BACKLOG = 1024  # who finds no place here tries again after a second or more
_log = logging.getLogger("dpadmm.coordinator")


class SiloConnection(H11Protocol):
    """A connection that has shown a certificate; what comes over it is known to be of the key that issued it."""

    door: "Door"

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Find out who it is."""
        super().connection_made(transport)
        self.app_state = {"silo": issuer(transport.get_extra_info("peercert"))}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.door.enter(self)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave."""
        for what in list(self._timers):
            self._free(what)
        self.door.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what came; the head of a request must be complete in time."""
        super().data_received(data)
        self._watch_head()

    def send_400_response(self, msg: str) -> None:
        """Hang up on what is no HTTP; say so if nothing else was said or is about to be."""
        if self.cycle:
            self.cycle.disconnected = True
            self.transport.abort()
        else:
            super().send_400_response(msg)

    def pause_writing(self) -> None:
        """Enough is kept ready; it must be read in time."""
        super().pause_writing()
        self._limit("read", READ_SECONDS)

    def resume_writing(self) -> None:
        """Most of it was read."""
        super().resume_writing()
        self._free("read")

    def _watch_head(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._free("head")
        else:
            self._limit("head", HEAD_SECONDS)

    def _limit(self, what: str, seconds: float) -> None:
        """End the connection after so long, unless it is freed of this before."""
        if what not in self._timers:
            self._timers[what] = self.loop.call_later(seconds, self.transport.abort)

    def _free(self, what: str) -> None:
        if what in self._timers:
            self._timers.pop(what).cancel()


class Door(uvicorn.Server):
    """Accepts connections on a listening socket, and serves those of silos until `should_exit` is set."""

    def __init__(self, post: PostOffice, context: ssl.SSLContext, listener: socket.socket, studies: Studies) -> None:
        """Serve the letters of this office, and whoever is invited, under this TLS."""
        listener.setblocking(False)
        listener.listen(_BACKLOG)
        super().__init__(
            uvicorn.Config(
                Mail(post, studies),
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
        self._post, self._context, self._listener = post, context, listener
        self._strangers: dict[SiloConnection, tuple[asyncio.Task[None], bytes]] = {}
        self._silos: dict[str, list[SiloConnection]] = {}
        self._refused, self._said = 0, float("-inf")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept, in place of uvicorn's own way, which counts and times nothing before TLS."""
        await self.lifespan.startup()
        self.servers: list[Any] = []
        self._accepting = asyncio.create_task(self._accept())
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let everybody go."""
        self._accepting.cancel()
        self._listener.close()
        for greeting, _ in self._strangers.values():
            greeting.cancel()
        self._post.close()
        await super().shutdown(sockets)

    def connected(self) -> set[str]:
        """Return the keys of the silos that have a connection now; any thread may ask."""
        return {key for key, own in list(self._silos.items()) if own}

    def enter(self, connection: SiloConnection) -> None:
        """Take a silo's connection in, no longer a stranger's; its oldest one goes if there are too many."""
        self._strangers.pop(connection, None)
        own = self._silos.setdefault(connection.app_state["silo"], [])
        own.append(connection)
        if len(own) > MOST_PER_SILO:
            own.pop(0).transport.abort()

    def leave(self, connection: SiloConnection) -> None:
        """Let a silo's connection go."""
        own = self._silos.get(connection.app_state.get("silo", ""), [])
        if connection in own:
            own.remove(connection)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, (host, *_) = await loop.sock_accept(self._listener)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError as problem:  # too many files, or a connection that is gone already
                _log.warning("a connection could not be accepted: %s", problem.strerror)
                await asyncio.sleep(0.2)
                continue
            if len(self._strangers) >= MOST_STRANGERS:
                self._make_room()
            guest = SiloConnection(self.config, self.server_state, {}, loop)
            guest.door = self
            greeting = loop.create_task(self._greet(guest, connection))
            self._strangers[guest] = greeting, ip_address(host).packed[:8]  # one IPv6 address has 2^64 beside it
            await asyncio.sleep(0)  # whoever is in comes first, however many wait to be accepted

    def _make_room(self) -> None:
        """End the oldest connection of the network that has most: who comes in crowds keeps nobody else out."""
        ((busiest, _),) = Counter(network for _, network in self._strangers.values()).most_common(1)
        oldest = next(guest for guest, (_, network) in self._strangers.items() if network == busiest)
        self._strangers.pop(oldest)[0].cancel()
        self._refuse("too many at once")

    async def _greet(self, guest: SiloConnection, connection: socket.socket) -> None:
        """Ask for a certificate; whoever shows none of a participant's is gone before anything of it is read."""
        limits = {"ssl_handshake_timeout": STRANGER_SECONDS, "ssl_shutdown_timeout": 1.0}
        try:
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(lambda: guest, connection, ssl=self._context, **limits)
        except OSError as problem:
            self._refuse(str(problem))
        finally:
            self._strangers.pop(guest, None)

    def _refuse(self, reason: str) -> None:
        """Say that strangers came, not for each of them."""
        self._refused += 1
        if time.monotonic() - self._said > _SAY_SECONDS:
            self._said = time.monotonic()
            _log.warning(
                "connections refused without a participant's certificate: %d; the last: %s", self._refused, reason
            )
            self._refused = 0
