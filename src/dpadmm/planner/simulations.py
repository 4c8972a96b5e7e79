"""Simulations of a plan's candidates in canonical units, each small enough to take a few hundredths of a second.

What noise does to a descent depends on tau, the total time T and the ridge (see `candidates`). Records, silos, row
norms and label scales enter through these alone:

    rows of norm R, labels of scale S:   mu' = mu/R^2,   T' = T R^2,   tau' = tau/(R S),   rows of norm 1, scale 1.

Methods in which every silo adds its noise are one descent with one noise for the mean model; they are simulated as
fixed-point ADMM with one silo (the tests compare), and gradients of batches as whole gradients with the same noise.
Records, features and rounds are no more than `MOST_RECORDS`, `MOST_WIDTH` and `MOST_ROUNDS`: a plan says where its task
has more. All candidates meet the same tables and the same noise, so what differs between them is what they do.

Rows are those of *worlds*, public stand-ins for private tables, drawn cell by cell and encoded as the user's rows will
be. A world has the columns that the task's table has, fewer where there are many. Worlds differ in what no public fact
tells:

    numbers        bell-shaped, log-normal, or mostly 0 with a log-normal rest, all within bounds far wider than most
    categories     frequencies that fall like Zipf's
    columns        correlated by a few common factors, much or little
    labels         by a linear model of the columns, few of whose coefficients are large; how much they explain

Rows are encoded by the code that encodes private rows: by bounds and categories alone, or by a profile with noise, then
shortened. Where no table is known, because the user states a norm, columns are standardised numbers.
"""

import math
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, ndtr

from dpadmm.core.loop import simulate
from dpadmm.core.task import TableShape, Task
from dpadmm.data.cells import Cells
from dpadmm.data.columns import Categorical, Column, ColumnScale, Numeric
from dpadmm.data.encoding import CONSTANT, RowEncoding
from dpadmm.data.profile import ProfileForm, ReleasedProfile
from dpadmm.methods.base import Method
from dpadmm.methods.dp_gd import DPGD
from dpadmm.methods.fixed_point import CentralisedADMM
from dpadmm.noise.mechanisms import Family
from dpadmm.noise.plan import NoisePlan
from dpadmm.planner.candidates import STANDARD, Candidate, RowForm, margin_scale, run_of, unit_noise
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import ONE_RECORD, Protection, View
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import Huber, LabelKind, LinkedLoss, Logistic, Poisson, ScoreLoss, Softmax, log_loss_of
from dpadmm.problems.problem import EmpiricalRisk, SoftmaxRisk, risk_of
from dpadmm.problems.silos import Silos, dense

_SEED = 0
_MOST_FACTORS = 6
_STANDARD_CLIP_RADIUS = 1.0  # of rows about which only a norm is known
_FAR = 3.0  # standard deviations from which on a column's effect grows no more
_BISECTIONS = 50
_MAIN = 1.5  # variance along a common direction, that of a column being 1
_BENDING = 4  # towards the one direction in which they vary most


class NumberKind(Enum):
    """How a column of numbers is spread within its bounds."""

    BELL = "around the middle"
    SKEWED = "log-normal"
    GAPS = "mostly 0, else log-normal"
    SCORES = "in the middle of wide bounds"


class Direction(Enum):
    """What a label depends on: it decides more than anything else how much of a signal survives noise."""

    ANY = "columns with independent coefficients"
    COMMON = "what most columns have in common"
    CONTRAST = "differences between columns that otherwise go together"


@dataclass(frozen=True)
class SyntheticWorld:
    """One kind of table.

    numbers: how columns of numbers look, in turn. shared: part of the columns' variance that common factors explain.
    log_odds: standard deviation of the log-odds (classification). variance_share: part of the label's variance that
    the columns explain (regression). positive: share of the rarer class.
    direction: which columns tell about the label. factors: how many the columns share; None: a third as many as there
    are columns, six at most.
    """

    name: str
    numbers: tuple[NumberKind, ...]
    shared: float
    log_odds: float
    variance_share: float
    positive: float
    direction: Direction = Direction.ANY
    factors: int | None = None


