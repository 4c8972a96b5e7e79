"""Tables in Parquet files, read a batch at a time: one file, or all files of a folder in the order of their names.

A table is a fixed sequence of parts, some row groups of a file each. A file that changes after it was first looked at
is noticed at the beginning and at the end of every part that is read of it. `Workers` call tasks on the parts: threads
of this process, or, with the same protocol, a cluster (`dpadmm.data.cluster`).
"""

import hashlib
import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dpadmm.data.reading import PARQUET, call_reader, name_columns
from dpadmm.errors import InputError, raise_alone

if TYPE_CHECKING:
    import pandas as pd


_CELLS = 2**18  # decoded at a time, in several forms: larger batches are faster, and take more memory
_MOST_ROWS = 2**16
_MOST_BYTES = 2**22  # of a batch, as they are stored: numbers never reach it, long texts do

_PART_ROWS = 250_000  # a part has at least so many rows, if its file has: few tasks, but enough for two threads
_LOGS = ("_delta_log", ".hoodie")  # of Delta Lake and Hudi
_MAGIC = (b"PAR1", b"PARE")  # the latter is encrypted
_BUFFER = 2**18  # bytes read at a time of every column; without it, whole column chunks are


def batch_rows(n_columns: int, row_bytes: float = 0.0) -> int:
    """Return how many rows are decoded at a time, all that is in memory of a part; a power of two.

    row_bytes: what the cells of a row take that have no fixed width.

    >>> batch_rows(21), batch_rows(1), batch_rows(1000), batch_rows(1, 5000.0)
    (8192, 65536, 256, 512)
    """
    most = min(_CELLS / max(n_columns, 1), _MOST_ROWS, _MOST_BYTES / max(row_bytes, 1.0))
    return int(2 ** math.floor(math.log2(max(most, 1.0))))


@dataclass(frozen=True)
class FileStamp:
    """What tells a file from what it becomes when it is written again."""

    size: int
    modified: int
    footer: bytes = field(repr=False)

    @classmethod
    def of(cls, path: Path) -> "FileStamp":
        """Return the stamp of a file as it is now."""
        stat = path.stat()
        with path.open("rb") as file:
            file.seek(max(stat.st_size - 8, 0))
            length = int.from_bytes(file.read(4), "little")
            file.seek(max(stat.st_size - 8 - length, 0))
            footer = hashlib.blake2b(file.read(length), digest_size=16).digest()
        return cls(stat.st_size, stat.st_mtime_ns, footer)


