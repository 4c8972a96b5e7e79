"""How the noise changes over the rounds, fixed before the first one: pure functions of the round.

A schedule gives the *shape* only: relative standard deviations (for pure Laplace noise, relative 1/rate). The level
comes from the calibration. Entry 0 belongs to the first round that carries noise.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.errors import InputError


class Schedule(Protocol):
    """A sequence of relative noise levels."""

    def shape(self, rounds: int) -> NDArray[np.float64]:
        """Return the relative noise standard deviations of `rounds` noisy rounds, all > 0."""


@dataclass(frozen=True)
class Constant:
    """The same noise in every round.

    >>> Constant().shape(3)
    array([1., 1., 1.])
    """

    def shape(self, rounds: int) -> NDArray[np.float64]:
        """Return ones."""
        return np.ones(checks.count("rounds", rounds))


@dataclass(frozen=True)
class Geometric:
    """Variance `s_k^2 = s_1^2 decay^(k-1)`, decay in (0, 1] (P-ADMM).

    >>> Geometric(0.25).shape(3)
    array([1.  , 0.5 , 0.25])
    """

    decay: float

    def __post_init__(self) -> None:
        """Refuse a decay outside (0, 1]."""
        checks.half_open_unit("decay", self.decay)

    def shape(self, rounds: int) -> NDArray[np.float64]:
        """Return decay^((k-1)/2), k = 1..rounds."""
        return _powers(self.decay**0.5, rounds)


@dataclass(frozen=True)
class CaoOptimal:
    """Rates growing as `alpha(l) ~ (1 + beta)^((l-2)/4)`: eq. (21) of Consensus DP-ADMM, beta > 0.

    Minimises the paper's error bound (19) at a given sum of the rates. A run of K iterations has K - 1 noisy rounds,
    l = 2..K, since the first broadcast does not depend on the data.

    >>> CaoOptimal(15.0).shape(3)
    array([1.  , 0.5 , 0.25])
    """

    beta: float

    def __post_init__(self) -> None:
        """Refuse a non-positive beta."""
        checks.positive("beta", self.beta)

    def shape(self, rounds: int) -> NDArray[np.float64]:
        """Return alpha(2)/alpha(l) = (1 + beta)^(-(l-2)/4), l = 2..rounds + 1."""
        return _powers((1 + self.beta) ** -0.25, rounds)


@dataclass(frozen=True)
class Tail:
    """Even noise in the first half, then growing like `((K - k + 1)/(K/2))^-power`: for tail averages.

    The mean over the second half of the rounds weighs a late round's noise less than an early one's (it stays in the
    model for fewer of the rounds that are averaged), so late rounds may carry more of it and leave budget to the
    early ones. `power` 0 is constant noise; 1/2 is the optimum of C0 for directions in which nothing is forgotten;
    the default is a compromise with directions in which old noise dies out.
    """

    power: float = 0.25

    def __post_init__(self) -> None:
        """Refuse powers that are no numbers from 0 to 1."""
        if checks.non_negative("power", self.power) > 1:
            raise InputError(f"power must be from 0 to 1, got {shown(self.power)}.")

    def shape(self, rounds: int) -> NDArray[np.float64]:
        """Return the relative standard deviations."""
        half = checks.count("rounds", rounds) // 2
        left = np.arange(rounds - half, 0, -1) / (rounds - half)
        return np.concatenate([np.ones(half), left**-self.power])


@dataclass(frozen=True)
class Custom:
    """Levels given one by one, all > 0; a run may have no more noisy rounds than there are values.

    >>> Custom((3.0, 2.0, 1.0)).shape(2)
    array([3., 2.])
    """

    values: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse empty schedules and levels that are no levels."""
        if not self.values:
            raise InputError("A custom schedule needs at least one value, got none.")
        for value in self.values:
            checks.positive("every value of a custom schedule", value)

    def shape(self, rounds: int) -> NDArray[np.float64]:
        """Return the first `rounds` values."""
        if checks.count("rounds", rounds) > len(self.values):
            raise InputError(
                f"The schedule has {len(self.values)} values, got {rounds} rounds. Give a value per round."
            )
        return np.array(self.values[:rounds], dtype=np.float64)


def _powers(ratio: float, rounds: int) -> NDArray[np.float64]:
    """Return ratio^0, ratio^1, ..., refused where the last one would no longer be a usable noise level."""
    powers = np.asarray(ratio ** np.arange(checks.count("rounds", rounds)), dtype=np.float64)
    if powers[-1] < 1e-150:
        raise InputError(
            f"The noise of round {rounds} would be {powers[-1]:.1e} of the first. Take fewer rounds or a slower decay."
        )
    return powers
