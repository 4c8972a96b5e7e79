"""The one codec: frozen dataclasses as plain JSON values and back, for ledgers, models, terms and messages.

A record is an object of its fields. One of several kinds (a union, or a base class with `register_union`) also has its
class name under `"kind"`. Tuples are lists, enums are their values, bytes are base64, infinite numbers are strings, and
-0.0 is 0.0. Reading is strict: no unknown field, none missing that has no default, no number for a text, no NaN.
Whatever does not fit is an `InputError` that names the place; it quotes no value, only unknown names, kinds and keys.

Equal records have equal canonical texts, hence equal digests. Both are made by the standard library alone, so that no
other library's number format can change a digest.
"""

import base64
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, partial
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from dpadmm.checks import safe_repr
from dpadmm.errors import InputError, raise_alone

if TYPE_CHECKING:
    from cattrs import Converter

_T = TypeVar("_T")
_Form = tuple[Callable[[Any], Any], Callable[[Any], Any]]  # how to write, how to read
_KIND, _INFINITE = "kind", {"infinite": math.inf, "-infinite": -math.inf}
_UNIONS: dict[Any, tuple[type, ...]] = {}
_FORMS: dict[Any, _Form] = {}
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


class _Misfit(ValueError):
    """What is wrong, as a predicate such as "must be a text", and where, such as ".silos[2].name"."""

    def __init__(self, what: str, place: str = "") -> None:
        super().__init__(what)
        self.what, self.place = what, place


def encode(value: Any, declared: Any = None) -> Any:
    """Return a record as plain JSON values; `declared`: its union or base class, where its kind must be written.

    >>> from dpadmm.privacy.accounting import PureTarget, Target
    >>> encode(PureTarget(2), Target | PureTarget)
    {'kind': 'PureTarget', 'epsilon': 2.0}
    """
    try:
        return _converter().unstructure(value, type(value) if declared is None else declared)
    except _Misfit as misfit:
        raise_alone(InputError(f"{type(value).__name__}{misfit.place} {misfit.what}, so it cannot be written."))


def decode(declared: type[_T] | Any, value: Any, where: str | None = None) -> _T:
    """Return the record of the declared type that `encode` wrote; otherwise `InputError`, which begins with `where`.

    >>> from dpadmm.privacy.accounting import Target
    >>> decode(Target, {"epsilon": 1.0})
    Traceback (most recent call last):
    dpadmm.errors.InputError: Target.delta is missing.
    """
    from cattrs import BaseValidationError, transform_error

    place = where or str(getattr(declared, "__name__", "It"))
    try:
        return cast(_T, _converter().structure(value, declared))
    except (_Misfit, BaseValidationError) as error:
        found = transform_error(error, place, lambda cause, _: _problem(cause))[0]
        problem, _, inside = found.rpartition(f" @ {place}")
        raise_alone(InputError(f"{place}{inside}{problem}"))


def canonical(plain: Any) -> str:
    """Return the one JSON text of plain values: sorted keys, no blanks, ASCII, no number that is not finite.

    >>> canonical({"b": 1.0, "a": "x"})
    '{"a":"x","b":1.0}'
    """
    return _ENCODER.encode(plain)


def digest(plain: Any) -> str:
    """Return the SHA-256 of the canonical text of plain values."""
    return hashlib.sha256(canonical(plain).encode()).hexdigest()


def register_union(base: Any, kinds: tuple[type, ...]) -> None:
    """Write and read what is declared as `base` as one of these records, by its kind."""
    _UNIONS[base] = kinds


def register_form(kind: type, write: Callable[[Any], Any], read: Callable[[Any], Any]) -> None:
    """Write and read a class in its own plain JSON form; `read` raises `InputError` for anything else."""
    _FORMS[kind] = write, read


