"""Letters for silos, kept until they are answered: between the web server's loop and the threads that drive runs."""

import asyncio
import queue
import threading
import time
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from dpadmm.federation import messages
from dpadmm.federation.agreement import Agreement
from dpadmm.federation.keys import split
from dpadmm.federation.sizes import largest_answer
from dpadmm.federation.transport import Interrupted

PRESENT_SECONDS = 60.0
"""A silo that has asked for letters this lately is there."""

MOST_LETTERS = 32
"""Letters of one run that wait for one silo; older ones were sent in vain."""

_LOOK_SECONDS = 0.5
_Arrival = tuple[Hashable, bytes | None]


@dataclass(eq=False)
class Mailbox:
    """The letters of one run: its transport (`federation.transport.Transport`). A node is a silo's public key."""

    post: "PostOffice"
    keys: frozenset[str]
    largest: int
    arrived: "queue.Queue[_Arrival | None]" = field(default_factory=queue.Queue)

    def nodes(self) -> Iterable[Hashable]:
        """Return the silos of this run that are there."""
        return [key for key in self.keys if self.post.is_present(key)]

    def send(self, node: Hashable, envelope: bytes) -> None:
        """Keep an envelope until its silo has answered it."""
        self.post.put(str(node), envelope, self)

    def receive(self) -> Iterable[_Arrival]:
        """Return what has come, waiting a moment."""
        if self.post.is_closed:
            raise Interrupted("the coordinator ends")
        found = []
        try:
            found.append(self.arrived.get(timeout=_LOOK_SECONDS))
            while True:
                found.append(self.arrived.get_nowait())
        except queue.Empty:
            return [each for each in found if each is not None]

    def close(self) -> None:
        """Throw away what is left."""
        self.post.drop(self)


@dataclass
class PostOffice:
    """All letters of a coordinator. Every method may be called from any thread, `next` from the loop alone."""

    loop: asyncio.AbstractEventLoop
    is_closed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _boxes: list[Mailbox] = field(default_factory=list)
    _letters: dict[str, dict[str, tuple[bytes, Mailbox]]] = field(default_factory=dict)
    _seen: dict[str, float] = field(default_factory=dict)
    _polls: "dict[str, asyncio.Future[None]]" = field(default_factory=dict)

    def open(self, agreement: Agreement) -> Mailbox:
        """Return a box for a run of these terms."""
        keys = frozenset(person.key for person in agreement.participants)
        box = Mailbox(self, keys, largest_answer(agreement))
        with self._lock:
            self._boxes = [*self._boxes, box]
        return box

    def drop(self, box: Mailbox) -> None:
        """Forget a box and its letters."""
        with self._lock:
            self._boxes = [each for each in self._boxes if each is not box]
            for letters in self._letters.values():
                for mark in [mark for mark, (_, whose) in letters.items() if whose is box]:
                    del letters[mark]

    def largest(self, key: str) -> int | None:
        """Return how many bytes an answer of this silo may have; None for who takes part in no run that is open."""
        return max((box.largest for box in self._boxes if key in box.keys), default=None)

    def is_present(self, key: str) -> bool:
        """Return whether a silo has asked for letters lately."""
        return key in self._polls or time.monotonic() - self._seen.get(key, float("-inf")) < PRESENT_SECONDS

    def seen(self) -> dict[str, str]:
        """Return when each silo has last asked for letters, ISO 8601."""
        offset, seen = time.time() - time.monotonic(), list(self._seen.items())
        return {key: datetime.fromtimestamp(round(offset + at), UTC).isoformat() for key, at in seen}

    def put(self, key: str, envelope: bytes, box: Mailbox) -> None:
        """Keep a letter for a silo while its box is open; the same letter twice is one."""
        mark = messages.mark(split(envelope)[1])
        with self._lock:
            if box not in self._boxes:
                return
            letters = self._letters.setdefault(key, {})
            letters.setdefault(mark, (envelope, box))
            own = [each for each, (_, whose) in letters.items() if whose is box]
            for old in own[:-MOST_LETTERS]:
                del letters[old]
        self.loop.call_soon_threadsafe(self._wake, key)

    async def next(self, key: str, seconds: float) -> bytes | None:
        """Return the oldest letter for a silo that is not answered, waiting for one; a later call ends an earlier."""
        was_there = self.is_present(key)
        self._wake(key)
        self._seen[key] = time.monotonic()
        poll = self._polls[key] = self.loop.create_future()
        if not was_there:
            for box in self._boxes:
                box.arrived.put(None)  # whoever drives a run wants to know
        try:
            if self._first(key) is None and not self.is_closed:
                await asyncio.wait([poll], timeout=seconds)
        finally:
            self._seen[key] = time.monotonic()
            if self._polls.get(key) is poll:
                del self._polls[key]
        return self._first(key)

    def deliver(self, key: str, mark: str, envelope: bytes) -> bool:
        """Hand over a silo's answer to the letter with this mark; say whether anybody waits for it."""
        with self._lock:
            letter = self._letters.get(key, {}).pop(mark, None)
        if letter is None:
            return False
        letter[1].arrived.put((key, envelope))
        return True

    def close(self) -> None:
        """Let everybody who waits go; from the loop."""
        self.is_closed = True
        for key in list(self._polls):
            self._wake(key)
        for box in self._boxes:
            box.arrived.put(None)

    def _first(self, key: str) -> bytes | None:
        with self._lock:
            return next((envelope for envelope, _ in self._letters.get(key, {}).values()), None)

    def _wake(self, key: str) -> None:
        poll = self._polls.get(key)
        if poll is not None and not poll.done():
            poll.set_result(None)
