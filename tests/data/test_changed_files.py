"""A Parquet file that is written again is noticed at both ends of every part that is read of it."""

import os

import numpy as np
import pandas as pd
import pytest

from dpadmm.data import parquet
from dpadmm.data.parquet import ParquetTable
from dpadmm.errors import InputError

ROWS = 600


@pytest.fixture
def part(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "_MOST_ROWS", 128)
    written(tmp_path / "table.parquet", 0)
    (found,) = ParquetTable.of(tmp_path / "table.parquet").parts
    return found


def written(path, first):
    """Write a table of the same size over the file, and leave its time of change as it was."""
    before = path.stat() if path.exists() else None
    pd.DataFrame({"a": np.arange(first, first + ROWS)}).to_parquet(path, compression=None, use_dictionary=False)
    if before is not None:
        assert path.stat().st_size == before.st_size
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_before_the_first_row_is_read(part):
    written(part.path, ROWS)
    with pytest.raises(InputError, match="has changed since it was checked"):
        next(part.frames(["a"]))


def test_while_rows_are_read(part):
    frames = part.frames(["a"])
    first = next(frames)
    assert first["a"].tolist() == list(range(128))
    written(part.path, ROWS)
    with pytest.raises(InputError, match="has changed since it was checked"):
        list(frames)


def test_a_file_that_stays_is_read_to_its_end(part):
    assert np.concatenate([each["a"] for each in part.frames(["a"])]).tolist() == list(range(ROWS))
