"""The softmax loss, its cap and its link (C13): against plain formulas, finite differences and sampled curvature."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.special import softmax
from tests.contracts.centred_rows import centred_silos

from dpadmm.problems.losses import Softmax
from dpadmm.problems.problem import SoftmaxRisk
from dpadmm.problems.silos import PersonRows, Silos

LOSSES = [Softmax(3), Softmax(4, 0.7), Softmax(3, 0.5), Softmax(5, 0.2), Softmax(2, 0.9)]


def one(loss, scores, label):
    """Value and residual of one record."""
    s, y = np.asarray(scores, dtype=float)[:, None, None], np.array([label])
    return float(loss.value(s, y)[0, 0]), loss.residual(s, y)[:, 0, 0]


def drawn(loss, rng, number=60):
    for _ in range(number):
        yield rng.standard_normal(loss.n_classes) * 10 ** rng.uniform(-1, 0.8), int(rng.integers(loss.n_classes))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
class TestOneRecord:
    def test_residual_is_that_of_the_softmax_shortened(self, loss):
        for scores, label in drawn(loss, np.random.default_rng(0)):
            p = softmax(scores)
            expected = min(1.0, loss.cap / (1 - p[label])) * (p - np.eye(loss.n_classes)[label])
            value, found = one(loss, scores, label)
            np.testing.assert_allclose(found, expected, atol=1e-12)
            if 1 - p[label] <= loss.cap:
                assert value == pytest.approx(-np.log(p[label]), abs=1e-12)

    def test_residual_is_the_gradient_of_the_value(self, loss):
        for scores, label in drawn(loss, np.random.default_rng(1), 20):
            slopes = []
            for axis in np.eye(loss.n_classes):
                ends = [one(loss, scores + h * axis, label)[0] for h in (1e-5, -1e-5)]
                slopes.append((ends[0] - ends[1]) / 2e-5)
            np.testing.assert_allclose(one(loss, scores, label)[1], slopes, atol=2e-6)

    def test_hessians_are_symmetric_convex_and_within_the_bound(self, loss):
        """C13: a clipped residual would fail here."""
        for scores, label in drawn(loss, np.random.default_rng(2)):
            if abs(1 - softmax(scores)[label] - loss.cap) < 1e-4:
                continue  # at the kink there are two
            columns = [
                one(loss, scores + 1e-6 * axis, label)[1] - one(loss, scores - 1e-6 * axis, label)[1]
                for axis in np.eye(loss.n_classes)
            ]
            hessian = np.array(columns) / 2e-6
            np.testing.assert_allclose(hessian, hessian.T, atol=1e-8)
            values = np.linalg.eigvalsh(hessian)
            assert values[0] >= -1e-8
            assert values[-1] <= loss.curvature_bound + 1e-8
        level = np.full(loss.n_classes, -20.0)  # of two classes alone, at the steepest place: the bound is reached
        share = min(loss.cap, 0.5) * (1 - 1e-3)
        level[:2] = np.log([1 - share, share])
        ends = [one(loss, level + h * np.array([1, -1] + [0] * (loss.n_classes - 2)), 0)[1] for h in (0, 1e-6)]
        assert np.linalg.norm(ends[1] - ends[0]) / (1e-6 * np.sqrt(2)) > 0.99 * loss.curvature_bound

    def test_no_record_pulls_harder_than_the_bound(self, loss):
        sizes = [np.linalg.norm(one(loss, *record)[1]) for record in drawn(loss, np.random.default_rng(3))]
        assert max(sizes) <= loss.slope_bound
        astray = np.zeros(loss.n_classes)
        astray[1] = 40.0
        value, residual = one(loss, astray, 0)
        assert np.linalg.norm(residual) == pytest.approx(loss.slope_bound, rel=1e-9)
        assert abs(residual.sum()) < 1e-12
        assert np.isfinite(one(loss, astray * 1e300, 0)[0])
        assert value > 20 * loss.cap

    def test_the_link_makes_expected_residuals_vanish(self, loss):
        for scores, _ in drawn(loss, np.random.default_rng(4), 20):
            chances = np.exp(loss.log_probabilities(scores[None]))[0]
            assert chances.sum() == pytest.approx(1.0)
            mean = sum(chance * one(loss, scores, k)[1] for k, chance in enumerate(chances))
            np.testing.assert_allclose(mean, 0, atol=1e-12)
            assert (np.diff(chances[np.argsort(scores)]) >= -1e-12).all()  # no rank is turned round


class TestRisk:
    @pytest.fixture
    def silos(self):
        rng = np.random.default_rng(5)
        rows = [rng.standard_normal((n, 4)) for n in (7, 5)]
        rows = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in rows]
        return Silos.from_parts(rows, [rng.integers(0, 3, len(part)).astype(float) for part in rows], row_norm=1.0)

    def reference(self, risk, weights, i, w):
        """Sums written out, record by record."""
        rows, labels = risk.silos.part(i)
        value, gradient = 0.0, np.zeros((3, 4))
        for row, label, weight in zip(rows, labels, weights[risk.part(i)], strict=True):
            v, r = one(risk.loss, w.reshape(3, 4) @ row, int(label))
            value, gradient = value + weight * v, gradient + weight * np.outer(r, row)
        n = risk.sizes[i]
        return value / n + risk.mu / 2 * w @ w, gradient.ravel() / n + risk.mu * w

    @pytest.mark.parametrize("has_people", [False, True])
    def test_sums_over_records(self, silos, has_people):
        if has_people:
            whose = (np.arange(7) // 3, np.arange(5) // 2)
            silos = replace(silos, people=tuple(PersonRows.of(each).people for each in whose))
        risk = SoftmaxRisk(silos, Softmax(3, 0.6), mu=0.1)
        weights = np.ones(12) if silos.weights is None else silos.weights
        w = np.random.default_rng(6).standard_normal((2, 12, 3))
        for i in range(2):
            for r in range(3):
                value, gradient = self.reference(risk, weights, i, w[i, :, r])
                assert risk.value(w)[i, r] == pytest.approx(value, rel=1e-12)
                np.testing.assert_allclose(risk.gradient(w)[i, :, r], gradient, atol=1e-13)
        np.testing.assert_allclose(risk.take([1]).gradient(w[:1]), risk.gradient(w[:1])[[1]], atol=1e-14)
        assert risk.has_people is has_people

    def test_other_storages(self, silos):
        w = np.random.default_rng(7).standard_normal((1, 12, 2))
        dense = SoftmaxRisk(silos, Softmax(3), mu=0.1)
        for other in (replace(silos, features=sparse.csr_array(silos.features)), centred_silos(silos)):
            np.testing.assert_allclose(replace(dense, silos=other).gradient(w), dense.gradient(w), atol=1e-13)

    def test_constants_hold(self, silos):
        risk = SoftmaxRisk(silos, Softmax(3, 0.4), mu=0.1)
        rng, constants = np.random.default_rng(8), risk.constants
        for _ in range(50):
            x, y = rng.standard_normal((2, 1, 12, 1)) * 10 ** rng.uniform(-1, 1)
            moved, far = risk.gradient(x) - risk.gradient(y), np.linalg.norm(x - y)
            assert np.linalg.norm(moved, axis=1).max() <= constants.smoothness * far * (1 + 1e-9)
            along = (moved * (x - y)).sum(axis=1).min()
            assert along >= constants.strong_convexity * far**2 * (1 - 1e-9)
        assert constants.scores == 3
