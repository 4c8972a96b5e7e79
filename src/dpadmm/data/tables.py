"""Tables, from the file to encoded rows: the one way for the command line, a silo and the estimators.

`reading.read_file` reads a file; `encode_table` screens and encodes. All policies for awkward cells treat a row by
itself and keep the number of rows, so a private table may be screened without a privacy cost: the encoded row of one
person never depends on another's, and nobody learns who had an empty cell from a count. So a table may also be screened
in parts: what is found in them adds up. Messages quote neither cells nor the names that a file gives its columns, which
may be a record.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpadmm.checks import option_name, plural
from dpadmm.data.cells import EMPTY_TEXTS, Cells, Mask, is_empty, text_of_value
from dpadmm.data.columns import BinaryLabel, Column, Label
from dpadmm.data.encoding import RowEncoding
from dpadmm.data.profile import ProfileForm
from dpadmm.data.reading import is_text_file, may_lack_header, no_header, read_file
from dpadmm.data.schema import Schema, numbered_names
from dpadmm.errors import InputError
from dpadmm.privacy.ledger import SiloColumns
from dpadmm.privacy.protection import Protection, Unit
from dpadmm.problems.arrays import Floats, Ints, Matrix
from dpadmm.settings import CellRules, TableFormat

if TYPE_CHECKING:
    from dpadmm.data.parquet import StreamedTable

_MOST_FINDINGS = 8
_MOST_ROWS = 3  # whose numbers are named
_ANY, _STRICT = TableFormat(), CellRules()


@dataclass(frozen=True)
class Screened:
    """Encoded rows (n, d), their labels (empty without), which rows were blanked, and notes for the data's holder."""

    features: Matrix = field(repr=False)
    labels: Floats = field(repr=False)
    blank: Mask = field(repr=False)
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ScreenedCells:
    """The columns as they were read, the labels (empty without), which rows are to be blanked, and notes."""

    columns: tuple[Column, ...]
    cells: Sequence[Cells] = field(repr=False)
    labels: Floats = field(repr=False)
    blank: Mask = field(repr=False)
    notes: tuple[str, ...]

    @property
    def number(self) -> int:
        """How many rows there are."""
        return len(self.blank)

    def counts(self, form: ProfileForm, row_weights: Floats | None = None) -> Floats:
        """Return the rows' counts, see `ProfileForm.counts`."""
        return form.counts(self.cells, self.blank, row_weights)

    def rows(self, encoding: RowEncoding) -> Matrix:
        """Return the encoded rows."""
        return encoding.encode_cells(self.columns, self.cells, self.blank)

    def encoded(self, encoding: RowEncoding) -> Screened:
        """Return the encoded rows with all that is known about them."""
        return Screened(self.rows(encoding), self.labels, self.blank, self.notes)


class CellProblem(IntEnum):
    """What may be wrong with a cell, in the order in which it is reported."""

    NO_NUMBER = 0
    EMPTY = 1
    UNLISTED = 2
    OUTSIDE = 3


@dataclass
class CellFindings:
    """Awkward cells of a file, `where`, and its rows, all and blanked.

    tallies: by the place of their column (the label is the last), how many cells, and the numbers of the first rows.
    """

    where: str
    rows: int = 0
    blank: int = 0
    tallies: dict[tuple[int, CellProblem], tuple[int, tuple[int, ...]]] = field(default_factory=dict)

    def add(self, later: "CellFindings") -> None:
        """Count what was found in later rows of the same file as well."""
        self.rows, self.blank = self.rows + later.rows, self.blank + later.blank
        for place, (number, first) in later.tallies.items():
            before, known = self.tallies.get(place, (0, ()))
            self.tallies[place] = before + number, (*known, *first)[:_MOST_ROWS]


