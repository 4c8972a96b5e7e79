"""How silos and coordinators stand, read off their directories while they serve or rest.

Nothing is written there, and nobody is disturbed. A table is read only where that is asked for.
"""

import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from dpadmm.errors import DpadmmError
from dpadmm.federation.agreement import Agreement, stored_terms
from dpadmm.federation.coordinator import Coordinator
from dpadmm.federation.coordinator_files import CoordinatorFiles
from dpadmm.federation.https.notice import CoordinatorNotice, SiloNotice, SiloPresence
from dpadmm.federation.locks import is_held
from dpadmm.federation.policy import Policy
from dpadmm.federation.refusal import reason_of
from dpadmm.federation.silo_files import SiloFiles, policy_records
from dpadmm.federation.silo_store import LogEntry, SiloStore, open_store
from dpadmm.federation.terms import agreed_run
from dpadmm.privacy.ledger import open_for_reading

SHOWN_REFUSALS = 5
"""How many of the latest refusals are told."""


class RunState(Enum):
    """Where a run stands in a silo."""

    APPROVED = "approved"
    JOINED = "joined"
    RUNNING = "running"
    FINISHED = "finished"
    ENDED = "ended here"
    REFUSED = "refused"


class DriveState(Enum):
    """Where a run stands at its coordinator."""

    NOT_ASKED = "not asked for yet"
    RUNNING = "running"
    RESTING = "rests while nobody serves"
    STOPPED = "stopped"
    FINISHED = "finished"
    UNREADABLE = "cannot be read"


@dataclass(frozen=True, kw_only=True)
class _Run:
    """What is told of a run on either side: its name and its terms' numbers.

    epsilon: certified cost of the whole run at `delta`. reason: why it is refused, or has stopped. What is None is not
    known: the terms cannot be used or read.
    """

    run: str = ""
    method: str = ""
    rounds: int = 0
    epsilon: float | None = None
    delta: float | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class SiloRun(_Run):
    """One run in a silo: the digest of its terms, where it stands, and what it costs.

    round: the last that was answered, None before the first. spent_epsilon: certified cost of what was answered so far.
    """

    digest: str
    round: int | None
    state: RunState = RunState.APPROVED
    spent_epsilon: float | None = None


@dataclass(frozen=True, kw_only=True)
class Member:
    """One silo of a run. has_joined: since the serving process drives the run, None where that is not known.

    seen: when it has last asked for letters, None if not since the process has started. epsilon: certified cost of what
    was answered so far.
    """

    name: str
    is_connected: bool
    seen: str | None
    has_joined: bool | None
    has_answered: bool
    is_awaited: bool
    epsilon: float


@dataclass(frozen=True, kw_only=True)
class CoordinatorRun(_Run):
    """One run of a coordinator: its file (the digest of its terms), where it stands, and everybody who takes part.

    round: the last that is complete, -1 while columns are counted in round 0. seconds_per_round: the median.
    """

    file: str
    state: DriveState
    round: int = 0
    seconds_per_round: float | None = None
    silos: tuple[Member, ...] = ()


@dataclass(frozen=True, kw_only=True)
class BudgetStatus:
    """What the silo's ledger says; against: who is looking. problem: why it cannot be read, and then nothing else."""

    spent_epsilon: float | None = None
    left_epsilon: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    against: str | None = None
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class DataStatus:
    """The silo's table. is_same: whether it is the one that the ledger knows; None where it was not read."""

    path: str
    is_readable: bool
    modified: str | None = None
    is_same: bool | None = None
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class _Status:
    """What is told of either side; `process` as the serving, or the last, process reported it."""

    directory: str
    is_serving: bool
    process: SiloNotice | CoordinatorNotice | None
    runs: tuple[SiloRun | CoordinatorRun, ...]

    def document(self) -> dict[str, Any]:
        """Return all of it as plain values; these names stay."""
        told = asdict(self) | {"runs": [asdict(run) | {"state": run.state.value} for run in self.runs]}
        for inner in ("silos", "runs"):  # of a coordinator's process: told with the runs, by name
            (told["process"] or {}).pop(inner, None)
        return told


