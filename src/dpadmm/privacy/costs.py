"""What each kind of release costs, counted by kind so that identical releases are merged.

One rule per kind (`count_release`); a kind without a rule is refused. See `dpadmm.privacy.accounting` for the rules in
words.
"""

import math
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.privacy.curves import Curve, GaussianCurve, InfiniteCurve, PureCurve
from dpadmm.privacy.discrete import gdp_factor
from dpadmm.privacy.records import (
    BareRelease,
    Certificate,
    CoordinateLaplaceRelease,
    FixedSizeSampling,
    GaussianRelease,
    Norm,
    ObjectiveRelease,
    PoissonSampling,
    Relation,
    SampledGaussianRelease,
    SphericalLaplaceRelease,
)
from dpadmm.privacy.sampled import SampledStep, Scheme, compose_losses


@dataclass
class Tally:
    """Costs counted by kind; identical ones are merged, so that k releases equal one release of count k."""

    gaussian: Counter[float] = field(default_factory=Counter)  # (bound/noise_std)^2 -> count
    pure: Counter[float] = field(default_factory=Counter)  # epsilon -> count
    sampled: Counter[SampledStep] = field(default_factory=Counter)
    infinite: bool = False

    @property
    def m_squared(self) -> float:
        return math.fsum(count * value for value, count in self.gaussian.items())

    @property
    def epsilon(self) -> float:
        return math.fsum(count * value for value, count in self.pure.items())

    def key(self) -> Hashable:
        """Equal for tallies that cost the same."""
        pure, sampled = frozenset(self.pure.items()), frozenset(self.sampled.items())
        return self.m_squared, pure, sampled, self.infinite

    def plus(self, other: "Tally") -> "Tally":
        return Tally(
            self.gaussian + other.gaussian,
            self.pure + other.pure,
            self.sampled + other.sampled,
            self.infinite or other.infinite,
        )

    def curve(self) -> Curve:
        m = math.sqrt(self.m_squared)
        if self.infinite or math.isinf(m) or math.isinf(self.epsilon):
            return InfiniteCurve()
        if self.sampled or (m > 0 and self.epsilon > 0):
            return compose_losses(m, self.pure, self.sampled)
        return GaussianCurve(m) if m > 0 else PureCurve(self.epsilon)


@singledispatch
def count_release(release: Any, tally: Tally) -> None:
    """Add one release to the tally; a kind without a rule is refused."""
    known = ", ".join(sorted(kind.__name__ for kind in count_release.registry if kind is not object))
    raise InputError(f"no accounting rule for {type(release).__name__}; use one of {known}.")


def _additive(release: Any) -> Certificate:
    """The certificate of additive noise; one of an objective perturbation does not fit."""
    certificate: Certificate = release.certificate
    if certificate.log_jacobian > 0:
        raise InputError(
            f"{type(release).__name__} got a certificate with log_jacobian {certificate.log_jacobian}, which belongs "
            "to objective perturbation; use ObjectiveRelease or a certificate of the released value itself."
        )
    return certificate


def _times(release: Any) -> int:
    return checks.count("count", release.count)


@count_release.register
def _(release: GaussianRelease, tally: Tally) -> None:
    bound, std = _additive(release).bound, checks.non_negative("noise_std", release.noise_std)
    if bound == 0:
        return
    tally.infinite |= std == 0
    # An L1 bound is also an L2 bound, so both norms are good here.
    ratio = bound / std * gdp_factor(std, release.certificate.grid) if std > 0 else math.inf
    tally.gaussian[ratio * ratio] += _times(release)


@count_release.register
def _(release: SphericalLaplaceRelease, tally: Tally) -> None:
    tally.pure[checks.positive("rate", release.rate) * _additive(release).bound] += _times(release)


@count_release.register
def _(release: CoordinateLaplaceRelease, tally: Tally) -> None:
    certificate = _additive(release)
    if certificate.norm is not Norm.L1:
        raise InputError(
            f"coordinate Laplace noise needs a bound in the l1 norm, got {certificate.norm.value}; "
            "multiply an l2 bound by sqrt(dimension) or use spherical Laplace noise."
        )
    tally.pure[certificate.bound / checks.positive("scale", release.scale)] += _times(release)


@count_release.register
def _(release: ObjectiveRelease, tally: Tally) -> None:
    tally.pure[objective_epsilon(release.certificate, release.rate)] += _times(release)


@count_release.register
def _(release: BareRelease, tally: Tally) -> None:
    tally.infinite = True


@count_release.register
def _(release: SampledGaussianRelease, tally: Tally) -> None:
    certificate, std = _additive(release), checks.non_negative("noise_std", release.noise_std)
    rate, scheme = _sampling(release.sampling, certificate)
    if certificate.bound == 0:
        return
    if std == 0:
        tally.infinite = True
        return
    step = SampledStep(std / certificate.bound, rate, scheme)
    if rate < 1:
        tally.sampled[step] += _times(release)
    else:  # everyone takes part: a plain Gaussian
        tally.gaussian[step.shift**2] += _times(release)


@singledispatch
def _sampling(sampling: Any, certificate: Certificate) -> tuple[float, Scheme]:
    """The chance that a person's records take part, and the pair of distributions to use."""
    raise InputError(
        f"no accounting rule for sampling by {type(sampling).__name__}; use PoissonSampling or FixedSizeSampling."
    )


@_sampling.register
def _(sampling: PoissonSampling, certificate: Certificate) -> tuple[float, Scheme]:
    # With r records some take part with chance 1-(1-q)^r, and then move the sum by at most the bound.
    missing = certificate.records_per_person * math.log1p(-sampling.rate) if sampling.rate < 1 else -math.inf
    replace = certificate.relation is Relation.REPLACE_ONE
    return -math.expm1(missing), Scheme.POISSON_REPLACE if replace else Scheme.POISSON_ADD_OR_REMOVE


@_sampling.register
def _(sampling: FixedSizeSampling, certificate: Certificate) -> tuple[float, Scheme]:
    if certificate.relation is not Relation.REPLACE_ONE or certificate.records_per_person != 1:
        raise InputError(
            "fixed-size sampling is accounted for replace-one neighbours and one record per person, got "
            f"{certificate.relation.value} and {certificate.records_per_person}; use Poisson sampling."
        )
    return sampling.size / sampling.population, Scheme.FIXED_SIZE_REPLACE


def objective_epsilon(certificate: Certificate, rate: float) -> float:
    """Epsilon of one objective perturbation (C2): `rate*bound`, plus `log_jacobian` below the free rate."""
    cost = checks.positive("rate", rate) * certificate.bound
    free = certificate.jacobian_free_rate
    return cost if free is not None and rate >= free else cost + certificate.log_jacobian
