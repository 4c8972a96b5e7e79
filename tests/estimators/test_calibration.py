"""Predicted risks on UCI Adult: their mean is near the share of high incomes, through the link of the loss fitted.

Without the link the planner's cap of 0.7 costs 2 to 3 %, a cap of 1/2 some 6 %. What is left is noise: with rows as
the data set encodes them, single models at epsilon 1 differ by 2 % (one silo) and 3 % (five) from their mean.
"""

import numpy as np
import pytest
from scipy import optimize
from scipy.special import expit

from dpadmm.estimators import PrivateLogisticRegression
from dpadmm.problems.losses import Logistic, log_loss_of
from dpadmm.settings import TrainingOptions
from dpadmm_research.datasets.splits import split_data

SEEDS = range(8)


@pytest.fixture(scope="module")
def train(adult):
    return split_data(adult, np.random.default_rng(0))[0]


@pytest.mark.parametrize(("cap", "missed"), [(0.7, 0.015), (0.5, 0.05)])
def test_without_noise_the_link_alone_calibrates(train, cap, missed):
    """L-BFGS on the capped loss itself, to a gradient of 1e-5."""
    x, y, loss = train.features, train.labels, Logistic(cap)

    def risk(w):
        margins = y * (x @ w)
        return loss.value(margins).mean(), x.T @ (y * loss.slope(margins)) / len(y)

    found = optimize.minimize(risk, np.zeros(train.dimension), jac=True, method="L-BFGS-B", options={"gtol": 1e-5})
    scores, share = x @ found.x, (y > 0).mean()
    assert expit(loss.log_odds(scores)).mean() == pytest.approx(share, rel=0.01)
    assert expit(scores).mean() < (1 - missed) * share
    assert log_loss_of(loss, scores, y).mean() < np.logaddexp(0.0, -scores * y).mean()


@pytest.mark.filterwarnings("ignore::dpadmm.estimators.notices.SimulatedNoiseWarning")
@pytest.mark.parametrize("silos", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_mean_risk_at_epsilon_1(train, silos):
    x, y = train.features, train.labels.astype(int)
    groups = np.random.default_rng(1).permutation(len(y)) % silos
    risks = []
    for seed in SEEDS:
        model = PrivateLogisticRegression(
            1.0, 1e-5, classes=(-1, 1), random_state=seed, training=TrainingOptions(row_norm=1.0)
        )
        model.fit(x, y, groups=groups)
        assert model.released_.linked.cap < 1
        risks.append(model.predict_proba(x)[:, 1].mean())
    assert np.mean(risks) == pytest.approx((y > 0).mean(), rel=0.05)