@dataclass(frozen=True, kw_only=True)
class SiloStatus(_Status):
    """Everything that `dpadmm silo status` shows. noise: secure, or test for a rehearsal, which protects nobody."""

    name: str
    noise: str
    process: SiloNotice | None
    budget: BudgetStatus
    data: DataStatus
    runs: tuple[SiloRun, ...]
    refusals: tuple[LogEntry, ...]


@dataclass(frozen=True, kw_only=True)
class CoordinatorStatus(_Status):
    """Everything that `dpadmm coordinator status` shows."""

    process: CoordinatorNotice | None
    runs: tuple[CoordinatorRun, ...]


@dataclass(frozen=True)
class SiloView:
    """A silo's files, open for reading."""

    files: SiloFiles
    policy: Policy
    store: SiloStore

    @property
    def ledger(self) -> Path:
        """Its ledger."""
        return self.files.ledger(self.policy.noise)

    def runs(self) -> tuple[SiloRun, ...]:
        """Return every run, the oldest first."""
        return tuple(self._run(terms) for terms in self.store.agreements(with_closed=True))

    def _run(self, terms: Agreement) -> SiloRun:
        last, kept = self.store.last(terms.digest)
        found = SiloRun(
            run=terms.run, digest=terms.digest, method=terms.method, round=last, rounds=terms.rounds, delta=terms.delta
        )
        try:
            agreed, agent = agreed_run(terms), terms.agent(self.policy.name)
            found = replace(
                found,
                state=self._state(terms, last, is_ended=kept is None, is_last=last in agreed.rounds_of(agent)[-1:]),
                spent_epsilon=agreed.epsilon(agent, agreed.first_round - 1 if last is None else last),
                epsilon=agreed.epsilon(agent, terms.rounds),
            )
            if found.state in (RunState.APPROVED, RunState.JOINED, RunState.RUNNING):
                self.policy.check_terms(terms)
                self.policy.check_noise(agreed, agent)
        except DpadmmError as refusal:
            return replace(found, state=RunState.REFUSED, reason=str(refusal))
        return found

    def _state(self, terms: Agreement, last: int | None, *, is_ended: bool, is_last: bool) -> RunState:
        if not is_last and self.store.is_closed(terms.digest):
            return RunState.ENDED
        if last is not None:
            return RunState.ENDED if is_ended else RunState.FINISHED if is_last else RunState.RUNNING
        return RunState.JOINED if self.store.is_joined(terms.digest) else RunState.APPROVED


@contextmanager
def viewed(directory: Path) -> Iterator[SiloView]:
    """Open a silo's files for reading."""
    files = SiloFiles(directory)
    files.check()
    policy = Policy.load(files.policy)
    with open_store(files, for_reading=True) as store:
        yield SiloView(files, policy, store)


def silo_status(directory: Path, *, is_data_checked: bool = False) -> SiloStatus:
    """Return how the silo of a directory stands; `is_data_checked`: whether its table is read for that."""
    with viewed(directory) as view:
        return SiloStatus(
            name=view.policy.name,
            directory=str(view.files.directory.absolute()),
            noise=view.policy.noise.value,
            is_serving=is_held(view.files.lock),
            process=SiloNotice.read(view.files.status),
            budget=_budget(view.ledger),
            data=_data_status(view, is_read=is_data_checked),
            runs=view.runs(),
            refusals=view.store.latest_refusals(SHOWN_REFUSALS),
        )


def _budget(ledger: Path) -> BudgetStatus:
    try:
        with open_for_reading(ledger) as opened:
            said = opened.statement()
    except DpadmmError as problem:
        return BudgetStatus(problem=str(problem))
    return BudgetStatus(
        spent_epsilon=said.spent_epsilon,
        left_epsilon=said.left_epsilon,
        epsilon=said.budget.epsilon,
        delta=said.budget.delta,
        against=said.protection.observer,
    )


