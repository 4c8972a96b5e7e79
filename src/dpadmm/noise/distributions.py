"""Noise distributions as facts: scale, spread, norm, density. Nothing here draws a number.

Each is a scale family in R^d: the noise is `scale` times a parameter-free unit noise.
"""

import math
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.privacy.protection import Norm
from dpadmm.privacy.records import (
    CoordinateLaplaceRelease,
    GaussianRelease,
    ObjectiveRelease,
    SampledGaussianRelease,
    SphericalLaplaceRelease,
)


class Distribution(Protocol):
    """What every noise distribution can say about itself."""

    @property
    def scale(self) -> float:
        """The factor on the unit noise of the family."""

    @property
    def norm(self) -> Norm:
        """The norm on which alone the density depends."""

    def coordinate_variance(self, d: int) -> float:
        """Variance of one coordinate in R^d."""

    def expected_squared_norm(self, d: int) -> float:
        """Expectation of the squared Euclidean norm in R^d."""

    def norm_distribution(self, d: int) -> Any:
        """The distribution of the norm `norm` of a draw in R^d, as a frozen SciPy distribution."""

    def log_density(self, v: ArrayLike) -> float:
        """Logarithm of the density at the vector v."""


@dataclass(frozen=True)
class Gaussian:
    """N(0, std^2 I): independent normal coordinates; std > 0.

    >>> Gaussian(2.0).expected_squared_norm(3)
    12.0
    """

    std: float

    def __post_init__(self) -> None:
        """Refuse a non-positive std."""
        checks.positive("std", self.std)

    @property
    def scale(self) -> float:
        """The standard deviation of a coordinate."""
        return self.std

    @property
    def norm(self) -> Norm:
        """The density depends on the Euclidean norm alone."""
        return Norm.L2

    def coordinate_variance(self, d: int) -> float:
        """Return std^2."""
        checks.count("d", d)
        return self.std**2

    def expected_squared_norm(self, d: int) -> float:
        """Return d std^2."""
        return checks.count("d", d) * self.std**2

    def norm_distribution(self, d: int) -> Any:
        """Return std times the chi distribution with d degrees of freedom."""
        from scipy import stats  # slow to load; sampling and accounting do without

        return stats.chi(checks.count("d", d), scale=self.std)

    def log_density(self, v: ArrayLike) -> float:
        """Return -||v||^2/(2 std^2) - d log(std sqrt(2 pi))."""
        x = _vector(v)
        return float(-0.5 * np.sum((x / self.std) ** 2) - x.size * math.log(self.std * math.sqrt(2 * math.pi)))


@dataclass(frozen=True)
class SphericalLaplace:
    """Density proportional to exp(-rate ||v||_2): norm Gamma(d, 1/rate), direction uniform on the sphere; rate > 0.

    >>> SphericalLaplace(0.5).expected_squared_norm(3)
    48.0
    """

    rate: float

    def __post_init__(self) -> None:
        """Refuse a non-positive rate."""
        checks.positive("rate", self.rate)

    @property
    def scale(self) -> float:
        """1/rate: the mean norm per dimension."""
        return 1 / self.rate

    @property
    def norm(self) -> Norm:
        """The density depends on the Euclidean norm alone."""
        return Norm.L2

    def coordinate_variance(self, d: int) -> float:
        """Return (d + 1)/rate^2."""
        return (checks.count("d", d) + 1) / self.rate**2

    def expected_squared_norm(self, d: int) -> float:
        """Return d (d + 1)/rate^2."""
        return checks.count("d", d) * (d + 1) / self.rate**2

    def norm_distribution(self, d: int) -> Any:
        """Return the Gamma distribution of shape d and scale 1/rate."""
        from scipy import stats

        return stats.gamma(checks.count("d", d), scale=1 / self.rate)

    def log_density(self, v: ArrayLike) -> float:
        """Return d log rate + log Gamma(d/2) - log(2 pi^(d/2) Gamma(d)) - rate ||v||."""
        x = _vector(v)
        d = x.size
        log_sphere = math.log(2) + 0.5 * d * math.log(math.pi) - gammaln(d / 2)
        return float(d * math.log(self.rate) - gammaln(d) - log_sphere - self.rate * np.linalg.norm(x))


@dataclass(frozen=True)
class CoordinateLaplace:
    """Independent Laplace coordinates of scale `scale` > 0: density proportional to exp(-||v||_1/scale).

    >>> CoordinateLaplace(3.0).coordinate_variance(5)
    18.0
    """

    scale: float

    def __post_init__(self) -> None:
        """Refuse a non-positive scale."""
        checks.positive("scale", self.scale)

    @property
    def norm(self) -> Norm:
        """The density depends on the l1 norm alone."""
        return Norm.L1

    def coordinate_variance(self, d: int) -> float:
        """Return 2 scale^2."""
        checks.count("d", d)
        return 2 * self.scale**2

    def expected_squared_norm(self, d: int) -> float:
        """Return 2 d scale^2."""
        return 2 * checks.count("d", d) * self.scale**2

    def norm_distribution(self, d: int) -> Any:
        """Return the distribution of the l1 norm: Gamma of shape d and scale `scale`."""
        from scipy import stats

        return stats.gamma(checks.count("d", d), scale=self.scale)

    def log_density(self, v: ArrayLike) -> float:
        """Return -||v||_1/scale - d log(2 scale)."""
        x = _vector(v)
        return float(-np.sum(np.abs(x)) / self.scale - x.size * math.log(2 * self.scale))


def _vector(v: ArrayLike) -> np.ndarray[Any, np.dtype[np.float64]]:
    x = np.asarray(v, dtype=np.float64)
    if x.ndim != 1 or x.size == 0:
        raise InputError(f"A density is taken at a vector, got an array of shape {x.shape}.")
    return x


@singledispatch
def distribution_of(release: object) -> Distribution:
    """Return the noise a release promises.

    Refused: releases without noise, and Laplace noise on coordinates behind a Euclidean bound, which it does not
    protect.
    """
    raise InputError(
        f"A {type(release).__name__} promises no noise. Draw for a Gaussian or Laplace release, or use BareSampler."
    )


@distribution_of.register(GaussianRelease)
@distribution_of.register(SampledGaussianRelease)
def _(release: GaussianRelease | SampledGaussianRelease) -> Gaussian:
    return Gaussian(release.noise_std)


@distribution_of.register(SphericalLaplaceRelease)
@distribution_of.register(ObjectiveRelease)
def _(release: SphericalLaplaceRelease | ObjectiveRelease) -> SphericalLaplace:
    return SphericalLaplace(release.rate)


@distribution_of.register(CoordinateLaplaceRelease)
def _(release: CoordinateLaplaceRelease) -> CoordinateLaplace:
    if release.certificate.norm is not Norm.L1:
        raise InputError("Laplace noise on coordinates needs an L1 certificate, got one in the L2 norm.")
    return CoordinateLaplace(release.scale)
