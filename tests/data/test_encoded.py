"""Encoded rows of streamed tables: the bits of rows in memory, in a file that has no name and that no crash leaves."""

import errno
import os
import shutil
import signal
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.contracts.parquet_groups import write_groups

from dpadmm.core.dataset import Dataset
from dpadmm.data import encoded, parquet
from dpadmm.data.columns import BinaryLabel, Categorical, ClassLabel, Numeric, RealLabel
from dpadmm.data.encoded import ParquetStream, PrivateFile
from dpadmm.data.parquet import ParquetTable, StreamedTable, ThreadWorkers
from dpadmm.data.schema import Schema
from dpadmm.data.tables import SiloTable
from dpadmm.errors import InputError
from dpadmm.methods.base import Agents
from dpadmm.methods.batches import whole_gradients
from dpadmm.problems import silos as silos_module
from dpadmm.problems.losses import Huber, Logistic, Softmax
from dpadmm.problems.problem import Problem, risk_of
from dpadmm.problems.silos import Silos
from dpadmm.settings import CellRules

TOWNS = tuple(map(str, range(40)))
DENSE = (Numeric("x", -2, 3), Categorical("word", ("a", "b", "c")))
SPARSE = (
    Numeric("x", -2, 3),
    Categorical("word", tuple("abcdefghij")),
    Categorical("town", TOWNS),
)
LABELS = [
    (BinaryLabel("sick", ("yes",), ("no",)), Logistic(), None),
    (BinaryLabel("sick", ("yes",), ("no",)), Logistic(0.6), {"yes": 0.5}),
    (ClassLabel("kind", ("p", "q", "r")), Softmax(3), None),
    (RealLabel("amount", -1, 4), Huber(0.5), None),
]
FILLED = CellRules(missing="fill", unlisted="zero")


def table(number: int, seed: int) -> pd.DataFrame:
    """Return rows of which some cells are empty or not listed."""
    drawn = np.random.default_rng(seed)
    level = drawn.choice(["a", "b", "c", "?"], number, p=[0.4, 0.3, 0.2, 0.1])
    return pd.DataFrame(
        {
            "x": np.where(drawn.random(number) < 0.1, np.nan, drawn.normal(size=number)),
            "word": np.where(drawn.random(number) < 0.1, None, level),
            "town": drawn.integers(0, 40, number).astype(str),
            "sick": drawn.choice(["yes", "no"], number),
            "kind": drawn.choice(["p", "q", "r"], number),
            "amount": drawn.normal(size=number),
        }
    )


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut tables into many parts, batches and blocks, as only large ones are."""
    monkeypatch.setattr(parquet, "_PART_ROWS", 40)
    monkeypatch.setattr(parquet, "_CELLS", 64)
    monkeypatch.setattr(silos_module, "_DENSE_NUMBERS", 400)
    monkeypatch.setattr(silos_module, "_SPARSE_ROWS", 40)


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, tuple[pd.DataFrame, Path]]:
    frames = {"north": table(301, 1), "south": table(90, 2)}
    return {name: (each, write_groups(tmp_path / f"{name}.parquet", each, [50, 7])) for name, each in frames.items()}


def silos_of(tables, schema: Schema, weights, workers: ThreadWorkers | None):
    """Return the encoded rows: in memory, or streamed by these workers."""
    given = {
        name: SiloTable(frame, name) if workers is None else StreamedTable(ParquetTable.of(path), workers)
        for name, (frame, path) in tables.items()
    }
    return Dataset.of_tables(schema, given, FILLED).weighted(weights).silos(schema.encoding(1.5))[0]


def sums(silos, loss, replicas: int, threads: int) -> bytes:
    problem = Problem.of(risk_of(silos, loss, 0.1))
    points = np.random.default_rng(0).normal(size=(2, problem.dimension, replicas))
    return whole_gradients(Agents.of(problem, None, 1e-9, threads=threads), points).tobytes()


@pytest.mark.parametrize(("label", "loss", "weights"), LABELS, ids=["two", "weighted", "classes", "number"])
@pytest.mark.parametrize("columns", [DENSE, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("small", [0, 20_000])
def test_sums_have_the_same_bits_in_memory_mapped_and_block_by_block(
    tables, tmp_path, monkeypatch, columns, label, loss, weights, small
):
    monkeypatch.setattr(silos_module, "SMALL", small)
    schema = Schema(columns, label)
    held = silos_of(tables, schema, weights, None)
    mapped = silos_of(tables, schema, weights, ThreadWorkers(2, tmp_path))
    assert isinstance(mapped, Silos)
    assert mapped.is_sparse is (columns is SPARSE)
    for replicas in (1, 3):
        wanted = sums(held, loss, replicas, 1)
        assert sums(mapped, loss, replicas, 2) == wanted
        for threads in (1, 2):
            flowing = silos_of(tables, schema, weights, ThreadWorkers(threads))
            assert isinstance(flowing, ParquetStream)
            assert sums(flowing, loss, replicas, threads) == wanted


def test_a_block_is_made_of_its_rows_wherever_parts_begin(tables, tmp_path):
    schema = Schema(DENSE, LABELS[0][0])
    stream = silos_of(tables, schema, None, ThreadWorkers(1))
    held = silos_of(tables, schema, None, None)
    stream.totals([lambda batch: np.zeros(1)] * 2, 20)
    blocks = list(stream.blocks.values())[:-4]
    assert len(blocks) > 8
    found = np.vstack([block().labelled(stream.use).features for block in blocks])
    np.testing.assert_array_equal(found, held.features[: len(found)])


def test_the_private_file_has_no_name_and_one_reader(tmp_path):
    with PrivateFile(tmp_path) as file:
        facts = os.fstat(file._file.fileno())
        assert stat.S_IMODE(facts.st_mode) == 0o600
        assert facts.st_nlink == 0
        file.write(np.arange(3.0), 16)
        file.write(np.arange(2.0), 0)
        mapped = file.mapped(np.float64, (5,))
    assert mapped.tolist() == [0.0, 1.0, 0.0, 1.0, 2.0]
    assert type(mapped) is np.ndarray  # as compiled kernels know it
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_killed_process_leaves_no_file(tmp_path):
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        file = PrivateFile(tmp_path)
        file.write(np.ones(10_000))
        file.mapped(np.float64, (10_000,))
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_refused_before_a_row_is_read(tables, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet.TablePart, "frames", None)
    with pytest.raises(InputError, match="nowhere"):
        silos_of(tables, Schema(DENSE, LABELS[0][0]), None, ThreadWorkers(1, tmp_path / "nowhere"))


def test_a_full_disk_is_refused_before_a_row_is_read(tables, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet.TablePart, "frames", None)
    usage = shutil.disk_usage(tmp_path)._replace(free=8 * 5 * 391 - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(InputError, match="scratch"):
        silos_of(tables, Schema(DENSE, LABELS[0][0]), None, ThreadWorkers(1, tmp_path))


@pytest.mark.parametrize("columns", [DENSE, SPARSE], ids=["dense", "sparse"])
def test_a_disk_that_becomes_full_ends_the_run_with_a_clear_error(tables, tmp_path, monkeypatch, columns):
    def full(self, array, place=None):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(encoded.PrivateFile, "write", full)
    with pytest.raises(InputError, match=r"spent.*scratch"):
        silos_of(tables, Schema(columns, LABELS[0][0]), None, ThreadWorkers(2, tmp_path))
