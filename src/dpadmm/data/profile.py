"""The column profile: noisy one-way counts of every column on public bins, and what follows from them.

Every cell of a column falls into exactly one bin, an empty one into a bin of its own, so a record is one count in each
column: that is what certificate C11 rests on (`docs/proofs/c11.md`). Counts of categories are halved before the noise,
since fewer digits of them are needed. Everything after the noise is a pure function of the noisy counts and of public
knowledge: the encoding of rows (`profile_scales`), and counts, means and quantiles for whoever wants them.

Bins of numbers: ten even steps over the public range, halvings towards an anchor (0, or the lower bound where 0 is
outside), and one bin for the anchor itself, since many columns are mostly 0 or crowd towards it.

`ColumnStatistics` are free post-processing for whoever looks at the columns. With B bins, n records and noise of
deviation sigma on every count, the shares

    p_j = c_j/n - (sum c/n - 1)/B             noisy counts c, moved so that they sum up to the public n

estimate the true shares without bias, and `g p` has the deviation `sigma/n sqrt(sum_j (g_j - mean g)^2)` for any
weights g. Nothing is cut off or rounded to zero on the way, so these error bars are exact; those of ratios (the mean of
the cells that are not empty) hold to first order. Intervals are those of two deviations (95 %), widened by the bins: a
value is known to lie in its bin, not where.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dpadmm import checks
from dpadmm.checks import nearest
from dpadmm.data.cells import Cells, Mask
from dpadmm.data.columns import AnyNumber, Categorical, Column, ColumnScale, Numeric, record_of
from dpadmm.errors import InputError
from dpadmm.privacy.certificates.sums import CATEGORY_WEIGHT
from dpadmm.problems.arrays import Floats, Matrix
from dpadmm.problems.silos import dense

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


STEPS, HALVINGS = 10, 10

_BINS_VERSION = 1  # changes whenever bins do: a profile is reused only where they are the same
_VISIBLE = 2.5  # a bin is believed from so many standard deviations of noise on
_END = 0.005  # share of the records that may lie beyond the support on either side
_WINSORISED = 0.01
_ATOM_SCALE = 0.03  # of the range, for a column all of whose visible values are one
_FAR = 20.0  # what is in no visible bin counts as spread over at most so many times the support
_REACH = 10.0  # values are clipped at so many scales from the centre, or at the support


@dataclass(frozen=True)
class NumberBins:
    """Bins of a number, in this order: the intervals between the edges, the anchor, empty.

    >>> bins = NumberBins(0.0, 100.0)
    >>> bins.number, bins.anchor, bins.edges[:3].tolist(), bins.edges[-2:].tolist()
    (21, 0.0, [0.0, 0.09765625, 0.1953125], [90.0, 100.0])
    >>> bins.places(np.array([0.0, 95.0, 100.0, 7.0]), np.array([False, False, False, True])).tolist()
    [19, 18, 18, 20]
    """

    lower: float
    upper: float
    anchor: float = field(init=False)
    edges: Floats = field(init=False, repr=False, compare=False)
    number: int = field(init=False)
    weight: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        """Compute the anchor, where bins are finest; the ends of the intervals; and how many bins there are."""
        low, high = self.lower, self.upper
        anchor = 0.0 if low <= 0 <= high else low
        halves = 0.5 ** np.arange(1, HALVINGS + 1)
        steps = low + (high - low) * np.arange(STEPS) / STEPS
        inner = np.concatenate([steps, anchor + (high - anchor) * halves, anchor - (anchor - low) * halves, [anchor]])
        edges = np.unique([*inner[(inner > low) & (inner < high)].tolist(), low, high])
        object.__setattr__(self, "anchor", anchor)
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "number", len(edges) + 1)

    def places(self, values: Floats, missing: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Return the bin of every cell; values outside the bounds are in the nearest one."""
        inner = np.searchsorted(self.edges[1:-1], values, side="right")
        found = np.where(values == self.anchor, self.number - 2, inner)
        return np.where(missing, self.number - 1, found).astype(np.intp)

    def count(self, found: Cells, blank: Mask, row_weights: Floats | None) -> NDArray[Any]:
        """Return the weighted count of every bin."""
        return np.bincount(self.places(found.values, found.missing | blank), row_weights, minlength=self.number)


@dataclass(frozen=True)
class CategoryBins:
    """One bin for each category, and one for cells that are none of them."""

    n_categories: int
    number: int = field(init=False)
    weight: ClassVar[float] = CATEGORY_WEIGHT

    def __post_init__(self) -> None:
        """Count the bins."""
        object.__setattr__(self, "number", self.n_categories + 1)

    def count(self, found: Cells, blank: Mask, row_weights: Floats | None) -> NDArray[Any]:
        """Return the weighted count of every bin."""
        places = np.where((found.codes < 0) | blank, self.n_categories, found.codes)
        return np.bincount(places, row_weights, minlength=self.number)


