"""What carries envelopes between a coordinator and its silos.

A silo answers the same request with the same bytes, and a coordinator knows a second copy for what it is. A transport
may therefore lose, repeat, delay and reorder what it carries; it decides nothing and need not be trusted.
"""

from collections.abc import Hashable, Iterable
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
