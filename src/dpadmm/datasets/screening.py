"""From a user's table to encoded rows, one row at a time: every awkward cell is dealt with or named by file and row.

All policies treat a row by itself and keep the number of rows, so a private table may be screened without a privacy
cost: the encoded row of one person never depends on another's, and nobody learns who had an empty cell from a count.
Messages name file, row and column, never the cell's content: cells are private, and messages travel to logs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import singledispatch

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from dpadmm.datasets.columns import Categorical, Category, Column, Numeric, floats_of, lookup
from dpadmm.datasets.labels import BinaryLabel, Label, RealLabel, ThresholdLabel
from dpadmm.datasets.policies import OutOfRange, Unknown
from dpadmm.datasets.schema import Schema
from dpadmm.datasets.tables import lacks, names_remedy
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats, Matrix

Mask = NDArray[np.bool_]
_NO_CATEGORY = "\0no category"
_MOST_FINDINGS = 8


class EmptyCells(Enum):
    """What to do with an empty cell."""

    ERROR = "error"
    FILL = "fill"
    BLANK = "blank"


class UnlistedCells(Enum):
    """What to do with a category that the schema does not list."""

    ERROR = "error"
    ZERO = "zero"
    BLANK = "blank"


@dataclass(frozen=True, kw_only=True)
class Screening:
    """The policies for awkward cells.

    `missing`: refuse; fill (a number becomes its typical value, or the midpoint of its bounds; a category none of the
    listed ones); or blank the row (all its features 0: it is counted but says nothing). An empty label blanks its row.
    `unlisted`: refuse; zero (none of the listed categories); or blank the row. An unlisted label blanks its row.
    `out_of_range`: move the number to the nearest bound, or refuse.
    """

    missing: EmptyCells = EmptyCells.ERROR
    unlisted: UnlistedCells = UnlistedCells.ERROR
    out_of_range: OutOfRange = OutOfRange.CLIP


@dataclass(frozen=True)
class Screened:
    """Encoded rows (n, d), their labels (empty without), which rows were blanked, and notes for the data's holder."""

    features: Matrix = field(repr=False)
    labels: Floats = field(repr=False)
    blank: Mask = field(repr=False)
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Judged:
    """One column: cells the schema can encode, and which of the given cells were awkward."""

    cells: pd.Series = field(repr=False)
    missing: Mask = field(repr=False)
    unlisted: Mask = field(repr=False)
    outside: Mask = field(repr=False)
    allowed: str
    is_label: bool = False


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
        if rows.any():
            self.notes.append(f"{self.where}, column {name!r}: {rows.sum()} cell(s) {what}")

    def check(self) -> None:
        if not self.faults:
            return
        shown = self.faults[:_MOST_FINDINGS]
        rest = len(self.faults) - len(shown)
        tail = f" And {rest} more columns." if rest else ""
        listed = "\n".join([f"{len(self.faults)} columns cannot be used as they are:", *shown])
        text = shown[0] if len(self.faults) == 1 else listed
        raise InputError(f"{text}{tail} (Rows are counted from 1, a header left out.)")


