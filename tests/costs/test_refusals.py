"""What costs, couplings and regions refuse: every row of tests/snapshots/refusals/costs.txt."""

import pickle

import numpy as np
import pytest
from tests.refusals import check_refusals

import dpadmm
from dpadmm import costs
from dpadmm.costs import Allocations, Amount, Consensus, CostFamily, Gap, Prox, Quadratics, Rows, Sharing, plan
from dpadmm.networks.graph import ring
from dpadmm.problems.regularisers import Box, ElasticNet, Quadratic

D, N = 4, 12
ASKED = {"epsilon": 1.0, "delta": 1e-6, "rounds": 6}
GRID = Quadratic(0.002 * np.eye(D), [0.4, 0.3, 0.0, 0.1])
TIED = np.eye(D) + 0.1
FARTHEST = np.sqrt(D) * 2 * np.tanh(1.0)  # two parameters at opposite ends, seen from between them
RNG = np.random.default_rng(0)

quadratics = Quadratics(np.eye(D), RNG.standard_normal((N, D)), (0.5, 3.0))
wild = Quadratics(np.diag([0.1, 1.0, 2.0, 9.0]), RNG.standard_normal((N, D)), (0.5, 3.0))
fleet = Allocations(RNG.uniform(1, 8, 30), lower=0.0, upper=[2.0, 2.0, 3.0, 3.0], costs=(0.05, 0.0))
x = RNG.uniform(-0.5, 0.5, (400, D))
rows = Rows([(x[part::2], np.sign(x[part::2, 0])) for part in (0, 1)], mu=0.01)
boxes = Prox(tuple(lambda penalty, target: penalty * target / (1 + penalty) for _ in range(N)), D)


def asked(coupling=Consensus(), agents=quadratics, **changes):  # noqa: B008 - a frozen value
    return plan(agents, coupling, **{"protect": Gap(1.0), **ASKED, **changes})


def shared(coupling=Sharing(GRID), agents=fleet, **changes):  # noqa: B008 - a frozen value
    return plan(agents, coupling, **{"protect": Amount(1.0), **ASKED, "rho": 0.5, **changes})


def value(x, theta):
    return 0.5 * x @ x + np.log(np.cosh(x - theta)).sum()


def gradient(x, theta):
    return x + np.tanh(x - theta)


def double_well(x, theta):
    return 4 * x * (x @ x - 1) + theta


def impure(x, theta, calls=[]):  # noqa: B006 - what makes it impure
    calls.append(1)
    return x + np.tanh(x - theta) + 1e-3 * len(calls)


def writing(x, theta):
    x += 1.0
    return x + np.tanh(x - theta)


def family(slope=gradient, worth=value, curvature=(1.0, 2.0)):
    return CostFamily(worth, slope, np.random.default_rng(20261119).uniform(-1, 1, (N, D)), (-1.0, 1.0), curvature, D)


def code(slope=gradient, worth=value, curvature=(1.0, 2.0), distance=4.0):
    return plan(family(slope, worth, curvature), Consensus(), protect=Gap(distance), **ASKED)


def test_refused(snapshot):
    check_refusals(snapshot, "costs", vars(costs), globals())


def test_what_the_extra_says(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cvxpy", None)
    with pytest.raises(costs.families.InputError, match="extra cvxpy"):
        costs.from_cvxpy(lambda x: x, {"a": np.zeros((2, 1))}, 1)
