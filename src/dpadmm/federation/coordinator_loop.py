"""The coordinator's loop over any transport: send what is due, again after a while; take answers; wait or stop.

A silo answers the same request with the same bytes, and a coordinator knows a second copy for what it is. A transport
may therefore lose, repeat, delay and reorder what it carries; it decides nothing and need not be trusted.
"""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from dpadmm.errors import DpadmmError
from dpadmm.federation.coordinator import Coordinator


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


RESEND_SECONDS = 20.0
"""After so long a request is sent again: a silo that died has lost it, one that is slow repeats its answer."""

_log = logging.getLogger("dpadmm.coordinator")


def drive(
    coordinator: Coordinator,
    transport: Transport,
    clock: Callable[[], float] = time.monotonic,
    resend_seconds: float = RESEND_SECONDS,
) -> None:
    """Run until all rounds are complete; `FederationStopped` where that cannot be, `Interrupted` by the transport.

    Everything that lasts is in the coordinator's file: driven again, a run goes on where it was.
    """
    sent: dict[tuple[str, str], float] = {}
    waiting_since = clock()
    while not coordinator.is_done:
        coordinator.check_in_place()
        requests, now = coordinator.requests(), clock()
        sent = {each.name: sent[each.name] for each in requests if each.name in sent}
        for request in requests:
            if now - sent.get(request.name, float("-inf")) > resend_seconds:
                sent[request.name] = now
                transport.send(request.key, request.envelope)
        for key, envelope in transport.receive():
            if coordinator.accept(key, envelope):  # a silo has joined, or the round is complete
                waiting_since = clock()
        if clock() - waiting_since > coordinator.terms.wait_seconds:
            coordinator.apply_missing_rule()
            waiting_since = clock()


def drive_for_others(coordinator: Coordinator, transport: Transport, clock: Callable[[], float]) -> None:
    """Drive a run for whoever waits elsewhere and reads the coordinator's file: why it has stopped is written there."""
    try:
        drive(coordinator, transport, clock)
    except Interrupted as problem:
        _log.info("run %r is left as it is: %s", coordinator.terms.run, problem)
    except DpadmmError as problem:
        coordinator.stop(str(problem))