def encode_table(
    schema: Schema, frame: pd.DataFrame, where: str, screening: Screening, *, is_labelled: bool = True
) -> Screened:
    """Encode every row of a table; `where` names it in messages, and a whole-number index counts its rows from 0.

    >>> schema = Schema((Numeric("age", 0, 100),), ThresholdLabel("pay", 10))
    >>> table = pd.DataFrame({"age": ["50", None], "pay": ["12", "9"]})
    >>> done = encode_table(schema, table, "a.csv", Screening(missing=EmptyCells.BLANK))
    >>> done.features.tolist(), done.labels.tolist(), done.blank.tolist()
    ([[0.5], [0.0]], [1.0, 1.0], [False, True])
    """
    _check_columns(schema, frame, where, is_labelled)
    findings = _Findings(where, _row_numbers(frame))
    judged = {column.name: judge(column, frame[column.name], findings) for column in schema.columns}
    if is_labelled:
        judged[schema.label.name] = judge(schema.label, frame[schema.label.name], findings)
    blank = np.zeros(len(frame), dtype=bool)
    for name, found in judged.items():
        blank |= _apply(name, found, screening, findings)
    findings.check()
    if blank.all():
        raise InputError(f"{where}: every row would be blanked, so nothing is left to learn from. Repair the table.")
    if blank.any():
        findings.notes.append(f"{where}: {blank.sum()} of {len(blank)} row(s) blanked: counted, but all features 0")
    table = pd.DataFrame({name: found.cells for name, found in judged.items()})
    encoder = schema.encode if is_labelled else schema.encode_features
    encoded = encoder(table, unknown=Unknown.ZERO, out_of_range=OutOfRange.CLIP)
    labels = np.array(getattr(encoded, "labels", np.empty(0)))
    if is_labelled:
        labels[blank] = _neutral(schema.label)
    return Screened(_blanked(encoded.features, blank), labels, blank, tuple(findings.notes))


def _row_numbers(frame: pd.DataFrame) -> NDArray[np.int64]:
    """Return the rows' numbers in their file, from 1: the index of a part of a table still counts the whole."""
    whole = pd.api.types.is_integer_dtype(frame.index.dtype)
    return np.asarray(frame.index if whole else np.arange(len(frame)), dtype=np.int64) + 1


def _check_columns(schema: Schema, frame: pd.DataFrame, where: str, is_labelled: bool) -> None:
    needed = [column.name for column in schema.columns] + ([schema.label.name] if is_labelled else [])
    if any(name not in frame.columns for name in needed):
        raise InputError(f"{lacks(where, needed, frame.columns)} {names_remedy(where, needed, frame.columns)}")
    twice = [name for name in needed if (frame.columns == name).sum() > 1]
    if twice:
        raise InputError(f"{where} has more than one column named {', '.join(map(repr, twice))}. Rename all but one.")
    if len(frame) == 0:
        raise InputError(f"{where} has a header but no rows. Leave it out, or give it at least one record.")


def _apply(name: str, found: _Judged, screening: Screening, findings: _Findings) -> Mask:
    """Apply the policies to one column; return the rows to blank."""
    blank = np.zeros(len(found.missing), dtype=bool)
    if found.missing.any():
        if screening.missing is EmptyCells.ERROR:
            remedy = "Fill it in, or choose --missing fill or --missing blank."
            findings.fault(name, found.missing, "the cell is empty", remedy)
        elif screening.missing is EmptyCells.BLANK or found.is_label:
            blank |= found.missing
        else:
            findings.note(name, found.missing, "empty, filled")
    if found.unlisted.any():
        if screening.unlisted is UnlistedCells.ERROR:
            remedy = "Correct it, list it in the schema if it is publicly known, or choose --unlisted zero or blank."
            findings.fault(name, found.unlisted, f"not one of the listed values ({found.allowed})", remedy)
        elif screening.unlisted is UnlistedCells.BLANK or found.is_label:
            blank |= found.unlisted
        else:
            findings.note(name, found.unlisted, "unlisted, encoded as none of the listed categories")
    if found.outside.any():
        if screening.out_of_range is OutOfRange.ERROR:
            remedy = "Correct it, widen the bounds from public knowledge, or choose --out-of-range clip."
            findings.fault(name, found.outside, f"outside the public bounds ({found.allowed})", remedy)
        else:
            findings.note(name, found.outside, "outside the bounds, moved to the nearest one")
    return blank


@singledispatch
def judge(column: Column | Label, cells: pd.Series, findings: _Findings) -> _Judged:
    """Find the awkward cells of a column and put harmless ones in their place."""
    raise InputError(f"Columns of type {type(column).__name__} cannot be read from a file.")


