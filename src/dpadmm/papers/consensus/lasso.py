"""The paper's multi-agent LASSO with random quadratics (its Section IV)."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpadmm.datasets import random_quadratics
from dpadmm.papers.consensus import claims
from dpadmm.papers.consensus.bench import Bench
from dpadmm.papers.consensus.theory import Star
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem, Weighting
from dpadmm.problems.quadratics import QuadraticAgents
from dpadmm.problems.regularisers import L1

DATA = "random quadratics, eigenvalues mapped onto [tau, L], slopes uniform on [0, 60]"
DATA_CHOICE = (
    "The random data are not given: symmetric Gaussian matrices with eigenvalues mapped affinely onto [tau, L], "
    "entries of c_i uniform on [0, 60], seed 0."
)
RUNS_CHOICE = "The number of noise runs behind the expectations is not printed: see the setting."


@dataclass(frozen=True)
class Lasso:
    """What the paper prints: n agents, dimension p, tau, L, penalty rho, gradient distance delta, l1 weight gamma."""

    agents: int = 10_000
    dimension: int = 5
    tau: float = 1.0
    smoothness: float = 2.0
    rho: float = 5.0
    gradient_distance: float = 1.0
    l1_weight: float = 100.0
    data_seed: int = 0

    def bench(self) -> Bench:
        """Build the problem and its optimum."""
        return _bench(self)


@lru_cache(maxsize=1)
def _bench(lasso: Lasso) -> Bench:
    agents = random_quadratics(
        lasso.agents,
        lasso.dimension,
        rng=np.random.default_rng(lasso.data_seed),
        tau=lasso.tau,
        smoothness=lasso.smoothness,
    )
    regulariser = L1(lasso.l1_weight)
    claimed = claims.lemma_3_sensitivity(
        agents=lasso.agents,
        rho=lasso.rho,
        strong_convexity=lasso.tau,
        smoothness=lasso.smoothness,
        gradient_distance=lasso.gradient_distance,
        subgradient_gap=claims.l1_subgradient_gap(lasso.l1_weight, lasso.dimension),
    )
    star = Star(
        n_agents=lasso.agents,
        dimension=lasso.dimension,
        rho=lasso.rho,
        strong_convexity=lasso.tau,
        smoothness=lasso.smoothness,
    )
    problem = Problem.of(agents, Weighting.EQUAL, regulariser)
    return Bench(problem, optimum(agents, regulariser), star, claimed, lasso.gradient_distance)


def optimum(agents: QuadraticAgents, regulariser: L1) -> Floats:
    """Return argmin sum_i f_i + gamma ||x||_1 by proximal gradient steps on the mean, to rounding."""
    total, slope = agents.curvatures.mean(axis=0), agents.slopes.mean(axis=0)
    step = 1.0 / float(np.linalg.eigvalsh(total)[-1])
    x = np.zeros((agents.dimension, 1))
    for _ in range(2000):
        new = regulariser.prox(x - step * (total @ x + slope[:, None]), step / agents.n_agents)
        if np.array_equal(new, x):
            break
        x = new
    return x[:, 0]
