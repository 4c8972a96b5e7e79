"""Three methods on the authors' data, all certified for the same budget: what private ADMM reaches if nothing is lent.

Few points each, step and clip: (gamma, clip), (gamma, threshold of the Huber loss), (step, clip). At every budget the
point with the least training objective is shown, the mean of the runs; this choice is not paid for by any of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpadmm.methods.base import Setting
from dpadmm.methods.batches import Batches
from dpadmm.methods.dp_sgd import DPProxSGD
from dpadmm.methods.fixed_point import CoordinatorADMM, LassoADMM
from dpadmm.methods.fixed_point.participation import Participation
from dpadmm.noise.plan import calibrate
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import Unit
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem
from dpadmm_research.central import pool_records
from dpadmm_research.papers.fixed_point.world import World
from dpadmm_research.reproduction.table import Reading
from dpadmm_research.reproduction.trials import TOLERANCE, Trial, run_trials

SCHEDULE_SEED = 1
Point = tuple[float, float]


@dataclass(frozen=True)
class Entrant:
    """One method: the curve's name, its points, and how to build it and its problem from one of them."""

    curve: str
    points: tuple[Point, ...]
    build: Callable[[World, float, float], tuple[Any, Problem]]


@dataclass(frozen=True)
class Score:
    """What an entrant reached at a budget: test objectives (runs,), and the certified epsilon of its noise."""

    epsilon: float
    objectives: Floats
    certified_epsilon: float


def scores(entrant: Entrant, world: World, runs: int, seed: int) -> list[Score]:
    """Return the best of the entrant's points at every budget, by the mean training objective of the runs."""
    s, reserved = world.setting, None
    trials: list[Trial] = []
    best: dict[float, tuple[float, Score]] = {}
    for point in entrant.points:
        method, problem = entrant.build(world, *point)
        mechanisms = method.mechanisms(Setting(problem, s.certified_rounds, TOLERANCE))
        if mechanisms != reserved:  # noise on sampled batches takes a long search, which the step does not matter to
            plans = [(epsilon, calibrate(mechanisms, Target(epsilon, s.delta))) for epsilon in s.epsilons]
            trials = [Trial(entrant.curve, Reading.CERTIFIED, epsilon, plan) for epsilon, plan in plans]
            reserved = mechanisms
        batch = run_trials(method, problem, s.certified_rounds, trials, runs=runs, seed=seed, every=0)
        for trial, columns in batch:
            models = batch.run.estimate[:, columns]
            cost = float(world.training_objective(models).mean())
            if trial.epsilon not in best or cost < best[trial.epsilon][0]:
                score = Score(trial.epsilon, world.objective(models), trial.certified_epsilon(s.delta))
                best[trial.epsilon] = (cost, score)
    return [score for _, score in best.values()]


def _schedule(world: World) -> Participation:
    s = world.setting
    rng = np.random.default_rng(SCHEDULE_SEED)
    return Participation.subsets(world.users, s.certified_sampled, s.certified_rounds, rng)


def _admm(world: World, gamma: float, clip: float) -> tuple[Any, Problem]:
    return LassoADMM(gamma, clip=clip, unit=Unit.USER, participation=_schedule(world)), world.problem()


def _coordinator(world: World, gamma: float, threshold: float) -> tuple[Any, Problem]:
    return CoordinatorADMM(gamma, unit=Unit.USER, participation=_schedule(world)), world.problem(threshold)


def _sgd(world: World, step: float, clip: float) -> tuple[Any, Problem]:
    batches = Batches(world.setting.certified_sampled, SCHEDULE_SEED)
    return DPProxSGD(step, batches=batches, clip=clip), pool_records(world.problem())


ADMM = Entrant("private ADMM (Alg. 3/6)", ((1.5, 1e-4), (1.5, 0.001), (1.5, 0.01), (1.5, 0.1)), _admm)
COORDINATOR = Entrant(
    "ADMM, noise at the coordinator", ((0.05, 0.003), (0.05, 0.1), (0.05, 0.3), (0.2, 0.3), (0.8, 0.3)), _coordinator
)
SGD = Entrant("DP-prox-SGD", ((3e-4, 1.0), (0.01, 1.0), (0.03, 1.0), (0.1, 1.0), (0.3, 1.0)), _sgd)
ENTRANTS = (ADMM, COORDINATOR, SGD)
