"""What every regulariser has to keep. A test class inherits `RegulariserContract` and names its instances:

    class TestMine(RegulariserContract):
        instances = (Mine(1.0), Mine(0.0))

Points have `DIMENSION` coordinates. Everything is checked through `value` alone, so that a proximal map and a
residual that agree with each other but not with the function are found out.
"""

import dataclasses
import math
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import optimize

from dpadmm.errors import InputError
from dpadmm.problems.declared import refute_regulariser

DIMENSION = 3
REPLICAS = 2

# Each subclass runs the inherited tests with its own instances; hypothesis would take that for an accident.
property_test = settings(
    deadline=None, derandomize=True, max_examples=30, suppress_health_check=[HealthCheck.differing_executors]
)
# Plain numbers, and the points where kinks and walls of the test instances sit.
coordinates = st.one_of(st.floats(-8, 8), st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0]))
points = arrays(np.float64, (DIMENSION, REPLICAS), elements=coordinates)
steps = st.floats(1e-2, 1e2)


def sampled(seed, count=400, spread=3.0):
    """Points with some coordinates exactly zero, as columns."""
    rng = np.random.default_rng(seed)
    x = spread * rng.standard_normal((DIMENSION, count))
    return np.where(rng.random(x.shape) < 0.2, 0.0, x)


