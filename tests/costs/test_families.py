"""Costs that are code: declared constants and their refutation, black boxes, CVXPY expressions."""

import numpy as np
import pytest

import dpadmm
from dpadmm.costs import (
    Ball,
    Consensus,
    CostFamily,
    Gap,
    General,
    Limits,
    Prox,
    Sharing,
    Whole,
    from_cvxpy,
)
from dpadmm.costs.families import refute
from dpadmm.errors import InputError
from dpadmm.problems.regularisers import Quadratic

D, N = 3, 8
ASKED = {"epsilon": 1.0, "delta": 1e-6, "rounds": 4}


def value(x, theta):
    return 0.5 * x @ x + np.log(np.cosh(x - theta)).sum()


def gradient(x, theta):
    return x + np.tanh(x - theta)


def family(rng, slope=gradient, curvature=(1.0, 2.0), worth=value):
    return CostFamily(worth, slope, rng.uniform(-1, 1, (N, D)), (-1.0, 1.0), curvature, D)


FARTHEST = np.sqrt(D) * 2 * np.tanh(1.0)  # two parameters at opposite ends, seen from between them


def test_true_constants_are_not_refuted_and_the_statement_says_if(rng):
    agents = family(rng)
    assert refute(agents, FARTHEST) == ""
    for coupling in (
        Consensus(),
        Sharing(Quadratic(np.eye(D), np.ones(D))),
        General(np.eye(D), -np.eye(D), np.zeros(D)),
    ):
        done = dpadmm.minimise(agents, coupling, protect=Gap(FARTHEST), method="admm", **ASKED)
        assert done.account.declared == ("costs value",)
        assert done.is_private_release
    assert dpadmm.minimise(agents, Consensus(), protect=Whole(Ball(1.0)), method="admm", **ASKED).account.declared


def test_without_noise_it_ends_at_the_optimum(rng):
    agents = family(rng)
    done = dpadmm.minimise(
        agents, Consensus(), protect=Gap(FARTHEST), epsilon=1e9, delta=0.5, rounds=60, gamma=0.7, seed=1
    )
    assert sum(gradient(done.public, each) for each in agents.theta) == pytest.approx(np.zeros(D), abs=1e-3)


def test_parameters_are_cut_to_their_domain(rng):
    agents = CostFamily(value, gradient, 5 * np.ones((N, D)), (-1.0, 1.0), (1.0, 2.0), D)
    assert (agents.theta == 1.0).all()


def boxes(fails=()):
    def make(i):
        def solve(penalty, target):
            if i in fails:
                raise RuntimeError("no answer")
            return penalty * target / (1 + penalty) + 0.01 * i

        return solve

    return Prox(tuple(make(i) for i in range(N)), D)


def test_black_boxes_are_protected_by_projection_and_failures_stay_inside():
    protect = Whole(Limits(-1.0, 1.0))
    for fails in ((), (0, 3)):
        done = dpadmm.minimise(boxes(fails), Consensus(), protect=protect, **ASKED)
        assert done.is_private_release
        assert done.epsilon == pytest.approx(1.0, rel=1e-6)
        assert np.isfinite(done.public).all()
    failed = np.isnan(boxes((1,)).solve(None, np.ones(N), np.zeros((N, D, 1)), np.zeros((N, D, 1)), 1e-6))
    assert failed[1].all()
    assert not np.delete(failed, 1, axis=0).any()


def test_cvxpy_expressions(rng):
    cvxpy = pytest.importorskip("cvxpy")
    wanted = rng.standard_normal((N, D))
    agents = from_cvxpy(lambda x, a: (cvxpy.norm1(x - a) + cvxpy.sum_squares(x), [x <= 0.5]), {"a": wanted}, D)
    done = dpadmm.minimise(
        agents, Consensus(), protect=Whole(Ball(5.0)), epsilon=1e9, delta=0.5, rounds=60, gamma=0.5, seed=1
    )
    grid = np.linspace(-1, 0.5, 30001)
    costs = np.abs(grid[:, None, None] - wanted).sum(axis=1) + N * grid[:, None] ** 2
    assert done.public == pytest.approx(grid[costs.argmin(axis=0)], abs=0.02)
    with pytest.raises(InputError, match="DCP"):
        from_cvxpy(lambda x, a: -cvxpy.sum_squares(x - a), {"a": wanted}, D)
    with pytest.raises(InputError, match="one entry"):
        from_cvxpy(lambda x, a, b: cvxpy.sum_squares(x - a), {"a": wanted, "b": wanted[:2]}, D)
