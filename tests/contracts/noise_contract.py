"""What every sampler has to keep. A test class inherits `NoiseContract` and provides a fixture `sampler`.

Each statistical test has two sides: the promised scale passes at a false-alarm rate of 1e-6, and 0.9 and 1.1 times
it are rejected at the same level. 100,000 samples each.
"""

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats
from tests.contracts.certificates import changed

from dpadmm.noise.mechanisms import MessageKind
from dpadmm.noise.sampler import Draw, grid_for
from dpadmm.privacy.protection import ONE_RECORD, Certificate, Norm
from dpadmm.privacy.releases import (
    CoordinateLaplaceRelease,
    GaussianRelease,
    ObjectiveRelease,
    PoissonSampling,
    SampledGaussianRelease,
    SphericalLaplaceRelease,
)

FALSE_ALARM = 1e-6
Z = stats.norm.isf(FALSE_ALARM / 2)
AGENTS, DIMENSION = 1000, 100
SCALE = 1.7
MESSAGE = MessageKind("message")


def certificate(scale=SCALE, dimension=DIMENSION, norm=Norm.L2, **changes):
    """A certificate on the grid of noise of that scale."""
    plain = Certificate(bound=1.0, protection=ONE_RECORD, theorem="test", assumptions=("none",))
    return changed(plain, **{"norm": norm, "grid": grid_for(scale), "grid_dimension": dimension} | changes)


def gaussian(scale=SCALE, agent=0, round=1, **changes):
    return GaussianRelease(certificate=certificate(scale, **changes), noise_std=scale, agent=agent, round=round)


def sampled_gaussian(scale=SCALE, agent=0, round=1, **changes):
    return SampledGaussianRelease(
        certificate=certificate(scale, **changes),
        noise_std=scale,
        sampling=PoissonSampling(rate=0.1),
        agent=agent,
        round=round,
    )


def laplace(scale=SCALE, agent=0, round=1, **changes):
    mechanism = certificate(scale, norm=Norm.L1, **changes)
    return CoordinateLaplaceRelease(certificate=mechanism, scale=scale, agent=agent, round=round)


def spherical(scale=SCALE, agent=0, round=1, **changes):
    return SphericalLaplaceRelease(certificate=certificate(**changes), rate=1 / scale, agent=agent, round=round)


def objective(scale=SCALE, agent=0, round=1, **changes):
    return ObjectiveRelease(certificate=certificate(**changes), rate=1 / scale, agent=agent, round=round)


RELEASES = [gaussian, sampled_gaussian, laplace, spherical, objective]
COORDINATES = {gaussian: lambda s: stats.norm(scale=s), laplace: lambda s: stats.laplace(scale=s)}
KURTOSIS = {gaussian: 3.0, laplace: 6.0}


def message(round=1, agents=AGENTS, replicas=1, kind=MESSAGE):
    return Draw(kind, round, agents, replicas)


@cache
def noise(sampler, make, kind=MESSAGE, round=1, agents=AGENTS, dimension=DIMENSION):
    """The noise on zeros, (agents, dimension); drawn once per case, as secure noise is slow."""
    values = np.zeros((agents, dimension, 1))
    return sampler.perturb(values, make(round=round), message(round, agents, kind=kind))[:, :, 0]


def correlations(x, y):
    """Standardised correlations of two equal shapes, of the values and of their squares."""
    x, y = np.ravel(x), np.ravel(y)
    return [np.corrcoef(a, b)[0, 1] * math.sqrt(x.size) for a, b in ((x, y), (x**2, y**2))]


def is_independent(x, y):
    """Neither the values nor their squares are correlated."""
    return all(abs(z) < Z for z in correlations(x, y))


