"""Silos in this process: a transport that loses, repeats and delays what it is told to."""

import heapq
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dpadmm.federation.silo import Silo
from dpadmm.federation.terms import Terms


class Crashed(BaseException):
    """Stands for the sudden end of a process: what was not durable by then never was."""


@dataclass(frozen=True)
class Carried:
    """One envelope on its way: a request to a silo, or the silo's answer."""

    node: str
    is_request: bool
    envelope: bytes


def at_once(_: Carried) -> Sequence[int]:
    """One copy, without delay."""
    return (0,)


@dataclass
class InMemory:
    """Silos in this process; time passes only while somebody looks for answers.

    silos: starts each by its name; after a crash it is started again by the next envelope. terms: whose keys are
    whose.
    fate: after how many looks each copy of an envelope arrives: () is lost, (0, 0) arrives twice, (3,) late.
    """

    silos: Mapping[str, Callable[[], Silo]]
    terms: Terms
    fate: Callable[[Carried], Sequence[int]] = at_once
    look_seconds: float = 0.25
    carried: list[Carried] = field(default_factory=list)
    _running: dict[str, Silo] = field(default_factory=dict)
    _due: list[tuple[int, int, Carried]] = field(default_factory=list)
    _looks: int = 0
    _copies: int = 0

    def clock(self) -> float:
        """Return the time, in seconds."""
        return self._looks * self.look_seconds

    def send(self, key: str, envelope: bytes) -> None:
        """Let an envelope meet its fate."""
        (name,) = [person.name for person in self.terms.participants if person.key == key]
        self._carry(Carried(name, True, envelope))

    def receive(self) -> Iterable[tuple[str, bytes]]:
        """Look once: let silos answer what has reached them, and return the answers that have come back."""
        self._looks += 1
        keys = {person.name: person.key for person in self.terms.participants}
        found: list[tuple[str, bytes]] = []
        while self._due and self._due[0][0] <= self._looks:
            _, _, arrived = heapq.heappop(self._due)
            if not arrived.is_request:
                found.append((keys[arrived.node], arrived.envelope))
                continue
            try:
                self._carry(Carried(arrived.node, False, self._process(arrived.node).answer(arrived.envelope)))
            except Crashed:
                self._running.pop(arrived.node).close()
            except (OSError, sqlite3.Error):  # the machine's failure; the process goes on, and is asked again
                pass
        return found

    def _carry(self, envelope: Carried) -> None:
        self.carried.append(envelope)
        for looks in self.fate(envelope):
            self._copies += 1
            heapq.heappush(self._due, (self._looks + looks, self._copies, envelope))

    def _process(self, node: str) -> Silo:
        if node not in self._running:
            self._running[node] = self.silos[node]()
        return self._running[node]
