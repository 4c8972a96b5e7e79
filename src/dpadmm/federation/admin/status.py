"""How silos and coordinators stand, read from their directories while they serve or rest.

Nothing is written there, and nobody is disturbed; no table is read.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from statistics import median
from typing import Any

from dpadmm.errors import DpadmmError
from dpadmm.federation.coordinator import Coordinator
from dpadmm.federation.coordinator_store import DONE, ENDED, NEW, STOPPED, CoordinatorFiles
from dpadmm.federation.https.processes import CoordinatorProcess, SiloProcess, read_status
from dpadmm.federation.party_directory import is_held
from dpadmm.federation.policy import Policy
from dpadmm.federation.silo_directory import SiloDirectory
from dpadmm.federation.silo_store import LogEntry, SiloStore, open_store
from dpadmm.federation.terms import Terms

SHOWN_REFUSALS = 5
"""How many of the latest refusals are listed."""


class RunState(Enum):
    """Where a run stands in a silo (the first six), or at its coordinator."""

    APPROVED = "approved"
    JOINED = "joined"
    RUNNING = "running"
    FINISHED = "finished"
    ENDED = "ended here"
    REFUSED = "refused"
    NOT_REQUESTED = "not requested yet"
    RESTING = "rests while nobody serves"
    STOPPED = "stopped"


OPEN = (RunState.APPROVED, RunState.JOINED, RunState.RUNNING, RunState.RESTING)
"""States of runs that may go on."""


@dataclass(frozen=True, kw_only=True)
class MemberStatus:
    """One silo of a run, at its coordinator.

    has_joined: since the serving process drives the run, None where that is not known. seen: when it has last polled,
    None if not since the process has started. epsilon: certified cost of what was answered so far.
    """

    name: str
    is_connected: bool
    seen: str | None
    has_joined: bool | None
    has_answered: bool
    is_awaited: bool
    epsilon: float


@dataclass(frozen=True, kw_only=True)
class RunStatus:
    """One run, by the digest of its terms.

    round: the last that was answered, or at the coordinator completed; None before the first, and -1 while columns are
    counted in round 0. epsilon, spent_epsilon: certified cost of the whole run at `delta`, and at a silo of what was
    answered so far. reason: why it is refused, or has stopped. What is None is not known: the terms cannot be used.
    seconds_per_round, silos: known to the coordinator alone; the median, and everybody who takes part.
    """

    digest: str
    state: RunState
    run: str = ""
    method: str = ""
    round: int | None = None
    rounds: int = 0
    epsilon: float | None = None
    delta: float | None = None
    spent_epsilon: float | None = None
    reason: str | None = None
    seconds_per_round: float | None = None
    silos: tuple[MemberStatus, ...] = ()


@dataclass(frozen=True, kw_only=True)
class BudgetStatus:
    """What the silo's ledger says; against: who is looking."""

    spent_epsilon: float
    left_epsilon: float
    epsilon: float
    delta: float
    against: str


