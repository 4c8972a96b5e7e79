"""R-ADMM's Theorem IV.1 and its relatives DVP and M-ADMM: numbers by hand, and how loose 2.8 c1 is."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpadmm_research.papers.r_admm import claims as r_admm
from dpadmm_research.papers.r_admm import dvp_claims as dvp
from dpadmm_research.papers.r_admm import m_admm_claims as m_admm


def agent(**changes: Any) -> r_admm.PerturbedObjective:
    values: dict[str, Any] = {"records": 1000, "degree": 2, "eta": 1.0, "ridge": 0.1} | changes
    return r_admm.PerturbedObjective(**values)


def test_m_admm_is_theorem_iv_1_with_linear_noise_and_the_ridge_dropped() -> None:
    """C2: the linear noise is 2 eta V e, so its rate is alpha/(2 eta V); rho/N -> 0 turns one sum into the other."""
    objective = agent(ridge=1e-12, eta=1.7)
    alpha = 5.0
    linear = alpha / (2 * 1.7 * 2)
    ours = m_admm.total_epsilon([objective], [alpha]).value
    assert ours == pytest.approx(r_admm.theorem_iv_1_epsilon(objective, [linear]).value, rel=1e-10)
    strong = agent(ridge=3.0, eta=1.7)
    assert m_admm.total_epsilon([strong], [alpha]).value > r_admm.theorem_iv_1_epsilon(strong, [linear]).value


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.floats(0.05, 10.0), st.integers(1, 100), st.integers(1, 9))
def test_rates_for_a_target_are_the_inverses(epsilon: float, iterations: int, degree: int) -> None:
    objective = agent(degree=degree, records=5000)
    rate = r_admm.theorem_iv_1_noise(objective, epsilon=epsilon, noisy_iterations=iterations).value
    assert r_admm.theorem_iv_1_epsilon(objective, [rate] * iterations).value == pytest.approx(epsilon, rel=1e-11)
    rate = dvp.total_epsilon_noise(objective, epsilon=epsilon, iterations=iterations).value
    assert dvp.total_epsilon(objective, [rate] * iterations).value == pytest.approx(epsilon, rel=1e-11)
    growing = [agent(degree=degree, records=5000, eta=1.01**t) for t in range(iterations)]
    rate = m_admm.total_epsilon_noise(growing, epsilon=epsilon).value
    assert m_admm.total_epsilon(growing, [rate] * iterations).value == pytest.approx(epsilon, rel=1e-11)


@pytest.mark.parametrize(("t", "claimed", "exact"), [(1e-3, 2.8e-3, 9.995003e-4), (0.4, 1.12, 0.3364722)])
def test_jacobian_term_is_true_but_loose(t: float, claimed: float, exact: float) -> None:
    """2.8 t against ln(1 + t), t = c1/(B (rho/N + 2 eta V)): between 2.8 and 3.5 times too much."""
    # B = 10, modulus 0.1 + 2 eta = c1/(10 t)
    eta = (0.25 / (10 * t) - 0.01) / 2
    objective = agent(records=10, degree=1, eta=eta, ridge=0.01)
    noise_part = 2 * 1.0 / 10
    jacobian = r_admm.theorem_iv_1_epsilon(objective, [1.0]).value - noise_part
    assert jacobian == pytest.approx(claimed, rel=1e-9)
    assert math.log1p(t) == pytest.approx(exact, rel=1e-6)
    assert 2.8 <= jacobian / math.log1p(t) < 3.5


def test_true_jacobian_ratio_stays_below_both() -> None:
    """The ratio of determinants itself, on logistic data: at most ln(1 + t), so well below 2.8 t."""
    rng = np.random.default_rng(3)
    records, modulus, worst = 10, 0.1, -math.inf
    t = 0.25 / (records * modulus)
    for _ in range(300):
        features = rng.standard_normal((records + 1, 3))
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        weights = rng.uniform(0.0, 0.25, records + 1)
        weights[0] = 0.25
        rest = modulus * np.eye(3) + (features[2:].T * weights[2:]) @ features[2:] / records
        one = rest + weights[0] * np.outer(features[0], features[0]) / records
        other = rest + 0.0 * np.outer(features[1], features[1])
        worst = max(worst, np.linalg.slogdet(one)[1] - np.linalg.slogdet(other)[1])
    assert worst <= math.log1p(t) < 2.8 * t
    # Alone in its agent's data the record attains the exact bound.
    alone = np.linalg.slogdet(modulus * np.eye(3) + 0.25 / records * np.outer([1, 0, 0], [1, 0, 0]))[1]
    assert alone - 3 * math.log(modulus) == pytest.approx(math.log1p(t), rel=1e-12)