WORLDS: tuple[SyntheticWorld, ...] = (
    SyntheticWorld(
        "census", (NumberKind.BELL, NumberKind.GAPS, NumberKind.SKEWED), 0.3, 2.2, variance_share=0.4, positive=0.25
    ),
    SyntheticWorld("clinic", (NumberKind.BELL, NumberKind.SKEWED), 0.4, 2.0, variance_share=0.5, positive=0.45),
    SyntheticWorld("lab", (NumberKind.SKEWED,), 0.7, 5.0, variance_share=0.8, positive=0.37),
)


@dataclass(frozen=True, eq=False)
class WorldTable:
    """A table: columns, cells, and labels of -1/+1, of mean 0 and deviation 1, or numbers of classes.

    signals: (rows, classes) linear models of the columns, of deviation 1, by which the labels were drawn.
    """

    columns: tuple[Column, ...]
    cells: tuple[Cells, ...] = field(repr=False)
    labels: Floats = field(repr=False)
    signals: Floats = field(repr=False)

    def scales(self, form: RowForm, blank: NDArray[np.bool_]) -> list[ColumnScale]:
        """Return how the columns are encoded in rows of this form."""
        if form.clip_radius is None:
            return [_true_scale(column, cells) for column, cells in zip(self.columns, self.cells, strict=True)]
        if form.noise is None:
            return [column.usual_scale() for column in self.columns]
        counted, number = ProfileForm(self.columns), len(self.labels)
        noise_std = form.noise * number
        noise = noise_std * np.random.default_rng(_SEED).standard_normal(counted.size)
        profile = ReleasedProfile.of(counted, counted.counts(self.cells, blank) + noise, noise_std, number)
        return list(profile.scales(self.columns))


@lru_cache(maxsize=32)
def encode_world(table: WorldTable, form: RowForm) -> Floats:
    """Return the encoded rows, of norm at most 1 and shared by candidates; their last feature is the constant."""
    blank = np.zeros(len(table.labels), dtype=bool)
    clip_radius = _STANDARD_CLIP_RADIUS if form.clip_radius is None else form.clip_radius
    encoding = RowEncoding.of(table.scales(form, blank), clip_radius=clip_radius, constant=CONSTANT)
    return dense(encoding.encode_cells(table.columns, table.cells, blank))