@cache
def _converter() -> "Converter":
    """Return the converter; made on first use, since most of the package does without."""
    from cattrs import Converter
    from cattrs.gen import make_dict_structure_fn

    conv = Converter(forbid_extra_keys=True)

    def record(kind: Any) -> _Form:
        if not kind.__dataclass_params__.frozen:
            raise TypeError(f"{kind.__name__} is not frozen, so it is no record.")
        read = make_dict_structure_fn(kind, conv, _cattrs_forbid_extra_keys=True)
        hints, names = get_type_hints(kind), [each.name for each in fields(kind) if each.init]

        def write(value: Any) -> dict[str, Any]:
            return {name: _at(f".{name}", conv.unstructure, getattr(value, name), hints[name]) for name in names}

        return write, lambda value: read(_typed(value, dict, "an object"), kind)

    def sequence(kind: Any) -> _Form:
        kinds = get_args(kind)

        def write(values: Any) -> list[Any]:
            declared = kinds[:1] * len(_typed(values, tuple, "a tuple")) if kinds[-1] is Ellipsis else kinds
            pairs = enumerate(zip(values, declared, strict=True))
            return [_at(f"[{i}]", conv.unstructure, value, each) for i, (value, each) in pairs]

        def read(value: Any) -> Any:
            number = len(_typed(value, list, "a list"))
            declared = kinds[:1] * number if kinds[-1] is Ellipsis else kinds
            if number != len(declared):
                raise _Misfit(f"must have {len(kinds)} entries, got {number}")
            return tuple(_read_each(zip(range(number), value, declared, strict=True), conv))

        return write, read

    def collection(kind: Any) -> _Form:
        def read(value: Any) -> Any:
            (inner,) = get_args(kind)
            entries = enumerate(_typed(value, list, "a list"))
            found = frozenset(_read_each(((i, each, inner) for i, each in entries), conv))
            if len(found) < len(value):
                raise _Misfit("must not have anything twice")
            return found

        def write(values: Any) -> list[Any]:
            return sorted(conv.unstructure(value, *get_args(kind)) for value in _typed(values, frozenset, "a set"))

        return write, read

    def mapping(kind: Any) -> _Form:
        key, inner = get_args(kind)

        def write(values: Any) -> dict[str, Any]:
            pairs = _typed(values, Mapping, "a mapping").items()
            return {conv.unstructure(k, key): _at(f"[{k!r}]", conv.unstructure, v, inner) for k, v in pairs}

        def read(value: Any) -> dict[Any, Any]:
            entries = list(_typed(value, dict, "an object").items())
            names = _read_each(((k, k, key) for k, _ in entries), conv)
            return dict(zip(names, _read_each(((k, v, inner) for k, v in entries), conv), strict=True))

        return write, read

    def union(kind: Any) -> _Form:
        return _union(kind, conv)

    for is_of, form in (
        (lambda kind: is_dataclass(kind) and isinstance(kind, type), record),
        (lambda kind: _origin(kind) is tuple, sequence),
        (lambda kind: _origin(kind) is frozenset, collection),
        (lambda kind: _origin(kind) in (dict, Mapping), mapping),
        (lambda kind: _origin(kind) is Literal, _literal),
        (lambda kind: kind in _FORMS, _FORMS.__getitem__),
        (lambda kind: _origin(kind) in (Union, UnionType) or kind in _UNIONS, union),
    ):
        conv.register_unstructure_hook_factory(is_of, lambda kind, form=form: form(kind)[0])
        conv.register_structure_hook_factory(is_of, lambda kind, form=form: _reader(form(kind)[1]))
    conv.register_unstructure_hook(Enum, lambda member: member.value)
    conv.register_structure_hook(Enum, lambda value, kind: kind(_one_of(value, [each.value for each in kind])))
    for kind, (write, read) in _PLAIN.items():
        conv.register_unstructure_hook(kind, write)
        conv.register_structure_hook(kind, _reader(read))
    return conv


def _origin(kind: Any) -> Any:
    return get_origin(kind)


