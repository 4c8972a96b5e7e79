"""Awkward cells of a table: what is found in its rows, counted batch by batch, and what is said and done about it.

All policies treat a row by itself, so that a table may be screened in one piece or in parts: findings add up.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from dpadmm.checks import plural, setting
from dpadmm.data.cells import Cells, Mask, ScreenedCells
from dpadmm.data.columns import CellReader, LabelReader
from dpadmm.data.schema import EmptyCells, OutOfRange, Screening, UnlistedCells
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Ints

if TYPE_CHECKING:
    import pandas as pd

_MOST_FINDINGS = 8
_MOST_ROWS = 3  # whose numbers are told


class Awkward(Enum):
    """What may be wrong with a cell, in the order in which it is told."""

    STRANGE = "no finite number"
    EMPTY = "empty"
    UNLISTED = "not listed"
    OUTSIDE = "outside the bounds"


@dataclass
class Findings:
    """Awkward cells of a file, `where`, and its rows, all and blanked.

    tallies: by the place of their column (the label is the last), how many cells, and the numbers of the first rows.
    """

    where: str
    rows: int = 0
    blank: int = 0
    tallies: dict[tuple[int, Awkward], tuple[int, tuple[int, ...]]] = field(default_factory=dict)

    def add(self, later: "Findings") -> None:
        """Count what was found in later rows of the same file as well."""
        self.rows, self.blank = self.rows + later.rows, self.blank + later.blank
        for place, (number, first) in later.tallies.items():
            before, known = self.tallies.get(place, (0, ()))
            self.tallies[place] = before + number, (*known, *first)[:_MOST_ROWS]

    def mark(self, column: int, found: Cells, numbers: Ints) -> None:
        """Count the awkward cells of a column."""
        for kind, rows in zip(Awkward, (found.strange, found.missing, found.unlisted, found.outside), strict=True):
            if rows.any():
                self.tallies[column, kind] = int(rows.sum()), tuple(numbers[rows][:_MOST_ROWS].tolist())


def _row_words(number: int, first: Sequence[int]) -> str:
    if number == 1:
        return f"row {first[0]}"
    more = f" and {number - _MOST_ROWS} more" if number > _MOST_ROWS else ""
    return f"rows {', '.join(map(str, first))}{more}"


def read_cells(
    columns: Sequence[CellReader],
    label: LabelReader | None,
    frame: "pd.DataFrame",
    numbers: Ints,
    where: str,
    how: Screening,
) -> tuple[ScreenedCells, Findings]:
    """Read every column, and the label if there is one, and mark the awkward cells; nothing is refused yet.

    numbers: of the rows in their file, from 1.
    """
    findings = Findings(where, rows=len(frame))
    cells = [column.read(frame[column.name]) for column in columns]
    blank = np.zeros(len(frame), dtype=bool)
    for place, found in enumerate(cells):
        findings.mark(place, found, numbers)
        blank |= _blanked(found, how, is_label=False)
    labels = np.empty(0)
    if label is not None:
        read = label.read(frame[label.name])
        findings.mark(len(columns), read, numbers)
        blank |= _blanked(read, how, is_label=True)
        # A row without features: a real target of 0 has no residual, a sign no gradient either way.
        labels = np.where(blank, 0.0 if label.is_real else 1.0, read.values)
    findings.blank = int(blank.sum())
    return ScreenedCells(tuple(columns), cells, labels, blank, ()), findings


def _blanked(found: Cells, how: Screening, *, is_label: bool) -> Mask:
    """Return the rows to blank for this column."""
    blank = np.zeros(len(found.missing), dtype=bool)
    if how.missing is EmptyCells.BLANK or (is_label and how.missing is not EmptyCells.ERROR):
        blank |= found.missing
    if how.unlisted is UnlistedCells.BLANK or (is_label and how.unlisted is not UnlistedCells.ERROR):
        blank |= found.unlisted
    return blank


def conclude(
    files: Iterable[Findings], columns: Sequence[CellReader], label: LabelReader | None, how: Screening, where: str
) -> tuple[str, ...]:
    """Refuse the files of one silo, called `where`, for what was found in them, or return notes for the data's holder.

    Messages quote no cell.
    """
    known: list[CellReader] = [*columns]
    known += [] if label is None else [label]
    files = list(files)
    faults, notes = [], []
    for found in files:
        for (place, kind), (number, first) in sorted(found.tallies.items(), key=_in_order):
            column = known[place]
            fault = _fault(kind, column, how)
            if fault is not None:
                faults.append(f"{found.where}, {_row_words(number, first)}, column {column.name!r}: {fault}")
            elif (said := _note(kind, how, is_label=place == len(columns))) is not None:
                notes.append(f"{found.where}, column {column.name!r}: {plural(number, 'cell')} {said}")
    _refuse(faults)
    rows, blank = sum(found.rows for found in files), sum(found.blank for found in files)
    if rows and blank == rows:
        raise InputError(f"{where}: every row would be blanked, so nothing is left to learn from. Correct the table.")
    if blank:
        notes.append(f"{where}: {blank} of {plural(rows, 'row')} blanked (counted, but with all features 0)")
    return tuple(notes)


def _in_order(item: tuple[tuple[int, Awkward], Any]) -> tuple[int, int]:
    (place, kind), _ = item
    return place, list(Awkward).index(kind)


def _fault(kind: Awkward, column: CellReader, how: Screening) -> str | None:
    """Say what is wrong and what to do, None where the policies allow such cells."""
    match kind:
        case Awkward.STRANGE:
            return (
                "the cell is not a finite number. Write numbers with a decimal point and without units; if a word such "
                f"as ? stands for a missing value, use {setting('na_values', '?')}; if decimals follow a comma, "
                f"{setting('decimal', ',')}; or declare the column categorical."
            )
        case Awkward.EMPTY if how.missing is EmptyCells.ERROR:
            fill = f"Fill it in, or choose {setting('missing', 'fill')} or {setting('missing', 'blank')}."
            return f"the cell is empty. {fill}"
        case Awkward.UNLISTED if how.unlisted is UnlistedCells.ERROR:
            return (
                f"not one of the listed values ({column.allowed}). Correct it, list it in the schema if it is publicly "
                f"known, or choose {setting('unlisted', 'zero')} or {setting('unlisted', 'blank')}."
            )
        case Awkward.OUTSIDE if how.out_of_range is OutOfRange.ERROR:
            return (
                f"outside the public bounds ({column.allowed}). Correct it, widen the bounds from public knowledge, or "
                f"choose {setting('out_of_range', 'clip')}."
            )
    return None


def _note(kind: Awkward, how: Screening, *, is_label: bool) -> str | None:
    """Say what was done with cells that are allowed; nothing of those whose rows are blanked, which are counted."""
    match kind:
        case Awkward.EMPTY if how.missing is not EmptyCells.BLANK and not is_label:
            return "empty, filled"
        case Awkward.UNLISTED if how.unlisted is not UnlistedCells.BLANK and not is_label:
            return "unlisted, encoded as none of the listed categories"
        case Awkward.OUTSIDE:
            return "outside the bounds, moved to the nearest one"
    return None


def _refuse(faults: Sequence[str]) -> None:
    if not faults:
        return
    listed = faults[:_MOST_FINDINGS]
    rest = len(faults) - len(listed)
    tail = f" And {rest} more columns." if rest else ""
    several = "\n".join([f"{len(faults)} columns cannot be used as they are:", *listed])
    text = listed[0] if len(faults) == 1 else several
    raise InputError(f"{text}{tail} (Rows are counted from 1, without the header.)")
