"""P-ADMM's printed privacy theorems: their numbers by hand, how loose they are, and the reading they need."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from dpadmm_research.papers.p_admm import claims as p_admm


def gdp_delta(epsilon: float, m: float) -> float:
    """C0, written out: delta of an m-GDP mechanism."""
    return float(norm.cdf(-epsilon / m + m / 2) - math.exp(epsilon) * norm.cdf(-epsilon / m - m / 2))


def gdp_epsilon(delta: float, m: float) -> float:
    return float(brentq(lambda epsilon: gdp_delta(epsilon, m) - delta, 0.0, 500.0, xtol=1e-13))


def test_theorem_3_is_the_sum_of_theorem_2_over_rounds() -> None:
    decay, rounds, first = 0.995, 50, 5.0
    stds = [first * decay ** (k / 2) for k in range(rounds)]
    total = math.fsum(p_admm.theorem_2_rho(gradient_bound=1.0, eta=1.0, degree=2, noise_std=std).value for std in stds)
    rho = p_admm.theorem_2_rho(gradient_bound=1.0, eta=1.0, degree=2, noise_std=first)
    claim = p_admm.theorem_3_epsilon(rho, decay=decay, rounds=rounds, delta=1e-4)
    assert claim.value == pytest.approx(total + 2 * math.sqrt(total * math.log(1e4)), rel=1e-12)


@settings(deadline=None, derandomize=True, max_examples=50)
@given(
    epsilon=st.floats(1e-4, 20.0),
    delta=st.floats(1e-10, 0.1),
    decay=st.floats(0.5, 0.9999),
    rounds=st.integers(1, 200),
    degree=st.integers(1, 20),
)
def test_theorem_3_noise_is_the_inverse(epsilon: float, delta: float, decay: float, rounds: int, degree: int) -> None:
    noise = p_admm.theorem_3_noise(
        epsilon=epsilon, delta=delta, decay=decay, rounds=rounds, gradient_bound=2.0, eta=0.7, degree=degree
    )
    rho = p_admm.theorem_2_rho(gradient_bound=2.0, eta=0.7, degree=degree, noise_std=noise.value)
    claim = p_admm.theorem_3_epsilon(rho, decay=decay, rounds=rounds, delta=delta)
    assert claim.value == pytest.approx(epsilon, rel=1e-10)
    assert noise.target.value == epsilon


def test_lemma_4_is_looser_than_the_certificate_by_the_number_of_records() -> None:
    """Unregularised logistic loss on Adult split in five: V = G = 1, the certified bound is 2G/(n_i s)."""
    records, eta, degree = 9044, 1.0, 2
    certified = 2 * 1.0 / (records * 2 * eta * degree)
    claim = p_admm.lemma_4_sensitivity(gradient_bound=1.0, eta=eta, degree=degree)
    assert claim.value == 0.5
    assert certified == pytest.approx(5.5285e-5, rel=1e-4)
    assert claim.value / certified == pytest.approx(records, rel=1e-12)


@pytest.mark.parametrize("bound", [1.0, 1e3, 1e6])
def test_no_finite_gradient_bound_with_an_l2_term(bound: float) -> None:
    """Lambda ||w||^2 pushes the gradient of f_i past any V; the claim says that its condition fails."""
    weight, records = 1e-3, 20
    rng = np.random.default_rng(5)
    features = rng.standard_normal((records, 3))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    labels = rng.choice([-1.0, 1.0], records)
    point = np.full(3, (bound + 2.0) / (2 * weight))
    margins = labels * (features @ point)
    gradient = -(features.T @ (labels / (1 + np.exp(np.minimum(margins, 700.0))))) / records + 2 * weight * point
    assert np.linalg.norm(gradient) > bound
    claim = p_admm.lemma_4_sensitivity(gradient_bound=bound, eta=1.0, degree=2, l2_weight=weight)
    assert not claim.conditions_hold
    assert "printed conditions" in claim.label


def literal_divergence(rounds: int, *, own_noisy: bool) -> float:
    """Distance of one agent's updates on two one-record data sets with gradients +1 and -1, same broadcasts.

    Eq. (10) solved for x: 2 eta |V| x+ = eta(|V| own + sum of neighbours) - alpha - grad, with eta = 1, |V| = 2.
    `own` is the agent's own last broadcast (eq. 13) or its unbroadcast iterate (eq. 10 read literally).
    """
    rng = np.random.default_rng(11)
    eta, degree = 1.0, 2
    iterates = {+1.0: 0.0, -1.0: 0.0}
    broadcast, alpha, distance = 0.0, 0.0, 0.0
    for _ in range(rounds):
        neighbours = rng.standard_normal(degree)
        for gradient, old in list(iterates.items()):
            own = broadcast if own_noisy else old
            iterates[gradient] = (eta * (degree * own + neighbours.sum()) - alpha - gradient) / (2 * eta * degree)
        distance = abs(iterates[1.0] - iterates[-1.0])
        # The transcript is common: what was broadcast is the same value in both worlds.
        broadcast = float(rng.standard_normal())
        alpha += eta * (degree * broadcast - neighbours.sum())
    return distance


def test_theorem_2_holds_when_updates_read_broadcasts_and_fails_when_read_literally() -> None:
    """With one record V = G = 1: Lemma 4's 0.5 is attained by eq. (13) and passed by a factor 2 by eq. (10)."""
    claim = p_admm.lemma_4_sensitivity(gradient_bound=1.0, eta=1.0, degree=2)
    assert claim.value == 0.5
    assert literal_divergence(12, own_noisy=True) == pytest.approx(0.5, rel=1e-12)
    assert literal_divergence(1, own_noisy=False) == pytest.approx(0.5, rel=1e-12)
    hidden = literal_divergence(12, own_noisy=False)
    assert hidden == pytest.approx(2 * 0.5 * (1 - 2.0**-12), rel=1e-9)
    # In the last round the true rho is then nearly four times the claimed one.
    rho = p_admm.theorem_2_rho(gradient_bound=1.0, eta=1.0, degree=2, noise_std=3.0)
    assert hidden**2 / (2 * 9.0) > 3.99 * rho.value


@pytest.mark.parametrize(("claimed", "exact"), [(5.0, 3.98225), (10.0, 8.35686)])
def test_theorem_3_conversion_is_true_but_loose(claimed: float, exact: float) -> None:
    """The paper's two budgets at delta = 1e-4: the same noise is worth less by the exact Gaussian curve (C0)."""
    noise = p_admm.theorem_3_noise(
        epsilon=claimed, delta=1e-4, decay=0.995, rounds=50, gradient_bound=1.0, eta=1.0, degree=2
    )
    sensitivity = 1.0 / (1.0 * 2)
    stds = noise.value * 0.995 ** (np.arange(50) / 2)
    m = math.sqrt(np.sum((sensitivity / stds) ** 2))
    assert gdp_epsilon(1e-4, m) == pytest.approx(exact, rel=1e-5)
    assert gdp_epsilon(1e-4, m) < claimed
