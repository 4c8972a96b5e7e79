"""Checks of plain numbers at the door; each raises `InputError` and returns the value it checked."""

import math
from numbers import Real

from dpadmm.errors import InputError


def finite(name: str, value: object) -> float:
    """Return `value` as a float if it is a finite real number (booleans are not numbers here)."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"{name} must be a finite number, got {value!r}.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InputError(f"{name} must be a finite number, got {value!r:.40}.")
    return number


def positive(name: str, value: float) -> float:
    """Return `value` as a float if it is finite and > 0."""
    if finite(name, value) <= 0:
        raise InputError(f"{name} must be greater than 0, got {value!r}.")
    return float(value)


def non_negative(name: str, value: float) -> float:
    """Return `value` as a float if it is finite and >= 0."""
    if finite(name, value) < 0:
        raise InputError(f"{name} must be 0 or greater, got {value!r}.")
    return float(value)


def open_unit(name: str, value: float) -> float:
    """Return `value` as a float if it lies strictly between 0 and 1 (a delta, a sampling rate)."""
    if not 0 < finite(name, value) < 1:
        raise InputError(f"{name} must lie strictly between 0 and 1, got {value!r}.")
    return float(value)


def half_open_unit(name: str, value: float) -> float:
    """Return `value` as a float if it lies in (0, 1]."""
    if not 0 < finite(name, value) <= 1:
        raise InputError(f"{name} must be greater than 0 and at most 1, got {value!r}.")
    return float(value)


def count(name: str, value: int, *, least: int = 1) -> int:
    """Return `value` as an int if it is a whole number of at least `least`."""
    if finite(name, value) != int(value) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    return int(value)
