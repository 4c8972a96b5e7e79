"""The bench: a simulation in canonical units, small enough to take a fraction of a second.

What noise does to a descent depends on tau, the total time T and the ridge (see `candidates`). Records, silos, row
norms and label scales enter through these alone, so tasks of one kind share their simulations:

    rows of norm R, labels of scale S:   mu' = mu/R^2,   T' = T R^2,   tau' = tau/(R S),   rows of norm 1, scale 1.

Methods in which every silo adds its noise are one descent with one noise for the mean model; they are simulated as
fixed-point ADMM with one silo (the tests compare). tau' is taken from a grid of ratio sqrt(2), n and d from powers of
two: worlds differ far more among each other than tasks within such a cell.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache, singledispatch

import numpy as np

from dpadmm.algorithms.fixed_point import CentralisedADMM
from dpadmm.engines.private import simulate
from dpadmm.noise.plan import NoisePlan
from dpadmm.planning.candidates import margin_scale, unit_noise
from dpadmm.planning.plan import course_of
from dpadmm.planning.reference import best_model
from dpadmm.planning.settings import Settings, method_named
from dpadmm.planning.surrogate import judged_by
from dpadmm.planning.task import Task
from dpadmm.planning.trial import Trial, score_models
from dpadmm.planning.worlds import World, draw
from dpadmm.privacy.calibration import Target
from dpadmm.privacy.protection import ONE_RECORD, Protection, View
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import Huber, Loss
from dpadmm.problems.risk import EmpiricalRisk
from dpadmm.problems.silos import Silos

_LEAST_RECORDS, _MOST_RECORDS, _MOST_WIDTH, _MOST_ROUNDS = 64, 2048, 64, 40
_TEST_ROWS = 2048
_RUNS = 6
_SEED = 0
_TOLERANCE = 1e-5  # of the gradient bound
_BUDGET = Target(1.0, 1e-5)  # any: the noise is then brought to the bench's own


@dataclass(frozen=True)
class Bench:
    """A simulation in canonical units: all it depends on but the world.

    is_ample: there are far more records than are simulated, so that fitting them too well is no danger; models are
    then scored on the records they were trained on, else on fresh ones.
    """

    loss: Loss
    method: str
    n_records: int
    dimension: int
    rounds: int
    tau: float
    time: float
    mu: float
    is_ample: bool


def bench_of(task: Task, settings: Settings) -> Bench:
    """Return the bench on which these settings are tried."""
    size, scale = task.row_norm, margin_scale(task.loss)
    tau = unit_noise(task, settings.method, settings.rounds) / (size * scale)
    time, mu = settings.step * settings.rounds * size**2, settings.mu / size**2
    cell = 2.0 ** (round(2 * math.log2(tau)) / 2)
    return Bench(
        loss=canonical(task.loss),
        method=(CentralisedADMM if settings.method.about.is_one_descent else settings.method).about.name,
        n_records=_power_of_two(task.n_records, _LEAST_RECORDS, _MOST_RECORDS),
        dimension=_power_of_two(task.dimension, 2, _MOST_WIDTH),
        rounds=min(settings.rounds, _MOST_ROUNDS),
        tau=_short(cell),
        time=_short(time * tau / cell),  # what is left on a prediction, tau T, stays
        mu=_short(mu * cell / tau),
        is_ample=task.n_records > 2 * _MOST_RECORDS,
    )


def _power_of_two(number: int, least: int, most: int) -> int:
    return int(min(max(2 ** round(math.log2(number)), least), most))


def _short(x: float) -> float:
    return float(f"{x:.3e}")


@singledispatch
def canonical(loss: Loss) -> Loss:
    """Return the loss on its own scale."""
    return loss


@canonical.register
def _(loss: Huber) -> Loss:
    return Huber(1.0)


@dataclass(frozen=True, eq=False)
class Stage:
    """A world's table, split into silos and rows to be scored on, with the best model without privacy."""

    silos: Silos
    rows: Floats
    labels: Floats
    best: Floats


@dataclass(frozen=True)
class Scene:
    """What a stage is made from."""

    loss: Loss
    n_records: int
    dimension: int
    n_silos: int
    mu: float
    world: World


@lru_cache(maxsize=32)
def stage_of(scene: Scene) -> Stage:
    """Draw the world's table; the same whenever it is asked for."""
    n = scene.n_records
    rng = np.random.default_rng((_SEED, *scene.world.name.encode()))
    table = draw(scene.world, n + _TEST_ROWS, scene.dimension, scene.loss, rng)
    parts = np.array_split(np.arange(n), scene.n_silos)
    silos = Silos.from_parts([table.rows[p] for p in parts], [table.labels[p] for p in parts], row_norm=1.0)
    whole = Silos.from_parts([table.rows[:n]], [table.labels[:n]], row_norm=1.0)
    best = best_model(EmpiricalRisk(whole, judged_by(scene.loss), scene.mu))
    return Stage(silos, table.rows[n:], table.labels[n:], best)


def try_out(bench: Bench, world: World) -> Trial:
    """Run the bench in a world and score its models on rows they have not seen."""
    method = method_named(bench.method)
    n_silos = method.about.least_silos
    mu = (0.02 if bench.is_ample else 1.0) / bench.n_records
    stage = stage_of(Scene(bench.loss, bench.n_records, bench.dimension, n_silos, mu, world))
    protection = ONE_RECORD if View.EAVESDROPPER in method.about.views else Protection(view=View.PUBLIC)
    sizes = tuple(stage.silos.sizes.tolist())
    task = Task(sizes=sizes, dimension=bench.dimension, loss=bench.loss, target=_BUDGET, protection=protection)
    settings = Settings(method, bench.rounds, bench.time / bench.rounds, bench.mu)
    tolerance = _TOLERANCE * bench.loss.slope_bound / n_silos
    course = course_of(task, settings)
    exact = replace(course, setting=replace(course.setting, tolerance=1e-12))
    noise = scaled(exact.noise_plan(is_secure=False), bench.tau / unit_noise(task, method, bench.rounds))
    problem = replace(course.setting.problem, functions=task.risk(stage.silos, settings.mu))
    course = replace(course, setting=replace(course.setting, tolerance=tolerance))
    models = simulate(course, problem, _RUNS, _SEED, noise)
    judge = judged_by(bench.loss)
    if bench.is_ample:
        return score_models(judge, models, stage.best, stage.silos.features, stage.silos.labels)
    return score_models(judge, models, stage.best, stage.rows, stage.labels)


def scaled(plan: NoisePlan, factor: float) -> NoisePlan:
    """Return the plan with all noise multiplied; its statement says nothing any more."""
    return NoisePlan({key: {agent: r.louder(factor) for agent, r in row.items()} for key, row in plan.releases.items()})