def read_cells(
    schema: Schema, frame: pd.DataFrame, numbers: Ints, where: str, how: CellRules, *, is_labelled: bool = True
) -> tuple[ScreenedCells, CellFindings]:
    """Read every column, and the label if there is one, and mark the awkward cells; nothing is refused yet.

    numbers: of the rows in their file, from 1.
    """
    findings, blank = CellFindings(where, rows=len(frame)), np.zeros(len(frame), dtype=bool)
    cells, labels = [], np.empty(0)
    for place, column in enumerate((*schema.columns, schema.label)[: len(schema.columns) + is_labelled]):
        found, is_label = column.read(frame[column.name]), place == len(schema.columns)
        for kind, rows in zip(CellProblem, (found.strange, found.missing, found.unlisted, found.outside), strict=True):
            if rows.any():
                findings.tallies[place, kind] = int(rows.sum()), tuple(numbers[rows][:_MOST_ROWS].tolist())
        if how.missing == "blank" or (is_label and how.missing != "error"):
            blank |= found.missing
        if how.unlisted == "blank" or (is_label and how.unlisted != "error"):
            blank |= found.unlisted
        if is_label:  # of a row without features, a real target of 0 has no residual, a sign no gradient either way
            labels = np.where(blank, 0.0 if schema.label.is_real else 1.0, found.values)
        else:
            cells.append(found)
    findings.blank = int(blank.sum())
    return ScreenedCells(tuple(schema.columns), cells, labels, blank, ()), findings


def check_findings(files: Sequence[CellFindings], schema: Schema, how: CellRules, where: str) -> tuple[str, ...]:
    """Refuse the files of one silo, called `where`, for what was found in them, or return notes for the data's holder.

    Messages quote no cell.
    """
    faults, notes = [], []
    for found in files:
        for (place, kind), (number, first) in sorted(found.tallies.items()):
            column = (*schema.columns, schema.label)[place]
            fault = _describe_fault(kind, column, how)
            if fault is not None:
                rows = f"rows {', '.join(map(str, first))}" if number > 1 else f"row {first[0]}"
                more = f" and {number - _MOST_ROWS} more" if number > _MOST_ROWS else ""
                faults.append(f"{found.where}, {rows}{more}, column {column.name!r}: {fault}")
            elif (change := _describe_change(kind, how, is_label=column is schema.label)) is not None:
                notes.append(f"{found.where}, column {column.name!r}: {plural(number, 'cell')} {change}")
    if faults:
        listed, rest = faults[:_MOST_FINDINGS], len(faults) - _MOST_FINDINGS
        head = [f"{len(faults)} columns cannot be used as they are:"] if len(faults) > 1 else []
        tail = f" And {rest} more columns." if rest > 0 else ""
        text = "\n".join([*head, *listed])
        raise InputError(f"{text}{tail} (Rows are counted from 1, without the header.)")
    n_rows, blank = sum(found.rows for found in files), sum(found.blank for found in files)
    if n_rows and blank == n_rows:
        raise InputError(f"{where}: every row would be blanked, so nothing is left to learn from. Correct the table.")
    if blank:
        notes.append(f"{where}: {blank} of {plural(n_rows, 'row')} blanked (counted, but with all features 0)")
    return tuple(notes)


def _describe_fault(kind: CellProblem, column: Column | Label, how: CellRules) -> str | None:
    """Say what is wrong and what to do, None where the policies allow such cells."""
    match kind:
        case CellProblem.NO_NUMBER:
            return (
                "the cell is not a finite number. Write numbers with a decimal point and without units, a date as days "
                "since a public one; if a word such as ? stands for a missing value, use "
                f"{option_name('na_values', '?')}; if decimals follow a comma, {option_name('decimal', ',')}; or "
                "declare the column categorical."
            )
        case CellProblem.EMPTY if how.missing == "error":
            fill = f"Fill it in, or choose {option_name('missing', 'fill')} or {option_name('missing', 'blank')}."
            return f"the cell is empty. {fill}"
        case CellProblem.UNLISTED if how.unlisted == "error":
            may_be_number = isinstance(column, BinaryLabel) and not any(
                isinstance(each, str) for each in column.classes
            )
            instead = f" For a number give bounds, and {option_name('loss', 'huber')}." if may_be_number else ""
            return (
                f"not one of the listed values ({column.allowed}). Correct it, list it in the schema if it is publicly "
                f"known, or choose {option_name('unlisted', 'zero')} or {option_name('unlisted', 'blank')}.{instead}"
            )
        case CellProblem.OUTSIDE if how.out_of_range == "error":
            return (
                f"outside the public bounds ({column.allowed}). Correct it, widen the bounds from public knowledge, or "
                f"choose {option_name('out_of_range', 'clip')}."
            )
    return None


