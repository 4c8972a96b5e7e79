"""Users' tables, from the file to encoded rows: the one door for the command line, a silo and the estimators.

`read_table` reads CSV and Parquet; `encode_table` screens and encodes. All policies for awkward cells treat a row by
itself and keep the number of rows, so a private table may be screened without a privacy cost: the encoded row of one
person never depends on another's, and nobody learns who had an empty cell from a count.

The first line of a CSV file without a header is somebody's record, and the readers' own complaints quote cells. So
messages name file, row and column, never a name or a value that was found there: messages travel to logs.
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
from numpy.typing import NDArray

from dpadmm.datasets.cells import EMPTY_WORDS, Cells, Mask, Screened, ScreenedCells
from dpadmm.datasets.columns import Column, Label
from dpadmm.datasets.encoding import RowEncoding
from dpadmm.datasets.schema import EmptyCells, OutOfRange, Schema, Screening, UnlistedCells, numbered_names
from dpadmm.errors import InputError, raise_alone

CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
PARQUET = (".parquet", ".pq")
NO_HEADER = "If the first line is a record and no header, say --no-header: the columns are then column1, column2, ..."
"""What to do about a CSV file without a header."""

UNNAMED = "unnamed column "
"""How the columns of a file without a name are called, before their number."""

_BAD_FILE = (OSError, EOFError, ValueError, TypeError, LookupError, ArithmeticError, RuntimeError, zlib.error)
_LINE = re.compile(r"(?:line|row) (\d+)")

_MOST_FINDINGS = 8


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


def _checked_names(path: Path, found: Sequence[Any]) -> list[str]:
    """Return the names as text; columns without a name, such as a stored index, are numbered."""
    names = [str(name).strip() or f"{UNNAMED}{place}" for place, name in enumerate(found, start=1)]
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


_STRICT = Screening()


@dataclass
class _Findings:
    """Faults so far, each with its place and its remedy."""

    where: str
    numbers: NDArray[np.int64]
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def fault(self, name: str, rows: Mask, what: str, remedy: str) -> None:
        first = self.numbers[rows][:3]
        more = f" and {rows.sum() - 3} more" if rows.sum() > 3 else ""
        listed = f"row {first[0]}" if rows.sum() == 1 else f"rows {', '.join(map(str, first))}{more}"
        self.faults.append(f"{self.where}, {listed}, column {name!r}: {what}. {remedy}")

    def note(self, name: str, rows: Mask, what: str) -> None:
        self.notes.append(f"{self.where}, column {name!r}: {rows.sum()} cell(s) {what}")

    def check(self) -> None:
        if not self.faults:
            return
        listed = self.faults[:_MOST_FINDINGS]
        rest = len(self.faults) - len(listed)
        tail = f" And {rest} more columns." if rest else ""
        several = "\n".join([f"{len(self.faults)} columns cannot be used as they are:", *listed])
        text = listed[0] if len(self.faults) == 1 else several
        raise InputError(f"{text}{tail} (Rows are counted from 1, a header left out.)")


def encode_table(
    schema: Schema,
    frame: pd.DataFrame,
    where: str = "The table",
    screening: Screening = _STRICT,
    *,
    is_labelled: bool = True,
    encoding: RowEncoding | None = None,
) -> Screened:
    """Encode every row of a table; `where` names it in messages, and a whole-number index counts its rows from 0.

    `encoding`: how; None encodes plainly by bounds and categories, as published benchmarks do (`Schema.by_bounds`).

    >>> from dpadmm.datasets.columns import Numeric, ThresholdLabel
    >>> schema = Schema((Numeric("age", 0, 100),), ThresholdLabel("pay", 10))
    >>> table = pd.DataFrame({"age": ["50", None], "pay": ["12", "9"]})
    >>> done = encode_table(schema, table, "a.csv", Screening(missing=EmptyCells.BLANK))
    >>> done.features.tolist(), done.labels.tolist(), done.blank.tolist()
    ([[0.5], [0.0]], [1.0, 1.0], [False, True])
    """
    found = screen_cells(schema.columns, schema.label if is_labelled else None, frame, where, screening)
    return found.encoded(schema.by_bounds() if encoding is None else encoding)


def screen_cells(
    columns: Sequence[Column],
    label: Label | None,
    frame: pd.DataFrame,
    where: str,
    screening: Screening,
    *,
    may_be_empty: bool = False,
) -> ScreenedCells:
    """Read every column, and the label if there is one, and apply the policies for awkward cells.

    `may_be_empty`: a table without rows will do, since nobody may learn how many there are.
    """
    _check_columns([*(each.name for each in columns), *([label.name] if label else [])], frame, where)
    if len(frame) == 0 and not may_be_empty:
        raise InputError(f"{where} has a header but no rows. Leave it out, or give it at least one record.")
    findings = _Findings(where, _row_numbers(frame))
    cells = [column.read(frame[column.name]) for column in columns]
    blank = np.zeros(len(frame), dtype=bool)
    for column, found in zip(columns, cells, strict=True):
        blank |= _apply(column, found, screening, findings, is_label=False)
    labels = np.empty(0)
    if label is not None:
        read = label.read(frame[label.name])
        blank |= _apply(label, read, screening, findings, is_label=True)
        # A row without features: a real target of 0 has no residual, a sign no gradient either way.
        labels = np.where(blank, 0.0 if label.is_real else 1.0, read.values)
    findings.check()
    if len(blank) and blank.all():
        raise InputError(f"{where}: every row would be blanked, so nothing is left to learn from. Repair the table.")
    if blank.any():
        findings.notes.append(f"{where}: {blank.sum()} of {len(blank)} row(s) blanked: counted, but all features 0")
    return ScreenedCells(tuple(columns), cells, labels, blank, tuple(findings.notes))


def _row_numbers(frame: pd.DataFrame) -> NDArray[np.int64]:
    """Return the rows' numbers in their file, from 1: the index of a part of a table still counts the whole."""
    whole = pd.api.types.is_integer_dtype(frame.index.dtype)
    return np.asarray(frame.index if whole else np.arange(len(frame)), dtype=np.int64) + 1