class NoiseContract:
    """The suite; subclasses provide the fixture `sampler`."""

    @pytest.mark.parametrize("make", [gaussian, laplace])
    def test_kolmogorov_smirnov(self, sampler, make):
        x = noise(sampler, make).ravel()
        assert stats.kstest(x, COORDINATES[make](SCALE).cdf).pvalue > FALSE_ALARM
        for wrong in (0.9, 1.1):
            assert stats.kstest(x, COORDINATES[make](SCALE * wrong).cdf).pvalue < FALSE_ALARM

    @pytest.mark.parametrize("make", [gaussian, laplace])
    def test_mean_and_variance(self, sampler, make):
        x = noise(sampler, make).ravel()
        assert abs(x.mean()) * math.sqrt(x.size / COORDINATES[make](SCALE).var()) < Z

        def z(scale):
            expected = COORDINATES[make](scale).var()
            return (np.mean(x**2) / expected - 1) * math.sqrt(x.size / (KURTOSIS[make] - 1))

        assert abs(z(SCALE)) < Z
        assert z(0.9 * SCALE) > Z
        assert z(1.1 * SCALE) < -Z

    @pytest.mark.parametrize("make", [spherical, objective])
    @pytest.mark.parametrize("dimension", [1, 2, 5])
    def test_spherical_norm_is_gamma(self, sampler, make, dimension):
        norms = np.linalg.norm(noise(sampler, make, agents=100_000, dimension=dimension), axis=1)
        assert stats.kstest(norms, stats.gamma(dimension, scale=SCALE).cdf).pvalue > FALSE_ALARM
        for wrong in (0.9, 1.1):
            assert stats.kstest(norms, stats.gamma(dimension, scale=wrong * SCALE).cdf).pvalue < FALSE_ALARM

    def test_spherical_direction_is_uniform(self, sampler):
        d, n = 5, 100_000
        v = noise(sampler, spherical, agents=n, dimension=d)
        norms = np.linalg.norm(v, axis=1)
        w = v / norms[:, None]
        for j in range(d):  # the square of a coordinate of a uniform direction is Beta(1/2, (d-1)/2)
            assert stats.kstest(w[:, j] ** 2, stats.beta(0.5, (d - 1) / 2).cdf).pvalue > FALSE_ALARM
            assert abs(w[:, j].mean()) * math.sqrt(n * d) < Z
            assert is_independent(w[:, j], norms)
        assert abs(np.linalg.norm(w.mean(axis=0)) ** 2 * n * d - d) < 60  # chi-square with d degrees of freedom
        for j in range(d - 1):
            assert abs(correlations(w[:, j], w[:, j + 1])[0]) < Z

    def test_spherical_in_one_dimension_has_both_signs(self, sampler):
        v = noise(sampler, spherical, agents=100_000, dimension=1)
        assert abs(np.mean(v > 0) - 0.5) * 2 * math.sqrt(v.size) < Z

    def test_agents_coordinates_rounds_and_slots_are_independent(self, sampler):
        x = noise(sampler, gaussian, agents=200)
        for other in (
            noise(sampler, gaussian, agents=200, round=2),
            noise(sampler, gaussian, agents=200, kind=MessageKind("objective")),
            noise(sampler, gaussian, agents=200, kind=MessageKind("message", 1)),
        ):
            assert is_independent(x, other)
            assert is_independent(x[:, 1:], other[:, :-1])
            assert is_independent(x[1:], other[:-1])
        assert is_independent(x[1:], x[:-1])
        assert is_independent(x[:, 0::2], x[:, 1::2])
        assert is_independent(x[:, 2:], x[:, :-2])

    @pytest.mark.parametrize("make", RELEASES)
    def test_noise_is_added_to_the_values(self, sampler, make):
        values = np.arange(6.0).reshape(2, 3, 1) * 1e6
        result = sampler.perturb(values, make(scale=1e-3), message(agents=2))
        assert np.all(result != values)
        assert np.max(np.abs(result - values)) < 0.1

    @pytest.mark.parametrize("make", [gaussian, laplace, spherical])
    def test_each_agent_gets_its_own_scale(self, sampler, make):
        values = np.zeros((2, 200, 1))
        releases = [make(1e-3, agent=0, dimension=200), make(1e3, agent=1, dimension=200)]
        result = sampler.perturb(values, releases, message(agents=2))
        assert np.max(np.abs(result[0])) < 1
        assert np.median(np.abs(result[1])) > 10

    def test_the_values_stay(self, sampler):
        values = np.zeros((1, 4, 1))
        values.flags.writeable = False
        assert np.all(sampler.perturb(values, gaussian(), message(agents=1)) != 0)
