"""Privacy curves: the full trade-off of epsilon against delta.

Each curve is frozen and answers `delta(epsilon)` and `epsilon(delta)` with upper bounds that hold for whatever
made it (see `dpadmm.privacy.accounting`).

Gaussian differential privacy has a closed form: an m-GDP mechanism is as hard to distinguish as N(0, 1) from N(m, 1).
With `a = eps/m - m/2` and `b = eps/m + m/2`

    delta(eps) = Phi(-a) - e^eps Phi(-b) = phi(a) (R(a) - R(b)),        R(x) = Phi(-x) / phi(x),

because `phi(a) = e^eps phi(b)`. The second form has no overflow, and its difference is taken without cancellation,
so that every figure is good to about 1e-12 relative, and its logarithm far below the range of floats.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.special import erfcx

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.errors import InputError

_SQRT_HALF = math.sqrt(0.5)
_SQRT_HALF_PI = math.sqrt(math.pi / 2)
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
# Largest m for which the 12-point rule below is exact to rounding; beyond it the plain difference is.
_QUADRATURE_REACH = 1.0
# Roots are found to about 4e-16; the margin keeps every rounding on the safe side and stays far below 1e-9.
_SAFETY = 1e-12


@runtime_checkable
class Curve(Protocol):
    """What every privacy curve provides."""

    def delta(self, epsilon: float) -> float:
        """An upper bound of the delta at `epsilon >= 0`."""
        ...

    def epsilon(self, delta: float) -> float:
        """An upper bound of the epsilon at `delta` in [0, 1]; infinite if there is none."""
        ...


def delta_in_range(delta: float) -> float:
    """Return a delta if it is one, else raise `InputError`."""
    if not 0 <= checks.finite("delta", delta) <= 1:
        raise InputError(f"delta must lie between 0 and 1, got {safe_repr(delta)}.")
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
        return delta_of_epsilon(self.m, checks.non_negative("epsilon", epsilon))

    def epsilon(self, delta: float) -> float:
        """The exact epsilon at `delta`; infinite at delta 0 unless nothing leaks."""
        return epsilon_of_delta(self.m, delta)


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
    """The upper envelope of several curves: the worst case over people none of whom is worst everywhere."""

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


def _mills(x: float) -> float:
    """Mills' ratio R(x) = Phi(-x)/phi(x) for x not far below zero."""
    return _SQRT_HALF_PI * float(erfcx(x * _SQRT_HALF))


def _mills_drop(a: float, m: float) -> float:
    """R(a) - R(a + m) without cancellation, from R' = xR - 1, for small m."""
    x = a + (0.5 * m) * (_NODES + 1.0)
    if a > 50.0:
        y = 1.0 / (x * x)
        slope = y * (1.0 - y * (3.0 - y * (15.0 - y * (105.0 - 945.0 * y))))
    else:
        slope = 1.0 - x * (_SQRT_HALF_PI * erfcx(x * _SQRT_HALF))
    return float(0.5 * m * (_WEIGHTS @ slope))


def log_delta(m: float, eps: float) -> float:
    """Natural logarithm of `delta_of_epsilon(m, eps)`, for m >= 0 and eps >= 0; meaningful far below 1e-308.

    >>> round(log_delta(0.01, 1.0), 3)
    -5014.235
    """
    if m == 0.0 or eps == math.inf:
        return -math.inf
    if m == math.inf:
        return 0.0
    a = eps / m - 0.5 * m
    if m <= _QUADRATURE_REACH:
        drop = _mills_drop(a, m)
    elif a < -0.5:
        # 1 - delta = Phi(a) + e^eps Phi(-b) is a sum of positive terms.
        missing = 0.5 * math.erfc(-a * _SQRT_HALF) + math.exp(-0.5 * a * a - _LOG_SQRT_2PI) * _mills(a + m)
        return math.log1p(-missing)
    else:
        drop = _mills(a) - _mills(a + m)
    if drop <= 0.0:  # both ratios are below the float range
        return -math.inf
    return math.log(drop) - 0.5 * a * a - _LOG_SQRT_2PI


