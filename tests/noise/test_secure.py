"""Secure noise: the contract, exactness on the grid, and everything that must be refused."""

import math
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.contracts.local_facts import of
from tests.contracts.noise_contract import (
    RELEASES,
    SCALE,
    NoiseContract,
    gaussian,
    laplace,
    message,
    noise,
    objective,
    sampled_gaussian,
    spherical,
)

from dpadmm.noise import sampler
from dpadmm.noise.exact import GAUSSIAN, LAPLACE
from dpadmm.noise.sampler import SecureSampler, grid_for
from dpadmm.privacy.certificates.gradients import full_gradient
from dpadmm.privacy.protection import secure_grid
from dpadmm.privacy.releases import GaussianRelease

DISCRETE = [gaussian, sampled_gaussian, laplace]
SAMPLER = SecureSampler()


class TestSecureSampler(NoiseContract):
    @pytest.fixture
    def sampler(self):
        return SAMPLER


@pytest.mark.parametrize("make", DISCRETE)
def test_results_are_multiples_of_the_grid(make):
    values = np.array([0.1, -1 / 3, 1e5, 2.0**-60]).reshape(2, 2, 1)
    result = SAMPLER.perturb(values, make(), message(agents=2))
    multiples = result / grid_for(SCALE)
    np.testing.assert_array_equal(multiples, np.rint(multiples))


@pytest.mark.parametrize("make", DISCRETE)
@pytest.mark.parametrize("scale", [SCALE, 1e-3])
def test_values_at_both_sides_of_cell_edges_go_to_the_nearest_multiple(make, scale, monkeypatch):
    """With the noise taken away: no coarser grid, no cutting off, by so much as a bit."""
    monkeypatch.setattr(sampler.exact, "draw", lambda law, scale, count: np.zeros(count, dtype=np.int64))
    grid = grid_for(scale)
    edges = grid * (np.array([0, 1, -7, 2**9, 2**23, -(2**30), 3**20]) + 0.5)
    values = np.concatenate([np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf), edges - grid / 2])
    result = SAMPLER.perturb(values.reshape(1, -1, 1), make(scale, dimension=values.size), message(agents=1))
    expected = grid * np.concatenate([np.floor(edges / grid), np.ceil(edges / grid), np.rint(values[14:] / grid)])
    np.testing.assert_array_equal(result[0, :, 0], expected)
    assert np.max(np.abs(result[0, :, 0] - values)) <= grid / 2


@pytest.mark.parametrize("make", DISCRETE)
def test_every_residue_of_the_grid_occurs(make):
    """Were the noise drawn on a coarser grid, or in floats, the last bits would show it."""
    x = np.zeros((1, 4096, 1))
    multiples = SAMPLER.perturb(x, make(dimension=4096), message(agents=1)) / grid_for(SCALE)
    counts = np.bincount(multiples.astype(np.int64).ravel() % 8, minlength=8)
    assert stats.chisquare(counts).pvalue > 1e-6


def test_agents_of_different_noise_keep_their_own_grids():
    releases = [gaussian(2.0**-20, agent=0), gaussian(3.0, agent=1), gaussian(2.0**-20, agent=2)]
    values = np.array([1.0, 1e6, -1.0]).reshape(3, 1, 1)
    result = SAMPLER.perturb(values, releases, message(agents=3))
    multiples = result.ravel() / [2.0**-44, 2.0**-23, 2.0**-44]
    np.testing.assert_array_equal(multiples, np.rint(multiples))
    assert np.all(np.abs(result - values).ravel() < [1e-4, 100, 1e-4])


@pytest.mark.parametrize("make", DISCRETE)
def test_agents_of_different_noise_get_their_own(make):
    """Silos of different sizes have different noise, in one draw and on one grid or on several."""
    scales = [1.0, 1.9, 3.0, 1.4]
    releases = [make(scale, agent=i, dimension=4096) for i, scale in enumerate(scales)]
    found = SAMPLER.perturb(np.zeros((4, 4096, 1)), releases, message(agents=4))
    sizes = np.abs(found[:, :, 0]).mean(axis=1)
    np.testing.assert_allclose(sizes / sizes[0], scales, rtol=0.15)


