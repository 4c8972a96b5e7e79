"""C2: the density ratio of the exact minimiser, searched over data, points and noise."""

import math

import numpy as np
import pytest
from scipy.special import expit
from tests.contracts.local_facts import of
from tests.privacy.certificates.models import ball, climb, gradient, hessian

from dpadmm.privacy.certificates.objective import (
    dvp,
    m_admm,
    objective_perturbation,
    r_admm,
    solver_smoothing,
)
from dpadmm.privacy.protection import Strength


def log_ratio(v, other, x, b, alpha, kappa, weight, mu, gradient, hessian):
    """Log density ratio at output x: b is the noise that explains x with v; `other` needs another noise."""
    b2 = b + gradient(v, x, weight, mu) - gradient(other, x, weight, mu)
    eye = np.broadcast_to(np.asarray(kappa, float), (len(x), 1))[..., None] * np.eye(x.shape[1])
    det1 = np.linalg.slogdet(hessian(v, x, weight, mu) + eye)[1]
    det2 = np.linalg.slogdet(hessian(other, x, weight, mu) + eye)[1]
    return alpha * (np.linalg.norm(b2, axis=1) - np.linalg.norm(b, axis=1)) + det1 - det2


@pytest.mark.parametrize(("n", "replaced"), [(1, 1), (3, 1), (3, 2), (2, 2)])
def test_sampled_densities_never_exceed(n, replaced, rng):
    tries, d = 20_000, 3
    for _ in range(6):
        size = float(10.0 ** rng.uniform(-1, 1))
        weight, mu, eta = (float(a) for a in 10.0 ** rng.uniform(-2, 1, 3))
        kappa, s = 2 * eta, 2 * eta + weight * mu
        v = ball(rng, (tries, n, d), size)
        other = v.copy()
        other[:, :replaced] = ball(rng, (tries, replaced, d), size)
        x = rng.standard_normal((tries, d)) * 10.0 ** rng.uniform(-2, 2, (tries, 1)) / size
        c = of(dvp,
            gradient_bound=size, curvature_bound=size**2 / 4, n_records=n, edge_penalty=eta, degree=1,
            strong_convexity=mu, weight=weight, is_logistic=True, records_per_person=replaced,
        )  # fmt: skip
        assert c.jacobian_free_rate == pytest.approx(size / s)
        # Worst noise: parallel to the difference of the gradients, or none at all.
        gap = gradient(v, x, weight, mu) - gradient(other, x, weight, mu)
        b = gap * rng.choice([0.0, 1.0, 100.0], (tries, 1))
        for factor in (1e-3, 0.1, 1.0, 1.7, 30.0):
            alpha = factor * size / s
            found = log_ratio(v, other, x, b, alpha, kappa, weight, mu, gradient, hessian).max()
            assert found <= (alpha * c.bound + c.log_jacobian) * (1 + 1e-9)
            if factor >= 1:
                assert found <= alpha * c.bound * (1 + 1e-9)


def _greedy(alpha, s, rng, climb, gradient, hessian):
    def score(flat):
        v, other, x = flat[:, None, :2], flat[:, None, 2:4], 20 * flat[:, 4:6]
        v, other = (a / np.maximum(1, np.linalg.norm(a, axis=2, keepdims=True)) for a in (v, other))
        b = gradient(v, x, 1.0, 0.0) - gradient(other, x, 1.0, 0.0)
        return log_ratio(v, other, x, b, alpha, s, 1.0, 0.0, gradient, hessian)

    return climb(score, rng.standard_normal((1000, 6)), rng, rounds=150).max()


@pytest.mark.parametrize("s", [0.1, 1.0])
def test_greedy_search_respects_the_jacobian_free_branch(s, rng):
    c = of(
        objective_perturbation,
        gradient_bound=1,
        curvature_bound=0.25,
        n_records=1,
        quadratic_curvature=s,
        is_logistic=True,
    )
    alpha = c.jacobian_free_rate
    best = _greedy(alpha, s, rng, climb, gradient, hessian)
    assert 0.85 * alpha * c.bound < best <= alpha * c.bound * (1 + 1e-9)


