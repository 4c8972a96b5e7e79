"""Losses: the contract for each, closed forms and SciPy's own functions, refusals."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import special
from sklearn.metrics import mean_pinball_loss
from tests.contracts.loss_contract import POINTS, LossContract

from dpadmm.problems.losses import (
    EpsilonInsensitive,
    Huber,
    LabelKind,
    Logistic,
    Quantile,
    SmoothedHinge,
    Softmax,
    Squared,
)
from dpadmm.problems.problem import EmpiricalRisk
from dpadmm.problems.regularisers import ElasticNet
from dpadmm.problems.silos import Silos

SILOS = Silos.from_parts([0.1 * np.eye(2)], [np.ones(2)], 1.0)


class TestLogistic(LossContract):
    instances = (Logistic(),)

    def test_values(self):
        expected = [math.log1p(math.exp(-t)) if t > -30 else -t for t in POINTS]
        np.testing.assert_allclose(Logistic().value(POINTS), expected, rtol=1e-13)
        np.testing.assert_allclose(Logistic().slope(POINTS), -special.expit(-POINTS), rtol=1e-15)

    def test_tails_keep_relative_accuracy(self):
        np.testing.assert_allclose(Logistic().value(np.array([700.0])), math.exp(-700), rtol=1e-12)
        np.testing.assert_allclose(Logistic().curvature(np.array([-600.0, 600.0])), math.exp(-600), rtol=1e-12)


class TestLogisticWithCap(LossContract):
    instances = (Logistic(0.7), Logistic(0.5), Logistic(0.2), Logistic(0.999))

    def test_is_logistic_above_the_floor_and_linear_below(self):
        loss, t = Logistic(0.7), np.linspace(-30, 30, 601)
        above = t >= loss.floor
        np.testing.assert_array_equal(loss.value(t[above]), Logistic().value(t[above]))
        np.testing.assert_allclose(np.diff(loss.value(t[~above])), -0.7 * 0.1, rtol=1e-12)
        assert loss.form.width == pytest.approx(0.7, rel=1e-15)

    def test_two_records_move_a_gradient_by_nearly_twice_the_cap(self):
        """The bound 2 G of the certificates is attained by nearly opposite records that are badly wrong."""
        angle, size = 1.5, 1e3
        a, b = np.array([np.sin(angle), -np.cos(angle)]), np.array([-np.sin(angle), -np.cos(angle)])
        slopes = Logistic(0.7).slope(np.array([a[1], b[1]]) * size)
        apart = np.linalg.norm(slopes[0] * a - slopes[1] * b)
        assert 1.39 < apart <= 2 * Logistic(0.7).slope_bound


class TestSquared(LossContract):
    instances = (Squared(),)

    def test_values(self):
        np.testing.assert_array_equal(Squared().value(POINTS), POINTS**2 / 2)


class TestHuber(LossContract):
    instances = (Huber(1.0), Huber(0.05), Huber(30.0))

    @pytest.mark.parametrize("threshold", [0.05, 1.0, 30.0])
    def test_values(self, threshold):
        np.testing.assert_allclose(Huber(threshold).value(POINTS), special.huber(threshold, POINTS), rtol=1e-14)


class TestSmoothedHinge(LossContract):
    instances = (SmoothedHinge(), SmoothedHinge(0.01), SmoothedHinge(2.0))

    @pytest.mark.parametrize("width", [0.01, 0.5, 2.0])
    def test_lies_just_below_the_hinge(self, width):
        gap = np.maximum(0.0, 1.0 - POINTS) - SmoothedHinge(width).value(POINTS)
        assert (gap >= -1e-11).all()
        assert (gap <= width / 2 + 1e-11).all()
        assert gap[POINTS >= 1].max() == 0


class TestQuantile(LossContract):
    instances = (Quantile(), Quantile(0.9, 0.5), Quantile(0.05, 0.01))

    @pytest.mark.parametrize("level", [0.05, 0.5, 0.9])
    def test_lies_just_below_the_pinball_loss(self, level):
        raw = [mean_pinball_loss([0.0], [t], alpha=level) for t in POINTS]
        gap = raw - Quantile(level, 0.2).value(POINTS)
        assert (gap >= -1e-11).all()
        assert gap.max() <= 0.2 * max(level, 1 - level) ** 2 / 2 + 1e-11
        np.testing.assert_allclose(Quantile(level, 0.0).value(POINTS), raw, atol=1e-8)


class TestEpsilonInsensitive(LossContract):
    instances = (EpsilonInsensitive(), EpsilonInsensitive(1.0, 0.01), EpsilonInsensitive(0.01, 2.0))

    def test_lies_just_below_the_loss_with_corners(self):
        raw = np.maximum(np.abs(POINTS) - 0.3, 0.0)
        gap = raw - EpsilonInsensitive(0.3, 0.2).value(POINTS)
        assert (gap >= -1e-11).all()
        assert gap.max() <= 0.1 + 1e-11
        np.testing.assert_allclose(EpsilonInsensitive(0.3, 0.0).value(POINTS), raw, atol=1e-8)


@pytest.mark.parametrize(
    ("loss", "low", "high"), [(Quantile(0.9, 0.0), -0.9, 0.1), (EpsilonInsensitive(0.3, 0.0), -1, 1)]
)
def test_without_a_width_slopes_jump_and_proximal_maps_are_exact(loss, low, high):
    corner = loss.form.dead
    slopes = loss.slope(np.array([-corner - 1e-7, 0.0, corner + 1e-7]))
    np.testing.assert_allclose(slopes, [low, 0.0, high], rtol=1e-15, atol=0)
    t, step = np.linspace(-3, 3, 241), 0.7
    u = t - np.clip(t, -corner, corner)
    expected = t - np.clip(u, step * low, step * high)  # soft thresholding around each corner
    np.testing.assert_allclose(loss.prox(t, step), expected, atol=3e-8)
    assert loss.curvature_bound == math.inf


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (Logistic(), (LabelKind.SIGNS, 1.0, 0.25)),
        (Squared(), (LabelKind.REALS, math.inf, 1.0)),
        (Huber(0.3), (LabelKind.REALS, 0.3, 1.0)),
        (SmoothedHinge(0.25), (LabelKind.SIGNS, 1.0, 4.0)),
        (Quantile(0.9, 0.5), (LabelKind.REALS, 0.9, 2.0)),
        (EpsilonInsensitive(0.1, 0.5), (LabelKind.REALS, 1.0, 2.0)),
    ],
)
def test_what_each_declares(loss, expected):
    assert (loss.target, loss.slope_bound, loss.curvature_bound) == expected


class Lying(float):
    """A number that is smaller in products than in comparisons."""

    def __mul__(self, other):
        return 1e-3 * other

    __rmul__ = __mul__


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Huber, "threshold"),
        (Quantile, "level"),
        (lambda width: Quantile(0.5, width), "width"),
        (EpsilonInsensitive, "margin"),
        (SmoothedHinge, "width"),
        (Logistic, "cap"),
        (lambda cap: Softmax(3, cap), "cap"),
        (lambda l1: ElasticNet(l1, 0.5), "l1"),
        (lambda l2: ElasticNet(0.5, l2), "l2"),
        (lambda mu: EmpiricalRisk(SILOS, Logistic(), mu), "mu"),
        (lambda row_norm: replace(SILOS, row_norm=row_norm), "row_norm"),
    ],
)
def test_numbers_are_kept_as_plain_floats(kind, name):
    kept = getattr(kind(Lying(0.5)), name)
    assert type(kept) is float
    assert kept == 0.5
