"""What a plan may be expected to reach, for stated signals, as simulations show it, and how large these were.

Signals: how much the columns tell about the label. No public fact says so; forecasts are for stated ones.

A signal is stated by what a model without privacy reaches on records that it has not seen: its AUC; of several classes
the mean AUC of one class against the rest; R^2 of numbers. In each world the labels depend on the columns just so
strongly that such a model reaches it. Then the planned run is simulated there. The worlds differ in what decides how
much survives noise: whether the label depends on what most columns have in common or on their differences.

Where records are far more than are simulated, each simulated row counts for all of its kind: it is split between the
labels that it may have, by their probabilities, so that nothing is learned that does not hold for new records.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import ndtri, softmax

from dpadmm.checks import option_name
from dpadmm.core.task import Task
from dpadmm.methods.fixed_point import CentralisedADMM
from dpadmm.planner.candidates import STANDARD, Candidate
from dpadmm.planner.simulations import (
    WORLDS,
    Direction,
    NumberKind,
    Simulation,
    SyntheticWorld,
    WorldTable,
    best_of,
    draw,
    encode_world,
    positive_chances,
    predict_scores,
    score_models,
    simulation_of,
    train_models,
    trivial_loss,
)
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import LabelKind
from dpadmm.problems.problem import risk_of
from dpadmm.problems.silos import PersonWeights, Silos

_STATED = "stated"
_JUDGED = "moderate"
_AREAS = {"weak": 0.65, _JUDGED: 0.80, "strong": 0.95}
_SHARES = {"weak": 0.1, _JUDGED: 0.4, "strong": 0.8}
_MARGIN = 0.01  # worlds show no finer differences
_SHORT = 0.02  # of the stated AUC or R^2: less than this is not mentioned


class ScoreKind(Enum):
    """What is forecast, on records that the model has not seen."""

    AUC = "AUC"
    MEAN_AUC = "mean AUC of one class against the rest"
    R2 = "R^2"


def signals_of(task: Task) -> Mapping[str, float]:
    """Return what a model without privacy reaches by each signal: the one that is stated, or three usual ones.

    >>> from dpadmm.privacy.accounting import Target
    >>> from dpadmm.problems.losses import Logistic
    >>> signals_of(Task(sizes=(9,), dimension=1, loss=Logistic(), target=Target(1.0, 0.1)))
    {'weak': 0.65, 'moderate': 0.8, 'strong': 0.95}
    """
    is_real = task.loss.target is LabelKind.REALS
    stated = task.expected_r2 if is_real else task.expected_auc
    if stated is not None:
        return {_STATED: stated}
    return dict(_SHARES if is_real else _AREAS)


def judged_signal(task: Task) -> float:
    """Return what a model without privacy reaches by the signal that plans are judged by: stated, else moderate."""
    known = signals_of(task)
    return known[_STATED if _STATED in known else _JUDGED]


@dataclass(frozen=True)
class SignalScores:
    """AUC or R^2 of the runs of a simulation in one world, and of the model without privacy there.

    kept: mean part of the learnable loss that survives the noise; below 0 it is worse than nothing learned.
    """

    scores: tuple[float, ...]
    non_private: float
    kept: float


@dataclass(frozen=True)
class SignalForecast:
    """What is left of one signal.

    signal: weak, moderate, strong, or stated. non_private: AUC or R^2 of a model without privacy by this signal;
    simulated: the mean of it in the simulations, which is less where the records are too few for it. low, high: the
    range of the private model's over all simulated worlds and runs. learned: mean part of what can be learned that
    survives the noise, by the loss, in [0, 1].
    """

    signal: str
    non_private: float
    simulated: float
    low: float
    high: float
    learned: float

    @classmethod
    def of(cls, signal: str, stated: float, found: Sequence[SignalScores]) -> "SignalForecast":
        """Sum up what the worlds have shown; the range is rounded outwards to two digits."""
        scores = np.concatenate([one.scores for one in found])
        return cls(
            signal=signal,
            non_private=float(stated),
            simulated=float(np.mean([one.non_private for one in found])),
            low=math.floor(100 * (float(scores.min()) - _MARGIN)) / 100,
            high=min(math.ceil(100 * (float(scores.max()) + _MARGIN)) / 100, 1.0),
            learned=float(np.mean([min(max(one.kept, 0.0), 1.0) for one in found])),
        )

    @property
    def is_stated(self) -> bool:
        """Whether the user stated it."""
        return self.signal == _STATED

    @property
    def range(self) -> str:
        """The range as text."""
        return f"{self.low:.2f} to {self.high:.2f}"

    def __str__(self) -> str:
        """Say it."""
        few = ""
        if self.simulated < self.non_private - _SHORT:
            few = f", {self.simulated:.2f} with so few records"
        return f"{self.range} for a {self.signal} signal ({self.non_private:g} without privacy{few})"


@dataclass(frozen=True)
class Forecast:
    """What is left of each signal. runs: how many were simulated for each. prevalence: as stated, None if it is not."""

    score: ScoreKind
    signals: tuple[SignalForecast, ...]
    runs: int
    prevalence: float | None = None

    @property
    def judged(self) -> SignalForecast:
        """The signal by which a plan is judged hopeless or not: the stated one, else the moderate one."""
        return self.signals[len(self.signals) // 2]

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self) | {"score": self.score.value}

    def lines(self) -> list[str]:
        """Return the forecast as lines, one for each signal."""
        lines = [f"{self.score.value} on new records, range of {self.runs} runs on synthetic data:"]
        lines += [f"{each};" for each in self.signals]
        if self.prevalence is not None:
            lines.append(f"for the stated base rate of {self.prevalence:g};")
        lines[-1] = lines[-1].removesuffix(";")
        if not self.judged.is_stated:
            name = option_name("expected_r2" if self.score is ScoreKind.R2 else "expected_auc")
            lines[-1] += "."
            lines.append(f"No plan knows how strong your signal is; if you do, state it with {name}")
        return lines

    def __str__(self) -> str:
        """Say it in one line."""
        return " ".join(self.lines())


@dataclass(frozen=True)
class SimulatedExtent:
    """How large the simulations were behind a forecast: records, encoded features, rounds, vectors of coefficients."""

    records: int
    features: int
    rounds: int
    classes: int = 1

    def limits(self, task: Task, rounds: int) -> str | None:
        """Say where the task has more than was simulated; None where it has not."""
        pairs = (
            ("records", self.records, task.n_records),
            ("features", self.features, task.dimension),
            ("rounds", self.rounds, rounds),
            ("classes", self.classes, task.n_classes),
        )
        less = [f"{simulated} of {real} {what}" for what, simulated, real in pairs if simulated < real]
        if not less:
            return None
        return f"{', '.join(less)}; noise, step sizes and encoding as planned"


_CENSUS, _CLINIC, _LAB = WORLDS
SIGNAL_WORLDS = (
    _CLINIC,
    replace(_CENSUS, direction=Direction.COMMON),
    replace(_LAB, direction=Direction.CONTRAST),
    replace(_LAB, direction=Direction.COMMON, factors=1),
    replace(_CENSUS, direction=Direction.CONTRAST),
    SyntheticWorld(
        "scores", (NumberKind.SCORES,), 0.5, 2.0, variance_share=0.4, positive=0.1, direction=Direction.CONTRAST
    ),
)
"""Their own strengths are not used: each is brought to the signal that is stated. Several classes are simulated in the
first three, whose columns have enough directions for them."""

MOST_SIGNAL_ROUNDS = 10
"""Rounds of methods that are one descent: their number hardly matters to what is reached."""

_TEST_ROWS = 512
_SEED = 1
_STEPS = 6
_NEAR = 0.003  # of the AUC or R^2 that is stated
_FARTHEST = 8.0  # beyond it, no number of records shows a difference
_LEAST_CHANCE = 1e-9


@dataclass(frozen=True, eq=False)
class _ScoredRows:
    """Rows with labels and what each counts."""

    rows: Floats
    labels: Floats
    weights: Floats


@dataclass(frozen=True, eq=False)
class _Labels:
    """Labels (rows, K) that rows may have, with their probabilities, and one drawn for each row."""

    possible: Floats
    chances: Floats
    drawn: Floats

    def split(self, rows: Floats, part: slice) -> _ScoredRows:
        """Return the rows of a part, once for every label that they may have."""
        labels, chances = self.possible[part], self.chances[part]
        return _ScoredRows(np.repeat(rows[part], labels.shape[1], axis=0), labels.ravel(), chances.ravel())


@dataclass(frozen=True)
class _NonPrivate:
    """A strength of the signal, what a model without privacy reaches by it, and what there is to learn by the loss."""

    strength: float
    score: float
    loss: float
    loss_trivial: float


@lru_cache(maxsize=256)
def run_signal(simulation: Simulation, world: SyntheticWorld, stated: float) -> SignalScores:
    """Run the simulation in a world where a model without privacy reaches the stated AUC or R^2, or nearly so.

    Few records may not suffice for it, however strong the signal; then it is the strongest.
    """
    plain = simulation.without_privacy
    found, loss = _calibrate(plain, world, stated), simulation.loss
    labels = _labels_at(plain, world, found.strength)
    rows = encode_world(_drawn(plain, world), simulation.form)
    silos, test = _parts(plain, labels, rows, simulation.method.about.least_silos)
    scores, losses, areas = score_models(
        loss, predict_scores(loss, test.rows, train_models(simulation, silos)), test.labels, test.weights
    )
    kept = (found.loss_trivial - float(losses.mean())) / max(found.loss_trivial - found.loss, 1e-12)
    chosen = scores if loss.target is LabelKind.REALS else areas
    return SignalScores(tuple(chosen.tolist()), found.score, kept)


def signal_simulation(candidate: Candidate, n_models: int) -> Simulation:
    """Return the simulation of a plan in worlds of stated signals: as in others, in fewer rounds where few suffice.

    Of several models, one for each class, one is simulated; all classes are taken to be as frequent.
    """
    whole = simulation_of(candidate)
    rounds = min(whole.rounds, MOST_SIGNAL_ROUNDS) if whole.method is CentralisedADMM else whole.rounds
    return replace(whole, rounds=rounds, positive=1 / n_models if n_models > 1 else whole.positive)


@lru_cache(maxsize=64)
def _calibrate(plain: Simulation, world: SyntheticWorld, stated: float) -> _NonPrivate:
    """Find the strength by which a model without privacy reaches what is stated."""
    is_real = plain.loss.target is LabelKind.REALS
    goal = distance = _distance(stated, is_real=is_real)
    best: _NonPrivate | None = None
    for _ in range(_STEPS):
        # Normal scores whose means are this far apart have log-odds of this deviation.
        found = _non_private(plain, world, distance if is_real else distance * float(np.hypot(1.0, distance / 2)))
        if best is None or abs(found.score - stated) < abs(best.score - stated):
            best = found
        if abs(best.score - stated) <= _NEAR or distance == _FARTHEST:
            break
        factor = goal / max(_distance(found.score, is_real=is_real), 1e-3)
        distance = min(distance * min(max(factor, 0.5), 2.0), _FARTHEST)
    assert best is not None
    return best


def _distance(score: float, *, is_real: bool) -> float:
    """Return how far apart the means of normal scores of deviation 1 are for an AUC; for an R^2, signal over noise.

    >>> round(_distance(0.76, is_real=False), 3), _distance(0.8, is_real=True)
    (0.999, 2.0)
    """
    if is_real:
        share = min(max(score, 1e-4), 0.999)
        return round(float(np.sqrt(share / (1 - share))), 12)
    return float(np.sqrt(2) * ndtri(min(max(score, 0.501), 0.9999)))


def _non_private(plain: Simulation, world: SyntheticWorld, strength: float) -> _NonPrivate:
    """Fit standardised columns without noise."""
    loss, labels = plain.loss, _labels_at(plain, world, strength)
    silos, test = _parts(plain, labels, encode_world(_drawn(plain, world), STANDARD))
    best = best_of(risk_of(silos, loss, (0.02 if plain.is_ample else 1.0) / plain.n_records))
    scores, losses, areas = score_models(
        loss, predict_scores(loss, test.rows, best[:, None]), test.labels, test.weights
    )
    chosen = scores if loss.target is LabelKind.REALS else areas
    return _NonPrivate(strength, float(chosen[0]), float(losses[0]), trivial_loss(loss, test.labels, test.weights))


def _drawn(plain: Simulation, world: SyntheticWorld) -> WorldTable:
    number = plain.n_drawn + (0 if plain.is_ample else _TEST_ROWS)
    return draw(world, plain.table, number, plain.loss.target, None, plain.n_classes)


def _labels_at(plain: Simulation, world: SyntheticWorld, strength: float) -> _Labels:
    """Return the labels of the world's rows. strength: deviation of the log-odds; of numbers, signal over noise."""
    signals, rng = _drawn(plain, world).signals, np.random.default_rng(_SEED)
    if plain.loss.target is LabelKind.REALS:
        noise = 0.5 * plain.loss.slope_bound / np.hypot(strength, 1.0)  # most labels lie within the slope bound
        middle = noise * strength * signals
        drawn = middle[:, 0] + noise * rng.standard_normal(len(middle))
        return _Labels(middle + np.array([[-noise, noise]]), np.full((len(middle), 2), 0.5), drawn)
    if plain.loss.target is LabelKind.CLASSES:
        chances = softmax(strength / np.sqrt(2) * signals, axis=1)
        values = np.arange(signals.shape[1], dtype=np.float64)
    else:
        positive = world.positive if plain.positive is None else plain.positive
        of_one = positive_chances(strength * signals[:, 0], positive)
        chances, values = np.column_stack([1 - of_one, of_one]), np.array([-1.0, 1.0])
    chances = np.maximum(chances, _LEAST_CHANCE)
    chances /= (1 + _LEAST_CHANCE) * chances.sum(axis=1, keepdims=True)  # so that rounding makes no sum exceed 1
    place = (rng.random((len(signals), 1)) > np.cumsum(chances, axis=1)[:, :-1]).sum(axis=1)
    return _Labels(np.tile(values, (len(signals), 1)), chances, values[place])


def _parts(plain: Simulation, labels: _Labels, rows: Floats, n_silos: int = 1) -> tuple[Silos, _ScoredRows]:
    """Return the rows to train on, in silos, and those to score."""
    if not plain.is_ample:
        places = np.array_split(np.arange(plain.n_records), n_silos)
        silos = Silos.from_parts([rows[each] for each in places], [labels.drawn[each] for each in places], row_norm=1.0)
        return silos, labels.split(rows, slice(plain.n_records, None))
    ends = np.linspace(0, len(rows), n_silos + 1).astype(int)
    parts = [labels.split(rows, slice(*pair)) for pair in pairwise(ends)]
    people = [PersonWeights(each.weights, len(each.weights) // labels.possible.shape[1]) for each in parts]
    silos = Silos.from_parts(
        [each.rows for each in parts], [each.labels for each in parts], row_norm=1.0, people=people
    )
    return silos, labels.split(rows, slice(None))
