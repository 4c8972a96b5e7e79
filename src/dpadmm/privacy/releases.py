"""Privacy as data: releases are frozen records that accountants compose.

A *release* is a certificate (`dpadmm.privacy.protection`) together with the noise that was put on the value; it knows
what it costs by itself. What releases cost together is in `dpadmm.privacy.accounting`.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from enum import Enum
from typing import Self

from dpadmm import checks
from dpadmm.codec import register_union
from dpadmm.errors import InputError
from dpadmm.privacy.protection import Certificate, NeighbouringRelation, Norm


class Origin(Enum):
    """Where the noise of a release comes from; only secure noise makes a private release."""

    SECURE = "secure"
    SIMULATED = "simulated"
    NONE = "none"

    @property
    def source(self) -> str:
        """What the noise was made from."""
        return {"secure": "operating-system entropy", "simulated": "seeded generator", "none": "no noise"}[self.value]


class Scheme(Enum):
    """How a sample is drawn and what makes neighbours; each has its own pair of distributions."""

    POISSON_ADD_OR_REMOVE = "Poisson, add-or-remove"
    POISSON_REPLACE = "Poisson, replace-one"
    FIXED_SIZE_REPLACE = "fixed size, replace-one"


@dataclass(frozen=True, kw_only=True)
class PoissonSampling:
    """Every record takes part independently with probability `rate`."""

    rate: float

    def __post_init__(self) -> None:
        """Refuse rates outside (0, 1]."""
        checks.half_open_unit("rate", self.rate)

    def scheme(self, certificate: Certificate) -> tuple[float, Scheme]:
        """Return the probability that a person's records take part, and the pair of distributions to use.

        With r records some take part with probability 1-(1-q)^r, and then move the sum by at most the bound.
        """
        missing = certificate.protection.records_per_person * math.log1p(-self.rate) if self.rate < 1 else -math.inf
        replace_one = certificate.protection.relation is NeighbouringRelation.REPLACE_ONE
        return -math.expm1(missing), Scheme.POISSON_REPLACE if replace_one else Scheme.POISSON_ADD_OR_REMOVE


@dataclass(frozen=True, kw_only=True)
class FixedSizeSampling:
    """`size` of `population` records take part, drawn without replacement."""

    size: int
    population: int

    def __post_init__(self) -> None:
        """Refuse samples larger than the population."""
        checks.count("size", self.size)
        checks.count("population", self.population)
        if self.size > self.population:
            raise InputError(f"size must be at most the population {self.population}, got {self.size}.")

    @property
    def rate(self) -> float:
        """The probability that a record takes part."""
        return self.size / self.population

    def scheme(self, certificate: Certificate) -> tuple[float, Scheme]:
        """Return the probability that a person's record takes part, and the pair of distributions to use."""
        own = certificate.protection
        if own.relation is not NeighbouringRelation.REPLACE_ONE or own.records_per_person != 1:
            raise InputError(
                "fixed-size sampling is accounted for replace-one neighbours and one record per person, got "
                f"{own.relation.value} and {own.records_per_person}; use Poisson sampling."
            )
        return self.rate, Scheme.FIXED_SIZE_REPLACE


@dataclass(frozen=True)
class SampledStep:
    """One sampled Gaussian: noise over the bound of one record's term, chance to take part (< 1), scheme."""

    ratio: float
    rate: float
    scheme: Scheme

    @property
    def shift(self) -> float:
        """How far the value can move, in units of the noise, when the record surely takes part."""
        return (1.0 if self.scheme is Scheme.POISSON_ADD_OR_REMOVE else 2.0) / self.ratio


@dataclass(frozen=True)
class Cost:
    """What a value costs once, by the rule of its kind: m^2 (C0), a pure epsilon, a sampled step, or everything."""

    m_squared: float | None = None
    epsilon: float | None = None
    step: SampledStep | None = None
    is_infinite: bool = False

    @property
    def rho(self) -> float:
        """The rho of zCDP (C0): m^2/2, epsilon^2/2; of a sampled step as if all took part, which is never less."""
        if self.is_infinite:
            return math.inf
        shift = 0.0 if self.step is None else self.step.shift
        return ((self.m_squared or 0.0) + (self.epsilon or 0.0) ** 2 + shift**2) / 2