@pytest.mark.parametrize("make", RELEASES)
def test_secure_noise_is_a_private_release_and_never_repeats(make):
    values = np.zeros((1, 50, 1))
    first, second = (SAMPLER.perturb(values, make(), message(agents=1)) for _ in range(2))
    assert SAMPLER.is_secure
    assert not np.any(first == second)


@pytest.mark.parametrize(("make", "law"), [(gaussian, GAUSSIAN), (sampled_gaussian, GAUSSIAN), (laplace, LAPLACE)])
def test_the_scale_reaches_the_exact_sampler_unrounded(make, law, monkeypatch):
    """And what it draws is added as it is, in every coordinate of every silo."""
    scale, asked = 1.2345678901234567, []

    def draw(*given):
        asked.append(given)
        return np.arange(given[-1]) * 3**30

    monkeypatch.setattr(sampler.exact, "draw", draw)
    found = SAMPLER.perturb(np.full((2, 4, 1), 0.25), make(scale, dimension=4), message(agents=2))
    grid = grid_for(scale)
    assert asked == [(law, scale / grid, 8)]
    np.testing.assert_array_equal(found, (0.25 + np.arange(8) * 3**30 * grid).reshape(2, 4, 1))


@pytest.mark.parametrize("make", [spherical, objective])
def test_spherical_noise_is_made_of_entropy_alone(make, monkeypatch):
    """Noise of a short seed looks as right and can be guessed: here it is made again of the bytes that were taken."""
    taken, draw = [], os.urandom

    def urandom(size):
        taken.append(draw(size))
        return taken[-1]

    monkeypatch.setattr(sampler.os, "urandom", urandom)
    released = SAMPLER.perturb(np.zeros((2, 5, 1)), make(), message(agents=2))[:, :, 0]
    texts = np.frombuffer(b"".join(taken), dtype=np.uint64)
    radius, angle, length = ((texts >> 12) / 2.0**52 + 2.0**-53).reshape(3, 2, 5)
    normals = np.sqrt(-2 * np.log(radius)) * np.cos(2 * np.pi * angle)
    norms = -SCALE * np.log(length).sum(axis=1)
    expected = norms[:, None] * normals / np.linalg.norm(normals, axis=1, keepdims=True)
    np.testing.assert_allclose(released, expected, rtol=1e-9)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.floats(1e-290, 1e290))
def test_grid_is_a_power_of_two_and_fine_enough(scale):
    grid = grid_for(scale)
    assert math.frexp(grid)[0] == 0.5
    assert 2**24 <= scale / grid < 2**25


def test_the_widest_and_the_narrowest_grid_are_taken():
    for ratio in (2.0**-10, 2.0**-40):
        SAMPLER.perturb(np.zeros((1, 4, 1)), gaussian(1.0, grid=ratio), message(agents=1))


def test_large_values_that_fit_are_kept():
    values = np.array([2.0**38, -(2.0**38)]).reshape(1, 2, 1)
    result = SAMPLER.perturb(values, gaussian(1.0), message(agents=1))
    assert np.max(np.abs(result - values)) < 10


def test_from_certificate_to_release():
    """Calibrate roughly, choose the grid, widen, calibrate on the widened bound, draw."""
    d, gdp = 105, 0.1
    plain = of(full_gradient, gradient_bound=1, n_records=1000)
    widened = secure_grid(plain, grid=grid_for(plain.bound / gdp), dimension=d)
    assert plain.bound < widened.bound < 1.0001 * plain.bound
    release = GaussianRelease(certificate=widened, noise_std=widened.bound / gdp, agent=0, round=1)
    assert SAMPLER.perturb(np.zeros((1, d, 1)), release, message(agents=1)).shape == (1, d, 1)


def test_discrete_noise_is_symmetric_about_the_value_of_the_grid():
    x = noise(SAMPLER, gaussian)
    assert stats.binomtest(int(np.sum(x > 0)), int(np.sum(x != 0))).pvalue > 1e-6
