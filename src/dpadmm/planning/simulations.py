"""Simulations in canonical units, each small enough to take a fraction of a second, and remembered on disk.

What noise does to a descent depends on tau, the total time T and the ridge (see `candidates`). Records, silos, row
norms and label scales enter through these alone, so tasks of one kind share their simulations:

    rows of norm R, labels of scale S:   mu' = mu/R^2,   T' = T R^2,   tau' = tau/(R S),   rows of norm 1, scale 1.

Methods in which every silo adds its noise are one descent with one noise for the mean model; they are simulated as
fixed-point ADMM with one silo (the tests compare). tau' is taken from a grid of ratio sqrt(2), n and d from powers of
two: worlds differ far more among each other than tasks within such a cell.

The worlds are public stand-ins for private tables of a given width. Each draws rows as the library's schemas encode
them (numbers in [0, 1], one-hot categories, rows shortened to the norm bound) or as standardised numbers, and labels
from a linear model. They differ in what no public fact tells: how the features are correlated, how much of the label
they explain, how rare the rarer class is. Few of the model's coefficients are large.

Results are kept in the folder `dpadmm` of the user's cache (`XDG_CACHE_HOME`, by default `~/.cache`). They are about
synthetic data only: nothing private, nothing that could not be made again. Whatever cannot be read is simulated again.
"""

import hashlib
import json
import math
import os
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import Enum
from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy.special import expit, ndtr

from dpadmm.algorithms.fixed_point import CentralisedADMM
from dpadmm.algorithms.method import Method
from dpadmm.engines.private import simulate
from dpadmm.noise.plan import NoisePlan
from dpadmm.planning.candidates import Settings, margin_scale, unit_noise
from dpadmm.planning.plan import course_of
from dpadmm.planning.task import Task
from dpadmm.privacy.calibration import Target
from dpadmm.privacy.protection import ONE_RECORD, Protection, View
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import CappedLogistic, Huber, LabelKind, Logistic, Loss
from dpadmm.problems.problem import EmpiricalRisk
from dpadmm.problems.silos import Silos


class Features(Enum):
    """How the columns of a world look."""

    CATEGORIES = "mostly one-hot categories, some numbers"
    MIXED = "as many numbers as categories"
    NUMBERS = "correlated numbers between 0 and 1"
    CENTRED = "standardised numbers"

    @property
    def power(self) -> float:
        """How far the label's model undoes the columns' different spreads: 1 wholly, 0 not at all."""
        return 0.0 if self in (Features.CATEGORIES, Features.MIXED) else 1.0


@dataclass(frozen=True)
class SyntheticWorld:
    """One kind of table.

    features: how columns look. explained: part of the label's spread (classification: of the log-odds' spread against
    noise) that the features explain, as the standard deviation of the log-odds; for regression the share of variance.
    positive: share of the rarer class.
    """

    name: str
    features: Features
    log_odds: float
    variance_share: float
    positive: float


WORLDS: tuple[SyntheticWorld, ...] = (
    SyntheticWorld("census", Features.CATEGORIES, log_odds=2.2, variance_share=0.4, positive=0.25),
    SyntheticWorld("clinic", Features.MIXED, log_odds=2.0, variance_share=0.5, positive=0.45),
    SyntheticWorld("lab", Features.NUMBERS, log_odds=5.0, variance_share=0.8, positive=0.37),
    SyntheticWorld("sensors", Features.CENTRED, log_odds=3.0, variance_share=0.6, positive=0.5),
)


