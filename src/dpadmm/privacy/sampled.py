"""Composition through privacy loss distributions, for what has no closed form.

Three kinds of loss enter one discretised distribution, each rounded against us:

* the Gaussian releases, merged first into one Gaussian of noise 1/m;
* pure releases, each as the worst eps-DP mechanism, randomised response;
* Gaussians on a random sample of the records, with noise `ratio` = noise_std / (bound of one record's term):
  - Poisson, add-or-remove: `(1-q) N(0) + q N(1/ratio)` against `N(0)`, both ways;
  - Poisson, replace-one: `(1-q) N(0) + q N(1/ratio)` against `(1-q) N(0) + q N(-1/ratio)`;
  - fixed size, replace-one, `q = size/population`, `m = 2/ratio` (a swap moves the sum by two terms):
    `delta(eps) = q delta_m(ln(1 + (e^eps - 1)/q))` for eps >= 0 (amplification without replacement), and
    `delta(-eps) = 1 - e^-eps + e^-eps delta(eps)` since neighbours may be exchanged. This profile is convex in
    e^eps, so a pair of distributions attains it and composes.

The grid is chosen from the variance of the total loss, with a ceiling on its size. Where that leaves it too coarse
(tiny noise, epsilons in the hundreds) sampling is ignored and all becomes one Gaussian, so that a tiny noise costs
accuracy and never memory.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from dp_accounting import NeighboringRelation
from dp_accounting.pld import pld_pmf, privacy_loss_distribution
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from numpy.typing import NDArray
from scipy.special import log_expit, log_ndtr, ndtr, ndtri_exp

from dpadmm import checks
from dpadmm.privacy.curves import Curve, GaussianCurve, delta_in_range
from dpadmm.privacy.releases import SampledStep, Scheme

# Points of the grid per standard deviation of one step's loss: inflates the total variance by at most 1/4096.
_POINTS_PER_STD = 32.0
_COARSEST_STEP = 1e-3
_USELESS_STEP = 0.1
# Below this the losses of neighbouring grid points differ by little more than rounding, and exp(-step) nears 1.
_FINEST_STEP = 1e-12
_MOST_POINTS_ONE_STEP = 100_000
_MOST_POINTS_TOTAL = 2_000_000
# Beyond ten standard deviations lies a mass of 8e-24.
_TAIL = 10.0


@dataclass(frozen=True)
class PldCurve:
    """A discretised privacy loss distribution, rounded against us, composed by FFT.

    `slack` is added to every delta: it covers the rounding errors of the FFTs, which the library leaves out.
    """

    distribution: PrivacyLossDistribution
    slack: float = 0.0

    def delta(self, epsilon: float) -> float:
        """The delta at `epsilon`, discretisation and slack included."""
        value = self.distribution.get_delta_for_epsilon(checks.non_negative("epsilon", epsilon))
        return min(1.0, max(0.0, float(value)) + self.slack)

    def epsilon(self, delta: float) -> float:
        """The epsilon at `delta`; infinite if delta is not above the mass of infinite loss."""
        usable = delta_in_range(delta) - self.slack
        if usable < 0.0:
            return math.inf
        return float(self.distribution.get_epsilon_for_delta(usable))


def _loss_reach(step: SampledStep) -> float:
    """A loss passed with negligible probability only."""
    full = step.shift * (0.5 * step.shift + _TAIL)
    return float(np.logaddexp(math.log1p(-step.rate), math.log(step.rate) + full))


def _fixed_size_profile(step: SampledStep, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
    """delta(eps) of one fixed-size step on the whole real line (module docstring)."""
    distance, m, q = np.abs(epsilons), step.shift, step.rate
    # ln(1 + (e^eps - 1)/q), without overflow for large eps.
    inner = np.where(
        distance < 30.0,
        np.log1p(np.expm1(np.minimum(distance, 30.0)) / q),
        distance - math.log(q) + np.log1p(-(1.0 - q) * np.exp(-distance)),
    )
    a = inner / m - 0.5 * m
    forward = q * np.clip(ndtr(-a) - np.exp(inner + log_ndtr(-a - m)), 0.0, 1.0)
    backward = -np.expm1(-distance) + np.exp(-distance) * forward
    profile: NDArray[np.float64] = np.where(epsilons >= 0.0, forward, backward)
    return profile


def _fixed_size_distribution(step: SampledStep, interval: float) -> PrivacyLossDistribution:
    reach = math.ceil(_loss_reach(step) / interval)
    deltas = _fixed_size_profile(step, interval * np.arange(-reach, reach + 1, dtype=np.float64))
    deltas = np.minimum.accumulate(deltas)
    return PrivacyLossDistribution(
        pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, -reach, reach, deltas)
    )


def _step_distribution(step: SampledStep, interval: float) -> PrivacyLossDistribution:
    """The discretised loss of one sampled step."""
    if step.scheme is Scheme.FIXED_SIZE_REPLACE:
        return _fixed_size_distribution(step, interval)
    # Under REPLACE_ONE the library shifts both ways, so it takes the noise over one term's bound.
    replace = step.scheme is Scheme.POISSON_REPLACE
    return privacy_loss_distribution.from_gaussian_mechanism(
        standard_deviation=step.ratio,
        sampling_prob=step.rate,
        value_discretization_interval=interval,
        neighboring_relation=(NeighboringRelation.REPLACE_ONE if replace else NeighboringRelation.ADD_OR_REMOVE_ONE),
    )


def _pure_distribution(epsilon: float, interval: float) -> PrivacyLossDistribution:
    """Randomised response, its two atoms split between neighbouring grid points so that delta is kept there."""
    low, high = math.floor(epsilon / interval), math.ceil(epsilon / interval)
    grid = np.array(sorted({-high, -low, low, high}))
    losses = grid * interval
    inside = (math.exp(-epsilon) * -np.exp(losses) + 1.0) / (1.0 + math.exp(-epsilon))
    deltas = np.where(losses >= epsilon, 0.0, np.where(losses <= -epsilon, -np.expm1(losses), inside))
    return PrivacyLossDistribution(
        pld_pmf.create_pmf_pessimistic_connect_dots(interval, grid, np.clip(deltas, 0.0, 1.0))
    )


def _interval(m: float, pure: Mapping[float, int], steps: Mapping[SampledStep, int]) -> float:
    """The grid's step: fine against the total loss, coarse enough to bound time and memory."""
    count = (1 if m > 0 else 0) + sum(pure.values()) + sum(steps.values())
    variance = m * m + math.fsum(c * eps * eps for eps, c in pure.items())
    variance += math.fsum(c * (s.rate * s.shift) ** 2 for s, c in steps.items())
    single = max([m * (0.5 * m + _TAIL), *pure, *(_loss_reach(s) for s in steps)])
    total = single + 2.0 * _TAIL * math.sqrt(variance) + variance
    return max(
        min(math.sqrt(variance / count) / _POINTS_PER_STD, _COARSEST_STEP),
        2.0 * single / _MOST_POINTS_ONE_STEP,
        2.0 * total / _MOST_POINTS_TOTAL,
    )


