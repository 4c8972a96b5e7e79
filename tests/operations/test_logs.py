"""Logs of bounded size: private, rotated, never behind another file, and no danger to the service."""

import logging
import stat

import pytest

from dpadmm.errors import InputError
from dpadmm.operations import logs
from dpadmm.operations.logs import FILES, LogFile


@pytest.fixture
def log(tmp_path, monkeypatch):
    """A logger that writes to a file of at most 1000 bytes."""
    monkeypatch.setattr(logs, "MOST_BYTES", 1000)
    handler = LogFile(tmp_path / "service.log")
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger = logging.Logger("a test")
    logger.addHandler(handler)
    yield logger
    handler.close()


def test_it_never_grows_beyond_its_files(log, tmp_path):
    for number in range(500):
        log.info("line %d", number)
    found = sorted(tmp_path.iterdir())
    assert [path.name for path in found] == ["service.log", *(f"service.log.{i}" for i in range(1, FILES))]
    assert all(path.stat().st_size <= 1000 for path in found)
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o600}
    assert found[0].read_text().endswith("line 499\n")


def test_it_goes_on_with_its_own_file(log, tmp_path):
    log.info("first")
    again = LogFile(tmp_path / "service.log")
    again.close()
    assert "first" in (tmp_path / "service.log").read_text()


@pytest.mark.parametrize("content", [b"age,dose\n1,2\n", b"SQLite format 3\0"])
def test_it_is_never_written_behind_anything_else(tmp_path, content):
    place = tmp_path / "patients.csv"
    place.write_bytes(content)
    with pytest.raises(InputError, match="is not a log of this program"):
        LogFile(place)
    assert place.read_bytes() == content


def test_places_that_cannot_be(tmp_path):
    for place in (tmp_path, tmp_path / "nowhere" / "log"):
        with pytest.raises(InputError, match="Choose another"):
            LogFile(place)


def test_a_full_disk_is_told_once_and_disturbs_nobody(log, capsys, monkeypatch):
    def full(self, record):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(logs.RotatingFileHandler, "shouldRollover", full)
    for _ in range(3):
        log.info("lost")
    assert capsys.readouterr().err.count("cannot be written at the moment") == 1
