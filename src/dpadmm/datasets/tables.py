"""Users' tables as they are on disk: CSV and Parquet, with every fault of a file told in words, and no cell in them.

The first line of a CSV file without a header is somebody's record, and the readers' own complaints quote cells. So
messages name the file and what was wanted, never a name or a value that was found there.
"""

import re
import warnings
import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpadmm.datasets.columns import EMPTY_WORDS
from dpadmm.errors import InputError, raise_alone

CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
PARQUET = (".parquet", ".pq")
NO_HEADER = "If the first line is a record and no header, say --no-header: the columns are then column1, column2, ..."
"""What to do about a CSV file without a header."""

_BAD_FILE = (OSError, EOFError, ValueError, TypeError, LookupError, ArithmeticError, RuntimeError, zlib.error)
_LINE = re.compile(r"(?:line|row) (\d+)")
_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_DATE = re.compile(rf"(?:(?:mon|tue|wed|thu|fri|sat|sun)\w*[ ,.]+)?(?:{_MONTHS})[a-z]*[ ,./-]+\d.*", re.IGNORECASE)


def read_table(path: Path, *, has_header: bool = True) -> pd.DataFrame:
    """Read one file. CSV cells stay text (empty ones missing), so that what they mean is the schema's to say.

    Without a header, the columns of a CSV file are called column1, column2, ... from left to right.
    """
    if not path.is_file():
        raise InputError(f"{path} is not there or not a file. Give the path of a CSV or Parquet file.")
    name = path.name.lower()
    if name.endswith(CSV):
        frame = _read_csv(path, "\t" if ".tsv" in name else ",", has_header)
    elif name.endswith(PARQUET):
        if not has_header:
            raise InputError(f"--no-header is for CSV files; {path} is Parquet, which has names of its own.")
        frame = _read_parquet(path)
    else:
        raise InputError(f"{path} must end in {', '.join(CSV + PARQUET)}. Save the table in one of these formats.")
    frame.columns = _checked_names(path, frame.columns)
    return frame


def split_table(frame: pd.DataFrame, column: str, where: str, *, has_header: bool = True) -> dict[str, pd.DataFrame]:
    """Return one table per value of a column, in the order of their names; the index still counts the whole table."""
    if column not in frame.columns:
        raise InputError(f"{lacks(where, [column], frame.columns)} {remedy(has_header)}")
    empty = np.flatnonzero(frame[column].isna().to_numpy()) + 1
    if len(empty):
        raise InputError(
            f"{where}, row {empty[0]}, column {column!r}: the cell is empty in {len(empty)} row(s), so their silo "
            "is unknown. Fill them in. Rows are counted from 1, a header left out."
        )
    groups = frame[column].astype(str)
    return {str(name): frame[groups == name] for name in sorted(groups.unique())}


@dataclass(frozen=True)
class SiloTable:
    """The rows of one silo; their index counts the rows of the file they came from, which `where` names."""

    frame: pd.DataFrame = field(repr=False)
    where: str


def read_silos(files: Sequence[Path], split_by: str | None, *, has_header: bool = True) -> dict[str, SiloTable]:
    """Return one table per silo: a file each, or one file split by the values of a column, which are public names."""
    if not files:
        raise InputError("At least one file is needed: one per silo, or one with --split-by COLUMN.")
    if split_by is None:
        names = _names(files)
        tables = (SiloTable(read_table(file, has_header=has_header), str(file)) for file in files)
        return dict(zip(names, tables, strict=True))
    if len(files) != 1:
        raise InputError(f"--split-by takes one file, got {len(files)}. Without it, each file is a silo.")
    frame = read_table(files[0], has_header=has_header)
    parts = split_table(frame, split_by, str(files[0]), has_header=has_header)
    return {name: SiloTable(part.drop(columns=split_by), str(files[0])) for name, part in parts.items()}


def _names(files: Sequence[Path]) -> list[str]:
    stems = [path.name.split(".")[0] for path in files]
    if len({path.resolve() for path in files}) < len(files):
        raise InputError("The same file is given twice. A record may be counted once only: give each file once.")
    return stems if len(set(stems)) == len(stems) else [str(path) for path in files]


def numbered_names(number: int) -> list[str]:
    """Return the names of columns that have none.

    >>> numbered_names(2)
    ['column1', 'column2']
    """
    return [f"column{place}" for place in range(1, number + 1)]


def lacks(where: str, wanted: Sequence[str], found: Collection[Any]) -> str:
    """Say which wanted names a table lacks, and how many columns it has; what those are called is not said.

    >>> lacks("a.csv", ["age", "sex"], ["sex", "pay", "id"])
    "a.csv lacks the column(s) 'age': 1 of the 2 wanted names is among its 3 columns."
    """
    lacking = [name for name in wanted if name not in found]
    there = len(wanted) - len(lacking)
    return (
        f"{where} lacks the column(s) {', '.join(map(repr, lacking))}: {there or 'none'} of the {len(wanted)} wanted "
        f"names {'is' if there < 2 else 'are'} among its {len(found)} columns."
    )


