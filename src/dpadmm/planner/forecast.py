"""What a plan may be expected to reach, for stated signals, as simulations have shown it, and how large these were."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

import numpy as np

from dpadmm.checks import setting
from dpadmm.planner.task import Task
from dpadmm.problems.losses import LabelKind

_STATED = "stated"
_JUDGED = "moderate"
_AREAS = {"weak": 0.65, _JUDGED: 0.80, "strong": 0.95}
_SHARES = {"weak": 0.1, _JUDGED: 0.4, "strong": 0.8}
_MARGIN = 0.01  # worlds tell no finer differences
_SHORT = 0.02  # of the stated AUC or R^2: less than this is not worth a word


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
        """The range in words."""
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
        return next(each for each in self.signals if each.signal in (_STATED, _JUDGED))

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self) | {"score": self.score.value}

    def lines(self) -> list[str]:
        """Say it, a signal a line."""
        said = [f"{self.score.value} on new records, range of {self.runs} runs on synthetic data:"]
        said += [f"{each};" for each in self.signals]
        if self.prevalence is not None:
            said.append(f"for the stated base rate of {self.prevalence:g};")
        said[-1] = said[-1].removesuffix(";")
        if not self.judged.is_stated:
            name = setting("expected_r2" if self.score is ScoreKind.R2 else "expected_auc")
            said[-1] += "."
            said.append(f"No plan knows how strong your signal is; if you do, state it with {name}")
        return said

    def __str__(self) -> str:
        """Say it in one line."""
        return " ".join(self.lines())


@dataclass(frozen=True)
class Extent:
    """How large the simulations were behind a forecast: records, encoded features, rounds, vectors of coefficients."""

    records: int
    features: int
    rounds: int
    classes: int = 1

    def words(self, task: Task, rounds: int) -> str | None:
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
