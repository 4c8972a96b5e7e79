"""What a plan may be expected to reach, as simulations on synthetic tables have shown it, and how large these were."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from dpadmm.planning.task import Task


class ScoreKind(Enum):
    """What is forecast, on records that the model has not seen."""

    ACCURACY = "accuracy"
    R2 = "R^2"


@dataclass(frozen=True)
class Forecast:
    """The expected score of the private model, between the worlds that were simulated.

    mean, spread: mean and standard deviation over worlds and runs. low, high: mean in the hardest and the easiest
    world. non_private: the same objective without noise. trivial: always the majority class (regression: the mean) of
    the synthetic worlds, which says nothing about the majority class of anybody's data.
    loss, loss_non_private, loss_trivial: mean losses, on the same records; log-losses of the predicted probabilities
    if `is_log_loss`. auc, auc_non_private: area under the ROC curve, None for regression.
    prevalence: the share of the positive class that was stated, None for the worlds' own.
    """

    score: ScoreKind
    mean: float
    spread: float
    low: float
    high: float
    non_private: float
    trivial: float
    loss: float
    loss_non_private: float
    loss_trivial: float
    auc: float | None = None
    auc_non_private: float | None = None
    is_log_loss: bool = False
    prevalence: float | None = None

    @property
    def kept(self) -> float:
        """The part of what can be learned that survives the noise, by the loss: 1 is all, 0 or less nothing."""
        reach = self.loss_trivial - self.loss_non_private
        return (self.loss_trivial - self.loss) / reach if reach > 0 else 0.0

    @property
    def gain(self) -> float:
        """How much better than the simplest answer the private model was, in the simulations."""
        return self.mean - self.trivial

    @property
    def gain_non_private(self) -> float:
        """The same without noise."""
        return self.non_private - self.trivial

    @property
    def simplest(self) -> str:
        """What a model that learned nothing would answer."""
        return "the majority class" if self.score is ScoreKind.ACCURACY else "predicting the mean"

    @property
    def figures(self) -> dict[str, float]:
        """Further figures of the private model, where there are any: AUC and log-loss."""
        found = {} if self.auc is None else {"AUC": self.auc}
        return found | {"log-loss": self.loss} if self.is_log_loss else found

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {**{k: v for k, v in vars(self).items() if k != "score"}, "score": self.score.value}

    def lines(self) -> list[str]:
        """Say it, a figure a line."""
        said = [
            f"{self.score.value} {self.mean:.3f} +- {self.spread:.3f} on synthetic data, {self.gain:.3f} above "
            f"{self.simplest} there (without privacy {self.non_private:.3f}, {self.gain_non_private:.3f} above)"
        ]
        if self.auc is not None:
            said.append(f"AUC {self.auc:.3f} (without privacy {self.auc_non_private:.3f})")
        if self.is_log_loss:
            base = f"base rate alone {self.loss_trivial:.3f}"
            said.append(f"log-loss {self.loss:.3f} (without privacy {self.loss_non_private:.3f}, {base})")
        if self.prevalence is not None:
            said.append(f"for the stated base rate of {self.prevalence:g}")
        return said

    def __str__(self) -> str:
        """Say it in one line."""
        return "; ".join(self.lines())


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
