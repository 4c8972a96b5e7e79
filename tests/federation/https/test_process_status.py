"""What a serving process writes about itself: on change, whole or not at all, and at nobody's expense."""

import json
import stat
from dataclasses import replace

import pytest

pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")

from dpadmm.federation.https import processes
from dpadmm.federation.https.processes import CoordinatorProcess, SiloProcess, publish_status, read_status
from dpadmm.federation.party_directory import exclusive_lock, is_held

TIME = "2026-01-01T00:00:00+00:00"
SILO = SiloProcess(pid=1, started=TIME, coordinator="host:9092", since=TIME)
COORDINATOR = CoordinatorProcess(
    pid=1, started=TIME, host="0.0.0.0", port=9092, connected=("ab",), seen={"ab": TIME}, joined={"ff": ("north",)}
)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(processes, "UPDATE_SECONDS", 0.01)


@pytest.mark.parametrize("status", [SILO, COORDINATOR], ids=lambda status: type(status).__name__)
def test_what_is_written_can_be_read_by_the_same_version(tmp_path, status):
    place = tmp_path / "status.json"
    with publish_status(place, lambda: status):
        pass
    assert read_status(place, type(status)) == status
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["status.json"]
    place.write_text(json.dumps(json.loads(place.read_text()) | {"mood": "fine"}))
    assert read_status(place, type(status)) is None


def test_only_changes_are_written(tmp_path, monkeypatch, ports):
    written, now, original = [], [SILO], processes.write_atomic
    monkeypatch.setattr(processes, "write_atomic", lambda *file: written.append(file[1]) or original(*file))
    looks = []
    with publish_status(tmp_path / "status.json", lambda: looks.append(1) or now[0]):
        ports.wait_for(lambda: len(looks) > 5, "some looks")
        now[0] = replace(SILO, is_connected=True)
        ports.wait_for(lambda: len(written) == 2, "the change")
    assert [json.loads(each)["is_connected"] for each in written] == [False, True]


def test_where_it_cannot_be_written_nobody_is_disturbed_and_nothing_old_stays(tmp_path, ports, monkeypatch):
    def no_space(*_):
        raise OSError("no space left")

    place, status, looks = tmp_path / "status.json", [SILO], []
    place.write_text(json.dumps({"pid": 99}))  # of an earlier process
    with monkeypatch.context() as patch:
        patch.setattr(processes, "write_atomic", no_space)
        with publish_status(place, lambda: SILO):
            assert not place.exists()
    with publish_status(place, lambda: looks.append(1) or status[0]):
        ports.wait_for(place.exists, "the first status")
        with monkeypatch.context() as patch:
            patch.setattr(processes, "write_atomic", no_space)
            status[0] = replace(SILO, is_connected=True)
            ports.wait_for(lambda: not place.exists(), "its end")
        ports.wait_for(place.exists, "the next")
    assert read_status(place, SiloProcess).is_connected


@pytest.mark.parametrize("text", ["", "nothing", "[]", "{}", '{"pid": 1}', '{"connected": 3, "joined": []}'])
def test_what_is_no_status_is_none(tmp_path, text):
    place = tmp_path / "status.json"
    place.write_text(text)
    assert read_status(place, SiloProcess) is read_status(place, CoordinatorProcess) is None


def test_who_only_looks_at_a_lock_keeps_nobody_from_taking_it(tmp_path):
    """As `status --watch` and `federate` do, many times."""
    import fcntl
    import threading

    place = tmp_path / "running.lock"
    place.touch()
    with place.open() as looked_at:
        fcntl.flock(looked_at, fcntl.LOCK_SH)
        threading.Timer(0.1, looked_at.close).start()
        with exclusive_lock(place, "This test"):
            assert is_held(place)
    assert not is_held(place)
