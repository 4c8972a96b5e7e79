"""Small public problems that every test of the estimators can fit in a blink."""

import numpy as np
import pytest
from tests.grouped import grouped

from dpadmm.estimators import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression

KINDS = {"logistic": PrivateLogisticRegression, "svc": PrivateLinearSVC, "regression": PrivateLinearRegression}


@pytest.fixture
def table():
    """300 rows in [-1, 1]^3, noisy classes, a real target and four silos."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (300, 3))
    score = X @ [2.0, -1.0, 0.5] + 0.3 + 0.4 * rng.standard_normal(300)
    return X, (score > 0).astype(int), score, rng.integers(4, size=300)


@pytest.fixture(params=sorted(KINDS))
def make(request, table):
    """Return (build, X, y): a way to build one of the three estimators, and data it can be fitted on."""
    X, labels, score, _ = table
    kind = KINDS[request.param]
    public = {"target_bounds": (-4.0, 4.0)} if request.param == "regression" else {"classes": (0, 1)}

    def build(**options):
        usual = {"epsilon": 1.0, "delta": 1e-5, "feature_bounds": (-1.0, 1.0)}
        return kind(**grouped(**usual | public | options))

    return build, X, score if request.param == "regression" else labels


@pytest.fixture(autouse=True)
def _plans(instant_forecasts):
    """Fits are planned at once, unless a test takes `real_plans`."""
