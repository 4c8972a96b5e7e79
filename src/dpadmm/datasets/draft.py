"""Drafts of schemas: from names and types of columns alone, with placeholders for everything the world must tell.

Bounds and categories are never read off the data: the largest value of a private column is somebody's value.
"""

import json
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from dpadmm.datasets import schema_json
from dpadmm.datasets.schema import Schema
from dpadmm.datasets.tables import NO_HEADER
from dpadmm.errors import InputError

MARK = "FILL IN"
CONSTANT = 0.5
"""Intercept feature of a draft; the other features keep sqrt(1 - CONSTANT^2) of the row's norm."""


class ColumnType(Enum):
    """What the type of a stored column says about it."""

    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    OTHER = "other"


class Task(Enum):
    """What is to be predicted."""

    CLASSES = "classes"
    NUMBER = "number"


_ASKED = {
    "lower": "the lowest value it can take, as a number, known without looking at the data (such as 0)",
    "upper": "the highest value it can take, as a number, known without looking at the data (such as 120)",
    "typical": "a usual value, as a number, known without looking at the data (such as 45), or null if there is none",
    "categories": 'every value it can take, known without looking at the data (such as ["F", "M"])',
    "positive": 'the value(s) to be predicted as yes (such as ["sick"])',
    "negative": 'the value(s) to be predicted as no (such as ["healthy"])',
}


def draft_schema(types: Mapping[str, ColumnType], target: str, task: Task = Task.CLASSES) -> str:
    """Return a schema with placeholders, as JSON text; columns of other types are left out.

    >>> print(draft_schema({"age": ColumnType.NUMBER, "y": ColumnType.TEXT}, "y"))  # doctest: +ELLIPSIS
    {
      "format": "dpadmm-schema",
      ...
          "name": "age",
          "lower": "FILL IN: the lowest value it can take, ...
    """
    if target not in types:
        raise InputError(f"There is no column {target!r} to predict among the {len(types)} columns. {NO_HEADER}")
    columns = [_draft(name, kind) for name, kind in types.items() if name != target and kind is not ColumnType.OTHER]
    if not columns:
        raise InputError(f"There is no column to learn from beside the target {target!r}. Leave fewer columns out.")
    record = {
        "format": schema_json.FORMAT,
        "version": schema_json.VERSION,
        "row_norm": 1.0,
        "constant": CONSTANT,
        "label": _draft_label(target, types[target], task),
        "columns": columns,
    }
    return json.dumps(record, indent=2, ensure_ascii=False)


def _asked(key: str) -> str:
    return f"{MARK}: {_ASKED[key]}"


def _draft(name: str, kind: ColumnType) -> dict[str, Any]:
    if kind is ColumnType.NUMBER:
        asked = {key: _asked(key) for key in ("lower", "upper", "typical")}
        return {"kind": "numeric", "name": name} | asked
    # A yes/no column has two values by its type; this is not read off the data.
    return {
        "kind": "categorical",
        "name": name,
        "categories": [0, 1] if kind is ColumnType.BOOLEAN else [_asked("categories")],
    }


def _draft_label(name: str, kind: ColumnType, task: Task) -> dict[str, Any]:
    if task is Task.NUMBER:
        if kind is not ColumnType.NUMBER:
            raise InputError(f"The target {name!r} does not hold numbers, so it cannot be predicted as one.")
        return {"kind": "real", "name": name, "lower": _asked("lower"), "upper": _asked("upper")}
    if kind is ColumnType.BOOLEAN:
        return {"kind": "binary", "name": name, "positive": [1], "negative": [0]}
    return {"kind": "binary", "name": name, "positive": [_asked("positive")], "negative": [_asked("negative")]}


def unfilled(text: str) -> tuple[str, ...]:
    """Return what is still to be filled in, one sentence each; empty for text that is no draft."""
    try:
        record = json.loads(text)
    except json.JSONDecodeError:
        return ()
    if not isinstance(record, dict):
        return ()
    columns = record.get("columns")
    parts = [("column", part) for part in columns] if isinstance(columns, list) else []
    return tuple(
        f"{what} {part.get('name')!r}: write in {key!r} {_ASKED.get(key, 'the value')}"
        for what, part in [("label", record.get("label")), *parts]
        if isinstance(part, dict)
        for key, value in part.items()
        if any(isinstance(v, str) and v.startswith(MARK) for v in (value if isinstance(value, list) else [value]))
    )


def load_schema(path: str | Path) -> Schema:
    """Read a schema; a draft with placeholders is refused with what to write where."""
    place = Path(path)
    try:
        text = place.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"Cannot read the schema file {str(path)!r}: {problem}.") from problem
    left = unfilled(text)
    if left:
        head = f"{place} still has {len(left)} placeholder(s). Replace each by public knowledge, or delete the column:"
        raise InputError("\n".join([head, *(f"{sentence}." for sentence in left)]))
    return Schema.from_json(text, origin=str(place))
