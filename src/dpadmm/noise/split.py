"""How to split noise between a full Gaussian slot and a sampled one of the same step (C4).

Any split is sound; the noise is then calibrated exactly for the split taken. What is minimised here is a second-order
estimate of the privacy loss, the same for both slots, so that the result is within about two per cent of the best
split (measured against the exact composition).
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

from dpadmm.noise.promises import Family, Promise, Row
from dpadmm.privacy import gaussian
from dpadmm.privacy.calibration import Target
from dpadmm.privacy.records import FixedSizeSampling, PoissonSampling

_LARGEST_EXPONENT = 600.0
_WIDEST = 12.0  # natural logarithms searched on either side of 1
_FREE = [Family.GAUSSIAN, Family.SAMPLED]


def is_free_split(promises: Sequence[Promise]) -> bool:
    """Say whether these are one Gaussian and one sampled slot that leave the split of the noise open."""
    families = [promise.family for promise in promises]
    return families == _FREE and all(promise.variance_weight is not None for promise in promises)


def best_split(pair: Sequence[tuple[Promise, Row]], target: Target, shape: NDArray[np.float64]) -> tuple[float, float]:
    """Return relative stds (1, r) of the Gaussian and the sampled slot of one agent: r about the best.

    With `V1 = sum count (D/shape)^2` of the Gaussian slot and D, q, count those of the sampled one, r minimises
    `f^2 (w1 + w2 r^2)` where f solves `V1/f^2 + sum count h(D/(f r shape)) = m(eps, delta)^2` and h is the second
    moment of a sampled step's loss: `4 q^2 sinh(x^2)` for Poisson sampling, `q^2 (exp(4 x^2) - 1)` for fixed size.
    """
    (full, full_row), (part, part_row) = pair
    budget = 2 * math.log(float(gaussian.m_of(target.epsilon, target.delta)))
    always = full.count * float(np.sum(_levels(full_row, shape) ** 2))
    sampled, sampling = _levels(part_row, shape), part.drawn(part_row)
    first, second = full.variance_weight or 1.0, part.variance_weight or 1.0

    def log_excess(log_level: float, log_ratio: float) -> float:
        x = sampled * math.exp(-log_level - log_ratio)
        moment = part.count * float(np.sum(_second_moment(x, sampling)))
        return math.log(always * math.exp(-2 * log_level) + moment) - budget

    def log_variance(log_ratio: float) -> float:
        edge = 0.5 * (math.log(always) - budget) - 1e-9  # at least what the Gaussian slot alone needs
        log_level = brentq(log_excess, edge, edge + 4 * _WIDEST, args=(log_ratio,), xtol=1e-6)
        return 2 * float(log_level) + float(np.logaddexp(math.log(first), math.log(second) + 2 * log_ratio))

    # The range is centred where the sampled slot, taken as an ordinary one, weighs as much as the other.
    middle = 0.25 * math.log(first * part.count * float(np.sum((2 * sampled * _rate(sampling)) ** 2)) / second / always)
    found = minimize_scalar(
        log_variance, bounds=(middle - _WIDEST / 4, middle + _WIDEST), method="bounded", options={"xatol": 1e-3}
    )
    return 1.0, math.exp(float(found.x))


def _levels(row: Row, shape: NDArray[np.float64]) -> NDArray[np.float64]:
    bounds = np.array([certificate.bound for certificate in row.certificates])
    return bounds / shape[np.array(row.rounds) - 1]


def _rate(sampling: PoissonSampling | FixedSizeSampling | None) -> float:
    """Chance that a record takes part."""
    return 1.0 if sampling is None else _RATES[type(sampling)](sampling)


def _second_moment(x: NDArray[np.float64], sampling: PoissonSampling | FixedSizeSampling | None) -> NDArray[np.float64]:
    square, rate = x * x, _rate(sampling)
    if isinstance(sampling, FixedSizeSampling):
        return np.asarray(rate**2 * np.expm1(np.minimum(4 * square, _LARGEST_EXPONENT)))
    return np.asarray(4 * rate**2 * np.sinh(np.minimum(square, _LARGEST_EXPONENT)))


_RATES = {
    PoissonSampling: lambda sampling: sampling.rate,
    FixedSizeSampling: lambda sampling: sampling.size / sampling.population,
}
