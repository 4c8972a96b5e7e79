"""How to split noise between a full Gaussian mechanism and a sampled one of the same step (C4).

Any split is sound; the noise is then calibrated exactly for the split taken. The best one is found in two stages: a
second-order estimate of the privacy loss, in closed form, and from there a search on the exact composition for the
point where both mechanisms give the same variance for the same epsilon.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpadmm.noise.mechanisms import AgentReleases, Family, MechanismSpec
from dpadmm.privacy.accounting import Target, compose
from dpadmm.privacy.curves import m_of
from dpadmm.privacy.releases import FixedSizeSampling, PoissonSampling

Floats = NDArray[np.float64]
Mine = Sequence[tuple[MechanismSpec, AgentReleases]]

_LARGEST_EXPONENT = 600.0
_WIDEST = 12.0  # natural logarithms searched around the middle
_NUDGE = 0.1  # of the logarithm of a std, to see what it does to epsilon
_CLOSE = 0.04  # mismatch, i.e. one hundredth of the ratio: the variance is flat there
_MOST_STEPS, _LONGEST_STEP = 6, 0.7
_FREE = [Family.GAUSSIAN, Family.SAMPLED]


class _Levels(NamedTuple):
    """Logarithms of the Gaussian mechanism's std and of the ratio of the sampled mechanism's to it."""

    level: float
    ratio: float


def is_free_split(mechanisms: Sequence[MechanismSpec]) -> bool:
    """Say whether these are one Gaussian and one sampled mechanism that leave the split of the noise open."""
    families = [mechanism.family for mechanism in mechanisms]
    return families == _FREE and all(mechanism.variance_weight is not None for mechanism in mechanisms)


def best_split(pair: Mine, target: Target, shape: Floats) -> tuple[float, float]:
    """Return relative stds (1, r) of one agent's Gaussian and sampled mechanism that minimise `w1 s1^2 + w2 s2^2`.

    pair: the two mechanisms with the agent's row of each. shape: relative noise of the rounds 1.. of the run.
    """
    found = _refined(_estimated(pair, target, shape), pair, target, shape)
    return 1.0, math.exp(found)


def share_at(full: float, part: float, rate: float) -> float:
    """Return a share of the variance for the Gaussian mechanism that is near the best at a given noise; any is sound.

    full, part: the mechanisms' bounds over the std of both noises together; rate: chance that a record takes part. The
    share t minimises the sum of the second-order losses, `full^2/t + 4 rate^2 sinh(part^2/(1-t))`.
    """
    from scipy.optimize import minimize_scalar  # slow to load, and only sampled pairs need it

    def loss(log_odds: float) -> float:
        share = 1 / (1 + math.exp(-log_odds))
        spread = part**2 / (1 - share)
        sampled = math.log(4 * rate * rate) + (math.log(math.sinh(spread)) if spread < 700 else spread)
        return float(np.logaddexp(2 * math.log(full) - math.log(share), sampled))

    found = minimize_scalar(loss, bounds=(-16.0, 8.0), method="bounded", options={"xatol": 1e-4})
    return float(1 / (1 + math.exp(-found.x)))


def _weights(pair: Mine) -> tuple[float, float]:
    return pair[0][0].variance_weight or 1.0, pair[1][0].variance_weight or 1.0


def _estimated(pair: Mine, target: Target, shape: Floats) -> _Levels:
    """Minimise `f^2 (w1 + w2 r^2)` where f solves `V1/f^2 + sum count h(D/(f r shape)) = m(eps, delta)^2`.

    V1 = sum count (D/shape)^2 of the Gaussian mechanism, D, count those of the sampled one, and h the second moment of
    a sampled step's loss: `4 q^2 sinh(x^2)` for Poisson sampling, `q^2 (exp(4 x^2) - 1)` for fixed size.
    """
    from scipy.optimize import brentq, minimize_scalar  # slow to load, and only sampled pairs need it

    (full, full_row), (part, part_row) = pair
    budget = 2 * math.log(m_of(target.epsilon, target.delta))
    always = full.count * float(np.sum(_bounds(full_row, shape) ** 2))
    sampled, sampling = _bounds(part_row, shape), part.drawn(part_row)
    first, second = _weights(pair)
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
    return _Levels(level_of(ratio), ratio)


def _refined(start: _Levels, pair: Mine, target: Target, shape: Floats) -> float:
    """Return the logarithm of the ratio at which `d eps/d ln s1 : d eps/d ln s2 = w1 s1^2 : w2 s2^2`, by secants.

    The mismatch falls with the ratio, at slope -4 where both mechanisms act like Gaussians; the level is Newton's.
    """
    first, second = _weights(pair)

    def spent(*logs: float) -> float:
        releases = (
            mechanism.release(replace(row, agent=0), j, math.exp(log) * float(shape[k - 1]))
            for (mechanism, row), log in zip(pair, logs, strict=True)
            for j, k in enumerate(row.rounds)
        )
        return compose(releases).epsilon(target.delta)

    level, ratio = start
    slope, before = -4.0, (math.nan, math.nan)
    for _ in range(_MOST_STEPS):
        at = spent(level, level + ratio)
        gains = (
            max(spent(level - _NUDGE, level + ratio) - at, 1e-9 * at),
            max(spent(level, level + ratio - _NUDGE) - at, 1e-9 * at),
        )
        mismatch = math.log(gains[1] / gains[0] * first / second) - 2 * ratio
        if abs(mismatch) < _CLOSE or not math.isfinite(mismatch):
            break
        if ratio != before[0] and math.isfinite(before[0]):
            slope = min((mismatch - before[1]) / (ratio - before[0]), -1.0)
        before = (ratio, mismatch)
        move = min(max(-mismatch / slope, -_LONGEST_STEP), _LONGEST_STEP)
        # Keep epsilon near the target: both elasticities are known at the point left behind.
        elastic = (gains[0] + gains[1]) / (_NUDGE * at)
        level += math.log(at / target.epsilon) / elastic - move * gains[1] / (gains[0] + gains[1])
        ratio += move
    return ratio


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
