"""Silos in Parquet, screened, counted and encoded batch by batch, in passes: their rows are never all in memory.

A pass is `Workers.run(task, parts)`: a picklable task is called on every part of every silo, and what it returns is
added up in the parts' order. Tasks are the four below; new ones need nothing but a `TablePart`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpadmm.data.columns import weights_by_class
from dpadmm.data.encoding import RowEncoding
from dpadmm.data.parquet import ParquetTable, TablePart, ThreadWorkers, Workers
from dpadmm.data.profile import ProfileForm
from dpadmm.data.schema import Schema
from dpadmm.data.tables import Findings, ScreenedCells, check_present, conclude, read_cells
from dpadmm.errors import InputError
from dpadmm.privacy.ledger import SiloColumns
from dpadmm.privacy.ledger.fingerprints import column_digest
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.problems.silos import PairwiseSum, Silos
from dpadmm.problems.streams import BatchTask, SiloStream
from dpadmm.settings import CellRules, TableFormat


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

    def batches(self, part: TablePart) -> Iterator[tuple[ScreenedCells, Findings]]:
        """Yield the screened rows of a part and what is awkward in them, a batch at a time."""
        names = dict(zip(self.stored, [*self.schema.column_names, self.schema.label.name], strict=True))
        for frame in part.frames(self.stored):
            numbers = np.asarray(frame.index, dtype=np.int64) + 1
            read = frame.set_axis([names[stored] for stored in frame.columns], axis=1)
            yield read_cells(self.schema, read, numbers, str(part.path), self.screening)


def check_part(reader: BatchReader, part: TablePart) -> Findings:
    """Return the awkward cells of a part."""
    found = Findings(str(part.path))
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
class LabelUse:
    """What becomes of a label. rest_of: of numbers of classes, +1 for this one and -1 for the rest.

    class_shares: what rows count by their class.
    """

    rest_of: int | None = None
    class_shares: tuple[float, ...] | None = None

    def weights(self, labels: Floats) -> Floats | None:
        """Return what each row counts."""
        return None if self.class_shares is None else weights_by_class(labels, self.class_shares)

    def labels(self, labels: Floats) -> Floats:
        """Return the labels of the problem."""
        return labels if self.rest_of is None else np.where(labels == self.rest_of, 1.0, -1.0)


@dataclass(frozen=True, eq=False)
class SumPart:
    """Add up what a task makes of the encoded batches of a part."""

    reader: BatchReader
    encoding: RowEncoding
    use: LabelUse
    row_norm: float
    task: BatchTask

    def __call__(self, part: TablePart) -> Floats | float:
        """Return the sum."""
        total = PairwiseSum()
        for cells, _ in self.reader.batches(part):
            rows, labels = cells.rows(self.encoding), self.use.labels(cells.labels)
            batch = Silos.from_parts([rows], [labels], self.row_norm, ["batch"], nominal=[1])
            weights = self.use.weights(cells.labels)
            total.add(self.task(batch if weights is None else replace(batch, class_weights=weights)))
        found: Floats | float = total.value()
        return found


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
            files.append(Findings(where))
            for part in parts:
                files[-1].add(part)
        return conclude(files, self.reader.schema, self.reader.screening, self.table.where)

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


@dataclass(frozen=True, eq=False)
class ParquetStream(SiloStream):
    """The encoded rows of silos in Parquet."""

    parts: tuple[StreamedRows, ...] = field(repr=False)
    encoding: RowEncoding
    row_norm: float
    names: tuple[str, ...]
    nominal: Ints | None = None
    use: LabelUse = LabelUse()

    @cached_property
    def sizes(self) -> Ints:
        """Records per silo, or the nominal numbers in their place."""
        if self.nominal is not None:
            return self.nominal
        return np.array([part.number for part in self.parts], dtype=np.int64)

    @property
    def dimension(self) -> int:
        """Number of features d."""
        return self.encoding.dimension

    def totals(self, tasks: Sequence[BatchTask]) -> list[Floats | float]:
        """Return, of every silo, the sum of its task over its batches, in their order; one pass over all silos."""
        work = [
            (silo, SumPart(rows.reader, self.encoding, self.use, self.row_norm, task), part)
            for silo, (rows, task) in enumerate(zip(self.parts, tasks, strict=True))
            for part in rows.table.parts
        ]
        sums = [PairwiseSum() for _ in self.parts]
        done = self.parts[0].workers.run(_called, [(task, part) for _, task, part in work])
        for (silo, _, _), found in zip(work, done, strict=True):
            sums[silo].add(found)
        return [each.value() for each in sums]

    def take(self, agents: Ints) -> "ParquetStream":
        """Return the silos of `agents` only."""
        chosen = np.arange(self.n_agents)[agents]
        return replace(
            self,
            parts=tuple(self.parts[int(i)] for i in chosen),
            names=tuple(self.names[int(i)] for i in chosen),
            nominal=None if self.nominal is None else self.nominal[chosen],
        )

    def with_nominal(self, sizes: Sequence[int]) -> "ParquetStream":
        """Return the same rows with public numbers in the place of their secret ones."""
        return replace(self, nominal=np.array(sizes, dtype=np.int64))


def _called(item: tuple[SumPart, TablePart]) -> Floats | float:
    task, part = item
    return task(part)


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
