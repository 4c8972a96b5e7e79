"""Users' tables: CSV cells as text, Parquet cells as stored, and every fault of a file told in words."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpadmm.datasets.draft import ColumnType
from dpadmm.errors import InputError

_CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_PARQUET = (".parquet", ".pq")
_TYPES = {"i": ColumnType.NUMBER, "u": ColumnType.NUMBER, "f": ColumnType.NUMBER, "b": ColumnType.BOOLEAN}


def read_table(path: Path) -> pd.DataFrame:
    """Read one file. CSV cells stay text (empty ones missing), so that what they mean is the schema's to say."""
    return _read(path, text_only=True)


def column_types(path: Path) -> dict[str, ColumnType]:
    """Return the names of the columns and the types of their cells: whether all of them are numbers."""
    frame = _read(path, text_only=False)
    kinds = {name: frame[name].dtype for name in frame.columns}
    return {
        str(name): _TYPES.get(kind.kind, ColumnType.TEXT if _is_text(kind) else ColumnType.OTHER)
        for name, kind in kinds.items()
    }


def _is_text(kind: Any) -> bool:
    return bool(pd.api.types.is_string_dtype(kind) or isinstance(kind, pd.CategoricalDtype) or kind.kind == "O")


def _read(path: Path, *, text_only: bool) -> pd.DataFrame:
    if not path.is_file():
        raise InputError(f"{path} is not there or not a file. Give the path of a CSV or Parquet file.")
    name = path.name.lower()
    if name.endswith(_CSV):
        frame = _read_csv(path, "\t" if ".tsv" in name else ",", text_only)
    elif name.endswith(_PARQUET):
        frame = _read_parquet(path)
    else:
        raise InputError(f"{path} must end in {', '.join(_CSV + _PARQUET)}. Save the table in one of these formats.")
    frame.columns = frame.columns.map(lambda column: str(column).strip())
    twice = sorted(set(frame.columns[frame.columns.duplicated()]))
    if twice:
        raise InputError(f"{path} has more than one column named {', '.join(map(repr, twice))}. Rename all but one.")
    return frame


def _read_csv(path: Path, separator: str, text_only: bool) -> pd.DataFrame:
    try:
        with warnings.catch_warnings():
            # pandas only warns of a row with more cells than the header, and drops them.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                path,
                sep=separator,
                dtype=str if text_only else None,
                skipinitialspace=True,
                index_col=False,
                low_memory=False,
                encoding="utf-8-sig",
            )
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text. Save it as CSV with UTF-8 encoding.") from error
    except pd.errors.EmptyDataError as error:
        raise InputError(f"{path} is empty. It needs a header line and at least one row.") from error
    except (pd.errors.ParserError, pd.errors.ParserWarning, OSError, EOFError, ValueError) as error:
        raise InputError(f"{path} cannot be read as CSV: {' '.join(str(error).split())}.") from error
    if frame.shape[1] == 1 and ";" in str(frame.columns[0]):
        raise InputError(f"{path} looks separated by semicolons. Save it with commas, or as .tsv with tabs.")
    return frame


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path).reset_index(drop=True)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path} cannot be read as Parquet: {' '.join(str(error).split())}.") from error


@dataclass(frozen=True)
class SiloTable:
    """The rows of one silo; their index counts the rows of the file they came from, which `where` names."""

    frame: pd.DataFrame
    where: str


def read_silos(files: Sequence[Path], split_by: str | None) -> dict[str, SiloTable]:
    """Return one table per silo: a file each, or one file split by the values of a column."""
    if not files:
        raise InputError("At least one file is needed: one per silo, or one with --split-by COLUMN.")
    if split_by is None:
        names = _names(files)
        tables = (SiloTable(read_table(file), str(file)) for file in files)
        return dict(zip(names, tables, strict=True))
    if len(files) != 1:
        raise InputError(f"--split-by takes one file, got {len(files)}. Without it, each file is a silo.")
    frame = read_table(files[0])
    if split_by not in frame.columns:
        raise InputError(
            f"{files[0]} has no column {split_by!r} to split by; it has {', '.join(map(repr, frame.columns))}."
        )
    empty = np.flatnonzero(frame[split_by].isna().to_numpy()) + 1
    if len(empty):
        raise InputError(
            f"{files[0]}, row {empty[0]}, column {split_by!r}: the cell is empty in {len(empty)} row(s), so their silo "
            "is unknown. Fill them in. Rows are counted from 1, after the header."
        )
    groups = frame[split_by].astype(str)
    parts = {str(name): frame[groups == name].drop(columns=split_by) for name in sorted(groups.unique())}
    return {name: SiloTable(part, str(files[0])) for name, part in parts.items()}


def _names(files: Sequence[Path]) -> list[str]:
    stems = [path.name.split(".")[0] for path in files]
    if len({path.resolve() for path in files}) < len(files):
        raise InputError("The same file is given twice. A record may be counted once only: give each file once.")
    return stems if len(set(stems)) == len(stems) else [str(path) for path in files]


def ledger_data(tables: Mapping[str, SiloTable]) -> dict[str, NDArray[Any]]:
    """Return the tables as the named arrays that a ledger's fingerprint takes; empty cells of text become ''."""
    return {
        f"{silo}/{name}": _plain(table.frame[name]) for silo, table in tables.items() for name in table.frame.columns
    }


def _plain(cells: pd.Series) -> NDArray[Any]:
    if cells.dtype.kind in "biuf" and isinstance(cells.dtype, np.dtype):
        return cells.to_numpy()
    return np.array(["" if absent else str(cell) for cell, absent in zip(cells, cells.isna(), strict=True)], dtype=str)
