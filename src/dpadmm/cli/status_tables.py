"""How silos and coordinators stand, and what their doctors find, as tables that fit the terminal."""

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from dpadmm.cli.terminal import cell, print_json
from dpadmm.federation.admin.doctor import Finding, Level
from dpadmm.federation.admin.status import (
    DataStatus,
    MemberStatus,
    RunState,
    RunStatus,
    SiloStatus,
    Status,
)
from dpadmm.federation.https.processes import CoordinatorProcess, SiloProcess

WATCH_SECONDS = 2.0
"""How often a table that is watched is drawn anew."""


def show_status(command: str, read: Callable[[], Status], *, is_json: bool, is_watched: bool) -> None:
    """Print a status, or draw it until Ctrl-C and leave the last table."""
    if is_json:
        print_json({"command": command, **read().as_json()})
        return
    if is_watched:
        try:
            with Live(status_table(read()), screen=True, auto_refresh=False) as live:
                while True:
                    live.update(status_table(read()), refresh=True)
                    time.sleep(WATCH_SECONDS)
        except KeyboardInterrupt:
            pass
    Console(highlight=False).print(status_table(read()))


def show_findings(command: str, directory: Path, found: list[Finding], *, is_json: bool) -> None:
    """Print what keeps a silo or a coordinator from working; end with exit code 1 where anything does."""
    has_problem = any(each.level is Level.PROBLEM for each in found)
    if is_json:
        about = {"command": command, "directory": str(directory.absolute()), "has_problem": has_problem}
        print_json(about | {"checks": [each.as_json() for each in found]})
    else:
        Console(highlight=False).print(findings_table(found))
    if has_problem:
        raise typer.Exit(1)


def findings_table(found: Iterable[Finding]) -> Table:
    """Return findings as rows."""
    rows = []
    for each in found:
        level = each.level.value.upper() if each.level is Level.PROBLEM else each.level.value
        rows.append((level, each.check, f"{each.text} -> {each.advice}" if each.advice else each.text))
    return _table(rows)


def status_table(status: Status) -> Table:
    """Return how a silo or a coordinator stands as rows, what is open first."""
    refusals = status.refusals if isinstance(status, SiloStatus) else ()
    refused = [("Refused", f"{time_text(entry.time)} {entry.detail}") for entry in refusals]
    return _table([*_silo_rows(status), *_run_rows(status), *refused])


def _table(rows: Iterable[tuple[str, ...]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*map(cell, row))
    for column in table.columns:
        column.overflow = "fold"
    return table


def _silo_rows(status: Status) -> Iterator[tuple[str, str]]:
    if isinstance(status, SiloStatus):
        kind = "" if status.noise == "secure" else " (REHEARSAL: test noise, nobody is protected)"
        yield "Silo", f"{status.name}{kind}"
    yield "Directory", status.directory
    process = status.process
    if not status.is_serving:
        yield "Serving", "NO" if process is None else f"NO; the last process was started {time_text(process.started)}"
    elif process is None:
        yield "Serving", "yes, but the process reports no status: its disk is full, or it is a different version"
    else:
        yield "Serving", f"yes, process {process.pid} since {time_text(process.started)}"
    if status.is_serving and isinstance(process, CoordinatorProcess):
        yield "Listens", f"on {process.host}, port {process.port}"
    if status.is_serving and isinstance(process, SiloProcess):
        state = "" if process.is_connected else f"not connected to {process.coordinator}: "
        yield "Connection", f"{state}{process.connection}; since {time_text(process.since)}"
        if process.skew_seconds is not None:
            way = "ahead of" if process.skew_seconds > 0 else "behind"
            apart = f"{abs(process.skew_seconds)} s {way}" if abs(process.skew_seconds) > 1 else "in step with"
            yield "Clock", f"{apart} the coordinator's"
        yield "Answered", "nothing yet" if process.answered is None else f"last at {time_text(process.answered)}"
    if isinstance(status, SiloStatus):
        budget = status.budget
        left = f"{budget.left_epsilon:.4g} left, at delta {budget.delta:.3g}, against {budget.against}"
        yield "Budget", f"epsilon {budget.spent_epsilon:.4g} spent of {budget.epsilon:.4g}, {left}"
        yield "Data", _data_text(status.data)


def _run_rows(status: Status) -> Iterator[tuple[str, str]]:
    if not status.runs:
        command = "silo approve" if isinstance(status, SiloStatus) else "federate run --study NAME --coordinator DIR"
        yield "Runs", f"none: `dpadmm {command}`"
    for run in reversed(status.runs):
        yield "Run", f"{run.run}  [{run.digest[:8]}]"
        yield "", _run_text(run)
        for member in run.silos:
            yield "", f"{member.name}: {_member_text(member, is_driven=run.state is RunState.RUNNING)}"


def time_text(time: str, now: datetime | None = None) -> str:
    """Return a time, ISO 8601, as this machine's clock shows it, and how long ago that is.

    >>> time_text("2026-01-01T00:00:00+00:00", datetime(2026, 1, 1, 2, tzinfo=UTC)).partition(" (")[2]
    '2 h ago)'
    """
    when = datetime.fromisoformat(time)
    seconds = ((now or datetime.now(UTC)) - when).total_seconds()
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    ago = next((f"{seconds / size:.0f} {unit} ago" for unit, size in units if seconds >= 2 * size), "just now")
    return f"{when.astimezone():%Y-%m-%d %H:%M:%S} ({ago})"


def _data_text(data: DataStatus) -> str:
    if data.problem is not None:
        return f"{data.path} CANNOT BE READ: {data.problem}"
    return f"{data.path}, written {time_text(data.modified or '')}"


def _run_text(run: RunStatus) -> str:
    reason = "" if run.reason is None else f"; {run.reason}"
    if run.epsilon is None:
        return f"{run.state.value}{reason}"
    spent = "" if run.spent_epsilon is None else f"{run.spent_epsilon:.4g} of "
    cost = f"epsilon {spent}{run.epsilon:.4g} at delta {run.delta:.3g}"
    pace = "" if run.seconds_per_round is None else f", {run.seconds_per_round:.2g} s a round"
    return f"{run.state.value}, {run.method}, round {max(run.round or 0, 0)} of {run.rounds}{pace}; {cost}{reason}"


def _member_text(member: MemberStatus, *, is_driven: bool) -> str:
    seen = "" if member.is_connected or member.seen is None else f", last seen {time_text(member.seen)}"
    connection = f"{'connected' if member.is_connected else 'away'}{seen}"
    joined = {True: "joined", False: "has not joined", None: ""}[member.has_joined]
    answered = "has answered" * member.has_answered
    parts = [connection * is_driven, joined, answered * is_driven, "AWAITED" * member.is_awaited]
    return ", ".join(part for part in (*parts, f"epsilon {member.epsilon:.4g}") if part)
