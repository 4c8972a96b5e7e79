"""Tables of status and findings fit their terminal whatever they hold, and show nothing that a terminal would obey."""

from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest

pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")

from rich.console import Console

from dpadmm.cli.status_tables import findings_table, status_table, time_text
from dpadmm.federation.admin.doctor import Finding, Level
from dpadmm.federation.admin.status import (
    BudgetStatus,
    DataStatus,
    MemberStatus,
    RunState,
    RunStatus,
    SiloStatus,
    Status,
)
from dpadmm.federation.https.processes import CoordinatorProcess, SiloProcess
from dpadmm.federation.silo_store import LogEntry

LONG = "/srv/" + "a-very-long-name" * 10
ESCAPE = "north\x1b[2J" + "x" * 100
TIME = "2026-01-01T00:00:00+00:00"
MEMBER = MemberStatus(
    name=ESCAPE, is_connected=False, seen=TIME, has_joined=False, has_answered=True, is_awaited=True, epsilon=0.1
)
SECOND = {"run": "second", "digest": "ab" * 32, "method": "p-admm", "round": 3, "rounds": 10, "delta": 1e-5}
SILO = SiloStatus(
    name=ESCAPE,
    directory=LONG,
    noise="test",
    is_serving=True,
    process=SiloProcess(pid=1, started=TIME, coordinator=LONG, connection="away, " * 40, since=TIME, skew_seconds=-9),
    budget=BudgetStatus(spent_epsilon=0.5, left_epsilon=1.5, epsilon=2.0, delta=1e-5, against="an eavesdropper"),
    data=DataStatus(path=LONG, modified=TIME, problem=ESCAPE),
    runs=(
        RunStatus(run=ESCAPE, digest="cd" * 32, state=RunState.REFUSED, reason=ESCAPE),
        RunStatus(**SECOND, state=RunState.RUNNING, spent_epsilon=0.123456, epsilon=1.0),
    ),
    refusals=(LogEntry(TIME, "refused", ESCAPE),),
)
COORDINATOR = Status(
    directory=LONG,
    is_serving=True,
    process=CoordinatorProcess(pid=1, started=TIME, host="0.0.0.0", port=9092),
    runs=(
        RunStatus(**SECOND, state=RunState.RUNNING, epsilon=1.0, silos=(MEMBER,)),
        RunStatus(digest="cd" * 32, state=RunState.STOPPED, reason=ESCAPE),
    ),
)
FINDINGS = [Finding("installed", Level.PROBLEM, ESCAPE, LONG)]


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("table", [status_table(SILO), status_table(COORDINATOR), findings_table(FINDINGS)])
def test_tables_fit(table, width):
    console = Console(width=width, file=StringIO())
    console.print(table)
    assert "\\n" not in console.file.getvalue()  # a cell with a line break would show it so
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(
    ("seconds", "args"), [(0, "just now"), (90, "90 s ago"), (150, "2 min ago"), (9e5, "10 d ago")]
)
def test_how_long_ago(seconds, args):
    now = datetime.fromisoformat(TIME).astimezone(UTC) + timedelta(seconds=seconds)
    assert time_text(TIME, now).endswith(f"({args})")
