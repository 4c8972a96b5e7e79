"""Facts about the distributions against SciPy, quadrature and each other."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from dpadmm.errors import InputError
from dpadmm.noise import CoordinateLaplace, Gaussian, SphericalLaplace
from dpadmm.privacy.protection import Norm

ALL = [Gaussian(0.7), SphericalLaplace(1.3), CoordinateLaplace(0.4)]


@pytest.mark.parametrize("law", ALL)
def test_density_integrates_to_one_and_to_the_variance(law):
    mass = 2 * integrate.quad(lambda x: math.exp(law.log_density([x])), 0, 40)[0]
    assert mass == pytest.approx(1, rel=1e-8)
    second = 2 * integrate.quad(lambda x: x * x * math.exp(law.log_density([x])), 0, 60)[0]
    assert second == pytest.approx(law.coordinate_variance(1), rel=1e-8)


@pytest.mark.parametrize("law", [Gaussian(0.7), SphericalLaplace(1.3)])
@pytest.mark.parametrize("d", [2, 3, 10])
def test_radial_density_is_that_of_the_norm(law, d):
    """density(v) times the area of the sphere of radius ||v|| = density of the norm."""
    for radius in (0.3, 1.0, 5.0):
        v = np.zeros(d)
        v[0] = radius
        log_area = math.log(2) + d / 2 * math.log(math.pi) - math.lgamma(d / 2) + (d - 1) * math.log(radius)
        assert law.log_density(v) + log_area == pytest.approx(law.norm_distribution(d).logpdf(radius), rel=1e-10)


@pytest.mark.parametrize("d", [1, 4])
def test_product_densities(d):
    v = np.random.default_rng(1).standard_normal(d)
    assert Gaussian(0.7).log_density(v) == pytest.approx(stats.norm(scale=0.7).logpdf(v).sum())
    assert CoordinateLaplace(0.4).log_density(v) == pytest.approx(stats.laplace(scale=0.4).logpdf(v).sum())


@pytest.mark.parametrize("law", [Gaussian(0.7), SphericalLaplace(1.3)])
@pytest.mark.parametrize("d", [1, 2, 7, 105])
def test_squared_norm_agrees_with_the_norm_distribution(law, d):
    assert law.norm is Norm.L2
    assert law.expected_squared_norm(d) == pytest.approx(law.norm_distribution(d).moment(2))
    assert law.expected_squared_norm(d) == pytest.approx(d * law.coordinate_variance(d))


@pytest.mark.parametrize("d", [1, 2, 7])
def test_laplace_coordinates(d):
    law = CoordinateLaplace(0.4)
    assert law.norm is Norm.L1
    assert law.coordinate_variance(d) == pytest.approx(stats.laplace(scale=0.4).var())
    assert law.expected_squared_norm(d) == pytest.approx(d * stats.laplace(scale=0.4).var())
    sizes = np.abs(np.random.default_rng(3).laplace(scale=0.4, size=(20_000, d))).sum(axis=1)
    assert stats.kstest(sizes, law.norm_distribution(d).cdf).pvalue > 1e-6


def test_scales():
    assert [law.scale for law in ALL] == [0.7, 1 / 1.3, 0.4]


@pytest.mark.parametrize("family", [Gaussian, SphericalLaplace, CoordinateLaplace])
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan, "1", None, True])
def test_parameters_that_are_none_are_refused(family, value):
    with pytest.raises(InputError):
        family(value)


@pytest.mark.parametrize("law", ALL)
def test_dimensions_and_points_are_checked(law):
    for fact in (law.coordinate_variance, law.expected_squared_norm, law.norm_distribution):
        with pytest.raises(InputError):
            fact(0)
    for point in (1.0, [[1.0]], []):
        with pytest.raises(InputError):
            law.log_density(point)
