"""R-ADMM's Theorem IV.1 and its relatives DVP and M-ADMM: numbers by hand, and how loose 2.8 c1 is."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpadmm.errors import InputError
from dpadmm_research.claims.base import Provenance, largest
from dpadmm_research.papers.r_admm import claims as r_admm
from dpadmm_research.papers.r_admm import dvp_claims as dvp
from dpadmm_research.papers.r_admm import m_admm_claims as m_admm


def agent(**changes: Any) -> r_admm.PerturbedObjective:
    values: dict[str, Any] = {"records": 1000, "degree": 2, "eta": 1.0, "ridge": 0.1} | changes
    return r_admm.PerturbedObjective(**values)


def test_theorem_iv_1_by_hand() -> None:
    # (30): 2C/B (1.4 c1/(rho/N + 2 eta V) + alpha) with C = 3, B = 500, c1 = 1/4, rho/N = 0.5, eta = 2, V = 3:
    # denominator 0.5 + 12 = 12.5, 0.35/12.5 = 0.028; alpha = 4 and 7: (6/500) (2 * 0.028 + 11) = 0.012 * 11.056
    objective = agent(records=500, degree=3, eta=2.0, ridge=0.5, loss_weight=3.0)
    claim = r_admm.theorem_iv_1_epsilon(objective, [4.0, 7.0])
    assert claim.value == pytest.approx(0.132672, rel=1e-14)
    assert claim.delta == 0.0
    assert claim.conditions_hold


def test_theorem_iv_1_is_the_worst_agent() -> None:
    claims = [r_admm.theorem_iv_1_epsilon(agent(records=records), [1.0]) for records in (500, 100, 900)]
    assert largest(claims).value == claims[1].value


def test_dvp_counts_every_iteration_and_says_where_it_comes_from() -> None:
    # 2/1000 (0.35/4.1 + 5) = 0.01017073..., eight iterations where R-ADMM pays for four
    every = dvp.total_epsilon(agent(), [5.0] * 8)
    odd = r_admm.theorem_iv_1_epsilon(agent(), [5.0] * 4)
    assert every.value == pytest.approx(8 * (2 / 1000) * (0.35 / 4.1 + 5), rel=1e-14)
    assert every.value == pytest.approx(2 * odd.value, rel=1e-14)
    assert every.provenance is Provenance.RECONSTRUCTED


def test_m_admm_by_hand() -> None:
    # sum C (1.4 c1 + alpha)/(eta V B), C = 1, c1 = 1/4, V = 2, B = 1000:
    # eta = 1: 5.35/2000 = 0.002675; eta = 2, alpha = 8: 8.35/4000 = 0.0020875
    claim = m_admm.total_epsilon([agent(), agent(eta=2.0)], [5.0, 8.0])
    assert claim.value == pytest.approx(0.0047625, rel=1e-14)
    assert claim.provenance is Provenance.RECONSTRUCTED


def test_m_admm_is_theorem_iv_1_with_linear_noise_and_the_ridge_dropped() -> None:
    """C2: the linear noise is 2 eta V e, so its rate is alpha/(2 eta V); rho/N -> 0 turns one sum into the other."""
    objective = agent(ridge=1e-12, eta=1.7)
    alpha = 5.0
    linear = alpha / (2 * 1.7 * 2)
    ours = m_admm.total_epsilon([objective], [alpha]).value
    assert ours == pytest.approx(r_admm.theorem_iv_1_epsilon(objective, [linear]).value, rel=1e-10)
    strong = agent(ridge=3.0, eta=1.7)
    assert m_admm.total_epsilon([strong], [alpha]).value > r_admm.theorem_iv_1_epsilon(strong, [linear]).value


def test_m_admm_says_when_penalties_fall() -> None:
    assert not m_admm.total_epsilon([agent(eta=2.0), agent(eta=1.0)], [5.0, 5.0]).conditions_hold


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


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"records": 3, "eta": 0.01}, "2 c1 <"),
        ({"gradient_bound": 1.5}, "norm at most 1"),
        ({"ridge": 0.0}, "strongly convex"),
        ({"loss_weight": 2000.0}, "C <= B_i"),
    ],
)
def test_printed_conditions_are_checked(changes: dict[str, Any], text: str) -> None:
    claim = r_admm.theorem_iv_1_epsilon(agent(**changes), [1.0])
    assert any(text in condition.text for condition in claim.failed_conditions)


def test_a_budget_below_the_jacobian_term_is_refused() -> None:
    with pytest.raises(InputError, match="regardless of the noise"):
        r_admm.theorem_iv_1_noise(agent(records=5), epsilon=0.01, noisy_iterations=10)
    with pytest.raises(InputError, match="regardless of the noise"):
        m_admm.total_epsilon_noise([agent(records=5)] * 10, epsilon=0.01)


@pytest.mark.parametrize("rates", [[], [0.0], [-1.0], [math.inf], [math.nan]])
def test_bad_rates_are_refused(rates: list[float]) -> None:
    with pytest.raises(InputError):
        r_admm.theorem_iv_1_epsilon(agent(), rates)
    with pytest.raises(InputError):
        m_admm.total_epsilon([agent()], rates)


@pytest.mark.parametrize("changes", [{"records": 0}, {"degree": 0}, {"eta": 0.0}, {"ridge": -1.0}, {"curvature": 0.0}])
def test_bad_agents_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        agent(**changes)
