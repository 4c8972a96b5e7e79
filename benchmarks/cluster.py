"""A pass over 2,000,000 rows of 20 columns in Parquet, in this process and on a cluster of two workers on this machine.

Both make the same sums, gradients at one point, with two threads in all. The overhead is that of a pass over eight
parts without rows to read: what tasks, answers and their way cost.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from distributed import Client, LocalCluster

from dpadmm.core.dataset import Dataset
from dpadmm.data.cluster import DaskWorkers
from dpadmm.data.columns import BinaryLabel, Numeric
from dpadmm.data.parquet import ParquetTable, StreamedTable, ThreadWorkers, Workers
from dpadmm.data.schema import Schema
from dpadmm.problems.losses import Logistic
from dpadmm.problems.streams import StreamedRisk
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


def _risk(table: ParquetTable, workers: Workers) -> StreamedRisk:
    """Return the mean loss over the table."""
    columns = tuple(Numeric(f"x{j}", 0, 1) for j in range(COLUMNS))
    schema = Schema(columns, BinaryLabel("y", ("yes",), ("no",)))
    silos = Dataset.of_tables(schema, {"one": StreamedTable(table, workers)}, CellRules())
    (stream,) = silos.silos(silos.encoding(1.0, None))
    return StreamedRisk(stream, Logistic())


def rows() -> list[Row]:
    """Measure both in turns."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        _write(path)
        cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0")
        with cluster, Client(cluster, set_as_default=False) as client:
            there, here = DaskWorkers(client), ThreadWorkers(2)
            table = ParquetTable.of(path)
            on_cluster, in_process = _risk(there.check_tables([table])[0], there), _risk(table, here)
            point = np.full((1, on_cluster.dimension, 1), 0.1)
            assert np.array_equal(on_cluster.gradient(point), in_process.gradient(point))
            pairs = [
                (seconds(lambda: on_cluster.gradient(point), 1), seconds(lambda: in_process.gradient(point), 1))
                for _ in range(3)
            ]
            empty = seconds(lambda: list(there.run(abs, range(len(table.parts)))), 10)
    ours, theirs = (min(each) for each in zip(*pairs, strict=True))
    name = f"a pass over {ROWS:,} x {COLUMNS}"
    return [
        Row(f"{name}, two workers of a cluster", ours, "s", "two threads of one process", theirs, theirs / ours),
        Row(f"tasks and answers of a pass, {len(table.parts)} parts", 1e3 * empty, "ms", "none"),
    ]