def _as_one_gaussian(m: float, pure: Mapping[float, int], steps: Mapping[SampledStep, int]) -> GaussianCurve:
    """A crude upper bound: sampling ignored, each pure epsilon as the Gaussian of m = -2 Phi^-1(1/(1 + e^eps))."""
    squares = [m * m, *(count * step.shift**2 for step, count in steps.items())]
    squares += [count * (2.0 * float(ndtri_exp(log_expit(-eps)))) ** 2 for eps, count in pure.items()]
    return GaussianCurve(math.sqrt(math.fsum(squares)))


def fft_slack(count: int) -> float:
    """What rounding may hide from delta when `count` steps are composed by FFT.

    Ten times the error measured against the closed form of Gaussians, which grows as 2e-17 per step.
    """
    return 1e-14 + 2e-16 * count


def compose_losses(m: float, pure: Mapping[float, int], steps: Mapping[SampledStep, int]) -> Curve:
    """Compose one m-GDP Gaussian, pure releases {epsilon: count} and sampled steps {step: count}; not all empty.

    The result is an upper bound, within about 1e-3 relative in epsilon where the ceilings on the grid do not bind.
    Deltas below `fft_slack` are out of its reach.
    """
    pure = {eps: count for eps, count in pure.items() if eps > 0}
    interval = _interval(m, pure, steps)
    if not _FINEST_STEP <= interval <= _USELESS_STEP:
        return _as_one_gaussian(m, pure, steps)

    def parts() -> Iterator[PrivacyLossDistribution]:
        if m > 0:
            yield privacy_loss_distribution.from_gaussian_mechanism(1.0 / m, value_discretization_interval=interval)
        for epsilon, count in sorted(pure.items()):
            yield _pure_distribution(epsilon, interval).self_compose(count)
        for step, count in sorted(steps.items(), key=lambda item: (item[0].ratio, item[0].rate, item[1])):
            yield _step_distribution(step, interval).self_compose(count)

    queue = parts()
    total = next(queue)
    for part in queue:
        total = total.compose(part)
    return PldCurve(total, fft_slack(sum(pure.values()) + sum(steps.values())))
