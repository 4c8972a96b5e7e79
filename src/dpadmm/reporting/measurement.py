"""How good a model was found to be: a figure, and what allows it to be shown."""

from dataclasses import dataclass
from enum import Enum


class Basis(Enum):
    """What allows a measured figure to be shown."""

    PUBLIC = "data declared public"
    ACCOUNTED = "accounted private metric"


@dataclass(frozen=True)
class OtherFigure:
    """A further figure that came with a measurement, at no further cost."""

    score: str
    value: float
    uncertainty: float = 0.0

    def __str__(self) -> str:
        """Say it."""
        noise = f" +- {self.uncertainty:.4f}" if self.uncertainty else ""
        return f"{self.score} {self.value:.4f}{noise}"


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A score that may be shown, with the reason why it may.

    `declaration`: what is known or was declared about the relation of these records to those of the training.
    `others`: what was measured along with it.
    """

    score: str
    value: float
    records: int
    on: str
    basis: Basis
    epsilon: float
    delta: float
    time: str
    uncertainty: float = 0.0
    baseline: float | None = None
    declaration: str = ""
    others: tuple[OtherFigure, ...] = ()

    def figure(self, score: str) -> OtherFigure | None:
        """Return what was measured of this score, None if it was not."""
        own = OtherFigure(self.score, self.value, self.uncertainty)
        return next((each for each in (own, *self.others) if each.score == score), None)

    @property
    def is_unrecorded(self) -> bool:
        """Whether private records were measured and no ledger knows of it."""
        is_private = self.basis is Basis.ACCOUNTED and self.on.startswith("private records")
        return is_private and "recorded in" not in self.on