def _reader(read: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda value, _: read(value)


def _union(kind: Any, conv: "Converter") -> _Form:
    """Return the form of a union: records by their kind if there may be several, anything else by what it is."""
    members = (kind,) if kind in _UNIONS else get_args(kind)
    kinds = [each for member in members for each in _UNIONS.get(member, (member,))]
    records = {each.__name__: each for each in kinds if is_dataclass(each) or each in _FORMS}
    others = sorted((each for each in kinds if each not in records.values()), key=lambda each: each is float)
    is_tagged = len(records) > 1 or any(member in _UNIONS for member in members)

    def one_of(convert: Callable[[Any, Any], Any], value: Any) -> Any:
        from cattrs import BaseValidationError

        for other in others:
            with suppress(_Misfit, BaseValidationError):
                return convert(value, other)
        names = [*records, *(getattr(other, "__name__", str(other)) for other in others)]
        raise _Misfit(f"must be {' or '.join(names)}, got {type(value).__name__}")

    def write(value: Any) -> Any:
        name = type(value).__name__
        if str in others and value in _INFINITE.values():
            raise _Misfit("must be a text or a finite number")  # its name would be read as a text
        if records.get(name) is not type(value):
            return one_of(conv.unstructure, value)
        return ({_KIND: name} if is_tagged else {}) | conv.unstructure(value, type(value))

    def read(value: Any) -> Any:
        if not records or not isinstance(value, dict):
            return one_of(conv.structure, value)
        if not is_tagged:
            return conv.structure(value, *records.values())
        name = value.get(_KIND)
        if not isinstance(name, str) or name not in records:
            raise _Misfit(f"must have one of the kinds {', '.join(records)}, got {safe_repr(name)}")
        return conv.structure({key: each for key, each in value.items() if key != _KIND}, records[name])

    return write, read


def _at(place: str, write: Callable[[Any, Any], Any], value: Any, kind: Any) -> Any:
    try:
        return write(value, kind)
    except _Misfit as misfit:
        raise _Misfit(misfit.what, place + misfit.place) from None


def _read_each(entries: Iterable[tuple[int | str, Any, Any]], conv: "Converter") -> list[Any]:
    """Read entries, each with its place and kind, up to the first wrong one: a list of all would take much memory."""
    from cattrs.errors import BaseValidationError, IterableValidationError, IterableValidationNote

    found: list[Any] = []
    place: int | str = 0
    try:
        for where, value, kind in entries:
            place = where
            found.append(conv.structure(value, kind))
    except (BaseValidationError, ValueError, KeyError) as error:
        error.add_note(IterableValidationNote("", place, None))
        raise IterableValidationError("", [error], object) from None
    return found


def _typed(value: Any, kind: type, what: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _Misfit(f"must be {what}, got {type(value).__name__}")
    return value


def _one_of(value: Any, allowed: Sequence[Any]) -> Any:
    if not any(type(value) is type(term) and value == term for term in allowed):
        raise _Misfit(f"must be one of {', '.join(map(repr, allowed))}")
    return value


def _literal(kind: Any) -> _Form:
    check = partial(_one_of, allowed=get_args(kind))
    return check, check


def _int(value: Any) -> int:
    return int(_typed(value, Integral, "a whole number"))


def _write_float(value: Any) -> float | str:
    number = float(_typed(value, Real, "a number")) + 0.0  # -0.0 + 0.0 is 0.0
    if math.isnan(number):
        raise _Misfit("must be a number, got NaN")
    return number if math.isfinite(number) else "infinite" if number > 0 else "-infinite"


def _read_float(value: Any) -> float:
    if isinstance(value, str) and value in _INFINITE:
        return _INFINITE[value]
    number = _write_float(value)
    if isinstance(number, str):
        raise _Misfit("must be a finite number")
    return number


def _read_bytes(value: Any) -> bytes:
    text = _typed(value, str, "a text")
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise _Misfit("must be base64") from None


def _plain(kind: type, what: str) -> _Form:
    def check(value: Any) -> Any:
        return _typed(value, kind, what)

    return check, check


_PLAIN: dict[Any, _Form] = {
    float: (_write_float, _read_float),
    int: (_int, _int),
    str: _plain(str, "a text"),
    bool: _plain(bool, "true or false"),
    NoneType: _plain(NoneType, "null"),
    bytes: (lambda value: base64.b64encode(_typed(value, bytes, "bytes")).decode(), _read_bytes),
}


def _problem(cause: BaseException) -> str:
    """Say what is wrong at a place, without a value of it."""
    from cattrs import ForbiddenExtraKeysError

    if isinstance(cause, _Misfit):
        return f" {cause.what}."
    if isinstance(cause, InputError):
        return f": {cause}"
    if isinstance(cause, KeyError):
        return " is missing."
    if isinstance(cause, ForbiddenExtraKeysError):
        return f" has unknown fields: {', '.join(map(safe_repr, sorted(cause.extra_fields)))}."
    return f" cannot be read ({type(cause).__name__})."