@dataclass(frozen=True, kw_only=True)
class Release(ABC):
    """What was released: by which agent, in which round, and how often with fresh noise each (`count`)."""

    agent: int
    round: int
    count: int = 1

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """What one of the `count` values costs, or `InputError` if certificate and noise do not fit."""

    @property
    @abstractmethod
    def bound(self) -> float:
        """How far one unit moves the value before its noise; infinite where that is not known."""

    @property
    @abstractmethod
    def noise_ratio(self) -> float:
        """The noise over the bound: std/bound, or 1/(rate bound) for Laplace noise."""


@dataclass(frozen=True, kw_only=True)
class BareRelease(Release):
    """A value released without noise although it depends on private data: infinite epsilon."""

    reason: str
    cost = Cost(is_infinite=True)
    bound = math.inf
    noise_ratio = 0.0


@dataclass(frozen=True, kw_only=True)
class NoisyRelease(Release):
    """A certified value with noise on it."""

    certificate: Certificate

    @property
    def bound(self) -> float:
        """The certificate's bound."""
        return self.certificate.bound

    @property
    @abstractmethod
    def noise(self) -> float:
        """The noise as it is calibrated: a std per coordinate, or a rate for the Laplace families."""

    @property
    @abstractmethod
    def level(self) -> float:
        """The noise as a length: a std per coordinate, or the scale of Laplace noise."""

    @property
    def noise_ratio(self) -> float:
        """The noise over the bound: std/bound, or 1/(rate bound) for Laplace noise."""
        return self.level / self.bound if self.bound else math.inf

    @abstractmethod
    def scale_noise(self, factor: float) -> Self:
        """Return the release with its noise multiplied."""

    def _additive(self) -> Certificate:
        """The certificate of additive noise; one of an objective perturbation does not fit."""
        if self.certificate.log_jacobian > 0:
            raise InputError(
                f"{type(self).__name__} got a certificate with log_jacobian {self.certificate.log_jacobian}, which "
                "belongs to objective perturbation; use ObjectiveRelease or a certificate of the released value itself."
            )
        return self.certificate


@dataclass(frozen=True, kw_only=True)
class _WithGaussianNoise(NoisyRelease):
    noise_std: float

    @property
    def noise(self) -> float:
        return self.noise_std

    @property
    def level(self) -> float:
        return self.noise_std

    def scale_noise(self, factor: float) -> Self:
        return replace(self, noise_std=self.noise_std * factor)


@dataclass(frozen=True, kw_only=True)
class GaussianRelease(_WithGaussianNoise):
    """The value plus N(0, noise_std^2 I), `count` times with fresh noise each."""

    @property
    def cost(self) -> Cost:
        """`m^2 = (bound/noise_std)^2` (C0). An L1 bound is also an L2 bound, so both norms are good here."""
        bound, std = self._additive().bound, checks.non_negative("noise_std", self.noise_std)
        if bound == 0:
            return Cost()
        if std == 0:
            return Cost(is_infinite=True)
        ratio = bound / std * self.grid_factor
        return Cost(m_squared=ratio * ratio)

    @property
    def grid_factor(self) -> float:
        """The factor `1 + grid^2/(4 noise_std^2)` on m that pays for discrete noise (C8); 1 without a grid."""
        grid = self.certificate.grid
        return 1.0 if grid is None else 1.0 + (0.5 * grid / checks.positive("noise_std", self.noise_std)) ** 2


@dataclass(frozen=True, kw_only=True)
class SummedGaussianRelease(GaussianRelease):
    """The sum of `silos` values under masks, each with its share of the noise (C12).

    noise_std: what the shares of all silos but the certificate's `colluders` amount to, which nobody can take off.
    """

    silos: int

    @property
    def honest(self) -> int:
        """How many silos' shares hide the sum from colluders, N - t."""
        return checks.count("honest silos", self.silos - self.certificate.protection.n_colluders, least=2)

    @property
    def share_std(self) -> float:
        """The noise that each silo adds."""
        return self.noise_std / math.sqrt(self.honest)

    @property
    def total_std(self) -> float:
        """The noise of the sum that is released."""
        return self.share_std * math.sqrt(self.silos)

    def share(self, agent: int) -> GaussianRelease:
        """Return what one silo sends: alone, without masks, it would cost `honest` times as much m^2."""
        return replace(self.hidden_by(1), agent=agent)

    def hidden_by(self, silos: int) -> GaussianRelease:
        """Return what is left to hide the value where all but so many silos look: the shares of these."""
        noise_std = self.share_std * math.sqrt(checks.count("silos", silos))
        return GaussianRelease(
            certificate=self.certificate, noise_std=noise_std, agent=self.agent, round=self.round, count=self.count
        )

    def counted_for(self, colluders: int) -> "SummedGaussianRelease":
        """Return the same shares, counted against another number of colluders, at least two silos being honest."""
        protection = replace(self.certificate.protection, colluders=colluders)
        certificate = replace(self.certificate, protection=protection)
        return replace(self, certificate=certificate, noise_std=self.hidden_by(self.silos - colluders).noise_std)


