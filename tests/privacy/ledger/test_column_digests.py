"""Digests of columns in pieces: those that earlier ledgers have, in memory and streamed, however a table is cut."""

import hashlib
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scipy import sparse

from dpadmm.data import parquet
from dpadmm.data.parquet import ParquetTable, StreamedTable
from dpadmm.data.reading import read_file
from dpadmm.privacy.ledger import SiloColumns
from dpadmm.privacy.ledger.fingerprints import column_digest, pieces_of


def as_first_written(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=32, person=b"dpadmm column").digest()


def number_content(values: list[float]) -> bytes:
    """Return what a ledger hashes of numbers: rows, places of what is not zero, and its digits."""
    kept = [(place, value) for place, value in enumerate(values) if value != 0]
    places = b"".join(place.to_bytes(8, "little") for place, _ in kept)
    digits = "|".join("%.17g" % x if x == x and round(x) == x else "%.15g" % x for _, x in kept)  # noqa: UP031
    return b"number" + len(values).to_bytes(8, "little") + places + digits.encode()


def text_content(texts: list[str]) -> bytes:
    return b"text" + b"".join(len(text.encode()).to_bytes(8, "little") + text.encode() for text in texts)


CASES = {
    "numbers": (np.array([0.1, 0.0, -3.0, np.nan, 1e300, 2.0**53, -0.0]), number_content),
    "whole numbers": (np.array([0, 5, -7, 0, 2**53]), number_content),
    "truths": (np.array([True, False, True]), number_content),
    "long identifiers": (np.array([1, 2**53 + 3, 3]), lambda cells: text_content([str(cell) for cell in cells])),
    "numbers as text": (np.array([" 1", "0.50", "-2e3", "0"]), lambda _: number_content([1.0, 0.5, -2000.0, 0.0])),
    "identifiers as text": (np.array(["9007199254740995", "1"]), text_content),
    "text": (np.array(["é", "1", ""], dtype=object), text_content),
    "truths and numbers": (np.array(["true", "1"]), text_content),
    "truths as text": (np.array(["True", "", "FALSE"]), lambda _: number_content([1.0, np.nan, 0.0])),
    "days": (np.array(["2020-01-01", "NaT"], dtype="M8[ns]"), lambda _: text_content(["2020-01-01", ""])),
    "moments": (
        np.array(["2020-01-01T03:00", "2020-01-01T03:00:01.5"], dtype="M8[ns]"),
        lambda _: text_content(["2020-01-01 03:00", "2020-01-01 03:00:01.500"]),
    ),
    "nothing": (np.array([None, None], dtype=object), lambda _: number_content([np.nan, np.nan])),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("rows", [1, 2, 100])
def test_the_digest_is_the_one_that_earlier_ledgers_know(case, rows):
    column, content = CASES[case]
    wanted = as_first_written(content(column.tolist()))
    assert column_digest(pieces_of(column, rows), len(column)) == wanted
    assert SiloColumns("a", {"x": column}).digests == {"x[0]": wanted}


def test_a_sparse_column_has_the_digest_of_its_dense_self():
    dense = np.where(np.random.default_rng(0).random((3000, 2)) < 0.1, 0.25, 0.0)
    ours, theirs = (SiloColumns("a", {"x": each}).digests for each in (sparse.csr_array(dense), dense))
    assert ours == theirs
    assert ours["x[0]"] == as_first_written(number_content(dense[:, 0].tolist()))


def all_types(rows: int, seed: int) -> pa.Table:
    """Return one column of every type that Parquet and pandas have for cells, with and without empty ones."""
    drawn = np.random.default_rng(seed)
    gone = drawn.random(rows) < 0.2
    big = drawn.integers(2**53, 2**60, rows)
    days = [date(2020, 1, 1 + int(i)) for i in drawn.integers(0, 28, rows)]
    moments = [datetime(2020, 1, 1, int(i)) for i in drawn.integers(0, 24, rows)]
    amounts = [Decimal(int(i)) / 4 for i in drawn.integers(-8, 9, rows)]
    texts = drawn.choice(["a", " b", "c"], rows).tolist()
    whole = drawn.integers(-2, 3, rows)
    frame = pd.DataFrame(
        {
            "Int64": pd.Series(big, dtype="Int64").mask(gone),
            "Float64": pd.Series(drawn.normal(size=rows), dtype="Float64").mask(gone),
            "boolean": pd.Series(drawn.random(rows) < 0.5, dtype="boolean").mask(gone),
            "category": pd.Categorical(texts),
            "category of numbers": pd.Categorical(whole),
        }
    )
    table = pa.Table.from_pandas(frame)
    columns = {
        "double": pa.array(drawn.normal(size=rows), mask=gone),
        "float": pa.array(drawn.normal(size=rows), pa.float32()),
        "int": pa.array(whole),
        "int with nulls": pa.array(whole, mask=gone),
        "long": pa.array(big),
        "long with nulls": pa.array(big, mask=gone),
        "uint8": pa.array(drawn.integers(0, 3, rows), pa.uint8()),
        "bool": pa.array(drawn.random(rows) < 0.5),
        "bool with nulls": pa.array(drawn.random(rows) < 0.5, mask=gone),
        "text": pa.array(texts, pa.string(), mask=gone),
        "numbers as text": pa.array([str(i) for i in whole], pa.string(), mask=gone),
        "dictionary": pa.array(texts, pa.string(), mask=gone).dictionary_encode(),
        "day": pa.array(days, mask=gone),
        "moment": pa.array(moments, pa.timestamp("us"), mask=gone),
        "decimal": pa.array(amounts, pa.decimal128(9, 2), mask=gone),
        "nothing": pa.nulls(rows),
    }
    for name, values in columns.items():
        table = table.append_column(name, values)
    return table


@example(rows=1, sizes=[], seed=3)
@given(rows=st.integers(1, 60), sizes=st.lists(st.integers(1, 30), max_size=5), seed=st.integers(0, 5))
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_streamed_columns_of_all_types_have_the_digests_of_the_table_in_memory(
    tmp_path, monkeypatch, rows, sizes, seed
):
    monkeypatch.setattr(parquet, "_PART_ROWS", 20)
    monkeypatch.setattr(parquet, "_CELLS", 8)
    table, path = all_types(rows, seed), Path(tmp_path, "a.parquet")
    with pq.ParquetWriter(path, table.schema) as out:
        done = 0
        for size in [*sizes, rows]:
            out.write_table(table.slice(done, size))
            done += size
    ours = StreamedTable(ParquetTable.of(path)).ledger_columns("a")
    theirs = SiloColumns.of_frame("a", read_file(path).frame)
    assert (ours.rows, ours.size) == (theirs.rows, theirs.size)
    assert dict(ours.digests) == dict(theirs.digests)
