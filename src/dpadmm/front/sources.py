"""Where tables come from, files or data frames, who reads them, and what is publicly known about their columns."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import pandas as pd

from dpadmm.checks import nearest, setting, shown
from dpadmm.data.columns import BinaryLabel, ClassLabel, Label, RealLabel
from dpadmm.data.parquet import ParquetTable, ThreadWorkers, Workers
from dpadmm.data.reading import TableFormat, check_stored, is_parquet
from dpadmm.data.schema import Schema, column_of
from dpadmm.data.streamed import StreamedTable
from dpadmm.data.tables import SiloTable, check_no_copies, read_silos, silo_names, split_table
from dpadmm.errors import InputError
from dpadmm.privacy.protection import Protection
from dpadmm.settings import TableOptions, TextFormat

AnyTables: TypeAlias = Mapping[str, SiloTable | StreamedTable]
"""The silos' tables by name: all in memory, or all in their files."""

MOST_IN_MEMORY = 1_000_000_000
"""Bytes of decoded cells, eight a cell, above which tables in Parquet are streamed."""

_WANTED = "a path or a DataFrame, or one per silo in a list or a dict"


class TableSource(Protocol):
    """Tables of one or several silos."""

    @property
    def files(self) -> Sequence[Path]:
        """The files that will be read."""

    def read(self, split_by: str | None, streaming: "Streaming", protection: Protection) -> AnyTables:
        """Return one table per silo; refuse copies, see `check_no_copies`."""


def format_of(table: TextFormat) -> TableFormat:
    """Return how tables are written, as options say it."""
    return TableFormat.of(table.sep, table.decimal, table.encoding, table.na_values, table.header)


@dataclass(frozen=True)
class Streaming:
    """Whether tables stay in their Parquet files and are read in passes; None where their size decides.

    refused: the words for which all rows must be in memory, as they were given. workers: who makes the passes.
    written: how text files are written.
    """

    is_wanted: bool | None = None
    refused: tuple[str, ...] = ()
    workers: Workers = field(default=ThreadWorkers(), repr=False)
    written: TableFormat = field(default=TableFormat())

    @classmethod
    def of(
        cls, table: TableOptions, *, split_by: Any = None, person: Any = None, workers: Workers | None = None
    ) -> "Streaming":
        """Return what was asked for, beside the words that cannot be kept when rows are streamed.

        workers: those of a cluster, which stream whatever the size of the tables.
        """
        given = {"split_by": split_by, "persons": person, "na_values": table.na_values or None}
        refused = tuple(setting(name) for name, value in given.items() if value is not None)
        written = format_of(table)
        if workers is None:
            return cls(table.stream, refused, written=written)
        if table.stream is False:
            raise InputError(
                f"{setting('cluster')} reads tables in passes, so it does not go with {setting('stream', False)}. "
                "Leave one of them out."
            )
        return cls(True, refused, workers, written)

    def tables(self, files: Sequence[Path], split_by: str | None, protection: Protection) -> AnyTables:
        """Return one table per silo; a folder of Parquet files is one silo, and is always streamed."""
        folder = next((path for path in files if path.is_dir()), None)
        if self.is_wanted is False and folder is not None:
            raise InputError(f"{folder} is a folder, whose files are streamed. Leave out {setting('stream', False)}.")
        is_wanted = self.is_wanted or folder is not None
        if self.is_wanted is False or not (is_wanted or self._may_stream(files)):
            return read_silos(files, split_by, self.written, protection=protection)
        self._check(files)
        tables = [ParquetTable.of(path) for path in files]
        if not is_wanted and sum(table.decoded_bytes for table in tables) <= MOST_IN_MEMORY:
            return read_silos(files, split_by, self.written, protection=protection)
        named = zip(silo_names(files), self.workers.check_tables(tables), strict=True)
        found = {name: StreamedTable(table, self.workers) for name, table in named}
        check_no_copies(found, protection)
        return found

    def _may_stream(self, files: Sequence[Path]) -> bool:
        """Return whether files could be streamed, so that their size decides."""
        return bool(files) and not self.refused and all(is_parquet(path) and path.is_file() for path in files)

    def _check(self, files: Sequence[Path]) -> None:
        """Refuse what needs all rows at once."""
        if self.refused:
            raise InputError(
                f"{', '.join(self.refused)} cannot be used with tables that are streamed: all rows must be in memory "
                f"for it. Leave it out, or use {setting('stream', False)} and a table in one file."
            )
        other = next((path for path in files if not is_parquet(path)), None)
        if other is not None:
            raise InputError(
                f"{other} cannot be streamed: only Parquet files and folders of them can, and all silos together or "
                "none. Save the table as Parquet."
            )
        for path in files:
            check_stored(path, self.written)


@dataclass(frozen=True)
class Files:
    """A file per silo, or one with a column that tells the silo; names: of the silos, None for those of the files."""

    files: tuple[Path, ...]
    names: tuple[str, ...] | None = None

    def read(self, split_by: str | None, streaming: Streaming, protection: Protection) -> AnyTables:
        """Return one table per silo."""
        found = streaming.tables(self.files, split_by, protection)
        if self.names is None or split_by is not None:
            return found
        return dict(zip(self.names, found.values(), strict=True))


