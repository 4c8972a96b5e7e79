"""Bounds from scores: exact against reference distributions, quiet on null data, near the truth on known mechanisms."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpadmm.privacy.curves import delta_of_epsilon, epsilon_of_delta, m_of
from dpadmm_research.audit.estimates import Guess, How, advantage_bound, clopper_pearson_bound, gdp_bound

M = m_of(1.0, 1e-5)


def gaussian_pairs(rng, m, n):
    """Likelihood ratios of N(0, 1) against N(m, 1), both worlds with the same noise."""
    noise = rng.standard_normal(n)
    return m * noise + m * m / 2, m * noise - m * m / 2


def rare(trials, rate):
    """Return a count that `trials` trials of this rate exceed with probability below 1e-6."""
    return int(stats.binom.isf(1e-6, trials, rate))


class TestAgainstReferences:
    def test_clopper_pearson_limits_are_scipys(self):
        p, q = np.repeat([1.0, 0.0], [70, 50]), np.repeat([1.0, 0.0], [30, 90])
        rng = np.random.default_rng(0)
        found = clopper_pearson_bound(rng.permutation(p), rng.permutation(q), delta=0.01, confidence=0.9)
        hits, errors = found.true_positives, found.false_positives
        if found.guess is Guess.LOW:
            hits, errors = found.runs - found.false_positives, found.runs - found.true_positives
        low = stats.binomtest(hits, found.runs).proportion_ci(0.9, method="exact").low
        high = stats.binomtest(errors, found.runs).proportion_ci(0.9, method="exact").high
        assert found.epsilon_lower == pytest.approx(math.log((low - 0.01) / high), rel=1e-9)

    def test_gdp_limit_is_one_binomial(self):
        rng = np.random.default_rng(0)
        found = gdp_bound(rng.normal(1.0, size=300), rng.normal(size=300), 1e-5, 0.9, threshold=0.5)
        right = found.true_positives + found.runs - found.false_positives
        low = stats.binomtest(right, 600, alternative="greater").proportion_ci(0.9, method="exact").low
        assert found.m_lower == pytest.approx(2 * stats.norm.ppf(low), rel=1e-9)
        assert found.epsilon_lower == pytest.approx(epsilon_of_delta(found.m_lower, 1e-5))
        assert found.how is How.GDP

    @pytest.mark.parametrize("n", [20, 23])
    @pytest.mark.parametrize("level", [0.24, 0.05, 1e-3])
    def test_one_binomial_is_never_too_bold_for_two_rates(self, n, level):
        """The probability of a false bound, exactly, by summing over all outcomes."""
        bounds = np.array([stats.beta.ppf(level, k, 2 * n - k + 1) if k else 0.0 for k in range(2 * n + 1)])
        worst = 0.0
        for tpr in np.linspace(0, 1, 21):
            for tnr in np.linspace(0, 1, 21):
                right = np.convolve(
                    stats.binom.pmf(np.arange(n + 1), n, tpr), stats.binom.pmf(np.arange(n + 1), n, tnr)
                )
                worst = max(worst, right[bounds > (tpr + tnr) / 2 + 1e-12].sum())
        assert worst <= level
        assert worst >= level / 5  # else it would be needlessly weak


class TestNullData:
    """Both worlds alike: a positive bound is a false alarm, and comes no more often than stated."""

    TRIALS, CONFIDENCE = 500, 0.8

    @pytest.mark.parametrize("is_paired", [False, True])
    def test_gdp(self, is_paired):
        rng = np.random.default_rng(1)
        alarms = 0
        for _ in range(self.TRIALS):
            p, q = rng.standard_normal((2, 200))
            alarms += gdp_bound(p, q, 1e-5, self.CONFIDENCE, is_paired=is_paired).epsilon_lower > 0
        assert alarms <= rare(self.TRIALS, 1 - self.CONFIDENCE)

    def test_clopper_pearson(self):
        rng = np.random.default_rng(2)
        alarms = 0
        for _ in range(self.TRIALS):
            p, q = rng.standard_normal((2, 300))
            alarms += clopper_pearson_bound(p, q, 0.0, self.CONFIDENCE).epsilon_lower > 0
        assert alarms <= rare(self.TRIALS, 1 - self.CONFIDENCE)

    def test_the_same_scores_say_nothing_at_all(self):
        scores = np.random.default_rng(3).standard_normal(1000)
        assert gdp_bound(scores, scores, 1e-5, is_paired=True).epsilon_lower == 0
        assert advantage_bound(scores, scores, is_paired=True).advantage_lower == 0


class TestKnownMechanisms:
    @pytest.mark.parametrize("is_paired", [False, True])
    def test_coverage_for_gaussian_noise(self, is_paired):
        """The bound passes the truth at most as often as stated, but not much more rarely."""
        rng, trials = np.random.default_rng(4), 1000
        passed = 0
        for _ in range(trials):
            p, q = gaussian_pairs(rng, 1.0, 400)
            if not is_paired:
                q = rng.permutation(rng.standard_normal(400) - 0.5)
            passed += gdp_bound(p, q, 1e-5, 0.9, threshold=0.0, is_paired=is_paired).m_lower > 1.0
        assert trials / 100 < passed <= rare(trials, 0.1)

    def test_clopper_pearson_stays_below_every_epsilon(self):
        rng, trials = np.random.default_rng(5), 200
        passed = 0
        for _ in range(trials):
            p, q = gaussian_pairs(rng, 2.0, 600)
            passed += clopper_pearson_bound(p, q, 0.05, 0.8).epsilon_lower > epsilon_of_delta(2.0, 0.05)
        assert passed <= rare(trials, 0.2)

    def test_perfect_attack_on_epsilon_one(self):
        """20,000 runs show more than nine tenths of it, a million 98 %; Clopper-Pearson much less."""
        p, q = gaussian_pairs(np.random.default_rng(6), M, 10_000)
        assert 0.9 <= gdp_bound(p, q, 1e-5, threshold=0.0, is_paired=True).epsilon_lower <= 1
        p, q = gaussian_pairs(np.random.default_rng(6), M, 500_000)
        assert 0.98 <= gdp_bound(p, q, 1e-5, threshold=0.0, is_paired=True).epsilon_lower <= 1
        assert 0.55 <= clopper_pearson_bound(p, q, 1e-5).epsilon_lower <= 0.8

    def test_laplace(self):
        rng = np.random.default_rng(7)
        noise = rng.laplace(size=(2, 20_000))
        p, q = (np.abs(y) - np.abs(y - 1) for y in (noise[0] + 1, noise[1]))
        assert 0.9 <= clopper_pearson_bound(p, q).epsilon_lower <= 1

    def test_both_directions_of_the_inequality(self):
        """A rare output of Q alone: only low scores betray anything."""
        rng = np.random.default_rng(8)
        p, q = np.ones(4000), np.where(rng.random(4000) < 0.2, 0.0, 1.0)
        found = clopper_pearson_bound(p, q)
        assert found.guess is Guess.LOW
        assert found.epsilon_lower > 3
        mirrored = clopper_pearson_bound(-q, -p)
        assert (mirrored.guess, mirrored.epsilon_lower) == (Guess.HIGH, pytest.approx(found.epsilon_lower))

    def test_advantage_is_delta_at_zero(self):
        p, q = gaussian_pairs(np.random.default_rng(9), 0.7, 100_000)
        found = advantage_bound(p, q, threshold=0.0, is_paired=True).advantage_lower
        assert 0.98 * delta_of_epsilon(0.7, 0.0) <= found <= delta_of_epsilon(0.7, 0.0)


class TestScores:
    def test_rounding_is_no_evidence(self):
        rng = np.random.default_rng(0)
        base = rng.integers(0, 2, size=(2, 400)).astype(float)
        shaken = base + 1e-13 * rng.standard_normal((2, 400)) + np.array([[1e-13], [-1e-13]])
        assert clopper_pearson_bound(*shaken).epsilon_lower == clopper_pearson_bound(*base).epsilon_lower

    def test_certain_scores_give_a_finite_bound(self):
        for p, q in ((1.0, 0.0), (math.inf, -math.inf), (1e200, -1e200)):
            found = clopper_pearson_bound(np.full(300, p), np.full(300, q))
            assert 3 < found.epsilon_lower < 10
            assert 1 < gdp_bound(np.full(300, p), np.full(300, q), 1e-5, is_paired=True).m_lower < 10

    @settings(deadline=None, derandomize=True, max_examples=30)
    @given(scale=st.floats(1e-6, 1e6), seed=st.integers(0, 100))
    def test_units_do_not_matter(self, scale, seed):
        p, q = gaussian_pairs(np.random.default_rng(seed), 1.0, 200)
        for bound in (lambda a, b: clopper_pearson_bound(a, b), lambda a, b: gdp_bound(a, b, 1e-5, is_paired=True)):
            assert bound(scale * p, scale * q).epsilon_lower == pytest.approx(bound(p, q).epsilon_lower, abs=1e-6)

    @settings(deadline=None, derandomize=True, max_examples=20)
    @given(seed=st.integers(0, 1000), low=st.floats(0.8, 0.95))
    def test_more_confidence_never_raises_a_bound(self, seed, low):
        p, q = gaussian_pairs(np.random.default_rng(seed), 1.0, 300)
        for confidence in (0.99, 1 - 1e-6):
            weak = gdp_bound(p, q, 1e-5, low, threshold=0.0, is_paired=True).m_lower
            assert gdp_bound(p, q, 1e-5, confidence, threshold=0.0, is_paired=True).m_lower <= weak

    def test_runs_that_chose_the_threshold_are_not_counted(self):
        p, q = gaussian_pairs(np.random.default_rng(0), 1.0, 300)
        found = advantage_bound(p, q, is_paired=True)
        assert found.runs == 270
        assert found == advantage_bound(p[30:], q[30:], threshold=found.threshold, is_paired=True)
        assert advantage_bound(p, q, threshold=0.0).runs == 300
        assert clopper_pearson_bound(p, q).runs == 200

    def test_the_surplus_is_left_out(self):
        p, q = gaussian_pairs(np.random.default_rng(0), 1.0, 300)
        assert gdp_bound(np.append(p, 1e9), q, 1e-5, threshold=0.0) == gdp_bound(p, q, 1e-5, threshold=0.0)
