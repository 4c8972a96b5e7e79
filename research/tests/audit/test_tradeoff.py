"""Trade-off curves against scikit-learn's ROC and closed forms."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_curve

from dpadmm.privacy.curves import GaussianCurve, InfiniteCurve, PureCurve
from dpadmm_research.audit.tradeoff import certified_tradeoff, operating_points

RATES = np.linspace(0, 1, 101)


def test_operating_points_are_the_roc():
    rng = np.random.default_rng(0)
    p, q = rng.normal(1, size=50), rng.normal(size=70)
    fpr, fnr = operating_points(p, q, points=1000)
    labels = np.repeat([1, 0], [50, 70])
    theirs = roc_curve(labels, np.concatenate([p, q]), drop_intermediate=False)
    np.testing.assert_allclose(fpr, theirs[0], atol=1e-15)
    np.testing.assert_allclose(1 - fnr, theirs[1], atol=1e-15)


def test_few_points_keep_both_ends():
    rng = np.random.default_rng(0)
    fpr, fnr = operating_points(rng.normal(size=5000), rng.normal(size=5000), points=20)
    assert fpr.size <= 21
    assert (fpr[0], fnr[0], fpr[-1], fnr[-1]) == (0, 1, 1, 0)
    assert np.all(np.diff(fpr) >= 0)
    assert np.all(np.diff(fnr) <= 0)


@pytest.mark.parametrize("m", [0.1, 0.5, 2.0])
def test_gaussian_curve(m):
    exact = stats.norm.cdf(stats.norm.isf(RATES) - m)
    found = certified_tradeoff(GaussianCurve(m), RATES)
    assert np.all(found <= exact + 1e-9)
    np.testing.assert_allclose(found, exact, atol=2e-3)


def test_pure_curve():
    """Randomised response: two lines."""
    exact = np.maximum(np.maximum(1 - np.e * RATES, (1 - RATES) / np.e), 0)
    np.testing.assert_allclose(certified_tradeoff(PureCurve(1.0), RATES), exact, atol=1e-12)


def test_no_protection_allows_everything():
    assert not certified_tradeoff(InfiniteCurve(), RATES).any()
