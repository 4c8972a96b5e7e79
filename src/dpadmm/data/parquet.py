"""Tables in Parquet files, in passes: screened, counted and encoded a batch at a time, never all in memory.

A table is one file, or all files of a folder in the order of their names: a fixed sequence of parts, some row groups of
a file each. A file that changes after it was first looked at is noticed at the beginning and at the end of every part
that is read of it. `Workers` call tasks on the parts: threads of this process, or, with the same protocol, a cluster
(`dpadmm.data.cluster`).

A pass over cells is `Workers.run(task, parts)`: a picklable task is called on every part of every silo, and what it
returns is added up in the parts' order. Passes over encoded rows are in `dpadmm.data.encoded`.
"""

import hashlib
import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpadmm.data.encoding import RowEncoding
from dpadmm.data.profile import ProfileForm
from dpadmm.data.reading import PARQUET, call_reader, name_columns
from dpadmm.data.schema import Schema
from dpadmm.data.tables import CellFindings, ScreenedCells, check_findings, check_present, read_cells
from dpadmm.errors import InputError, raise_alone
from dpadmm.privacy.ledger import SiloColumns
from dpadmm.privacy.ledger.fingerprints import column_digest
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.settings import CellRules, TableFormat

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
    """What distinguishes a file from a later one at the same path."""

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

    def frames(
        self, columns: Sequence[str], *, is_plain: bool = True, wanted: slice | None = None
    ) -> "Iterator[pd.DataFrame]":
        """Yield the rows with these columns of the file, a batch at a time; the index counts the rows of the file.

        is_plain: text is read as categories, and how pandas had stored the columns is ignored; what cells say is the
        same, and it is faster. wanted: which rows of the part, all where left out.
        """
        import pandas as pd

        self.check()
        batches = self._batches(columns, slice(0, self.rows) if wanted is None else wanted, is_plain=is_plain)
        while True:
            try:
                done, stored = next(batches, (0, None))
            except (OSError, ValueError, TypeError, LookupError, ArithmeticError, RuntimeError):
                self.check()  # the reader's own text may quote cells
                raise_alone(InputError(f"{self.path} cannot be read as Parquet: it is damaged. Write it again."))
            if stored is None:
                break
            # Asked for "a.b", the reader also returns the field b of a column a.
            named = stored.select(list(columns))
            frame = named.to_pandas(split_blocks=True, ignore_metadata=is_plain, use_threads=False)
            yield frame.set_axis(pd.RangeIndex(self.first + done, self.first + done + len(frame)), axis=0)
        self.check()

    def _batches(self, columns: Sequence[str], wanted: slice, *, is_plain: bool) -> Iterator[tuple[int, Any]]:
        """Yield where batches begin in the part, and these; no more is read ahead than a buffer of every column."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = pq.read_schema(self.path)
        texts = [name for name in columns if is_plain and pa.types.is_string(schema.field(name).type)]
        with pq.ParquetFile(self.path, read_dictionary=texts or None, buffer_size=_BUFFER, pre_buffer=False) as file:
            batch = batch_rows(len(columns), self._row_bytes(file, columns))
            done, groups = 0, list(self.groups)
            while groups and done + file.metadata.row_group(groups[0]).num_rows <= wanted.start:
                done += file.metadata.row_group(groups.pop(0)).num_rows
            for found in file.iter_batches(batch, row_groups=groups, columns=list(columns), use_threads=False):
                first, last = max(wanted.start, done), min(wanted.stop, done + len(found))
                if first < last:
                    yield first, found.slice(first - done, last - first)
                done += len(found)
                if done >= wanted.stop:
                    break

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
                    f"{file} does not have the columns of {files[0]}. Give all files of a folder the same in one order."
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
    """Calls a task on items, wherever that may be; tasks, items and results are small and picklable.

    scratch: folder for a private copy of encoded rows; None where there is none.
    """

    @property
    def scratch(self) -> Path | None:
        """The folder."""

    def check_tables(self, tables: "Sequence[ParquetTable]") -> "Sequence[ParquetTable]":
        """Return the tables as tasks find them; refuse, before anything is spent, files that not all workers see."""
        ...

    def run(self, task: Callable[[Item], Done], items: Sequence[Item]) -> Iterator[Done]:
        """Yield `task(item)` of all items in their order. A failing task ends the pass with its own exception."""
        ...

    def run_kept(self, makers: Sequence[Callable[[], Item]], tasks: Sequence[Callable[[Item], Done]]) -> Iterator[Done]:
        """Yield `task(make())` of all pairs in their order. What is made may be large, and may be kept where it is."""
        ...


@dataclass(frozen=True)
class ThreadWorkers:
    """Threads of this process; most of a pass is compiled code that runs beside other threads."""

    threads: int = min(_MOST_THREADS, os.cpu_count() or 1)
    scratch: Path | None = None

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

    def run_kept(self, makers: Sequence[Callable[[], Item]], tasks: Sequence[Callable[[Item], Done]]) -> Iterator[Done]:
        """Yield `task(make())`; nothing is kept."""
        yield from self.run(_made, list(zip(makers, tasks, strict=True)))


def _made(item: tuple[Callable[[], Item], Callable[[Item], Done]]) -> Done:
    make, task = item
    return task(make())


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return threads that stay: each keeps memory to allocate from, and new ones in every pass would add to it."""
    return ThreadPoolExecutor(threads, thread_name_prefix="dpadmm pass")


if hasattr(os, "register_at_fork"):  # threads do not live on in a forked process, which would wait for them
    os.register_at_fork(after_in_child=_pool.cache_clear)


