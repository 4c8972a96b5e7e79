"""C3 against golden numbers, explicit pairs of functions, sampled neighbours and greedy transcripts."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.contracts.local_facts import of
from tests.privacy.certificates.models import ball, solve

from dpadmm.privacy.certificates.hidden_state import (
    consensus_broadcast,
    consensus_broadcast_quadratic,
    consensus_broadcast_records,
)
from dpadmm.privacy.protection import Strength, Unit, View

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "c3.json").read_text())["rows"]
PAPER = {"gradient_distance": 1.0, "n_agents": 10_000, "penalty": 5.0, "strong_convexity": 1.0, "smoothness": 2.0}


@pytest.mark.parametrize("row", GOLDEN)
def test_golden_recursion(row):
    facts = {
        "gradient_distance": row["delta"],
        "n_agents": row["N"],
        "penalty": row["rho"],
        "strong_convexity": row["tau"],
        "smoothness": row["L"],
    }
    certs = consensus_broadcast(rounds=60, **facts)
    for k, name in ((1, "dz_first"), (2, "dz_second"), (10, "dz_tenth"), (60, "dz_60")):
        assert certs[k - 1].bound == pytest.approx(row[name], rel=1e-13)
    limit = consensus_broadcast(rounds=5000, **facts)[-1].bound
    assert all(c.bound <= limit * (1 + 1e-12) for c in certs)


def test_paper_setting():
    certs = consensus_broadcast(rounds=100, **PAPER)
    assert certs[0].bound == pytest.approx(1e-4 / 3)
    assert certs[-1].bound == pytest.approx(4.684e-5, rel=1e-4)
    assert consensus_broadcast_quadratic(rounds=100, **PAPER)[-1].bound == pytest.approx(2.0e-5, rel=1e-12)
    assert (certs[0].protection.unit, certs[0].protection.view, certs[0].theorem) == (Unit.FUNCTION, View.PUBLIC, "C3")
    assert certs[0].strength is Strength.UP_TO_SOLVER_ERROR
    assert consensus_broadcast(rounds=1, solver_tolerance=0.0, **PAPER)[0].strength is Strength.FULL


def test_weight_scales_the_function():
    """sum w f with constants (delta, tau, L) is the same problem as weight 1 with (w delta, w tau, w L)."""
    scaled = PAPER | {"gradient_distance": 3.0, "strong_convexity": 3.0, "smoothness": 6.0}
    for build in (consensus_broadcast, consensus_broadcast_quadratic):
        a, b = build(rounds=7, weight=3.0, **PAPER), build(rounds=7, **scaled)
        assert [c.bound for c in a] == pytest.approx([c.bound for c in b], rel=1e-13)


def prox_1d(slope, y, rho, low, high):
    """Solve `slope(x) + rho (x - y) = 0` for an increasing slope by bisection to the last bit."""
    for _ in range(200):
        mid = (low + high) / 2
        low, high = (mid, high) if slope(mid) + rho * (mid - y) < 0 else (low, mid)
    return (low + high) / 2


def test_explicit_pair_reaches_the_limit_and_the_first_round():
    """f'(x) = tau x; f~' differs by +delta on the left and by -delta far on the right, curvature stays in [tau, L]."""
    rho, tau, top, delta, n, width = 5.0, 1.0, 2.0, 1.0, 10_000, 10.0

    def f(x):
        return tau * x

    def g(x):
        return tau * x - delta * (1 - 2 * min(max(x / width, 0.0), 1.0))  # slope tau or tau + 0.2 <= L

    assert tau + 2 * delta / width <= top
    duals, sent = [0.0, 0.0], []
    for zhat in [-50.0] * 12 + [60.0]:
        now = []
        for i, slope in enumerate((f, g)):
            x = prox_1d(slope, zhat - duals[i] / rho, rho, -1e4, 1e4)
            duals[i] += rho * (x - zhat)
            now.append(x + duals[i] / rho)
        sent.append(abs(now[0] - now[1]) / n)
    certs = consensus_broadcast(rounds=13, **PAPER)
    assert all(s <= c.bound * (1 + 1e-9) for s, c in zip(sent, certs, strict=True))
    assert sent[0] == pytest.approx(certs[0].bound, rel=1e-9)  # 3.33e-5, attained
    assert sent[-1] == pytest.approx(4.667e-5, rel=1e-4)
    assert sent[-1] >= 0.996 * certs[-1].bound


def send(v, z, duals, rho, weight, mu, solve, residual=0.0):
    """One agent's step: x = prox(zhat - a/rho) up to a residual gradient, new dual, and the value sent."""
    x = solve(v, rho * z - duals + residual, rho, weight, mu)
    new = duals + rho * (x - z)
    return new, x + new / rho