def _check_columns(needed: Sequence[str], frame: pd.DataFrame, where: str) -> None:
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"{where} must be a pandas DataFrame, got {type(frame).__name__}.")
    if any(name not in frame.columns for name in needed):
        raise InputError(f"{lacks(where, needed, frame.columns)} {names_remedy(where, needed, frame.columns)}")
    twice = [name for name in needed if (frame.columns == name).sum() > 1]
    if twice:
        raise InputError(f"{where} has more than one column named {', '.join(map(repr, twice))}. Rename all but one.")


def _apply(column: Column | Label, found: Cells, screening: Screening, findings: _Findings, *, is_label: bool) -> Mask:
    """Apply the policies to one column; return the rows to blank."""
    blank, name = np.zeros(len(found.missing), dtype=bool), column.name
    if found.strange.any():
        remedy = "Write numbers with a decimal point and without units, or declare the column categorical."
        findings.fault(name, found.strange, "the cell is not a finite number", remedy)
    if found.missing.any():
        if screening.missing is EmptyCells.ERROR:
            remedy = "Fill it in, or choose --missing fill or --missing blank (missing= in Python)."
            findings.fault(name, found.missing, "the cell is empty", remedy)
        elif screening.missing is EmptyCells.BLANK or is_label:
            blank |= found.missing
        else:
            findings.note(name, found.missing, "empty, filled")
    if found.unlisted.any():
        if screening.unlisted is UnlistedCells.ERROR:
            remedy = (
                "Correct it, list it in the schema if it is publicly known, or choose --unlisted zero or blank "
                "(unlisted= in Python)."
            )
            findings.fault(name, found.unlisted, f"not one of the listed values ({column.allowed})", remedy)
        elif screening.unlisted is UnlistedCells.BLANK or is_label:
            blank |= found.unlisted
        else:
            findings.note(name, found.unlisted, "unlisted, encoded as none of the listed categories")
    if found.outside.any():
        if screening.out_of_range is OutOfRange.ERROR:
            remedy = (
                "Correct it, widen the bounds from public knowledge, or choose --out-of-range clip (out_of_range= in "
                "Python)."
            )
            findings.fault(name, found.outside, f"outside the public bounds ({column.allowed})", remedy)
        else:
            findings.note(name, found.outside, "outside the bounds, moved to the nearest one")
    return blank
