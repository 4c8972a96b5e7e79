"""With hardly any noise the estimators solve the stated objective: compared with central solvers on the same rows."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from tests.grouped import grouped

from dpadmm.data.columns import RealLabel
from dpadmm.estimators import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression
from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge


@pytest.fixture
def table():
    """3000 records: epsilon = 1e6 is m = 1400, which still moves 300 of them by a part in a thousand."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (3000, 3))
    score = X @ [2.0, -1.0, 0.5] + 0.3 + 0.4 * rng.standard_normal(3000)
    return X, (score > 0).astype(int), score, rng.integers(4, size=3000)


LOOSE = {"epsilon": 1e6, "delta": 1e-5, "feature_bounds": (-1, 1), "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore::dpadmm.estimators.SimulatedNoiseWarning")


def central(loss, rows, target, alpha, l1_ratio=0.0):
    """Minimise the mean loss plus the penalty by L-BFGS-B over positive and negative parts."""
    signs = loss.target.name == "SIGNS"
    d = rows.shape[1]

    def objective(parts):
        w = parts[:d] - parts[d:]
        t = target * (rows @ w) if signs else rows @ w - target
        slope = loss.slope(t) * (target if signs else 1.0)
        gradient = rows.T @ slope / len(rows) + alpha * (1 - l1_ratio) * w
        value = loss.value(t).mean() + alpha * (1 - l1_ratio) / 2 * w @ w + alpha * l1_ratio * parts.sum()
        return value, np.concatenate([gradient, -gradient]) + alpha * l1_ratio

    found = minimize(
        objective,
        np.zeros(2 * d),
        jac=True,
        bounds=[(0, None)] * (2 * d),
        method="L-BFGS-B",
        options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-16, "gtol": 1e-10},
    )
    return found.x[:d] - found.x[d:]


def assert_close(model, weights, label=None):
    """Compare in the user's units, relative to the size of the model."""
    coef, intercept = model.released_.encoding.decode(weights)
    if label is not None:
        coef, intercept = coef * label.half_width, intercept * label.half_width + label.middle
    wanted = np.append(coef, intercept)
    got = np.append(model.coef_.ravel(), model.intercept_)
    assert np.linalg.norm(got - wanted) <= 1e-3 * np.linalg.norm(wanted)


@pytest.mark.parametrize("is_grouped", [False, True])
@pytest.mark.parametrize("alpha", [None, 0.02])
def test_logistic_agrees_with_scikit_learn(table, alpha, is_grouped):
    X, y, _, groups = table
    model = PrivateLogisticRegression(**grouped(**LOOSE, alpha=alpha)).fit(X, y, groups=groups if is_grouped else None)
    ridge = model.plan_.candidate.mu if alpha is None else alpha
    rows = model.released_.encoding.encode(X)
    reference = LogisticRegression(C=1 / (len(X) * ridge), fit_intercept=False, tol=1e-12, max_iter=10_000)
    assert_close(model, reference.fit(rows, y).coef_[0])


@pytest.mark.parametrize("is_grouped", [False, True])
def test_svc_agrees_with_scipy(table, is_grouped):
    X, y, _, groups = table
    model = PrivateLinearSVC(**grouped(**LOOSE, alpha=0.02, hinge_width=0.4)).fit(
        X, y, groups=groups if is_grouped else None
    )
    assert_close(model, central(SmoothedHinge(0.4), model.released_.encoding.encode(X), 2.0 * y - 1, 0.02))


@pytest.mark.parametrize("is_grouped", [False, True])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
def test_regression_agrees_with_scipy(table, l1_ratio, is_grouped):
    X, _, y, groups = table
    model = PrivateLinearRegression(**grouped(**LOOSE, alpha=0.01, l1_ratio=l1_ratio, target_bounds=(-3, 4)))
    model.fit(X, y, groups=groups if is_grouped else None)
    label = RealLabel("y", -3, 4)
    weights = central(Huber(0.5), model.released_.encoding.encode(X), label.encode(y), 0.01, l1_ratio)
    assert_close(model, weights, label)


def test_capped_logistic_agrees_with_scipy(table):
    X, y, _, _ = table
    model = PrivateLogisticRegression(**grouped(**LOOSE, alpha=0.005, slope_cap=0.6)).fit(X, y)
    assert_close(model, central(Logistic(0.6), model.released_.encoding.encode(X), 2.0 * y - 1, 0.005))


def test_several_classes_agree_one_by_one(table):
    X = table[0]
    y = np.digitize(X[:, 0] + X[:, 1], (-0.4, 0.4))
    model = PrivateLogisticRegression(**grouped(**LOOSE, alpha=0.02, multi_class="one-vs-rest")).fit(X, y)
    rows = model.released_.encoding.encode(X)
    for k in range(3):
        coef, intercept = model.released_.encoding.decode(central(Logistic(), rows, np.where(y == k, 1.0, -1.0), 0.02))
        np.testing.assert_allclose(model.coef_[k], coef, atol=2e-3 * np.linalg.norm(coef))
        assert model.intercept_[k] == pytest.approx(intercept, abs=2e-3 * np.linalg.norm(coef))


@pytest.mark.parametrize("view", ["eavesdropper", "public"])
def test_several_classes_agree_with_a_multinomial_fit(table, view):
    X = table[0]
    y = np.digitize(X[:, 0] + X[:, 1], (-0.4, 0.4))
    model = PrivateLogisticRegression(**grouped(**LOOSE, alpha=0.02, view=view)).fit(X, y, groups=np.arange(len(y)) % 2)
    rows = model.released_.encoding.encode(X)
    best = LogisticRegression(C=1 / (0.02 * len(y)), fit_intercept=False, tol=1e-10, max_iter=1000).fit(rows, y).coef_
    np.testing.assert_allclose(model.released_.weights, best, atol=2e-3 * np.linalg.norm(best))


def test_without_intercept_there_is_none(table):
    X, y, _, _ = table
    model = PrivateLogisticRegression(**grouped(**LOOSE, alpha=0.02, fit_intercept=False)).fit(X, y)
    through_centres = -float(model.coef_[0] @ model.released_.encoding.centre)
    np.testing.assert_allclose(model.intercept_, [through_centres], rtol=1e-12)
    assert_close(model, central(Logistic(), model.released_.encoding.encode(X), 2.0 * y - 1, 0.02))
