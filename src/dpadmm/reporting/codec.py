"""Facts as plain JSON values and back, by their declared types: anything else is refused, and nothing is executed."""

import dataclasses
import json
import math
import types
from enum import Enum
from functools import singledispatch
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from dpadmm.datasets.schema import Schema
from dpadmm.errors import InputError

INFINITE = "infinite"


@singledispatch
def encode(value: Any) -> Any:
    """Return a fact as JSON values; an infinite number in words, since JSON has none."""
    if dataclasses.is_dataclass(value):
        return {each.name: encode(getattr(value, each.name)) for each in dataclasses.fields(value)}
    return value


@encode.register
def _(value: Schema) -> Any:
    return json.loads(value.to_json())


@encode.register
def _(value: Enum) -> Any:
    return value.value


@encode.register
def _(value: tuple) -> Any:  # type: ignore[type-arg]
    return [encode(each) for each in value]


@encode.register
def _(value: float) -> Any:
    return INFINITE if math.isinf(value) else value


def decode(kind: Any, value: Any, where: str) -> Any:
    """Return `value` as the declared type `kind`; `InputError` naming the place if it is something else."""
    if kind is Schema:
        return Schema.from_json(json.dumps(value), origin=where)
    if dataclasses.is_dataclass(kind):
        return _record(cast(type, kind), value, where)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _member(kind, value, where)
    if get_origin(kind) is tuple:
        return _sequence(get_args(kind), value, where)
    if get_origin(kind) in (types.UnionType, Union):
        options = get_args(kind)
        return None if value is None and type(None) in options else decode(options[0], value, where)
    return _plain(kind, value, where)


def _record(kind: type, value: Any, where: str) -> Any:
    fields = {each.name: each for each in dataclasses.fields(kind)}
    required = {
        name
        for name, each in fields.items()
        if each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
    }
    if not isinstance(value, dict) or set(value) - set(fields) or required - set(value):
        raise InputError(f"{where} does not have the fields of a {kind.__name__}. The file is damaged or foreign.")
    hints = get_type_hints(kind)
    return kind(**{name: decode(hints[name], part, f"{where}.{name}") for name, part in value.items()})


def _member(kind: type[Enum], value: Any, where: str) -> Enum:
    try:
        return kind(value)
    except ValueError as error:
        allowed = ", ".join(repr(each.value) for each in kind)
        raise InputError(f"{where} must be one of {allowed}. The file is damaged or foreign.") from error


def _sequence(kinds: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise InputError(f"{where} must be a list. The file is damaged or foreign.")
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = kinds[:1] * len(value)
    if len(kinds) != len(value):
        raise InputError(f"{where} must have {len(kinds)} entries. The file is damaged or foreign.")
    return tuple(decode(kind, part, f"{where}[{i}]") for i, (kind, part) in enumerate(zip(kinds, value, strict=True)))


def _plain(kind: Any, value: Any, where: str) -> Any:
    if kind is float and value == INFINITE:
        return math.inf
    allowed = (int, float) if kind is float else (kind,)
    if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
        raise InputError(f"{where} must be {kind.__name__}. The file is damaged or foreign.")
    if kind is float and not math.isfinite(value):
        raise InputError(f"{where} must be a finite number. The file is damaged or foreign.")
    return kind(value)
