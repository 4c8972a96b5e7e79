"""How silos and coordinators stand, as lines of plain text that fit a terminal."""

import textwrap
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from dpadmm.errors import without_controls
from dpadmm.federation.admin.checkups import Checkup
from dpadmm.federation.admin.status import (
    BudgetStatus,
    CoordinatorRun,
    CoordinatorStatus,
    DataStatus,
    DriveState,
    Member,
    SiloRun,
    SiloStatus,
)
from dpadmm.federation.https.notice import CoordinatorNotice, SiloNotice

WIDTH = 80
_LABEL = 10
_LONGEST_NAME = 24


def labelled(label: str, text: str, width: int = WIDTH) -> list[str]:
    """Return a label and its text, wrapped beside it.

    >>> print("\\n".join(labelled("Line", "the coordinator hung up: it has no open run with this silo", 40)))
    Line      the coordinator hung up: it has
              no open run with this silo
    """
    return wrapped(without_controls(text), f"{label:<{_LABEL}}", " " * _LABEL, width)


def wrapped(text: str, first: str, rest: str, width: int) -> list[str]:
    """Return text in lines of at most this width, which begin so; what has no blanks to break at, as a path, is cut."""
    return textwrap.wrap(text, max(width, 40), initial_indent=first, subsequent_indent=rest) or [first.rstrip()]


def time_words(time: str, now: datetime | None = None) -> str:
    """Return a time, ISO 8601, as this machine's clock shows it, and how long ago that is.

    >>> time_words("2026-01-01T00:00:00+00:00", datetime(2026, 1, 1, 2, tzinfo=UTC)).partition(" (")[2]
    '2 h ago)'
    """
    when = datetime.fromisoformat(time)
    seconds = ((now or datetime.now(UTC)) - when).total_seconds()
    return f"{when.astimezone():%Y-%m-%d %H:%M:%S} ({_ago(seconds)})"


def _ago(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit} ago"
    return "just now" if seconds < 2 else f"{seconds:.0f} s ago"


def silo_screen(status: SiloStatus, width: int = WIDTH) -> list[str]:
    """Return how a silo stands, for its administrator."""
    kind = "" if status.noise == "secure" else " (REHEARSAL: test noise, nobody is protected)"
    told = [("Silo", f"{status.name}{kind}"), ("Directory", status.directory)]
    told += _silo_process(status.is_serving, status.process)
    told += [("Budget", _budget_words(status.budget)), ("Data", _data_words(status.data))]
    lines = [line for label, text in told for line in labelled(label, text, width)]
    lines += ["", "Runs" if status.runs else "Runs      none approved: `dpadmm silo approve`"]
    for run in reversed(status.runs):
        lines += _indented(f"{run.run}  [{run.digest[:8]}]", 2, width)
        lines += _indented(_run_words(run), 4, width)
    if status.refusals:
        lines += ["", "Refusals, the latest first (all: `dpadmm silo show --log`)"]
    for entry in status.refusals:
        lines += _indented(f"{time_words(entry.time)} {entry.detail}", 2, width)
    return lines


def _indented(text: str, blanks: int, width: int) -> list[str]:
    return wrapped(without_controls(text), " " * blanks, " " * (blanks + 2), width)


def _silo_process(is_serving: bool, notice: SiloNotice | None) -> Iterator[tuple[str, str]]:
    yield "Serving", _process_words(is_serving, notice)
    if not is_serving or notice is None:
        return
    state = "" if notice.is_connected else f"not connected to {notice.coordinator}: "
    yield "Line", f"{state}{notice.line}; since {time_words(notice.since)}"
    if notice.skew_seconds is not None:
        way = "ahead of" if notice.skew_seconds > 0 else "behind"
        apart = f"{abs(notice.skew_seconds)} s {way}" if abs(notice.skew_seconds) > 1 else "in step with"
        yield "Clock", f"{apart} the coordinator's"
    yield "Answered", "nothing yet" if notice.answered is None else f"last at {time_words(notice.answered)}"


