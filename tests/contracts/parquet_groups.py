"""Parquet files with row groups of any sizes, empty ones among them."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq


def write_groups(path: Path, frame: pd.DataFrame, sizes: Sequence[int]) -> Path:
    """Write a table in row groups of these sizes, and what is left in one more."""
    table = pa.Table.from_pandas(frame)
    with pq.ParquetWriter(path, table.schema) as out:
        done = 0
        for size in [*sizes, len(frame)]:
            out.write_table(table.slice(done, size), row_group_size=max(size, 1))
            done = min(done + size, len(frame))
    return path
