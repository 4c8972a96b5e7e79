"""The coordinator: asks, collects, exchanges, and keeps every step in its file; independent of any transport.

A round is complete when every silo that was asked has answered; then the exchange (with the coordinator's own noise,
if the method has any) is stored, and only then asked for the next. After a crash at any point the same object opened on
the same file asks for what is missing, and the silos repeat what they have answered. Silos are known by the keys that
the terms name.
"""

import logging
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dpadmm.errors import InputError
from dpadmm.federation import messages
from dpadmm.federation.coordinator_store import (
    DONE,
    ENDED,
    JOINING,
    STOPPED,
    WANTED,
    CoordinatorFiles,
    CoordinatorStore,
    StoredRun,
)
from dpadmm.federation.errors import FederationStopped, Refusal, printable, refusing_unexpected
from dpadmm.federation.inbox import pooled_counts, read_answer
from dpadmm.federation.keys import SigningKey, body_of, open_envelope
from dpadmm.federation.masked_sums import TakenSum, total_of
from dpadmm.federation.messages import Confirmations, Join, Joined, Message, Refused, Step, Vector
from dpadmm.federation.rollback_detection import RollbackQuestions
from dpadmm.federation.terms import Missing, Terms
from dpadmm.methods.base import Agents
from dpadmm.noise.masks import Uint64s
from dpadmm.noise.mechanisms import COORDINATOR
from dpadmm.privacy.ledger.spending import PROFILE_ROUND
from dpadmm.problems.arrays import Floats

_OTHER_KEY = "The terms name a different coordinator's key, not this one's."
_log = logging.getLogger("dpadmm.coordinator")


@dataclass(frozen=True)
class Progress:
    """Where a federation stands: what `dpadmm federate` shows. `round` is -1 while columns are counted in round 0."""

    round: int
    rounds: int
    answered: tuple[str, ...]
    waiting_for: tuple[str, ...]
    epsilon: tuple[tuple[str, float], ...]


class Request(NamedTuple):
    """A signed request for the silo with this key, with the mark by which a refusal names it."""

    key: str
    mark: str
    envelope: bytes

    @property
    def name(self) -> tuple[str, str]:
        """What distinguishes it from other requests of the run."""
        return self.key, self.mark


