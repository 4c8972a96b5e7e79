"""How good a model was found to be: a figure, and what allows it to be shown."""

from dataclasses import dataclass
from enum import Enum

from dpadmm.reporting.evaluation_figures import EvaluatedFigure

_SHARES = ("accuracy", "AUC", "recall of ")


def _is_open(score: str, value: float, uncertainty: float) -> bool:
    """Return whether noise leaves a figure between 0 and 1 open."""
    return score.startswith(_SHARES) and not EvaluatedFigure(value, uncertainty, uncertainty).is_determined


def _figure_words(score: str, value: float, uncertainty: float, digits: int = 4) -> str:
    """Say a figure with its noise; of one that noise leaves open, only the interval."""
    if _is_open(score, value, uncertainty):
        return f"{score} {EvaluatedFigure(value, uncertainty, uncertainty)}"
    noise = f" +- {uncertainty:.{digits}f}" if uncertainty else ""
    return f"{score} {value:.{digits}f}{noise}"


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

    @property
    def is_determined(self) -> bool:
        """Whether noise leaves enough of the figure to show it."""
        return not _is_open(self.score, self.value, self.uncertainty)

    def __str__(self) -> str:
        """Say it."""
        return _figure_words(self.score, self.value, self.uncertainty)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A score that may be shown, with the reason why it may.

    `declaration`: what is known or was declared about the relation of these records to those of the training.
    `is_recorded`: a ledger holds what it cost. `others`: what was measured along with it.
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
    is_recorded: bool = False

    @property
    def headline(self) -> str:
        """The score with its noise, or that noise leaves it open."""
        return _figure_words(self.score, self.value, self.uncertainty, 3)

    def figure(self, score: str) -> OtherFigure | None:
        """Return what was measured of this score, None if it was not or noise leaves it open."""
        measured = (OtherFigure(self.score, self.value, self.uncertainty), *self.others)
        return next((each for each in measured if each.score == score and each.is_determined), None)

    @property
    def is_unrecorded(self) -> bool:
        """Whether private records were measured and no ledger knows of it."""
        return self.basis is Basis.ACCOUNTED and not self.is_recorded
