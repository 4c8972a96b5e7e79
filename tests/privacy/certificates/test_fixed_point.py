"""C5 and C6: blocks and means of the fixed-point iteration, noise in the blocks or at the coordinator."""

import math

import numpy as np
import pytest
from tests.contracts.local_facts import of
from tests.privacy.certificates.models import ball, solve

from dpadmm.privacy.certificates.hidden_state import (
    fixed_point_block_record,
    fixed_point_block_user,
    fixed_point_mean_record,
    fixed_point_mean_user,
    hidden_drift,
    prox_spectrum,
)
from dpadmm.privacy.protection import Unit, View


def prox_cone(y, anchor, step, lipschitz, mu, residual=0.0):
    """Prox of `L||x - anchor|| + (mu/2)||x||^2 - residual'x`: gradients of the loss part have norm at most L."""
    y, step = (y + step * residual) / (1 + step * mu), step / (1 + step * mu)
    gap = y - anchor
    size = np.linalg.norm(gap, axis=1, keepdims=True)
    return y - gap * np.minimum(1, step * lipschitz / np.maximum(size, 1e-300))


def clipped(x, radius):
    return x * np.minimum(1, radius / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-300))


def test_block_user_level_attacked_and_attained(rng):
    gam, lip, mu, tol = 0.7, 1.5, 0.2, 0.05
    tries = 20_000
    y = rng.standard_normal((tries, 2)) * 10.0 ** rng.uniform(-2, 2, (tries, 1))
    anchors = rng.standard_normal((2, tries, 2)) * 10.0 ** rng.uniform(-2, 2, (2, tries, 1))
    z = rng.standard_normal((tries, 2))
    for radius, error, clip in ((0.0, 0.0, math.inf), (tol, tol, math.inf), (0.0, 0.0, 0.3)):
        x = [prox_cone(y, a, gam, lip, mu, ball(rng, y.shape, radius)) for a in anchors]
        moved = 2 * np.linalg.norm(clipped(x[0] - z, clip) - clipped(x[1] - z, clip), axis=1).max()
        facts = {"step": gam, "lipschitz": lip, "strong_convexity": mu, "clip": clip, "solver_tolerance": error}
        bound = fixed_point_block_user(**facts).bound
        assert 0.9 * bound <= moved <= bound * (1 + 1e-9)
    far = np.array([[1e3, 0.0]])
    pair = [prox_cone(np.zeros((1, 2)), a, gam, lip, 0.0) for a in (far, -far)]
    exact = fixed_point_block_user(step=gam, lipschitz=lip).bound
    assert 2 * np.linalg.norm(pair[0] - pair[1]) == pytest.approx(exact) == pytest.approx(4 * gam * lip)


def test_block_zcdp_matches_the_papers_user_level_figure():
    """With the printed sigma: D^2/(2 sigma^2) = 8 L^2 gamma^2/sigma^2."""
    gam, lip, sigma = 0.3, 2.0, 1.7
    cert = fixed_point_block_user(step=gam, lipschitz=lip)
    assert cert.bound**2 / (2 * sigma**2) == pytest.approx(8 * lip**2 * gam**2 / sigma**2)
    assert (cert.protection.unit, cert.protection.view) == (Unit.USER, View.EAVESDROPPER)


def test_block_record_level_attacked_and_attained(rng):
    gam, mu, w, n = 2.0, 0.1, 3.0, 2
    v = ball(rng, (5000, n, 2))
    other = v.copy()
    other[:, 0] = ball(rng, (5000, 2))
    y = rng.standard_normal((5000, 2)) * 10.0 ** rng.uniform(-1, 3, (5000, 1))
    x, u = (solve(a, y / gam, 1 / gam, w, mu) for a in (v, other))
    facts = {"step": gam, "gradient_bound": 1.0, "n_records": n, "strong_convexity": mu, "weight": w}
    bound = of(fixed_point_block_record, **facts).bound
    assert 2 * np.linalg.norm(x - u, axis=1).max() <= bound * (1 + 1e-9)
    v = np.array([[[-0.05, 0.9987], [0.0, 0.0]]])
    x, u = (solve(a, np.array([[2000.0, 0.0]]), 1 / gam, w, mu) for a in (v, v * [1, -1]))
    assert 2 * np.linalg.norm(x - u) >= 0.99 * bound
    assert of(fixed_point_block_record, **facts, clip=0.01).bound == pytest.approx(0.04)
    assert of(fixed_point_block_record, **facts, records_per_person=2).bound == pytest.approx(2 * bound)


