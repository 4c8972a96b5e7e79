"""Silos in this process: a transport that loses, repeats and delays what it is told to."""

import heapq
import sqlite3
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dpadmm.federation.silo import Silo


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

    silos: Mapping[Hashable, Callable[[], Silo]]
    fate: Callable[[Carried], Sequence[int]] = at_once
    look_seconds: float = 0.25
    carried: list[Carried] = field(default_factory=list)
    _running: dict[Hashable, Silo] = field(default_factory=dict)
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

    def _process(self, node: Hashable) -> Silo:
        if node not in self._running:
            self._running[node] = self.silos[node]()
        return self._running[node]
