"""Worst cases on whole runs: neighbours that hear the same, found by climbing; every round within its certificate.

Attacked as they run: what leaves on the grid and under masks, every message of a graph, and of agents who trust nobody.
"""

import numpy as np
import pytest

from dpadmm.core.loop import rounds as run_rounds
from dpadmm.costs import (
    Allocations,
    Amount,
    Ball,
    Consensus,
    CostFamily,
    Gap,
    General,
    Graph,
    Limits,
    Linear,
    Quadratics,
    Sharing,
    Whole,
    plan,
)
from dpadmm.methods.base import Agents
from dpadmm.networks.graph import path, ring
from dpadmm.noise.masks import from_uint64, sum_uint64, to_uint64
from dpadmm.privacy.accounting import Target
from dpadmm.problems.regularisers import ElasticNet, Quadratic

D, N, ROUNDS, REPLICAS, STEPS = 2, 4, 6, 24, 8
FREE = Quadratic(0.5 * np.eye(D), np.zeros(D))


class Heard:
    """Replaces what leaves by a transcript, (rounds, senders, d, replicas), and keeps what it would have been."""

    def __init__(self, transcript, grid):
        self.transcript, self.grid, self.left = transcript, grid, []

    def perturb(self, kind, k, agents, values):
        self.left.append(values.copy())
        return self.transcript[k - 1][agents]

    def total(self, kind, k, messages):
        parts = [to_uint64(message, self.grid) for message in messages]
        self.left.append(from_uint64(sum_uint64(parts), self.grid)[None])
        return self.transcript[k - 1]


def left_by(setup, method, agents, transcript, grid):
    hook = Heard(transcript, grid)
    problem = setup.problem(agents)
    here = Agents.of(problem, setup.network, setup.tolerance, 1)
    for _ in run_rounds(method, here, problem, setup.network, hook, ROUNDS, transcript.shape[3]):
        pass
    return np.stack(hook.left)


def worst_ratio(worlds, coupling, protect, trust="sum", **numbers):
    """Return the largest distance over certificate, round by round, that climbing on transcripts reaches."""
    asked = {"protect": protect, "trust": trust, "epsilon": 1.0, "delta": 1e-6, "rounds": ROUNDS, **numbers}
    made = plan(worlds[0], coupling, **asked)
    setup, spec = made.setup, made.setup.run(ROUNDS, made.numbers, Target(1.0, 1e-6))
    releases = list(spec.noise_plan(is_secure=True))
    bounds = {release.round: release.bound for release in releases if release.agent in (-1, 0)}
    grid, senders = releases[0].certificate.grid, 1 if trust != "nobody" and setup.network is None else N
    rng, worst, best = np.random.default_rng(0), 0.0, np.zeros((ROUNDS, senders, setup.sent, 1))
    steps, replicas = (4, 6) if isinstance(worlds[0], CostFamily) else (STEPS, REPLICAS)
    for step in range(steps):
        width = 10.0 ** rng.uniform(-2, 2 if step % 2 == 0 else 0, (1, 1, 1, replicas))
        tried = (best if step % 2 else 0 * best) + width * rng.standard_normal((ROUNDS, senders, setup.sent, replicas))
        first, second = (left_by(setup, spec.method, world, tried, grid) for world in worlds)
        moved = np.linalg.norm(first - second, axis=2)  # (rounds, senders, replicas)
        assert (moved[:, 1:] == 0).all(), "messages of agents that have not changed"
        ratios = moved[:, 0] / np.array([bounds[k] for k in range(1, ROUNDS + 1)])[:, None]
        assert ratios.max() <= 1.0
        if ratios.max() > worst:
            worst, best = ratios.max(), tried[..., [ratios.max(axis=0).argmax()]]
    return worst


def needs(moved):
    """One agent's amount moves by 3; prices that send all of it into one period."""
    return Allocations([1.0 + moved, 2.0, 5.0, 6.0], 0.0, 4.0, costs=(0.01, [0.0, 0.3]))


def pulls(moved, curvature=1.0):
    return Quadratics(curvature * np.eye(D), [[0.6 * moved, 0.8 * moved], *[[0.3, -0.4]] * (N - 1)], (curvature,) * 2)


def boxed(moved):
    """Curvatures that are projected, and a gradient that moves by 1 in a box around 3."""
    p = np.stack([np.diag([0.2, 1.0]) + 0.5 * moved * np.ones((D, D)) / D, *[np.eye(D)] * (N - 1)])
    q = np.vstack([-1.5 * moved * np.ones(D), np.zeros((N - 1, D))])
    return Quadratics(p, q, (0.4, 1.0), box=(2.0, 4.0))


def smooth(moved):
    theta = np.zeros((N, D))
    theta[0] = moved * np.array([0.6, 0.8])

    def value(x, own):
        return 0.5 * x @ x + np.log(np.cosh(x - own)).sum()

    def gradient(x, own):
        return x + np.tanh(x - own)

    return CostFamily(value, gradient, theta, (0.0, 0.8), (1.0, 2.0), D)


WIDE = np.random.default_rng(3).standard_normal((N, 1, D))
CASES = {
    "an amount": (needs, 3.0, Sharing(FREE), Amount(3.0), 0.6),
    "a gradient": (pulls, 1.0, Sharing(FREE), Gap(1.0), 0.9),
    "a projected gradient": (boxed, 1.0, Sharing(FREE), Gap(1.0), 0.1),
    "anything": (needs, 3.0, Sharing(FREE), Whole(Ball(1.5, is_positive=True)), 0.3),
}


@pytest.mark.parametrize("trust", ["sum", "masks", "nobody"])
@pytest.mark.parametrize("kind", CASES)
def test_shared_resources(kind, trust):
    make, moved, coupling, protect, least = CASES[kind]
    reached = worst_ratio([make(0.0), make(moved)], coupling, protect, trust, rho=0.8)
    assert reached > least


@pytest.mark.parametrize("trust", ["sum", "masks"])
@pytest.mark.parametrize("kind", ["linear", "gap", "boxed", "wide", "whole"])
def test_consensus_and_constraints(kind, trust):
    coupling, protect, make, least = Consensus(ElasticNet(l2=0.1)), Linear(1.0), pulls, 0.9
    if kind in ("gap", "boxed"):
        protect, make, least = Gap(1.0), pulls if kind == "gap" else boxed, 0.8 if kind == "gap" else 0.05
    if kind == "wide":
        coupling, protect, least = General(WIDE, np.eye(1), np.zeros(1)), Gap(1.0), 0.1
    if kind == "whole":
        protect, least = Whole(Limits(-0.2, 0.2)), 0.3
    assert worst_ratio([make(0.0), make(1.0)], coupling, protect, trust, gamma=0.7) > least


@pytest.mark.parametrize("kind", ["linear", "gap", "boxed", "family"])
@pytest.mark.parametrize("network", [path(N), ring(N)], ids=["path", "ring"])
def test_graphs(kind, network):
    """On a path agent 0 has one neighbour, and moves further than others."""
    make = {"boxed": boxed, "family": smooth}.get(kind, pulls)
    protect = Linear(1.0) if kind == "linear" else Gap(2.0 if kind == "family" else 1.0)
    least = {"boxed": 0.1, "family": 0.1}.get(kind, 0.9)
    assert worst_ratio([make(0.0), make(1.0)], Graph(network), protect, trust="nobody", eta=0.3) > least