@dataclass(frozen=True, kw_only=True)
class SampledGaussianRelease(_WithGaussianNoise):
    """A sum over a random sample plus N(0, noise_std^2 I); the certificate bounds one record's term in the sum.

    Under replace-one a neighbour swaps one term for another, so the value moves by up to twice the bound.
    """

    sampling: PoissonSampling | FixedSizeSampling

    @property
    def cost(self) -> Cost:
        """One sampled step (C4), or a plain Gaussian if everyone takes part."""
        certificate, std = self._additive(), checks.non_negative("noise_std", self.noise_std)
        if not isinstance(self.sampling, PoissonSampling | FixedSizeSampling):
            raise InputError(
                f"no accounting rule for sampling by {type(self.sampling).__name__}; use PoissonSampling or "
                "FixedSizeSampling."
            )
        rate, scheme = self.sampling.scheme(certificate)
        if certificate.bound == 0:
            return Cost()
        if std == 0:
            return Cost(is_infinite=True)
        step = SampledStep(std / certificate.bound, rate, scheme)
        return Cost(step=step) if rate < 1 else Cost(m_squared=step.shift**2)


@dataclass(frozen=True, kw_only=True)
class _WithSphericalNoise(NoisyRelease):
    rate: float

    @property
    def noise(self) -> float:
        return self.rate

    @property
    def level(self) -> float:
        return 1.0 / self.rate

    def scale_noise(self, factor: float) -> Self:
        return replace(self, rate=self.rate / factor)


@dataclass(frozen=True, kw_only=True)
class SphericalLaplaceRelease(_WithSphericalNoise):
    """The value plus noise of density proportional to exp(-rate ||v||_2)."""

    @property
    def cost(self) -> Cost:
        """Pure: `rate bound`."""
        return Cost(epsilon=checks.positive("rate", self.rate) * self._additive().bound)


@dataclass(frozen=True, kw_only=True)
class ObjectiveRelease(_WithSphericalNoise):
    """The minimiser of an objective with a random linear term of density proportional to exp(-rate ||b||_2)."""

    @property
    def cost(self) -> Cost:
        """Pure (C2): `rate bound`, plus `log_jacobian` below the free rate."""
        return Cost(epsilon=objective_epsilon(self.certificate, self.rate))


@dataclass(frozen=True, kw_only=True)
class CoordinateLaplaceRelease(NoisyRelease):
    """The value plus independent Laplace noise of scale `scale` on each coordinate (L1 certificate)."""

    scale: float

    @property
    def noise(self) -> float:
        """The rate 1/scale."""
        return 1.0 / self.scale

    @property
    def level(self) -> float:
        """The scale."""
        return self.scale

    def scale_noise(self, factor: float) -> Self:
        """Return the release with its scale multiplied."""
        return replace(self, scale=self.scale * factor)

    @property
    def cost(self) -> Cost:
        """Pure: `bound/scale`, for a bound in the L1 norm."""
        certificate = self._additive()
        if certificate.norm is not Norm.L1:
            raise InputError(
                f"coordinate-wise Laplace noise needs a bound in the l1 norm, got {certificate.norm.value}; multiply "
                "an l2 bound by sqrt(dimension), or use spherical Laplace noise."
            )
        return Cost(epsilon=certificate.bound / checks.positive("scale", self.scale))


KINDS: tuple[type[Release], ...] = (
    GaussianRelease,
    SummedGaussianRelease,
    SampledGaussianRelease,
    SphericalLaplaceRelease,
    CoordinateLaplaceRelease,
    ObjectiveRelease,
    BareRelease,
)
"""Every kind of release."""
register_union(Release, KINDS)


def objective_epsilon(certificate: Certificate, rate: float) -> float:
    """Epsilon of one objective perturbation (C2): `rate*bound`, plus `log_jacobian` below the free rate."""
    cost = checks.positive("rate", rate) * certificate.bound
    free = certificate.jacobian_free_rate
    return cost if free is not None and rate >= free else cost + certificate.log_jacobian


def seen_noise(release: NoisyRelease) -> float:
    """Return the noise of a released value, all silos' shares included where it is a sum of them."""
    return release.total_std if isinstance(release, SummedGaussianRelease) else release.level