class Coordinator:
    """One run of a federation, in the coordinator's file."""

    def __init__(self, store: CoordinatorStore, digest: str, key: SigningKey | None) -> None:
        """Open the run of the terms with this digest; without a key to look at it alone."""
        self.store, self.stored, self._key = store, StoredRun(store, digest), key
        self.terms: Terms = self.stored.terms()
        self._agents = {person.key: agent for agent, person in enumerate(self.terms.participants)}
        self._joined: set[int] = set()
        self._not_approved: set[int] = set()
        self._questions = RollbackQuestions(self.terms, time.time)
        self._handed: set[str] = set()
        self._made: dict[tuple[int, int], Request] = {}

    @classmethod
    def start(cls, store: CoordinatorStore, terms: Terms, key: SigningKey) -> "Coordinator":
        """Open the run of these terms, or start it: check the terms and write them down."""
        if terms.digest not in store.runs():
            terms.check()
            if terms.coordinator != key.public:
                raise InputError(_OTHER_KEY)
            StoredRun.start(store, terms)
        return cls(store, terms.digest, key)

    def close(self) -> None:
        """Close the file."""
        self.store.close()

    def check_in_place(self) -> None:
        """Refuse to go on where the file was replaced or removed."""
        self.store.check_in_place()

    @property
    def round(self) -> int:
        """The last complete round; the one before the first where none is."""
        found = self.stored.last_round()
        return self.terms.first_round - 1 if found is None else found

    @property
    def is_done(self) -> bool:
        """Whether all rounds are complete."""
        return self.round >= self.terms.rounds

    def name(self, agent: int) -> str:
        """Return a silo's name."""
        return self.terms.participants[agent].name

    @cached_property
    def invitation(self) -> bytes:
        """The signed invitation; the same for every silo, and harmless to send twice."""
        return self._seal(Join(self.terms))

    def _seal(self, message: Message) -> bytes:
        if self._key is None:
            raise InputError("This run was opened without a key: it can be read, but not driven.")
        if self._key.public != self.terms.coordinator:  # restored from before the key was changed
            raise InputError(_OTHER_KEY)
        return self._key.seal(message.encode())

    def _to(self, agent: int, envelope: bytes) -> Request:
        return Request(self.terms.participants[agent].key, messages.mark(body_of(envelope)), envelope)

    # --- what is due -------------------------------------------------------------------------------------------------

    @property
    def absent(self) -> list[int]:
        """Silos that have not joined since this object was opened."""
        return [agent for agent in range(len(self.terms.participants)) if agent not in self._joined]

    def joined(self) -> tuple[str, ...]:
        """Return who has joined since this object was opened; any thread may ask."""
        return tuple(self.name(agent) for agent in sorted(self._joined))

    def waiting_for(self) -> list[int]:
        """Return the silos whose answer to the round under way is missing."""
        if self.is_done:
            return []
        k = self.round + 1
        done = self.stored.answers(k)
        if len(done) == len(self.terms.agents_of(k)):  # everything had arrived when the last process ended
            self._finish_round(k)
            return self.waiting_for()
        return [agent for agent in self.terms.agents_of(k) if agent not in done]

    def requests(self) -> list[Request]:
        """Return what must be sent now: invitations, until all have joined; then the requests of the round under way.

        A silo that wants to be confirmed gets what lets it go on instead (`rollback_detection`).
        """
        if self.absent:
            return [self._to(agent, self.invitation) for agent in self.absent]
        waiting = self.waiting_for()
        sent = []
        for agent, message in self._questions.due(waiting):
            sent.append(self._to(agent, self._seal(message)))
            if isinstance(message, Confirmations):
                self._handed.add(sent[-1].mark)
        return sent + [self._request(agent) for agent in waiting if not self._questions.is_asking(agent)]

    def _request(self, agent: int) -> Request:
        """Return the signed request of the round under way for one silo; made once."""
        k = self.round + 1
        if (agent, k) not in self._made:
            self._made = {place: made for place, made in self._made.items() if place[1] == k}
            self._made[agent, k] = self._to(agent, self._seal(self._step(agent, k)))
        return self._made[agent, k]

    def _step(self, agent: int, k: int) -> Step:
        relay: tuple[bytes, ...] = ()
        inbox = np.zeros((0, self.terms.dimension))
        if k > 1 and self.terms.is_graph and self.terms.network is not None:
            before = self.stored.answers(k - 1)
            relay = tuple(before[int(neighbour)] for neighbour in self.terms.network.neighbours(agent))
        elif k > 1:
            inbox = self._inbox(k - 1)[:, :, 0]
        if self.terms.profile is not None and k == self.terms.first_training(agent):
            if self.terms.spec.facts.is_pooled:
                inbox = self.stored.inbox(PROFILE_ROUND)[None, :]
            else:
                relay = tuple(self.stored.answers(PROFILE_ROUND)[who] for who in self.terms.agents_of(PROFILE_ROUND))
        if self.terms.is_masked and k == self.terms.first_round:
            relay = tuple(self.stored.answers(JOINING).values())
        return Step(self.terms.digest, agent, k, Vector.of(inbox), relay)

    # --- what comes --------------------------------------------------------------------------------------------------

    def accept(self, key: str, envelope: bytes) -> bool:
        """Take an answer of the silo with this key; return whether the silo has joined, or the round is complete now.

        `FederationStopped` where the run cannot go on with it. Strangers and late copies change nothing.
        """
        agent = self._agents.get(key)
        if agent is None or self.is_done:
            return False
        if agent not in self._joined:
            return self._accept_joined(agent, key, envelope)
        k = self.round + 1
        try:
            with refusing_unexpected():
                message = messages.read(open_envelope(envelope, key))
                if self._questions.take(agent, envelope, message) or self._is_late(agent, message, k):
                    return False
                read_answer(envelope, self.terms, agent, k)
        except Refusal as problem:
            if self.stored.has_answer(agent, envelope):
                return False  # a repeat
            self._log("refused", f"answer of {self.name(agent)} to round {k}: {problem}")
            raise FederationStopped(
                f"The answer of {self.name(agent)} to round {k} is unusable: {problem}"
            ) from problem
        self.stored.add_answer(k, agent, envelope)
        if len(self.stored.answers(k)) < len(self.terms.agents_of(k)):
            return False
        self._finish_round(k)
        return True

    def _accept_joined(self, agent: int, key: str, envelope: bytes) -> bool:
        """Take what a silo answers to its invitation; return whether it has joined.

        What it has signed for something else, or a stranger under its name, changes nothing. An owner who has not
        approved yet is waited for.
        """
        try:
            with refusing_unexpected():
                answer = messages.read(open_envelope(envelope, key))
        except Refusal:
            return False
        name = self.name(agent)
        if isinstance(answer, Refused) and answer.request == messages.mark(body_of(self.invitation)):
            reason = f"{name} refuses: {printable(answer.reason)}"
            if answer.code != "not_approved":
                raise FederationStopped(reason)
            if agent not in self._not_approved:
                _log.info("waiting for a silo's owner: %s", reason)
            self._not_approved.add(agent)
        if not isinstance(answer, Joined) or (answer.digest, answer.agent) != (self.terms.digest, agent):
            return False
        if answer.plan != self.terms.plan_mark:
            raise FederationStopped(
                f"{name} computes different noise from the same terms. Does it run a different version of dpadmm?"
            )
        if self.terms.is_masked:
            self._keep_mask_key(agent, envelope, answer)
        self._joined.add(agent)
        _log.info("run %r: %s has joined", self.terms.run, name)
        return True

    def _keep_mask_key(self, agent: int, envelope: bytes, answer: Joined) -> None:
        """Keep the message by which a silo joined, to be relayed to all; it has one mask key for these terms."""
        if answer.mask_key is None:
            raise FederationStopped(
                f"{self.name(agent)} joined without a mask key. Does it run a different version of dpadmm?"
            )
        self.stored.add_answer(JOINING, agent, envelope)
        if self.stored.answers(JOINING)[agent] != envelope:
            raise FederationStopped(
                f"{self.name(agent)} joined with a different mask key before: is its state an older copy? What was "
                "sent under the first key cannot be completed with the second."
            )

    def _is_late(self, agent: int, answer: Message, k: int) -> bool:
        """Say whether an answer is a second copy that a repeated request brought; raise the refusal of this request."""
        is_asked = agent in self.terms.agents_of(k)
        if isinstance(answer, Refused):
            if answer.request in self._handed or (is_asked and answer.request == self._request(agent).mark):
                raise Refusal(printable(answer.reason))
            return True
        return not is_asked or (isinstance(answer, Joined) and answer.digest == self.terms.digest)

    def apply_missing_rule(self) -> None:
        """Wait on for silos that do not answer in time, or stop the run, as the terms say."""
        waiting = self.absent or self.waiting_for()
        # A silo that wants to be confirmed waits itself.
        silent = [agent for agent in waiting if not self._questions.is_asking(agent)] or waiting
        if not silent:  # another process has just completed the last round
            return
        names = ", ".join(map(self.name, silent))
        if self.terms.missing is Missing.WAIT:
            _log.warning("still waiting for %s", names)
            return
        reason = f"No usable answer from {names} in round {self.round + 1}."
        self._log("missing", reason)
        raise FederationStopped(
            f"{reason} The federation has stopped; run it again to continue from round {max(self.round, 0)}."
        )

    # --- whether it is driven ----------------------------------------------------------------------------------------

    def ask(self) -> None:
        """Write down that somebody wants this run to be driven on, also after it has stopped, unless it was ended."""
        state, reason = self.stored.state()
        if state == ENDED:
            raise FederationStopped(f"{reason} Agree on a new run, under a new name.")
        if state not in (DONE, WANTED):
            self.stored.change_state(WANTED)

    def stop(self, reason: str) -> None:
        """Write down why the run is not driven on, until somebody asks again."""
        _log.warning("stopped: %s", reason)
        self.stored.change_state(STOPPED, reason)

    def end(self, reason: str) -> None:
        """Write down that the run is never driven on."""
        _log.warning("ended: %s", reason)
        self.stored.change_state(ENDED, reason)

    def progress(self) -> Progress:
        """Return where the federation stands."""
        k = min(self.round + 1, self.terms.rounds)
        done, asked = self.stored.answers(k), self.terms.agents_of(k)
        spent = [
            (person.name, self.terms.spent_epsilon(agent, self.round + (agent in done and not self.is_done)))
            for agent, person in enumerate(self.terms.participants)
        ]
        return Progress(
            round=self.round,
            rounds=self.terms.rounds,
            answered=tuple(self.name(agent) for agent in asked if agent in done),
            waiting_for=tuple(self.name(agent) for agent in asked if agent not in done and not self.is_done),
            epsilon=tuple(spent),
        )

    def estimates(self) -> Floats:
        """Return the public estimate after each complete round of training, (rounds, d)."""
        return np.array([made for made, _ in self.stored.estimates()]).reshape(-1, self.terms.dimension)

    def seconds_per_round(self) -> tuple[float, ...]:
        """Return how long each round of training but the first took."""
        return tuple(float(seconds) for seconds in np.diff([at for _, at in self.stored.estimates()]))

    def counts(self) -> Floats | None:
        """Return the pooled noisy counts of round 0; None where there is none, or not yet."""
        if self.terms.profile is None or self.round < PROFILE_ROUND:
            return None
        return self.stored.inbox(PROFILE_ROUND)

    # --- rounds -------------------------------------------------------------------------------------------------------

    def _inbox(self, k: int) -> Floats:
        """Return what the exchange of a round has made; before the first, what the method starts from."""
        if k > 0:
            return self.stored.inbox(k)
        problem, network = self.terms.problem, self.terms.network
        nobody: Any = None  # the first inbox depends on public values only; no subproblem is solved for it
        n = problem.n_agents
        degrees = np.zeros(n, dtype=np.int64) if network is None else np.asarray(network.degrees)
        agents = Agents(problem.functions, problem.weights, problem.regulariser, nobody, np.arange(n), degrees, n)
        return self.terms.algorithm.start(agents, 1)[1]

    def _finish_round(self, k: int) -> None:
        """Exchange the answers, with the coordinator's noise if it has any, and store the result in one step.

        What came under masks is added up first, and all noise is in that sum.
        """
        terms, answers, asked = self.terms, self.stored.answers(k), self.terms.agents_of(k)
        sent = [read_answer(answers[agent], terms, agent, k) for agent in asked]
        vectors = self._sum(k, sent)[None, :] if terms.is_masked else np.stack(sent)
        if k == PROFILE_ROUND:
            self._store_round(k, vectors[0] if terms.is_masked else pooled_counts(terms, vectors), np.zeros(0))
            return
        reported = vectors[:, :, None]
        noise = TakenSum(terms.summed(k)[0], k, reported) if terms.is_masked else terms.planned_noise()
        inbox = terms.algorithm.exchange(k, terms.problem, terms.network, self._inbox(k - 1), reported, noise)
        noise.check_drawn(k, COORDINATOR)
        # On a graph every broadcast is public and their mean stands for the run; otherwise the coordinator's own.
        self._store_round(k, inbox, reported.mean(axis=0)[:, 0] if terms.is_graph else inbox[0, :, 0])

    def _sum(self, k: int, parts: list[Uint64s]) -> Floats:
        try:
            return total_of(self.terms, k, parts)
        except Refusal as refusal:
            reason = (
                f"The sum of round {k} cannot be used: {refusal} There is no way to tell which silo's part is wrong."
            )
            self._log("refused", reason)
            raise FederationStopped(f"{reason} The run ends here; start a new one, under new terms.") from refusal

    def _store_round(self, k: int, inbox: Floats, estimate: Floats) -> None:
        self.stored.add_round(k, inbox, estimate, is_last=k == self.terms.rounds)
        _log.info("run %r: round %d of %d is complete", self.terms.run, k, self.terms.rounds)

    def _log(self, event: str, detail: str) -> None:
        _log.warning("%s: %s", event, detail)
        self.stored.log(event, detail)


def open_run(files: CoordinatorFiles, terms: Terms) -> Coordinator:
    """Open the run of these terms in a coordinator's directory, or start it; whoever calls closes it."""
    key, store = files.key(), files.open_store()
    try:
        return Coordinator.start(store, terms, key)
    except BaseException:
        store.close()
        raise
