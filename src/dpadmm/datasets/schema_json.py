"""The JSON form of a schema, versioned, with every fault of a file told in words."""

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dpadmm.checks import shown
from dpadmm.datasets.columns import Categorical, Column, Numeric
from dpadmm.datasets.labels import BinaryLabel, Label, RealLabel, ThresholdLabel
from dpadmm.errors import InputError

FORMAT = "dpadmm-schema"
VERSION = 1

T = TypeVar("T")

COLUMNS: dict[str, Callable[..., Column]] = {Numeric.kind: Numeric, Categorical.kind: Categorical}
LABELS: dict[str, Callable[..., Label]] = {
    BinaryLabel.kind: BinaryLabel,
    ThresholdLabel.kind: ThresholdLabel,
    RealLabel.kind: RealLabel,
}


def dumps(columns: Sequence[Column], label: Label, row_norm: float, constant: float | None) -> str:
    """Return the parts of a schema as JSON text."""
    record = {
        "format": FORMAT,
        "version": VERSION,
        "row_norm": row_norm,
        "constant": constant,
        "label": label.to_record(),
        "columns": [column.to_record() for column in columns],
    }
    return json.dumps(record, indent=2, ensure_ascii=False)


def loads(text: str, origin: str) -> tuple[tuple[Column, ...], Label, float, float | None]:
    """Return columns, label, row norm and constant from JSON text; `origin` names it in messages."""
    try:
        record = json.loads(text)
    except json.JSONDecodeError as problem:
        raise InputError(f"{origin} is not valid JSON ({problem}). Write it again with Schema.save.") from problem
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise InputError(f"{origin} is not a schema: it must be a JSON object with format {FORMAT!r}.")
    if record.get("version") != VERSION:
        raise InputError(
            f"{origin} has schema version {shown(record.get('version'))}; this package reads version {VERSION}."
        )
    lacking = [key for key in ("row_norm", "label", "columns") if key not in record]
    if lacking:
        raise InputError(f"{origin} lacks the key(s) {', '.join(map(repr, lacking))}.")
    strange = sorted(set(record) - {"format", "version", "row_norm", "constant", "label", "columns"})
    if strange:
        raise InputError(f"{origin} has unknown key(s) {', '.join(map(repr, strange))}; remove them.")
    if not isinstance(record["columns"], list):
        raise InputError(f"{origin}: 'columns' must be a list, got {type(record['columns']).__name__}.")
    columns = [_build(f"{origin}, column {position}", part, COLUMNS) for position, part in enumerate(record["columns"])]
    label = _build(f"{origin}, label", record["label"], LABELS)
    return tuple(columns), label, record["row_norm"], record.get("constant")


def _build(where: str, record: Any, kinds: dict[str, Callable[..., T]]) -> T:
    kind = record.get("kind") if isinstance(record, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise InputError(f"{where}: 'kind' must be one of {', '.join(map(repr, kinds))}, got {shown(kind)}.")
    fields = {key: value for key, value in record.items() if key != "kind"}
    try:
        return kinds[kind](**fields)
    except TypeError as problem:
        raise InputError(f"{where}: wrong fields for kind {kind!r} ({problem}).") from problem
    except InputError as problem:
        raise InputError(f"{where}: {problem}") from problem
