"""PS-ADMM's Theorem 2 with c = 1: its number by hand, its condition in its own experiments, and what c = 1 costs."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from dpadmm_research.papers.ps_admm import claims as ps_admm

# Adult 70/30 over five providers: 6331 records each; K S = 5000 inner steps.
EXPERIMENT = ps_admm.Theorem2(rounds=100, inner_steps=50, records=6331, lipschitz=1.0)


def gdp_delta(epsilon: float, m: float) -> float:
    return float(norm.cdf(-epsilon / m + m / 2) - math.exp(epsilon) * norm.cdf(-epsilon / m - m / 2))


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.floats(1e-5, 10.0), st.floats(1e-10, 0.5), st.floats(0.1, 10.0))
def test_epsilon_and_noise_are_inverses(epsilon: float, delta: float, c: float) -> None:
    claim = ps_admm.Theorem2(rounds=10, inner_steps=20, records=300, lipschitz=1.3, c=c)
    noise = claim.noise(epsilon=epsilon, delta=delta)
    assert claim.epsilon(noise_std=noise.value, delta=delta).value == pytest.approx(epsilon, rel=1e-12)
    assert f"c = {c:g}" in noise.label


@pytest.mark.parametrize("epsilon", [0.1, 0.5])
def test_condition_does_not_support_the_experiments(epsilon: float) -> None:
    """K S/M^2 = 5000/6331^2 = 1.247e-4: the smallest budget of the figures needs c1 of about 800."""
    assert EXPERIMENT.largest_epsilon == pytest.approx(1.2474e-4, rel=1e-4)
    noise = EXPERIMENT.noise(epsilon=epsilon, delta=1e-3)
    assert not noise.conditions_hold
    assert "printed conditions" in str(noise)
    assert 0.1 / EXPERIMENT.largest_epsilon == pytest.approx(801.6, rel=1e-3)
    all_rows = replace(EXPERIMENT, records=round(0.7 * 48_842 / 5))
    assert all_rows.records == 6838
    assert all_rows.largest_epsilon == pytest.approx(1.07e-4, rel=1e-3)


@pytest.mark.parametrize(("epsilon", "exact"), [(0.1, 0.14155), (0.5, 0.97574)])
def test_c_equal_to_1_is_too_small_even_without_sampling(epsilon: float, exact: float) -> None:
    """One inner step a round (S = 1): the correction is zero, so each round releases g_full + N(0, sigma^2).

    Losses whose gradients are +G and -G everywhere move g_full by 2G/M in every round, so K rounds are exactly
    m-GDP with m^2 = K (2G/M)^2/sigma^2, whatever K and M.
    """
    rounds, records, delta = 5000, 6331, 1e-3
    claim = ps_admm.Theorem2(rounds=rounds, inner_steps=1, records=records, lipschitz=1.0)
    std = claim.noise(epsilon=epsilon, delta=delta).value
    others = np.zeros(records - 1)
    with_record, with_neighbour = (np.append(others, g).mean() for g in (1.0, -1.0))
    m = math.sqrt(rounds) * (with_record - with_neighbour) / std
    assert m == pytest.approx(2 * epsilon / math.sqrt(math.log(1 / delta)), rel=1e-9)
    true = brentq(lambda eps: gdp_delta(eps, m) - delta, 1e-6, 50.0)
    assert true == pytest.approx(exact, rel=1e-4)
    assert true > epsilon
    assert gdp_delta(epsilon, m) > 3 * delta


def test_inner_gradient_moves_by_more_than_3g_under_replace_one() -> None:
    """Two G-Lipschitz smooth losses of linear predictors: the sampled record swapped moves the step by nearly 4G."""
    records, reach, tilt = 1000, 1e4, 1e-2
    v, anchor = np.array([reach, 0.0]), np.array([-reach, 0.0])

    def gradient(a: np.ndarray, x: np.ndarray) -> np.ndarray:
        return float(np.clip(a @ x, -1.0, 1.0)) * a  # Huber loss: convex, smooth, gradient at most ||a|| <= 1

    def step(a: np.ndarray) -> np.ndarray:
        # The sampled correction plus the record's own share of the full gradient; the rest is common.
        return gradient(a, v) - gradient(a, anchor) + gradient(a, anchor) / records

    one = np.array([tilt, math.sqrt(1 - tilt**2)])
    other = np.array([tilt, -math.sqrt(1 - tilt**2)])
    moved = float(np.linalg.norm(step(one) - step(other)))
    assert moved == pytest.approx(4 - 2 / records, rel=1e-3)
    assert 3 < moved <= 4 + 2 / records
