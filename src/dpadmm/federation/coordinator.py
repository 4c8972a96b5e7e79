"""The coordinator: asks, collects, exchanges, and remembers every step in a file; independent of any transport.

A round is complete when every silo that was asked has answered; then the exchange (with the coordinator's own noise,
if the method has any) is stored, and only then asked for the next. After a crash at any point the same object opened on
the same file asks for what is missing, and the silos repeat what they have answered.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from dpadmm.errors import InputError
from dpadmm.federation import messages, sqlite_file
from dpadmm.federation.agreement import Agreement
from dpadmm.federation.columns import pooled_counts
from dpadmm.federation.errors import (
    AwaitsApproval,
    FederationStopped,
    PeerError,
    Refusal,
    printable,
    refusing_unexpected,
)
from dpadmm.federation.inbox import read_step
from dpadmm.federation.keys import SigningKey, open_envelope, split
from dpadmm.federation.masked_sums import TakenSum, read_summand, total_of
from dpadmm.federation.messages import Confirmations, Join, Joined, Message, Refused, Step, Vector
from dpadmm.federation.rollback_detection import RollbackQuestions
from dpadmm.federation.terms import PROFILE_ROUND, AgreedRun, agreed_run
from dpadmm.methods.base import Agents
from dpadmm.noise.masks import Words
from dpadmm.noise.mechanisms import COORDINATOR
from dpadmm.privacy.ledger.store import identity
from dpadmm.problems.arrays import Floats

APPLICATION = 0x64704132
_TABLES = """
CREATE TABLE run (terms TEXT NOT NULL);
CREATE TABLE answers (round INTEGER, agent INTEGER, envelope BLOB NOT NULL, PRIMARY KEY (round, agent));
CREATE TABLE rounds (round INTEGER PRIMARY KEY, inbox BLOB NOT NULL, estimate BLOB NOT NULL, time REAL NOT NULL);
CREATE TABLE roster (agent INTEGER PRIMARY KEY, envelope BLOB NOT NULL);
CREATE TABLE log (time REAL NOT NULL, event TEXT NOT NULL, detail TEXT NOT NULL);
"""
"""The roster holds the messages with the silos' signed mask keys."""

MOST_NOTES = 10_000
"""Lines of its log that a run keeps, the latest ones; and all that say whether it is to be driven on."""

_ASKED, _STOPPED, _ENDED = "asked", "stopped", "ended"
_OTHER_KEY = "The federation file names a different coordinator's key, not this one's."
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
    """A signed request for one silo, with the mark by which a refusal names it."""

    agent: int
    mark: str
    envelope: bytes

    @classmethod
    def of(cls, agent: int, envelope: bytes) -> "Request":
        """Return an envelope for a silo."""
        return cls(agent, messages.mark(split(envelope)[1]), envelope)


