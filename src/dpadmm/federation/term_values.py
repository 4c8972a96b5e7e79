"""Which values terms may have, each on its own: checked before anything is computed from them, whoever sent them."""

import re
from collections.abc import Mapping
from typing import Any

from dpadmm import checks
from dpadmm.errors import InputError

MOST_PARTICIPANTS = 10_000
"""Silos of one federation."""

LONGEST_RUN = 200
"""Bytes of a run's name at most."""

_TINY, _HUGE = 1e-15, 1e15  # between these, what is computed from numbers is finite
_LEAST_EPSILON, _MOST_EPSILON, _LEAST_DELTA = 1e-6, 1e6, 1e-300
_MOST = {
    "rounds": 10**6,  # what they cost to plan is for `terms.agreed_run` to refuse
    "dimension": 2**22,  # a vector of as many numbers fits into a message
    "seed": 2**63,
    "records": 10**12,
    "records_per_person": 10**6,
    "silos_per_person": MOST_PARTICIPANTS,
    "colluders": MOST_PARTICIPANTS,
    "n_numeric": 10**6,
    "n_categorical": 10**6,
    "n_counts": 2**22,
    "classes": 10**4,
}


def settings(given: Any) -> tuple[tuple[str, float], ...]:
    """Return a method's numbers, sorted by name; a name that is given twice is refused."""
    pairs = list(given.items()) if isinstance(given, Mapping) else listed("settings", given)
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise InputError(f"settings must be pairs of a name and a number, got {checks.shown(pair)}.")
        text("the name of a setting", pair[0])
    if len({name for name, _ in pairs}) < len(pairs):
        raise InputError("settings must have different names; some are given twice.")
    return tuple(sorted((name, number(name, value)) for name, value in pairs))


def listed(name: str, value: object) -> tuple[Any, ...]:
    """Return the parts of a list."""
    if not isinstance(value, list | tuple):
        raise InputError(f"{name} must be a list, got {checks.shown(value)}.")
    return tuple(value)


def number(name: str, value: object) -> float:
    """Return a finite number: 0, or neither tiny nor huge."""
    found = checks.finite(name, value) + 0.0
    if name == "epsilon":
        is_usable, allowed = _LEAST_EPSILON <= found <= _MOST_EPSILON, f"from {_LEAST_EPSILON:g} to {_MOST_EPSILON:g}"
    elif name == "delta":
        is_usable, allowed = found == 0 or _LEAST_DELTA <= found < 1, f"0, or from {_LEAST_DELTA:g} to below 1"
    else:
        is_usable, allowed = found == 0 or _TINY <= abs(found) <= _HUGE, f"0, or from {_TINY:g} to {_HUGE:g} in size"
    if not is_usable:
        raise InputError(f"{name} must be {allowed}, got {checks.shown(value)}.")
    return found


def whole(name: str, value: Any, *, least: int = 0) -> int:
    """Return the whole number of a term, no larger than any run needs."""
    return _at_most(_MOST[name], name, value, least)


def edge(pair: object, silos: int) -> tuple[int, int]:
    """Return two numbers of silos, of so many."""
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        raise InputError(f"edges must be pairs of silos' numbers, got {checks.shown(pair)}.")
    first, second = (_at_most(silos - 1, "the number of a silo in edges", end, 0) for end in pair)
    return first, second


def _at_most(most: int, name: str, value: Any, least: int) -> int:
    if checks.count(name, value, least=least) > most:
        raise InputError(f"{name} must be at most {most}, got {checks.shown(value)}.")
    return int(value)


def text(name: str, value: object) -> None:
    """Refuse what is no short printable text."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > 200:
        raise InputError(f"{name} must be printable text of at most 200 characters, got {checks.shown(value)}.")


def key(name: str, value: object) -> None:
    """Refuse what is no public key."""
    if not is_digest(value):
        raise InputError(f"{name} must be an Ed25519 public key, 64 hex digits; got {checks.shown(value)}.")


def is_digest(value: object) -> bool:
    """Whether it is 32 bytes in lower-case hex."""
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None
