"""The problem: weights by rule, objective and gradient, optimality against scikit-learn's optima, refusals."""

import numpy as np
import pytest
from sklearn.linear_model import HuberRegressor, Lasso, LogisticRegression, Ridge

from dpadmm.problems import regularisers
from dpadmm.problems.losses import Huber, Logistic, Squared
from dpadmm.problems.problem import EmpiricalRisk, Problem, Weighting
from dpadmm.problems.quadratics import QuadraticAgents
from dpadmm.problems.silos import Silos

SIZES = (30, 10, 60)


def regression(seed=0, d=5):
    """Rows and labels of all silos together, and the silos."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(sum(SIZES), d))
    rows /= np.linalg.norm(rows, axis=1).max()
    labels = 3 * rows @ rng.normal(size=d) + 0.3 * rng.normal(size=len(rows))
    return rows, labels, split(rows, labels)


def classification(seed=0, d=5):
    rows, score, _ = regression(seed, d)
    labels = np.where(score + np.random.default_rng(seed + 1).logistic(size=len(score)) > 0, 1.0, -1.0)
    return rows, labels, split(rows, labels)


def split(rows, labels):
    cuts = np.cumsum(SIZES)[:-1]
    return Silos.from_parts(np.split(rows, cuts), np.split(labels, cuts), row_norm=1.0)


class TestWeights:
    @pytest.mark.parametrize(
        ("rule", "expected"),
        [
            (Weighting.EQUAL, [1, 1, 1]),
            (Weighting.AVERAGE, [1 / 3] * 3),
            (Weighting.POOLED, [0.3, 0.1, 0.6]),
        ],
    )
    def test_rules(self, rule, expected):
        np.testing.assert_allclose(rule.weights(np.array(SIZES)), expected, rtol=1e-15)
        problem = Problem.of(EmpiricalRisk(regression()[2], Squared()), rule)
        np.testing.assert_allclose(problem.weights, expected, rtol=1e-15)

    def test_pooled_weights_pool_the_records(self):
        rows, labels, silos = regression()
        x = np.random.default_rng(3).normal(size=(5, 2))
        together = Problem.of(EmpiricalRisk(Silos.from_parts([rows], [labels], 1.0), Huber(0.5), 0.1))
        apart = Problem.of(EmpiricalRisk(silos, Huber(0.5), 0.1))
        np.testing.assert_allclose(apart.objective(x), together.objective(x), rtol=1e-13)
        np.testing.assert_allclose(apart.gradient(x), together.gradient(x), rtol=1e-12)


class TestObjective:
    @pytest.mark.parametrize("rule", list(Weighting))
    def test_sums_the_parts(self, rule):
        functions, x = EmpiricalRisk(regression()[2], Huber(0.5), 0.2), np.random.default_rng(1).normal(size=(5, 3))
        problem = Problem.of(functions, rule, regularisers.ElasticNet(l1=0.4))
        for r in range(3):
            expected = 0.4 * np.abs(x[:, r]).sum()
            gradient = np.zeros(5)
            for i in range(3):
                alone = functions.take(np.array([i]))
                expected += problem.weights[i] * alone.value(x[None, :, r : r + 1])[0, 0]
                gradient += problem.weights[i] * alone.gradient(x[None, :, r : r + 1])[0, :, 0]
            assert problem.objective(x)[r] == pytest.approx(expected, rel=1e-13)
            np.testing.assert_allclose(problem.gradient(x)[:, r], gradient, rtol=1e-12, atol=1e-14)

    def test_quadratics_have_the_optimum_of_linear_algebra(self):
        rng = np.random.default_rng(2)
        roots, slopes = rng.normal(size=(4, 3, 3)), rng.normal(size=(4, 3))
        matrices = roots @ roots.transpose(0, 2, 1) + np.eye(3)
        weights = np.array([0.5, 1.0, 2.0, 0.1])
        problem = Problem(QuadraticAgents(matrices, slopes), weights, regularisers.ElasticNet())
        best = np.linalg.solve(np.einsum("i,ijk->jk", weights, matrices), -weights @ slopes)
        assert problem.optimality(best[:, None])[0] <= 1e-13
        away = best[:, None] + 1e-3 * rng.normal(size=(3, 50))
        assert (problem.objective(away) > problem.objective(best[:, None])).all()
        assert (problem.optimality(away) > 1e-5).all()


class TestOptimality:
    """0 at the optimum that scikit-learn finds, and not 0 next to it."""

    def check(self, problem, best, tolerance):
        x = np.asarray(best).ravel()[:, None]
        assert problem.optimality(x)[0] <= tolerance
        assert problem.optimality(1.01 * x + 1e-3)[0] > max(20 * tolerance, 1e-6)

    @pytest.mark.parametrize("mu", [0.5, 1e-2, 1e-4])
    def test_logistic_regression(self, mu):
        rows, labels, silos = classification()
        model = LogisticRegression(
            C=1 / (len(rows) * mu), fit_intercept=False, tol=1e-12, solver="newton-cholesky", max_iter=1000
        ).fit(rows, labels)
        self.check(Problem.of(EmpiricalRisk(silos, Logistic(), mu)), model.coef_, 1e-10)
        ridge = regularisers.ElasticNet(l2=mu)
        self.check(Problem.of(EmpiricalRisk(silos, Logistic()), regulariser=ridge), model.coef_, 1e-10)

    def test_least_squares(self):
        rows, labels, silos = regression()
        model = Ridge(alpha=0.1 * len(rows), fit_intercept=False, solver="cholesky").fit(rows, labels)
        self.check(Problem.of(EmpiricalRisk(silos, Squared(), 0.1)), model.coef_, 1e-12)

    @pytest.mark.parametrize("strength", [1e-3, 3e-2])
    def test_lasso(self, strength):
        rows, labels, silos = regression(d=8)
        model = Lasso(alpha=strength, fit_intercept=False, tol=1e-15, max_iter=100_000).fit(rows, labels)
        problem = Problem.of(EmpiricalRisk(silos, Squared()), regulariser=regularisers.ElasticNet(l1=strength))
        self.check(problem, model.coef_, 1e-9)

    def test_huber_regression(self):
        """scikit-learn also fits a scale s: its optimum solves the Huber problem of threshold epsilon * s."""
        rows, labels, silos = regression()
        model = HuberRegressor(epsilon=1.35, alpha=0.5, fit_intercept=False, tol=1e-9, max_iter=10_000).fit(
            rows, labels
        )
        # Its objective is sum s H(r/s) + alpha ||w||^2, H twice our loss; ours is that, times s / (2 n).
        mu = 0.5 * model.scale_ / len(rows)
        problem = Problem.of(EmpiricalRisk(silos, Huber(1.35 * model.scale_), mu))
        self.check(problem, model.coef_, 1e-6)

    def test_columns_are_judged_on_their_own(self):
        rows, labels, silos = regression()
        model = Ridge(alpha=0.1 * len(rows), fit_intercept=False, solver="cholesky").fit(rows, labels)
        problem = Problem.of(EmpiricalRisk(silos, Squared(), 0.1))
        both = problem.optimality(np.column_stack([model.coef_, model.coef_ + 1]))
        assert both[0] <= 1e-12
        assert both[1] > 0.1
