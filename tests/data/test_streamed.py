"""Streamed tables: the same counts, sums, findings and digests as in memory, whatever row groups the files have."""

import os
import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.contracts.parquet_groups import write_groups

from dpadmm.core.dataset import Dataset
from dpadmm.data import parquet
from dpadmm.data.columns import BinaryLabel, Categorical, ClassLabel, Numeric, RealLabel
from dpadmm.data.encoded import LabelledTask
from dpadmm.data.encoding import CONSTANT
from dpadmm.data.parquet import (
    BatchReader,
    ParquetTable,
    StreamedRows,
    StreamedTable,
    ThreadWorkers,
    count_part,
)
from dpadmm.data.profile import ProfileForm
from dpadmm.data.reading import read_file
from dpadmm.data.schema import Schema
from dpadmm.data.tables import screen_cells
from dpadmm.errors import InputError
from dpadmm.privacy.ledger import SiloColumns
from dpadmm.problems.losses import Huber, Logistic, Softmax
from dpadmm.problems.problem import risk_of
from dpadmm.problems.streams import GradientSum
from dpadmm.settings import CellRules

NUMBERS = tuple(Numeric(name, -2, 3) for name in ("x", "y", "z"))
CATEGORICAL = (Categorical("word", ("a", "b", "c")), Categorical("code", (1, 2)))
BINARY = BinaryLabel("sick", ("yes",), ("no",))
KINDS = ClassLabel("kind", ("p", "q", "r"))
AMOUNT = RealLabel("amount", -1, 4)
FILLED = CellRules(missing="fill", unlisted="zero")