def _checked(name: str, value: float, *, finite_only: bool = False) -> float:
    """Return a non-negative number, infinity allowed unless excluded."""
    if math.isnan(value) or value < 0 or (finite_only and math.isinf(value)):
        allowed = "a finite number" if finite_only else "a number"
        raise InputError(f"{name} must be {allowed} of at least 0, got {safe_repr(value)}.")
    return value


def delta_of_epsilon(m: float, eps: float) -> float:
    """The delta at which an m-GDP mechanism is (eps, delta)-DP, exactly (C0).

    `m >= 0` (0: nothing leaks, inf: everything), `eps >= 0`.

    >>> round(delta_of_epsilon(1.0, 1.0), 10)
    0.1269367375
    """
    return math.exp(log_delta(_checked("m", m), _checked("epsilon", eps)))


def epsilon_of_delta(m: float, delta: float) -> float:
    """The smallest epsilon >= 0 with `delta_of_epsilon(m, epsilon) <= delta`; `delta` in [0, 1].

    >>> round(epsilon_of_delta(1.0, 1e-5), 6)
    4.377178
    """
    if _checked("m", m) == 0.0:
        return 0.0
    if delta_in_range(delta) == 0.0 or m == math.inf:
        return 0.0 if delta == 1.0 else math.inf
    goal = math.log(delta)
    if log_delta(m, 0.0) <= goal:
        return 0.0
    # The zCDP conversion is an upper bound of the root, so it closes the bracket.
    top = zcdp_epsilon_classical(0.5 * m * m, delta) * (1 + 1e-9)
    from scipy.optimize import brentq  # slow to load; composing and stating need no root

    root = float(brentq(lambda eps: log_delta(m, eps) - goal, 0.0, top, xtol=1e-300, rtol=8.9e-16))
    root, step = max(root, 1e-300), 1e-15  # the root may lie on either side; the answer must not
    while log_delta(m, root) > goal:
        root, step = root * (1.0 + step), 2.0 * step
    return root


@lru_cache(maxsize=1024)
def m_of(eps: float, delta: float) -> float:
    """The largest m whose curve passes under (eps, delta), rounded down.

    `eps >= 0`, `delta` in (0, 1). `delta_of_epsilon(m_of(eps, delta), eps) <= delta` always holds, and the result
    is within 1e-9 relative of the exact root.

    >>> m = m_of(1.0, 1e-5)
    >>> round(m, 6), delta_of_epsilon(m, 1.0) <= 1e-5
    (0.268051, True)
    """
    _checked("epsilon", eps, finite_only=True)
    goal = math.log(checks.open_unit("delta", delta))
    # Solving the zCDP conversion for m gives a lower end that is surely admissible.
    spread = -2.0 * goal
    low = 2.0 * eps / (math.sqrt(spread + 2.0 * eps) + math.sqrt(spread)) if eps > 0 else delta
    low *= 0.5
    high = 4.0 * low
    while log_delta(high, eps) <= goal:
        low, high = high, 2.0 * high
    from scipy.optimize import brentq

    root = brentq(lambda t: log_delta(math.exp(t), eps) - goal, math.log(low), math.log(high), rtol=8.9e-16)
    m, step = float(math.exp(root)), _SAFETY
    while True:
        m *= 1.0 - step
        if math.exp(log_delta(m, eps)) <= delta:
            return m
        step *= 2.0


def zcdp_epsilon_classical(rho: float, delta: float) -> float:
    """The papers' conversion `eps = rho + 2 sqrt(rho ln(1/delta))`, an upper bound of the tight one."""
    _checked("rho", rho)
    if not 0 < delta <= 1:
        raise InputError(f"delta must be greater than 0 and at most 1, got {safe_repr(delta)}.")
    return rho + 2.0 * math.sqrt(rho * -math.log(delta))
