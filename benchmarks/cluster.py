"""A pass over 2,000,000 rows of 20 columns in Parquet, on a cluster of two workers on this machine and in this process.

Both make the same sums, gradients at one point, with two threads in all, over rows that are encoded already. The
overhead is that of a pass that does nothing with its blocks: what tasks, answers and their way cost.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from distributed import Client, LocalCluster

from dpadmm.core.dataset import Dataset
from dpadmm.data.cluster import DaskWorkers
from dpadmm.data.columns import BinaryLabel, Numeric
from dpadmm.data.encoded import EncodedBlock
from dpadmm.data.parquet import ParquetTable, StreamedTable, ThreadWorkers, Workers
from dpadmm.data.schema import Schema
from dpadmm.methods.base import Agents
from dpadmm.methods.batches import whole_gradients
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import Problem, risk_of
from dpadmm.settings import CellRules
from table import Row, seconds

ROWS, COLUMNS, PIECE = 2_000_000, 20, 250_000


def _write(path: Path) -> None:
    """Write the table, a row group at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, writer = np.random.default_rng(1), None
    for _ in range(ROWS // PIECE):
        table = pd.DataFrame(rng.uniform(0, 1, (PIECE, COLUMNS)), columns=[f"x{j}" for j in range(COLUMNS)])
        table["y"] = np.where(rng.random(PIECE) < table["x0"], "yes", "no")
        arrow = pa.Table.from_pandas(table, preserve_index=False)
        writer = writer or pq.ParquetWriter(path, arrow.schema)
        writer.write_table(arrow, row_group_size=PIECE)
    assert writer is not None
    writer.close()


def _agents(table: ParquetTable, workers: Workers) -> Agents:
    """Return the silo, whose function is the mean loss over the table."""
    columns = tuple(Numeric(f"x{j}", 0, 1) for j in range(COLUMNS))
    schema = Schema(columns, BinaryLabel("y", ("yes",), ("no",)))
    silos = Dataset.of_tables(schema, {"one": StreamedTable(table, workers)}, CellRules())
    (rows,) = silos.silos(silos.encoding(1.0, None))
    return Agents.of(Problem.of(risk_of(rows, Logistic())), None, 1e-9, threads=2)


def rows() -> list[Row]:
    """Measure both in turns, the first pass of the cluster alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        _write(path)
        cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0")
        with cluster, Client(cluster, set_as_default=False) as client:
            there, here = DaskWorkers(client), ThreadWorkers(2, Path(folder))
            table = ParquetTable.of(path)
            on_cluster, in_process = _agents(there.check_tables([table])[0], there), _agents(table, here)
            point = np.full((1, in_process.functions.dimension, 1), 0.1)
            begin = time.perf_counter()
            found = whole_gradients(on_cluster, point)
            first = time.perf_counter() - begin
            assert np.array_equal(found, whole_gradients(in_process, point))
            pairs = [
                (
                    seconds(lambda: whole_gradients(on_cluster, point)),
                    seconds(lambda: whole_gradients(in_process, point)),
                )
                for _ in range(5)
            ]
            empty = seconds(lambda: list(there.run_kept(list(there.kept), [_nothing] * len(there.kept))), 10)
            blocks = len(there.kept)
    ours, theirs = (min(each) for each in zip(*pairs, strict=True))
    name = f"a pass over {ROWS:,} x {COLUMNS}"
    return [
        Row(
            f"{name}, two workers of a cluster",
            ours,
            "s",
            "two threads, mapped rows",
            theirs,
            theirs / ours,
            target=0.5,
        ),
        Row(f"the first one, which encodes {blocks} blocks", first, "s", ""),
        Row(f"tasks and answers of a pass, {blocks} blocks", 1e3 * empty, "ms", ""),
    ]


def _nothing(block: EncodedBlock) -> float:
    """Do nothing."""
    return 0.0
