"""How to split noise between a full Gaussian mechanism and a sampled one of the same step (C4).

Any split is sound; the noise is then calibrated exactly for the split taken. A second-order estimate of the privacy
loss, in closed form, finds one whose variance is within a few per cent of the least (the tests compare).
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpadmm.noise.mechanisms import AgentReleases, Family, MechanismSpec
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.curves import m_of
from dpadmm.privacy.releases import FixedSizeSampling, PoissonSampling

Floats = NDArray[np.float64]
Mine = Sequence[tuple[MechanismSpec, AgentReleases]]

_LARGEST_EXPONENT = 600.0
_WIDEST = 12.0  # natural logarithms searched around the middle
_FREE = [Family.GAUSSIAN, Family.SAMPLED]


def is_free_split(mechanisms: Sequence[MechanismSpec]) -> bool:
    """Say whether these are one Gaussian and one sampled mechanism that leave the split of the noise open."""
    families = [mechanism.family for mechanism in mechanisms]
    return families == _FREE and all(mechanism.variance_weight is not None for mechanism in mechanisms)


def best_split(pair: Mine, target: Target, shape: Floats) -> tuple[float, float]:
    """Return relative stds (1, r) of one agent's Gaussian and sampled mechanism, `w1 s1^2 + w2 s2^2` being about least.

    pair: the two mechanisms with the agent's row of each. shape: relative noise of the rounds 1.. of the run. They
    minimise `f^2 (w1 + w2 r^2)` where f solves `V1/f^2 + sum count h(D/(f r shape)) = m(eps, delta)^2`: V1 = sum count
    (D/shape)^2 of the Gaussian mechanism, D, count those of the sampled one, and h the second moment of a sampled
    step's loss, `4 q^2 sinh(x^2)` for Poisson sampling, `q^2 (exp(4 x^2) - 1)` for fixed size.
    """
    from scipy.optimize import brentq, minimize_scalar  # slow to load, and only sampled pairs need it

    (full, full_row), (part, part_row) = pair
    budget = 2 * math.log(m_of(target.epsilon, target.delta))
    always = full.count * float(np.sum(_bounds(full_row, shape) ** 2))
    sampled, sampling = _bounds(part_row, shape), part.drawn(part_row)
    first, second = full.variance_weight or 1.0, part.variance_weight or 1.0
    edge = 0.5 * (math.log(always) - budget) - 1e-9  # at least what the Gaussian mechanism alone needs

    def log_excess(level: float, ratio: float) -> float:
        moment = part.count * float(np.sum(_second_moment(sampled * math.exp(-level - ratio), sampling)))
        return math.log(always * math.exp(-2 * level) + moment) - budget

    def level_of(ratio: float) -> float:
        return float(brentq(log_excess, edge, edge + 4 * _WIDEST, args=(ratio,), xtol=1e-6))

    def log_variance(ratio: float) -> float:
        return 2 * level_of(ratio) + float(np.logaddexp(math.log(first), math.log(second) + 2 * ratio))

    # The range is centred where the sampled mechanism, taken as an ordinary one, weighs as much as the other.
    ordinary = part.count * float(np.sum((2 * sampled * _rate(sampling)) ** 2))
    middle = 0.25 * math.log(first * ordinary / second / always)
    bounds = (middle - _WIDEST / 4, middle + _WIDEST)
    ratio = float(minimize_scalar(log_variance, bounds=bounds, method="bounded", options={"xatol": 1e-3}).x)
    return 1.0, math.exp(ratio)


def _bounds(row: AgentReleases, shape: Floats) -> Floats:
    bounds = np.array([certificate.bound for certificate in row.certificates])
    return bounds / shape[np.array(row.rounds) - 1]


def _rate(sampling: PoissonSampling | FixedSizeSampling | None) -> float:
    """Chance that a record takes part."""
    return 1.0 if sampling is None else sampling.rate


def _second_moment(x: Floats, sampling: PoissonSampling | FixedSizeSampling | None) -> Floats:
    square, rate = x * x, _rate(sampling)
    if isinstance(sampling, FixedSizeSampling):
        return np.asarray(rate**2 * np.expm1(np.minimum(4 * square, _LARGEST_EXPONENT)))
    return np.asarray(4 * rate**2 * np.sinh(np.minimum(square, _LARGEST_EXPONENT)))