def shrink_table(table: TableShape, width: int) -> TableShape:
    """Return a table of about the same kind whose rows have at most `width` features, each column at least one.

    >>> shrink_table(TableShape(6, (7, 16, 7, 14, 6, 5, 2, 41)), 50)
    TableShape(n_numeric=2, categories=(19, 7, 6, 3, 3, 2, 2, 2), counts=94, n_targets=0)
    """
    whole = table.n_numeric + sum(table.categories)
    if whole <= width:
        return table
    n_numeric = max(table.n_numeric * width // whole, min(table.n_numeric, 1))
    categories: list[int] = []
    for size in sorted(table.categories, reverse=True):
        left = width - n_numeric - sum(categories)
        if left >= 2:
            categories.append(min(max(size * width // whole, 2), left))
    return TableShape(n_numeric, tuple(categories))


@lru_cache(maxsize=16)
def draw(
    world: SyntheticWorld,
    table: TableShape,
    n_rows: int,
    kind: LabelKind,
    positive: float | None = None,
    n_classes: int = 1,
) -> WorldTable:
    """Draw a table of the world; the same whenever it is asked for. `positive`: the share of +1, if it is known."""
    rng = np.random.default_rng((_SEED, *world.name.encode()))
    number = table.n_numeric + len(table.categories)
    latent = _factors(n_rows, number, world, rng)
    columns: list[Column] = []
    cells, effects = [], np.empty((n_rows, number))
    for place in range(number):
        if place < table.n_numeric:
            values = _numbers(world.numbers[place % len(world.numbers)], latent[:, place], rng)
            columns.append(Numeric(f"number {place}", 0.0, 1.0))
            cells.append(_cells(np.zeros(n_rows, dtype=np.intp), values))
            effects[:, place] = np.clip((values - values.mean()) / max(values.std(), 1e-9), -_FAR, _FAR)
        else:
            size = table.categories[place - table.n_numeric]
            codes = _codes(size, latent[:, place], rng)
            columns.append(Categorical(f"category {place}", tuple(range(size))))
            cells.append(replace(_cells(codes, np.ones(n_rows)), is_category=True))
            effects[:, place] = rng.standard_normal(size)[codes]
    effects -= effects.mean(axis=0)
    signals = np.column_stack([_signal(effects, rng, world.direction) for _ in range(n_classes)])
    if kind is LabelKind.CLASSES:
        return WorldTable(tuple(columns), tuple(cells), _classes(world, signals, rng), signals)
    return WorldTable(tuple(columns), tuple(cells), _labels(world, signals[:, 0], kind, positive, rng), signals)


def _signal(effects: Floats, rng: np.random.Generator, direction: Direction) -> Floats:
    """Return a linear model of the columns, of deviation 1, few of whose coefficients are large."""
    number = effects.shape[1]
    coefficients = rng.standard_normal(number) * np.exp(-rng.permutation(number) / max(2.0, number / 8))
    if direction is not Direction.ANY:
        coefficients = _along(effects, coefficients, direction)
    signal = effects @ coefficients
    return np.asarray(signal / max(float(signal.std()), 1e-12))


def _along(effects: Floats, coefficients: Floats, direction: Direction) -> Floats:
    """Return coefficients bent towards the directions in which columns vary most together, or without these."""
    scales = np.maximum(effects.std(axis=0), 1e-9)
    values, axes = np.linalg.eigh((effects / scales).T @ (effects / scales) / len(effects))
    parts = axes.T @ (coefficients * scales)
    kept = values**_BENDING if direction is Direction.COMMON else values <= max(_MAIN, values[0])
    return np.asarray(axes @ (kept * parts) / scales)


def _classes(world: SyntheticWorld, signals: Floats, rng: np.random.Generator) -> Floats:
    """Return the numbers of classes, drawn by a softmax: the log-odds of any two of them spread as the world's do."""
    scores = world.log_odds / np.sqrt(2) * signals
    return np.asarray((scores + rng.gumbel(size=scores.shape)).argmax(axis=1), dtype=np.float64)


def _factors(n: int, d: int, world: SyntheticWorld, rng: np.random.Generator) -> Floats:
    """Standard normals with a few common factors, which explain the part `shared` of the variance."""
    rank, shared = world.factors or max(1, min(d // 3, _MOST_FACTORS)), world.shared
    loadings = rng.standard_normal((rank, d)) * (np.arange(1, rank + 1) ** -0.5)[:, None]
    common = rng.standard_normal((n, rank)) @ loadings
    common /= np.maximum(common.std(axis=0), 1e-9)
    return np.sqrt(shared) * common + np.sqrt(1 - shared) * rng.standard_normal((n, d))


def _numbers(kind: NumberKind, latent: Floats, rng: np.random.Generator) -> Floats:
    """Return numbers in [0, 1] that grow with the latent ones; the bounds are wider than the data, as such bounds are.

    The median of log-normal numbers is as far below 1 as 3 deviations of their logarithm.
    """
    if kind is NumberKind.BELL:
        return np.clip(rng.uniform(0.2, 0.6) + rng.uniform(0.05, 0.15) * latent, 0.0, 1.0)
    if kind is NumberKind.SCORES:
        return np.clip(0.5 + latent / 12, 0.0, 1.0)
    spread = rng.uniform(0.3, 1.0)
    if kind is NumberKind.SKEWED:
        return np.minimum(np.exp(spread * (latent - 3.0)), 1.0)
    gap = rng.uniform(0.0, 1.6)  # half to 95 % of the values are 0
    return np.where(latent > gap, np.minimum(np.exp(spread * (latent - gap - 2.0)), 1.0), 0.0)


def _codes(size: int, latent: Floats, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return categories with Zipf-like frequencies; which of them is frequent is drawn."""
    shares = rng.permutation(np.arange(1, size + 1) ** -1.2)
    return np.minimum(np.searchsorted(np.cumsum(shares / shares.sum()), ndtr(latent)), size - 1).astype(np.intp)


def _cells(codes: NDArray[np.intp], values: Floats) -> Cells:
    none = np.zeros(len(values), dtype=bool)
    return Cells(codes, values, none, none, none, none)


def _true_scale(column: Column, cells: Cells) -> ColumnScale:
    if isinstance(column, Numeric):
        return column.scale_at(float(cells.values.mean()), max(float(cells.values.std()), 1e-6))
    assert isinstance(column, Categorical)
    frequencies = np.bincount(cells.codes, minlength=len(column.categories)) / len(cells.codes)
    return column.scale_at(tuple(frequencies.tolist()))


def _labels(
    world: SyntheticWorld, signal: Floats, kind: LabelKind, positive: float | None, rng: np.random.Generator
) -> Floats:
    if kind is LabelKind.REALS:
        share = world.variance_share
        return np.asarray(np.sqrt(share) * signal + np.sqrt(1 - share) * rng.standard_normal(len(signal)))
    chances = positive_chances(world.log_odds * signal, world.positive if positive is None else positive)
    return np.where(rng.random(len(signal)) < chances, 1.0, -1.0)


def positive_chances(odds: Floats, positive: float) -> Floats:
    """Return the probabilities of +1 with these log-odds, shifted so that their mean is `positive`."""
    low, high = -100.0, 100.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if expit(odds + middle).mean() < positive else (low, middle)
    return np.asarray(expit(odds + high))


MOST_RECORDS, MOST_WIDTH, MOST_ROUNDS, MOST_GRADIENTS, MOST_CLASSES = 1024, 48, 20, 200, 10
"""What simulations have at most: records, features, rounds (methods whose noise depends on the step: twice as many;
explicit gradient steps, whose length cannot be chosen: `MOST_GRADIENTS`), classes of one model."""

_LEAST_RECORDS = 64
_TEST_ROWS = 1024
_RUNS, _SOFTMAX_RUNS = 4, 2
_TOLERANCE = 1e-4  # of the gradient bound
_BUDGET = Target(1.0, 1e-5)  # any: the noise is then brought to the simulation's own
_PURE_BUDGET = Target(1e6, 1e-5)  # so much that noise in an objective is in proportion to it (C2)
_HALVINGS = 30
_NEWTON_STEPS = 50
_CONVERGED = 1e-10  # of the loss: nothing that can be seen is left to gain
_MOST_ODDS = 8.0  # of a constant answer, in logarithms


@dataclass(frozen=True)
class Simulation:
    """All that a simulation depends on but the world, in canonical units.

    table: the columns. form: how they are encoded. positive: the share of +1, None for the worlds' own.
    is_ample: there are far more records than are simulated, so that fitting them too well is no danger; models are
    then scored on the records they were trained on, else on fresh ones.
    """

    loss: ScoreLoss
    method: type[Method]
    n_records: int
    table: TableShape
    form: RowForm
    rounds: int
    tau: float
    time: float
    mu: float
    is_ample: bool
    positive: float | None = None

    @property
    def dimension(self) -> int:
        """Encoded features, the constant included."""
        return self.table.n_numeric + sum(self.table.categories) + 1

    @property
    def n_classes(self) -> int:
        """Vectors of coefficients of a model."""
        return self.loss.n_classes if isinstance(self.loss, Softmax) else 1

    @property
    def n_drawn(self) -> int:
        """How many different records are trained on."""
        return self.n_records // max(self.n_classes, 2) if self.is_ample else self.n_records

    @property
    def without_privacy(self) -> "Simulation":
        """Standardised columns without noise, and the loss without a cap; the same for all candidates of a task."""
        loss: ScoreLoss = self.loss
        if isinstance(loss, Softmax) or type(loss) is Logistic:
            loss = replace(loss, cap=1.0)
        plain = replace(self, loss=loss, method=CentralisedADMM, form=STANDARD)
        return replace(plain, rounds=1, tau=0.0, time=1.0, mu=0.0)


@dataclass(frozen=True, kw_only=True)
class SimulatedScores:
    """How models did in a world; means over runs.

    score: accuracy or R^2. loss: the mean loss; the log-loss, where the loss has a link. norm: of the models.
    loss_best, loss_trivial: mean losses there of a model without privacy, and of the best constant answer.
    """

    score: float
    loss: float
    norm: float
    loss_best: float
    loss_trivial: float

    @property
    def kept(self) -> float:
        """The part of the learnable loss that survives the noise; 1 is all, below 0 worse than nothing learned."""
        return (self.loss_trivial - self.loss) / max(self.loss_trivial - self.loss_best, 1e-12)


def simulation_of(candidate: Candidate) -> Simulation:
    """Return the simulation that tries a candidate."""
    task, method, rounds = candidate.task, candidate.method, candidate.rounds
    size, is_one = task.row_norm, method.about.is_one_descent
    # On its own scale; counts are simulated as numbers with as much noise.
    loss: ScoreLoss = Huber(1.0) if isinstance(task.loss, Huber | Poisson) else task.loss
    if isinstance(loss, Softmax):
        loss = replace(loss, n_classes=min(loss.n_classes, MOST_CLASSES))
    most = MOST_GRADIENTS if method.about.longest_step < math.inf else 2 * MOST_ROUNDS
    table = task.table if task.table is not None else TableShape(max(task.dimension - 1, 1))
    return Simulation(
        loss=loss,
        method=CentralisedADMM if is_one else DPGD if Family.SAMPLED in method.about.noise else method,
        n_records=min(max(task.n_records, _LEAST_RECORDS), MOST_RECORDS),
        table=shrink_table(table, MOST_WIDTH - 1),
        form=candidate.form,
        rounds=min(rounds, MOST_ROUNDS if is_one else most),
        tau=unit_noise(task, method, rounds) / (size * margin_scale(task.loss)),
        time=candidate.step * rounds * size**2,
        mu=candidate.mu / size**2,
        is_ample=task.n_records > 2 * MOST_RECORDS,
        positive=task.prevalence,
    )


@dataclass(frozen=True, eq=False)
class SyntheticData:
    """A world's rows and labels: those of the silos, and those to be scored on."""

    silos: Silos
    rows: Floats
    labels: Floats


@lru_cache(maxsize=512)
def run_simulation(simulation: Simulation, world: SyntheticWorld) -> SimulatedScores:
    """Run the simulation in a world and score its models.

    A function of public facts with a fixed seed: whoever plans the same task again gets the same scores, at once.
    """
    loss, data = simulation.loss, synthetic_data(simulation, world, simulation.method.about.least_silos)
    models = train_models(simulation, data.silos)
    return _scores(simulation, world, loss, predict_scores(loss, data.rows, models), data.labels, [models])


@lru_cache(maxsize=64)
def run_apart(simulation: Simulation, n_classes: int, world: SyntheticWorld) -> SimulatedScores:
    """Run the simulation for each class against the rest, in the worlds of softmax, and score it as that.

    simulation: of one of the problems, with its part of the budget. What they are held against is softmax's.
    """
    loss, together = simulation.loss, replace(simulation, loss=Softmax(min(n_classes, MOST_CLASSES)))
    assert isinstance(loss, LinkedLoss)
    data = synthetic_data(together, world, simulation.method.about.least_silos)
    models = [
        train_models(simulation, replace(data.silos, labels=np.where(data.silos.labels == number, 1.0, -1.0)), number)
        for number in range(together.n_classes)
    ]
    odds = loss.log_odds(np.stack([data.rows @ each for each in models], axis=1))
    # As released models answer: every class's own probability, scaled so that they sum to 1.
    chances = log_softmax(-np.logaddexp(0.0, -odds), axis=1)
    return _scores(together, world, Softmax(together.n_classes), chances, data.labels, models)


def _scores(
    simulation: Simulation, world: SyntheticWorld, loss: ScoreLoss, found: Floats, labels: Floats, models: list[Floats]
) -> SimulatedScores:
    """Return how predictions did, beside what the simulation's own loss teaches without privacy."""
    scores, losses, _ = score_models(loss, found, labels)
    best, trivial = reference(simulation.without_privacy, world)
    norm = float(np.mean([np.linalg.norm(each, axis=0) for each in models]))
    return SimulatedScores(
        score=float(scores.mean()), loss=float(losses.mean()), norm=norm, loss_best=best, loss_trivial=trivial
    )


def train_models(simulation: Simulation, silos: Silos, number: int = 0) -> Floats:
    """Return models (d, R) of noisy runs on these rows; problems of other numbers have other noise."""
    method, loss, n_silos = simulation.method, simulation.loss, silos.n_agents
    protection = ONE_RECORD if View.EAVESDROPPER in method.about.views(n_silos) else Protection(view=View.PUBLIC)
    sizes, budget = tuple(silos.sizes.tolist()), _PURE_BUDGET if method.about.is_pure else _BUDGET
    task = Task(sizes=sizes, dimension=simulation.dimension, loss=loss, target=budget, protection=protection)
    step = simulation.time / simulation.rounds
    run = run_of(Candidate(task, method, simulation.rounds, step, simulation.mu, simulation.form))
    exact = replace(run, setting=replace(run.setting, tolerance=1e-12))
    noise = scale_noise(exact.noise_plan(is_secure=False), simulation.tau / unit_noise(task, method, simulation.rounds))
    problem = replace(run.setting.problem, functions=task.risk(silos, simulation.mu))
    run = replace(run, setting=replace(run.setting, tolerance=_TOLERANCE * loss.slope_bound / n_silos))
    runs = _RUNS if simulation.n_classes == 1 else _SOFTMAX_RUNS  # their gradients cost more
    return simulate(run, problem, runs, _SEED + number, noise)


def scale_noise(plan: NoisePlan, factor: float) -> NoisePlan:
    """Return the plan with all noise multiplied; its statement says nothing any more."""
    return NoisePlan(
        {key: {agent: r.scale_noise(factor) for agent, r in row.items()} for key, row in plan.releases.items()}
    )


def synthetic_data(simulation: Simulation, world: SyntheticWorld, n_silos: int = 1) -> SyntheticData:
    """Return the world's rows, the same whenever they are asked for."""
    n_records, kind = simulation.n_records, simulation.loss.target
    number = n_records if simulation.is_ample else n_records + _TEST_ROWS
    drawn = draw(world, simulation.table, number, kind, simulation.positive, simulation.n_classes)
    rows, labels = encode_world(drawn, simulation.form), drawn.labels
    if kind is LabelKind.REALS:
        labels = 0.5 * simulation.loss.slope_bound * labels  # most of them lie within its slope bound
    parts = np.array_split(np.arange(n_records), n_silos)
    silos = Silos.from_parts([rows[p] for p in parts], [labels[p] for p in parts], row_norm=1.0)
    scored = slice(0 if simulation.is_ample else n_records, None)
    return SyntheticData(silos, rows[scored], labels[scored])


@lru_cache(maxsize=16)
def reference(plain: Simulation, world: SyntheticWorld) -> tuple[float, float]:
    """Return the mean losses of what standardised columns teach without privacy, and of the best constant answer."""
    loss, data = plain.loss, synthetic_data(plain, world)
    best = best_of(risk_of(data.silos, loss, (0.02 if plain.is_ample else 1.0) / plain.n_records))
    losses = score_models(loss, predict_scores(loss, data.rows, best[:, None]), data.labels)[1]
    return float(losses[0]), trivial_loss(loss, data.labels)


def best_of(risk: EmpiricalRisk | SoftmaxRisk) -> Floats:
    """Return a minimiser of one silo's risk with a ridge, one model."""
    return best_softmax(risk) if isinstance(risk, SoftmaxRisk) else best_model(risk)


def best_model(risk: EmpiricalRisk) -> Floats:
    """Return a minimiser (d,) of one silo's empirical risk with a ridge, by Newton steps, halved until it falls."""
    w = np.zeros((risk.dimension, 1))
    value = float(risk.value(w[None])[0, 0])
    for _ in range(_NEWTON_STEPS):
        gradient = risk.gradient(w[None])[0]
        move = np.linalg.solve(risk.hessian(0, w[:, 0]), gradient)
        for halving in range(_HALVINGS):
            after = w - 0.5**halving * move
            now = float(risk.value(after[None])[0, 0])
            if now < value:
                break
        else:
            return w[:, 0]
        has_converged = value - now < _CONVERGED
        w, value = after, now
        if has_converged:
            break
    return w[:, 0]


def best_softmax(risk: SoftmaxRisk) -> Floats:
    """Return a minimiser (C d,) of one silo's softmax risk with a ridge, by a quasi-Newton method."""
    from scipy.optimize import minimize  # slow to load, and most plans do without

    def both(w: Floats) -> tuple[float, Floats]:
        at = w[None, :, None]
        return float(risk.value(at)[0, 0]), risk.gradient(at)[0, :, 0]

    return np.asarray(minimize(both, np.zeros(risk.dimension), jac=True, method="L-BFGS-B").x)


def predict_scores(loss: ScoreLoss, rows: Floats, models: Floats) -> Floats:
    """Return the predictions (rows, models) of models (d, R); of several classes their scores (rows, classes, R)."""
    if not isinstance(loss, Softmax):
        return np.asarray(rows @ models)
    return np.einsum("nd,cdr->ncr", rows, models.reshape(loss.n_classes, -1, models.shape[1]), optimize=True)


def score_models(
    loss: ScoreLoss, predictions: Floats, labels: Floats, weights: Floats | None = None
) -> tuple[Floats, Floats, Floats]:
    """Return accuracy or R^2, mean loss and AUC (NaN for numbers) of scores by `predict_scores`, for labels (rows,).

    Where the fitted loss has a link, the mean loss is the log-loss of the probabilities that it gives. The AUC of
    several classes is the mean over classes of one against the rest. weights: (rows,), None where all are the same.
    """
    mean = partial(np.average, axis=0, weights=weights)
    if isinstance(loss, Softmax):
        found, rows, codes = predictions.argmax(axis=1), np.arange(len(labels)), labels.astype(np.intp)
        logs = np.stack([loss.log_probabilities(each) for each in predictions.transpose(2, 0, 1)], axis=2)
        areas = [
            area_under_curve(logs[:, each], np.where(codes == each, 1.0, -1.0), weights)
            for each in range(loss.n_classes)
        ]
        return mean(found == codes[:, None]), -mean(logs[rows, codes]), np.mean(areas, axis=0)
    truth = labels[:, None]
    if loss.target is LabelKind.REALS:
        variance = float(mean((labels - mean(labels)) ** 2))
        scores = 1 - mean((predictions - truth) ** 2) / max(variance, 1e-12)
        return scores, mean(loss.value(predictions - truth)), np.full(len(scores), np.nan)
    losses = log_loss_of(loss, predictions, truth) if isinstance(loss, LinkedLoss) else loss.value(predictions * truth)
    return mean(predictions * truth > 0), mean(losses), area_under_curve(predictions, labels, weights)


def trivial_loss(loss: ScoreLoss, labels: Floats, weights: Floats | None = None) -> float:
    """Return the mean loss of a model that knows nothing but the labels: the best constant."""
    mean = partial(np.average, weights=weights)
    if isinstance(loss, Softmax):
        counts = np.bincount(labels.astype(np.intp), weights)
        seen = counts[counts > 0] / counts.sum()
        return float(-(seen * np.log(seen)).sum())
    if loss.target is LabelKind.REALS:
        return float(mean(loss.value(mean(labels) - labels)))
    share = float(mean(labels > 0))
    constants = np.linspace(-_MOST_ODDS, _MOST_ODDS, 401)
    return float((share * loss.value(constants) + (1 - share) * loss.value(-constants)).min())


def area_under_curve(predictions: Floats, labels: Floats, weights: Floats | None = None) -> Floats:
    """Return the area under the ROC curve of every column: how often a positive row is ranked above a negative one.

    >>> area_under_curve(np.array([[0.1], [0.4], [0.4], [0.9]]), np.array([-1.0, -1.0, 1.0, 1.0])).tolist()
    [0.875]
    """
    is_positive = labels > 0
    if is_positive.all() or not is_positive.any():
        return np.full(predictions.shape[1], np.nan)
    positive, negative = (
        np.where(part, 1.0 if weights is None else weights, 0.0) for part in (is_positive, ~is_positive)
    )
    areas = []
    for column in predictions.T:
        _, place = np.unique(column, return_inverse=True)
        above, below = np.bincount(place, positive), np.bincount(place, negative)
        areas.append(above @ (np.cumsum(below) - below / 2))  # a tie counts half
    return np.array(areas) / (positive.sum() * negative.sum())