@dataclass(frozen=True)
class ProfileForm:
    """What is counted: the public columns, in `bins` each.

    size: counts in all, one column after the other. weights: what a record counts in each bin, 1 for numbers, one half
    for categories. n_numeric, n_categorical: how many columns hold numbers, and categories.
    """

    columns: tuple[Column, ...]
    bins: tuple[NumberBins | CategoryBins, ...] = field(init=False, repr=False, compare=False)
    size: int = field(init=False, repr=False, compare=False)
    weights: Floats = field(init=False, repr=False, compare=False)
    n_numeric: int = field(init=False, repr=False, compare=False)
    n_categorical: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Find the public bins of every column."""
        bins: list[NumberBins | CategoryBins] = []
        weights: list[float] = []
        n_numeric = 0
        for column in self.columns:
            if isinstance(column, Numeric) and not isinstance(column, AnyNumber):
                bins.append(NumberBins(column.lower, column.upper))
                n_numeric += 1
            elif isinstance(column, Categorical):
                bins.append(CategoryBins(len(column.categories)))
            else:
                raise InputError(f"{column.name}: without public bounds or categories there are no bins to count in.")
            weights += [bins[-1].weight] * bins[-1].number
        object.__setattr__(self, "bins", tuple(bins))
        object.__setattr__(self, "size", len(weights))
        object.__setattr__(self, "weights", np.array(weights))
        object.__setattr__(self, "n_numeric", n_numeric)
        object.__setattr__(self, "n_categorical", len(bins) - n_numeric)

    @property
    def digest(self) -> str:
        """What distinguishes this form from others."""
        record = [_BINS_VERSION, *(record_of(column) for column in self.columns)]
        return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()

    def counts(self, cells: Sequence[Cells], blank: Mask, row_weights: Floats | None = None) -> Floats:
        """Return the weighted counts (size,) of rows as they were read; a blank row is empty in every column.

        row_weights: what each row counts as, 1 where left out.
        """
        parts = [bins.count(found, blank, row_weights) for bins, found in zip(self.bins, cells, strict=True)]
        return np.concatenate(parts) * self.weights

    def counts_of_numbers(self, table: Matrix, row_weights: Floats | None = None) -> Floats:
        """Return the counts (size,) of an array of numbers, dense or sparse."""
        columns: Matrix = table.tocsc() if sparse.issparse(table) else table
        parts = []
        for place, bins in enumerate(self.bins):
            assert isinstance(bins, NumberBins)
            column = dense(columns[:, [place]]).ravel()
            inside = np.clip(column, bins.lower, bins.upper)
            parts.append(np.bincount(bins.places(inside, np.isnan(inside)), row_weights, minlength=bins.number))
        return np.concatenate(parts) * self.weights


@dataclass(frozen=True, kw_only=True)
class ColumnCounts:
    """The noisy counts of one column; post-processing of a release, free to look at.

    edges: of a number's bins, `counts` being those of the intervals, of the anchor alone, of empty cells.
    categories: of a category's, the last count being that of cells that are none of them.
    noise_std: standard deviation of the noise on every count.
    """

    name: str
    counts: tuple[float, ...]
    noise_std: float
    edges: tuple[float, ...] = ()
    categories: tuple[str | int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse counts that do not fit their bins."""
        wanted = len(self.edges) + 1 if self.edges else len(self.categories) + 1
        fits = len(self.counts) == wanted and bool(self.edges) != bool(self.categories)
        is_known = bool(np.all(np.isfinite([*self.counts, *self.edges]))) and 0 < self.noise_std < math.inf
        if not fits or not is_known or np.any(np.diff(self.edges) <= 0):
            raise InputError(f"The profile of {self.name!r} is damaged: its counts do not fit its bins.")

    def sorted_bins(self) -> tuple[Floats, Floats, Floats]:
        """Return the counts of a number's bins from left to right, without empty cells; their left and right ends.

        The anchor's bin is a point.
        """
        edges, anchor = np.array(self.edges), NumberBins(self.edges[0], self.edges[-1]).anchor
        at = int(np.searchsorted(edges, anchor))
        counts = np.insert(np.array(self.counts[:-2]), at, self.counts[-2])
        return counts, np.insert(edges[:-1], at, anchor), np.insert(edges[1:], at, anchor)

    def statistics(self, records: int) -> ColumnStatistics:
        """Return what follows from the counts of so many records."""
        counts, left, right = np.array(self.counts), np.empty(0), np.empty(0)
        if self.edges:
            found, left, right = self.sorted_bins()
            counts = np.append(found, self.counts[-1])
        return ColumnStatistics(self.name, counts, self.noise_std, records, left, right, self.categories)