def _process_words(is_serving: bool, notice: SiloNotice | CoordinatorNotice | None) -> str:
    if not is_serving:
        return "NO" if notice is None else f"NO; the last process was started {time_words(notice.started)}"
    if notice is None:
        return "yes, but the process reports no status: its disk is full, or it is a different version"
    return f"yes, process {notice.pid} since {time_words(notice.started)}"


def _budget_words(budget: BudgetStatus) -> str:
    if budget.problem is not None:
        return f"UNKNOWN: {budget.problem}"
    return (
        f"epsilon {budget.spent_epsilon:.4g} spent of {budget.epsilon:.4g}, {budget.left_epsilon:.4g} left, at delta "
        f"{budget.delta:.3g}, against {budget.against}"
    )


def _data_words(data: DataStatus) -> str:
    if not data.is_readable:
        return f"{data.path} CANNOT BE READ: {data.problem}"
    found = {
        None: "not read now (--check-data compares it with the ledger)",
        True: "it is the table known to the ledger",
        False: f"NOT THE LEDGER'S TABLE, OR UNREADABLE: {data.problem}",
    }[data.is_same]
    return f"{data.path}, written {time_words(data.modified or '')}; {found}"


def _run_words(run: SiloRun) -> str:
    if run.spent_epsilon is None or run.epsilon is None:
        return f"{run.state.value}: {run.reason}"
    cost = f"epsilon {run.spent_epsilon:.4g} of {run.epsilon:.4g} at delta {run.delta:.3g}"
    where = f"{run.state.value}, {run.method}, round {run.round or 0} of {run.rounds}"
    return f"{where}; {cost}{'' if run.reason is None else f'; {run.reason}'}"


def coordinator_screen(status: CoordinatorStatus, width: int = WIDTH) -> list[str]:
    """Return how a coordinator stands, for its administrator."""
    told = [("Directory", status.directory), ("Serving", _process_words(status.is_serving, status.process))]
    if status.is_serving and status.process is not None:
        told.append(("Listens", f"on {status.process.host}, port {status.process.port}"))
    lines = [line for label, text in told for line in labelled(label, text, width)]
    lines += [
        "",
        "Runs" if status.runs else "Runs      none: `dpadmm federate --study NAME --coordinator DIR`",
    ]
    for run in reversed(status.runs):
        lines += _indented(f"{run.run}  [{run.file[:8]}]", 2, width)
        lines += _indented(_drive_words(run), 4, width)
        longest = min(_LONGEST_NAME, max((len(each.name) for each in run.silos), default=0))
        for each in run.silos:
            lines += wrapped(without_controls(_member_words(each, run, longest)), " " * 4, " " * 8, width)
    return lines


def _drive_words(run: CoordinatorRun) -> str:
    if run.state is DriveState.UNREADABLE:
        return f"{run.state.value}: {run.reason}"
    pace = "" if run.seconds_per_round is None else f", {run.seconds_per_round:.2g} s a round"
    where = f"{run.method}, round {max(run.round, 0)} of {run.rounds}{pace}"
    return f"{run.state.value}; {where}{'' if run.reason is None else f'. {run.reason}'}"


def _member_words(member: Member, run: CoordinatorRun, longest: int) -> str:
    line = "connected" if member.is_connected else "away"
    if not member.is_connected and member.seen is not None:
        line += f", last seen {time_words(member.seen)}"
    joined = {True: "joined", False: "has not joined", None: ""}[member.has_joined]
    answered = "has answered" * (member.has_answered and run.state is DriveState.RUNNING)
    awaited = "AWAITED" * member.is_awaited
    words = [line * (run.state is DriveState.RUNNING), joined, answered, awaited, f"epsilon {member.epsilon:.4g}"]
    return f"{member.name:<{longest}}  {', '.join(word for word in words if word)}"


def checkup_screen(found: Sequence[Checkup], width: int = WIDTH) -> list[str]:
    """Return what a doctor found, a finding after the other."""
    lines = []
    for each in found:
        lines += wrapped(each.line, f"{each.health.value:<8} {each.check:<{_LABEL}}", " " * (9 + _LABEL), width)
    return lines
