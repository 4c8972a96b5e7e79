"""Worlds: public stand-ins for private tables, drawn cell by cell and encoded as the user's rows will be.

A world has the columns that the task's table has, fewer where there are many. They differ in what no public fact tells:

    numbers        bell-shaped, log-normal, or mostly 0 with a log-normal rest, all within bounds far wider than most
    categories     frequencies that fall like Zipf's
    columns        correlated by a few common factors, much or little
    labels         by a linear model of the columns, few of whose coefficients are large; how much they explain

Rows are encoded by the code that encodes private rows: by bounds and categories alone, or by a profile with noise, then
shortened. Where no table is known, because the user states a norm, columns are standardised numbers.
"""

from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from dpadmm.data.cells import Cells
from dpadmm.data.columns import Categorical, Column, ColumnScale, Numeric
from dpadmm.data.encoding import CONSTANT, RowEncoding
from dpadmm.data.profile import ProfileForm, ReleasedProfile
from dpadmm.planner.task import TableShape
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import LabelKind
from dpadmm.problems.rows import dense

_SEED = 0
_MOST_FACTORS = 6
_STANDARD_REACH = 1.0  # of rows about which only a norm is known
_FAR = 3.0  # standard deviations from which on a column's effect grows no more
_BISECTIONS = 50
_MAIN = 1.5  # variance along a common direction, that of a column being 1
_BENDING = 4  # towards the one direction in which they vary most


class NumberKind(Enum):
    """How a column of numbers is spread within its bounds."""

    BELL = "around the middle"
    SKEWED = "log-normal"
    GAPS = "mostly 0, else log-normal"
    SCORES = "in the middle of wide bounds"


class Direction(Enum):
    """What a label depends on: it decides more than anything else how much of a signal survives noise."""

    ANY = "columns with independent coefficients"
    COMMON = "what most columns have in common"
    CONTRAST = "differences between columns that otherwise go together"


@dataclass(frozen=True)
class SyntheticWorld:
    """One kind of table.

    numbers: how columns of numbers look, in turn. shared: part of the columns' variance that common factors explain.
    log_odds: standard deviation of the log-odds (classification). variance_share: part of the label's variance that
    the columns explain (regression). positive: share of the rarer class.
    direction: which columns tell about the label. factors: how many the columns share; None: a third as many as there
    are columns, six at most.
    """

    name: str
    numbers: tuple[NumberKind, ...]
    shared: float
    log_odds: float
    variance_share: float
    positive: float
    direction: Direction = Direction.ANY
    factors: int | None = None


WORLDS: tuple[SyntheticWorld, ...] = (
    SyntheticWorld(
        "census", (NumberKind.BELL, NumberKind.GAPS, NumberKind.SKEWED), 0.3, 2.2, variance_share=0.4, positive=0.25
    ),
    SyntheticWorld("clinic", (NumberKind.BELL, NumberKind.SKEWED), 0.4, 2.0, variance_share=0.5, positive=0.45),
    SyntheticWorld("lab", (NumberKind.SKEWED,), 0.7, 5.0, variance_share=0.8, positive=0.37),
)


@dataclass(frozen=True)
class RowForm:
    """How a world's rows are encoded.

    reach: the radius, in units of a usual row's norm; None where the user states a norm: columns are standardised.
    noise: of a share of the pooled records in the column profile; None encodes by bounds and categories alone.
    """

    reach: float | None = None
    noise: float | None = None


STANDARD = RowForm()
"""Columns with their true means and deviations, which no private encoding knows."""


@dataclass(frozen=True, eq=False)
class WorldTable:
    """A table: columns, cells, and labels of -1/+1, of mean 0 and deviation 1, or numbers of classes.

    signals: (rows, classes) linear models of the columns, of deviation 1, by which the labels were drawn.
    """

    columns: tuple[Column, ...]
    cells: tuple[Cells, ...] = field(repr=False)
    labels: Floats = field(repr=False)
    signals: Floats = field(repr=False)

    def scales(self, form: RowForm, blank: NDArray[np.bool_]) -> list[ColumnScale]:
        """Return how the columns are encoded in rows of this form."""
        if form.reach is None:
            return [_true_scale(column, cells) for column, cells in zip(self.columns, self.cells, strict=True)]
        if form.noise is None:
            return [column.usual_scale() for column in self.columns]
        counted, number = ProfileForm(self.columns), len(self.labels)
        noise_std = form.noise * number
        noise = noise_std * np.random.default_rng(_SEED).standard_normal(counted.size)
        profile = ReleasedProfile.of(counted, counted.counts(self.cells, blank) + noise, noise_std, number)
        return list(profile.scales(self.columns))


