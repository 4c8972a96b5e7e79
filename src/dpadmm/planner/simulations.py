"""Simulations of a plan's candidates in canonical units, each small enough to take a few hundredths of a second.

What noise does to a descent depends on tau, the total time T and the ridge (see `candidates`). Records, silos, row
norms and label scales enter through these alone:

    rows of norm R, labels of scale S:   mu' = mu/R^2,   T' = T R^2,   tau' = tau/(R S),   rows of norm 1, scale 1.

Methods in which every silo adds its noise are one descent with one noise for the mean model; they are simulated as
fixed-point ADMM with one silo (the tests compare). Records, features and rounds are no more than `MOST_RECORDS`,
`MOST_WIDTH` and `MOST_ROUNDS`: a plan says where its task has more. All candidates meet the same tables and the same
noise, so what differs between them is what they do. Rows are those of `worlds`.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from scipy.special import log_softmax

from dpadmm.core.training import simulate
from dpadmm.methods.fixed_point import CentralisedADMM
from dpadmm.methods.method import Method
from dpadmm.noise.plan import NoisePlan
from dpadmm.planner.candidates import Settings, margin_scale, unit_noise
from dpadmm.planner.plan import run_of
from dpadmm.planner.task import TableShape, Task
from dpadmm.planner.worlds import STANDARD, RowForm, SyntheticWorld, draw, encoded, shrunk
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import ONE_RECORD, Protection, View
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import Huber, LabelKind, LinkedLoss, Logistic, log_loss_of
from dpadmm.problems.problem import EmpiricalRisk, risk_of
from dpadmm.problems.silos import Silos
from dpadmm.problems.softmax import AnyLoss, Softmax, SoftmaxRisk

MOST_RECORDS, MOST_WIDTH, MOST_ROUNDS, MOST_GRADIENTS, MOST_CLASSES = 1024, 48, 20, 200, 10
"""What simulations have at most: records, features, rounds (methods whose noise depends on the step: twice as many;
explicit gradient steps, whose length cannot be chosen: `MOST_GRADIENTS`), classes of one model."""

_LEAST_RECORDS = 64
_TEST_ROWS = 1024
_RUNS, _SOFTMAX_RUNS = 4, 2
_SEED = 0
_TOLERANCE = 1e-4  # of the gradient bound
_BUDGET = Target(1.0, 1e-5)  # any: the noise is then brought to the simulation's own
_HALVINGS = 30
_SETTLED = 1e-10  # of the loss: nothing that can be seen is left to gain
_MOST_ODDS = 8.0  # of a constant answer, in logarithms


@dataclass(frozen=True)
class Simulation:
    """All that a simulation depends on but the world, in canonical units.

    table: the columns. form: how they are encoded. positive: the share of +1, None for the worlds' own.
    is_ample: there are far more records than are simulated, so that fitting them too well is no danger; models are
    then scored on the records they were trained on, else on fresh ones.
    """

    loss: AnyLoss
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


def simulation_of(task: Task, settings: Settings, form: RowForm = STANDARD) -> Simulation:
    """Return the simulation that tries these settings on rows of this form."""
    size, scale, is_one = task.row_norm, margin_scale(task.loss), settings.method.about.is_one_descent
    table = task.table if task.table is not None else TableShape(max(task.dimension - 1, 1))
    return Simulation(
        loss=canonical(task.loss),
        method=CentralisedADMM if is_one else settings.method,
        n_records=min(max(task.n_records, _LEAST_RECORDS), MOST_RECORDS),
        table=shrunk(table, MOST_WIDTH - 1),
        form=form,
        rounds=min(settings.rounds, MOST_ROUNDS if is_one else most_rounds(settings.method)),
        tau=unit_noise(task, settings.method, settings.rounds) / (size * scale),
        time=settings.step * settings.rounds * size**2,
        mu=settings.mu / size**2,
        is_ample=task.n_records > 2 * MOST_RECORDS,
        positive=task.prevalence,
    )


def most_rounds(method: type[Method]) -> int:
    """Return how many rounds are simulated at most where the noise, or the descent, depends on the step."""
    return MOST_GRADIENTS if method.about.longest_step < math.inf else 2 * MOST_ROUNDS


def canonical(loss: AnyLoss) -> AnyLoss:
    """Return the loss on its own scale, with no more classes than are simulated."""
    if isinstance(loss, Softmax):
        return replace(loss, n_classes=min(loss.n_classes, MOST_CLASSES))
    return Huber(1.0) if isinstance(loss, Huber) else loss


def judged_by(loss: AnyLoss) -> AnyLoss:
    """Return the loss without a cap: what a fit of `loss` stands in for."""
    if isinstance(loss, Softmax):
        return replace(loss, cap=1.0)
    return Logistic() if type(loss) is Logistic else loss


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
    models = trained(simulation, data.silos)
    return _scores(simulation, world, loss, predicted(loss, data.rows, models), data.labels, [models])


@lru_cache(maxsize=64)
def run_apart(simulation: Simulation, n_classes: int, world: SyntheticWorld) -> SimulatedScores:
    """Run the simulation for each class against the rest, in the worlds of softmax, and score it as that.

    simulation: of one of the problems, with its part of the budget. What they are held against is softmax's.
    """
    loss, together = simulation.loss, replace(simulation, loss=Softmax(min(n_classes, MOST_CLASSES)))
    assert isinstance(loss, LinkedLoss)
    data = synthetic_data(together, world, simulation.method.about.least_silos)
    models = [
        trained(simulation, replace(data.silos, labels=np.where(data.silos.labels == number, 1.0, -1.0)), number)
        for number in range(together.n_classes)
    ]
    odds = loss.log_odds(np.stack([data.rows @ each for each in models], axis=1))
    # As released models answer: every class's own probability, scaled so that they sum to 1.
    chances = log_softmax(-np.logaddexp(0.0, -odds), axis=1)
    return _scores(together, world, Softmax(together.n_classes), chances, data.labels, models)


def _scores(
    simulation: Simulation, world: SyntheticWorld, loss: AnyLoss, found: Floats, labels: Floats, models: list[Floats]
) -> SimulatedScores:
    """Return how predictions did, beside what the simulation's own loss teaches without privacy."""
    scores, losses, _ = score_models(loss, found, labels)
    best, trivial = reference(simulation, world)
    norm = float(np.mean([np.linalg.norm(each, axis=0) for each in models]))
    return SimulatedScores(
        score=float(scores.mean()), loss=float(losses.mean()), norm=norm, loss_best=best, loss_trivial=trivial
    )


