"""DP-DGD (Huang, Mitra, Vaidya 2015) adapted to a coordinator, as the paper's Fig. 2(b) needs it.

    y_0 = 0,     y_k = y_{k-1} - c q^(k-1) ( mean_i grad f_i(y_{k-1}) + subgradient of g/N at y_{k-1} ) + v_k

All agents hold the same y, so only the mean quadratic matters. y_0 is public and free of data. One agent's function
moves its gradient by delta, hence its own k-th step by `D_k = c q^(k-1) delta` and the mean by D_k/N. Noise v_k of
scale `proportional to p^(k-1)`, q < p < 1, pure epsilon `sum_k rate_k D_k`. Two places for the noise:

* AGENTS, as in the original: every agent hides its own step; the mean carries 1/sqrt(N) of that noise. The mean of N
  independent spherical Laplace vectors is drawn as the Gaussian of the same covariance (N is 1,000 and more).
* COORDINATOR: one noise on the mean, as in consensus DP-ADMM: the same trust, the fair comparison.

And two distances delta: that of the consensus paper's neighbours, or, as in DP-DGD's own paper, twice a bound on the
gradients (`twice_the_largest_gradient`), which hides any function with gradients within it.

As long as no coordinate of y changes its sign the run is affine in its noise, and `expected_error` is exact.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem
from dpadmm.problems.quadratics import QuadraticAgents
from dpadmm.problems.regularisers import ElasticNet


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

    @property
    def steps(self) -> Floats:
        """c q^(k-1), k = 1, 2, ..."""
        return np.asarray(self.step * self.decay ** np.arange(self.rounds), dtype=np.float64)

    def rates(self, epsilon: float, gradient_distance: float) -> Floats:
        """Return the noise rates of an agent's own steps, k = 1, 2, ..., that spend pure epsilon together."""
        shape = self.noise_decay ** np.arange(self.rounds)
        return epsilon / ((self.steps * gradient_distance / shape).sum() * shape)

    def points(
        self, problem: Problem, epsilon: float, gradient_distance: float, noise_at: NoiseAt, runs: int, seed: int
    ) -> Iterator[Floats]:
        """Yield y_1, y_2, ... (d, runs): all that is released."""
        matrix, slope, weight = _mean_quadratic(problem)
        rng, y = np.random.default_rng(seed), np.zeros((problem.dimension, runs))
        for step, rate in zip(self.steps, self.rates(epsilon, gradient_distance), strict=True):
            x = y - step * (matrix @ y + slope[:, None] + weight * np.sign(y))
            y = x + _noise(rng, x.shape, rate, problem.n_agents, noise_at)
            yield y

    def errors(
        self, problem: Problem, optimum: Floats, epsilon: float, gradient_distance: float, noise_at: NoiseAt,
        runs: int, seed: int,
    ) -> Floats:  # fmt: skip
        """Return `||y - x*||^2/||x*||^2` of the last noisy point, one for each run."""
        *_, y = self.points(problem, epsilon, gradient_distance, noise_at, runs, seed)
        return np.asarray(np.square(y - optimum[:, None]).sum(axis=0) / np.square(optimum).sum())

    def expected_error(
        self, problem: Problem, optimum: Floats, epsilon: float, gradient_distance: float, noise_at: NoiseAt
    ) -> float:
        """Return the expectation of `errors`."""
        return self.response(problem, optimum).error(epsilon, gradient_distance, noise_at)

    def response(self, problem: Problem, optimum: Floats) -> "DescentResponse":
        """Return the noise-free error, and what noise of epsilon = delta = 1 adds in all eigendirections."""
        matrix, slope, weight = _mean_quadratic(problem)
        curvatures = np.linalg.eigvalsh(matrix)
        y, variances = np.zeros(problem.dimension), np.zeros(problem.dimension)
        for step, rate in zip(self.steps, self.rates(1.0, 1.0), strict=True):
            y = y - step * (matrix @ y + slope + weight * np.sign(y))
            fresh = _spread(rate, problem.dimension, problem.n_agents, NoiseAt.COORDINATOR) ** 2
            variances = (1 - step * curvatures) ** 2 * variances + fresh
        size = float(np.square(optimum).sum())
        bare, gain = float(np.square(y - optimum).sum()) / size, float(variances.sum()) / size
        return DescentResponse(problem.n_agents, bare, gain)


@dataclass(frozen=True)
class DescentResponse:
    """bare: relative error without noise. gain: what one noise at the coordinator adds for epsilon = delta = 1."""

    n_agents: int
    bare: float
    gain: float

    def error(self, epsilon: float, gradient_distance: float, noise_at: NoiseAt) -> float:
        """Return the expected error: all noise scales as delta/epsilon; that of N agents has N times the variance."""
        number = self.n_agents if noise_at is NoiseAt.AGENTS else 1
        return self.bare + self.gain * number * (gradient_distance / epsilon) ** 2


def twice_the_largest_gradient(problem: Problem) -> float:
    """Return `2 max_i ||grad f_i(0)||`: how far two gradients of that length at most can be apart.

    Quadratics have no bound on their gradients, and this one is read off the data at the start alone: a calibration
    that the paper may have used, not a certificate.
    """
    start = np.zeros((1, problem.dimension, 1))
    return 2 * float(np.linalg.norm(problem.functions.gradient(start)[:, :, 0], axis=1).max())


def mean_condition(problem: Problem) -> float:
    """Return the condition number of the mean of the agents' quadratics, all that gradient steps see."""
    return float(np.linalg.cond(_mean_quadratic(problem)[0]))


def _mean_quadratic(problem: Problem) -> tuple[Floats, Floats, float]:
    """Return curvature and slope of the agents' mean, and the l1 weight beside it."""
    agents, penalty = problem.functions, problem.regulariser
    if not (isinstance(agents, QuadraticAgents) and isinstance(penalty, ElasticNet) and penalty.l2 == 0):
        raise InputError("DP-DGD on a star is implemented for quadratic agents with an l1 regulariser only.")
    return agents.curvatures.mean(axis=0), agents.slopes.mean(axis=0), penalty.l1 / problem.n_agents


def _spread(rate: float, dimension: int, number: int, noise_at: NoiseAt) -> float:
    """Return the standard deviation of the mean's noise in every direction: E||v||^2/d = (d + 1)/rate^2 before it."""
    return float(np.sqrt(dimension + 1) / rate / (np.sqrt(number) if noise_at is NoiseAt.AGENTS else number))


def _noise(rng: np.random.Generator, shape: tuple[int, int], rate: float, number: int, noise_at: NoiseAt) -> Floats:
    normals = rng.standard_normal(shape)
    if noise_at is NoiseAt.AGENTS:
        return normals * _spread(rate, shape[0], number, noise_at)
    lengths = rng.gamma(shape[0], size=shape[1]) / (rate * number)
    return normals / np.linalg.norm(normals, axis=0) * lengths
