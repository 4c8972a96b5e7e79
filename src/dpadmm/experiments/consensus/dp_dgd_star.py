"""DP-DGD (Huang, Mitra, Vaidya 2015) adapted to a coordinator, as the paper's Fig. 2(b) needs it.

    y <- x + noise_k,     x <- y - c q^(k-1) ( mean_i grad f_i(y) + subgradient of g/N at y )

All agents hold the same y, so only the mean quadratic matters. One agent's function moves its gradient by delta, hence
its own step by `D_k = c q^(k-1) delta` and the mean by D_k/N. Noise of scale `proportional to p^(k-1)`, q < p < 1, pure
epsilon `sum_k rate_k D_k`. Two places for the noise:

* AGENTS, as in the original: every agent hides its own step; the mean carries 1/sqrt(N) of that noise. The mean of N
  independent spherical Laplace vectors is drawn as the Gaussian of the same covariance (N is 1,000 and more).
* COORDINATOR: one noise on the mean, as in consensus DP-ADMM: the same trust, the fair comparison.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem
from dpadmm.problems.quadratics import QuadraticAgents
from dpadmm.problems.regularisers import L1


class NoiseAt(Enum):
    """Who adds noise."""

    AGENTS = "DP-DGD, noise at every agent"
    COORDINATOR = "DP-DGD, noise at the coordinator"


@dataclass(frozen=True)
class GeometricDescent:
    """c: first step. decay q: of the steps. noise_decay p: of the noise. rounds: how many steps."""

    step: float
    decay: float
    noise_decay: float
    rounds: int = 300

    def rates(self, epsilon: float, gradient_distance: float) -> Floats:
        """Return the noise rates of an agent's own steps that spend pure epsilon together."""
        k = np.arange(self.rounds)
        reach = self.step * self.decay**k * gradient_distance
        shape = self.noise_decay**k
        return epsilon / ((reach / shape).sum() * shape)

    def errors(
        self, problem: Problem, optimum: Floats, epsilon: float, gradient_distance: float, noise_at: NoiseAt,
        runs: int, seed: int,
    ) -> Floats:  # fmt: skip
        """Return `||y - x*||^2/||x*||^2` of the last noisy point, one for each run."""
        agents, number = problem.functions, problem.n_agents
        if not (isinstance(agents, QuadraticAgents) and isinstance(problem.regulariser, L1)):
            raise InputError("DP-DGD on a star is written for quadratic agents with an l1 regulariser.")
        matrix, slope = agents.curvatures.mean(axis=0), agents.slopes.mean(axis=0)[:, None]
        rng = np.random.default_rng(seed)
        x = np.zeros((problem.dimension, runs))
        y = x
        for k, rate in enumerate(self.rates(epsilon, gradient_distance)):
            y = x + _noise(rng, x.shape, rate, number, noise_at)
            push = matrix @ y + slope + problem.regulariser.strength / number * np.sign(y)
            x = y - self.step * self.decay**k * push
        return np.asarray(np.square(y - optimum[:, None]).sum(axis=0) / np.square(optimum).sum())


def _noise(rng: np.random.Generator, shape: tuple[int, int], rate: float, number: int, noise_at: NoiseAt) -> Floats:
    normals = rng.standard_normal(shape)
    if noise_at is NoiseAt.AGENTS:
        # Covariance of spherical Laplace noise: E||v||^2/d = (d + 1)/rate^2 in every direction.
        return normals * np.sqrt((shape[0] + 1) / number) / rate
    lengths = rng.gamma(shape[0], size=shape[1]) / (rate * number)
    return normals / np.linalg.norm(normals, axis=0) * lengths
