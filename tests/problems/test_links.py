"""Links: what a score says about probabilities, against plain minimisations of the expected loss."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import optimize, special

from dpadmm.problems.losses import Logistic, log_loss_of

LINKED = (Logistic(), *(Logistic(cap) for cap in (0.999, 0.7, 0.6, 0.5, 0.2)))
SCORES = np.concatenate([-np.logspace(2, -6, 200), [0.0], np.logspace(-6, 2, 200)])
EPS = float(np.finfo(np.float64).eps)

property_test = settings(deadline=None, derandomize=True, max_examples=200)
caps = st.floats(0.01, 0.99)
scores = st.one_of(st.floats(-5, 5), st.floats(-1e4, 1e4))


def best_score(loss, p):
    """Return the score with the least expected loss where +1 has probability p; reads `value` alone."""

    def expected(t):
        return float(p * loss.value(np.array([t]))[0] + (1 - p) * loss.value(np.array([-t]))[0])

    return optimize.minimize_scalar(expected, bounds=(-30.0, 30.0), options={"xatol": 1e-10}).x


@pytest.mark.parametrize("loss", LINKED, ids=repr)
@pytest.mark.parametrize("p", [0.001, 0.02, 0.11, 0.29, 0.31, 0.45, 0.5, 0.52, 0.75, 0.9, 0.999])
def test_the_link_undoes_the_minimisation(loss, p):
    found = special.expit(loss.log_odds(np.array([best_score(loss, p)])))[0]
    assert found == pytest.approx(p, abs=1e-6)


@pytest.mark.parametrize("loss", LINKED, ids=repr)
def test_odds_are_the_ratio_of_the_slopes(loss):
    odds = loss.slope(-SCORES) / loss.slope(SCORES)
    np.testing.assert_allclose(loss.log_odds(SCORES), np.log(odds), rtol=1e-12, atol=4 * EPS)


@property_test
@given(cap=caps, a=scores, b=scores)
@example(cap=0.7, a=1e-9, b=1e-12)
@example(cap=0.5, a=-1e-9, b=1e-9)
def test_probabilities_are_symmetric_and_do_not_fall(cap, a, b):
    for loss in (Logistic(cap), Logistic()):
        low, high = loss.log_odds(np.array([min(a, b), max(a, b)]))
        assert low <= high + 4 * EPS * abs(high)
        assert loss.log_odds(np.array([-a]))[0] == -loss.log_odds(np.array([a]))[0]
        assert abs(loss.log_odds(np.array([a]))[0]) <= abs(a)


@property_test
@given(cap=caps, t=scores)
def test_the_likelier_class_is_the_one_predicted(cap, t):
    """Below 1/2, and only there, a cap makes all scores near 0 say 1/2; none ever speaks for the other class."""
    loss = Logistic(cap)
    says = np.sign(loss.log_odds(np.array([t]))[0])
    if abs(t) <= max(loss.floor, 1e-14):
        assert says in (0.0, np.sign(t))
    else:
        assert says == np.sign(t)


@pytest.mark.parametrize("loss", LINKED, ids=repr)
def test_extreme_scores_stay_finite(loss):
    """Warnings are errors here, so an overflow on the way is found too."""
    far = np.array([-1e300, -800.0, 800.0, 1e300])
    assert np.isfinite(loss.log_odds(far)).all()
    assert special.expit(loss.log_odds(far)).tolist() == [0.0, 0.0, 1.0, 1.0]
    assert np.isfinite(log_loss_of(loss, far, np.ones(4))).all()
    assert np.isnan(loss.log_odds(np.array([np.nan]))).all()


def test_a_cap_near_1_is_the_logistic_link():
    np.testing.assert_allclose(Logistic(1 - 1e-9).log_odds(SCORES), SCORES, rtol=0, atol=2e-9)


@pytest.mark.parametrize("loss", LINKED, ids=repr)
def test_the_log_loss_is_that_of_the_probabilities(loss):
    t = np.linspace(-30, 30, 61)
    for y in (-1.0, 1.0):
        right, wrong = loss.slope(-y * t), loss.slope(y * t)  # the label has probability right / (right + wrong)
        np.testing.assert_allclose(log_loss_of(loss, t, np.full(61, y)), np.log1p(wrong / right), rtol=1e-12)
    runs = log_loss_of(loss, np.column_stack([t, 2 * t]), np.sign(t)[:, None])
    np.testing.assert_array_equal(runs[:, 1], log_loss_of(loss, 2 * t, np.sign(t)))


def test_the_logistic_loss_is_its_own_log_loss():
    signs = np.where(np.arange(len(SCORES)) % 2 > 0, 1.0, -1.0)
    np.testing.assert_array_equal(log_loss_of(Logistic(), SCORES, signs), Logistic().value(SCORES * signs))