def trained(simulation: Simulation, silos: Silos, number: int = 0) -> Floats:
    """Return models (d, R) of noisy runs on these rows; problems of other numbers have other noise."""
    method, loss, n_silos = simulation.method, simulation.loss, silos.n_agents
    protection = ONE_RECORD if View.EAVESDROPPER in method.about.views(n_silos) else Protection(view=View.PUBLIC)
    sizes = tuple(silos.sizes.tolist())
    task = Task(sizes=sizes, dimension=simulation.dimension, loss=loss, target=_BUDGET, protection=protection)
    settings = Settings(method, simulation.rounds, simulation.time / simulation.rounds, simulation.mu)
    run = run_of(task, settings)
    exact = replace(run, setting=replace(run.setting, tolerance=1e-12))
    noise = scaled(exact.noise_plan(is_secure=False), simulation.tau / unit_noise(task, method, simulation.rounds))
    problem = replace(run.setting.problem, functions=task.risk(silos, settings.mu))
    run = replace(run, setting=replace(run.setting, tolerance=_TOLERANCE * loss.slope_bound / n_silos))
    runs = _RUNS if simulation.n_classes == 1 else _SOFTMAX_RUNS  # their gradients cost more
    return simulate(run, problem, runs, _SEED + number, noise)


def scaled(plan: NoisePlan, factor: float) -> NoisePlan:
    """Return the plan with all noise multiplied; its statement says nothing any more."""
    return NoisePlan({key: {agent: r.louder(factor) for agent, r in row.items()} for key, row in plan.releases.items()})


