"""Drafts of schemas: from names and types of columns alone, with placeholders for everything the world must tell.

Bounds and categories are never read off the data: the largest value of a private column is somebody's value.
"""

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpadmm.datasets.cells import numbers_of
from dpadmm.datasets.encoding import CONSTANT
from dpadmm.datasets.schema import ASKED, FORMAT, MARK, VERSION
from dpadmm.datasets.tables import NO_HEADER, UNNAMED, is_csv, read_table
from dpadmm.errors import InputError


class ColumnType(Enum):
    """What the type of a stored column says about it."""

    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    OTHER = "other"


_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_DATE = re.compile(rf"(?:(?:mon|tue|wed|thu|fri|sat|sun)\w*[ ,.]+)?(?:{_MONTHS})[a-z]*[ ,./-]+\d.*", re.IGNORECASE)
_TYPES = {"i": ColumnType.NUMBER, "u": ColumnType.NUMBER, "f": ColumnType.NUMBER, "b": ColumnType.BOOLEAN}


def column_types(path: Path, *, has_header: bool = True) -> dict[str, ColumnType]:
    """Return the names of the columns and the types of their cells; refuse names that look like a record."""
    frame = read_table(path, has_header=has_header)
    if has_header:
        _check_header(path, list(frame.columns), frame)
    type_of = _text_type if is_csv(path) else _stored_type
    return {str(name): type_of(frame[name]) for name in frame.columns}


def _check_header(path: Path, names: Sequence[str], frame: pd.DataFrame) -> None:
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
    return is_like_a_value(text) or bool(
        cells.astype(object).map(lambda cell: isinstance(cell, str) and cell.strip() == text).any()
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


def _text_type(cells: pd.Series) -> ColumnType:
    """Return what all cells of a CSV column say that are not empty."""
    there = cells.dropna()
    if len(there) and there.str.strip().str.lower().isin(["true", "false"]).all():
        return ColumnType.BOOLEAN
    return ColumnType.TEXT if np.isnan(numbers_of(there)).any() else ColumnType.NUMBER


def draft_schema(types: Mapping[str, ColumnType], target: str, *, is_number: bool = False) -> dict[str, Any]:
    """Return a schema with placeholders, as a JSON record; columns of other types are left out.

    is_number: whether the target is a number to predict, not one of two classes.

    >>> draft_schema({"age": ColumnType.NUMBER, "y": ColumnType.TEXT}, "y")["columns"][0]["lower"]
    'FILL IN: the lowest value it can take, as a number, known without looking at the data (such as 0)'
    """
    if target not in types:
        raise InputError(f"There is no column {target!r} to predict among the {len(types)} columns. {NO_HEADER}")
    columns = [_draft(name, kind) for name, kind in types.items() if name != target and kind is not ColumnType.OTHER]
    if not columns:
        raise InputError(f"There is no column to learn from beside the target {target!r}. Leave fewer columns out.")
    return {
        "format": FORMAT,
        "version": VERSION,
        "row_norm": 1.0,
        "constant": CONSTANT,
        "label": _draft_label(target, types[target], is_number=is_number),
        "columns": columns,
    }


def _asked(key: str) -> str:
    return f"{MARK}: {ASKED[key]}"


def _draft(name: str, kind: ColumnType) -> dict[str, Any]:
    if kind is ColumnType.NUMBER:
        asked = {key: _asked(key) for key in ("lower", "upper")}
        return {"kind": "numeric", "name": name} | asked
    # A yes/no column has two values by its type; this is not read off the data.
    return {
        "kind": "categorical",
        "name": name,
        "categories": [0, 1] if kind is ColumnType.BOOLEAN else [_asked("categories")],
    }


def _draft_label(name: str, kind: ColumnType, *, is_number: bool) -> dict[str, Any]:
    if is_number:
        if kind is not ColumnType.NUMBER:
            raise InputError(f"The target {name!r} does not hold numbers, so it cannot be predicted as one.")
        return {"kind": "real", "name": name, "lower": _asked("lower"), "upper": _asked("upper")}
    if kind is ColumnType.BOOLEAN:
        return {"kind": "binary", "name": name, "positive": [1], "negative": [0]}
    return {"kind": "binary", "name": name, "positive": [_asked("positive")], "negative": [_asked("negative")]}
