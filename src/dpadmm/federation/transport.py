"""What carries envelopes between a coordinator and its silos.

A silo answers the same request with the same bytes, and a coordinator knows a second copy for what it is. A transport
may therefore lose, repeat, delay and reorder what it carries; it decides nothing and need not be trusted.
"""

from collections.abc import Iterable
from typing import Protocol


class Interrupted(Exception):
    """A run is left where it is, its file as it was: the transport is gone, or nobody wants the run at present."""


class Transport(Protocol):
    """Carries envelopes to silos and back. A silo is named by its public key; what it signs is checked by others."""

    def send(self, key: str, envelope: bytes) -> None:
        """Send an envelope to a silo; may fail silently."""
        ...

    def receive(self) -> Iterable[tuple[str, bytes]]:
        """Return what has come from silos, waiting a moment."""
        ...
