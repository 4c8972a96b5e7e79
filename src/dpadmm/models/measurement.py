"""How good a model was found to be: a figure, and what allows it to be shown."""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any

DEVIATIONS = 1.959963984540054
"""Half of a 95 % interval, in standard deviations."""

_WIDEST = 0.3
"""How much of what is possible a noise interval may take for its figure to be determined."""


@dataclass(frozen=True)
class EvaluatedFigure:
    """A figure with two intervals of 95 %; NaN, with all that is possible, if the noise hides it.

    noise_error: standard deviation of what noise and bins add. error: of that and of the sampling of the records.
    least, most: what is possible.

    >>> figure = EvaluatedFigure(0.9, 0.01, 0.02, 0.0, 1.0)
    >>> print(figure, [round(end, 3) for end in figure.population_interval])
    0.900 (0.880 to 0.920) [0.861, 0.939]
    """

    value: float
    noise_error: float
    error: float
    least: float = 0.0
    most: float = 1.0

    @property
    def is_visible(self) -> bool:
        """Whether the counts say anything about it."""
        return not math.isnan(self.value)

    @property
    def is_determined(self) -> bool:
        """Whether noise leaves open at most three tenths of what is possible; an AUC of .44 to 1 says nothing.

        >>> EvaluatedFigure(0.85, 0.21, 0.21).is_determined, EvaluatedFigure(0.85, 0.05, 0.05).is_determined
        (False, True)
        """
        low, high = self.noise_interval
        return self.is_visible and high - low <= _WIDEST * (self.most - self.least)

    @property
    def noise_interval(self) -> tuple[float, float]:
        """What covers the exact figure on these records."""
        return self._interval(self.noise_error)

    @property
    def population_interval(self) -> tuple[float, float]:
        """What covers the figure of the population that these records were drawn from."""
        return self._interval(self.error)

    def _interval(self, error: float) -> tuple[float, float]:
        if not self.is_visible:
            return self.least, self.most
        reach = DEVIATIONS * error
        return max(self.value - reach, self.least), min(self.value + reach, self.most)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values, null for what is hidden or has no bound."""
        intervals = {"noise_interval": self.noise_interval, "population_interval": self.population_interval}
        shown = {name: [end if math.isfinite(end) else None for end in ends] for name, ends in intervals.items()}
        return {"value": self.value if self.is_visible else None} | shown

    def __str__(self) -> str:
        """Return value and noise interval."""
        if not self.is_visible:
            return "not visible above the noise"
        low, high = self.noise_interval
        if not self.is_determined:
            return f"not determined (noise interval {low:.3g} to {high:.3g})"
        return f"{self.value:.3f} ({low:.3f} to {high:.3f})"


_SHARES = ("accuracy", "AUC", "recall of ")


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
        """Whether noise leaves enough of the figure to show it; what is no share of 1 is always shown."""
        is_share = self.score.startswith(_SHARES)
        return not is_share or EvaluatedFigure(self.value, self.uncertainty, self.uncertainty).is_determined

    def __str__(self) -> str:
        """Say it."""
        return self.rounded(4)

    def rounded(self, digits: int) -> str:
        """Say the figure with its noise; of one that noise leaves open, only the interval."""
        if not self.is_determined:
            return f"{self.score} {EvaluatedFigure(self.value, self.uncertainty, self.uncertainty)}"
        noise = f" +- {self.uncertainty:.{digits}f}" if self.uncertainty else ""
        return f"{self.score} {self.value:.{digits}f}{noise}"


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
        return OtherFigure(self.score, self.value, self.uncertainty).rounded(3)

    def figure(self, score: str) -> OtherFigure | None:
        """Return what was measured of this score, None if it was not or noise leaves it open."""
        measured = (OtherFigure(self.score, self.value, self.uncertainty), *self.others)
        return next((each for each in measured if each.score == score and each.is_determined), None)

    @property
    def is_unrecorded(self) -> bool:
        """Whether private records were measured and no ledger knows of it."""
        return self.basis is Basis.ACCOUNTED and not self.is_recorded
