"""The data of the comparison: four real sets as in the accuracy benchmark, and a synthetic one with heavy tails.

Every run trains on one part of the rows and is scored on the rest. Adult has one split, the others take five in turn.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from accuracy_sets import SETS, RealSet, column, schema_of, silo_fits
from dpadmm.data import BinaryLabel, Categorical, Numeric, Schema
from dpadmm.data.encoding import RowEncoding
from dpadmm.data.profile import ProfileForm, ReleasedProfile
from dpadmm.data.tables import screen_cells
from dpadmm.privacy.certificates.sums import column_profile
from dpadmm.privacy.curves import m_of
from dpadmm.privacy.protection import Protection
from dpadmm.settings import CellRules

DELTA = 1e-5
SPLITS = 5
PROFILE_PART = 0.1
"""Part of epsilon that buys the column profile for peers; the two guarantees are added up."""
HOPELESS = 0.08
"""Noise in a share of the records from which on a profile is not bought."""

_CLINIC, _SICK = "clinic", "sick"
HEAVY = Schema(
    (
        Numeric("charges", 0, 1_000_000),
        Numeric("stay", 0, 10_000),
        Numeric("balance", -100_000, 100_000),
        Numeric("shift", -1_000, 1_000),
        Numeric("age", 0, 120),
        Categorical("ward", tuple("ABCDE")),
        Categorical("code", tuple(range(12))),
    ),
    BinaryLabel(_SICK, positive=("yes",), negative=("no",)),
)


def read_heavy(rows: int = 12_000) -> pd.DataFrame:
    """Return numbers with heavy tails, far inside their public bounds, and categories of very different frequency."""
    rng = np.random.default_rng(71)
    charges, stay = np.exp(rng.normal(8.0, 1.5, rows)), rng.pareto(1.5, rows)
    balance, shift = 800 * rng.standard_t(2, rows), 3 * rng.standard_t(1.5, rows)
    age = rng.normal(50, 18, rows).clip(18, 100)
    ward = rng.choice(5, rows, p=[0.55, 0.25, 0.12, 0.06, 0.02])
    code = np.minimum(rng.geometric(0.35, rows) - 1, 11)
    score = (
        0.8 * (np.log(charges) - 8) + 0.9 * np.tanh(stay) - 0.7 * np.tanh(balance / 800) + 0.5 * np.tanh(shift / 3)
        + 0.03 * (age - 50) + np.array([-0.5, 0.0, 0.6, 1.0, -1.0])[ward] + 0.1 * (code - 2) - 1.2
    )  # fmt: skip
    sick = np.where(rng.random(rows) < 1 / (1 + np.exp(-score)), "yes", "no")
    numbers = {"charges": charges, "stay": stay, "balance": balance, "shift": shift, "age": age}
    clinic = rng.choice(list("vwxyz"), rows, p=[0.4, 0.25, 0.15, 0.12, 0.08])
    return pd.DataFrame(numbers | {"ward": np.array(list("ABCDE"))[ward], "code": code, _SICK: sick, _CLINIC: clinic})


def _heavy(title: str, read: Callable[[], pd.DataFrame]) -> RealSet:
    return RealSet(title, read, HEAVY, partial(column, name=_CLINIC), silo_fits)


ALL: Mapping[str, RealSet] = {
    "adult": SETS["adult"],
    "heart": SETS["heart"],
    "breast": SETS["breast"],
    "nist": SETS["nist"],
    "heavy": _heavy("Synthetic, heavy tails, 5 clinics", read_heavy),
    "toy": _heavy("Synthetic, 1,200 rows (smoke test)", partial(read_heavy, 1_200)),
}


@dataclass(frozen=True, eq=False)
class Loaded:
    """A data set in memory: the table, its public schema, every row's silo, and the training rows of every split."""

    title: str
    table: pd.DataFrame
    schema: Schema
    silo: NDArray[Any]
    train: tuple[NDArray[Any], ...]
    test: tuple[NDArray[Any], ...]
    positive: NDArray[np.bool_]

    def split_of(self, run: int) -> int:
        """Return which split a run takes."""
        return run % len(self.train)

    @property
    def tuning_runs(self) -> int:
        """How often settings are tried: with many records one run tells them apart."""
        return 1 if len(self.train[0]) > 5_000 else 4

    def features(self) -> NDArray[np.float64]:
        """Return numbers as they are and categories as indicators, one column each."""
        parts = []
        for each in self.schema.columns:
            cells = each.read(self.table[each.name])
            parts.append(np.eye(len(each.feature_names))[cells.codes] if cells.is_category else cells.values[:, None])
        return np.hstack(parts)

    def silo_numbers(self) -> NDArray[Any]:
        """Return every row's silo as a number."""
        return np.unique(self.silo, return_inverse=True)[1]


