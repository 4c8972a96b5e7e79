"""Encoded rows of tables that stay in their files: in one private file that every pass maps, or block by block.

With a folder for it (`Workers.scratch`), all rows are encoded once, into a file without a name that only this process
can open; it is gone when the process ends, however it ends. What follows is done as with rows in memory.

Without a folder, a pass is made of blocks, those that sums over rows in memory are made of (`row_bounds`). Workers of a
cluster keep the blocks that they encode; threads encode them again in every pass. Either way sums have the same bits.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from scipy import sparse

from dpadmm.checks import option_name
from dpadmm.data.encoding import LabelUse, RowEncoding
from dpadmm.data.parquet import BatchReader, ParquetTable, StreamedRows, StreamedTable, TablePart
from dpadmm.data.schema import Schema
from dpadmm.errors import InputError, raise_alone
from dpadmm.problems.arrays import Floats, Ints, Matrix
from dpadmm.problems.centred import CentredRows
from dpadmm.problems.silos import PairwiseSum, Silos, as_kernels_need, dense, is_small, row_bounds, stack_rows
from dpadmm.problems.streams import BatchTask, SiloStream


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Some consecutive rows of a table, to be encoded. is_small: as of the silos that they are of (`Silos`)."""

    reader: BatchReader
    table: ParquetTable
    rows: slice
    encoding: RowEncoding
    row_norm: float
    is_small: bool = False

    def batches(self) -> Iterator[tuple[Matrix, Floats]]:
        """Yield the encoded rows and their labels, a batch at a time."""
        first = 0  # number of the part's first row in the table
        for part in self.table.parts:
            wanted = slice(max(self.rows.start - first, 0), min(self.rows.stop - first, part.rows))
            if wanted.start < wanted.stop:
                for cells, _ in self.reader.batches(part, wanted):
                    yield cells.rows(self.encoding), cells.labels
            first += part.rows

    def __call__(self) -> "EncodedBlock":
        """Encode the rows."""
        labels, kept, number = list[Floats](), list[Matrix](), 0
        for rows, own in self.batches():
            if isinstance(rows, np.ndarray):  # in place: both copies of a large block would be twice as much
                kept = kept or [np.empty((self.rows.stop - self.rows.start, rows.shape[1]))]
                kept[0][number : number + len(rows)] = rows
                number += len(rows)
            else:
                kept.append(rows)
            labels.append(own)
        rows = kept[0] if number else stack_rows(kept)
        long = self.encoding.keeps_length
        silos = Silos.from_parts([rows], [np.concatenate(labels)], self.row_norm, nominal=[1], weighs_long_rows=long)
        return EncodedBlock(silos, self)


