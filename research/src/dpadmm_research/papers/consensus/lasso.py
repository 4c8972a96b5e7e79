"""The paper's multi-agent LASSO with random quadratics (its Section IV)."""

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dpadmm.data.examples import EntryDistribution, random_quadratics, random_spd
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem, Weighting
from dpadmm.problems.quadratics import QuadraticAgents
from dpadmm.problems.regularisers import ElasticNet
from dpadmm_research.papers.consensus import claims
from dpadmm_research.papers.consensus.bench import Bench
from dpadmm_research.papers.consensus.theory import Star

RUNS_CHOICE = "The number of noise runs behind the expectations is not printed: see the numbers above."


@dataclass(frozen=True)
class Lasso:
    """What the paper prints: n agents, dimension p, tau, L, penalty rho, gradient distance delta, l1 weight gamma.

    And what it does not: entries: how those of the matrices B_i are drawn before their spectrum is mapped onto
    [tau, L]. is_shared: whether all agents have one B. largest_slope: c_i is uniform on [0, largest_slope].
    """

    agents: int = 10_000
    dimension: int = 5
    tau: float = 1.0
    smoothness: float = 2.0
    rho: float = 5.0
    gradient_distance: float = 1.0
    l1_weight: float = 100.0
    entries: EntryDistribution = EntryDistribution.NON_NEGATIVE
    is_shared: bool = False
    largest_slope: float = 100.0
    data_seed: int = 0

    @property
    def data(self) -> str:
        """What the data are, in words."""
        owner = "one matrix shared by all agents" if self.is_shared else "a matrix for every agent"
        return (
            f"random quadratics, {owner}, entries {self.entries.value}, spectrum [{self.tau:g}, {self.smoothness:g}], "
            f"slopes uniform on [0, {self.largest_slope:g}]"
        )

    @property
    def setting(self) -> dict[str, Any]:
        """All numbers as plain values."""
        return {**asdict(self), "entries": self.entries.value}

    def bench(self) -> Bench:
        """Build the problem and its optimum."""
        return _bench(self)

    def of(self, agents: QuadraticAgents) -> Bench:
        """Return these agents, which stand for all n, with the paper's constants for n."""
        regulariser = ElasticNet(l1=self.l1_weight * agents.n_agents / self.agents)
        claimed = claims.lemma_3_sensitivity(
            agents=self.agents,
            rho=self.rho,
            strong_convexity=self.tau,
            smoothness=self.smoothness,
            gradient_distance=self.gradient_distance,
            subgradient_gap=claims.l1_subgradient_gap(self.l1_weight, self.dimension),
        )
        star = Star(
            n_agents=self.agents,
            dimension=self.dimension,
            rho=self.rho,
            strong_convexity=self.tau,
            smoothness=self.smoothness,
        )
        problem = Problem.of(agents, Weighting.EQUAL, regulariser)
        return Bench(problem, optimum(agents, regulariser), star, claimed, self.gradient_distance)


@lru_cache(maxsize=1)
def _bench(lasso: Lasso) -> Bench:
    agents = random_quadratics(
        lasso.agents,
        lasso.dimension,
        rng=np.random.default_rng(lasso.data_seed),
        tau=lasso.tau,
        smoothness=lasso.smoothness,
        slope_range=(0.0, lasso.largest_slope),
        entries=lasso.entries,
        is_shared=lasso.is_shared,
    )
    return lasso.of(agents)


def condensed(lasso: Lasso) -> Bench:
    """Return 2p agents that stand for the n of `lasso.bench()`, whose matrix is shared: for responses, not for noise.

    With one B for all, every x_i(K) is the same affine function of (c_i, mean of c), and so a mean over the agents of
    squared errors depends on mean and covariance C of the c_i alone. `mean +- sqrt(p) (columns of a root of C)` have
    both. Errors without noise, impulse responses and pi(0)/n are therefore exact. Noise must not be planned for it:
    the certificates would count 2p agents.
    """
    rng, size = np.random.default_rng(lasso.data_seed), lasso.dimension
    matrix = random_spd(1, size, lasso.tau, lasso.smoothness, rng, lasso.entries)
    slopes = rng.uniform(0.0, lasso.largest_slope, (lasso.agents, size))
    variances, directions = np.linalg.eigh(np.atleast_2d(np.cov(slopes.T, bias=True)))
    spread = (np.sqrt(size * np.maximum(variances, 0.0)) * directions).T
    points = slopes.mean(axis=0) + np.concatenate([spread, -spread])
    return lasso.of(QuadraticAgents(np.repeat(matrix, 2 * size, axis=0), points, (lasso.tau, lasso.smoothness)))


def optimum(agents: QuadraticAgents, regulariser: ElasticNet) -> Floats:
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