def remedy(has_header: bool) -> str:
    """Say what to do where columns are not found by their names."""
    if has_header:
        return f"Name the columns of the file as wanted. {NO_HEADER}"
    return "With --no-header the columns are called column1, column2, ... from left to right: use these names."


def is_csv(path: str | Path) -> bool:
    """Return whether a file's name says that it is CSV, so that it may lack a header."""
    return str(path).lower().endswith(CSV)


def names_remedy(where: str, wanted: Sequence[str], found: Sequence[Any]) -> str:
    """Say what to do where a table lacks columns of a schema; whether it was read without a header, its names tell."""
    if list(found) == numbered_names(len(found)):
        return (
            f"With --no-header the columns are column1, column2, ...; the schema wants {', '.join(map(repr, wanted))}: "
            "write a header line with such names into the file, and leave --no-header out."
        )
    return f"Rename them in the file, or correct the schema.{' ' + NO_HEADER if is_csv(where) else ''}"


def check_header(path: Path, names: Sequence[str], frame: pd.DataFrame) -> None:
    """Refuse names that look like a record, before they are written to where names are public.

    What begins with a digit, numbers, dates, empty names and names that are also values of their own column are no
    names. A record of rare words alone cannot be told from a header, so whoever writes names down also asks for one
    that the user knows.
    """
    strange = [name for place, name in enumerate(names) if _is_value(name, frame.iloc[:, place])]
    if strange:
        values = "look like values (numbers, dates, what begins with a digit, nothing, or values of the same column)."
        if not is_csv(path):
            raise InputError(
                f"{path}: {len(strange)} of the {len(names)} names of its columns {values} Give them other names."
            )
        raise InputError(
            f"{path}: {len(strange)} of the {len(names)} names in the first line {values} {NO_HEADER} If it is a "
            "header, give these columns other names."
        )


def _is_value(name: str, cells: pd.Series) -> bool:
    text = name.strip()
    if not text or text[0].isdigit() or _is_unnamed(text) or _DATE.fullmatch(text):
        return True
    try:
        float(text.replace(",", "."))
    except ValueError:
        return bool((cells.astype(object).map(lambda cell: isinstance(cell, str) and cell.strip() == text)).any())
    return True


def _is_unnamed(name: str) -> bool:
    return name.startswith("unnamed column ")


def _checked_names(path: Path, found: Sequence[Any]) -> list[str]:
    """Return the names as text; columns without a name, such as a stored index, are numbered."""
    names = [str(name).strip() or f"unnamed column {place}" for place, name in enumerate(found, start=1)]
    if len(set(names)) < len(names):
        raise InputError(
            f"{path} has {len(names)} columns but {len(set(names))} different names: some columns are called the same. "
            f"Rename all but one of each.{' ' + NO_HEADER if is_csv(path) else ''}"
        )
    return names


def _read_csv(path: Path, separator: str, has_header: bool) -> pd.DataFrame:
    common: dict[str, Any] = {"sep": separator, "skipinitialspace": True, "index_col": False, "encoding": "utf-8-sig"}
    first = _quietly(
        path, "CSV", lambda: pd.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False, **common)
    )
    names = list(first.iloc[0]) if has_header else numbered_names(first.shape[1])
    if first.shape[1] == 1 and ";" in str(first.iloc[0, 0]):
        raise InputError(f"{path} looks separated by semicolons. Save it with commas, or as .tsv with tabs.")
    return _quietly(
        path,
        "CSV",
        lambda: pd.read_csv(
            path,
            header=0 if has_header else None,
            names=_checked_names(path, names),
            dtype=str,
            keep_default_na=False,
            na_values=list(EMPTY_WORDS),
            **common,
        ),
    )


def _read_parquet(path: Path) -> pd.DataFrame:
    frame = _quietly(path, "Parquet", lambda: pd.read_parquet(path))
    return frame.reset_index(drop=True)


def _quietly(path: Path, kind: str, read: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    """Read; a complaint of the reader becomes one of ours, since its own may quote cells."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", pd.errors.ParserWarning)  # it would drop cells of rows that are too long
            return read()
    except InputError:
        raise
    except UnicodeDecodeError:
        raise_alone(InputError(f"{path} is not UTF-8 text. Save it as {kind} with UTF-8 encoding."))
    except pd.errors.EmptyDataError:
        raise_alone(InputError(f"{path} is empty. It needs a header line and at least one row."))
    except MemoryError:
        raise
    except (pd.errors.ParserError, pd.errors.ParserWarning, *_BAD_FILE) as problem:
        raise_alone(InputError(f"{path} cannot be read as {kind}: {_reason(problem, kind)}"))


def _reason(problem: Exception, kind: str) -> str:
    """Return what went wrong, in words that hold nothing of the file but the number of a line."""
    if isinstance(problem, OSError) and problem.strerror:
        return f"{problem.strerror}."
    if kind == "Parquet":
        return "it is damaged, of another format, or holds types that pandas does not know. Write it again."
    line = _LINE.search(str(problem))
    where = f"near line {line[1]}" if line else "somewhere"
    return (
        f"{where}, a row has more cells than the first line, a quotation mark is not closed, or the file is damaged. "
        "Give every row as many cells as the first line, and put text with commas in quotation marks."
    )