def draw(
    world: SyntheticWorld, n_rows: int, dimension: int, loss: Loss, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return the rows, of norm at most 1, and labels of `n_rows` records of the world for this loss.

    Labels of a regression are scaled to the loss's own scale: most of them lie within its slope bound.
    """
    raw = _raw_rows(world.features, n_rows, dimension, rng)
    spread = raw.std(axis=0)
    # Numbers count by their own spread, categories more the commoner they are.
    standard = (raw - raw.mean(axis=0)) / np.where(spread > 1e-9, spread, 1.0) ** world.features.power
    coefficients = rng.standard_normal(dimension) * np.exp(-rng.permutation(dimension) / max(2.0, dimension / 8))
    signal = standard @ coefficients
    signal /= max(float(signal.std()), 1e-12)
    norms = np.maximum(np.linalg.norm(raw, axis=1, keepdims=True), 1e-12)
    rows = raw * np.minimum(1.0, 1.0 / norms)
    if loss.target is LabelKind.REALS:
        noise = rng.standard_normal(n_rows)
        share = world.variance_share
        labels = 0.5 * loss.slope_bound * (np.sqrt(share) * signal + np.sqrt(1 - share) * noise)
        return rows, labels
    from scipy.optimize import brentq  # slow to load, and a plan from the cache draws no world

    odds = world.log_odds * signal
    shift = brentq(lambda b: float(expit(odds + b).mean()) - world.positive, -60.0, 60.0)
    labels = np.where(rng.random(n_rows) < expit(odds + shift), 1.0, -1.0)
    return rows, labels


def _raw_rows(kind: Features, n: int, d: int, rng: np.random.Generator) -> Floats:
    if kind is Features.CENTRED:
        return _factors(n, d, rng) / np.sqrt(d)
    if kind is Features.NUMBERS:
        return _numbers(n, d, rng)
    n_numbers = min(d, max(1, round(d * (0.06 if kind is Features.CATEGORIES else 0.3))))
    width = 8 if kind is Features.CATEGORIES else 3
    return np.hstack([_numbers(n, n_numbers, rng), *_categories(n, d - n_numbers, width, rng)])


def _factors(n: int, d: int, rng: np.random.Generator) -> Floats:
    """Standard normals with a few common factors: half of the variance is shared."""
    rank = max(1, min(d // 3, 6))
    loadings = rng.standard_normal((rank, d)) * (np.arange(1, rank + 1) ** -0.5)[:, None]
    shared = rng.standard_normal((n, rank)) @ loadings
    shared /= np.maximum(shared.std(axis=0), 1e-9)
    return np.sqrt(0.6) * shared + np.sqrt(0.4) * rng.standard_normal((n, d))


def _numbers(n: int, d: int, rng: np.random.Generator) -> Floats:
    """Numbers in [0, 1] with public bounds that are wider than the data, as such bounds are."""
    centre, width = rng.uniform(0.1, 0.6, d), rng.uniform(0.08, 0.4, d)
    return np.asarray(np.clip(centre + width * (ndtr(_factors(n, d, rng)) - 0.5), 0.0, 1.0))


def _categories(n: int, d: int, width: int, rng: np.random.Generator) -> list[Floats]:
    """One-hot blocks of 2 to 2 width - 2 categories with Zipf-like shares."""
    blocks, left = [], d
    while left > 0:
        size = min(left, int(rng.integers(2, max(3, 2 * width - 1))))
        shares = np.arange(1, size + 1) ** -1.2
        picked = rng.choice(size, size=n, p=shares / shares.sum())
        blocks.append(np.eye(size)[picked])
        left -= size
    return blocks


_VERSION = 2  # of what is remembered; changes whenever worlds, scores or methods do
_LEAST_RECORDS, _MOST_RECORDS, _MOST_WIDTH, _MOST_ROUNDS = 64, 2048, 64, 40
_TEST_ROWS = 2048
_RUNS = 6
_SEED = 0
_TOLERANCE = 1e-5  # of the gradient bound
_BUDGET = Target(1.0, 1e-5)  # any: the noise is then brought to the simulation's own
_HALVINGS = 30


@dataclass(frozen=True)
class Simulation:
    """All that a simulation depends on but the world, in canonical units.

    is_ample: there are far more records than are simulated, so that fitting them too well is no danger; models are
    then scored on the records they were trained on, else on fresh ones.
    """

    loss: Loss
    method: type[Method]
    n_records: int
    dimension: int
    rounds: int
    tau: float
    time: float
    mu: float
    is_ample: bool


@dataclass(frozen=True)
class SimulatedScores:
    """How models did in a world, on rows they have not seen; means over runs.

    score: accuracy or R^2, spread: its standard deviation over runs. best: without privacy. trivial: the majority
    class, or the mean label. loss...: mean losses of the same three. norm: of the private models.
    """

    score: float
    spread: float
    best: float
    trivial: float
    loss: float
    loss_best: float
    loss_trivial: float
    norm: float

    @property
    def kept(self) -> float:
        """The part of the learnable loss that survives the noise; 1 is all, below 0 worse than nothing learned."""
        return (self.loss_trivial - self.loss) / max(self.loss_trivial - self.loss_best, 1e-12)


def simulation_of(task: Task, settings: Settings) -> Simulation:
    """Return the simulation that tries these settings."""
    size, scale = task.row_norm, margin_scale(task.loss)
    tau = unit_noise(task, settings.method, settings.rounds) / (size * scale)
    time, mu = settings.step * settings.rounds * size**2, settings.mu / size**2
    cell = 2.0 ** (round(2 * math.log2(tau)) / 2)
    return Simulation(
        loss=canonical(task.loss),
        method=CentralisedADMM if settings.method.about.is_one_descent else settings.method,
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


def canonical(loss: Loss) -> Loss:
    """Return the loss on its own scale."""
    return Huber(1.0) if isinstance(loss, Huber) else loss


def judged_by(loss: Loss) -> Loss:
    """Return the loss by which a fit of `loss` is judged."""
    return Logistic() if isinstance(loss, CappedLogistic) else loss


@dataclass(frozen=True, eq=False)
class SyntheticData:
    """A world's table, split into silos and rows to be scored on, with the best model without privacy."""

    silos: Silos
    rows: Floats
    labels: Floats
    best: Floats


@lru_cache(maxsize=32)
def synthetic_data(
    world: SyntheticWorld, loss: Loss, n_records: int, dimension: int, n_silos: int, mu: float
) -> SyntheticData:
    """Draw the world's table; the same whenever it is asked for."""
    rng = np.random.default_rng((_SEED, *world.name.encode()))
    rows, labels = draw(world, n_records + _TEST_ROWS, dimension, loss, rng)
    parts = np.array_split(np.arange(n_records), n_silos)
    silos = Silos.from_parts([rows[p] for p in parts], [labels[p] for p in parts], row_norm=1.0)
    whole = Silos.from_parts([rows[:n_records]], [labels[:n_records]], row_norm=1.0)
    best = best_model(EmpiricalRisk(whole, judged_by(loss), mu))
    return SyntheticData(silos, rows[n_records:], labels[n_records:], best)


def best_model(risk: EmpiricalRisk, steps: int = 50) -> Floats:
    """Return a minimiser (d,) of one silo's empirical risk with a ridge, by Newton steps, halved until it falls."""
    w = np.zeros((risk.dimension, 1))
    value = float(risk.value(w[None])[0, 0])
    for _ in range(steps):
        gradient = risk.gradient(w[None])[0]
        move = np.linalg.solve(risk.hessian(0, w[:, 0]), gradient)
        for halving in range(_HALVINGS):
            after = w - 0.5**halving * move
            now = float(risk.value(after[None])[0, 0])
            if now < value:
                break
        else:
            return w[:, 0]
        w, value = after, now
    return w[:, 0]


def run_simulation(simulation: Simulation, world: SyntheticWorld) -> SimulatedScores:
    """Run the simulation in a world and score its models."""
    method, loss = simulation.method, simulation.loss
    n_silos = method.about.least_silos
    ridge = (0.02 if simulation.is_ample else 1.0) / simulation.n_records
    data = synthetic_data(world, loss, simulation.n_records, simulation.dimension, n_silos, ridge)
    protection = ONE_RECORD if View.EAVESDROPPER in method.about.views else Protection(view=View.PUBLIC)
    sizes = tuple(data.silos.sizes.tolist())
    task = Task(sizes=sizes, dimension=simulation.dimension, loss=loss, target=_BUDGET, protection=protection)
    settings = Settings(method, simulation.rounds, simulation.time / simulation.rounds, simulation.mu)
    course = course_of(task, settings)
    exact = replace(course, setting=replace(course.setting, tolerance=1e-12))
    noise = scaled(exact.noise_plan(is_secure=False), simulation.tau / unit_noise(task, method, simulation.rounds))
    problem = replace(course.setting.problem, functions=task.risk(data.silos, settings.mu))
    course = replace(course, setting=replace(course.setting, tolerance=_TOLERANCE * loss.slope_bound / n_silos))
    models = simulate(course, problem, _RUNS, _SEED, noise)
    if simulation.is_ample:
        return score_models(judged_by(loss), models, data.best, data.silos.features, data.silos.labels)
    return score_models(judged_by(loss), models, data.best, data.rows, data.labels)


def scaled(plan: NoisePlan, factor: float) -> NoisePlan:
    """Return the plan with all noise multiplied; its statement says nothing any more."""
    return NoisePlan({key: {agent: r.louder(factor) for agent, r in row.items()} for key, row in plan.releases.items()})


def score_models(loss: Loss, models: Floats, best: Floats, rows: Floats, labels: Floats) -> SimulatedScores:
    """Score private models (d, runs) and the best one (d,) on rows with their labels."""
    predictions = rows @ np.column_stack([models, best])
    if loss.target is LabelKind.SIGNS:
        losses = loss.value(predictions * labels[:, None]).mean(axis=0)
        scores = (predictions * labels[:, None] > 0).mean(axis=0)
        share = float((labels > 0).mean())
        constants = np.linspace(-3.0, 3.0, 121)
        flat = share * loss.value(constants) + (1 - share) * loss.value(-constants)
        trivial, loss_trivial = max(share, 1 - share), float(flat.min())
    else:
        losses = loss.value(predictions - labels[:, None]).mean(axis=0)
        errors = ((predictions - labels[:, None]) ** 2).mean(axis=0)
        scores = 1 - errors / max(float(labels.var()), 1e-12)
        trivial, loss_trivial = 0.0, float(loss.value(labels.mean() - labels).mean())
    return SimulatedScores(
        score=float(scores[:-1].mean()),
        spread=float(scores[:-1].std()),
        best=float(scores[-1]),
        trivial=trivial,
        loss=float(losses[:-1].mean()),
        loss_best=float(losses[-1]),
        loss_trivial=loss_trivial,
        norm=float(np.linalg.norm(models, axis=0).mean()),
    )


def remembered(simulation: Simulation, world: SyntheticWorld) -> SimulatedScores:
    """Return the scores of a simulation in the world, from the cache or by running it."""
    file = folder() / f"{key_of(simulation, world)}.json"
    known = _read(file)
    if known is not None:
        return known
    scores = run_simulation(simulation, world)
    _write(file, scores)
    return scores


def folder() -> Path:
    """Return where scores are kept."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "dpadmm" / "plans"


def key_of(simulation: Simulation, world: SyntheticWorld) -> str:
    """Return a name for everything that decides the scores; what the classes are called does not enter."""
    told = vars(simulation) | {"method": simulation.method.about.name}
    first, second = (", ".join(f"{name}={value!r}" for name, value in each.items()) for each in (told, vars(world)))
    return hashlib.sha256(f"{_VERSION} Bench({first}) World({second})".encode()).hexdigest()[:32]


def _read(file: Path) -> SimulatedScores | None:
    try:
        plain = json.loads(file.read_text())
        scores = SimulatedScores(**plain)
        return scores if all(math.isfinite(value) for value in asdict(scores).values()) else None
    except (OSError, ValueError, TypeError):
        return None


def _write(file: Path, scores: SimulatedScores) -> None:
    """Write to a new file and move it into place; a cache that cannot be written is no reason to stop."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, suffix=".part")
        try:
            with os.fdopen(handle, "w") as stream:
                json.dump(asdict(scores), stream)
            Path(name).replace(file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