@dataclass(frozen=True)
class BatchReader:
    """Reads parts of a table by a schema. stored: what the file calls the columns, and last the label."""

    schema: Schema
    screening: CellRules
    stored: tuple[str, ...]

    @classmethod
    def of(cls, schema: Schema, table: ParquetTable, screening: CellRules) -> "BatchReader":
        """Return the reader of a table; refuse one that lacks columns."""
        needed = [*schema.column_names, schema.label.name]
        check_present(table.where, needed, table.names)
        called = dict(zip(table.names, table.stored, strict=True))
        return cls(schema, screening, tuple(called[name] for name in needed))

    def batches(self, part: TablePart, wanted: slice | None = None) -> Iterator[tuple[ScreenedCells, CellFindings]]:
        """Yield the screened rows of a part, or some of them, and what is awkward in them, a batch at a time."""
        names = dict(zip(self.stored, [*self.schema.column_names, self.schema.label.name], strict=True))
        for frame in part.frames(self.stored, wanted=wanted):
            numbers = np.asarray(frame.index, dtype=np.int64) + 1
            read = frame.set_axis([names[stored] for stored in frame.columns], axis=1)
            yield read_cells(self.schema, read, numbers, str(part.path), self.screening)


def check_part(reader: BatchReader, part: TablePart) -> CellFindings:
    """Return the awkward cells of a part."""
    found = CellFindings(str(part.path))
    for _, findings in reader.batches(part):
        found.add(findings)
    return found


def count_part(reader: BatchReader, form: ProfileForm, part: TablePart) -> Floats:
    """Return the counts (size,) of a part for a column profile."""
    counts = np.zeros(form.size)
    for cells, _ in reader.batches(part):
        counts += cells.counts(form)
    return counts


def digest_column(table: ParquetTable, stored: str) -> bytes:
    """Return the digest of the column that the files call so; columns are independent, parts of a column are not."""

    def pieces() -> Iterator[NDArray[Any]]:
        for part in table.parts:
            for frame in part.frames([stored], is_plain=False):
                yield frame[stored].to_numpy()

    return column_digest(pieces, table.rows)


@dataclass(frozen=True)
class StreamedRows:
    """The rows of one silo, which stay in their files with their labels; notes: for the data's holder."""

    table: ParquetTable
    reader: BatchReader
    workers: Workers = field(repr=False)
    notes: tuple[str, ...] = ()
    labels: ClassVar[None] = None

    @property
    def number(self) -> int:
        """How many rows there are."""
        return self.table.rows

    def check(self, *, may_be_empty: bool = False) -> tuple[str, ...]:
        """Read all rows once, refuse what the policies do not allow, and return notes for the data's holder."""
        if self.number == 0 and not may_be_empty:
            raise InputError(f"{self.table.where} has no rows. Leave it out, or add at least one record.")
        found = self.workers.run(partial(check_part, self.reader), self.table.parts)
        files = []
        for where, parts in groupby(found, key=lambda each: each.where):
            files.append(CellFindings(where))
            for part in parts:
                files[-1].add(part)
        return check_findings(files, self.reader.schema, self.reader.screening, self.table.where)

    def counts(self, form: ProfileForm, row_weights: Floats | None = None) -> Floats:
        """Return the counts of all rows, each of which counts one."""
        if row_weights is not None:
            raise InputError("Rows that are streamed count one each.")
        counts = np.zeros(form.size)
        for part in self.workers.run(partial(count_part, self.reader, form), self.table.parts):
            counts += part
        return counts

    def rows(self, encoding: RowEncoding) -> Floats:
        """Refuse: they are had in passes."""
        raise InputError("Streamed rows are never in memory at once; use passes.")


@dataclass(frozen=True, eq=False, repr=False)
class StreamedColumns(SiloColumns):
    """The private table of one silo, in Parquet; `columns` are the names that the files have for the ledger's."""

    table: ParquetTable = field(kw_only=True)
    workers: Workers = field(kw_only=True)

    def __post_init__(self) -> None:
        """Every column has all rows."""

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.table.rows

    def _hash_columns(self) -> Mapping[str, bytes]:
        """Return what the same table in memory has."""
        found = self.workers.run(partial(digest_column, self.table), list(self.columns.values()))
        return {f"{name}[0]": digest for name, digest in zip(self.columns, found, strict=True)}


@dataclass(frozen=True)
class StreamedTable:
    """The rows of one silo that stay in their files, as `SiloTable` has those that are in memory."""

    table: ParquetTable
    workers: Workers = field(default=ThreadWorkers(), repr=False)
    hashed: dict[str, bytes] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def where(self) -> str:
        """The file or folder, for messages."""
        return self.table.where

    @property
    def written(self) -> TableFormat:
        """How it was read: Parquet knows its cells."""
        return TableFormat()

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.table.rows

    def screened(
        self, schema: Schema, screening: CellRules, kept: Ints | None = None, *, may_be_empty: bool = False
    ) -> StreamedRows:
        """Return the rows, checked in one pass over the files."""
        if kept is not None:
            raise InputError("Rows that are streamed are one person's each.")
        rows = StreamedRows(self.table, BatchReader.of(schema, self.table, screening), self.workers)
        return replace(rows, notes=rows.check(may_be_empty=may_be_empty))

    def ledger_columns(self, name: str, persons: Ints | None = None) -> SiloColumns:
        """Return the table as a ledger knows it."""
        if persons is not None:
            raise InputError("Rows that are streamed are one person's each.")
        columns = dict(zip(self.table.names, self.table.stored, strict=True))
        return StreamedColumns(name, columns, table=self.table, workers=self.workers).sharing(self.hashed)
