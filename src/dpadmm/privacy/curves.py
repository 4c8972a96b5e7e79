"""Privacy curves: everything an observer can be told about the trade of epsilon against delta.

Each curve is frozen and answers `delta(epsilon)` and `epsilon(delta)` with upper bounds that hold for whatever
made it (see `dpadmm.privacy.accounting`).
"""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.errors import InputError
from dpadmm.privacy import gaussian


@runtime_checkable
class Curve(Protocol):
    """What every privacy curve can answer."""

    def delta(self, epsilon: float) -> float:
        """An upper bound of the delta at `epsilon >= 0`."""
        ...

    def epsilon(self, delta: float) -> float:
        """An upper bound of the epsilon at `delta` in [0, 1]; infinite if there is none."""
        ...


def delta_in_range(delta: float) -> float:
    """Return a delta if it is one, else raise `InputError`."""
    if not 0 <= checks.finite("delta", delta) <= 1:
        raise InputError(f"delta must lie between 0 and 1, got {shown(delta)}.")
    return float(delta)


@dataclass(frozen=True)
class GaussianCurve:
    """m-GDP, exact: as hard as telling N(0, 1) from N(m, 1).

    >>> round(GaussianCurve(m=0.5).epsilon(1e-5), 6)
    1.993091
    """

    m: float

    def __post_init__(self) -> None:
        """Refuse what is no GDP parameter."""
        checks.non_negative("m", self.m)

    def delta(self, epsilon: float) -> float:
        """The exact delta at `epsilon`."""
        return float(gaussian.delta_of_epsilon(self.m, checks.non_negative("epsilon", epsilon)))

    def epsilon(self, delta: float) -> float:
        """The exact epsilon at `delta`; infinite at delta 0 unless nothing leaks."""
        return float(gaussian.epsilon_of_delta(self.m, delta_in_range(delta)))


@dataclass(frozen=True)
class PureCurve:
    """Pure epsilon-DP at `total`; for delta > 0 the least any such mechanism can promise (randomised response).

        delta(e) = (e^total - e^e) / (1 + e^total)     for e < total, else 0

    >>> PureCurve(total=1.0).epsilon(0.0)
    1.0
    """

    total: float

    def __post_init__(self) -> None:
        """Refuse what is no epsilon."""
        checks.non_negative("total", self.total)

    def delta(self, epsilon: float) -> float:
        """The delta at `epsilon`, zero from `total` on."""
        if checks.non_negative("epsilon", epsilon) >= self.total:
            return 0.0
        return -math.expm1(epsilon - self.total) / (1.0 + math.exp(-self.total))

    def epsilon(self, delta: float) -> float:
        """The epsilon at `delta`, at most `total`."""
        lost = delta_in_range(delta) * (1.0 + math.exp(-self.total))
        return max(0.0, self.total + math.log1p(-lost)) if lost < 1.0 else 0.0


@dataclass(frozen=True)
class InfiniteCurve:
    """No protection: something left without noise."""

    def delta(self, epsilon: float) -> float:
        """Always 1."""
        checks.non_negative("epsilon", epsilon)
        return 1.0

    def epsilon(self, delta: float) -> float:
        """Infinite unless delta is 1."""
        return 0.0 if delta_in_range(delta) == 1.0 else math.inf


@dataclass(frozen=True)
class WorstCurve:
    """The upper envelope of several curves: the worst case among people none of whom is worst everywhere."""

    curves: tuple[Curve, ...]

    def __post_init__(self) -> None:
        """Refuse an empty envelope."""
        if not self.curves:
            raise InputError("an envelope needs at least one curve, got none.")

    def delta(self, epsilon: float) -> float:
        """The largest delta of all."""
        return max(curve.delta(epsilon) for curve in self.curves)

    def epsilon(self, delta: float) -> float:
        """The largest epsilon of all."""
        return max(curve.epsilon(delta) for curve in self.curves)
