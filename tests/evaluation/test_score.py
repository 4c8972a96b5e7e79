"""Accounted figures about a model: noise of the right law, exact sums, ledger, refusals."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpadmm.estimators import SimulatedNoiseWarning
from dpadmm.evaluation import private
from dpadmm.noise.sampler import grid_for
from dpadmm.privacy.releases import Origin
from dpadmm.settings import Privacy

# The models of these tests score each row by itself.
private_score = partial(private.private_score, scores_rows_alone=True)


class Threshold:
    """A public model: predicts whether the first feature is positive, or that feature itself."""

    def __init__(self, is_real=False):
        self.is_real = is_real

    def predict(self, X):
        first = np.asarray(X)[:, 0]
        return first if self.is_real else (first > 0).astype(int)


@pytest.fixture
def records():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (200, 2))
    return X, (X[:, 0] + 0.3 * rng.standard_normal(200) > 0).astype(int)


def test_secure_accuracy_is_a_private_release(records):
    X, y = records
    score = private_score(Threshold(), X, y, epsilon=2.0)
    assert score.privacy.origin is Origin.SECURE
    assert 2.0 * (1 - 1e-6) <= score.privacy.epsilon <= 2.0
    assert score.privacy.delta == 0.0
    assert score.privacy.theorems == ("C10 + C8",)
    assert score.standard_error == pytest.approx(np.sqrt(2) / 2 / 200, rel=1e-5)
    assert score.standard_error * 200 / np.sqrt(2) * 2.0 > 1 + 0.9 * grid_for(0.5)  # rounding is paid for as well (C8)
    assert "accuracy" in str(score.privacy)


@pytest.mark.filterwarnings("ignore::dpadmm.estimators.SimulatedNoiseWarning")
def test_noise_follows_the_stated_law(records):
    X, y = records
    truth = np.mean(Threshold().predict(X) == y)
    draws = np.array([private_score(Threshold(), X, y, epsilon=1.0, random_state=k).value for k in range(400)])
    law = stats.laplace(loc=truth, scale=1 / 200).cdf
    assert stats.kstest(draws, law).pvalue > 1e-6
    assert stats.kstest(draws, stats.laplace(loc=truth, scale=2 / 200).cdf).pvalue < 1e-6


@pytest.mark.filterwarnings("ignore::dpadmm.estimators.SimulatedNoiseWarning")
def test_absolute_error_is_clipped_and_close_at_large_epsilon(records):
    X, _ = records
    y = X[:, 0] + 0.5
    y[:10] = 1e9
    score = private_score(Threshold(is_real=True), X, y, epsilon=1e6, largest=4.0, random_state=0)
    assert score.value == pytest.approx((190 * 0.5 + 10 * 4.0) / 200, abs=1e-4)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1))
def test_replacing_a_record_moves_the_sum_by_at_most_one_whole_value(seed):
    """Integer steps: the sums of neighbours differ by at most STEPS, whatever the order of the records."""
    from dpadmm.evaluation.private import STEPS

    rng = np.random.default_rng(seed)
    errors = rng.uniform(0, 2, 50)
    other = errors.copy()
    other[rng.integers(50)] = rng.uniform(0, 2)
    sums = [np.rint(np.minimum(e, 1.0) * STEPS).astype(np.int64)[rng.permutation(50)].sum() for e in (errors, other)]
    assert abs(sums[0] - sums[1]) <= STEPS


def test_simulated_figures_warn(records):
    X, y = records
    with pytest.warns(SimulatedNoiseWarning):
        score = private_score(Threshold(), X, y, epsilon=1.0, random_state=3)
    assert not score.privacy.is_private_release


class Column(Threshold):
    """Predicts a column, as scikit-learn's regressors do once they were fitted on one."""

    def predict(self, X):
        return super().predict(X)[:, None]


@pytest.mark.filterwarnings("ignore::dpadmm.estimators.SimulatedNoiseWarning")
def test_a_column_of_predictions_is_one_value_per_record(records):
    """Compared with a vector it would become a table in which one record counts n times, under noise for one."""
    X, y = records
    flat, column = (private_score(kind(), X, y, epsilon=1.0, random_state=0) for kind in (Threshold, Column))
    assert column.value == flat.value
    errors = [
        private_score(kind(is_real=True), X, y, epsilon=1.0, largest=1.0, random_state=0).value
        for kind in (Threshold, Column)
    ]
    assert errors[0] == errors[1]


GROUPS = np.arange(200) % 5


def test_the_statement_of_a_masked_figure_says_what_all_silos_together_see(records):
    X, y = records
    terms = {"epsilon": 1.0, "delta": 1e-6, "groups": GROUPS, "view": "aggregate"}
    said = private_score(Threshold(), X, y, **terms).privacy
    assert said.collusion.if_all == pytest.approx(2.12, abs=0.006)  # 2 m, at this delta


@pytest.mark.filterwarnings("ignore::dpadmm.estimators.SimulatedNoiseWarning")
def test_the_shares_of_a_metric_add_up_to_the_noise_that_is_stated(records):
    X, y = records
    truth = np.mean(Threshold().predict(X) == y)
    terms = {"epsilon": 1.0, "delta": 1e-6, "groups": GROUPS, "view": "aggregate", "privacy": Privacy(colluders=1)}
    scores = [private_score(Threshold(), X, y, **terms, random_state=k) for k in range(400)]
    found, std = np.array([score.value for score in scores]), scores[0].standard_error
    assert stats.kstest(found, stats.norm(loc=truth, scale=std).cdf).pvalue > 1e-6
    assert stats.kstest(found, stats.norm(loc=truth, scale=2 * std).cdf).pvalue < 1e-6
