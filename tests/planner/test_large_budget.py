"""At epsilon = 1e6 a carried-out plan finds what the same objective has as its optimum when solved in one place."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from dpadmm.noise.sampler import SecureSampler
from dpadmm.planner import Task, plan
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import Protection, View
from dpadmm.problems.losses import Huber, LabelKind, Logistic, SmoothedHinge
from dpadmm.problems.regularisers import ElasticNet
from dpadmm.testing import run_plan

TARGET = Target(1e6, 1e-5)


def central_optimum(silos, loss, ridge=0.0, l1=0.0):
    """SciPy on the pooled records; l1 by splitting w into positive and negative parts."""
    rows, y = silos.features, silos.labels
    d = rows.shape[1]

    def objective(parts):
        w = parts[:d] - parts[d:]
        t = rows @ w
        if loss.target is LabelKind.SIGNS:
            t, fold = t * y, y
        else:
            t, fold = t - y, np.ones_like(y)
        value = loss.value(t).mean() + ridge / 2 * w @ w + l1 * parts.sum()
        slope = rows.T @ (loss.slope(t) * fold) / len(y) + ridge * w
        return value, np.concatenate([slope + l1, -slope + l1])

    found = minimize(
        objective,
        np.zeros(2 * d),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * (2 * d),
        options={"maxiter": 5000, "ftol": 1e-16, "gtol": 1e-11},
    )
    return found.x[:d] - found.x[d:]


ONE, FOUR = (1000,), (400, 300, 200, 100)


@pytest.mark.parametrize(
    ("sizes", "loss", "regulariser", "ridge", "l1"),
    [
        (FOUR, Logistic(), ElasticNet(l2=0.02), 0.02, 0.0),
        (ONE, Huber(0.7), ElasticNet(l2=0.02), 0.02, 0.0),
        (FOUR, SmoothedHinge(), ElasticNet(l2=0.02), 0.02, 0.0),
        (FOUR, Logistic(), ElasticNet(0.005, 0.02), 0.02, 0.005),
        (ONE, Huber(0.7), ElasticNet(l1=0.01), 0.0, 0.01),
        (ONE, SmoothedHinge(), ElasticNet(0.01, 0.02), 0.02, 0.01),
    ],
    ids=str,
)
def test_the_central_optimum_is_found(make_silos, sizes, loss, regulariser, ridge, l1):
    silos = make_silos(sizes, dimension=4, is_regression=loss.target is LabelKind.REALS)
    task = Task(sizes=sizes, dimension=4, loss=loss, target=TARGET, regulariser=regulariser)
    done = run_plan(plan(task), silos, SecureSampler(), progress=False)
    optimum = central_optimum(silos, loss, ridge, l1)
    assert np.linalg.norm(done.model - optimum) <= 1e-3 * np.linalg.norm(optimum)


@pytest.mark.parametrize("view", [View.EAVESDROPPER, View.PUBLIC])
def test_pooled_logistic_regression_is_scikit_learns(make_silos, view):
    """With the planner's own ridge of 1/n, which is C = 1."""
    sizes = (800, 400, 300)
    silos = make_silos(sizes, dimension=5)
    made = plan(Task(sizes=sizes, dimension=5, loss=Logistic(), target=TARGET, protection=Protection(view=view)))
    assert made.candidate.mu == pytest.approx(1 / 1500)
    done = run_plan(made, silos, SecureSampler(), progress=False)
    reference = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-12, solver="newton-cholesky")
    optimum = reference.fit(silos.features, silos.labels).coef_[0]
    assert np.linalg.norm(done.model - optimum) <= 1e-3 * np.linalg.norm(optimum)
