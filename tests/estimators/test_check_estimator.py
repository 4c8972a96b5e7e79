"""scikit-learn's own checks, all of them, on all estimators and the search."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpadmm.estimators import (
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateSearchCV,
)
from dpadmm.planner import candidates

# The checks set random_state, leave bounds out and use thirty records: all three things are warned about, rightly.
quiet = [
    pytest.mark.filterwarnings(f"ignore::dpadmm.estimators.{kind}")
    for kind in ("SimulatedNoiseWarning", "AssumedBoundsWarning", "HopelessPlanWarning")
]
# scikit-learn skips checks that need optional packages by raising a warning of its own.
pytestmark = [*quiet, pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")]


ESTIMATORS = [
    PrivateLogisticRegression(epsilon=1.0, delta=1e-5),
    PrivateLinearSVC(epsilon=1.0, delta=1e-5),
    PrivateLinearRegression(epsilon=1.0, delta=1e-5),
    PrivatePoissonRegressor(epsilon=1.0, delta=1e-5),
    PrivateSearchCV(PrivateLogisticRegression(1.0, 1e-5, random_state=0), {"alpha": [0.01, 0.1]}, compared=2),
]


def known_failures(estimator):
    """A record of weight 2 has the noise of the heaviest record: it is not two records, nor is one of weight 0 none."""
    if not isinstance(estimator, PrivatePoissonRegressor):
        return {}
    kinds = ("dense", "sparse")
    return {f"check_sample_weight_equivalence_on_{kind}_data": "weights scale the noise" for kind in kinds}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=known_failures)
def test_scikit_learn_accepts_it(estimator, check, monkeypatch):
    """Some thousand fits: with few rounds each, which no check can tell from many."""
    monkeypatch.setattr(candidates, "_LEAST_ROUNDS", 2)
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=known_failures)
def test_scikit_learn_accepts_it_as_planned(estimator, check, real_plans):
    check(estimator)
