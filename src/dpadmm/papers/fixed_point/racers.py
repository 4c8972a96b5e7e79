"""The methods of the figure: how each is built from its tuned numbers, and its noise for a budget."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpadmm.algorithms.batches import Batches
from dpadmm.algorithms.dp_sgd import DPProxSGD, pooled
from dpadmm.algorithms.fixed_point import CoordinatorADMM, LassoADMM
from dpadmm.algorithms.method import Setting
from dpadmm.noise.plan import NoisePlan, at_levels, calibrated
from dpadmm.papers.claimed import linear_renyi_of_epsilon
from dpadmm.papers.fixed_point.claims import FederatedTheorem3
from dpadmm.papers.fixed_point.tuning import Point
from dpadmm.papers.fixed_point.world import LassoSetting, World
from dpadmm.papers.reproduction.figure import Accounting
from dpadmm.papers.reproduction.table import Reading
from dpadmm.papers.reproduction.trials import TOLERANCE
from dpadmm.privacy.calibration import Target
from dpadmm.privacy.protection import Unit
from dpadmm.problems.problem import Problem

ADMM, COORDINATOR, SGD = "private ADMM (Alg. 3/6)", "ADMM, noise at the coordinator", "DP-prox-SGD"
TUNED = ("tuned gamma or step", "tuned clip", "tuned lambda")
"""The metrics that tell the tuned numbers, in the order of a point."""


@dataclass(frozen=True)
class Racer:
    """One method with its grids, in the order of `TUNED`: how to build it and its problem, and its noise."""

    curve: str
    reading: Reading
    grids: tuple[tuple[float, ...], ...]
    build: Callable[[World, Point], tuple[Any, Problem]]
    plan: Callable[[World, Any, Problem, float, float], NoisePlan]

    def is_wanted(self, accounting: Accounting) -> bool:
        """DP-SGD is what the others are compared with, under either accounting."""
        return self.curve == SGD or self.reading in accounting.readings


def racers(setting: LassoSetting) -> tuple[Racer, ...]:
    """Every curve of the figure."""
    gammas, lambdas = setting.gammas, setting.lambdas
    return (
        Racer(ADMM, Reading.CLAIMED, (gammas, setting.claimed_clips, lambdas), _admm, _claimed),
        Racer(ADMM, Reading.CERTIFIED, (gammas, setting.certified_clips, lambdas), _admm, _certified),
        Racer(COORDINATOR, Reading.CERTIFIED, (gammas, setting.thresholds), _coordinator, _certified),
        Racer(SGD, Reading.CERTIFIED, (setting.steps, setting.sgd_clips), _sgd, _scaled_certified),
    )


def _admm(world: World, point: Point) -> tuple[Any, Problem]:
    gamma, clip, lam = point
    return LassoADMM(gamma, lam, clip=clip, unit=Unit.USER, participation=world.participation()), world.problem()


def _coordinator(world: World, point: Point) -> tuple[Any, Problem]:
    gamma, threshold = point
    method = CoordinatorADMM(gamma, unit=Unit.USER, participation=world.participation())
    return method, world.problem(threshold)


def _sgd(world: World, point: Point) -> tuple[Any, Problem]:
    step, clip = point
    batches = Batches(world.sampled, world.setting.sampling_seed)
    return DPProxSGD(step, batches=batches, clip=clip), pooled(world.problem())


def _certified(world: World, method: Any, problem: Problem, clip: float, epsilon: float) -> NoisePlan:
    promises = method.promises(Setting(problem, world.setting.rounds, TOLERANCE))
    return calibrated(promises, Target(epsilon, world.setting.delta))


def _claimed(world: World, method: Any, problem: Problem, clip: float, epsilon: float) -> NoisePlan:
    """Theorem 3, central, with gamma L = clip, at the best order.

    Its printed conditions compare sigma with 1, whatever the clip; taken literally they would ask for far more noise at
    small clips than the formula does, so the formula alone is used (outside its printed conditions).
    """
    promises = method.promises(Setting(problem, world.setting.rounds, TOLERANCE))
    theorem = FederatedTheorem3(
        rounds=world.setting.rounds,
        users=world.setting.users,
        sampled=world.sampled,
        lipschitz=clip / method.gamma,
        gamma=method.gamma,
    )
    # The Renyi bound is linear in the order, so any order gives the noise of the slope that epsilon asks for.
    slope = linear_renyi_of_epsilon(epsilon, world.setting.delta)
    sigma = theorem.noise(order=2.0, rdp=2.0 * slope).value
    return at_levels(promises, [np.full((1, world.setting.rounds), sigma)])


_KNOWN: dict[tuple[float, ...], float] = {}


def _scaled_certified(world: World, method: Any, problem: Problem, clip: float, epsilon: float) -> NoisePlan:
    """As `_certified`: the search over the loss distribution is made once per budget, noise scales with the clip."""
    key = (epsilon, world.setting.delta, float(world.setting.rounds), float(world.setting.users))
    promises = method.promises(Setting(problem, world.setting.rounds, TOLERANCE))
    if key not in _KNOWN:
        release = next(iter(calibrated(promises, Target(epsilon, world.setting.delta))))
        _KNOWN[key] = release.noise_ratio
    bound = promises[0].rows[0].certificates[0].bound
    return at_levels(promises, [np.full((1, world.setting.rounds), _KNOWN[key] * bound)])
