"""C1 against sampled neighbours, greedy search and the explicit worst case."""

import numpy as np
import pytest
from scipy.special import expit
from tests.contracts.local_facts import of

from dpadmm.errors import InputError
from dpadmm.privacy.certificates import (
    logistic_gradient_gap,
    own_iterate_p_admm,
    p_admm,
    p_admm_logistic,
)
from dpadmm.privacy.protection import Norm, Relation, Strength, Unit, View


def test_golden_adult_split():
    c = of(p_admm, gradient_bound=1, n_records=6331, edge_penalty=1e-3, degree=2, strong_convexity=2e-4)
    assert c.bound == pytest.approx(2 / (6331 * 0.0042), rel=1e-14)
    assert (c.unit, c.view, c.norm, c.relation) == (Unit.RECORD, View.EAVESDROPPER, Norm.L2, Relation.REPLACE_ONE)
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
def test_sampled_neighbours_never_exceed(n, replaced, rng, solve, ball):
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
    tight = [
        of(
            p_admm_logistic,
            gradient_bound=1.0,
            centre_norm=c, n_records=n, edge_penalty=e, degree=g, strong_convexity=m, weight=a,
            records_per_person=replaced, solver_tolerance=1e-10,
        ).bound
        for c, e, g, m, a in zip(
            np.linalg.norm(public, axis=1), eta[:, 0], degree[:, 0], mu[:, 0], w[:, 0], strict=True
        )
    ]  # fmt: skip
    assert np.all(moved <= tight)
    assert np.all(np.array(tight) <= bounds * (1 + 1e-9))


def test_greedy_search_comes_near_and_stays_below(rng, solve, climb):
    mu, eta, degree = 1e-3, 0.05, 2
    bound = of(p_admm, gradient_bound=1, n_records=1, edge_penalty=eta, degree=degree, strong_convexity=mu).bound

    def score(flat):
        v, other, public = flat[:, None, :2], flat[:, None, 2:4], 30 * flat[:, 4:]
        v, other = (a / np.maximum(1, np.linalg.norm(a, axis=2, keepdims=True)) for a in (v, other))
        x, y = (solve(a, public, 2 * eta * degree, 1.0, mu) for a in (v, other))
        return np.linalg.norm(x - y, axis=1)

    best = climb(score, rng.standard_normal((300, 6)), rng, rounds=40).max()
    assert 0.97 * bound < best <= bound * (1 + 1e-9)


def test_nearly_opposite_misclassified_records_reach_99_percent(solve):
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


def test_logistic_gap_values_and_sampling(rng, ball):
    assert [round(logistic_gradient_gap(t), 2) for t in (0, 1, 2, 5, 10)] == [1.0, 1.1, 1.27, 1.62, 1.82]
    assert logistic_gradient_gap(1e12) <= 2.0
    for t in (0.3, 1.0, 4.0, 30.0):
        # All pairs in the plane: angle of each record to x, x on the first axis; norms below 1 and below t too.
        angle = np.linspace(0, 2 * np.pi, 721)
        v = np.stack([np.cos(angle), np.sin(angle)], 1)
        best = 0.0
        for norm in (t, 0.9 * t, 0.5 * t):
            g = expit(-norm * v[:, :1]) * v
            gaps = np.linalg.norm(g[:, None] - g[None], axis=2)
            best = max(best, gaps.max())
            assert gaps.max() <= logistic_gradient_gap(t)
        assert best >= 0.999 * logistic_gradient_gap(t)
        inner = ball(rng, (4000, 2, 3)) * rng.random((4000, 2, 1))
        x = ball(rng, (4000, 3), t)
        g = expit(-np.einsum("tkd,td->tk", inner, x))[..., None] * inner
        assert np.linalg.norm(g[:, 0] - g[:, 1], axis=1).max() <= logistic_gradient_gap(t)
    values = [logistic_gradient_gap(t) for t in np.linspace(0, 50, 500)]
    assert np.all(np.diff(values) >= -1e-9)
    assert logistic_gradient_gap(2.0, feature_bound=3.0) == pytest.approx(3 * logistic_gradient_gap(6.0))


def test_own_iterate_is_twice_as_exposed(solve):
    eta, degree, mu, n, eps = 0.5, 2, 1e-4, 1, 0.02
    facts = {"gradient_bound": 1, "n_records": n, "edge_penalty": eta, "degree": degree, "strong_convexity": mu}
    certs = of(own_iterate_p_admm, rounds=40, **facts)
    assert certs[0].bound == pytest.approx(of(p_admm, **facts).bound)
    assert certs[-1].bound == pytest.approx(2 / (n * (eta * degree + mu)), rel=1e-6)
    v = np.array([[[-np.sin(eps), np.cos(eps)]]])
    other = v * [1, -1]
    x = y = np.zeros((1, 2))
    worst = 0.0
    for k in range(40):
        public = np.array([[2000.0, 0.0]])  # duals and neighbours, the same transcript in both worlds
        x = solve(v, public + eta * degree * x, 2 * eta * degree, 1.0, mu)
        y = solve(other, public + eta * degree * y, 2 * eta * degree, 1.0, mu)
        moved = np.linalg.norm(x - y)
        assert moved <= certs[k].bound * (1 + 1e-9)
        worst = max(worst, moved / of(p_admm, **facts).bound)
    assert 1.99 <= worst <= 2.0


@pytest.mark.parametrize(
    "broken",
    [
        {"gradient_bound": np.inf},
        {"gradient_bound": -1.0},
        {"n_records": 0},
        {"edge_penalty": 0.0},
        {"degree": 0},
        {"strong_convexity": -0.1},
        {"weight": 0.0},
        {"solver_tolerance": -1e-9},
        {"solver_tolerance": np.inf},
        {"records_per_person": 0},
    ],
)
def test_bad_input_is_refused(broken):
    facts = {"gradient_bound": 1, "n_records": 10, "edge_penalty": 0.1, "degree": 2} | broken
    with pytest.raises(InputError):
        of(p_admm, **facts)


def test_infinite_gradients_point_to_huber_or_clipping():
    with pytest.raises(InputError, match="Huber"):
        of(p_admm, gradient_bound=np.inf, n_records=10, edge_penalty=0.1, degree=2)


def test_the_radius_of_the_logistic_form_counts_the_local_pull(solve):
    """Public centre zero, yet the other records drag x out to norm 4, where two records differ by far more than 1."""
    n, eta = 4000, 1e-3
    v = np.tile([1.0, 0.0], (1, n, 1))
    other = v.copy()
    v[0, 0], other[0, 0] = [-0.45, 0.893], [-0.45, -0.893]
    x, y = (solve(a, np.zeros((1, 2)), 2 * eta, 1.0, 0.0) for a in (v, other))
    moved = np.linalg.norm(x - y)
    assert np.linalg.norm(x) > 4
    assert moved > 1.2 * logistic_gradient_gap(0.0) / (n * 2 * eta)
    bound = of(p_admm_logistic, gradient_bound=1.0, centre_norm=0.0, n_records=n, edge_penalty=eta, degree=1).bound
    assert moved <= bound
