"""Screens fit their terminal whatever is told, and show nothing that a terminal would obey."""

from datetime import UTC, datetime

import pytest

pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")

from dpadmm.federation.admin.checkups import problem
from dpadmm.federation.admin.screens import checkup_screen, coordinator_screen, silo_screen, time_words
from dpadmm.federation.admin.status import (
    BudgetStatus,
    CoordinatorRun,
    CoordinatorStatus,
    DataStatus,
    DriveState,
    Member,
    RunState,
    SiloRun,
    SiloStatus,
)
from dpadmm.federation.https.notice import CoordinatorNotice, SiloNotice
from dpadmm.federation.silo_store import LogEntry

LONG = "/srv/" + "a-very-long-name" * 10
ESCAPE = "north\x1b[2J" + "x" * 100
TIME = "2026-01-01T00:00:00+00:00"
SILO = SiloStatus(
    name=ESCAPE,
    directory=LONG,
    noise="test",
    is_serving=True,
    process=SiloNotice(
        pid=123456,
        started=TIME,
        coordinator="h" * 100 + ":9092",
        is_connected=False,
        line="the coordinator cannot be reached, " * 4,
        since=TIME,
        skew_seconds=-86400,
        answered=None,
    ),
    budget=BudgetStatus(problem="it is damaged, " * 20),
    data=DataStatus(path=LONG, is_readable=True, modified=TIME, is_same=False, problem=ESCAPE),
    runs=(
        SiloRun(run=ESCAPE, digest="ab" * 32, method="p-admm", round=3, rounds=10, delta=1e-5, reason=ESCAPE),
        SiloRun(
            run="second",
            digest="ab" * 32,
            method="p-admm",
            round=3,
            rounds=10,
            delta=1e-5,
            state=RunState.RUNNING,
            spent_epsilon=0.123456,
            epsilon=1.0,
        ),
    ),
    refusals=(LogEntry(TIME, "refused", ESCAPE),),
)
COORDINATOR = CoordinatorStatus(
    directory=LONG,
    is_serving=True,
    process=CoordinatorNotice(pid=1, started=TIME, host="0.0.0.0", port=9092),
    runs=(
        CoordinatorRun(
            file="ab" * 32,
            run=ESCAPE,
            method="p-admm",
            state=DriveState.STOPPED,
            reason=ESCAPE,
            silos=(
                Member(
                    name=ESCAPE,
                    is_connected=False,
                    seen=TIME,
                    has_joined=False,
                    has_answered=True,
                    is_awaited=True,
                    epsilon=0.1,
                ),
            ),
        ),
        CoordinatorRun(file="cd" * 32, state=DriveState.UNREADABLE, reason=ESCAPE),
    ),
)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_screens_fit(width):
    for lines in (
        silo_screen(SILO, width),
        coordinator_screen(COORDINATOR, width),
        checkup_screen([problem("installed", ESCAPE, LONG)], width),
    ):
        assert max(map(len, lines)) <= width
        assert all(line.isprintable() for line in lines)


def test_what_is_open_comes_first():
    text = "\n".join(silo_screen(SILO))
    assert text.index("second") < text.index("north", text.index("Runs"))
    assert "running, p-admm, round 3 of 10; epsilon 0.1235 of 1 at delta 1e-05" in text


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "just now"), (90, "90 s ago"), (150, "2 min ago"), (7300, "2 h ago"), (9e5, "10 d ago")]
)
def test_how_long_ago(seconds, words):
    now = datetime.fromtimestamp(datetime.fromisoformat(TIME).timestamp() + seconds, UTC)
    assert time_words(TIME, now).endswith(f"({words})")
