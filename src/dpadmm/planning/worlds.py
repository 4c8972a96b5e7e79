"""Synthetic worlds: public stand-ins for private tables of a given width.

Each world draws rows as the library's schemas encode them (numbers in [0, 1], one-hot categories, rows shortened to the
norm bound) or as standardised numbers, and labels from a linear model. The worlds differ in what no public fact tells:
how the features are correlated, how much of the label they explain, how rare the rarer class is. Few of
the model's coefficients are large.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
from scipy.special import expit, ndtr

from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import LabelKind, Loss


class Features(Enum):
    """How the columns of a world look."""

    CATEGORIES = "mostly one-hot categories, some numbers"
    MIXED = "as many numbers as categories"
    NUMBERS = "correlated numbers between 0 and 1"
    CENTRED = "standardised numbers"

    @property
    def power(self) -> float:
        """How far the label's model undoes the columns' different spreads: 1 wholly, 0 not at all."""
        return 0.0 if self in (Features.CATEGORIES, Features.MIXED) else 1.0


@dataclass(frozen=True)
class World:
    """One kind of table.

    features: how columns look. explained: part of the label's spread (classification: of the log-odds' spread against
    noise) that the features explain, as the standard deviation of the log-odds; for regression the share of variance.
    positive: share of the rarer class.
    """

    name: str
    features: Features
    log_odds: float
    variance_share: float
    positive: float


WORLDS: tuple[World, ...] = (
    World("census", Features.CATEGORIES, log_odds=2.2, variance_share=0.4, positive=0.25),
    World("clinic", Features.MIXED, log_odds=2.0, variance_share=0.5, positive=0.45),
    World("lab", Features.NUMBERS, log_odds=5.0, variance_share=0.8, positive=0.37),
    World("sensors", Features.CENTRED, log_odds=3.0, variance_share=0.6, positive=0.5),
)


@dataclass(frozen=True)
class Table:
    """Drawn rows and labels."""

    rows: Floats
    labels: Floats


def draw(world: World, n_rows: int, dimension: int, loss: Loss, rng: np.random.Generator) -> Table:
    """Return `n_rows` records of the world for this loss, rows of norm at most 1.

    Labels of a regression are scaled to the loss's own scale: most of them lie within its slope bound.
    """
    raw = _raw_rows(world.features, n_rows, dimension, rng)
    spread = raw.std(axis=0)
    # Numbers count by their own spread, categories more the commoner they are.
    standard = (raw - raw.mean(axis=0)) / np.where(spread > 1e-9, spread, 1.0) ** world.features.power
    coefficients = rng.standard_normal(dimension) * np.exp(-rng.permutation(dimension) / max(2.0, dimension / 8))
    signal = standard @ coefficients
    signal /= max(float(signal.std()), 1e-12)
    norms = np.maximum(np.linalg.norm(raw, axis=1, keepdims=True), 1e-12)
    rows = raw * np.minimum(1.0, 1.0 / norms)
    if loss.target is LabelKind.REALS:
        noise = rng.standard_normal(n_rows)
        share = world.variance_share
        labels = 0.5 * loss.slope_bound * (np.sqrt(share) * signal + np.sqrt(1 - share) * noise)
        return Table(rows, labels)
    from scipy.optimize import brentq  # slow to load, and a plan from the cache draws no world

    odds = world.log_odds * signal
    shift = brentq(lambda b: float(expit(odds + b).mean()) - world.positive, -60.0, 60.0)
    labels = np.where(rng.random(n_rows) < expit(odds + shift), 1.0, -1.0)
    return Table(rows, labels)


def _raw_rows(kind: Features, n: int, d: int, rng: np.random.Generator) -> Floats:
    if kind is Features.CENTRED:
        return _factors(n, d, rng) / np.sqrt(d)
    if kind is Features.NUMBERS:
        return _numbers(n, d, rng)
    n_numbers = min(d, max(1, round(d * (0.06 if kind is Features.CATEGORIES else 0.3))))
    width = 8 if kind is Features.CATEGORIES else 3
    return np.hstack([_numbers(n, n_numbers, rng), *_categories(n, d - n_numbers, width, rng)])


def _factors(n: int, d: int, rng: np.random.Generator) -> Floats:
    """Standard normals with a few common factors: half of the variance is shared."""
    rank = max(1, min(d // 3, 6))
    loadings = rng.standard_normal((rank, d)) * (np.arange(1, rank + 1) ** -0.5)[:, None]
    shared = rng.standard_normal((n, rank)) @ loadings
    shared /= np.maximum(shared.std(axis=0), 1e-9)
    return np.sqrt(0.6) * shared + np.sqrt(0.4) * rng.standard_normal((n, d))


def _numbers(n: int, d: int, rng: np.random.Generator) -> Floats:
    """Numbers in [0, 1] with public bounds that are wider than the data, as such bounds are."""
    centre, width = rng.uniform(0.1, 0.6, d), rng.uniform(0.08, 0.4, d)
    return np.asarray(np.clip(centre + width * (ndtr(_factors(n, d, rng)) - 0.5), 0.0, 1.0))


def _categories(n: int, d: int, width: int, rng: np.random.Generator) -> list[Floats]:
    """One-hot blocks of 2 to 2 width - 2 categories with Zipf-like shares."""
    blocks, left = [], d
    while left > 0:
        size = min(left, int(rng.integers(2, max(3, 2 * width - 1))))
        shares = np.arange(1, size + 1) ** -1.2
        picked = rng.choice(size, size=n, p=shares / shares.sum())
        blocks.append(np.eye(size)[picked])
        left -= size
    return blocks
