"""What a serving process tells about itself: on change, whole or not at all, and at nobody's expense."""

import json
import stat
from dataclasses import replace

import pytest

from dpadmm.federation.https import notice
from dpadmm.federation.https.notice import CoordinatorNotice, DrivenRun, SiloNotice, SiloPresence, telling
from dpadmm.federation.locks import is_held, sole

SILO = SiloNotice(
    pid=1,
    started="2026-01-01T00:00:00+00:00",
    coordinator="host:9092",
    is_connected=False,
    line="not dialled yet",
    since="2026-01-01T00:00:00+00:00",
    skew_seconds=None,
    answered=None,
)
COORDINATOR = CoordinatorNotice(
    pid=1,
    started="2026-01-01T00:00:00+00:00",
    host="0.0.0.0",
    port=9092,
    silos=(SiloPresence(key="ab", is_connected=True, seen=None),),
    runs=(DrivenRun("ff", ("north",), ("south", "east")),),
)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(notice, "TELL_SECONDS", 0.01)


@pytest.mark.parametrize("told", [SILO, COORDINATOR], ids=lambda told: type(told).__name__)
def test_what_is_told_can_be_read(tmp_path, told):
    place = tmp_path / "status.json"
    with telling(place, lambda: told):
        pass
    assert type(told).read(place) == told
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["status.json"]


def test_a_run_is_found_by_its_file():
    assert COORDINATOR.driven("ff").absent == ("south", "east")
    assert COORDINATOR.driven("00") is None


def test_changes_are_told_and_nothing_else_is_written(tmp_path, monkeypatch, foes):
    written, now = [], [SILO]
    original = notice._write
    monkeypatch.setattr(notice, "_write", lambda path, told: written.append(told) or original(path, told))
    looks = []
    with telling(tmp_path / "status.json", lambda: looks.append(1) or now[0]):
        foes.wait_for(lambda: len(looks) > 5, "some looks")
        now[0] = replace(SILO, is_connected=True)
        foes.wait_for(lambda: len(written) == 2, "the change")
    assert written == [SILO, replace(SILO, is_connected=True)]


def no_room(*_):
    raise OSError("no space left")


def test_what_an_earlier_process_told_is_gone_at_once(tmp_path, monkeypatch):
    place = tmp_path / "status.json"
    place.write_text(json.dumps({"pid": 99}))
    monkeypatch.setattr(notice, "write_atomic", no_room)
    with telling(place, lambda: SILO):
        assert not place.exists()


def test_where_it_cannot_be_written_nobody_is_disturbed_and_nothing_old_stays(tmp_path, foes, monkeypatch):
    place, told, looks = tmp_path / "status.json", [SILO], []
    with telling(place, lambda: looks.append(1) or told[0]):
        foes.wait_for(place.exists, "the first notice")
        monkeypatch.setattr(notice, "write_atomic", no_room)
        told[0] = replace(SILO, is_connected=True)
        foes.wait_for(lambda: not place.exists(), "its end")
        assert SiloNotice.read(place) is None
        monkeypatch.undo()
        foes.wait_for(place.exists, "the next")
    assert SiloNotice.read(place).is_connected


@pytest.mark.parametrize("text", ["", "nothing", "[]", "{}", '{"pid": 1}', '{"silos": 3, "runs": []}'])
def test_what_is_no_notice_is_none(tmp_path, text):
    place = tmp_path / "status.json"
    place.write_text(text)
    assert SiloNotice.read(place) is None
    assert CoordinatorNotice.read(place) is None


def test_a_notice_of_another_version_is_none(tmp_path):
    place = tmp_path / "status.json"
    with telling(place, lambda: SILO):
        pass
    place.write_text(json.dumps(json.loads(place.read_text()) | {"mood": "fine"}))
    assert SiloNotice.read(place) is None


def test_who_only_looks_at_a_lock_keeps_nobody_from_taking_it(tmp_path):
    """As `status --watch` and `federate` do, many times."""
    import fcntl
    import threading

    place = tmp_path / "running.lock"
    place.touch()
    with place.open() as looked_at:
        fcntl.flock(looked_at, fcntl.LOCK_SH)
        threading.Timer(0.1, looked_at.close).start()
        with sole(place, "This test"):
            assert is_held(place)
    assert not is_held(place)
