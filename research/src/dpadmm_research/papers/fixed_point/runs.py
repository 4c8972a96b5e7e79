"""The numbers of the figure: the authors' runs in both readings of their noise, what it costs, and the contest."""

import math
from dataclasses import replace
from enum import Enum
from typing import Any

import numpy as np

from dpadmm.problems.arrays import Floats
from dpadmm_research.claims.base import linear_renyi_of_epsilon
from dpadmm_research.papers.fixed_point.authors import (
    ObjectiveCurve,
    Tracking,
    admm_curve,
    most_participations,
    sgd_curve,
)
from dpadmm_research.papers.fixed_point.contest import ENTRANTS, scores
from dpadmm_research.papers.fixed_point.costs import admm_cost, sgd_cost
from dpadmm_research.papers.fixed_point.world import SETTING, TOY, World
from dpadmm_research.reproduction.figure import Order
from dpadmm_research.reproduction.table import Reading, Rows, Table


class NoiseReading(Enum):
    """What the code's `scale_noise`, a variance by its formula, is taken for."""

    CODED = "as coded"
    ROOT = "square root taken"

    def std(self, scale: float) -> float:
        """Return the standard deviation that is drawn with."""
        return scale if self is NoiseReading.CODED else math.sqrt(scale)


DATA = "synthetic LASSO of the authors' code"
ADMM, SGD, FREE = "private ADMM", "DP-prox-SGD", "this ADMM without noise"
BARE, ZERO = "scikit-learn", "the model 0"
LONGER, SMALLER = f"{FREE}, 4 K iterations", f"{FREE}, 4 K iterations, a third of lambda"
TRACKED = f"{FREE}, tracking its mean"
LEAST, LAST = "least test objective of all iterations", "test objective of the last iterate"
CERTIFIED_EPS, BY_THEOREM_3 = "certified eps", "variance over Theorem 3's"
CONTEST = "certified"


def worth(curve: str, noise: NoiseReading) -> str:
    """Name the curve that tells what a method's noise costs."""
    return f"{curve}, {noise.value}"


def compute_runs(order: Order) -> Table:
    """Both methods with the noise of the authors' code, in both readings; ADMM without noise beside them."""
    world, rows = World.of(order.pick(SETTING, TOY)), Rows(DATA)
    s, runs = world.setting, order.runs_of(SETTING.runs)
    if Reading.CLAIMED not in order.accounting.readings:
        return rows.table()
    levels = [(noise, epsilon) for noise in NoiseReading for epsilon in s.epsilons]
    for curve, clip in ((ADMM, s.admm_clip), (SGD, s.sgd_clip)):
        stds = np.array([noise.std(world.noise_scale(epsilon, clip)) for noise, epsilon in levels])
        curves = [_curve(curve, world, stds, order.seed + run) for run in range(runs)]
        for metric, values in ((LEAST, [c.least for c in curves]), (LAST, [c.last for c in curves])):
            for (noise, epsilon), objectives in zip(levels, np.array(values).T, strict=True):
                rows.add(
                    panel=noise.value, curve=curve, reading=Reading.CLAIMED, epsilon=epsilon, x=epsilon, metric=metric,
                    values=objectives,
                )  # fmt: skip
    return rows.table()


def _curve(curve: str, world: World, stds: Floats, seed: int) -> ObjectiveCurve:
    if curve == SGD:
        return sgd_curve(world, stds, seed)
    return admm_curve(world, stds, seed, Tracking.as_coded(world))


def compute_references(order: Order) -> Table:
    """What has no noise: scikit-learn, the model 0, and ADMM as coded, longer, in smaller steps, its mean tracked."""
    world, rows = World.of(order.pick(SETTING, TOY)), Rows(DATA)
    for curve, model in ((BARE, world.optimum), (ZERO, np.zeros_like(world.optimum))):
        value = float(world.objective(model[:, None])[0])
        _constant(rows, curve, world, value, value)
    printed, k = Tracking.as_coded(world), world.setting.iterations
    quiet = np.zeros(1)
    long = admm_curve(world, quiet, order.seed, printed, 4 * k)
    slow = replace(world, setting=replace(world.setting, relaxation=world.setting.relaxation / 3))
    smaller = admm_curve(slow, quiet, order.seed, printed, 4 * k)
    tracked = admm_curve(world, quiet, order.seed, Tracking.consistent(world))
    short = ObjectiveCurve(long.objective[:k])
    for curve, run_curve in ((FREE, short), (LONGER, long), (SMALLER, smaller), (TRACKED, tracked)):
        _constant(rows, curve, world, float(run_curve.least[0]), float(run_curve.last[0]))
    return rows.table()


def _constant(rows: Rows, curve: str, world: World, least: float, last: float) -> None:
    for metric, value in ((LEAST, least), (LAST, last)):
        for epsilon in world.setting.epsilons:
            rows.fact(
                panel="", curve=curve, reading=Reading.NON_PRIVATE, epsilon=math.inf, x=epsilon, metric=metric,
                value=value,
            )  # fmt: skip


def compute_costs(order: Order) -> Table:
    """What the authors' noise costs, certified, and how it compares with what Theorem 3 asks for."""
    world, rows = World.of(order.pick(SETTING, TOY)), Rows(DATA)
    s = world.setting
    most = most_participations(world, range(order.seed, order.seed + order.runs_of(SETTING.runs)))
    for noise in NoiseReading:
        for epsilon in s.epsilons:
            facts: dict[str, Any] = {
                "panel": noise.value, "reading": Reading.CLAIMED, "epsilon": epsilon, "x": epsilon
            }  # fmt: skip
            std = noise.std(world.noise_scale(epsilon, s.admm_clip))
            asked = 16 * s.admm_clip**2 * s.iterations / (linear_renyi_of_epsilon(epsilon, s.delta) * s.rows**2)
            rows.fact(**facts, curve=worth(ADMM, noise), metric=CERTIFIED_EPS, value=admm_cost(world, std, most))
            rows.fact(**facts, curve=worth(ADMM, noise), metric=BY_THEOREM_3, value=std**2 / asked)
            std = noise.std(world.noise_scale(epsilon, s.sgd_clip))
            rows.fact(**facts, curve=worth(SGD, noise), metric=CERTIFIED_EPS, value=sgd_cost(world, std))
    return rows.table()


def compute_contest(number: int, order: Order) -> Table:
    """One method of the contest, certified for every budget."""
    world, rows, entrant = World.of(order.pick(SETTING, TOY)), Rows(DATA), ENTRANTS[number]
    if Reading.CERTIFIED not in order.accounting.readings and entrant.curve != SGD:
        return rows.table()
    for score in scores(entrant, world, order.runs_of(SETTING.runs), order.seed):
        facts: dict[str, Any] = {
            "panel": CONTEST, "curve": entrant.curve, "reading": Reading.CERTIFIED, "epsilon": score.epsilon,
            "x": score.epsilon,
        }  # fmt: skip
        rows.add(**facts, metric=LAST, values=score.objectives)
        rows.fact(**facts, metric=CERTIFIED_EPS, value=score.certified_epsilon)
    return rows.table()