def _describe_change(kind: CellProblem, how: CellRules, *, is_label: bool) -> str | None:
    """Say what was done with cells that are allowed; nothing of those whose rows are blanked, which are counted."""
    match kind:
        case CellProblem.EMPTY if how.missing != "blank" and not is_label:
            return "empty, filled"
        case CellProblem.UNLISTED if how.unlisted != "blank" and not is_label:
            return "unlisted, encoded as none of the listed categories"
        case CellProblem.OUTSIDE:
            return "outside the bounds, moved to the nearest one"
    return None


def encode_table(
    schema: Schema,
    frame: pd.DataFrame,
    where: str = "The table",
    screening: CellRules = _STRICT,
    *,
    is_labelled: bool = True,
    encoding: RowEncoding | None = None,
) -> Screened:
    """Encode every row of a table; `where` names it in messages, and a whole-number index counts its rows from 0.

    `encoding`: how; None encodes plainly by bounds and categories, as published benchmarks do (`Schema.by_bounds`).

    >>> from dpadmm.data.columns import Numeric, ThresholdLabel
    >>> schema = Schema((Numeric("age", 0, 100),), ThresholdLabel("pay", 10))
    >>> table = pd.DataFrame({"age": ["50", None], "pay": ["12", "9"]})
    >>> done = encode_table(schema, table, "a.csv", CellRules(missing="blank"))
    >>> done.features.tolist(), done.labels.tolist(), done.blank.tolist()
    ([[0.5, 0.3], [0.0, 0.0]], [1.0, 1.0], [False, True])
    """
    found = screen_cells(schema, frame, where, screening, is_labelled=is_labelled)
    return found.encoded(schema.by_bounds() if encoding is None else encoding)


def screen_cells(
    schema: Schema,
    frame: pd.DataFrame,
    where: str,
    screening: CellRules,
    *,
    is_labelled: bool = True,
    may_be_empty: bool = False,
) -> ScreenedCells:
    """Read every column, and the label if there is one, and apply the policies for awkward cells.

    `may_be_empty`: a table without rows will do, since nobody may learn how many there are.
    """
    frame = with_names(frame, [*schema.column_names, *([schema.label.name] if is_labelled else [])], where)
    if len(frame) == 0 and not may_be_empty:
        raise InputError(f"{where} has a header but no rows. Leave out the file, or add at least one record.")
    # The index of a part of a table still counts the rows of the whole.
    places = frame.index if pd.api.types.is_integer_dtype(frame.index.dtype) else np.arange(len(frame))
    numbers = np.asarray(places, dtype=np.int64) + 1
    cells, findings = read_cells(schema, frame, numbers, where, screening, is_labelled=is_labelled)
    return replace(cells, notes=check_findings([findings], schema, screening, where))


def with_names(frame: pd.DataFrame, needed: Sequence[str], where: str) -> pd.DataFrame:
    """Return the table with its names as a schema has them, without the spaces around; refuse one that lacks some."""
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"{where} must be a pandas DataFrame, got {type(frame).__name__}.")
    names = [name.strip() if isinstance(name, str) else name for name in frame.columns]
    check_present(where, needed, names)
    if len(set(names)) < len(names):
        twice = [name for name in needed if names.count(name) > 1]
        called = f"more than one column named {', '.join(map(repr, twice))}" if twice else "columns of the same name"
        raise InputError(f"{where} has {called}. Rename all but one of each.")
    return frame.set_axis(names, axis=1)