@pytest.mark.parametrize(
    ("rho", "mu", "weight", "tol"), [(0.3, 0.05, 1.0, 0.0), (2.0, 0.3, 4.0, 0.0), (0.05, 0.01, 1.0, 0.02)]
)
def test_greedy_transcripts_on_logistic_agents(rho, mu, weight, tol, rng):
    """One record each; in every round the adversary keeps, of eight broadcasts, the one that hurts most."""
    tries, menu, d, rounds = 250, 8, 2, 7
    certs = of(consensus_broadcast_records,
        rounds=rounds, gradient_bound=1, n_records=1, n_agents=3, penalty=rho, strong_convexity=mu,
        smoothness=0.25 + mu, weight=weight, solver_tolerance=tol + 1e-11,
    )  # fmt: skip
    v, other = ball(rng, (tries, 1, d)), ball(rng, (tries, 1, d))
    a, b = np.zeros((tries, d)), np.zeros((tries, d))
    best = 0.0
    for cert in certs:
        wide = [np.repeat(t, menu, axis=0) for t in (v, other, a, b)]
        z = rng.standard_normal((tries * menu, d)) * 10.0 ** rng.uniform(-1, 3, (tries * menu, 1))
        errors = [ball(rng, z.shape, tol) for _ in range(2)]
        na, sa = send(wide[0], z, wide[2], rho, weight, mu, solve, errors[0])
        nb, sb = send(wide[1], z, wide[3], rho, weight, mu, solve, errors[1])
        moved = np.linalg.norm(sa - sb, axis=1)
        assert moved.max() / 3 <= cert.bound * (1 + 1e-9)
        best = max(best, moved.max() / 3 / cert.bound)
        pick = np.linalg.norm(na - nb, axis=1).reshape(tries, menu).argmax(1) + menu * np.arange(tries)
        a, b = na[pick], nb[pick]
    assert best > 0.5


def test_quadratic_pairs_reach_their_bound_and_respect_residuals(rng):
    n, rho, tau, top, delta, tol = 7, 2.0, 0.3, 3.0, 0.4, 0.05
    facts = {"gradient_distance": delta, "n_agents": n, "penalty": rho, "strong_convexity": tau, "smoothness": top}
    exact = consensus_broadcast_quadratic(rounds=12, **facts)
    loose = consensus_broadcast_quadratic(rounds=12, solver_tolerance=tol, **facts)
    general = consensus_broadcast(rounds=12, **facts)
    h = np.linspace(tau, top, 4001)
    worst_signs = rng.choice([-1.0, 1.0], (12, len(h)))
    for error, certs in ((0.0, exact), (tol, loose)):
        duals, other = np.zeros((2, len(h)))
        for k, cert in enumerate(certs):
            z, e = rng.standard_normal(), error * worst_signs[k]
            x, y = (rho * z - duals + e) / (h + rho), (rho * z - other - delta - e) / (h + rho)
            duals, other = duals + rho * (x - z), other + rho * (y - z)
            moved = np.abs(x + duals / rho - y - other / rho).max() / n
            assert moved <= cert.bound * (1 + 1e-12)
            if error == 0:
                assert moved == pytest.approx(cert.bound, rel=1e-6)
                assert cert.bound <= general[k].bound * (1 + 1e-12)


def test_residuals_accumulate_beyond_their_one_step_effect():
    """C7: charging the residual to the output alone would be too little; through delta it is covered."""
    rho, tau, delta, tol, rounds = 0.1, 1.0, 0.1, 0.1, 100
    facts = {"gradient_distance": delta, "n_agents": 1, "penalty": rho, "strong_convexity": tau, "smoothness": tau}
    exact = consensus_broadcast(rounds=rounds, **facts)
    covered = consensus_broadcast(rounds=rounds, solver_tolerance=tol, **facts)
    duals, other = 0.0, 0.0
    for cert in covered:
        x, y = (-duals + tol) / (tau + rho), (-other - delta - tol) / (tau + rho)
        duals, other = duals + rho * x, other + rho * y
        moved = abs(x + duals / rho - y - other / rho)
        assert moved <= cert.bound * (1 + 1e-12)
    one_step = 2 * 2 * tol / (tau + rho)  # both residuals, on 2x - y
    assert moved > 2 * (exact[-1].bound + one_step)


def test_records_agree_with_functions_and_people_multiply():
    facts = {"n_agents": 5, "penalty": 2.0, "strong_convexity": 0.1, "smoothness": 1.0, "rounds": 4}
    a = of(consensus_broadcast_records, gradient_bound=1.5, n_records=20, records_per_person=2, **facts)
    b = consensus_broadcast(gradient_distance=2 * 2 * 1.5 / 20, **facts)
    assert [c.bound for c in a] == pytest.approx([c.bound for c in b], rel=1e-13)
    assert a[0].protection.unit is Unit.RECORD
    assert a[0].protection.records_per_person == 2