def test_jacobian_free_rate_is_sharp():
    """Just below the rate G/s, an explicit pair passes 2 alpha G/n; at the rate the same family does not."""
    s, size = 0.7, 2.0
    rate = of(
        objective_perturbation,
        gradient_bound=size,
        curvature_bound=size**2 / 4,
        n_records=1,
        quadratic_curvature=s,
        is_logistic=True,
    ).jacobian_free_rate
    eps = 10.0 ** np.linspace(-4, -2, 200)
    norm = np.log(1 / (3000 * eps**2)) / (eps * size)  # 1 - g1 = 3000 eps^2, 1 - g2 its third power
    v = size * np.stack([-np.sin(eps), np.cos(eps)], 1)[:, None]
    other = size * np.stack([-np.sin(3 * eps), -np.cos(3 * eps)], 1)[:, None]
    keep = 3000 * eps**2 < 0.2
    v, other, x = v[keep], other[keep], np.stack([norm, 0 * norm], 1)[keep]
    b = gradient(v, x, 1.0, 0.0) - gradient(other, x, 1.0, 0.0)
    for factor, passes in ((0.9, True), (1.0, False)):
        alpha = factor * rate
        excess = log_ratio(v, other, x, b, alpha, s, 1.0, 0.0, gradient, hessian) - 2 * alpha * size
        assert bool(excess.max() > 0) is passes


def test_log_jacobian_is_reached():
    """A record at margin zero against one that is far on the right side: ratio 1 + t, so ln(1 + t) is exact."""
    s, r = 0.5, 2
    c = of(
        objective_perturbation,
        gradient_bound=1,
        curvature_bound=0.25,
        n_records=r,
        quadratic_curvature=s,
        records_per_person=r,
    )
    x = np.array([[0.0, 0.0, 2000.0]])
    v = np.array([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    other = np.array([[[0.0, 0.0, 1.0]] * r])
    found = log_ratio(v, other, x, np.zeros((1, 3)), 1e-9, s, 1.0, 0.0, gradient, hessian)[0]
    assert found == pytest.approx(c.log_jacobian, rel=1e-6)
    assert c.log_jacobian == pytest.approx(r * math.log1p(0.25 / (r * s)))


def test_hessian_rank_multiplies_the_jacobian():
    facts = {"gradient_bound": 1, "curvature_bound": 0.5, "n_records": 10, "quadratic_curvature": 0.2}
    one, three = of(objective_perturbation, **facts), of(objective_perturbation, **facts, hessian_rank=3)
    assert three.log_jacobian == pytest.approx(3 * one.log_jacobian)
    assert one.jacobian_free_rate is None


def test_the_three_methods_agree_where_they_should():
    facts = {"gradient_bound": 1, "curvature_bound": 0.25, "n_records": 50, "degree": 3, "strong_convexity": 0.01}
    a = of(dvp, edge_penalty=0.4, **facts)
    b, c = r_admm(a), m_admm(a)
    assert a.bound == b.bound == c.bound == pytest.approx(0.04)
    assert a.log_jacobian == b.log_jacobian == c.log_jacobian == pytest.approx(math.log1p(0.25 / (50 * 2.41)))
    assert any("even iterations" in texts for texts in b.assumptions)
    assert {a.strength, b.strength, c.strength} == {Strength.UP_TO_SOLVER_ERROR}


def test_smoothing_covers_adversarial_residuals():
    """Integrate the output density in one dimension with the worst residual allowed at every noise value."""
    s, tol, alpha, rate = 0.5, 0.05, 2.5, 4.0
    x = np.linspace(-30, 30, 6001)
    densities = []
    for v, sign in ((1.0, 1.0), (-1.0, -1.0)):
        g = expit(-v * x)
        b = g * v - s * x
        density = 0.5 * alpha * np.exp(-alpha * np.abs(b)) * (s + g * (1 - g))
        # Residuals may depend on anything; here they push the two outputs apart, or flip quickly.
        shift = sign * tol / s * np.where(x % 0.5 < 0.4, 1.0, -1.0)
        y = np.linspace(-5, 5, 401)
        smooth = 0.5 * rate * np.exp(-rate * np.abs(y[:, None] - (x + shift)[None]))
        densities.append(np.trapezoid(smooth * density, x, axis=1))
    facts = {"quadratic_curvature": s, "solver_tolerance": tol}
    main = of(
        objective_perturbation,
        gradient_bound=1,
        curvature_bound=0.25,
        n_records=1,
        is_logistic=True,
        is_smoothed=True,
        **facts,
    )
    extra = of(solver_smoothing, **facts)
    found = np.abs(np.log(densities[0] / densities[1])).max()
    assert alpha >= main.jacobian_free_rate
    assert found <= alpha * main.bound + rate * extra.bound
    assert extra.bound == pytest.approx(2 * tol / s)
    assert main.strength is extra.strength is Strength.UP_TO_FLOATING_POINT