def check_present(where: str, wanted: Sequence[str], found: Sequence[Any]) -> None:
    """Refuse a table that lacks wanted columns; the names of its own are not shown.

    >>> check_present("a.parquet", ["age", "sex"], ["sex", "pay", "id"])
    Traceback (most recent call last):
    dpadmm.errors.InputError: a.parquet lacks the column 'age': 1 of the 2 wanted names is among its 3 columns. Rename
    the columns of the file, or correct the wanted names.
    """
    lacking = [name for name in wanted if name not in found]
    if not lacking:
        return
    there, number = len(wanted) - len(lacking), len(found)
    is_there = f"{'is' if there < 2 else 'are'} among its {number} columns"
    why = f"{there or 'none'} of the {len(wanted)} wanted names {is_there}."
    if number == 1 and is_text_file(where):
        why = (
            "it was read as a single column. If another character separates the cells, give it with "
            f"{option_name('sep')}."
        )
    columns = f"column{'s' * (len(lacking) > 1)} {', '.join(map(repr, lacking))}"
    raise InputError(f"{where} lacks the {columns}: {why} {names_remedy(where, found)}")


def names_remedy(where: str, found: Sequence[Any]) -> str:
    """Say what to do where columns are not found by their names; those of a file without a header are numbered."""
    if list(found) == numbered_names(len(found)):
        return (
            f"With {option_name('header', False)} the columns are called column1, column2, ... from left to right. Use "
            f"these names, or add a header line to the file and leave out {option_name('header', False)}."
        )
    header = f" {no_header()}" if may_lack_header(where) else ""
    return f"Rename the columns of the file, or correct the wanted names.{header}"


def split_table(frame: pd.DataFrame, column: str, where: str) -> dict[str, pd.DataFrame]:
    """Return one table per value of a column, in the order of their names; the index still counts the whole table."""
    check_present(where, [column], list(frame.columns))
    empty = np.flatnonzero(is_empty(frame[column])) + 1
    if len(empty):
        raise InputError(
            f"{where}, row {empty[0]}, column {column!r}: the cell is empty in {plural(len(empty), 'row')}, so "
            "their silo is unknown. Fill in these cells. (Rows are counted from 1, without the header.)"
        )
    groups = np.array(text_of_value(frame[column].astype(object).tolist()), dtype=object)
    return {name: frame[groups == name] for name in sorted(set(groups))}


def check_split(split_by: str | None, schema: Schema) -> None:
    """Refuse to split by a column that a schema uses: within a silo all rows would have the same value."""
    if split_by in (*schema.column_names, schema.label.name):
        raise InputError(
            f"{option_name('split_by', split_by)} is also a column of the schema. A column can name the silo of a row "
            "or be a feature, not both. Take it out of the schema, or split by another column."
        )


@dataclass(frozen=True)
class SiloTable:
    """The rows of one silo; their index counts the rows of the file they came from, which `where` names.

    written: how that file was read. part: which silo it is of a file that is split, for messages. hashed: what a ledger
    knows of the columns, as soon as it is computed.
    """

    frame: pd.DataFrame = field(repr=False)
    where: str
    written: TableFormat = _ANY
    part: str = ""
    hashed: dict[str, bytes] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.frame)

    def screened(
        self, schema: Schema, screening: CellRules, kept: Ints | None = None, *, may_be_empty: bool = False
    ) -> ScreenedCells:
        """Return the rows, checked; kept: the numbers of those that are used."""
        frame = self.frame if kept is None else self.frame.iloc[kept]
        return screen_cells(schema, frame, self.where + self.part, screening, may_be_empty=may_be_empty)

    def ledger_columns(self, name: str, persons: NDArray[np.intp] | None = None) -> SiloColumns:
        """Return the table as a ledger knows it, see `cells_for_ledger`; persons: whose each row is."""
        return SiloColumns.of_frame(name, cells_for_ledger(self.frame, self.where), persons).sharing(self.hashed)