@dataclass(frozen=True, kw_only=True)
class ReleasedProfile:
    """All columns' noisy counts over `records` records (persons or users, where the rows of one count as one).

    run: name of the run that released them. is_nominal: the number of records is a nominal one and the true one secret,
    of which the counts tell what `counted` makes of them.
    """

    columns: tuple[ColumnCounts, ...]
    records: int
    form: str
    run: str = ""
    is_nominal: bool = False

    def __post_init__(self) -> None:
        """Refuse a profile of nobody."""
        checks.count("records of a profile", self.records)

    @classmethod
    def of(
        cls, form: ProfileForm, pooled: Floats, noise_std: float, records: int, run: str = "", is_nominal: bool = False
    ) -> "ReleasedProfile":
        """Return the profile from noisy weighted counts (size,) summed over the silos, with this noise in all."""
        if pooled.shape != (form.size,):
            raise InputError(f"A profile of this form has {form.size} counts, got {pooled.shape}.")
        parts = np.split(pooled / form.weights, np.cumsum([bins.number for bins in form.bins])[:-1])
        columns = []
        for column, bins, part in zip(form.columns, form.bins, parts, strict=True):
            columns.append(
                ColumnCounts(
                    name=column.name,
                    counts=tuple(part.tolist()),
                    noise_std=noise_std / bins.weight,
                    edges=tuple(bins.edges.tolist()) if isinstance(bins, NumberBins) else (),
                    categories=column.categories if isinstance(column, Categorical) else (),
                )
            )
        return cls(columns=tuple(columns), records=records, form=form.digest, run=run, is_nominal=is_nominal)

    @property
    def counted(self) -> int:
        """The number of records that shares are of: the public one, or the noisy counts' if that is nominal.

        Every column counts all records. Unless the mean of these counts, weighted by how little noise they have, is
        more than three deviations off, the nominal number stays. Error bars of shares do not count its own error.
        """
        if not self.is_nominal:
            return self.records
        totals = np.array([math.fsum(column.counts) for column in self.columns])
        trust = np.array([1 / (len(column.counts) * column.noise_std**2) for column in self.columns])
        found, deviation = float(trust @ totals / trust.sum()), 1 / math.sqrt(trust.sum())
        return self.records if abs(found - self.records) <= 3 * deviation else max(round(found), 1)

    def by(self, run: str) -> "ReleasedProfile":
        """Return it as released by this run, unless an earlier one has released it."""
        return self if self.run else replace(self, run=run)

    def __getitem__(self, name: str) -> ColumnStatistics:
        """Return the counts, mean, quantiles or frequencies of a column, by its name."""
        found = next((column for column in self.columns if column.name == name), None)
        if found is None:
            known = [column.name for column in self.columns]
            raise InputError(f"The profile has no column {name!r}; it has {', '.join(known)}.{nearest(name, known)}")
        return found.statistics(self.counted)

    def table(self) -> "pd.DataFrame":
        """Return mean, quartiles, most frequent category and share of empty cells of every column, with their errors.

        NaN stands for what is not visible above the noise, and for what a column does not have.
        """
        import pandas as pd  # late: plans need no tables

        rows = [self[column.name].summary() for column in self.columns]
        return pd.DataFrame(rows, index=pd.Index([column.name for column in self.columns], name="column"))

    def scales(self, columns: Sequence[Column]) -> tuple[ColumnScale, ...]:
        """Return how the columns are encoded, by what is visible above the noise."""
        records = self.counted
        return tuple(
            _category_scale(column, counts, records)
            if isinstance(column, Categorical)
            else _number_scale(column, counts, records)
            for column, counts in zip(columns, self.columns, strict=True)
        )


def _category_scale(column: Categorical, counts: ColumnCounts, records: int) -> ColumnScale:
    """Centre at the visible frequencies; what is not visible is shared out evenly."""
    shares, noise = np.array(counts.counts[:-1]) / records, counts.noise_std / records
    is_seen = shares > _VISIBLE * noise
    if not is_seen.any():
        return column.usual_scale()
    found = np.where(is_seen, shares, 0.0)
    if is_seen.all() or found.sum() >= 1:
        found[is_seen] = on_simplex(found[is_seen])
    else:
        found[~is_seen] = (1 - found.sum()) / (~is_seen).sum()
    return column.scale_at(tuple(found.tolist()))


