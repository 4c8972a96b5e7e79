"""What utility to expect: figures from simulations on synthetic data of the same shape."""

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Score(Enum):
    """What is forecast, on records that the model has not seen."""

    ACCURACY = "accuracy"
    R2 = "R^2"


@dataclass(frozen=True)
class Forecast:
    """The expected score of the private model, between the worlds that were simulated.

    mean, spread: mean and standard deviation over worlds and runs. low, high: mean in the hardest and the easiest
    world. non_private: the same objective without noise. trivial: always the majority class (regression: the mean) of
    the synthetic worlds, which says nothing about the majority class of anybody's data.
    loss, loss_non_private, loss_trivial: mean losses, on the same records.
    """

    score: Score
    mean: float
    spread: float
    low: float
    high: float
    non_private: float
    trivial: float
    loss: float
    loss_non_private: float
    loss_trivial: float

    @property
    def kept(self) -> float:
        """The part of what can be learned that survives the noise: 1 is all, 0 or less nothing."""
        reach = self.non_private - self.trivial
        return (self.mean - self.trivial) / reach if reach > 0 else 0.0

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
        return "the majority class" if self.score is Score.ACCURACY else "predicting the mean"

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {**{k: v for k, v in vars(self).items() if k != "score"}, "score": self.score.value}

    @classmethod
    def of_json(cls, plain: dict[str, Any]) -> "Forecast":
        """Return the forecast that `as_json` wrote."""
        return cls(**{**plain, "score": Score(plain["score"])})

    def __str__(self) -> str:
        """Say it in one line."""
        return (
            f"{self.score.value} {self.mean:.3f} +- {self.spread:.3f} on synthetic data, {self.gain:.3f} above "
            f"{self.simplest} there (without privacy {self.non_private:.3f}, {self.gain_non_private:.3f} above)"
        )
