"""How a silo stands: against its ledger and its files, whatever it does meanwhile; and nothing is written for it."""

import os
import shutil
import sqlite3
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")

from dpadmm.errors import InputError, SolverError
from dpadmm.federation.admin.status import SHOWN_REFUSALS, RunState, silo_status
from dpadmm.federation.https.processes import SiloProcess, publish_status
from dpadmm.federation.party_directory import exclusive_lock
from dpadmm.federation.silo import Silo
from dpadmm.privacy.ledger import open_for_reading

NOTICE = SiloProcess(
    pid=7,
    started="2026-01-01T00:00:00+00:00",
    coordinator="h:1",
    is_connected=False,
    connection="not connected yet",
    since="2026-01-01T00:00:00+00:00",
    skew_seconds=None,
    answered=None,
)


def the_run(federation):
    (run,) = silo_status(federation.north.directory).runs
    return run


def paid(federation):
    """What the ledger says that the run has cost, at the delta of both."""
    with open_for_reading(federation.ledger) as ledger:
        return ledger.runs()[0].alone_epsilon


def test_before_anything_was_asked(federation, unchanged):
    with unchanged():
        status = silo_status(federation.north.directory)
    assert (status.name, status.noise, status.is_serving, status.process) == ("north", "test", False, None)
    assert (status.budget.epsilon, status.budget.left_epsilon, status.budget.spent_epsilon) == (2.0, 2.0, 0.0)
    assert status.budget.against == "the eavesdropper"
    assert status.data.problem is None
    run = the_run(federation)
    assert (run.state, run.round, run.rounds, run.spent_epsilon) == (RunState.APPROVED, None, 4, 0.0)
    assert run.epsilon == pytest.approx(1.0)
    assert status.refusals == ()


def test_once_it_has_joined(federation, unchanged):
    federation.drive(answers=2)
    with unchanged():
        run = the_run(federation)
    assert (run.state, run.round, run.spent_epsilon) == (RunState.JOINED, None, 0.0)


def test_in_its_midst(federation, unchanged):
    """Rounds by the file, costs by the ledger."""
    federation.drive(answers=12)
    with closing(sqlite3.connect(federation.ledger)) as state:
        (last,) = state.execute("SELECT MAX(round) FROM answer").fetchone()
    with unchanged():
        run = the_run(federation)
    assert 0 < last < 4
    assert (run.state, run.round) == (RunState.RUNNING, last)
    assert run.spent_epsilon == pytest.approx(paid(federation), rel=1e-9)
    assert run.spent_epsilon < run.epsilon


def test_a_run_to_its_end(federation, unchanged):
    federation.drive()
    with unchanged():
        status = silo_status(federation.north.directory)
    (run,) = status.runs
    assert (run.state, run.round) == (RunState.FINISHED, 4)
    assert run.spent_epsilon == run.epsilon == pytest.approx(paid(federation), rel=1e-9)
    assert status.budget.spent_epsilon == pytest.approx(run.epsilon, rel=1e-9)


def test_a_step_that_failed_has_ended_the_run_here(federation, monkeypatch):
    def fails(*_):
        raise SolverError("not solved")

    monkeypatch.setattr("dpadmm.federation.silo_round.make_step", fails)
    federation.drive()
    status = silo_status(federation.north.directory)
    assert status.runs[0].state is RunState.ENDED
    assert "ended the run here" in status.refusals[0].detail


def test_rules_that_were_tightened_since(federation):
    policy = federation.north.policy
    policy.write_text(policy.read_text().replace('"p-admm", ', ""))
    run = the_run(federation)
    assert run.state is RunState.REFUSED
    assert "does not allow the method 'p-admm'" in run.reason


def test_the_latest_refusals_come_first(federation):
    with closing(Silo(federation.north.directory)) as silo:
        for number in range(SHOWN_REFUSALS + 2):
            silo.store.note("refused", f"number {number}")
    reported = silo_status(federation.north.directory).refusals
    assert [entry.detail for entry in reported] == [f"number {SHOWN_REFUSALS + 1 - i}" for i in range(SHOWN_REFUSALS)]


def test_while_it_serves(federation, waiting):
    """Another process holds the lock and tells of itself; its own writing goes on."""
    with (
        exclusive_lock(federation.north.lock, "This test"),
        closing(Silo(federation.north.directory)) as silo,
        publish_status(federation.north.status, lambda: NOTICE),
    ):
        waiting(federation.north.status.exists)
        before = sorted(path.name for path in federation.north.directory.iterdir())
        status = silo_status(federation.north.directory)
        assert sorted(path.name for path in federation.north.directory.iterdir()) == before
        assert (status.is_serving, status.process) == (True, NOTICE)
        silo.store.note("refused", "just now")
        assert silo_status(federation.north.directory).refusals[0].detail == "just now"
    assert not silo_status(federation.north.directory).is_serving


def test_a_table_that_is_gone(federation):
    (federation.rehearsal.place / "north.csv").unlink()
    assert silo_status(federation.north.directory).data.problem == "No such file or directory"


def test_other_directories_are_refused(federation, tmp_path):
    with pytest.raises(InputError, match="is a coordinator's directory"):
        silo_status(federation.rehearsal.coordinator.directory)
    with pytest.raises(InputError, match=r"it has no policy\.toml"):
        silo_status(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
@pytest.mark.parametrize("is_open", [False, True])
def test_a_user_who_may_only_read_can_look(federation, is_open):
    """At rest, and beside a process that writes."""
    with tempfile.TemporaryDirectory() as place, ExitStack() as ends:
        copy = Path(place) / "north"
        shutil.copytree(federation.north.directory, copy)
        if is_open:
            silo = ends.enter_context(closing(Silo(copy)))
            silo.store.note("refused", "just now")
        for path in (Path(place), copy, *copy.iterdir()):
            path.chmod(0o755)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.setuid(65534)
                code = 10 + len(silo_status(copy).refusals)
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 10 + is_open
