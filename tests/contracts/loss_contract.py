"""What every loss has to keep. A test class inherits `LossContract` and names its instances:

    class TestMine(LossContract):
        instances = (Mine(1.0),)

The slope is checked through `value`, the curvature through `slope`, and the proximal map through `slope` and against
a plain minimisation of `value`, so that no two of them can be wrong together.
"""

from typing import ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scipy import optimize

from dpadmm.problems.declared import refute_loss

EPS = float(np.finfo(np.float64).eps)

# Each subclass runs the inherited tests with its own instances; hypothesis would take that for an accident.
property_test = settings(
    deadline=None, derandomize=True, max_examples=60, suppress_health_check=[HealthCheck.differing_executors]
)
numbers = st.one_of(st.floats(-5, 5), st.floats(-1e4, 1e4), st.sampled_from([-1.0, 0.0, 0.5, 0.99, 1.0]))
STEPS = np.logspace(-6, 6, 13)
POINTS = np.concatenate([-np.logspace(4, -3, 36), [0.0], np.logspace(-3, 4, 36), np.linspace(-2, 2, 81)])


def column(*values):
    """The numbers as an array."""
    return np.array(values, dtype=float)


class LossContract:
    """The suite; `loss` runs through the instances of the subclass."""

    instances: ClassVar[tuple]

    def pytest_generate_tests(self, metafunc):
        """Run each test for each instance."""
        if "loss" in metafunc.fixturenames:
            metafunc.parametrize("loss", self.instances, ids=repr)

    def kinks(self, loss):
        """Where the curvature jumps: away from them the differences below must agree, so none may be missing."""
        return loss.form.kinks

    def smooth_points(self, loss, distance):
        """A grid that keeps its distance from the kinks."""
        far = np.ones(len(POINTS), dtype=bool)
        for kink in self.kinks(loss):
            far &= np.abs(POINTS - kink) > distance * (1 + np.abs(POINTS))
        return POINTS[far]

    def test_slope_is_the_derivative_of_value(self, loss):
        t = self.smooth_points(loss, 2e-5)
        h = 1e-5 * (1 + np.abs(t))
        difference = (loss.value(t + h) - loss.value(t - h)) / (2 * h)
        rounding = EPS * np.abs(loss.value(t)) / h
        tolerance = 4 * rounding + 1e-9 * (1 + np.abs(t))
        assert (np.abs(difference - loss.slope(t)) <= tolerance).all()

    def test_curvature_is_the_derivative_of_slope(self, loss):
        t = self.smooth_points(loss, 2e-6)
        h = 1e-6 * (1 + np.abs(t))
        difference = (loss.slope(t + h) - loss.slope(t - h)) / (2 * h)
        tolerance = 1e-8 * loss.curvature_bound + 4 * EPS * (np.abs(loss.slope(t)) + loss.curvature(t) * np.abs(t)) / h
        assert (np.abs(difference - loss.curvature(t)) <= tolerance).all()

    def test_curvature_at_a_kink_is_one_of_the_two_sides(self, loss):
        for kink in self.kinks(loss):
            sides = loss.curvature(column(kink - 1e-9, kink + 1e-9))
            assert np.abs(loss.curvature(column(kink)) - sides).min() <= 1e-8 * sides.max()

    def test_slope_and_value_are_continuous_at_kinks(self, loss):
        for kink in self.kinks(loss):
            around = column(kink - 1e-12, kink, kink + 1e-12)
            assert np.ptp(loss.slope(around)) <= 1e-11 * loss.curvature_bound
            assert np.ptp(loss.value(around)) <= 1e-11 * (1 + abs(loss.value(around)).max())

    @pytest.mark.parametrize("step", STEPS)
    def test_prox_solves_its_equation(self, loss, step):
        """s - t + step * slope(s) = 0, up to the rounding of s and of the terms."""
        t = POINTS
        s = loss.prox(t, np.full_like(t, step))
        residual = s - t + step * loss.slope(s)
        flat_side = np.minimum(loss.curvature_bound, np.maximum(loss.curvature(s - 1e-9), loss.curvature(s + 1e-9)))
        sizes = 1 + np.abs(t) + np.abs(s) * (1 + step * flat_side) + step * np.abs(loss.slope(s)) + step * flat_side
        assert (np.abs(residual) <= 8 * EPS * sizes).all()

    @pytest.mark.parametrize("step", [1e-3, 0.1, 1.0, 26.0])
    def test_prox_against_a_plain_minimisation(self, loss, step):
        for t in (-30.0, -3.0, -1.3, -0.2, 0.0, 0.4, 0.995, 1.0, 7.0):
            self.check_prox_against_a_plain_minimisation(loss, t, step)

    def check_prox_against_a_plain_minimisation(self, loss, t, step):
        """Golden sections find the minimiser to about the root of the machine precision."""

        def objective(s):
            return float(loss.value(column(s))[0]) + (s - t) ** 2 / (2 * step)

        reach = 1.0 + abs(t) + step
        found = optimize.minimize_scalar(objective, bounds=(t - reach, t + reach), options={"xatol": 1e-12})
        ours = loss.prox(column(t), column(step))[0]
        assert abs(ours - found.x) <= 1e-5 * (1 + abs(t)) * max(1.0, np.sqrt(step))
        assert objective(ours) <= objective(found.x) + 1e-12 * (1 + abs(objective(found.x)))

    def test_prox_broadcasts_steps_and_keeps_shapes(self, loss):
        t = np.linspace(-3, 3, 6).reshape(2, 3)
        step = np.array([[0.5], [2.0]])
        together = loss.prox(t, step)
        assert together.shape == (2, 3)
        for i in range(2):
            for j in range(3):
                alone = loss.prox(column(t[i, j]), column(step[i, 0]))[0]
                assert abs(together[i, j] - alone) <= 4 * EPS * (1 + abs(alone))

    @property_test
    @given(a=numbers, b=numbers)
    @example(a=0.0, b=1e-8)
    def test_bounds_are_never_beaten(self, loss, a, b):
        slopes, curvatures = loss.slope(column(a, b)), loss.curvature(column(a, b))
        assert (np.abs(slopes) <= loss.slope_bound).all()
        assert (curvatures >= 0).all()
        assert (curvatures <= loss.curvature_bound * (1 + 2 * EPS)).all()
        rise = (slopes[1] - slopes[0]) * np.sign(b - a)
        rounding = 4 * EPS * (np.abs(slopes).max() + loss.curvature_bound * max(1.0, abs(a), abs(b)))
        assert -rounding <= rise <= loss.curvature_bound * abs(b - a) + rounding

    def test_bounds_are_nearly_attained(self, loss):
        t = np.concatenate([POINTS, np.linspace(-3, 3, 6001), self.kinks(loss)])
        assert loss.curvature(t).max() >= 0.9999 * loss.curvature_bound
        if np.isfinite(loss.slope_bound):
            assert np.abs(loss.slope(t)).max() >= 0.9999 * loss.slope_bound
        else:
            assert np.abs(loss.slope(column(1e12)))[0] >= 1e12

    @property_test
    @given(a=numbers, b=numbers, share=st.floats(0, 1))
    def test_value_is_convex_and_not_negative(self, loss, a, b, share):
        middle = share * a + (1 - share) * b
        at_a, at_b, at_middle = loss.value(column(a, b, middle))
        rounding = 8 * EPS * (abs(at_a) + abs(at_b) + (1 + abs(a) + abs(b)) * abs(loss.slope(column(a, b))).max() + 1)
        assert at_middle <= share * at_a + (1 - share) * at_b + rounding
        assert min(at_a, at_b, at_middle) >= 0

    @property_test
    @given(a=numbers, b=numbers, step=st.floats(1e-6, 1e6))
    def test_prox_is_monotone_and_never_spreads_points(self, loss, a, b, step):
        low, high = min(a, b), max(a, b)
        p, q = loss.prox(column(low, high), column(step, step))
        rounding = 8 * EPS * (abs(a) + abs(b) + abs(p) + abs(q) + 1)
        assert -rounding <= q - p <= high - low + rounding

    @pytest.mark.parametrize("t", [-1e300, -1e150, 1e150, 1e300])
    def test_far_out_nothing_overflows(self, loss, t):
        """Warnings are errors here, so an overflow on the way is found too."""
        at = column(t)
        results = [loss.slope(at), loss.curvature(at), loss.prox(at, column(1.0)), loss.prox(at, column(1e-6))]
        if np.isfinite(loss.slope_bound):  # t^2/2 itself does not fit a float
            results.append(loss.value(at))
        assert np.isfinite(results).all()

    def test_form_describes_the_slope(self, loss):
        np.testing.assert_allclose(loss.form.slope(POINTS), loss.slope(POINTS), rtol=4 * EPS, atol=4 * EPS)

    def test_what_it_declares_is_not_refuted(self, loss):
        refute_loss(loss)

    def test_constants_cannot_be_changed(self, loss):
        for name in ("slope_bound", "curvature_bound", "target", "form"):
            with pytest.raises((AttributeError, TypeError)):
                setattr(loss, name, 0.01)
            with pytest.raises(TypeError):
                type(loss)(**{name: 0.01})