def cells_for_ledger(frame: pd.DataFrame, where: str | Path) -> pd.DataFrame:
    """Return the cells by which a ledger knows a table: in text files, texts for an empty cell are as nothing at all.

    So a table stays the same data when a schema lists one of these texts as a category, and in Python, where pandas
    reads them as empty.
    """
    return frame.where(~frame.isin(EMPTY_TEXTS)) if is_text_file(where) else frame


def check_no_copies(tables: Mapping[str, "SiloTable | StreamedTable"], protection: Protection | None) -> None:
    """Refuse tables with the same columns and the same rows in the same order: a copy holds every person once more.

    Everything that reads several tables calls this. Copies with rows in another order, or with other columns, are not
    recognised, nor are parts of one table compared. protection: how people are counted; None where nothing is released.
    Persons are distinguished by their identifiers (`Persons.check_silos`), and users may be alike.
    """
    if protection is None or protection.unit is not Unit.RECORD:
        return
    numbers = Counter(rows for rows, _ in {(table.rows, table.where) for table in tables.values()})
    found: dict[frozenset[bytes], list[str]] = {}
    for name, table in tables.items():
        if table.rows == 0 or numbers[table.rows] <= protection.silos_per_person:
            continue  # holds nobody, or has too few copies: there is no need to read it
        places = found.setdefault(frozenset(table.ledger_columns(name).digests.values()), [])
        if table.where not in places:  # parts of one file may be alike
            places.append(table.where)
        if len(places) > protection.silos_per_person:
            raise InputError(
                f"{len(places)} tables contain the same rows: {', '.join(places)}. Give only one of them, or, if they "
                f"do hold the same people, use {option_name('silos_per_person', len(places))} or more."
            )


def read_silos(
    files: Sequence[Path], split_by: str | None, written: TableFormat = _ANY, *, protection: Protection | None
) -> dict[str, SiloTable]:
    """Return one table per silo: a file each, or one file split by the values of a column, which are public names.

    protection: see `check_no_copies`.
    """
    if not files:
        raise InputError(f"At least one file is needed: one per silo, or one with {option_name('split_by')}.")
    _check_one(files, split_by)
    names, read = silo_names(files), [read_file(file, written) for file in files]
    tables = [SiloTable(each.frame, str(file), each.written) for each, file in zip(read, files, strict=True)]
    return arrange_silos(dict(zip(names, tables, strict=True)), split_by, protection=protection)


def arrange_silos(
    tables: Mapping[str, SiloTable], split_by: str | None, *, protection: Protection | None
) -> dict[str, SiloTable]:
    """Return the tables as they are, without copies, or the one table split by the values of a column."""
    _check_one(tables, split_by)
    if split_by is None:
        check_no_copies(tables, protection)
        return dict(tables)
    (whole,) = tables.values()
    parts = split_table(whole.frame, split_by, whole.where)
    return {
        name: replace(whole, frame=part.drop(columns=split_by), part=f" (silo {number})")
        for number, (name, part) in enumerate(parts.items(), start=1)
    }


def _check_one(tables: Sized, split_by: str | None) -> None:
    if split_by is not None and len(tables) != 1:
        raise InputError(f"{option_name('split_by')} takes one table, got {len(tables)}. Without it, each is a silo.")


def silo_names(files: Sequence[Path]) -> list[str]:
    """Return what the silos of these files, or folders, are called."""
    stems = [path.name.split(".")[0] for path in files]
    if len({path.resolve() for path in files}) < len(files):
        raise InputError("The same file is given twice, but a record may count only once. Give each file once.")
    return stems if len(set(stems)) == len(stems) else [str(path) for path in files]
