"""How a coordinator stands: by its files, and by what the serving process tells; nothing is written for it."""

import json
from contextlib import closing

import pytest

pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")

from dpadmm.errors import InputError, ResumeError
from dpadmm.federation.admin.status import RunState, coordinator_status
from dpadmm.federation.coordinator import Coordinator, open_run
from dpadmm.federation.coordinator_store import MOST_LOGGED
from dpadmm.federation.https.processes import CoordinatorProcess, read_status
from dpadmm.federation.party_directory import is_held


def status_of(federation):
    return coordinator_status(federation.rehearsal.coordinator.directory)


def the_run(federation):
    (run,) = status_of(federation).runs
    return run


def opened(federation) -> Coordinator:
    return open_run(federation.rehearsal.coordinator, federation.rehearsal.terms)


def test_before_and_after_it_is_asked_for(federation, unchanged):
    assert status_of(federation).runs == ()
    opened(federation).close()
    assert the_run(federation).state is RunState.NOT_REQUESTED
    federation.ask()
    with unchanged():
        run = the_run(federation)
    assert run.state is RunState.RESTING
    assert [(each.name, each.is_awaited, each.has_joined) for each in run.silos] == [
        ("north", True, None),
        ("south", True, None),
    ]


def test_in_its_midst(federation, unchanged):
    """Who has answered the round under way, and what everybody has spent, as the run itself counts it."""
    federation.drive(answers=13)
    with closing(opened(federation)) as run:
        progress = run.progress()
    assert len(progress.answered) == 1
    with unchanged():
        reported = the_run(federation)
    assert (reported.round, reported.rounds) == (progress.round, 4)
    assert [each.name for each in reported.silos if each.has_answered] == list(progress.answered)
    assert [each.name for each in reported.silos if each.is_awaited] == list(progress.waiting_for)
    assert tuple((each.name, each.epsilon) for each in reported.silos) == progress.epsilon
    assert reported.seconds_per_round > 0


def test_at_its_end(federation, unchanged):
    federation.drive()
    with unchanged():
        reported = the_run(federation)
    assert (reported.state, reported.round, reported.reason) == (RunState.FINISHED, 4, None)
    assert [each.epsilon for each in reported.silos] == pytest.approx([1.0, 1.0])
    assert not any(each.is_awaited for each in reported.silos)


def test_why_it_has_stopped(federation):
    (federation.rehearsal.place / "north.csv").unlink()
    federation.drive()
    reported = the_run(federation)
    assert reported.state is RunState.STOPPED
    assert reported.reason == "north refuses: The table of north cannot be read."


def test_a_file_that_cannot_be_read_is_refused_by_name(federation):
    federation.drive()
    federation.file.write_bytes(b"nothing")
    with pytest.raises(ResumeError, match=r"coordinator\.db cannot be used"):
        status_of(federation)


def test_who_is_there_as_the_serving_process_tells(federation, waiting):
    """South has joined and waits; north is away and is the only one who is awaited."""
    from dpadmm.federation.https.client import Address, SiloClient, open_client
    from dpadmm.federation.silo import Silo

    files = federation.rehearsal.coordinator
    federation.ask()
    with federation.served() as (service, address):
        waiting(lambda: status_of(federation).runs[0].silos[0].has_joined is False)
        reported = status_of(federation)
        assert reported.is_serving
        assert (reported.process.host, reported.process.port) == ("127.0.0.1", int(address.rpartition(":")[2]))
        assert reported.runs[0].state is RunState.RUNNING

        with closing(Silo(federation.rehearsal.silos["south"].directory)) as silo:
            line = SiloClient(silo, address, federation.patience)
            with open_client(
                Address.parse(address), silo.key, silo.files.certificate, [federation.rehearsal.terms.coordinator]
            ) as client:
                line.exchange(client)
                waiting(lambda: status_of(federation).runs[0].silos[1].has_joined)
                north, south = status_of(federation).runs[0].silos
                assert (south.is_connected, south.is_awaited) == (True, False)
                assert (north.is_connected, north.seen, north.is_awaited) == (False, None, True)
            waiting(lambda: not status_of(federation).runs[0].silos[1].is_connected)
        assert status_of(federation).runs[0].silos[1].seen is not None
        assert service.status().joined == {federation.rehearsal.terms.digest: ("south",)}
    assert not is_held(files.lock)
    assert the_run(federation).state is RunState.RESTING
    assert read_status(files.status, CoordinatorProcess).pid


def test_its_keys_are_plain_values(federation):
    federation.drive()
    reported = json.loads(json.dumps(status_of(federation).as_json()))
    assert set(reported) == {"directory", "is_serving", "process", "runs"}
    assert reported["runs"][0]["state"] == "finished"
    assert set(reported["runs"][0]["silos"][0]) == {
        "name",
        "is_connected",
        "seen",
        "has_joined",
        "has_answered",
        "is_awaited",
        "epsilon",
    }


def test_a_run_without_a_key_can_be_looked_at_only(federation):
    with closing(opened(federation)) as run, pytest.raises(InputError, match="not driven"):
        _ = Coordinator(run.store, run.terms.digest, None).invitation


def test_the_log_of_a_run_keeps_its_latest_lines(federation, monkeypatch):
    monkeypatch.setattr("dpadmm.federation.coordinator_store.MOST_LOGGED", 5)
    assert MOST_LOGGED > 1000
    with closing(opened(federation)) as run:
        run.ask()
        for number in range(20):
            run.stored.log("refused", f"number {number}")
        assert run.stored.logged() == [("refused", f"number {n}") for n in range(15, 20)]
        assert run.stored.state() == ("wanted", None)