class Coordinator:
    """One run of a federation, in a file of its own."""

    def __init__(self, path: Path, key: SigningKey | None, clock: Callable[[], float]) -> None:
        """Open the run at `path` (see `create`); without a key to look at it alone. `clock` gives the log's time."""
        connect = sqlite_file.connect_for_reading if key is None else sqlite_file.connect
        self._connection = connect(Path(path), APPLICATION, _TABLES)
        self.path, self._file = Path(path), identity(Path(path))
        self._key, self._clock = key, clock
        try:
            row = self._connection.execute("SELECT terms FROM run").fetchone()
            if row is None:
                raise FederationStopped("The run was never started: its file has no terms.")
            self.terms: AgreedRun = agreed_run(Agreement.from_json(row[0]))
        except BaseException:
            self._connection.close()
            raise
        self._joined: set[int] = set()
        self._questions = RollbackQuestions(self.terms, self._clock)
        self._handed: set[str] = set()
        self._made: dict[tuple[int, int], Request] = {}

    @classmethod
    def create(cls, path: Path, agreement: Agreement, key: SigningKey, clock: Callable[[], float]) -> "Coordinator":
        """Start a run: check the terms and write them down."""
        agreed_run(agreement)
        if agreement.coordinator != key.public:
            raise InputError(_OTHER_KEY)
        first = "INSERT INTO run VALUES (?)", (agreement.as_json(),)
        sqlite_file.create(path, APPLICATION, _TABLES, first)
        return cls(path, key, clock)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def refresh(self) -> None:
        """Refuse to go on where the file was replaced or removed: what is open here is no longer the run's file."""
        if identity(self.path) != self._file:
            raise FederationStopped(
                f"The file of the run, {self.path}, was replaced or removed while it was in use. Put the newest one "
                "in its place, and run the command again to continue from there."
            )

    @property
    def agreement(self) -> Agreement:
        """The terms."""
        return self.terms.agreement

    @property
    def round(self) -> int:
        """The last complete round; the one before the first where none is."""
        (found,) = self._connection.execute("SELECT MAX(round) FROM rounds").fetchone()
        return self.terms.first_round - 1 if found is None else int(found)

    @property
    def is_done(self) -> bool:
        """Whether all rounds are complete."""
        return self.round >= self.agreement.rounds

    def name(self, agent: int) -> str:
        """Return a silo's name."""
        return self.agreement.participants[agent].name

    def invitation(self) -> bytes:
        """Return the signed invitation; the same for every silo, and harmless to send twice."""
        return self._sealed(Join(self.agreement))

    def _sealed(self, told: Message) -> bytes:
        if self._key is None:
            raise InputError("This run was opened without a key: it can be read, but not driven.")
        return self._key.seal(told.encode())

    def accept_joined(self, envelope: bytes) -> int | None:
        """Return the number of the silo that has joined with this answer; `PeerError` if the answer says no.

        Who answers is told by the signature, not by the transport. None where nobody answers this invitation: an
        envelope of a stranger, or one that a participant has signed for something else.
        """
        for agent, participant in enumerate(self.agreement.participants):
            try:
                with refusing_unexpected():
                    answer = messages.read(open_envelope(envelope, participant.key))
            except Refusal:
                continue
            if isinstance(answer, Refused) and answer.request == messages.mark(split(self.invitation())[1]):
                kind = AwaitsApproval if answer.code == "not_approved" else PeerError
                raise kind(f"{participant.name} refuses: {printable(answer.reason)}")
            if not isinstance(answer, Joined) or (answer.digest, answer.agent) != (self.agreement.digest, agent):
                return None
            if answer.plan != self.terms.mark:
                raise PeerError(
                    f"{participant.name} computes different noise from the same terms. Does it run a different "
                    "version of dpadmm?"
                )
            if self.terms.is_masked:
                self._keep_mask_key(agent, envelope, answer)
            self._joined.add(agent)
            _log.info("run %r: %s has joined", self.agreement.run, participant.name)
            return agent
        return None

    def _keep_mask_key(self, agent: int, envelope: bytes, answer: Joined) -> None:
        """Keep the message by which a silo joined, to be relayed to all; it has one mask key for these terms."""
        if answer.mask_key is None:
            raise PeerError(f"{self.name(agent)} joined without a mask key. Does it run a different version of dpadmm?")
        with sqlite_file.exclusive(self._connection):
            self._connection.execute("INSERT OR IGNORE INTO roster VALUES (?, ?)", (agent, envelope))
        if self._roster()[agent] != envelope:
            raise PeerError(
                f"{self.name(agent)} joined with a different mask key before: is its state an older copy? What was "
                "sent under the first key cannot be completed with the second."
            )

    def _roster(self) -> dict[int, bytes]:
        query = "SELECT agent, envelope FROM roster ORDER BY agent"
        return {int(a): bytes(e) for a, e in self._connection.execute(query).fetchall()}

    def lost(self, agent: int) -> None:
        """Let a silo join again that could not be reached."""
        self._joined.discard(agent)

    @property
    def absent(self) -> list[int]:
        """Silos that have not joined since this object was opened, or since they were lost."""
        return [agent for agent in range(len(self.agreement.participants)) if agent not in self._joined]

    def attendance(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return who has joined since this object was opened, and who has not; any thread may ask."""
        people, joined = self.agreement.participants, self._joined
        here = tuple(person.name for agent, person in enumerate(people) if agent in joined)
        return here, tuple(person.name for person in people if person.name not in here)

    def waiting_for(self) -> list[int]:
        """Return the silos whose answer to the round under way is missing."""
        if self.is_done:
            return []
        k = self.round + 1
        done = self._answered(k)
        if len(done) == len(self.terms.asked(k)):  # everything had arrived when the last process ended
            self._complete(k)
            return self.waiting_for()
        return [agent for agent in self.terms.asked(k) if agent not in done]

    def silent(self) -> list[int]:
        """Return those who are waited for and say nothing; a silo that wants to be confirmed waits itself."""
        waiting = self.absent or self.waiting_for()
        return [agent for agent in waiting if not self._questions.is_asking(agent)] or waiting

    def requests(self) -> "list[Request]":
        """Return what must be sent now: requests of the round under way, or what lets silos go on."""
        waiting = self.waiting_for()
        sent = []
        for agent, told in self._questions.due(waiting):
            sent.append(Request.of(agent, self._sealed(told)))
            if isinstance(told, Confirmations):
                self._handed.add(sent[-1].mark)
        return sent + [self._request(agent) for agent in waiting if not self._questions.is_asking(agent)]

    def accept(self, agent: int, envelope: bytes) -> bool:
        """Take a silo's answer; return whether the round is complete now. `PeerError` for anything unusable."""
        k = self.round + 1
        if self.is_done:
            return False  # a late copy of an earlier answer
        try:
            with refusing_unexpected():
                told = messages.read(open_envelope(envelope, self.agreement.participants[agent].key))
                if self._questions.take(agent, envelope, told) or self._is_late(agent, told, k):
                    return False
                if self.terms.is_masked:
                    read_summand(envelope, self.terms, agent, k)
                else:
                    read_step(envelope, self.agreement, agent, k)
        except Refusal as problem:
            query = "SELECT 1 FROM answers WHERE agent = ? AND envelope = ?"
            if self._connection.execute(query, (agent, envelope)).fetchone():
                return False  # a repeat
            self._note("refused", f"answer of {self.name(agent)} to round {k}: {problem}")
            raise PeerError(f"The answer of {self.name(agent)} to round {k} is unusable: {problem}") from problem
        with sqlite_file.exclusive(self._connection):
            self._connection.execute("INSERT OR IGNORE INTO answers VALUES (?, ?, ?)", (k, agent, envelope))
        if len(self._answered(k)) < len(self.terms.asked(k)):
            return False
        self._complete(k)
        return True

    def stop_for_missing(self, agents: list[int]) -> NoReturn:
        """Stop the run, since these silos do not answer."""
        said = f"No usable answer from {', '.join(map(self.name, agents))} in round {self.round + 1}."
        self._note("missing", said)
        raise FederationStopped(
            f"{said} The federation has stopped; run it again to continue from round {max(self.round, 0)}."
        )

    def ask(self) -> None:
        """Write down that somebody wants this run to be driven on, also after it has stopped, unless it was ended."""
        if self.is_done or self.is_wanted:
            return
        if self.is_ended:
            raise FederationStopped(f"{self.reason_to_stop()} Agree on a new run, under a new name.")
        if not self._is_own_key:
            raise InputError(_OTHER_KEY)
        self._note(_ASKED, "somebody asks for this run")

    @property
    def is_wanted(self) -> bool:
        """Whether somebody has asked for the run since it stopped last, and it can be driven on."""
        query = "SELECT event FROM log WHERE event IN (?, ?) ORDER BY rowid DESC LIMIT 1"
        is_asked = self._connection.execute(query, (_ASKED, _STOPPED)).fetchone() == (_ASKED,)
        return is_asked and not self.is_ended and self._is_own_key

    @property
    def _is_own_key(self) -> bool:
        """Whether the terms name the key at hand; who looks at the run alone has none to compare."""
        return self._key is None or self.agreement.coordinator == self._key.public

    @property
    def is_ended(self) -> bool:
        """Whether the run was ended for good."""
        return self._connection.execute("SELECT 1 FROM log WHERE event = ?", (_ENDED,)).fetchone() is not None

    def end(self, reason: str) -> None:
        """Write down that the run is never driven on."""
        self._note(_ENDED, reason)

    def stopped(self, reason: str) -> None:
        """Write down why a drive ended before the last round."""
        self._note(_STOPPED, reason)

    def reason_to_stop(self) -> str | None:
        """Return why the run has stopped, None while it is wanted."""
        if self.is_wanted:
            return None
        query = "SELECT detail FROM log WHERE event IN (?, ?) ORDER BY event = ? DESC, rowid DESC LIMIT 1"
        found = self._connection.execute(query, (_STOPPED, _ENDED, _ENDED)).fetchone()
        return None if found is None else str(found[0])

    def progress(self) -> Progress:
        """Return where the federation stands."""
        k = min(self.round + 1, self.agreement.rounds)
        done, asked = self._answered(k), self.terms.asked(k)
        spent = [
            (person.name, self.terms.epsilon(agent, self.round + (agent in done and not self.is_done)))
            for agent, person in enumerate(self.agreement.participants)
        ]
        return Progress(
            round=self.round,
            rounds=self.agreement.rounds,
            answered=tuple(self.name(agent) for agent in asked if agent in done),
            waiting_for=tuple(self.name(agent) for agent in asked if agent not in done and not self.is_done),
            epsilon=tuple(spent),
        )

    def estimates(self) -> Floats:
        """Return the public estimate after each complete round of training, (rounds, d)."""
        query = "SELECT estimate FROM rounds WHERE round > ? ORDER BY round"
        rows = self._connection.execute(query, (PROFILE_ROUND,)).fetchall()
        return np.array([sqlite_file.unpack(row[0])[0] for row in rows]).reshape(-1, self.agreement.dimension)

    def times(self) -> list[float]:
        """Return when each round of training was complete."""
        query = "SELECT time FROM rounds WHERE round > ? ORDER BY round"
        return [float(row[0]) for row in self._connection.execute(query, (PROFILE_ROUND,)).fetchall()]

    def counts(self) -> Floats | None:
        """Return the pooled noisy counts of round 0; None where there is none, or not yet."""
        if not self.terms.has_profile or self.round < PROFILE_ROUND:
            return None
        return self._stored_inbox(PROFILE_ROUND)

    def log(self) -> list[tuple[float, str, str]]:
        """Return what went wrong and was decided, oldest first."""
        return self._connection.execute("SELECT time, event, detail FROM log ORDER BY rowid").fetchall()

    def _answered(self, k: int) -> dict[int, bytes]:
        query = "SELECT agent, envelope FROM answers WHERE round = ?"
        return {int(a): bytes(e) for a, e in self._connection.execute(query, (k,)).fetchall()}

    def _is_late(self, agent: int, answer: Message, k: int) -> bool:
        """Say whether an answer is a second copy that a repeated request brought; raise the refusal of this request."""
        is_asked = agent in self.terms.asked(k)
        if isinstance(answer, Refused):
            if answer.request in self._handed or (is_asked and answer.request == self._request(agent).mark):
                raise Refusal(printable(answer.reason))
            return True
        return not is_asked or (isinstance(answer, Joined) and answer.digest == self.agreement.digest)

    def _request(self, agent: int) -> "Request":
        """Return the signed request of the round under way for one silo; made once."""
        k = self.round + 1
        if (agent, k) not in self._made:
            self._made = {place: made for place, made in self._made.items() if place[1] == k}
            self._made[agent, k] = Request.of(agent, self._sealed(self._step(agent, k)))
        return self._made[agent, k]

    def _step(self, agent: int, k: int) -> Step:
        relay: tuple[bytes, ...] = ()
        inbox = np.zeros((0, self.agreement.dimension))
        if k > 1 and self.terms.is_graph and self.terms.network is not None:
            before = self._answered(k - 1)
            relay = tuple(before[int(neighbour)] for neighbour in self.terms.network.neighbours(agent))
        elif k > 1:
            inbox = self._inbox(k - 1)[:, :, 0]
        if self.terms.has_profile and k == self.terms.first_training(agent):
            if self.terms.spec.facts.is_pooled:
                inbox = self._stored_inbox(PROFILE_ROUND)[None, :]
            else:
                relay = tuple(self._answered(PROFILE_ROUND)[who] for who in self.terms.asked(PROFILE_ROUND))
        if self.terms.is_masked and k == self.terms.first_round:
            relay = tuple(self._roster().values())
        return Step(self.agreement.digest, agent, k, Vector.of(inbox), relay)

    def _stored_inbox(self, k: int) -> Floats:
        query = "SELECT inbox FROM rounds WHERE round = ?"
        return sqlite_file.unpack(self._connection.execute(query, (k,)).fetchone()[0])[0]

    def _inbox(self, k: int) -> Floats:
        """Return what the exchange of a round has made; before the first, what the method starts from."""
        if k > 0:
            return self._stored_inbox(k)
        problem, network = self.terms.problem, self.terms.network
        nobody: Any = None  # the first inbox depends on public values only; no subproblem is solved for it
        n = problem.n_agents
        degrees = np.zeros(n, dtype=np.int64) if network is None else np.asarray(network.degrees)
        agents = Agents(problem.functions, problem.weights, problem.regulariser, nobody, np.arange(n), degrees, n)
        return self.terms.algorithm.start(agents, 1)[1]

    def _complete(self, k: int) -> None:
        """Exchange the answers, with the coordinator's noise if it has any, and store the result in one step.

        What came under masks is added up first, and all noise is in that sum.
        """
        terms, answers, asked = self.terms, self._answered(k), self.terms.asked(k)
        if terms.is_masked:
            vectors = self._sum(k, [read_summand(answers[agent], terms, agent, k) for agent in asked])[None, :]
        else:
            vectors = np.stack([read_step(answers[agent], self.agreement, agent, k) for agent in asked])
        if k == PROFILE_ROUND:
            self._store_round(k, vectors[0] if terms.is_masked else pooled_counts(terms, vectors), np.zeros(0))
            return
        told = vectors[:, :, None]
        noise = TakenSum(terms.summed(k)[0], k, told) if terms.is_masked else terms.noise()
        inbox = terms.algorithm.exchange(k, terms.problem, terms.network, self._inbox(k - 1), told, noise)
        noise.check_drawn(k, COORDINATOR)
        # On a graph every broadcast is public and their mean stands for the run; otherwise the coordinator's own.
        self._store_round(k, inbox, told.mean(axis=0)[:, 0] if terms.is_graph else inbox[0, :, 0])

    def _sum(self, k: int, parts: list[Words]) -> Floats:
        try:
            return total_of(self.terms, k, parts)
        except Refusal as refusal:
            said = f"The sum of round {k} cannot be used: {refusal} There is no way to tell which silo's part is wrong."
            self._note("refused", said)
            raise FederationStopped(f"{said} The run ends here; start a new one, under new terms.") from refusal

    def _store_round(self, k: int, inbox: Floats, estimate: Floats) -> None:
        with sqlite_file.exclusive(self._connection):
            row = (k, sqlite_file.pack([inbox]), sqlite_file.pack([estimate]), self._clock())
            self._connection.execute("INSERT OR IGNORE INTO rounds VALUES (?, ?, ?, ?)", row)
        _log.info("run %r: round %d of %d is complete", self.agreement.run, k, self.agreement.rounds)

    def _note(self, event: str, detail: str) -> None:
        _log.log(logging.INFO if event == _ASKED else logging.WARNING, "%s: %s", event, detail)
        with sqlite_file.exclusive(self._connection):
            self._connection.execute("INSERT INTO log VALUES (?, ?, ?)", (self._clock(), event, detail))
            oldest = "SELECT rowid FROM log ORDER BY rowid DESC LIMIT 1 OFFSET ?"
            forgotten = f"DELETE FROM log WHERE rowid <= ({oldest}) AND event NOT IN (?, ?, ?)"
            self._connection.execute(forgotten, (MOST_NOTES, _ASKED, _STOPPED, _ENDED))
