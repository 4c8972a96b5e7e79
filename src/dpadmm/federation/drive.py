"""The coordinator's loop over any transport: invite, ask, collect, ask again, apply the rule for missing silos."""

import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from dpadmm.errors import DpadmmError
from dpadmm.federation.agreement import Missing
from dpadmm.federation.coordinator import Coordinator
from dpadmm.federation.errors import AwaitsApproval, FederationStopped, PeerError
from dpadmm.federation.transport import Interrupted, Transport

RESEND_SECONDS = 20.0
"""After so long a request is sent again: a silo that died has lost it, one that is slow repeats its answer."""

RETRY_SECONDS = 2.0
"""How soon a node that was out of reach is tried again."""

NEVER = float("-inf")
_log = logging.getLogger("dpadmm.coordinator")


@dataclass
class Drive:
    """One drive of a run to its end, or to where it stops; everything durable is in the coordinator."""

    coordinator: Coordinator
    transport: Transport
    clock: Callable[[], float]
    resend_seconds: float = RESEND_SECONDS
    _seats: dict[int, Hashable] = field(default_factory=dict)
    _invited: dict[Hashable, float] = field(default_factory=dict)
    _asked: dict[tuple[int, str], float] = field(default_factory=dict)
    _awaited: set[Hashable] = field(default_factory=set)
    _since: float = 0.0

    def serve(self) -> None:
        """Run for whoever waits for it elsewhere and reads the coordinator's file: why it ended is written there."""
        try:
            self.run()
        except Interrupted as problem:
            _log.info("run %r is left as it is: %s", self.coordinator.agreement.run, problem)
        except DpadmmError as problem:
            self.coordinator.stopped(str(problem))

    def run(self) -> None:
        """Run until all rounds are complete; `FederationStopped` where the rule says so, else `Interrupted`."""
        self._since = self.clock()
        while not self.coordinator.is_done:
            self.coordinator.refresh()
            self._invite()
            if not self.coordinator.absent:
                self._ask()
            for node, envelope in self.transport.receive():
                self._take(node, envelope)
            self._check_time()

    def _invite(self) -> None:
        now, taken = self.clock(), set(self._seats.values())
        for node in self.transport.nodes() if self.coordinator.absent else ():
            is_due = now - self._invited.get(node, NEVER) > self.resend_seconds
            if node not in taken and is_due:
                self._invited[node] = now
                self.transport.send(node, self.coordinator.invitation())

    def _ask(self) -> None:
        now, due = self.clock(), self.coordinator.requests()
        self._asked = {(each.agent, each.mark): self._asked.get((each.agent, each.mark), NEVER) for each in due}
        for agent, mark, envelope in due:
            if now - self._asked[agent, mark] > self.resend_seconds:
                self._asked[agent, mark] = now
                self.transport.send(self._seats[agent], envelope)

    def _take(self, node: Hashable, envelope: bytes | None) -> None:
        agent = next((agent for agent, place in self._seats.items() if place == node), None)
        if envelope is None:
            self._lose(node, agent)
            return
        try:
            if agent is None:
                self._seat(node, envelope)
            elif self.coordinator.accept(agent, envelope):
                self._asked.clear()
                self._since = self.clock()
        except AwaitsApproval as problem:  # it is invited again, until the owner has looked at the terms
            if node not in self._awaited:
                _log.info("waiting for a silo's owner: %s", problem)
            self._awaited.add(node)
        except PeerError as problem:
            raise FederationStopped(str(problem)) from problem

    def _lose(self, node: Hashable, agent: int | None) -> None:
        """A node could not be reached: invite it again, and whoever appears; its silo may come back as another node."""
        self._invited[node] = self.clock() - self.resend_seconds + min(RETRY_SECONDS, self.resend_seconds)
        if agent is not None:
            _log.warning("%s is out of reach", self.coordinator.name(agent))
            self._seats[agent] = None
            self._asked = {place: sent for place, sent in self._asked.items() if place[0] != agent}
            self.coordinator.lost(agent)

    def _seat(self, node: Hashable, envelope: bytes) -> None:
        agent = self.coordinator.accept_joined(envelope)
        if agent is None:
            _log.warning("node %s did not answer the invitation: it is not a participant, or its answer is late", node)
            return
        if agent not in self._seats:  # one that is lost again and again does not put off the end of the wait
            self._since = self.clock()
        self._seats[agent] = node

    def _check_time(self) -> None:
        agreement = self.coordinator.agreement
        if self.coordinator.is_done or self.clock() - self._since <= agreement.wait_seconds:
            return
        missing = self.coordinator.silent()
        if not missing:  # another process has just completed the last round
            return
        if agreement.missing is Missing.WAIT:
            names = ", ".join(self.coordinator.name(agent) for agent in missing)
            _log.warning("still waiting for %s", names)
            self._since = self.clock()
            return
        self.coordinator.stop_for_missing(missing)