class EncodedBlock:
    """The rows of a block, as a silo of nominal size 1, with their labels for every use.

    Encoded rows are neither sent nor stored: who gets them from elsewhere encodes them again, to the same bits.
    """

    def __init__(self, silos: Silos, source: RowBlock) -> None:
        self._silos, self._source, self._labelled = silos, source, dict[LabelUse, Silos]()

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how it is made."""
        return RowBlock.__call__, (self._source,)

    def __sizeof__(self) -> int:
        """Return how many bytes the rows take: a cluster moves little things, and leaves large ones where they are."""
        rows = self._silos.features
        return int(rows.data.nbytes if isinstance(rows, np.ndarray) else 3 * rows.data.nbytes // 2)

    def labelled(self, use: LabelUse) -> Silos:
        """Return the rows with the labels of a use; the rows are shared."""
        if use not in self._labelled:
            self._labelled[use] = use.of(self._silos)
            vars(self._labelled[use]).update(is_small=self._source.is_small)
        return self._labelled[use]


@dataclass(frozen=True, eq=False)
class LabelledTask:
    """A task for the rows of a block, with labels of some use."""

    use: LabelUse
    task: BatchTask

    def __call__(self, block: EncodedBlock) -> Floats:
        """Return what the task makes of the rows."""
        return self.task(block.labelled(self.use))


@dataclass(frozen=True, eq=False)
class ParquetStream(SiloStream):
    """The encoded rows of silos in Parquet, block by block.

    is_small: as of `Silos`. blocks: those there are already, by their table and rows: workers know them again.
    """

    parts: tuple[StreamedRows, ...] = field(repr=False)
    encoding: RowEncoding
    row_norm: float
    names: tuple[str, ...]
    nominal: Ints | None = None
    use: LabelUse = field(default_factory=LabelUse)
    is_small: bool = False
    blocks: dict[tuple[int, int, int], RowBlock] = field(default_factory=dict, repr=False)

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

    @cached_property
    def no_rows(self) -> Silos:
        """Silos that store rows as these are stored, without any."""
        return _no_rows(self.parts, self.encoding, self.row_norm)

    def totals(self, tasks: Sequence[BatchTask], dimension: int | None) -> list[Floats | float]:
        """Return, of every silo, the sum of its task over its blocks, in their order; one pass over all silos."""
        work = [
            (silo, block, LabelledTask(self.use, task))
            for silo, task in enumerate(tasks)
            for block in self._blocks_of(self.parts[silo], dimension)
        ]
        sums = [PairwiseSum() for _ in self.parts]
        _, makers, own = zip(*work, strict=True) if work else ((), (), ())
        for (silo, _, _), found in zip(work, self.parts[0].workers.run_kept(makers, own), strict=True):
            sums[silo].add(found)
        return [each.value() for each in sums]

    def _blocks_of(self, rows: StreamedRows, dimension: int | None) -> list[RowBlock]:
        """Return the blocks of a silo; dimension: by which rows are cut (`row_bounds`), None for one block."""
        bounds = np.array([0, rows.number])
        if rows.number > 0 and dimension is not None:
            bounds = row_bounds(slice(0, rows.number), dimension, self.no_rows.is_sparse)
        made = []
        for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            known = (rows.reader, rows.table, slice(first, last), self.encoding, self.row_norm, self.is_small)
            made.append(self.blocks.setdefault((id(rows), first, last), RowBlock(*known)))
        return made if rows.number > 0 else []

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
        nominal = np.array(sizes, dtype=np.int64)
        return replace(self, nominal=nominal, is_small=is_small(nominal))


def _no_rows(parts: Sequence[StreamedRows], encoding: RowEncoding, row_norm: float) -> Silos:
    """Return silos without rows, of the kind in which rows of these tables are stored: it follows from public facts."""
    rows = next(part for part in parts if part.number > 0)
    ((found, labels),) = RowBlock(rows.reader, rows.table, slice(0, 1), encoding, row_norm).batches()
    return Silos.from_parts([found[:0]], [labels[:0]], row_norm, nominal=[1], weighs_long_rows=encoding.keeps_length)


class PrivateFile:
    """Arrays in a file without a name, which only this process can open; what is mapped of it outlives it."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - mode 0600, unlinked at once
        self._lock = Lock()

    def __enter__(self) -> "PrivateFile":
        """Return the file, which is open."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._file.close()

    def write(self, array: Any, place: int | None = None) -> None:
        """Write an array at a place in bytes, at the end where left out."""
        with self._lock:
            self._file.seek(0, os.SEEK_END) if place is None else self._file.seek(place)
            self._file.write(np.ascontiguousarray(array).data)

    def mapped(self, kind: type, shape: tuple[int, ...]) -> Any:
        """Return the numbers of a kind that the file holds; what is written to them stays in memory."""
        self._file.flush()
        if 0 in shape:
            return np.empty(shape, kind)
        return np.asarray(np.memmap(self._file, kind, mode="c", shape=shape))


def check_scratch(schema: Schema, tables: Mapping[str, Any]) -> None:
    """Refuse a folder for encoded rows that cannot be written or has too little room; nothing has been spent yet."""
    streamed = [table for table in tables.values() if isinstance(table, StreamedTable)]
    folder = streamed[0].workers.scratch if streamed else None
    if folder is None:
        return
    advice = f"Nothing was spent. Free some space, give another folder ({option_name('scratch')}), or 'off'."
    encoding, number = schema.by_bounds(), len(schema.columns)
    a_row = 12 * (number + 2) if encoding.is_sparse(number) else 8 * encoding.dimension
    needed = a_row * sum(table.rows for table in streamed)
    try:
        with PrivateFile(folder):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        raise_alone(InputError(f"Encoded rows cannot be written to {folder}: {error.strerror}. {advice}"))
    if free < needed:
        raise InputError(
            f"Encoded rows take {needed / 1e6:,.0f} MB, but {folder} has {free / 1e6:,.0f} MB left. {advice}"
        )


def _mapped_rows(
    parts: Sequence[StreamedRows], encoding: RowEncoding, row_norm: float, folder: Path
) -> tuple[Matrix, Floats]:
    """Encode all rows into a private file; return them mapped, and their labels."""
    number, dimension = sum(part.number for part in parts), encoding.dimension
    kind, places, first = _no_rows(parts, encoding, row_norm).features, [], 0
    for rows in parts:
        for part in rows.table.parts:
            places.append((rows.reader, part, first))
            first += part.rows
    try:
        with PrivateFile(folder) as file, PrivateFile(folder) as other:
            if not isinstance(kind, np.ndarray):
                return _mapped_sparse_rows(file, other, kind, encoding, places)
            labels = list(parts[0].workers.run(partial(_write_part, file, encoding), places))
            return file.mapped(np.float64, (number, dimension)), np.concatenate(labels)
    except OSError as error:
        raise_alone(
            InputError(
                f"Encoded rows could not be written to {folder}: {error.strerror}. If the run had begun, what was "
                f"reserved for it stays spent. Free some space, or give another folder ({option_name('scratch')})."
            )
        )


def _write_part(file: PrivateFile, encoding: RowEncoding, place: tuple[BatchReader, TablePart, int]) -> Floats:
    """Write the encoded rows of a part to where they belong; return their labels."""
    reader, part, first = place
    labels = []
    for cells, _ in reader.batches(part):
        file.write(dense(cells.rows(encoding)), 8 * encoding.dimension * first)
        first += cells.number
        labels.append(cells.labels)
    return np.concatenate(labels)


def _mapped_sparse_rows(
    data: PrivateFile,
    indices: PrivateFile,
    kind: Matrix,
    encoding: RowEncoding,
    places: Sequence[tuple[BatchReader, TablePart, int]],
) -> tuple[Matrix, Floats]:
    """Write the encoded rows one after the other: how many numbers a row stores is not known before."""
    lengths, labels = [np.zeros(1, dtype=np.int64)], []
    for reader, part, _ in places:
        for cells, _ in reader.batches(part):
            rows = as_kernels_need(cells.rows(encoding))
            stored = rows.stored if isinstance(rows, CentredRows) else rows
            data.write(stored.data)
            indices.write(stored.indices)
            lengths.append(np.diff(stored.indptr))
            labels.append(cells.labels)
    ends = np.cumsum(np.concatenate(lengths), dtype=np.int64)
    if ends[-1] > np.iinfo(np.int32).max:
        raise InputError(f"The rows store {ends[-1]} numbers, more than fit. Give {option_name('scratch')} 'off'.")
    stored = kind.stored if isinstance(kind, CentredRows) else kind
    table = sparse.csr_array((len(ends) - 1, stored.shape[1]))
    table.data, table.indices = data.mapped(np.float64, (int(ends[-1]),)), indices.mapped(np.int32, (int(ends[-1]),))
    table.indptr = ends.astype(np.int32)
    return kind.with_stored(table) if isinstance(kind, CentredRows) else table, np.concatenate(labels)


def encoded_silos(
    parts: Sequence[StreamedRows],
    encoding: RowEncoding,
    row_norm: float,
    names: tuple[str, ...],
    nominal: Ints | None,
    uses: Sequence[LabelUse],
) -> list[Silos | SiloStream]:
    """Return the encoded rows for every use of the labels: mapped, where there is a folder for a copy of them."""
    sizes = np.array([part.number for part in parts], dtype=np.int64)
    if parts[0].workers.scratch is None or sizes.sum() == 0:
        small, blocks = is_small(sizes if nominal is None else nominal), dict[tuple[int, int, int], RowBlock]()
        return [ParquetStream(tuple(parts), encoding, row_norm, names, nominal, use, small, blocks) for use in uses]
    rows, labels = _mapped_rows(parts, encoding, row_norm, parts[0].workers.scratch)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    silos = Silos(rows, labels, offsets, row_norm, names, nominal, weighs_long_rows=encoding.keeps_length)
    return [use.of(silos) for use in uses]
