"""The control problem of Fig. 3 on the bench, and its error for any length of x_0."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem, Weighting
from dpadmm.problems.quadratics import QuadraticAgents
from dpadmm.problems.regularisers import Quadratic
from dpadmm_research.datasets.control import ControlProblem, random_control
from dpadmm_research.papers.consensus import claims
from dpadmm_research.papers.consensus.bench import TOLERANCE, Bench
from dpadmm_research.papers.consensus.expectation import Response
from dpadmm_research.papers.consensus.theory import Star
from dpadmm_research.reproduction.table import Reading
from dpadmm_research.reproduction.trials import Trial, record_run


@dataclass(frozen=True)
class Control:
    """n, m, r, w as printed; the rest is not printed.

    rho_over_least: rho in units of the least penalty that Assumption 3 allows. gradient_distance: delta of
    Definition 1. start_norm: ||x_0||. data_seed: decides A, and with it the spectral radius.
    """

    agents: int = 10_000
    horizon: int = 20
    inputs: int = 2
    states: int = 3
    rho_over_least: float = 1.5
    gradient_distance: float = 1.0
    start_norm: float = 100.0
    data_seed: int = 17

    def world(self) -> ControlProblem:
        """Draw (23)."""
        return random_control(
            self.agents, self.horizon, self.inputs, self.states, rng=np.random.default_rng(self.data_seed),
            start_norm=self.start_norm,
        )  # fmt: skip

    def bench(self) -> Bench:
        """Build (24), verify Assumptions 1-3, solve it directly."""
        return _bench(self)


@lru_cache(maxsize=2)
def _bench(control: Control) -> Bench:
    world = control.world()
    tau, smoothness = world.bounds
    rho = control.rho_over_least * world.least_penalty
    problem = Problem.of(world.agents(), Weighting.EQUAL, Quadratic(*world.regulariser()))
    claimed = claims.lemma_3_sensitivity(
        agents=control.agents, rho=rho, strong_convexity=tau, smoothness=smoothness,
        gradient_distance=control.gradient_distance, regulariser_smoothness=world.regulariser_smoothness,
    )  # fmt: skip
    star = Star(
        n_agents=control.agents, dimension=world.dimension, rho=rho, strong_convexity=tau, smoothness=smoothness
    )
    return Bench(problem, world.solution(), star, claimed, control.gradient_distance)


def sample(bench: Bench, agents: int) -> Bench:
    """Return the problem of the first agents only, with as much less of the regulariser: nearly the same response."""
    functions, regulariser = bench.problem.functions, bench.problem.regulariser
    if not (isinstance(functions, QuadraticAgents) and isinstance(regulariser, Quadratic)):
        raise InputError("Only quadratic agents with a quadratic regulariser can be sampled.")
    share, few = agents / bench.problem.n_agents, functions.take(np.arange(agents))
    hessian, slope = share * np.array(regulariser.hessian), share * np.array(regulariser.slope)
    optimum = np.linalg.solve(few.curvatures.sum(axis=0) + hessian, -few.slopes.sum(axis=0) - slope)
    return replace(bench, problem=Problem.of(few, Weighting.EQUAL, Quadratic(hessian, slope)), optimum=optimum)


def condition(bench: Bench) -> float:
    """Return the condition number of the mean of the agents' quadratics."""
    functions = bench.problem.functions
    if not isinstance(functions, QuadraticAgents):
        raise InputError("The condition number is defined for quadratic agents only.")
    return float(np.linalg.cond(functions.curvatures.mean(axis=0)))


class ErrorByStart:
    """Expected errors of x(K) for any ||x_0||, of the same draw and from the same sample of agents.

    All functions are quadratic, so a run without noise and its optimum are affine in x_0: two runs, one of them from
    x_0 = 0, give all others. What noise adds does not depend on x_0, but is measured in units of ||u*||^2.
    """

    def __init__(self, control: Control, agents: int, counts: Sequence[int]) -> None:
        self.control, self.counts = control, tuple(counts)
        rest, own = (sample(each.bench(), agents) for each in (replace(control, start_norm=0.0), control))
        self._optima = rest.optimum, own.optimum
        self._models = _bare_models(rest, self.counts), _bare_models(own, self.counts)

    def _at(self, pair: tuple[Floats, Floats], norm: float) -> Floats:
        """Return the value for ||x_0|| = norm on the line through the values for 0 and for the bench's own norm."""
        rest, own = pair
        return np.asarray(rest + (norm / self.control.start_norm) * (own - rest))

    def bare(self, norm: float) -> Floats:
        """Return the error without noise at every K of `counts`."""
        models, optimum = self._at(self._models, norm), self._at(self._optima, norm)
        return np.asarray(np.square(models - optimum).sum(axis=2).mean(axis=1) / np.square(optimum).sum())

    def errors(self, norm: float, response: Response, reading: Reading, epsilon: float) -> Floats:
        """Return the expected error at every K; response: of the control problem with its own norm."""
        bench = self.control.bench()
        noise = [response.error(bench.rates(reading, epsilon, k)) - response.bare[k - 1] for k in self.counts]
        scale = np.square(self._optima[1]).sum() / np.square(self._at(self._optima, norm)).sum()
        return np.asarray(self.bare(norm) + scale * np.array(noise))


def _bare_models(bench: Bench, counts: Sequence[int]) -> Floats:
    """Return x(K) of all agents without noise, (counts, agents, d)."""
    curve = record_run(bench.method, bench.problem, counts, [Trial.bare()], runs=1, seed=0, tolerance=TOLERANCE)
    return np.array([batch.run.state[0][:, :, 0] for _, batch in curve])