@dataclass(frozen=True, kw_only=True)
class DataStatus:
    """The silo's table, and why it cannot be read. Whether it is the one that the ledger knows is for the doctor."""

    path: str
    modified: str | None = None
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class Status:
    """How a coordinator stands, or a silo; `process` as the serving, or the last, process has written it."""

    directory: str
    is_serving: bool
    process: SiloProcess | CoordinatorProcess | None
    runs: tuple[RunStatus, ...]

    def as_json(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        plain = asdict(self) | {"runs": [asdict(run) | {"state": run.state.value} for run in self.runs]}
        for listed in ("connected", "seen", "joined"):  # shown with the runs, by name
            (plain["process"] or {}).pop(listed, None)
        return plain


@dataclass(frozen=True, kw_only=True)
class SiloStatus(Status):
    """How a silo stands. noise: secure, or test for a rehearsal, which protects nobody."""

    name: str
    noise: str
    budget: BudgetStatus
    data: DataStatus
    refusals: tuple[LogEntry, ...]


@dataclass(frozen=True)
class SiloView:
    """A silo's files, open for reading."""

    files: SiloDirectory
    policy: Policy
    store: SiloStore

    def runs(self) -> tuple[RunStatus, ...]:
        """Return every run, the oldest first."""
        return tuple(self._run(terms) for terms in self.store.all_terms(with_closed=True))

    def _run(self, terms: Terms) -> RunStatus:
        last, kept = self.store.last(terms.digest)
        state = RunState.JOINED if self.store.is_joined(terms.digest) else RunState.APPROVED
        found = RunStatus(
            digest=terms.digest,
            state=state if last is None else RunState.RUNNING,
            run=terms.run,
            method=terms.method,
            round=last,
            rounds=terms.rounds,
            delta=terms.delta,
        )
        try:
            agent = terms.agent(self.policy.name)
            is_last = last in terms.rounds_of(agent)[-1:]
            spent = terms.spent_epsilon(agent, terms.first_round - 1 if last is None else last)
            found = replace(found, spent_epsilon=spent, epsilon=terms.spent_epsilon(agent, terms.rounds))
            if (last is not None and kept is None) or (not is_last and self.store.is_closed(terms.digest)):
                return replace(found, state=RunState.ENDED)
            if is_last:
                return replace(found, state=RunState.FINISHED)
            self.policy.check_terms(terms)
            self.policy.check_observers(terms, self.store.ledger.protection)
            self.policy.check_releases(terms.all_releases(agent))
        except DpadmmError as refusal:
            return replace(found, state=RunState.REFUSED, reason=str(refusal))
        return found


@contextmanager
def open_view(directory: Path) -> Iterator[SiloView]:
    """Open a silo's files for reading."""
    files = SiloDirectory(directory)
    files.check()
    policy = Policy.load(files.policy)
    with open_store(files, policy.noise, for_reading=True) as store:
        yield SiloView(files, policy, store)


def silo_status(directory: Path) -> SiloStatus:
    """Return how the silo of a directory stands."""
    with open_view(directory) as view:
        found = view.store.ledger.statement()
        return SiloStatus(
            name=view.policy.name,
            directory=str(view.files.directory.absolute()),
            noise=view.policy.noise.value,
            is_serving=is_held(view.files.lock),
            process=read_status(view.files.status, SiloProcess),
            budget=BudgetStatus(
                spent_epsilon=found.spent_epsilon,
                left_epsilon=found.left_epsilon,
                epsilon=found.budget.epsilon,
                delta=found.budget.delta,
                against=found.protection.observer,
            ),
            data=_data_status(Path(view.policy.data)),
            runs=view.runs(),
            refusals=view.store.latest_refusals(SHOWN_REFUSALS),
        )


def _data_status(path: Path) -> DataStatus:
    try:
        modified = datetime.fromtimestamp(round(path.stat().st_mtime), UTC).isoformat()
    except OSError as problem:
        return DataStatus(path=str(path), problem=problem.strerror)
    refused = None if os.access(path, os.R_OK) else "this user has no permission to read it"
    return DataStatus(path=str(path), modified=modified, problem=refused)


def coordinator_status(directory: Path) -> Status:
    """Return how the coordinator of a directory stands."""
    files = CoordinatorFiles(directory)
    files.check()
    is_serving, process = is_held(files.lock), read_status(files.status, CoordinatorProcess)
    return Status(
        directory=str(files.directory.absolute()),
        is_serving=is_serving,
        process=process,
        runs=coordinator_runs(files, process if is_serving else None),
    )


def coordinator_runs(files: CoordinatorFiles, process: CoordinatorProcess | None) -> tuple[RunStatus, ...]:
    """Return how all runs stand, by the file and by what the serving process has written; None where nobody serves."""
    with closing(files.open_store(for_reading=True)) as store:
        return tuple(_run_status(Coordinator(store, digest, None), process) for digest in store.runs())


def _run_status(run: Coordinator, process: CoordinatorProcess | None) -> RunStatus:
    terms, (stored, reason) = run.terms, run.stored.state()
    states = {NEW: RunState.NOT_REQUESTED, STOPPED: RunState.STOPPED, ENDED: RunState.STOPPED, DONE: RunState.FINISHED}
    seconds = run.seconds_per_round()
    return RunStatus(
        digest=terms.digest,
        state=states.get(stored, RunState.RESTING if process is None else RunState.RUNNING),
        run=terms.run,
        method=terms.method,
        round=run.round,
        rounds=terms.rounds,
        epsilon=terms.epsilon,
        delta=terms.delta,
        reason=reason,
        seconds_per_round=median(seconds) if seconds else None,
        silos=_members(run, process),
    )


def _members(run: Coordinator, process: CoordinatorProcess | None) -> tuple[MemberStatus, ...]:
    """Say of everybody whether it is there, and whether it is waited for: who is absent, or else has not answered."""
    progress, people = run.progress(), run.terms.participants
    joined = None if process is None else process.joined.get(run.terms.digest)
    absent = [] if joined is None or run.is_done else [each.name for each in people if each.name not in joined]
    spent = dict(progress.epsilon)
    return tuple(
        MemberStatus(
            name=person.name,
            is_connected=process is not None and person.key in process.connected,
            seen=None if process is None else process.seen.get(person.key),
            has_joined=None if joined is None else person.name in joined,
            has_answered=run.is_done or person.name in progress.answered,
            is_awaited=person.name in (absent or progress.waiting_for),
            epsilon=spent[person.name],
        )
        for person in people
    )
