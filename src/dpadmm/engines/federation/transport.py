"""What carries envelopes between a coordinator and its silos: the protocol, and one in memory that fails as it is told.

A silo answers the same request with the same bytes, and a coordinator knows a second copy for what it is. A transport
may therefore lose, repeat, delay and reorder what it carries; it decides nothing and need not be trusted.
"""

import heapq
import sqlite3
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


class Interrupted(Exception):
    """A run is left where it is, its file as it was: the transport is gone, or nobody wants the run at present."""


class Transport(Protocol):
    """Carries envelopes to nodes and back. A node is a place that may hold a silo; who it is, signatures tell."""

    def nodes(self) -> Iterable[Hashable]:
        """Return the nodes that are reachable now."""
        ...

    def send(self, node: Hashable, envelope: bytes) -> None:
        """Send an envelope; may fail silently."""
        ...

    def receive(self) -> Iterable[tuple[Hashable, bytes | None]]:
        """Return what came back, waiting a moment; None where a node could not be reached or failed."""
        ...


class Answering(Protocol):
    """What a node holds: a silo, as far as a transport knows it."""

    def answer(self, envelope: bytes) -> bytes:
        """Return the answer to an envelope."""
        ...

    def close(self) -> None:
        """Close its files."""
        ...


class Crashed(BaseException):
    """Stands for the sudden end of a process: what was not durable by then never was."""


@dataclass(frozen=True)
class Carried:
    """One envelope on its way: a request to a node, or a node's answer."""

    node: Hashable
    is_request: bool
    envelope: bytes


def at_once(_: Carried) -> Sequence[int]:
    """One copy, without delay."""
    return (0,)


@dataclass
class InMemory:
    """Silos in this process; time passes only while somebody looks for answers.

    silos: starts what each node holds; after a crash it is started again by the next envelope.
    fate: after how many looks each copy of an envelope arrives: () is lost, (0, 0) arrives twice, (3,) late.
    """

    silos: Mapping[Hashable, Callable[[], Answering]]
    fate: Callable[[Carried], Sequence[int]] = at_once
    look_seconds: float = 0.25
    carried: list[Carried] = field(default_factory=list)
    _running: dict[Hashable, Answering] = field(default_factory=dict)
    _due: list[tuple[int, int, Carried]] = field(default_factory=list)
    _looks: int = 0
    _copies: int = 0

    def clock(self) -> float:
        """Return the time, in seconds."""
        return self._looks * self.look_seconds

    def nodes(self) -> Iterable[Hashable]:
        """Return all nodes."""
        return list(self.silos)

    def send(self, node: Hashable, envelope: bytes) -> None:
        """Let an envelope meet its fate."""
        self._carry(Carried(node, True, envelope))

    def receive(self) -> Iterable[tuple[Hashable, bytes | None]]:
        """Look once: let nodes answer what has reached them, and return the answers that have come back."""
        self._looks += 1
        found: list[tuple[Hashable, bytes | None]] = []
        while self._due and self._due[0][0] <= self._looks:
            _, _, arrived = heapq.heappop(self._due)
            if not arrived.is_request:
                found.append((arrived.node, arrived.envelope))
                continue
            try:
                self._carry(Carried(arrived.node, False, self._process(arrived.node).answer(arrived.envelope)))
            except Crashed:
                self._running.pop(arrived.node).close()
                found.append((arrived.node, None))
            except (OSError, sqlite3.Error):  # the machine's failure; the process goes on
                found.append((arrived.node, None))
        return found

    def _carry(self, envelope: Carried) -> None:
        self.carried.append(envelope)
        for looks in self.fate(envelope):
            self._copies += 1
            heapq.heappush(self._due, (self._looks + looks, self._copies, envelope))

    def _process(self, node: Hashable) -> Answering:
        if node not in self._running:
            self._running[node] = self.silos[node]()
        return self._running[node]
