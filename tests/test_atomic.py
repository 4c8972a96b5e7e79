"""Files are there whole, as they were or as they are now, and nothing is left beside them."""

import os
import stat

import pytest

from dpadmm.files import write_atomic


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    place = tmp_path / "terms.toml"
    write_atomic(place, b"old")
    write_atomic(place, b"new")
    assert place.read_bytes() == b"new"

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomic(place, b"half")
    assert place.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [place]


def test_what_may_not_be_replaced_stays(tmp_path):
    place = tmp_path / "silo.key"
    write_atomic(place, b"first", 0o600, may_replace=False)
    with pytest.raises(FileExistsError):
        write_atomic(place, b"second", 0o600, may_replace=False)
    assert place.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [place]
    if os.name == "posix":
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