def synthetic_data(simulation: Simulation, world: SyntheticWorld, n_silos: int = 1) -> SyntheticData:
    """Return the world's rows, the same whenever they are asked for."""
    n_records, kind = simulation.n_records, simulation.loss.target
    number = n_records if simulation.is_ample else n_records + _TEST_ROWS
    drawn = draw(world, simulation.table, number, kind, simulation.positive, simulation.n_classes)
    rows, labels = encoded(drawn, simulation.form), drawn.labels
    if kind is LabelKind.REALS:
        labels = 0.5 * simulation.loss.slope_bound * labels  # most of them lie within its slope bound
    parts = np.array_split(np.arange(n_records), n_silos)
    silos = Silos.from_parts([rows[p] for p in parts], [labels[p] for p in parts], row_norm=1.0)
    scored = slice(0 if simulation.is_ample else n_records, None)
    return SyntheticData(silos, rows[scored], labels[scored])


def reference(simulation: Simulation, world: SyntheticWorld) -> tuple[float, float]:
    """Return the mean losses of what standardised columns teach without privacy, and of the best constant answer.

    They are the same for all candidates of a task.
    """
    plain = replace(simulation, loss=judged_by(simulation.loss), method=CentralisedADMM, form=STANDARD)
    return _reference(replace(plain, rounds=1, tau=0.0, time=1.0, mu=0.0), world)


@lru_cache(maxsize=16)
def _reference(simulation: Simulation, world: SyntheticWorld) -> tuple[float, float]:
    loss, data = simulation.loss, synthetic_data(simulation, world)
    best = best_of(risk_of(data.silos, loss, (0.02 if simulation.is_ample else 1.0) / simulation.n_records))
    losses = score_models(loss, predicted(loss, data.rows, best[:, None]), data.labels)[1]
    return float(losses[0]), trivial_loss(loss, data.labels)


def best_of(risk: EmpiricalRisk | SoftmaxRisk) -> Floats:
    """Return a minimiser of one silo's risk with a ridge, one model."""
    return best_softmax(risk) if isinstance(risk, SoftmaxRisk) else best_model(risk)


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
        is_settled = value - now < _SETTLED
        w, value = after, now
        if is_settled:
            break
    return w[:, 0]


def best_softmax(risk: SoftmaxRisk) -> Floats:
    """Return a minimiser (C d,) of one silo's softmax risk with a ridge, by a quasi-Newton method."""
    from scipy.optimize import minimize  # slow to load, and most plans do without

    def both(w: Floats) -> tuple[float, Floats]:
        at = w[None, :, None]
        return float(risk.value(at)[0, 0]), risk.gradient(at)[0, :, 0]

    return np.asarray(minimize(both, np.zeros(risk.dimension), jac=True, method="L-BFGS-B").x)


def predicted(loss: AnyLoss, rows: Floats, models: Floats) -> Floats:
    """Return the predictions (rows, models) of models (d, R); of several classes their scores (rows, classes, R)."""
    if not isinstance(loss, Softmax):
        return np.asarray(rows @ models)
    return np.einsum("nd,cdr->ncr", rows, models.reshape(loss.n_classes, -1, models.shape[1]), optimize=True)


def score_models(
    loss: AnyLoss, predictions: Floats, labels: Floats, weights: Floats | None = None
) -> tuple[Floats, Floats, Floats]:
    """Return accuracy or R^2, mean loss and AUC (NaN for numbers) of what was `predicted` of labels (rows,).

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


def trivial_loss(loss: AnyLoss, labels: Floats, weights: Floats | None = None) -> float:
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
