"""Attempts to refute what a user's own object declares, at public points alone; no record is read.

A loss is a function of one number, a regulariser one of a vector whose dimension is public, so both can be evaluated
anywhere without data (`dpadmm.problems.loss_refutation`, `dpadmm.problems.regulariser_refutation`). Points are drawn
with a fixed seed, so the answer is always the same. What is refuted is false; what is not refuted is **not** proved: a
defect narrower than the grid can hide.
"""

import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats

SLACK = 1e-9
"""What is off by less, in relative terms, may be rounding."""


class Probe:
    """An object under test: it is called with arguments that it cannot change, twice, and must answer alike."""

    def __init__(self, kind: str, tested: Any) -> None:
        """Take what is tested, and what it is called."""
        self.kind, self.tested, self.name = kind, tested, f"The {kind} {type(tested).__name__}"

    def error(self, found: str, remedy: str) -> InputError:
        """Return the refusal: what was found, and what to do."""
        return InputError(f"{self.name} {found} {remedy} Nothing was spent.")

    def fail(self, found: str, remedy: str) -> NoReturn:
        """Refuse."""
        raise self.error(found, remedy)

    def number(self, name: str, given: Any = None, *, may_be_infinite: bool = False) -> float:
        """Return a declared constant; refuse what is no number from 0 on."""
        value: Any = getattr(self.tested, name, None) if given is None else given
        is_number = isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)
        if not is_number or not value >= 0 or (math.isinf(value) and not may_be_infinite):
            self.fail(f"declares {name} {value!r}.", "It must be a number, 0 or greater.")
        return float(value)

    def ask(self, method: str, *points: Floats) -> Floats:
        """Return the answer of a method at these points; refuse one that is impure or has the wrong shape."""
        call, frozen = self.method(method), [point.copy() for point in points]
        for each in frozen:
            each.flags.writeable = False
        first, second = (self._called(call, method, frozen) for _ in range(2))
        if any(not np.array_equal(one, other) for one, other in zip(frozen, points, strict=True)):
            self.fail(f"changes the numbers that its {method} is called with.", "Compute the answer in a new array.")
        if not np.array_equal(first, second, equal_nan=True):
            self.fail(f"answers differently when its {method} is called twice.", "It must depend on nothing else.")
        return first

    def method(self, name: str) -> Callable[..., Any]:
        """Return a method, refuse if there is none."""
        found = getattr(self.tested, name, None)
        if not callable(found):
            self.fail(f"has no method {name}.", f"See the protocol {self.kind.capitalize()} in dpadmm.problems.")
        return found

    def _called(self, call: Callable[..., Any], method: str, points: list[Floats]) -> Floats:
        try:
            with np.errstate(all="ignore"):
                return np.array(call(*points), dtype=np.float64)
        except Exception as problem:
            found = f"fails at public points: its {method} raises {type(problem).__name__} ({problem})."
            if "read-only" in str(problem):
                found = f"writes into the numbers that its {method} is called with."
            raise self.error(found, "Compute the answer in a new array, without an error.") from problem