class RegulariserContract:
    """The suite; `regulariser` runs through the instances of the subclass."""

    instances: ClassVar[tuple]

    def pytest_generate_tests(self, metafunc):
        """Run each test for each instance."""
        if "regulariser" in metafunc.fixturenames:
            metafunc.parametrize("regulariser", self.instances, ids=repr)

    def feasible(self, regulariser, x):
        """Move points into the domain; the proximal map does, once it is known to be a minimiser."""
        return regulariser.prox(x, 1.0)

    @property_test
    @given(v=points, y=points, step=steps)
    def test_prox_satisfies_the_subgradient_inequality(self, regulariser, v, y, step):
        """p = prox(v) if and only if g(y) >= g(p) + <(v - p)/step, y - p> for all y."""
        p = regulariser.prox(v, step)
        y = np.concatenate([y, self.feasible(regulariser, y)], axis=1)
        p, v = np.tile(p, 2), np.tile(v, 2)
        assert np.isfinite(regulariser.value(p)).all()
        slope = (v - p) / step
        bound = regulariser.value(p) + np.sum(slope * (y - p), axis=0)
        scale = 1 + np.abs(regulariser.value(p)) + np.sum(np.abs(slope) * (np.abs(y) + np.abs(p)), axis=0)
        assert (regulariser.value(y) >= bound - 1e-12 * scale).all()

    def test_what_it_declares_is_not_refuted(self, regulariser):
        refute_regulariser(regulariser, DIMENSION)

    @property_test
    @given(v=points, step=steps)
    def test_prox_leaves_no_residual(self, regulariser, v, step):
        p = regulariser.prox(v, step)
        residual = regulariser.subgradient_residual(p, (p - v) / step)
        assert residual.shape == (REPLICAS,)
        assert (residual <= 1e-13 * (1 + np.abs(v).max()) * (1 + 1 / step)).all()

    @pytest.mark.parametrize("step", [0.2, 3.0])
    def test_prox_against_brute_force(self, regulariser, step):
        """Coordinate by coordinate, the minimum over a grid that is refined around its best point.

        The grid holds multiples of 1/4, so it hits the kinks and walls of the instances.
        """
        v = np.array([[-3.0, 0.3], [0.7, 4.0], [1.5, -0.05]])
        p = regulariser.prox(v, step)
        for j, r in np.ndindex(v.shape):

            def objective(t, j=j, r=r):
                x = p[:, r : r + 1].copy()
                x[j] = t
                return float(regulariser.value(x)[0] + (t - v[j, r]) ** 2 / (2 * step))

            low, high = -6.0, 6.0
            for _ in range(5):
                best = float(optimize.brute(lambda t: objective(t[0]), [(low, high)], Ns=49, finish=None))
                spacing = (high - low) / 48
                low, high = best - spacing, best + spacing
            assert p[j, r] == pytest.approx(best, abs=2 * spacing)
            assert objective(p[j, r]) <= objective(best) + 1e-13

    @property_test
    @given(v=points, w=points, step=steps)
    def test_prox_is_firmly_non_expansive(self, regulariser, v, w, step):
        """<p - q, v - w> >= (1 + step m) ||p - q||^2, m the modulus of strong convexity."""
        moved = regulariser.prox(v, step) - regulariser.prox(w, step)
        inner, square = np.sum(moved * (v - w), axis=0), np.sum(moved**2, axis=0)
        slack = 1e-13 * np.sum((np.abs(v) + np.abs(w)) ** 2, axis=0)
        assert (inner >= (1 + step * regulariser.strong_convexity) * square - slack).all()

    @property_test
    @given(x=points, g=points)
    def test_residual_is_the_speed_of_a_short_proximal_step(self, regulariser, x, g):
        """(x - prox(x - t g, t)) / t tends to the shortest vector of g + subdifferential(x) as t falls."""
        x, t = self.feasible(regulariser, np.round(x, 1)), 1e-8
        speed = np.linalg.norm(x - regulariser.prox(x - t * g, t), axis=0) / t
        np.testing.assert_allclose(regulariser.subgradient_residual(x, g), speed, rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("weight", [0.5, 0.1])
    def test_strong_convexity_is_not_beaten(self, regulariser, weight):
        x, y = (self.feasible(regulariser, sampled(seed)) for seed in (1, 2))
        gap = self._convexity_gap(regulariser, x, y, weight)
        square = np.sum((x - y) ** 2, axis=0)
        claimed = regulariser.strong_convexity * weight * (1 - weight) / 2 * square
        assert (gap >= claimed - 1e-11 * (1 + square)).all()

    @pytest.mark.parametrize("weight", [0.5, 0.1])
    def test_smoothness_is_not_beaten(self, regulariser, weight):
        assert regulariser.is_smooth == math.isfinite(regulariser.smoothness)
        if not regulariser.is_smooth:
            return
        x, y = sampled(3), sampled(4)
        gap = self._convexity_gap(regulariser, x, y, weight)
        square = np.sum((x - y) ** 2, axis=0)
        claimed = regulariser.smoothness * weight * (1 - weight) / 2 * square
        assert (gap <= claimed + 1e-11 * (1 + square)).all()

    def test_a_function_called_non_smooth_has_a_kink(self, regulariser):
        """Somewhere the subdifferential holds two slopes: two points with one proximal point."""
        v, w = sampled(5, spread=20.0), sampled(6, spread=20.0)
        same = (regulariser.prox(v, 1.0) == regulariser.prox(w, 1.0)) & (v != w)
        assert same.any() == (not regulariser.is_smooth)

    def test_lipschitz_constant_is_not_beaten_and_is_reached(self, regulariser):
        constant = regulariser.lipschitz(DIMENSION)
        x, y = sampled(7), sampled(8)
        # Equal moves of all coordinates are where the 1-norm is steepest.
        x, y = np.c_[x, np.full((DIMENSION, 1), 2.0)], np.c_[y, np.full((DIMENSION, 1), 1.0)]
        with np.errstate(invalid="ignore"):
            slopes = np.abs(regulariser.value(x) - regulariser.value(y)) / np.linalg.norm(x - y, axis=0)
        if math.isfinite(constant):
            assert slopes.max() <= constant * (1 + 1e-12)
            assert slopes.max() >= constant * (1 - 1e-12)
        else:
            far = np.full((DIMENSION, 2), [-1e6, 1e6])
            assert (regulariser.value(far) > 1e4 * np.linalg.norm(far, axis=0)).any()

    def test_columns_and_agents_are_treated_alone(self, regulariser):
        rng = np.random.default_rng(9)
        v, g = rng.standard_normal((2, 4, DIMENSION, 5)) * 2
        p = regulariser.prox(v, 0.7)
        x = np.where(rng.random(v.shape) < 0.5, p, v)
        value, residual = regulariser.value(x), regulariser.subgradient_residual(p, g)
        assert value.shape == residual.shape == (4, 5)
        assert p.shape == v.shape
        for i, r in np.ndindex(4, 5):
            one = (i, slice(None), slice(r, r + 1))
            np.testing.assert_array_equal(regulariser.prox(v[one], 0.7), p[one])
            assert regulariser.value(x[one])[0] == pytest.approx(value[i, r], rel=1e-14)
            assert regulariser.subgradient_residual(p[one], g[one])[0] == pytest.approx(residual[i, r], rel=1e-14)

    def test_steps_per_column_and_per_agent(self, regulariser):
        v = np.random.default_rng(10).standard_normal((4, DIMENSION, 5)) * 2
        per_column, per_agent = np.linspace(0.1, 3, 5), np.linspace(0.1, 3, 4)
        by_column = regulariser.prox(v, per_column)
        by_agent = regulariser.prox(v, per_agent[:, None, None])
        for r in range(5):
            np.testing.assert_array_equal(by_column[..., r], regulariser.prox(v, per_column[r])[..., r])
        for i in range(4):
            np.testing.assert_array_equal(by_agent[i], regulariser.prox(v[i], per_agent[i]))

    def test_inputs_are_not_touched_and_outputs_are_fresh(self, regulariser):
        v = np.zeros((DIMENSION, 2)) + 0.25
        p = regulariser.prox(v, 1.0)
        p += 1.0
        assert (v == 0.25).all()

    def test_nan_is_passed_on(self, regulariser):
        v = np.full((DIMENSION, 1), np.nan)
        assert np.isnan(regulariser.prox(v, 1.0)).all()

    def test_instances_are_frozen_values(self, regulariser):
        assert dataclasses.replace(regulariser) == regulariser
        assert hash(dataclasses.replace(regulariser)) == hash(regulariser)
        with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
            regulariser.strong_convexity = 5.0
        for field in dataclasses.fields(regulariser):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(regulariser, field.name, 5.0)

    @pytest.mark.parametrize("step", [0.0, -1.0, math.nan, math.inf, [1.0, -1.0]])
    def test_prox_refuses_steps(self, regulariser, step):
        with pytest.raises(InputError, match="step"):
            regulariser.prox(np.zeros((DIMENSION, 2)), step)

    def test_flat_vectors_are_refused(self, regulariser):
        x, flat = np.zeros((DIMENSION, 1)), np.zeros(DIMENSION)
        calls = [
            lambda: regulariser.value(flat),
            lambda: regulariser.prox(flat, 1.0),
            lambda: regulariser.subgradient_residual(flat, x),
            lambda: regulariser.subgradient_residual(x, flat),
        ]
        for call in calls:
            with pytest.raises(InputError, match="shape"):
                call()

    @pytest.mark.parametrize("d", [0, -1, 2.5])
    def test_lipschitz_refuses_dimensions(self, regulariser, d):
        with pytest.raises(InputError, match="d must"):
            regulariser.lipschitz(d)

    @staticmethod
    def _convexity_gap(regulariser, x, y, weight):
        """Return w g(x) + (1 - w) g(y) - g(w x + (1 - w) y)."""
        between = weight * x + (1 - weight) * y
        ends = weight * regulariser.value(x) + (1 - weight) * regulariser.value(y)
        return ends - regulariser.value(between)