def _number_scale(column: Numeric, counts: ColumnCounts, records: int) -> ColumnScale:
    """Centre and scale by the mean and deviation of the visible bins; the usual scale where none is visible."""
    visible = VisibleLine.of(counts, records)
    if visible is None:
        return column.usual_scale()
    centre, scale = visible.centre_and_scale(column.upper - column.lower)
    if column.typical is not None:
        centre, scale = column.typical, math.hypot(scale, column.typical - centre)
    low, high = visible.support
    return column.scale_at(
        centre,
        scale,
        max(column.lower, min(centre - _REACH * scale, low)),
        min(column.upper, max(centre + _REACH * scale, high)),
    )


@dataclass(frozen=True, eq=False)
class VisibleLine:
    """What stands out from the noise of a number's counts: bins from left to right and their shares, summing to 1.

    unseen: share of the records that is in no visible bin, at most.
    """

    left: Floats
    right: Floats
    shares: Floats
    unseen: float

    @classmethod
    def of(cls, counts: ColumnCounts, records: int) -> "VisibleLine | None":
        """Keep what exceeds the noise, between the ends where the shares summed up from outside do; None if nothing."""
        found, left, right = counts.sorted_bins()
        noise, shares = counts.noise_std / records, found / records
        needed = max(_END, noise / 2) + 2 * noise * np.sqrt(np.arange(1, len(shares) + 1))
        from_left = np.flatnonzero(np.cumsum(shares) > needed)
        from_right = np.flatnonzero(np.cumsum(shares[::-1]) > needed)
        if not len(from_left) or not len(from_right):
            return None
        ends = sorted((int(from_left[0]), len(shares) - 1 - int(from_right[0])))
        places = np.arange(len(shares))
        is_seen = (shares > _VISIBLE * noise) & (places >= ends[0]) & (places <= ends[1])
        if not is_seen.any():
            return None
        empty = counts.counts[-1] / records
        unseen = 1 + noise - shares[is_seen].sum() - (empty if empty > _VISIBLE * noise else 0.0)
        return cls(left[is_seen], right[is_seen], on_simplex(shares[is_seen]), float(np.clip(unseen, 0.0, 1.0)))

    @property
    def support(self) -> tuple[float, float]:
        """From where to where anything is visible."""
        held = np.flatnonzero(self.shares > 0)
        return float(self.left[held[0]]), float(self.right[held[-1]])

    def quantile(self, share: float) -> float:
        """Return the value below which so much of the visible records lies, evenly spread within a bin."""
        total = np.cumsum(self.shares)
        place = int(min(np.searchsorted(total, share), np.flatnonzero(self.shares > 0)[-1]))
        inside = (share - (total[place] - self.shares[place])) / max(self.shares[place], 1e-12)
        return float(self.left[place] + (self.right[place] - self.left[place]) * np.clip(inside, 0.0, 1.0))

    def centre_and_scale(self, width: float) -> tuple[float, float]:
        """Return mean and deviation, winsorised; `width` is the public range.

        What is not visible may be anywhere: it counts as spread evenly over the range. Without that, columns that are
        mostly one value would get a scale that blows the rest up. The range counts up to `_FAR` times the support only:
        the noise alone leaves a few records unseen, and bounds that are far too wide would make that the whole scale.
        """
        unit = 2.0 ** (math.frexp(width)[1] - 1)  # squares of widths near the ends of 64-bit numbers do not fit
        line, width = replace(self, left=self.left / unit, right=self.right / unit), width / unit
        low, high = line.support
        if low == high:
            return low * unit, max(math.sqrt(self.unseen * width**2 / 12), _ATOM_SCALE * width) * unit
        hidden = self.unseen * min(width, _FAR * (high - low)) ** 2 / 12
        left, right = np.clip([line.left, line.right], line.quantile(_WINSORISED), line.quantile(1 - _WINSORISED))
        centre = float(self.shares @ (left + right) / 2)
        variance = float(self.shares @ (((left + right) / 2 - centre) ** 2 + (right - left) ** 2 / 12))
        held = self.shares[self.shares > 0]
        is_crowded = max(held[0], held[-1]) > 0.5
        core = (line.quantile(0.98) - line.quantile(0.02)) / (2.5 if is_crowded else 6.0)
        return centre * unit, max(math.sqrt(variance + hidden), core, width * 1e-6) * unit


def on_simplex(values: Floats) -> Floats:
    """Return the nearest point with entries of at least 0 that sum to 1.

    >>> on_simplex(np.array([0.6, 0.6, -0.1])).tolist()
    [0.5, 0.5, 0.0]
    """
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(falling > excess)[-1]
    return np.maximum(values - excess[last], 0.0)
