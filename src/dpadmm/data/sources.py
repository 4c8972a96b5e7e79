"""Where tables come from, files or data frames, who reads them, and what is publicly known about their columns."""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from dpadmm.checks import nearest, option_name, safe_repr
from dpadmm.data.parquet import ParquetTable, StreamedTable, ThreadWorkers, Workers
from dpadmm.data.reading import check_stored, is_parquet
from dpadmm.data.schema import Schema, column_of, label_of
from dpadmm.data.tables import SiloTable, arrange_silos, check_no_copies, read_silos, silo_names
from dpadmm.errors import InputError
from dpadmm.privacy.protection import Protection
from dpadmm.settings import TableOptions

AnyTables: TypeAlias = Mapping[str, SiloTable | StreamedTable]
"""The silos' tables by name: all in memory, or all in their files."""

MOST_IN_MEMORY = 1_000_000_000
"""Bytes of decoded cells, eight a cell, above which tables in Parquet are streamed."""

_WANTED = "a path or a DataFrame, or one per silo in a list or a dict"


def paths_of(data: Any) -> tuple[Path, ...]:
    """Return the paths that were given as tables, none for data frames; refuse anything else."""
    return tuple(each for each in _listed(data)[0] if isinstance(each, Path))


def read_tables(
    data: Any,
    table: TableOptions,
    protection: Protection,
    *,
    split_by: str | None = None,
    person: str | None = None,
    workers: Workers | None = None,
) -> AnyTables:
    """Return one table per silo; refuse copies, see `check_no_copies`.

    data: a path or a data frame, or several, in a list or by name; a folder of Parquet files is one silo, and is always
    streamed. workers: those of a cluster, which stream whatever the size of the tables.
    """
    given, names = _listed(data)
    files = [each for each in given if isinstance(each, Path)]
    is_wanted = _is_streaming_wanted(table, workers)
    if files:
        whole = {"split_by": split_by, "persons": person, "na_values": table.na_values or None}
        whole_only = [option_name(name) for name, value in whole.items() if value is not None]
        streams = _to_stream(files, table, is_wanted, whole_only)
        found: AnyTables
        if streams is None:
            found = read_silos(files, split_by, table, protection=protection)
        else:
            workers = ThreadWorkers(scratch=_scratch_folder(table)) if workers is None else workers
            named = zip(silo_names(files), workers.check_tables(streams), strict=True)
            found = {name: StreamedTable(each, workers) for name, each in named}
            check_no_copies(found, protection)
        return found if names is None or split_by is not None else dict(zip(names, found.values(), strict=True))
    if is_wanted:
        raise InputError("Data frames are in memory, so they cannot be streamed. Give paths of Parquet files.")
    names = names or ([f"table {i}" for i in range(1, len(given) + 1)] if len(given) > 1 else ["table"])
    frames = {name: each.reset_index(drop=True) for name, each in zip(names, given, strict=True)}
    tables = {name: SiloTable(frame, name) for name, frame in frames.items()}
    return arrange_silos(tables, split_by, protection=protection)


def _to_stream(
    files: Sequence[Path], table: TableOptions, is_wanted: bool | None, whole_only: Sequence[str]
) -> list[ParquetTable] | None:
    """Return the tables if they are to stay in their Parquet files, as asked for or else by their size; None if not.

    whole_only: settings that were given and need all rows in memory.
    """
    folder = next((path for path in files if path.is_dir()), None)
    if folder is not None and is_wanted is False:
        raise InputError(f"{folder} is a folder, whose files are streamed. Leave out {option_name('stream', False)}.")
    is_wanted = True if folder is not None else is_wanted
    may_stream = not whole_only and all(is_parquet(path) and path.is_file() for path in files)
    if is_wanted is False or (is_wanted is None and not may_stream):
        return None
    if whole_only:
        raise InputError(
            f"{', '.join(whole_only)} cannot be used with tables that are streamed: all rows must be in memory for it. "
            f"Leave it out, or use {option_name('stream', False)} and a table in one file."
        )
    other = next((path for path in files if not is_parquet(path)), None)
    if other is not None:
        raise InputError(f"{other} cannot be streamed, only Parquet files and folders of them. Save it as Parquet.")
    for path in files:
        check_stored(path, table)
    tables = [ParquetTable.of(path) for path in files]
    is_small = is_wanted is None and sum(each.decoded_bytes for each in tables) <= MOST_IN_MEMORY
    return None if is_small else tables


