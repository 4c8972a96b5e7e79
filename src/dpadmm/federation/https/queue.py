"""Requests to silos, kept until they are answered: between the web server's loop and the threads that drive runs."""

import asyncio
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from queue import Empty, Queue

from dpadmm.federation import messages
from dpadmm.federation.coordinator_loop import Interrupted
from dpadmm.federation.keys import body_of
from dpadmm.federation.messages import largest_answer
from dpadmm.federation.terms import Terms

POLL_SECONDS = 25.0
"""How long a silo waits for a request before it polls again."""

MOST_REQUESTS = 32
"""Requests of one run that wait for one silo; older ones are dropped, since the loop sends them again."""

_RECEIVE_SECONDS = 0.5
_Arrival = tuple[str, bytes]


@dataclass(eq=False)
class RunQueue:
    """The requests of one run: its transport (`federation.transport.Transport`)."""

    queue: "MessageQueue"
    keys: frozenset[str]
    largest: int
    arrived: "Queue[_Arrival | None]" = field(default_factory=Queue)

    def send(self, key: str, envelope: bytes) -> None:
        """Keep an envelope until its silo has answered it."""
        self.queue.put(key, envelope, self)

    def receive(self) -> Iterable[_Arrival]:
        """Return what has come, waiting a moment."""
        if self.queue.is_closed:
            raise Interrupted("the coordinator ends")
        found = []
        try:
            found.append(self.arrived.get(timeout=_RECEIVE_SECONDS))
            while True:
                found.append(self.arrived.get_nowait())
        except Empty:
            return [each for each in found if each is not None]

    def close(self) -> None:
        """Drop what is left."""
        self.queue.drop(self)


@dataclass
class MessageQueue:
    """All waiting requests of a coordinator. Every method may be called from any thread, `next` from the loop alone."""

    loop: asyncio.AbstractEventLoop
    is_closed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _runs: list[RunQueue] = field(default_factory=list)
    _requests: dict[str, dict[str, tuple[bytes, RunQueue]]] = field(default_factory=dict)
    _seen: dict[str, float] = field(default_factory=dict)
    _polls: "dict[str, asyncio.Future[None]]" = field(default_factory=dict)

    def open(self, terms: Terms) -> RunQueue:
        """Return a queue for a run of these terms."""
        run = RunQueue(self, frozenset(person.key for person in terms.participants), largest_answer(terms))
        with self._lock:
            self._runs = [*self._runs, run]
        return run

    def drop(self, run: RunQueue) -> None:
        """Forget a run and its requests."""
        with self._lock:
            self._runs = [each for each in self._runs if each is not run]
            for requests in self._requests.values():
                for mark in [mark for mark, (_, whose) in requests.items() if whose is run]:
                    del requests[mark]

    def largest(self, key: str) -> int | None:
        """Return how many bytes an answer of this silo may have; None for who takes part in no run that is open."""
        return max((run.largest for run in self._runs if key in run.keys), default=None)

    def seen(self) -> dict[str, str]:
        """Return when each silo has last polled, ISO 8601."""
        offset, seen = time.time() - time.monotonic(), list(self._seen.items())
        return {key: datetime.fromtimestamp(round(offset + at), UTC).isoformat() for key, at in seen}

    def put(self, key: str, envelope: bytes, run: RunQueue) -> None:
        """Keep a request to a silo while its run is open; the same request twice is one."""
        mark = messages.mark(body_of(envelope))
        with self._lock:
            if run not in self._runs:
                return
            requests = self._requests.setdefault(key, {})
            requests.setdefault(mark, (envelope, run))
            own = [each for each, (_, whose) in requests.items() if whose is run]
            for old in own[:-MOST_REQUESTS]:
                del requests[old]
        self.loop.call_soon_threadsafe(self._end_poll, key)

    async def next(self, key: str, seconds: float) -> bytes | None:
        """Return the oldest unanswered request to a silo, waiting for one; a later call ends an earlier."""
        self._end_poll(key)
        self._seen[key] = time.monotonic()
        poll = self._polls[key] = self.loop.create_future()
        try:
            if self._first(key) is None and not self.is_closed:
                await asyncio.wait([poll], timeout=seconds)
        finally:
            self._seen[key] = time.monotonic()
            if self._polls.get(key) is poll:
                del self._polls[key]
        return self._first(key)

    def deliver(self, key: str, mark: str, envelope: bytes) -> bool:
        """Hand over a silo's answer to the request with this mark; return whether anybody waits for it."""
        with self._lock:
            request = self._requests.get(key, {}).pop(mark, None)
        if request is None:
            return False
        request[1].arrived.put((key, envelope))
        return True

    def close(self) -> None:
        """End every wait; from the loop."""
        self.is_closed = True
        for key in list(self._polls):
            self._end_poll(key)
        for run in self._runs:
            run.arrived.put(None)  # who drives it wants to know

    def _first(self, key: str) -> bytes | None:
        with self._lock:
            return next((envelope for envelope, _ in self._requests.get(key, {}).values()), None)

    def _end_poll(self, key: str) -> None:
        poll = self._polls.get(key)
        if poll is not None and not poll.done():
            poll.set_result(None)
