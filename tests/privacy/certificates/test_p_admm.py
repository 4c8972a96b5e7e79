"""C1 against sampled neighbours, greedy search and the explicit worst case."""

import numpy as np
import pytest
from tests.contracts.local_facts import of
from tests.privacy.certificates.models import ball, climb, solve

from dpadmm.privacy.certificates.local import p_admm
from dpadmm.privacy.protection import ONE_RECORD, Norm, Strength


def test_golden_adult_split():
    c = of(p_admm, gradient_bound=1, n_records=6331, edge_penalty=1e-3, degree=2, strong_convexity=2e-4)
    assert c.bound == pytest.approx(2 / (6331 * 0.0042), rel=1e-14)
    assert (c.protection, c.norm) == (ONE_RECORD, Norm.L2)
    assert c.theorem == "C1"


def test_strength_needs_a_stated_tolerance():
    facts = {"gradient_bound": 1, "n_records": 10, "edge_penalty": 0.1, "degree": 2}
    assert of(p_admm, **facts).strength is Strength.UP_TO_SOLVER_ERROR
    exact, loose = of(p_admm, **facts, solver_tolerance=0.0), of(p_admm, **facts, solver_tolerance=1e-3)
    assert exact.strength is loose.strength is Strength.FULL
    assert loose.bound - exact.bound == pytest.approx(2e-3 / 0.4)


def test_records_of_one_person_and_weight():
    facts = {"gradient_bound": 1, "n_records": 10, "edge_penalty": 0.1, "degree": 2, "strong_convexity": 0.2}
    assert of(p_admm, **facts, records_per_person=3).bound == pytest.approx(3 * of(p_admm, **facts).bound)
    assert of(p_admm, **facts, records_per_person=99).bound == pytest.approx(10 * of(p_admm, **facts).bound)
    assert of(p_admm, **facts, weight=5).bound == pytest.approx(5 * 0.2 / (0.4 + 1.0))


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("replaced", [1, 2])
def test_sampled_neighbours_never_exceed(n, replaced, rng):
    tries, d = 3000, 3
    w = 10.0 ** rng.uniform(-1, 1, (tries, 1))
    mu = 10.0 ** rng.uniform(-3, 0, (tries, 1))
    eta, degree = 10.0 ** rng.uniform(-2, 1, (tries, 1)), rng.integers(1, 5, (tries, 1))
    v = ball(rng, (tries, n, d))
    other = v.copy()
    other[:, : min(replaced, n)] = ball(rng, (tries, min(replaced, n), d))
    kappa = 2 * eta * degree
    # The adversary may choose the whole public past: spread the centres over all scales.
    public = rng.standard_normal((tries, d)) * 10.0 ** rng.uniform(-2, 2, (tries, 1)) * (kappa + w * mu)
    x, y = solve(v, public, kappa, w, mu), solve(other, public, kappa, w, mu)
    moved = np.linalg.norm(x - y, axis=1)
    bounds = np.array(
        [
            of(
                p_admm,
                gradient_bound=1,
                n_records=n,
                edge_penalty=e,
                degree=g,
                strong_convexity=m,
                weight=a,
                records_per_person=replaced,
                solver_tolerance=1e-10,
            ).bound
            for e, g, m, a in zip(eta[:, 0], degree[:, 0], mu[:, 0], w[:, 0], strict=True)
        ]
    )
    assert np.all(moved <= bounds)


def test_greedy_search_comes_near_and_stays_below(rng):
    mu, eta, degree = 1e-3, 0.05, 2
    bound = of(p_admm, gradient_bound=1, n_records=1, edge_penalty=eta, degree=degree, strong_convexity=mu).bound

    def score(flat):
        v, other, public = flat[:, None, :2], flat[:, None, 2:4], 30 * flat[:, 4:]
        v, other = (a / np.maximum(1, np.linalg.norm(a, axis=2, keepdims=True)) for a in (v, other))
        x, y = (solve(a, public, 2 * eta * degree, 1.0, mu) for a in (v, other))
        return np.linalg.norm(x - y, axis=1)

    best = climb(score, rng.standard_normal((300, 6)), rng, rounds=40).max()
    assert 0.97 * bound < best <= bound * (1 + 1e-9)


def test_nearly_opposite_misclassified_records_reach_99_percent():
    eta, degree, mu, n = 0.1, 2, 0.01, 4
    eps = 0.05
    v = np.zeros((1, n, 2))
    other = np.zeros((1, n, 2))
    v[0, 0], other[0, 0] = [-np.sin(eps), np.cos(eps)], [-np.sin(eps), -np.cos(eps)]
    public = np.array([[200.0, 0.0]])
    x, y = (solve(a, public, 2 * eta * degree, 1.0, mu) for a in (v, other))
    bound = of(p_admm, gradient_bound=1, n_records=n, edge_penalty=eta, degree=degree, strong_convexity=mu).bound
    assert 0.99 * bound <= np.linalg.norm(x - y) <= bound
    # Exact opposites move a logistic gradient by half the bound only.
    y = solve(-v, public, 2 * eta * degree, 1.0, mu)
    assert np.linalg.norm(x - y) <= 0.51 * bound
