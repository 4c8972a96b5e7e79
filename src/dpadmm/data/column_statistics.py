"""Shares, means and quantiles from the noisy counts of one column, with what the noise and the bins leave open.

Free post-processing of a column profile (`dpadmm.data.profile`). With B bins, n records and noise of deviation
sigma on every count, the shares

    p_j = c_j/n - (sum c/n - 1)/B             noisy counts c, moved so that they sum up to the public n

estimate the true shares without bias, and `g p` has the deviation `sigma/n sqrt(sum_j (g_j - mean g)^2)` for any
weights g. Nothing is cut off or rounded to zero on the way, so these error bars are exact; those of ratios (the mean of
the cells that are not empty) hold to first order. Intervals are those of two deviations (95 %), widened by the bins: a
value is known to lie in its bin, not where.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats

if TYPE_CHECKING:
    import pandas as pd

DEVIATIONS = 2.0
"""Half of an error bar, in standard deviations of the noise."""

_SUMMARY = ("mean", "mean_error", "q25", "median", "median_error", "q75", "top", "top_share", "top_share_error")

_LEAST_FILLED = 5.0  # deviations by which the share of filled cells must exceed 0, for ratios to it to mean anything


@dataclass(frozen=True)
class NoisyFigure:
    """A figure from noisy counts: value (NaN if nothing is visible), its error, and an interval that holds with 95 %.

    std_error: standard deviation of the noise in the value; of a quantile a quarter of its interval.
    low, high: what noise and bins leave open; all that is possible if nothing is visible.

    >>> str(NoisyFigure(38.61, 0.21, 37.9, 39.4)), str(NoisyFigure(math.nan, math.nan, 0.0, 120.0))
    ('38.6 (37.9 to 39.4)', 'not visible above the noise')
    """

    value: float
    std_error: float
    low: float
    high: float

    @property
    def is_visible(self) -> bool:
        """Whether the counts say more than the bounds do."""
        return not math.isnan(self.value)

    def __float__(self) -> float:
        """Return the value, NaN if nothing is visible."""
        return self.value

    def __str__(self) -> str:
        """Return value and interval."""
        if not self.is_visible:
            return "not visible above the noise"
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g})"


@dataclass(frozen=True, eq=False)
class ColumnStatistics:
    """The noisy counts of one column, and what follows from them.

    counts: of the bins of a number from left to right, or of the categories; last of all of the cells that are empty
    (or no listed category). left, right: ends of the bins, none for categories. records: n, a public number.

    >>> column = ColumnStatistics(
    ...     name="age", counts=np.array([3.0, 5.0, 2.0, 0.0]), noise_std=0.01, records=10,
    ...     left=np.array([0.0, 20.0, 40.0]), right=np.array([20.0, 40.0, 80.0]))
    >>> print(column.mean(), "-", column.quantile(0.5), "-", column.quantile(0.9))
    30 (17.9 to 42.1) - 28 (20 to 40) - 60 (40 to 80)
    """

    name: str
    counts: Floats
    noise_std: float
    records: int
    left: Floats
    right: Floats
    categories: tuple[str | int, ...] = ()

    @property
    def is_number(self) -> bool:
        """Whether the column holds numbers."""
        return not self.categories

    @cached_property
    def _shares(self) -> Floats:
        """p, the shares of the bins."""
        shares = self.counts / self.records
        return np.asarray(shares - (shares.sum() - 1) / len(shares))

    def _error(self, weights: Floats) -> float:
        """Return the deviation of `weights p`."""
        return float(self.noise_std / self.records * np.sqrt(np.sum((weights - weights.mean()) ** 2)))

    def _ratio(self, weights: Floats) -> tuple[float, float]:
        """Return `weights p` over the filled cells as a part of those, and its deviation; weights (B - 1,)."""
        filled = 1.0 - self._shares[-1]
        value = float(weights @ self._shares[:-1] / filled)
        return value, self._error(np.append(weights - value, 0.0)) / filled

    @property
    def _is_filled(self) -> bool:
        """Whether enough cells are filled for ratios to them to mean anything."""
        weights = np.append(np.ones(len(self.counts) - 1), 0.0)
        return bool(1.0 - self._shares[-1] > _LEAST_FILLED * self._error(weights))

    def empty_share(self) -> NoisyFigure:
        """Return the share of the records whose cell is empty (or no listed category)."""
        return self._share(len(self.counts) - 1)

    def _share(self, place: int) -> NoisyFigure:
        error = self._error(np.eye(1, len(self.counts), place)[0])
        value = float(self._shares[place])
        return _within(value, error, value - DEVIATIONS * error, value + DEVIATIONS * error, 0.0, 1.0)

    def mean(self) -> NoisyFigure:
        """Return the mean of the filled cells, values outside the public bounds counted at the bounds."""
        self._check_number("mean")
        low, high = float(self.left[0]), float(self.right[-1])
        if not self._is_filled:
            return NoisyFigure(math.nan, math.nan, low, high)
        (least, below), (most, above) = self._ratio(self.left), self._ratio(self.right)
        value, error = self._ratio((self.left + self.right) / 2)
        return _within(value, error, least - DEVIATIONS * below, most + DEVIATIONS * above, low, high)

    def quantile(self, share: float) -> NoisyFigure:
        """Return the value up to which `share`, in (0, 1), of the filled cells lies; spread evenly within a bin.

        The interval holds every bin that may be the quantile's: F at its right end is not clearly below `share`, and at
        its left end not clearly above.
        """
        self._check_number("quantile")
        checks.open_unit("share", share)
        last = len(self.left) - 1
        if not self._is_filled:
            return NoisyFigure(math.nan, math.nan, float(self.left[0]), float(self.right[-1]))
        risen, errors = self._distribution
        first_bin = int(np.flatnonzero(risen + DEVIATIONS * errors >= share)[0])
        is_late = np.append(0.0, (risen - DEVIATIONS * errors)[:-1]) < share
        last_bin = int(np.flatnonzero(is_late)[-1])
        low, high = float(self.left[first_bin]), float(self.right[last_bin])
        if first_bin == 0 and last_bin == last:
            return NoisyFigure(math.nan, math.nan, low, high)
        steady = (np.maximum.accumulate(risen) + np.minimum.accumulate(risen[::-1])[::-1]) / 2
        place = int(np.searchsorted(steady, share))
        before = steady[place - 1] if place else min(0.0, float(steady[0]))
        inside = (share - before) / max(steady[place] - before, 1e-12)
        value = self.left[place] + (self.right[place] - self.left[place]) * inside
        return NoisyFigure(float(np.clip(value, low, high)), (high - low) / (2 * DEVIATIONS), low, high)

    @cached_property
    def _distribution(self) -> tuple[Floats, Floats]:
        """F at the right end of every bin, and its deviation; 1 and 0 at the last."""
        upto = np.tri(len(self.left))[:-1]
        found = np.array([*(self._ratio(weights) for weights in upto), (1.0, 0.0)])
        return found[:, 0], found[:, 1]

    def frequencies(self) -> "pd.DataFrame":
        """Return the share of the records in every category, NaN where the noise leaves everything open."""
        import pandas as pd  # late: plans need no tables

        if self.is_number:
            raise InputError(f"{self.name} holds numbers: use mean, quantile or counts_by_bin.")
        found = [self._share(place) for place in range(len(self.categories))]
        return pd.DataFrame(
            {"share": [each.value for each in found], "std_error": [each.std_error for each in found]},
            index=pd.Index(self.categories, name=self.name),
        )

    def counts_by_bin(self) -> "pd.DataFrame":
        """Return the noisy counts as they were released; the noise can make them negative.

        Bins of numbers hold their left end and not their right one, but for the last; the one of a single value holds
        what was taken out of its neighbours. Last comes the count of empty cells.
        """
        import pandas as pd  # late: plans need no tables

        if self.is_number:
            bins = pd.DataFrame({"low": [*self.left, math.nan], "high": [*self.right, math.nan]})
        else:
            bins = pd.DataFrame({"category": [*self.categories, None]})
        return bins.assign(count=self.counts, std_error=self.noise_std)

    def summary(self) -> dict[str, float | str | int | None]:
        """Return the column's line of `ReleasedProfile.table`."""
        line: dict[str, float | str | int | None] = dict.fromkeys(_SUMMARY, math.nan)
        if self.is_number:
            found = {"mean": self.mean(), "median": self.quantile(0.5)}
            line |= {"q25": self.quantile(0.25).value, "q75": self.quantile(0.75).value}
        else:
            place = int(np.argmax(self._shares[:-1]))
            found = {"top_share": self._share(place)}
            line["top"] = self.categories[place] if found["top_share"].low > 0 else None
        for name, figure in (found | {"empty": self.empty_share()}).items():
            line |= {name: figure.value, f"{name}_error": figure.std_error}
        return line

    def _check_number(self, figure: str) -> None:
        if not self.is_number:
            raise InputError(f"{self.name} holds categories, which have no {figure}: use frequencies.")


def _within(value: float, error: float, low: float, high: float, least: float, most: float) -> NoisyFigure:
    """Return the figure moved within what is possible; no value if all of that is within the interval."""
    if low <= least and high >= most:
        return NoisyFigure(math.nan, math.nan, least, most)
    return NoisyFigure(min(max(value, least), most), error, max(low, least), min(high, most))
