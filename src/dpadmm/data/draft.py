"""Drafts of schemas: from names and types of columns alone, with placeholders for everything the user must state.

Bounds and categories are never read off the data: the largest value of a private column is somebody's value. Names and
types are, so a draft is private until its owner has read it. In text files and sheets the type of a column is what nine
of ten cells say, so that one person's cell seldom changes it; what a column is, the finished schema alone says.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpadmm.checks import nearest
from dpadmm.data.cells import is_empty, numbers_of, text_of_value
from dpadmm.data.columns import record_of
from dpadmm.data.encoding import CONSTANT
from dpadmm.data.reading import UNNAMED, may_lack_header, name_columns, no_header, read_file
from dpadmm.data.schema import ASKED, FORMAT, MARK, VERSION, Schema, column_of, label_of, unfilled
from dpadmm.data.tables import check_present, names_remedy
from dpadmm.errors import InputError
from dpadmm.settings import TableFormat


class ColumnType(Enum):
    """What the type of a stored column says about it."""

    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    OTHER = "other"


class TargetKind(Enum):
    """What is to be predicted, as in `dpadmm schema init --predict`."""

    TWO = "classes"
    SEVERAL = "several-classes"
    NUMBER = "number"


_ANY = TableFormat()
_MOSTLY = 0.9  # share of cells that decide the type of a column
_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_DATE = re.compile(rf"(?:(?:mon|tue|wed|thu|fri|sat|sun)\w*[ ,.]+)?(?:{_MONTHS})[a-z]*[ ,./-]+\d.*", re.IGNORECASE)
_TYPES = {"i": ColumnType.NUMBER, "u": ColumnType.NUMBER, "f": ColumnType.NUMBER, "b": ColumnType.BOOLEAN}


def column_types(path: Path, written: TableFormat = _ANY) -> tuple[dict[str, ColumnType], TableFormat]:
    """Return what the columns of a file are called and hold, and how it was read; refuse names that look like cells."""
    read = read_file(path, written)
    if written.has_header:
        _check_header(str(path), read.frame)
    type_of = _type_of_texts if may_lack_header(path) else _stored_type
    return {str(name): type_of(cells) for name, cells in read.frame.items()}, read.written


def draft_of(frame: pd.DataFrame, target: str, predict: TargetKind, leave_out: Sequence[str] = ()) -> "SchemaDraft":
    """Return the draft for a data frame, from the names and types of its columns; see `Schema.draft`."""
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"A draft is made from a pandas DataFrame, got {type(frame).__name__}.")
    named = frame.set_axis(name_columns("The table", frame.columns), axis=1)
    _check_header("The table", named)
    types = {str(name): _stored_type(cells) for name, cells in named.items() if name not in leave_out}
    return SchemaDraft(draft_schema(types, target, predict))


@dataclass(frozen=True)
class SchemaDraft:
    """A schema with placeholders, as a JSON record."""

    record: Mapping[str, Any]

    @property
    def to_fill_in(self) -> tuple[str, ...]:
        """What is still to be filled in, one sentence each."""
        return unfilled(self.record)

    def to_json(self) -> str:
        """Return it as JSON text, to be filled in by hand."""
        return json.dumps(self.record, indent=2, ensure_ascii=False)

    def save(self, path: str | Path) -> None:
        """Write it as a JSON file."""
        Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    def filled(self, known: Mapping[str, Any]) -> Schema:
        """Return the schema, with what is publicly known about each column and the label, by name.

        A pair (lower, upper) for a number, a list of categories, and for a label with two classes what is yes and what
        is no; for more than two, the list of them. That decides what a column is, not the type that was drafted, which
        comes from the data. Columns that are not named are left out.

        >>> draft = draft_of(pd.DataFrame({"age": [41, 50], "town": ["A", "B"], "sick": ["yes", "no"]}), "sick",
        ...     TargetKind.TWO)
        >>> print(draft.filled({"age": (0, 120), "sick": ("yes", "no")}).describe())
        age: a number from 0 to 120
        label sick: +1 for ['yes'], -1 for ['no']
        row norm at most 1, with an intercept
        """
        parts = {part["name"]: part for part in (*self.record["columns"], self.record["label"])}
        strange = [name for name in known if name not in parts]
        if strange:
            raise InputError(f"The draft has no column {', '.join(map(repr, strange))}.{nearest(strange[0], parts)}")
        label = self.record["label"]
        target = label["name"]
        if target in known:
            label = record_of(label_of(target, known[target], is_real=label["kind"] == "real"))
        columns = [record_of(column_of(name, known[name])) for name in parts if name in known and name != target]
        return Schema.from_json(json.dumps({**self.record, "label": label, "columns": columns}))


def _check_header(where: str, frame: pd.DataFrame) -> None:
    """Refuse names that look like a record, before they are written to where names are public.

    What begins with a digit, numbers, dates, empty names and names that are also values of their own column are no
    names. A record of rare texts alone looks like a header, so whoever writes names down also asks for one
    that the user knows.
    """
    names = list(frame.columns)
    strange = [
        name
        for place, name in enumerate(names)
        if is_like_a_value(name)
        or any(isinstance(cell, str) and cell.strip() == name.strip() for cell in frame.iloc[:, place].astype(object))
    ]
    if strange:
        remedy = f"{no_header()} If it is a header, give" if may_lack_header(where) else "Give"
        raise InputError(
            f"{where}: {len(strange)} of the {len(names)} names of its columns look like values (numbers, dates, names "
            f"that are empty or begin with a digit, or values of the same column). {remedy} these columns other names."
        )


def is_like_a_value(name: str) -> bool:
    """Return whether a column's name looks like a cell: a number, a date, nothing, or what begins with a digit.

    >>> is_like_a_value("age"), is_like_a_value("39"), is_like_a_value("-0,5")
    (False, True, True)
    """
    text = name.strip()
    if not text or text[0].isdigit() or text.startswith(UNNAMED) or _DATE.fullmatch(text):
        return True
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def _stored_type(cells: pd.Series) -> ColumnType:
    kind = cells.dtype
    is_text = pd.api.types.is_string_dtype(kind) or isinstance(kind, pd.CategoricalDtype) or kind.kind == "O"
    return _TYPES.get(kind.kind, ColumnType.TEXT if is_text else ColumnType.OTHER)


def _type_of_texts(cells: pd.Series) -> ColumnType:
    """Return the type that most of the cells of a text file or a sheet have which are not empty."""
    there = cells[~is_empty(cells)]
    if not len(there):
        return ColumnType.NUMBER
    if np.mean([text.lower() in ("true", "false") for text in text_of_value(there.tolist())]) >= _MOSTLY:
        return ColumnType.BOOLEAN
    return ColumnType.NUMBER if np.mean(~np.isnan(numbers_of(there))) >= _MOSTLY else ColumnType.TEXT


def draft_schema(types: Mapping[str, ColumnType], target: str, predict: TargetKind = TargetKind.TWO) -> dict[str, Any]:
    """Return a schema with placeholders, as a JSON record; columns of other types are left out.

    >>> draft_schema({"age": ColumnType.NUMBER, "y": ColumnType.TEXT}, "y")["columns"][0]["lower"]
    'FILL IN: the lowest value it can take, as a number, known without looking at the data (such as 0)'
    """
    if target not in types:
        raise InputError(f"There is no column {target!r} to predict among the {len(types)} columns. {no_header()}")
    columns: list[dict[str, Any]] = []
    for name, kind in types.items():
        if name == target or kind is ColumnType.OTHER:
            continue
        if kind is ColumnType.NUMBER:
            columns.append({"kind": "numeric", "name": name, "lower": _ask("lower"), "upper": _ask("upper")})
        else:  # a yes/no column has two values by its type; this is not read off the data
            categories = [0, 1] if kind is ColumnType.BOOLEAN else [_ask("categories")]
            columns.append({"kind": "categorical", "name": name, "categories": categories})
    if not columns:
        raise InputError(f"There is no column to learn from besides the target {target!r}. Leave out fewer columns.")
    return {
        "format": FORMAT,
        "version": VERSION,
        "row_norm": 1.0,
        "constant": CONSTANT,
        "label": _draft_label(target, types[target], predict),
        "columns": columns,
    }


def _ask(key: str) -> str:
    return f"{MARK}: {ASKED[key]}"


def _draft_label(name: str, kind: ColumnType, predict: TargetKind) -> dict[str, Any]:
    if predict is TargetKind.SEVERAL:
        return {"kind": "classes", "name": name, "classes": [_ask("classes")]}
    if predict is TargetKind.NUMBER:
        if kind is not ColumnType.NUMBER:
            raise InputError(f"The target {name!r} does not hold numbers, so it cannot be predicted as one.")
        return {"kind": "real", "name": name, "lower": _ask("lower"), "upper": _ask("upper")}
    if kind is ColumnType.BOOLEAN:
        return {"kind": "binary", "name": name, "positive": [1], "negative": [0]}
    return {"kind": "binary", "name": name, "positive": [_ask("positive")], "negative": [_ask("negative")]}


def common_types(tables: Mapping[str, Mapping[str, ColumnType]], left_out: set[str]) -> dict[str, ColumnType]:
    """Return the columns that all files share, with a type that fits all of them."""
    first, *others = tables.values()
    for file, types in tables.items():
        if set(types) != set(first):
            raise InputError(
                f"{file} does not have the same columns as the first file: it has {len(types)}, the first file has "
                f"{len(first)}, and {len(set(types) & set(first))} names are in both. {names_remedy(file, list(types))}"
            )
    check_present(next(iter(tables)), sorted(left_out), list(first))
    same = {name: kind if all(o[name] is kind for o in others) else ColumnType.TEXT for name, kind in first.items()}
    return {name: kind for name, kind in same.items() if name not in left_out}