@judge.register
def _(column: Numeric, cells: pd.Series, findings: _Findings) -> _Judged:
    numbers, missing = _numbers(column.name, cells, findings)
    usual = 0.5 * (column.lower + column.upper) if column.typical is None else column.typical
    return _bounded(numbers.fillna(usual), missing, column.lower, column.upper, is_label=False)


@judge.register
def _(column: Categorical, cells: pd.Series, findings: _Findings) -> _Judged:
    return _listed(column.name, cells, column.categories, is_label=False)


@judge.register
def _(label: BinaryLabel, cells: pd.Series, findings: _Findings) -> _Judged:
    return _listed(label.name, cells, label.positive + label.negative, is_label=True)


@judge.register
def _(label: ThresholdLabel, cells: pd.Series, findings: _Findings) -> _Judged:
    numbers, missing = _numbers(label.name, cells, findings)
    return _bounded(numbers.fillna(label.threshold), missing, -np.inf, np.inf, is_label=True)


@judge.register
def _(label: RealLabel, cells: pd.Series, findings: _Findings) -> _Judged:
    numbers, missing = _numbers(label.name, cells, findings)
    return _bounded(numbers.fillna(label.lower), missing, label.lower, label.upper, is_label=True)


def _empty(cells: pd.Series) -> Mask:
    absent = cells.isna().to_numpy(dtype=bool)
    if cells.dtype.kind in "OUST":
        absent = absent | (cells.astype(object).map(lambda cell: isinstance(cell, str) and not cell.strip())).to_numpy()
    return np.asarray(absent, dtype=bool)


def _numbers(name: str, cells: pd.Series, findings: _Findings) -> tuple[pd.Series, Mask]:
    """Return the cells as floats, NaN where empty; text, dates and infinities are faults that no policy covers."""
    missing = _empty(cells)
    numbers = floats_of(cells)
    strange = ~np.isfinite(numbers.to_numpy()) & ~missing
    if strange.any():
        remedy = "Write numbers with a decimal point and without units, or declare the column categorical."
        findings.fault(name, strange, "the cell is not a finite number", remedy)
    return numbers.reset_index(drop=True), missing


def _bounded(numbers: pd.Series, missing: Mask, lower: float, upper: float, *, is_label: bool) -> _Judged:
    outside = ((numbers < lower) | (numbers > upper)).to_numpy()
    none = np.zeros(len(numbers), dtype=bool)
    finite = numbers.where(np.isfinite(numbers), 0.0)
    return _Judged(finite, missing, none, outside, f"{lower:g} to {upper:g}", is_label)


def _listed(name: str, cells: pd.Series, categories: Sequence[Category], *, is_label: bool) -> _Judged:
    missing = _empty(cells)
    if isinstance(categories[0], int):
        kept = cells.astype(float) if cells.dtype.kind == "b" else floats_of(cells)
        none: Category = min(int(c) for c in categories) - 1
        known = kept.where(np.isfinite(kept), none)
    else:
        known = cells.astype(object).map(lambda cell: cell.strip() if isinstance(cell, str) else str(cell))
        none = _NO_CATEGORY
    known = known.reset_index(drop=True)
    unlisted = (lookup(name, known, categories) < 0) & ~missing
    # A label must be encodable even where its row will be blanked.
    clean = known.mask(missing | unlisted, categories[0] if is_label else none)
    outside = np.zeros(len(cells), dtype=bool)
    return _Judged(clean, missing, unlisted, outside, ", ".join(map(repr, categories)), is_label)


def _neutral(label: Label) -> float:
    """Return a label for rows without features: a real target of 0 has no residual, a sign no gradient either way."""
    return 0.0 if isinstance(label, RealLabel) else 1.0


def _blanked(features: Matrix, blank: Mask) -> Matrix:
    if not blank.any():
        return features
    if sparse.issparse(features):
        table = sparse.csr_array(sparse.diags_array((~blank).astype(float)) @ features)
        table.eliminate_zeros()
        return table
    return np.where(blank[:, None], 0.0, features)
