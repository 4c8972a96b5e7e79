"""The logistic form of C1 and the variant with its own iterate, against sampled neighbours and the worst case."""

import numpy as np
import pytest
from scipy.special import expit
from tests.contracts.local_facts import of
from tests.privacy.certificates.models import ball, solve

from dpadmm.privacy.certificates.local import p_admm
from dpadmm_research.papers.p_admm.certificates import logistic_gradient_gap, own_iterate_p_admm, p_admm_logistic


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("replaced", [1, 2])
def test_sampled_neighbours_never_exceed_the_logistic_form(n, replaced):
    rng, tries, d = np.random.default_rng(0), 3000, 3
    w, mu = 10.0 ** rng.uniform(-1, 1, (tries, 1)), 10.0 ** rng.uniform(-3, 0, (tries, 1))
    eta, degree = 10.0 ** rng.uniform(-2, 1, (tries, 1)), rng.integers(1, 5, (tries, 1))
    v = ball(rng, (tries, n, d))
    other = v.copy()
    other[:, : min(replaced, n)] = ball(rng, (tries, min(replaced, n), d))
    kappa = 2 * eta * degree
    public = rng.standard_normal((tries, d)) * 10.0 ** rng.uniform(-2, 2, (tries, 1)) * (kappa + w * mu)
    x, y = solve(v, public, kappa, w, mu), solve(other, public, kappa, w, mu)
    moved = np.linalg.norm(x - y, axis=1)
    facts = {"gradient_bound": 1.0, "n_records": n, "records_per_person": replaced, "solver_tolerance": 1e-10}
    rows = zip(eta[:, 0], degree[:, 0], mu[:, 0], w[:, 0], np.linalg.norm(public, axis=1), strict=True)
    near, wide = [], []
    for e, g, m, a, c in rows:
        mine = facts | {"edge_penalty": e, "degree": g, "strong_convexity": m, "weight": a}
        near.append(of(p_admm_logistic, centre_norm=c, **mine).bound)
        wide.append(of(p_admm, **mine).bound)
    assert np.all(moved <= near)
    assert np.all(np.array(near) <= np.array(wide) * (1 + 1e-9))


def test_logistic_gap_values_and_sampling():
    rng = np.random.default_rng(0)
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


def test_own_iterate_is_twice_as_exposed():
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


def test_the_radius_of_the_logistic_form_counts_the_local_pull():
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
