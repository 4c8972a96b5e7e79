"""How a silo stands, read off its directory while it serves or rests.

Nothing is written there, and nobody is disturbed. The table is read only where that is asked for.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

from dpadmm.errors import DpadmmError
from dpadmm.federation import durable
from dpadmm.federation.agreement import Agreement
from dpadmm.federation.https.notice import SiloNotice
from dpadmm.federation.locks import is_held
from dpadmm.federation.policy import Policy
from dpadmm.federation.refusal import reason_of
from dpadmm.federation.run_store import stored_terms
from dpadmm.federation.silo_files import APPLICATION, TABLES, SiloFiles, policy_records
from dpadmm.federation.silo_log import LogEntry
from dpadmm.federation.terms import agreed_run
from dpadmm.privacy.ledger import Ledger, open_for_reading

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


@dataclass(frozen=True, kw_only=True)
class SiloRun:
    """One run in a silo: its name and the digest of its terms, where it stands, and what it costs.

    round: the last that was answered, None before the first. spent_epsilon: certified cost of what was answered so far;
    epsilon: of the whole run; both at `delta`, and None where the terms cannot be used. reason: why it is refused.
    """

    run: str
    digest: str
    method: str
    round: int | None
    rounds: int
    delta: float
    state: RunState = RunState.APPROVED
    spent_epsilon: float | None = None
    epsilon: float | None = None
    reason: str | None = None


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
class SiloStatus:
    """Everything that `dpadmm silo status` shows; `process` as the serving, or the last, process reported it.

    noise: secure, or test for a rehearsal, which protects nobody.
    """

    name: str
    directory: str
    noise: str
    is_serving: bool
    process: SiloNotice | None
    budget: BudgetStatus
    data: DataStatus
    runs: tuple[SiloRun, ...]
    refusals: tuple[LogEntry, ...]

    def document(self) -> dict[str, Any]:
        """Return all of it as plain values; these names stay."""
        return asdict(self) | {"runs": [asdict(run) | {"state": run.state.value} for run in self.runs]}


@dataclass(frozen=True)
class SiloView:
    """A silo's files, open for reading."""

    files: SiloFiles
    policy: Policy
    connection: sqlite3.Connection

    @property
    def ledger(self) -> Path:
        """Its ledger."""
        return self.files.ledger(self.policy.noise)

    def agreements(self) -> list[Agreement]:
        """Return the terms that were approved, the oldest first."""
        return [stored_terms(text) for (text,) in self._rows("SELECT terms FROM approved ORDER BY rowid")]

    def runs(self) -> tuple[SiloRun, ...]:
        """Return every run, the oldest first."""
        return tuple(self._run(terms) for terms in self.agreements())

    def rounds(self) -> int:
        """Return how many rounds were answered here, of all runs."""
        return int(self._rows("SELECT COUNT(*) FROM answers")[0][0])

    def refusals(self, number: int) -> tuple[LogEntry, ...]:
        """Return the latest refusals, the latest first."""
        query = "SELECT time, event, detail FROM log WHERE event = 'refused' ORDER BY rowid DESC LIMIT ?"
        return tuple(LogEntry(*row) for row in self._rows(query, number))

    def _run(self, terms: Agreement) -> SiloRun:
        # SQLite takes the other columns from the row of the greatest round.
        query = "SELECT MAX(round), state IS NULL FROM answers WHERE digest = ?"
        ((last, is_ended),) = self._rows(query, terms.digest)
        found = SiloRun(
            run=terms.run, digest=terms.digest, method=terms.method, round=last, rounds=terms.rounds, delta=terms.delta
        )
        try:
            agreed, agent = agreed_run(terms), terms.agent(self.policy.name)
            mine = agreed.rounds_of(agent)
            found = replace(
                found,
                state=self._state(terms, last, is_ended=bool(is_ended), is_last=bool(mine) and last == mine[-1]),
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
        if last is not None:
            return RunState.ENDED if is_ended else RunState.FINISHED if is_last else RunState.RUNNING
        is_joined = self._rows("SELECT 1 FROM joined WHERE digest = ?", terms.digest)
        return RunState.JOINED if is_joined else RunState.APPROVED

    def _rows(self, query: str, *values: object) -> list[Any]:
        return self.connection.execute(query, values).fetchall()  # at once: an open query would hold back a checkpoint


@contextmanager
def viewed(directory: Path) -> Iterator[SiloView]:
    """Open a silo's files for reading."""
    files = SiloFiles(Path(directory))
    files.check()
    policy = Policy.load(files.policy)
    with closing(durable.connect_for_reading(files.state, APPLICATION, TABLES)) as connection:
        yield SiloView(files, policy, connection)


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
            data=data_status(view, is_read=is_data_checked),
            runs=view.runs(),
            refusals=view.refusals(SHOWN_REFUSALS),
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


def data_status(view: SiloView, *, is_read: bool) -> DataStatus:
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
            _confirm(view, ledger)
    except Exception as problem:  # noqa: BLE001 - the text of errors that are not ours may quote a cell
        return replace(found, is_same=False, problem=first_sentence(reason_of(problem)))
    return replace(found, is_same=True)


def first_sentence(text: str) -> str:
    """Return what has happened; what follows is for whoever calls the library."""
    return text.partition(". ")[0]


def _confirm(view: SiloView, ledger: Ledger) -> None:
    ledger.confirm([policy_records(view.policy, view.files.schema).table])
