"""Arrays and files that survive: read back as large as they are written, and checked once where nothing changes."""

import io
import os
from contextlib import closing

import numpy as np
import pytest

from dpadmm.errors import InputError, ResumeError
from dpadmm.federation import sqlite_file


@pytest.mark.slow
def test_arrays_of_every_size_are_read_back():
    (found,) = sqlite_file.unpack(sqlite_file.pack([np.ones((9, 2**22))]))
    assert found.shape == (9, 2**22)
    assert found[-1, -1] == 1.0


def test_compressed_arrays_are_refused():
    """`pack` compresses nothing, so what unpacks to more than its length is not its work."""
    target = io.BytesIO()
    np.savez_compressed(target, **{"000": np.zeros(1000)})
    with pytest.raises(InputError, match="unpacks to more"):
        sqlite_file.unpack(target.getvalue())


def test_a_file_is_checked_again_when_it_has_changed(tmp_path, monkeypatch):
    """The check reads all of it, and a coordinator looks at every run several times a second."""
    path, tables, checked = tmp_path / "run.db", "CREATE TABLE a (b INTEGER);", []
    sqlite_file.create(path, 7, tables, ("INSERT INTO a VALUES (?)", (1,)))
    sqlite_file.connect(path, 7, tables).close()
    usual = sqlite_file._is_sound
    monkeypatch.setattr(sqlite_file, "_is_sound", lambda *words: checked.append(1) or usual(*words))
    os.utime(path, (0, 0))
    for _ in range(3):
        with closing(sqlite_file.connect(path, 7, tables)) as connection:
            assert connection.execute("SELECT b FROM a").fetchall() == [(1,)]
        sqlite_file.connect_for_reading(path, 7, tables).close()
    assert len(checked) == 1
    content = bytearray(path.read_bytes())
    content[-4096:] = bytes(4096)
    path.write_bytes(content)
    with pytest.raises(ResumeError, match="damaged"):
        sqlite_file.connect(path, 7, tables)
    assert len(checked) == 2