@cache
def load(name: str) -> Loaded:
    """Read a data set."""
    chosen = ALL[name]
    table = chosen.read().reset_index(drop=True)
    schema, silo = schema_of(chosen.known), chosen.silos(table)
    fits = [chosen.fits(silo, run)[-1] for run in range(chosen.splits("held-out"))]
    positive = schema.label.read(table[schema.label.name]).values > 0
    return Loaded(
        chosen.title,
        table,
        schema,
        silo,
        tuple(fit.train for fit in fits),
        tuple(fit.scored["held-out"] for fit in fits),
        positive,
    )


@dataclass(frozen=True)
class PublicRows:
    """How a peer's rows are encoded, and the budget that is left for its fit."""

    encoding: dict[str, Any] | None
    epsilon: float
    delta: float


def by_bounds(data: Loaded, epsilon: float) -> PublicRows:
    """Numbers to -1..1 by their public bounds, categories as indicators; free."""
    scales = [
        each.scale_at((each.lower + each.upper) / 2, (each.upper - each.lower) / 2)
        if isinstance(each, Numeric)
        else each.scale_by_bounds()
        for each in data.schema.columns
    ]
    made = RowEncoding.of(scales, clip_radius=1.0, constant=None)
    return PublicRows(_record(replace(made, radius=math.sqrt(len(scales)))), epsilon, DELTA)


@lru_cache(maxsize=1024)
def by_profile(data: Loaded, epsilon: float, split: int, seed: int, *, is_pooled: bool) -> PublicRows:
    """Encode by a column profile that is bought from the same budget; by the usual scales where it would be hopeless.

    is_pooled: one noise hides the counts of all silos together. The profile costs (epsilon/10, delta/2).
    """
    own, form = PROFILE_PART * epsilon, ProfileForm(tuple(data.schema.columns))
    train = data.train[split]
    bound = column_profile(
        n_numeric=form.n_numeric, n_categorical=form.n_categorical, n_records=len(train), protection=Protection()
    ).bound
    senders = 1 if is_pooled else len(np.unique(data.silo[train]))
    noise_std = bound / m_of(own, DELTA / 2) * math.sqrt(senders)
    clip_radius = 1.0 if epsilon <= 0.1 else 0.6
    if noise_std / len(train) > HOPELESS:
        return PublicRows(_record(data.schema.encoding(clip_radius)), epsilon, DELTA)
    cells = screen_cells(data.schema, data.table.iloc[train], "rows", CellRules(), is_labelled=False)
    noise = np.random.default_rng(seed).normal(0.0, noise_std, form.size)
    profile = ReleasedProfile.of(form, cells.counts(form) + noise, noise_std, len(train))
    return PublicRows(_record(data.schema.encoding(clip_radius, profile)), epsilon - own, DELTA / 2)


def _record(made: RowEncoding) -> dict[str, Any]:
    return {
        "centre": made.centre, "scale": made.scale, "lower": made.lower, "upper": made.upper, "radius": made.radius,
    }  # fmt: skip
