"""From a table to encoded rows, one row at a time: every awkward cell is dealt with or named by file, row and column.

The one door: the command line, a silo and the estimators encode by `encode_table`. All policies treat a row by itself
and keep the number of rows, so a private table may be screened without a privacy cost: the encoded row of one person
never depends on another's, and nobody learns who had an empty cell from a count. Messages name file, row and column,
never the cell's content: cells are private, and messages travel to logs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from dpadmm.checks import shown
from dpadmm.datasets.columns import Cells, Column, Label, Mask
from dpadmm.datasets.schema import Schema
from dpadmm.datasets.tables import lacks, names_remedy
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats, Matrix

# Stored as CSR from this width on, if at most this share of the cells is non-zero.
SPARSE_WIDTH = 32
SPARSE_SHARE = 0.25
_MOST_FINDINGS = 8

Word = TypeVar("Word", bound=Enum)


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


class OutOfRange(Enum):
    """What to do with a number outside its public bounds."""

    CLIP = "clip"
    ERROR = "error"


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

    @classmethod
    def of(cls, missing: Any = "error", unlisted: Any = "error", out_of_range: Any = "clip") -> "Screening":
        """Return the policies that the words of options, parameters and files name.

        >>> Screening.of(missing="fill").missing
        <EmptyCells.FILL: 'fill'>
        """
        return cls(
            missing=_word("missing", missing, EmptyCells),
            unlisted=_word("unlisted", unlisted, UnlistedCells),
            out_of_range=_word("out_of_range", out_of_range, OutOfRange),
        )


_STRICT = Screening()


def _word(name: str, value: Any, kind: type[Word]) -> Word:
    known = {member.value: member for member in kind}
    if not isinstance(value, str) or value not in known:
        raise InputError(f"{name} must be one of {', '.join(map(repr, known))}, got {shown(value)}.")
    return known[value]


@dataclass(frozen=True)
class Screened:
    """Encoded rows (n, d), their labels (empty without), which rows were blanked, and notes for the data's holder."""

    features: Matrix = field(repr=False)
    labels: Floats = field(repr=False)
    blank: Mask = field(repr=False)
    notes: tuple[str, ...]


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
) -> Screened:
    """Encode every row of a table; `where` names it in messages, and a whole-number index counts its rows from 0.

    >>> from dpadmm.datasets.columns import Numeric, ThresholdLabel
    >>> schema = Schema((Numeric("age", 0, 100),), ThresholdLabel("pay", 10))
    >>> table = pd.DataFrame({"age": ["50", None], "pay": ["12", "9"]})
    >>> done = encode_table(schema, table, "a.csv", Screening(missing=EmptyCells.BLANK))
    >>> done.features.tolist(), done.labels.tolist(), done.blank.tolist()
    ([[0.5], [0.0]], [1.0, 1.0], [False, True])
    """
    found = screen_cells(schema.columns, schema.label if is_labelled else None, frame, where, screening)
    return Screened(_side_by_side(schema, found.cells, found.blank), found.labels, found.blank, found.notes)


@dataclass(frozen=True)
class ScreenedCells:
    """The columns as they were read, the labels (empty without), which rows are to be blanked, and notes."""

    cells: Sequence[Cells] = field(repr=False)
    labels: Floats = field(repr=False)
    blank: Mask = field(repr=False)
    notes: tuple[str, ...]


def screen_cells(
    columns: Sequence[Column], label: Label | None, frame: pd.DataFrame, where: str, screening: Screening
) -> ScreenedCells:
    """Read every column, and the label if there is one, and apply the policies for awkward cells."""
    _check_columns([*(each.name for each in columns), *([label.name] if label else [])], frame, where)
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
    if blank.all():
        raise InputError(f"{where}: every row would be blanked, so nothing is left to learn from. Repair the table.")
    if blank.any():
        findings.notes.append(f"{where}: {blank.sum()} of {len(blank)} row(s) blanked: counted, but all features 0")
    return ScreenedCells(cells, labels, blank, tuple(findings.notes))


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
    if len(frame) == 0:
        raise InputError(f"{where} has a header but no rows. Leave it out, or give it at least one record.")


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


def _side_by_side(schema: Schema, cells: Sequence[Cells], blank: Mask) -> Matrix:
    """Lay the encoded columns side by side, shorten the rows, add the constant, empty the blank ones."""
    rows, widths = len(blank), [len(column.feature_names) for column in schema.columns]
    starts = np.concatenate([[0], np.cumsum(widths)])
    # One slot per row and column, in column order: already sorted CSR, with zeros to remove.
    indices = np.stack([s + np.maximum(c.codes, 0) for s, c in zip(starts, cells, strict=False)], axis=1)
    values = np.stack([np.where(c.codes < 0, 0.0, c.values) for c in cells], axis=1)
    room = schema.row_norm
    if schema.constant is not None:
        room = float(np.sqrt(schema.row_norm**2 - schema.constant**2))
        indices = np.column_stack([indices, np.full(rows, starts[-1])])
    norms = np.sqrt((values * values).sum(axis=1))
    values /= np.maximum(1.0, norms / room)[:, None]
    if schema.constant is not None:
        values = np.column_stack([values, np.full(rows, schema.constant)])
    values[blank] = 0.0
    pointers = np.arange(0, indices.size + 1, indices.shape[1])
    table = sparse.csr_array((values.ravel(), indices.ravel(), pointers), shape=(rows, schema.dimension))
    table.eliminate_zeros()
    if schema.dimension >= SPARSE_WIDTH and indices.shape[1] <= SPARSE_SHARE * schema.dimension:
        return table
    return np.ascontiguousarray(table.toarray())