def _is_streaming_wanted(table: TableOptions, workers: Workers | None) -> bool | None:
    """Return whether tables are to be streamed, as on a cluster; None where their size decides."""
    if workers is None:
        return table.stream
    if table.scratch is not None:
        raise InputError(
            f"Workers of a cluster keep encoded rows in memory. Leave out {option_name('cluster')}, or "
            f"{option_name('scratch')}."
        )
    if table.stream is False:
        raise InputError(
            f"{option_name('cluster')} reads tables in passes. Leave it out, or {option_name('stream', False)}."
        )
    return True


def _scratch_folder(table: TableOptions) -> Path | None:
    """Return where a private copy of encoded rows is kept; None for nowhere."""
    return None if table.scratch == "off" else Path(table.scratch or tempfile.gettempdir())


def in_memory(tables: AnyTables) -> dict[str, SiloTable]:
    """Return those tables that are in memory."""
    return {name: table for name, table in tables.items() if isinstance(table, SiloTable)}


def in_files(tables: AnyTables) -> dict[str, StreamedTable]:
    """Return those tables that stay in their files."""
    return {name: table for name, table in tables.items() if isinstance(table, StreamedTable)}


def _listed(data: Any) -> tuple[list[Any], list[str] | None]:
    """Return what was given, all paths or all data frames, and its names; say nothing of what is in it."""
    names = list(map(str, data)) if isinstance(data, Mapping) else None
    given = list(data.values()) if isinstance(data, Mapping) else data
    given = list(given) if isinstance(given, list | tuple) else [given]
    if given and all(isinstance(each, str | os.PathLike) for each in given):
        return [Path(each) for each in given], names
    if given and all(isinstance(each, pd.DataFrame) for each in given):
        return given, names
    raise InputError(f"data must be {_WANTED}, got {safe_repr(data)}. Arrays are fitted by the estimators.")


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
                f"{option_name('target')} is {target!r}, but the schema predicts {given.label.name!r}. Make them agree."
            )
        return given
    if not isinstance(given, Mapping):
        raise InputError(
            "schema is needed: public bounds and categories, which are never taken from the data. Give a Schema, "
            "the path of its file (`dpadmm schema init` drafts one), or a dict of what is publicly known: "
            f"{{'age': (0, 120), 'sex': ['F', 'M'], 'sick': ('yes', 'no')}}; got {safe_repr(given)}."
        )
    if target is None or target not in given:
        raise InputError(
            f"target must name a column of schema=, got {safe_repr(target)}.{nearest(target, map(str, given))}"
        )
    columns = tuple(column_of(str(name), known) for name, known in given.items() if name != target)
    return Schema(columns, label_of(target, given[target], is_real=is_real))


@contextmanager
def cluster_workers(cluster: Any, warn: Callable[[str], None]) -> Iterator[Workers | None]:
    """Yield the workers of a cluster, connected and checked, and None without one. warn: takes a warning."""
    if cluster is None:
        yield None
        return
    if find_spec("distributed") is None:
        raise InputError(
            f"{option_name('cluster')} needs the extra `cluster`, which is not installed: run pip install "
            "'.[cluster]' in "
            "a checkout of dpadmm, here and on the machines of the cluster."
        )
    from dpadmm.data.cluster import connect

    with connect(cluster, warn) as workers:
        if workers.warning is not None:
            warn(workers.warning)
        yield workers
