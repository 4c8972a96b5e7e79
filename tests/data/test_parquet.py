"""Parquet as other programs leave it: no row is lost in silence, none comes back that was deleted, changes are seen."""

import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpadmm.data import parquet
from dpadmm.data.parquet import ParquetTable
from dpadmm.errors import InputError

ROWS = pa.table({"x": [1.0, 2.0, 3.0], "y": ["yes", "no", "yes"]})
N = 600


@pytest.fixture
def part(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "_MOST_ROWS", 128)
    write(tmp_path / "table.parquet", 0)
    (found,) = ParquetTable.of(tmp_path / "table.parquet").parts
    return found


def write(path, first):
    """Write a table of the same size over the file, and leave its time of change as it was."""
    before = path.stat() if path.exists() else None
    pd.DataFrame({"a": np.arange(first, first + N)}).to_parquet(path, compression=None, use_dictionary=False)
    if before is not None:
        assert path.stat().st_size == before.st_size
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_file_that_stays_is_read_to_its_end(part):
    assert np.concatenate([each["a"] for each in part.frames(["a"])]).tolist() == list(range(N))


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_file_that_changes_is_noticed_before_the_first_row_is_read_and_after_the_last(part, is_begun):
    frames = part.frames(["a"])
    if is_begun:
        assert next(frames)["a"].tolist() == list(range(128))
    write(part.path, N)
    with pytest.raises(InputError, match="has changed"):
        list(frames) if is_begun else next(frames)


def test_what_other_programs_leave_beside_the_rows_is_ignored(tmp_path):
    pq.write_table(ROWS, tmp_path / "part-0.snappy.parquet")
    for name in ("_SUCCESS", ".part-0.snappy.parquet.crc", "_metadata", "notes.txt"):
        (tmp_path / name).write_bytes(b"crc")
    assert ParquetTable.of(tmp_path).rows == 3


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_name_with_a_dot_is_no_field_of_another_column(tmp_path, is_plain):
    path = tmp_path / "a.parquet"
    pq.write_table(ROWS.append_column("a.b", pa.array([4, 5, 6])).append_column("a", pa.array([{"b": 1}] * 3)), path)
    [part] = ParquetTable.of(path).parts
    [frame] = part.frames(["a.b", "x"], is_plain=is_plain)
    assert frame.to_dict("list") == {"a.b": [4, 5, 6], "x": [1.0, 2.0, 3.0]}


def test_long_texts_come_in_short_batches_and_columns_beside_them_do_not(tmp_path):
    """A ledger reads every column, so that memory must not grow with the texts that a table also has."""
    notes = [f"{i:04} " + "x" * 20_000 for i in range(600)]
    rows = pa.table({"x": range(600), "note": notes, "nested": [[note] for note in notes]})
    pq.write_table(rows, tmp_path / "a.parquet", use_dictionary=False)
    [part] = ParquetTable.of(tmp_path / "a.parquet").parts
    for name in ("note", "nested"):
        frames = list(part.frames([name], is_plain=False))
        assert {len(frame) for frame in frames} == {128, 600 % 128}
        assert [str(cell)[:8] for frame in frames for cell in frame[name]] == [
            str(each)[:8] for each in rows[name].to_pylist()
        ]
    assert [len(frame) for frame in part.frames(["x"])] == [600]
