"""What code names are called where people read: methods, settings, schedules and labels in words."""

import dataclasses
from typing import Any

from dpadmm.datasets.columns import BinaryLabel, Label, ThresholdLabel
from dpadmm.noise.promises import CaoOptimal, Constant, Geometric, Schedule, Tail

_SHORT = {"admm", "ps", "dp", "gd", "sgd", "dgd", "cd", "dvp", "fp"}
_NUMBERS = {
    "eta": "penalty between neighbours (eta)",
    "rho": "penalty to the common model (rho)",
    "gamma": "proximal step (gamma)",
    "lam": "relaxation (lambda)",
    "step": "step length",
    "momentum": "momentum",
    "smoothing": "smoothing",
    "clip": "clipping",
    "unit": "protected unit",
    "power": "decay of the step (power)",
}


def method_words(name: str) -> str:
    """Return a method's name as papers write it.

    >>> method_words("p-admm"), method_words("noisy-gradients"), method_words("dp-sgd")
    ('P-ADMM', 'noisy gradients', 'DP-SGD')
    """
    parts = name.split("-")
    if not any(part in _SHORT for part in parts):
        return " ".join(parts)
    return "-".join(part.upper() if part in _SHORT or len(part) == 1 else part for part in parts)


def numbers_of(algorithm: Any) -> tuple[tuple[str, str], ...]:
    """Return the numbers of a method with what they are; what it leaves open, or was not set, is not listed."""
    found = ((each.name, getattr(algorithm, each.name)) for each in dataclasses.fields(algorithm))
    return tuple((_NUMBERS[name], f"{value:.4g}") for name, value in found if name in _NUMBERS and _is_number(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def schedule_words(schedule: Schedule | None) -> str:
    """Return how the noise runs over the rounds.

    >>> schedule_words(Tail())
    'even in the first half of the rounds, then growing slowly: late rounds count less'
    """
    match schedule:
        case None:
            return "as the method sets it"
        case Constant():
            return "the same in every round"
        case Tail():
            return "even in the first half of the rounds, then growing slowly: late rounds count less"
        case Geometric() | CaoOptimal():
            return "falling from round to round"
    return "as given, round by round"


def label_words(label: Label) -> str:
    """Return what is predicted.

    >>> label_words(BinaryLabel("sick", positive=("yes",), negative=("no", "never")))
    'sick: yes, or no / never'
    """
    match label:
        case BinaryLabel():
            sides = (" / ".join(map(str, values)) for values in (label.positive, label.negative))
            return f"{label.name}: {', or '.join(sides)}"
        case ThresholdLabel():
            return f"{label.name}: whether it is above {label.threshold:g}"
    return label.describe()
