"""What a coordinator's port offers, a small ASGI app: `GET /next`, wait for a letter; `PUT /answers/MARK`, answer it.

To those who were invited to a study and take part in no run yet: `PUT /entry`, register; `GET /terms`, fetch them.
Everybody who gets here has shown a certificate of a participant or an invitation (`door`). What is too large, packed,
slow or too frequent is refused before it is read; all else is 404.
"""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any

from dpadmm.errors import DpadmmError
from dpadmm.federation.https.post import PostOffice
from dpadmm.federation.invitations import Studies
from dpadmm.federation.refusal import printable, refusing_unexpected

POLL_SECONDS = 25.0
"""How long a silo waits for a letter before it asks again."""

BODY_SECONDS = 60.0
"""How long a body may take."""

LARGEST_ENTRY = 16 * 1024
"""Bytes of what a silo tells when it registers."""

RATE, BURST = 100.0, 200.0
"""Requests a second of one silo, and how many at once."""

GUEST_PRICE = 10.0
"""What a request of somebody who is merely invited counts: entries and terms are read anew for each."""

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_log = logging.getLogger("dpadmm.coordinator")
_PIECE = 64 * 1024
_MARK = re.compile("/answers/([0-9a-f]{64})")
_WORDS = {
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
class Allowance:
    """Requests that a silo may still make; grows with time up to `BURST`."""

    left: float = BURST
    at: float = field(default_factory=time.monotonic)

    def take(self, price: float = 1.0) -> bool:
        """Use so many, if there are as many."""
        now = time.monotonic()
        self.left, self.at = min(BURST, self.left + RATE * (now - self.at)), now
        if self.left < price:
            return False
        self.left -= price
        return True


class BadRequest(Exception):
    """A request is refused with this status."""

    def __init__(self, status: int, words: str = "") -> None:
        super().__init__(words or _WORDS[status])
        self.status = status


class Mail:
    """The ASGI app."""

    def __init__(self, post: PostOffice, studies: Studies) -> None:
        """Serve letters from this office, and whoever is invited to these studies."""
        self._post, self._studies = post, studies
        self._allowed: dict[str, Allowance] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            async with asyncio.timeout(POLL_SECONDS + BODY_SECONDS):
                status, body = await self._answer(scope, receive)
        except BadRequest as refusal:
            status, body = refusal.status, str(refusal).encode()
        headers = [(b"content-type", b"application/octet-stream"), (b"content-length", str(len(body)).encode())]
        headers.append((b"date", formatdate(usegmt=True).encode()))  # of now: uvicorn's is that of the poll's beginning
        if status >= 400:
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for start in range(0, max(len(body), 1), _PIECE):  # what is not read in time waits here, not in a buffer
            rest = {"body": body[start : start + _PIECE], "more_body": start + _PIECE < len(body)}
            await send({"type": "http.response.body", **rest})

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, bytes]:
        key, place = str(scope["state"]["silo"]), (scope["method"], scope["path"])
        largest = self._post.largest(key)
        if largest is None and not self._studies.is_invited(key):
            raise BadRequest(403)
        if not self._allowed.setdefault(key, Allowance()).take(GUEST_PRICE if largest is None else 1.0):
            raise BadRequest(429)
        if largest is None:
            return await _receive(self._studies, key, place, scope, receive)
        if place == ("GET", "/next"):
            letter = await self._post.next(key, POLL_SECONDS)
            return (204, b"") if letter is None else (200, letter)
        mark = _MARK.fullmatch(place[1])
        if place[0] != "PUT" or mark is None:
            raise BadRequest(404)
        body = await _body(dict(scope["headers"]), receive, largest)
        if not self._post.deliver(key, mark[1], body):
            raise BadRequest(404)
        return 204, b""


async def _receive(
    studies: Studies, key: str, place: tuple[str, str], scope: Scope, receive: Receive
) -> tuple[int, bytes]:
    """Answer who holds an invitation."""
    try:
        if place == ("GET", "/terms"):
            with refusing_unexpected():
                terms = studies.terms(key)
            return (204, b"") if terms is None else (200, terms)
        if place != ("PUT", "/entry"):
            raise BadRequest(404)
        body = await _body(dict(scope["headers"]), receive, LARGEST_ENTRY)
        with refusing_unexpected():
            studies.register(key, body)
    except DpadmmError as refusal:
        raise BadRequest(409, printable(str(refusal))) from None
    except OSError as problem:
        _log.warning("a silo's registration could not be stored: %s", problem.strerror)
        raise BadRequest(503) from None
    return 204, b""


async def _body(headers: Mapping[bytes, bytes], receive: Receive, largest: int) -> bytes:
    """Return the body of a request, which must say how long it is, and be no longer."""
    if b"content-encoding" in headers:
        raise BadRequest(415)
    told = headers.get(b"content-length", b"")
    if not told.isdigit() or b"transfer-encoding" in headers:  # which would hold, whatever the length says
        raise BadRequest(411)
    if int(told) > largest:
        raise BadRequest(413)
    body, is_more = bytearray(), True
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while is_more and len(body) <= int(told):
                part = await receive()
                body += part.get("body", b"")
                is_more = bool(part.get("more_body")) and part["type"] == "http.request"
    except TimeoutError:
        raise BadRequest(408) from None
    if len(body) != int(told):
        raise BadRequest(400)
    return bytes(body)