@dataclass(frozen=True)
class Frames:
    """A data frame per silo, by name."""

    frames: Mapping[str, pd.DataFrame] = field(repr=False)
    files: tuple[Path, ...] = ()

    def read(self, split_by: str | None, streaming: Streaming, protection: Protection) -> AnyTables:
        """Return one table per silo; how text is written does not matter for them."""
        if streaming.is_wanted:
            raise InputError("Data frames are in memory, so they cannot be streamed. Give paths of Parquet files.")
        counted = {name: frame.reset_index(drop=True) for name, frame in self.frames.items()}
        if split_by is None:
            found = {name: SiloTable(frame, name) for name, frame in counted.items()}
            check_no_copies(found, protection)
            return found
        if len(counted) != 1:
            raise InputError(f"{setting('split_by')} takes one table, got {len(counted)}. Without it, each is a silo.")
        [(where, whole)] = counted.items()
        parts = split_table(whole, split_by, where)
        return {name: SiloTable(part.drop(columns=split_by), where) for name, part in parts.items()}


def in_memory(tables: AnyTables) -> dict[str, SiloTable]:
    """Return those tables that are in memory."""
    return {name: table for name, table in tables.items() if isinstance(table, SiloTable)}


def in_files(tables: AnyTables) -> dict[str, StreamedTable]:
    """Return those tables that stay in their files."""
    return {name: table for name, table in tables.items() if isinstance(table, StreamedTable)}


def source_of(data: Any) -> TableSource:
    """Return the tables that were given; refuse what is none, saying nothing of what is in it."""
    names: tuple[str, ...] | None = None
    if isinstance(data, Mapping):
        names, given = tuple(map(str, data)), list(data.values())
    else:
        given = list(data) if isinstance(data, list | tuple) else [data]
    if given and all(isinstance(each, str | os.PathLike) for each in given):
        return Files(tuple(map(Path, given)), names)
    if given and all(isinstance(each, pd.DataFrame) for each in given):
        several = tuple(f"table {i}" for i in range(1, len(given) + 1))
        return Frames(dict(zip(names or (several if len(given) > 1 else ("table",)), given, strict=True)))
    raise InputError(f"data must be {_WANTED}, got {shown(data)}. Arrays are fitted by the estimators.")


def public_schema(given: Any, target: str | None, *, is_real: bool) -> Schema:
    """Return the schema that was given: itself, its file, or what is publicly known about columns, by name.

    >>> print(public_schema({"age": (0, 120), "sex": ["F", "M"], "sick": ("yes", "no")}, "sick", is_real=False).label)
    BinaryLabel(name='sick', positive=('yes',), negative=('no',))
    >>> public_schema({"age": (0, 120), "stage": ["early", "middle", "late"]}, "stage", is_real=False).label.classes
    ('early', 'middle', 'late')
    """
    if isinstance(given, str | os.PathLike):
        given = Schema.load(os.fspath(given))
    if isinstance(given, Schema):
        if target is not None and target != given.label.name:
            raise InputError(
                f"{setting('target')} is {target!r}, but the schema predicts {given.label.name!r}. Make them agree."
            )
        return given
    if not isinstance(given, Mapping):
        raise InputError(
            "schema is needed: public bounds and categories, which are never taken from the data. Give a Schema, "
            "the path of its file (`dpadmm schema init` drafts one), or a dict of what is publicly known: "
            f"{{'age': (0, 120), 'sex': ['F', 'M'], 'sick': ('yes', 'no')}}; got {shown(given)}."
        )
    if target is None or target not in given:
        raise InputError(
            f"target must name a column of schema=, got {shown(target)}.{nearest(target, map(str, given))}"
        )
    columns = tuple(column_of(str(name), known) for name, known in given.items() if name != target)
    return Schema(columns, _label(target, given[target], is_real=is_real))


def _label(name: str, known: Any, *, is_real: bool) -> Label:
    sides = "a pair (low, high)" if is_real else "a pair (yes, no), or a list of all classes"
    several = not is_real and isinstance(known, list | tuple) and len(known) > 2
    if not several and not (isinstance(known, list | tuple) and len(known) == 2):
        raise InputError(f"The schema of the target {name!r} must be {sides}, got {shown(known)}.")
    if several:
        return ClassLabel(name, tuple(known))
    if is_real:
        return RealLabel(name, *known)
    yes, no = (tuple(each) if isinstance(each, list | tuple) else (each,) for each in known)
    return BinaryLabel(name, positive=yes, negative=no)


@contextmanager
def cluster_workers(cluster: Any, tell: Callable[[str], None]) -> Iterator[Workers | None]:
    """Yield the workers of a cluster, connected and checked, and None without one. tell: says what is to be known."""
    if cluster is None:
        yield None
        return
    if find_spec("distributed") is None:
        raise InputError(
            f"{setting('cluster')} needs the extra `cluster`, which is not installed: run pip install '.[cluster]' in "
            "a checkout of dpadmm, here and on the machines of the cluster."
        )
    from dpadmm.data.cluster import connect

    with connect(cluster) as workers:
        if workers.warning is not None:
            tell(workers.warning)
        yield workers