def _data_status(view: SiloView, *, is_read: bool) -> DataStatus:
    """Return how the table stands; to tell whether it is still the ledger's, it must be read."""
    place = Path(view.policy.data)
    try:
        modified = datetime.fromtimestamp(round(place.stat().st_mtime), UTC).isoformat()
    except OSError as problem:
        return DataStatus(path=str(place), is_readable=False, problem=problem.strerror)
    found = DataStatus(path=str(place), is_readable=os.access(place, os.R_OK), modified=modified)
    if not found.is_readable:
        return replace(found, problem="this user has no permission to read it")
    if not is_read:
        return found
    try:
        with open_for_reading(view.ledger) as ledger:
            ledger.confirm([policy_records(view.policy, view.files.schema).table])
    except Exception as problem:  # noqa: BLE001 - the text of errors that are not ours may quote a cell
        return replace(found, is_same=False, problem=first_sentence(reason_of(problem)))
    return replace(found, is_same=True)


def first_sentence(text: str) -> str:
    """Return what has happened; what follows is for whoever calls the library."""
    return text.partition(". ")[0]


def coordinator_status(directory: Path) -> CoordinatorStatus:
    """Return how the coordinator of a directory stands."""
    files = CoordinatorFiles(directory)
    files.check()
    is_serving, notice = is_held(files.lock), CoordinatorNotice.read(files.status)
    paths = sorted(files.runs(), key=lambda path: path.stat().st_mtime)
    return CoordinatorStatus(
        directory=str(files.directory.absolute()),
        is_serving=is_serving,
        process=notice,
        runs=tuple(run_status(path, notice if is_serving else None) for path in paths),
    )


def run_status(path: Path, notice: CoordinatorNotice | None) -> CoordinatorRun:
    """Return how one run stands, by its file and by what the serving process tells; None where nobody serves."""
    try:
        with closing(Coordinator(path, None, time.time)) as run:
            return _run_status(path.stem, run, notice)
    except (DpadmmError, sqlite3.Error) as problem:
        return CoordinatorRun(file=path.stem, state=DriveState.UNREADABLE, reason=str(problem))


def _run_status(file: str, run: Coordinator, notice: CoordinatorNotice | None) -> CoordinatorRun:
    terms, reason = run.agreement, run.reason_to_stop()
    seconds = [after - before for before, after in pairwise(run.times())]
    if run.is_done:
        state, reason = DriveState.FINISHED, None
    elif reason is not None:
        state = DriveState.STOPPED
    elif not run.is_wanted:
        state = DriveState.NOT_ASKED
    else:
        state = DriveState.RESTING if notice is None else DriveState.RUNNING
    return CoordinatorRun(
        file=file,
        run=terms.run,
        method=terms.method,
        state=state,
        reason=reason,
        round=run.round,
        rounds=terms.rounds,
        seconds_per_round=median(seconds) if seconds else None,
        epsilon=terms.epsilon,
        delta=terms.delta,
        silos=_members(file, run, notice),
    )


def _members(file: str, run: Coordinator, notice: CoordinatorNotice | None) -> tuple[Member, ...]:
    """Say of everybody whether it is there, and whether it is waited for: who is absent, or else has not answered."""
    progress, driven = run.progress(), None if notice is None else notice.driven(file)
    there: Mapping[str, SiloPresence] = {} if notice is None else {each.key: each for each in notice.silos}
    absent = () if driven is None or run.is_done else driven.absent
    nowhere, spent = SiloPresence(key="", is_connected=False, seen=None), dict(progress.epsilon)
    return tuple(
        Member(
            name=person.name,
            is_connected=there.get(person.key, nowhere).is_connected,
            seen=there.get(person.key, nowhere).seen,
            has_joined=None if driven is None else person.name in driven.joined,
            has_answered=run.is_done or person.name in progress.answered,
            is_awaited=person.name in (absent or progress.waiting_for),
            epsilon=spent[person.name],
        )
        for person in run.agreement.participants
    )