@lru_cache(maxsize=32)
def encoded(table: WorldTable, form: RowForm) -> Floats:
    """Return the encoded rows, of norm at most 1 and shared by candidates; their last feature is the constant."""
    blank = np.zeros(len(table.labels), dtype=bool)
    reach = _STANDARD_REACH if form.reach is None else form.reach
    encoding = RowEncoding.of(table.scales(form, blank), reach=reach, constant=CONSTANT)
    return dense(encoding.encode_cells(table.columns, table.cells, blank))


def shrunk(table: TableShape, width: int) -> TableShape:
    """Return a table of about the same kind whose rows have at most `width` features, each column at least one.

    >>> shrunk(TableShape(6, (7, 16, 7, 14, 6, 5, 2, 41)), 50)
    TableShape(n_numeric=2, categories=(19, 7, 6, 3, 3, 2, 2, 2), counts=94)
    """
    whole = table.n_numeric + sum(table.categories)
    if whole <= width:
        return table
    n_numeric = max(table.n_numeric * width // whole, min(table.n_numeric, 1))
    categories: list[int] = []
    for size in sorted(table.categories, reverse=True):
        left = width - n_numeric - sum(categories)
        if left >= 2:
            categories.append(min(max(size * width // whole, 2), left))
    return TableShape(n_numeric, tuple(categories))


@lru_cache(maxsize=16)
def draw(
    world: SyntheticWorld,
    table: TableShape,
    n_rows: int,
    kind: LabelKind,
    positive: float | None = None,
    n_classes: int = 1,
) -> WorldTable:
    """Draw a table of the world; the same whenever it is asked for. `positive`: the share of +1, if it is known."""
    rng = np.random.default_rng((_SEED, *world.name.encode()))
    number = table.n_numeric + len(table.categories)
    latent = _factors(n_rows, number, world, rng)
    columns: list[Column] = []
    cells, effects = [], np.empty((n_rows, number))
    for place in range(number):
        if place < table.n_numeric:
            values = _numbers(world.numbers[place % len(world.numbers)], latent[:, place], rng)
            columns.append(Numeric(f"number {place}", 0.0, 1.0))
            cells.append(_cells(np.zeros(n_rows, dtype=np.intp), values))
            effects[:, place] = np.clip((values - values.mean()) / max(values.std(), 1e-9), -_FAR, _FAR)
        else:
            size = table.categories[place - table.n_numeric]
            codes = _codes(size, latent[:, place], rng)
            columns.append(Categorical(f"category {place}", tuple(range(size))))
            cells.append(replace(_cells(codes, np.ones(n_rows)), is_category=True))
            effects[:, place] = rng.standard_normal(size)[codes]
    effects -= effects.mean(axis=0)
    signals = np.column_stack([_signal(effects, rng, world.direction) for _ in range(n_classes)])
    if kind is LabelKind.CLASSES:
        return WorldTable(tuple(columns), tuple(cells), _classes(world, signals, rng), signals)
    return WorldTable(tuple(columns), tuple(cells), _labels(world, signals[:, 0], kind, positive, rng), signals)


def _signal(effects: Floats, rng: np.random.Generator, direction: Direction) -> Floats:
    """Return a linear model of the columns, of deviation 1, few of whose coefficients are large."""
    number = effects.shape[1]
    coefficients = rng.standard_normal(number) * np.exp(-rng.permutation(number) / max(2.0, number / 8))
    if direction is not Direction.ANY:
        coefficients = _along(effects, coefficients, direction)
    signal = effects @ coefficients
    return np.asarray(signal / max(float(signal.std()), 1e-12))


def _along(effects: Floats, coefficients: Floats, direction: Direction) -> Floats:
    """Return coefficients bent towards the directions in which columns vary most together, or without these."""
    scales = np.maximum(effects.std(axis=0), 1e-9)
    values, axes = np.linalg.eigh((effects / scales).T @ (effects / scales) / len(effects))
    parts = axes.T @ (coefficients * scales)
    kept = values**_BENDING if direction is Direction.COMMON else values <= max(_MAIN, values[0])
    return np.asarray(axes @ (kept * parts) / scales)


def _classes(world: SyntheticWorld, signals: Floats, rng: np.random.Generator) -> Floats:
    """Return the numbers of classes, drawn by a softmax: the log-odds of any two of them spread as the world's do."""
    scores = world.log_odds / np.sqrt(2) * signals
    return np.asarray((scores + rng.gumbel(size=scores.shape)).argmax(axis=1), dtype=np.float64)


def _factors(n: int, d: int, world: SyntheticWorld, rng: np.random.Generator) -> Floats:
    """Standard normals with a few common factors, which explain the part `shared` of the variance."""
    rank, shared = world.factors or max(1, min(d // 3, _MOST_FACTORS)), world.shared
    loadings = rng.standard_normal((rank, d)) * (np.arange(1, rank + 1) ** -0.5)[:, None]
    common = rng.standard_normal((n, rank)) @ loadings
    common /= np.maximum(common.std(axis=0), 1e-9)
    return np.sqrt(shared) * common + np.sqrt(1 - shared) * rng.standard_normal((n, d))


def _numbers(kind: NumberKind, latent: Floats, rng: np.random.Generator) -> Floats:
    """Return numbers in [0, 1] that grow with the latent ones; the bounds are wider than the data, as such bounds are.

    The median of log-normal numbers is as far below 1 as 3 deviations of their logarithm.
    """
    if kind is NumberKind.BELL:
        return np.clip(rng.uniform(0.2, 0.6) + rng.uniform(0.05, 0.15) * latent, 0.0, 1.0)
    if kind is NumberKind.SCORES:
        return np.clip(0.5 + latent / 12, 0.0, 1.0)
    spread = rng.uniform(0.3, 1.0)
    if kind is NumberKind.SKEWED:
        return np.minimum(np.exp(spread * (latent - 3.0)), 1.0)
    gap = rng.uniform(0.0, 1.6)  # half to 95 % of the values are 0
    return np.where(latent > gap, np.minimum(np.exp(spread * (latent - gap - 2.0)), 1.0), 0.0)


def _codes(size: int, latent: Floats, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return categories with Zipf-like frequencies; which of them is frequent is drawn."""
    shares = rng.permutation(np.arange(1, size + 1) ** -1.2)
    return np.minimum(np.searchsorted(np.cumsum(shares / shares.sum()), ndtr(latent)), size - 1).astype(np.intp)


def _cells(codes: NDArray[np.intp], values: Floats) -> Cells:
    none = np.zeros(len(values), dtype=bool)
    return Cells(codes, values, none, none, none, none)


def _true_scale(column: Column, cells: Cells) -> ColumnScale:
    if isinstance(column, Numeric):
        return column.scale_at(float(cells.values.mean()), max(float(cells.values.std()), 1e-6))
    assert isinstance(column, Categorical)
    frequencies = np.bincount(cells.codes, minlength=len(column.categories)) / len(cells.codes)
    return column.scale_at(tuple(frequencies.tolist()))


def _labels(
    world: SyntheticWorld, signal: Floats, kind: LabelKind, positive: float | None, rng: np.random.Generator
) -> Floats:
    if kind is LabelKind.REALS:
        share = world.variance_share
        return np.asarray(np.sqrt(share) * signal + np.sqrt(1 - share) * rng.standard_normal(len(signal)))
    chances = positive_chances(world.log_odds * signal, world.positive if positive is None else positive)
    return np.where(rng.random(len(signal)) < chances, 1.0, -1.0)


def positive_chances(odds: Floats, positive: float) -> Floats:
    """Return the probabilities of +1 with these log-odds, shifted so that their mean is `positive`."""
    low, high = -100.0, 100.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if expit(odds + middle).mean() < positive else (low, middle)
    return np.asarray(expit(odds + high))