def table(rows: int, seed: int, share: float = 0.1) -> pd.DataFrame:
    """Return numbers and words of all kinds; a share of the cells of some columns is empty."""
    drawn = np.random.default_rng(seed)
    gone = drawn.random((rows, 3)) < share
    return pd.DataFrame(
        {
            "x": drawn.normal(size=rows).round(2),
            "y": pd.array(np.where(gone[:, 0], np.nan, drawn.integers(-3, 5, rows))),
            "z": drawn.integers(-2, 3, rows),
            "word": np.where(gone[:, 1], None, drawn.choice(["a", "b", "c", "other"], rows)),
            "code": pd.Series(np.where(gone[:, 2], None, drawn.integers(1, 3, rows)), dtype="Int64"),
            "sick": drawn.choice(["yes", "no"], rows),
            "kind": drawn.choice(["p", "q", "r"], rows),
            "amount": drawn.normal(size=rows),
        }
    )


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut tables into many parts and batches, as only large ones are."""
    monkeypatch.setattr(parquet, "_PART_ROWS", 40)
    monkeypatch.setattr(parquet, "_CELLS", 64)


def streamed(
    paths: list[Path], columns=NUMBERS, label=BINARY, screening=FILLED, threads: int = 2
) -> tuple[Dataset, Schema]:
    schema = Schema(columns, label, constant=CONSTANT)
    tables = [ParquetTable.of(path) for path in paths]
    parts = [StreamedRows(each, BatchReader.of(schema, each, screening), ThreadWorkers(threads)) for each in tables]
    return Dataset(schema, parts, [path.stem for path in paths]), schema


def in_memory(frames: list[pd.DataFrame], schema: Schema, screening=FILLED) -> Dataset:
    parts = [screen_cells(schema, frame, "t", screening) for frame in frames]
    return Dataset(schema, parts, [f"s{i}" for i in range(len(frames))])


@given(
    sizes=st.lists(st.integers(0, 60), max_size=6),
    rows=st.integers(1, 200),
    columns=st.sampled_from([NUMBERS, (*NUMBERS, *CATEGORICAL), CATEGORICAL]),
    case=st.sampled_from([(BINARY, Logistic()), (KINDS, Softmax(3, 0.6)), (AMOUNT, Huber(0.5))]),
)
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_counts_values_and_gradients_are_those_of_the_table_in_memory(tmp_path, sizes, rows, columns, case):
    label, loss = case
    frames = [table(rows, 1), table(57, 2)]
    paths = [write_groups(tmp_path / f"{i}.parquet", frame, sizes) for i, frame in enumerate(frames)]
    found, schema = streamed(paths, columns, label)
    wanted = in_memory(frames, schema)
    assert found.sizes == wanted.sizes
    np.testing.assert_array_equal(found.counts(per_user=False), wanted.counts(per_user=False))
    encoding = schema.encoding(1.5)
    (stream,), (silos,) = found.silos(encoding), wanted.silos(encoding)
    ours, theirs = risk_of(stream, loss, 0.1), risk_of(silos, loss, 0.1)
    assert ours.constants == theirs.constants
    assert ours.dimension == theirs.dimension
    w = np.random.default_rng(0).normal(size=(2, ours.dimension, 3))
    np.testing.assert_allclose(ours.value(w), theirs.value(w), rtol=1e-12)
    np.testing.assert_allclose(ours.gradient(w), theirs.gradient(w), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.gradient(w[:1]), theirs.gradient(w[:1]), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.take(np.array([1])).value(w[1:]), theirs.value(w)[1:], rtol=1e-12)


def test_hessians_class_weights_nominal_sizes_and_one_class_against_the_rest(tmp_path):
    frame = table(150, 3)
    path = write_groups(tmp_path / "a.parquet", frame, [20, 60])
    found, schema = streamed([path], label=KINDS)
    wanted, encoding = in_memory([frame], schema), schema.encoding(1.5)
    weights = {"p": 0.5, "q": 1.0, "r": 0.25}
    pairs = [(found, wanted), (found.weighted(weights), wanted.weighted(weights))]
    point = np.random.default_rng(0).normal(size=(1, encoding.dimension))
    for ours, theirs in pairs:
        for stream, silos in zip(ours.silos(encoding, 3), theirs.silos(encoding, 3), strict=True):
            one, other = (risk_of(each.with_nominal([140]), Logistic(), 0.2) for each in (stream, silos))
            assert one.has_nominal_sizes
            np.testing.assert_allclose(*(risk.gradient(point[:, :, None]) for risk in (one, other)), rtol=1e-10)
            np.testing.assert_allclose(*(risk.hessian(0, point[0]) for risk in (one, other)), rtol=1e-10, atol=1e-14)


def test_two_classes_are_weighted_as_in_memory(tmp_path):
    frame = table(90, 4)
    found, schema = streamed([write_groups(tmp_path / "a.parquet", frame, [33])])
    encoding, weights = schema.encoding(1.5), {schema.label.classes[0]: 0.25}
    (stream,), (silos,) = (each.weighted(weights).silos(encoding) for each in (found, in_memory([frame], schema)))
    w = np.ones((1, encoding.dimension, 1))
    np.testing.assert_allclose(risk_of(stream, Logistic()).value(w), risk_of(silos, Logistic()).value(w), rtol=1e-12)


def test_sums_do_not_depend_on_threads_and_tasks_can_be_sent_elsewhere(tmp_path):
    path = write_groups(tmp_path / "a.parquet", table(400, 5), [41] * 9)
    points = np.ones((1, len(NUMBERS) + 1, 1))
    sums = []
    for threads in (1, 2, 3):
        found, schema = streamed([path, path], threads=threads)
        (stream,) = found.silos(schema.encoding(1.5))
        sums.append(risk_of(stream, Logistic()).gradient(points).tobytes())
    assert len(set(sums)) == 1
    rows = found.rows[0]
    parts = rows.table.parts
    assert len(parts) == 10
    count = partial(count_part, rows.reader, ProfileForm(schema.columns))
    sent = pickle.loads(pickle.dumps((count, parts[3])))
    np.testing.assert_array_equal(sent[0](sent[1]), count(parts[3]))
    (block, _), task = stream.blocks.values(), LabelledTask(stream.use, GradientSum(Logistic(), points[0]))
    sent = pickle.loads(pickle.dumps((task, block, block())))
    np.testing.assert_array_equal(sent[0](sent[1]()), task(block()))
    np.testing.assert_array_equal(sent[0](sent[2]), task(block()))
    assert len(pickle.dumps(block())) < len(pickle.dumps(block)) + 200  # rows are not sent


def test_a_folder_is_one_table_in_the_order_of_its_names(tmp_path):
    frame, folder = table(120, 6), tmp_path / "big"
    folder.mkdir()
    write_groups(folder / "b.parquet", frame.iloc[50:].reset_index(drop=True), [10])
    write_groups(folder / "a.pq", frame.iloc[:50].reset_index(drop=True), [0, 30])
    (folder / "_SUCCESS").touch()
    (folder / "notes.txt").touch()
    whole, found = ParquetTable.of(folder), SiloColumns.of_frame("big", frame).digests
    assert [part.path.name for part in whole.parts][:1] == ["a.pq"]
    assert whole.rows == 120
    assert dict(StreamedTable(whole).ledger_columns("big").digests) == dict(found)
    (folder / "a.pq").rename(folder / "c.pq")
    other = StreamedTable(ParquetTable.of(folder)).ledger_columns("big").digests
    assert set(other) == set(found)
    assert not set(other.values()) & set(found.values())


def awkward() -> pd.DataFrame:
    frame = table(130, 7, share=0.0)
    frame["word"] = frame["word"].replace("other", "a")
    frame["y"] = frame["y"].clip(-2, 3)
    frame.loc[[3, 77, 78, 129], "y"] = np.nan
    frame.loc[[99, 100], "x"] = [np.inf, -np.inf]
    frame.loc[[0, 64], "word"] = ["secret", "secret"]
    frame.loc[128, "sick"] = "perhaps"
    return frame


@pytest.mark.parametrize(
    "screening",
    [CellRules(), CellRules(missing="fill"), CellRules(missing="blank", unlisted="blank", out_of_range="error")],
)
def test_awkward_cells_are_reported_as_in_memory(tmp_path, screening):
    path = write_groups(tmp_path / "a.parquet", awkward(), [1, 0, 50, 1, 47])
    found, schema = streamed([path], (*NUMBERS, *CATEGORICAL), screening=screening)
    with pytest.raises(InputError) as ours:
        found.rows[0].check()
    with pytest.raises(InputError) as theirs:
        screen_cells(schema, read_file(path).frame, str(path), screening)
    assert str(ours.value) == str(theirs.value)
    assert "rows 100, 101" in str(ours.value)
    assert "secret" not in str(ours.value)


def test_notes_add_up_and_blank_rows_are_counted_once(tmp_path):
    frame = awkward().assign(x=0.5)
    path = write_groups(tmp_path / "a.parquet", frame, [60])
    for screening in (FILLED, CellRules(missing="blank", unlisted="blank")):
        found, schema = streamed([path], (*NUMBERS, *CATEGORICAL), screening=screening)
        notes = screen_cells(schema, read_file(path).frame, str(path), screening).notes
        assert found.rows[0].check() == notes
        assert notes
    nothing = write_groups(tmp_path / "b.parquet", frame.assign(x=np.nan), [60])
    with pytest.raises(InputError, match="blanked"):
        streamed([nothing], screening=screening)[0].rows[0].check()


def test_faults_in_a_folder_name_the_file_and_its_own_row(tmp_path):
    frame = table(60, 8, share=0.0)
    frame["y"] = frame["y"].clip(-2, 3)
    write_groups(tmp_path / "a.parquet", frame, [10])
    write_groups(tmp_path / "b.parquet", frame.assign(x=[*[0.0] * 30, np.nan, *[0.0] * 29]), [5])
    with pytest.raises(InputError, match=r"b\.parquet, row 31"):
        streamed([tmp_path], screening=CellRules())[0].rows[0].check()


def test_a_table_without_rows_is_refused_unless_nobody_may_know(tmp_path):
    path = write_groups(tmp_path / "a.parquet", table(5, 9).iloc[:0], [])
    found, schema = streamed([path])
    with pytest.raises(InputError, match="no rows"):
        found.rows[0].check()
    assert found.rows[0].check(may_be_empty=True) == ()
    (stream,) = found.silos(schema.encoding(1.5))
    risk = risk_of(stream.with_nominal([10]), Logistic(), 0.5)
    w = np.ones((1, risk.dimension, 2))
    np.testing.assert_allclose(risk.gradient(w), 0.5 * w)
    np.testing.assert_allclose(risk.value(w), 0.25 * risk.dimension)


def test_a_file_that_changes_is_refused_between_passes_and_within_one(tmp_path):
    frame = table(300, 10)
    path = write_groups(tmp_path / "a.parquet", frame, [50] * 6)
    found, schema = streamed([path], threads=1)
    (stream,) = found.silos(schema.encoding(1.5))
    risk, w = risk_of(stream, Logistic()), np.ones((1, 4, 1))
    risk.gradient(w)
    before, rows = path.stat(), found.rows[0]
    begun = rows.reader.batches(rows.table.parts[0])
    next(begun)
    write_groups(path, frame.assign(x=0.0), [50] * 6)
    with pytest.raises(InputError, match="has changed"):
        list(begun)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(InputError, match="stays spent"):
        risk.gradient(w)
    path.unlink()
    with pytest.raises(InputError, match="has changed"):
        risk.value(w)


def test_a_column_that_is_not_there_is_named_and_names_are_stripped(tmp_path):
    frame = table(20, 11).rename(columns={"x": " x", "y": "y.1"})
    path = write_groups(tmp_path / "a.parquet", frame, [7])
    with pytest.raises(InputError, match="'y'"):
        streamed([path])
    columns = (Numeric("x", -2, 3), Numeric("y.1", -2, 3))
    found, schema = streamed([path], columns)
    wanted = in_memory([read_file(path).frame], schema)
    np.testing.assert_array_equal(found.counts(per_user=False), wanted.counts(per_user=False))
