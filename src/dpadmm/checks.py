"""Checks of plain numbers and names that a user gives; each raises `InputError` or returns the value it checked."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from difflib import get_close_matches
from enum import Enum
from numbers import Real
from typing import Any, NoReturn, TypeVar, cast

from dpadmm.errors import InputError

_LONGEST = 40

Choice = TypeVar("Choice", bound=Enum)


def safe_repr(value: object) -> str:
    """Return what a message may say about a value that came: a plain setting itself, of all else the kind and size.

    A table given in the wrong place is somebody's records, and messages end up in logs.

    >>> safe_repr(0.5), safe_repr("auto"), safe_repr([17, 18, 19]), safe_repr("x" * 99)
    ('0.5', "'auto'", 'list of length 3', 'str of length 99')
    """
    kind = type(value).__name__
    if isinstance(value, Enum):
        return f"{kind}.{value.name}"
    is_short_text = isinstance(value, str) and len(value) <= _LONGEST and value.isprintable()
    if value is None or is_short_text:
        return repr(value)
    if isinstance(value, Real):  # booleans too
        try:
            return f"{value!r:.{_LONGEST}}"
        except ValueError:  # Python refuses to print whole numbers of thousands of digits
            return f"{kind} of thousands of digits"
    try:
        shape = getattr(value, "shape", None)
        if isinstance(shape, tuple):
            return f"{kind} of shape ({', '.join(str(int(side)) for side in shape)})"
        return f"{kind} of length {len(value)}"  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001 - an object may answer anything, and has no size to tell then
        return f"an object of type {kind}"


def as_parameter(name: str, *value: object) -> str:
    """Return how Python calls a setting, with a value if there is one."""
    return f"{name}={value[0]!r}" if value else name


_CALLED: ContextVar[Callable[..., str]] = ContextVar("called", default=as_parameter)


def option_name(name: str, *value: object) -> str:
    """Return what a setting is called where the user stands: a parameter in Python, an option on the command line.

    >>> option_name("missing"), option_name("missing", "fill")
    ('missing', "missing='fill'")
    """
    return _CALLED.get()(name, *value)


@contextmanager
def use_option_names(names: Callable[..., str]) -> Iterator[None]:
    """Let messages call settings by other names, as the command line does: `names` takes a name and maybe a value."""
    before = _CALLED.set(names)
    try:
        yield
    finally:
        _CALLED.reset(before)


def nearest(term: object, known: Iterable[str]) -> str:
    """Return the question whether a similar name was meant, to be put after an error; nothing where none is similar.

    >>> nearest("p_admm", ["p-admm", "r-admm"]), nearest("lasso", ["ring", "star"])
    (" Did you mean 'p-admm'?", '')
    """
    found = get_close_matches(term, list(known), n=1) if isinstance(term, str) else []
    return f" Did you mean {found[0]!r}?" if found else ""


def refuse(name: str, rule: str, value: object, more: str = "") -> NoReturn:
    """Raise that a value is not what a setting must be. more: what to add to the sentence."""
    raise InputError(f"{option_name(name)} must {rule}, got {safe_repr(value)}.{more}", setting=name, code="value")


def finite(name: str, value: object) -> float:
    """Return `value` as a float if it is a finite real number (booleans are not numbers here)."""
    if type(value) is float and math.isfinite(value):
        return value  # most are; the question whether something is a `Real` takes ten times as long
    number = math.inf
    if not isinstance(value, bool) and isinstance(value, Real):
        with suppress(OverflowError):
            number = float(value)
    if not math.isfinite(number):
        refuse(name, "be a finite number", value)
    return number


def positive(name: str, value: float) -> float:
    """Return `value` as a float if it is finite and > 0."""
    number = finite(name, value)
    return number if number > 0 else refuse(name, "be greater than 0", value)


def non_negative(name: str, value: float) -> float:
    """Return `value` as a float if it is finite and >= 0."""
    number = finite(name, value)
    return number if number >= 0 else refuse(name, "be 0 or greater", value)


def open_unit(name: str, value: float) -> float:
    """Return `value` as a float if it lies strictly between 0 and 1 (a delta, a sampling rate)."""
    number = finite(name, value)
    return number if 0 < number < 1 else refuse(name, "lie strictly between 0 and 1", value)


def half_open_unit(name: str, value: float) -> float:
    """Return `value` as a float if it lies in (0, 1]."""
    number = finite(name, value)
    return number if 0 < number <= 1 else refuse(name, "be greater than 0 and at most 1", value)


def count(name: str, value: int, *, least: int = 1) -> int:
    """Return `value` as an int if it is a whole number of at least `least`."""
    if finite(name, value) != int(value) or value < least:
        refuse(name, f"be a whole number of at least {least}", value)
    return int(value)


def boolean(name: str, value: Any) -> bool:
    """Return `value` as a bool if it is True or False, also numpy's."""
    return bool(value) if type(value).__name__ in ("bool", "bool_") else refuse(name, "be True or False", value)


def one_of(name: str, value: object, known: Sequence[str]) -> None:
    """Refuse a value that is none of the known ones."""
    if not isinstance(value, str) or value not in known:
        refuse(name, f"be one of {', '.join(map(repr, known))}", value, nearest(value, known))


def member(name: str, value: Any, kind: type[Choice]) -> Choice:
    """Return the enum member that a text (or the member itself) names."""
    if not isinstance(value, kind):
        if isinstance(value, str):
            with suppress(ValueError):
                return kind(value)
        one_of(name, value, [each.value for each in kind])
    return cast(Choice, value)


def plural(number: int, noun: str) -> str:
    """Return the number with its noun.

    >>> plural(1, "silo"), plural(3, "silo"), plural(2, "category"), plural(4, "day")
    ('1 silo', '3 silos', '2 categories', '4 days')
    """
    if number == 1:
        return f"1 {noun}"
    is_ies = noun.endswith("y") and noun[-2] not in "aeiou"
    return f"{number} {noun[:-1]}ies" if is_ies else f"{number} {noun}s"