@dataclass(frozen=True)
class TablePart:
    """Some row groups of a file. first: number of the first of its rows in the file, from 0."""

    path: Path
    groups: tuple[int, ...]
    first: int
    rows: int
    stamp: FileStamp = field(repr=False)

    def check(self) -> None:
        """Refuse to go on with a file that is no longer the one that was checked."""
        try:
            is_same = FileStamp.of(self.path) == self.stamp
        except OSError:
            is_same = False
        if not is_same:
            raise InputError(
                f"{self.path} has changed since it was checked, so it cannot be used any further. If the run had "
                "begun, what was reserved for it stays spent. Start again when nothing else writes to the file."
            )

    def frames(self, columns: Sequence[str], *, is_plain: bool = True) -> "Iterator[pd.DataFrame]":
        """Yield the rows with these columns of the file, a batch at a time; the index counts the rows of the file.

        is_plain: text is read as categories, and how pandas had stored the columns is ignored; what cells say is the
        same, and it is faster.
        """
        import pandas as pd

        self.check()
        done, batches = self.first, self._batches(columns, is_plain=is_plain)
        while True:
            try:
                stored = next(batches, None)
            except (OSError, ValueError, TypeError, LookupError, ArithmeticError, RuntimeError):
                self.check()  # the reader's own words may quote cells
                raise_alone(InputError(f"{self.path} cannot be read as Parquet: it is damaged. Write it again."))
            if stored is None:
                break
            # Asked for "a.b", the reader also returns the field b of a column a.
            wanted = stored.select(list(columns))
            frame = wanted.to_pandas(split_blocks=True, ignore_metadata=is_plain, use_threads=False)
            yield frame.set_axis(pd.RangeIndex(done, done + len(frame)), axis=0)
            done += len(frame)
        self.check()

    def _batches(self, columns: Sequence[str], *, is_plain: bool) -> Iterator[Any]:
        """Yield record batches; no more is read ahead than a buffer of every column."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = pq.read_schema(self.path)
        texts = [name for name in columns if is_plain and pa.types.is_string(schema.field(name).type)]
        with pq.ParquetFile(self.path, read_dictionary=texts or None, buffer_size=_BUFFER, pre_buffer=False) as file:
            batch = batch_rows(len(columns), self._row_bytes(file, columns))
            yield from file.iter_batches(batch, row_groups=list(self.groups), columns=list(columns), use_threads=False)

    def _row_bytes(self, file: Any, columns: Sequence[str]) -> float:
        """Return what a row takes, in its row group of the longest rows, of those columns that have no fixed width."""
        import pyarrow as pa

        wide = {name for name in columns if not pa.types.is_primitive(file.schema_arrow.field(name).type)}
        paths = [file.schema.column(j).path for j in range(len(file.schema))] if wide else []
        leaves = [j for j, path in enumerate(paths) if path in wide or path.split(".")[0] in wide]
        groups = [file.metadata.row_group(number) for number in self.groups]
        sizes = [(sum(each.column(j).total_uncompressed_size for j in leaves), each.num_rows) for each in groups]
        return max((size / rows for size, rows in sizes if rows), default=0.0)


@dataclass(frozen=True)
class ParquetTable:
    """The rows of one silo, in one file or several. `where` names it in messages.

    stored: names of the columns as the files have them. names: the same, as they are called.
    """

    where: str
    parts: tuple[TablePart, ...] = field(repr=False)
    stored: tuple[str, ...] = field(repr=False)
    names: tuple[str, ...] = field(repr=False)

    @classmethod
    def of(cls, path: Path) -> "ParquetTable":
        """Look at the footers of a file, or of all Parquet files of a folder."""
        files = parquet_files(path)
        found = [_footer(file) for file in files]
        columns = found[0][1]
        for file, (_, own, _) in zip(files, found, strict=True):
            if own != columns:
                raise InputError(
                    f"{file} does not have the columns of {files[0]}: the files of a folder are one table. Give all of "
                    "them the same columns in the same order."
                )
        parts = tuple(part for groups, _, stamp in found for part in groups)
        return cls(str(path), parts, tuple(columns), tuple(name_columns(str(path), columns)))

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(part.rows for part in self.parts)

    @property
    def decoded_bytes(self) -> int:
        """What the cells would take in memory, about."""
        return 8 * self.rows * len(self.names)


def parquet_files(path: Path) -> list[Path]:
    """Return the file, or the Parquet files of a folder in the order of their names."""
    if not path.is_dir():
        return [path]
    log = next((path / name for name in _LOGS if (path / name).is_dir()), None)
    if log is not None:
        raise InputError(
            f"{log} says which files of the folder are the table, and others may hold rows that were deleted or "
            "replaced. Write the present rows into a folder of their own."
        )
    inside = [each for each in path.iterdir() if not each.name.startswith((".", "_"))]
    if any(each.is_dir() for each in inside):
        raise InputError(f"The folder {path} has folders inside. Give a folder that holds all Parquet files itself.")
    files = sorted(each for each in inside if each.name.lower().endswith(PARQUET))
    lost = next((each for each in sorted(set(inside).difference(files)) if _may_hold_rows(each)), None)
    if lost is not None:
        raise InputError(
            f"{lost} seems to hold rows of the table, but its name does not end in {' or '.join(PARQUET)}, so they "
            "would be left out. Rename it, or move it elsewhere."
        )
    if not files:
        raise InputError(f"The folder {path} has no Parquet files ({' or '.join(PARQUET)}). Give a folder that has.")
    return files


def _may_hold_rows(path: Path) -> bool:
    """Return whether a file is Parquet by what it begins with, or was by its name (x.parquet.gz, x.parquet.tmp)."""
    if any(ending in path.name.lower() for ending in PARQUET):
        return True
    try:
        if not path.is_file():  # a link to nowhere, or a pipe
            return True
        with path.open("rb") as file:
            return file.read(4) in _MAGIC
    except OSError:
        return True


def _footer(path: Path) -> tuple[list[TablePart], list[str], FileStamp]:
    """Return the parts of a file, the names of its columns, and its stamp."""
    import pyarrow.parquet as pq

    if not path.is_file():
        raise InputError(f"{path} does not exist or is not a file. Give the path of a Parquet file or a folder.")
    stamp = FileStamp.of(path)
    metadata = call_reader(path, "Parquet", lambda: pq.read_metadata(path))
    shown = call_reader(path, "Parquet", lambda: metadata.schema.to_arrow_schema().empty_table().to_pandas())
    parts: list[TablePart] = []
    groups: list[int] = []
    first = rows = 0
    for number in range(metadata.num_row_groups):
        groups.append(number)
        rows += metadata.row_group(number).num_rows
        if rows >= _PART_ROWS or number == metadata.num_row_groups - 1:
            if rows:
                parts.append(TablePart(path, tuple(groups), first, rows, stamp))
            first, rows, groups = first + rows, 0, []
    return parts, [str(name) for name in shown.columns], stamp


Item = TypeVar("Item")
Done = TypeVar("Done")

_MOST_THREADS = 2  # each holds a batch of its own in several forms: more would be faster, and take more memory


class Workers(Protocol):
    """Calls a task on items, wherever that may be; tasks, items and results are small and picklable."""

    def check_tables(self, tables: "Sequence[ParquetTable]") -> "Sequence[ParquetTable]":
        """Return the tables as tasks find them; refuse, before anything is spent, files that not all workers see."""
        ...

    def run(self, task: Callable[[Item], Done], items: Sequence[Item]) -> Iterator[Done]:
        """Yield `task(item)` of all items in their order. A failing task ends the pass with its own exception."""
        ...


@dataclass(frozen=True)
class ThreadWorkers:
    """Threads of this process; most of a pass is compiled code that runs beside other threads."""

    threads: int = min(_MOST_THREADS, os.cpu_count() or 1)

    def check_tables(self, tables: "Sequence[ParquetTable]") -> "Sequence[ParquetTable]":
        """Return the tables as they are: threads see the files that this process sees."""
        return tables

    def run(self, task: Callable[[Item], Done], items: Sequence[Item]) -> Iterator[Done]:
        """Yield the results in order; at most `threads` items are under way when a pass is given up."""
        if self.threads == 1 or len(items) <= 1:
            yield from map(task, items)
            return
        pending = deque(_pool(self.threads).submit(task, item) for item in items)
        try:
            while pending:
                yield pending.popleft().result()
        finally:
            for each in pending:
                each.cancel()
            wait(pending)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return threads that stay: each keeps memory to allocate from, and new ones in every pass would add to it."""
    return ThreadPoolExecutor(threads, thread_name_prefix="dpadmm pass")


if hasattr(os, "register_at_fork"):  # threads do not live on in a forked process, which would wait for them
    os.register_at_fork(after_in_child=_pool.cache_clear)
