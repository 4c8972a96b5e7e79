"""How a coordinator stands: its process, its runs, who has joined, answered and is awaited; nothing is written."""

import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from enum import Enum
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from dpadmm.errors import DpadmmError
from dpadmm.federation.coordinator import Coordinator, Progress
from dpadmm.federation.coordinator_files import CoordinatorFiles
from dpadmm.federation.https.notice import CoordinatorNotice, DrivenRun, SiloPresence
from dpadmm.federation.locks import is_held


class DriveState(Enum):
    """Where a run stands at its coordinator."""

    NOT_ASKED = "not asked for yet"
    RUNNING = "running"
    RESTING = "rests while nobody serves"
    STOPPED = "stopped"
    FINISHED = "finished"
    UNREADABLE = "cannot be read"


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
class CoordinatorRun:
    """One run: its file (the digest of its terms), where it stands, and everybody who takes part.

    round: the last that is complete, -1 while columns are counted in round 0. seconds_per_round: the median.
    reason: why it has stopped.
    """

    file: str
    run: str = ""
    method: str = ""
    state: DriveState
    reason: str | None = None
    round: int = 0
    rounds: int = 0
    seconds_per_round: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    silos: tuple[Member, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CoordinatorStatus:
    """Everything that `dpadmm coordinator status` shows; `process` as the serving, or the last, process reported it."""

    directory: str
    is_serving: bool
    process: CoordinatorNotice | None
    runs: tuple[CoordinatorRun, ...]

    def document(self) -> dict[str, Any]:
        """Return all of it as plain values; these names stay."""
        process = None if self.process is None else asdict(self.process)
        for inner in ("silos", "runs"):  # told with the runs below, by name
            (process or {}).pop(inner, None)
        runs = [asdict(run) | {"state": run.state.value} for run in self.runs]
        return asdict(self) | {"process": process, "runs": runs}


def coordinator_status(directory: Path) -> CoordinatorStatus:
    """Return how the coordinator of a directory stands."""
    files = CoordinatorFiles(Path(directory))
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
            return _told(path.stem, run, notice)
    except (DpadmmError, sqlite3.Error) as problem:
        return CoordinatorRun(file=path.stem, state=DriveState.UNREADABLE, reason=str(problem))


def _told(file: str, run: Coordinator, notice: CoordinatorNotice | None) -> CoordinatorRun:
    terms, progress, reason, times = run.agreement, run.progress(), run.reason_to_stop(), run.times()
    seconds = [after - before for before, after in pairwise(times)]
    return CoordinatorRun(
        file=file,
        run=terms.run,
        method=terms.method,
        state=_state(run, reason, is_served=notice is not None),
        reason=None if run.is_done else reason,
        round=progress.round,
        rounds=progress.rounds,
        seconds_per_round=median(seconds) if seconds else None,
        epsilon=terms.epsilon,
        delta=terms.delta,
        silos=_members(run, progress, notice, None if notice is None else notice.driven(file)),
    )


def _state(run: Coordinator, reason: str | None, *, is_served: bool) -> DriveState:
    if run.is_done:
        return DriveState.FINISHED
    if reason is not None:
        return DriveState.STOPPED
    if not run.is_wanted:
        return DriveState.NOT_ASKED
    return DriveState.RUNNING if is_served else DriveState.RESTING


def _members(
    run: Coordinator, progress: Progress, notice: CoordinatorNotice | None, driven: DrivenRun | None
) -> tuple[Member, ...]:
    """Say of everybody whether it is there, and whether it is waited for: who is absent, or else has not answered."""
    there: Mapping[str, SiloPresence] = {} if notice is None else {each.key: each for each in notice.silos}
    absent = () if driven is None or run.is_done else driven.absent
    nowhere, spent = SiloPresence(key="", is_connected=False, seen=None), dict(progress.epsilon)
    members = []
    for person in run.agreement.participants:
        found = there.get(person.key, nowhere)
        members.append(
            Member(
                name=person.name,
                is_connected=found.is_connected,
                seen=found.seen,
                has_joined=None if driven is None else person.name in driven.joined,
                has_answered=run.is_done or person.name in progress.answered,
                is_awaited=person.name in (absent or progress.waiting_for),
                epsilon=spent[person.name],
            )
        )
    return tuple(members)