@pytest.mark.parametrize(("lam", "mu", "tol"), [(0.5, 0.0, 0.0), (0.5, 0.4, 0.0), (0.2, 0.3, 0.1), (0.35, 0.0, 0.2)])
def test_mean_user_level_attacked_and_attained(lam, mu, tol, rng):
    gam, lip, n, updates, tries = 0.8, 1.2, 4, 15, 4000
    facts = {"step": gam, "lipschitz": lip, "n_users": n, "relaxation": lam, "strong_convexity": mu}
    certs = fixed_point_mean_user(updates=updates, solver_tolerance=tol, **facts)
    anchors = rng.standard_normal((2, tries, 2)) * 10.0 ** rng.uniform(-1, 6, (2, tries, 1))
    anchors[:, 0] = [[1e9, 0.0], [-1e9, 0.0]]
    u = [np.zeros((tries, 2)), np.zeros((tries, 2))]
    errors = [np.zeros((tries, 2)) for _ in range(2)]
    for cert in certs:
        z = rng.standard_normal((tries, 2)) * 10.0 ** rng.uniform(-1, 2, (tries, 1))
        skips = rng.random((tries, 1)) < 0.2
        skips[0] = False
        for i in range(2):
            errors[i] = ball(rng, z.shape, tol) if tol else errors[i]
            errors[i][0] = [tol * (1 - 2 * i), 0.0]
            x = prox_cone(2 * z - u[i], anchors[i], gam, lip, mu, errors[i])
            u[i] = np.where(skips, u[i], u[i] + 2 * lam * (x - z))
        moved = np.linalg.norm(u[0] - u[1], axis=1) / n
        assert moved.max() <= cert.bound * (1 + 1e-9)
        assert moved[0] == pytest.approx(cert.bound, rel=1e-6)
        assert cert.bound <= 2 * gam * (lip + tol) / n * (1 + 1e-12)


def test_mean_user_level_fails_beyond_one_half():
    """lam = 0.8: one update moves the block by 4 lam gamma L > 2 gamma L; hence the refusal."""
    gam, lip, lam = 1.0, 1.0, 0.8
    far, origin = np.array([[1e6, 0.0]]), np.zeros((1, 2))
    moved = 2 * lam * np.linalg.norm(prox_cone(origin, far, gam, lip, 0) - prox_cone(origin, -far, gam, lip, 0))
    assert moved > 1.5 * 2 * gam * lip


@pytest.mark.parametrize(
    ("gam", "mu", "lam", "n", "tol"),
    [(1.0, 0.0, 0.5, 2, 0.0), (30.0, 0.0, 0.5, 3, 0.0), (8.0, 0.1, 0.3, 2, 0.0), (8.0, 0.02, 0.5, 2, 0.03)],
)
def test_mean_record_level_greedy_transcripts(gam, mu, lam, n, tol, rng):
    """Greedy adversary over the public z, on logistic users who may skip rounds."""
    tries, menu, updates, d = 250, 8, 8, 2
    facts = {"step": gam, "gradient_bound": 1, "n_records": n, "n_users": 5, "strong_convexity": mu, "relaxation": lam}
    certs = of(fixed_point_mean_record, updates=updates, smoothness=0.25 + mu, solver_tolerance=tol + 1e-11, **facts)
    v = ball(rng, (tries, n, d))
    other = v.copy()
    other[:, 0] = ball(rng, (tries, d))
    u, t = np.zeros((tries, d)), np.zeros((tries, d))
    best = 0.0
    for cert in certs:
        wv, wo, wu, wt = (np.repeat(a, menu, axis=0) for a in (v, other, u, t))
        z = rng.standard_normal((tries * menu, d)) * 10.0 ** rng.uniform(-1, 3, (tries * menu, 1)) + wu
        nu = wu + 2 * lam * (solve(wv, (2 * z - wu) / gam + ball(rng, z.shape, tol), 1 / gam, 1.0, mu) - z)
        nt = wt + 2 * lam * (solve(wo, (2 * z - wt) / gam + ball(rng, z.shape, tol), 1 / gam, 1.0, mu) - z)
        skips = rng.random((len(z), 1)) < 0.1
        nu, nt = np.where(skips, wu, nu), np.where(skips, wt, nt)
        moved = np.linalg.norm(nu - nt, axis=1)
        assert moved.max() / 5 <= cert.bound * (1 + 1e-9)
        best = max(best, moved.max() / 5 / cert.bound)
        pick = moved.reshape(tries, menu).argmax(1) + menu * np.arange(tries)
        u, t = nu[pick], nt[pick]
    assert best > 0.5


def test_mean_record_level_is_the_recursion_capped_by_the_user_level():
    facts = {"step": 2.0, "gradient_bound": 1.0, "n_users": 10, "strong_convexity": 0.1, "relaxation": 0.4}
    certs = of(fixed_point_mean_record, updates=6, n_records=50, smoothness=0.35, weight=1.5, **facts)
    spectrum = prox_spectrum(step=3.0, strong_convexity=0.1, smoothness=0.35).relax(0.4)
    drift = hidden_drift(spectrum, 2.0 * 1.5 * 2 / 50, 6)[1:]
    assert [c.bound for c in certs] == pytest.approx([a / 10 for a in drift], rel=1e-12)
    capped = of(fixed_point_mean_record, updates=60, n_records=1, smoothness=100.0, **facts)
    assert capped[-1].bound == pytest.approx(2 * 2.0 / 10)


def test_mean_record_level_limit_factor():
    certs = of(
        fixed_point_mean_record, updates=400, step=3.0, gradient_bound=1, n_records=100, smoothness=0.5, n_users=7
    )
    assert certs[-1].bound == pytest.approx(3.0 * 2 / 100 / 7 * math.sqrt(1 + 3.0 * 0.5 / 2), rel=1e-9)
    assert certs[0].bound == pytest.approx(
        3.0
        * 2
        / 100
        / 7
        * math.sqrt(hidden_drift(prox_spectrum(step=3.0, strong_convexity=0, smoothness=0.5), 1.0, 1)[1] ** 2)
    )


def test_clipping_bounds_a_loss_without_gradient_bound():
    assert fixed_point_block_user(step=1.0, clip=0.5).bound == pytest.approx(2.0)
