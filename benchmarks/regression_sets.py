"""Sets with a number as target: real ones with public bounds, and synthetic ones of known signals.

Every run trains on four fifths of the rows and is scored on the rest; splits depend on the run alone.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpadmm import PrivateLinearRegression
from dpadmm.core import train as one_fit
from dpadmm.data.columns import BinaryLabel, Categorical, Numeric, RealLabel
from dpadmm.data.schema import Schema
from dpadmm.estimators import HopelessPlanWarning, SimulatedNoiseWarning
from dpadmm_research.datasets import adult, nist_acs

DELTA = 1e-5
FIRST_SEED = 9000
"""Seeds from here on are for this benchmark alone: nothing may be tuned on them."""
SPLITS = 5
SIDE = 5.0  # public bounds of synthetic numbers, in their standard deviations


@dataclass(frozen=True)
class RegressionSet:
    """A data set: how its table is read, and what is publicly known of it."""

    title: str
    read: Callable[[], pd.DataFrame]
    known: Schema


def _synthetic_schema(width: int) -> Schema:
    columns = tuple(Numeric(f"x{number}", -SIDE, SIDE) for number in range(width))
    return Schema(columns, RealLabel("y", -SIDE, SIDE))


def read_synthetic(rows: int, width: int, share: float) -> pd.DataFrame:
    """Return normal columns of correlation .7, and a target of deviation 1 of which they explain this share."""
    rng = np.random.default_rng((rows, width, round(100 * share)))
    X = np.sqrt(0.7) * rng.standard_normal((rows, 1)) + np.sqrt(0.3) * rng.standard_normal((rows, width))
    signal = X @ rng.standard_normal(width)
    y = np.sqrt(share) * signal / signal.std() + np.sqrt(1 - share) * rng.standard_normal(rows)
    return pd.DataFrame(X, columns=[f"x{number}" for number in range(width)]).assign(y=y)


def _synthetic(rows: int, width: int, share: float) -> RegressionSet:
    title = f"Synthetic, {rows} rows, {width} columns, R2 {share:g}"
    return RegressionSet(title, partial(read_synthetic, rows, width, share), _synthetic_schema(width))


def _adult_schema(target: str) -> Schema:
    """Return Adult's columns with this number as the target, and income as a column."""
    income = adult.SCHEMA.label
    assert isinstance(income, BinaryLabel)
    found = next(each for each in adult.SCHEMA.columns if each.name == target)
    assert isinstance(found, Numeric)
    columns = (*(each for each in adult.SCHEMA.columns if each is not found), Categorical(income.name, (0, 1)))
    return replace(adult.SCHEMA, columns=columns, label=RealLabel(target, found.lower, found.upper))


def read_adult() -> pd.DataFrame:
    """Return Adult, income as 0 and 1."""
    table = adult.read_adult()
    return table.assign(**{adult.SCHEMA.label.name: (adult.SCHEMA.label.read(table["income"]).values > 0).astype(int)})


def read_diabetes() -> pd.DataFrame:
    """Return scikit-learn's diabetes set in its own units."""
    from sklearn.datasets import load_diabetes

    return load_diabetes(as_frame=True, scaled=False).frame.astype({"sex": int})


DIABETES = Schema(
    (
        Numeric("age", 18, 90), Categorical("sex", (1, 2)), Numeric("bmi", 15, 50), Numeric("bp", 50, 150),
        Numeric("s1", 80, 350), Numeric("s2", 30, 300), Numeric("s3", 15, 120), Numeric("s4", 1, 12),
        Numeric("s5", 3, 7), Numeric("s6", 50, 150),
    ),
    RealLabel("target", 0, 350),
)  # fmt: skip

ACS = replace(nist_acs.SCHEMA, label=RealLabel(nist_acs.INCOME, 0, 200_000))

SETS: Mapping[str, RegressionSet] = {
    "strong": _synthetic(10_000, 10, 0.97),
    "strong-small": _synthetic(2_000, 10, 0.97),
    "moderate": _synthetic(10_000, 10, 0.5),
    "weak": _synthetic(10_000, 10, 0.1),
    "diabetes": RegressionSet("Diabetes, 442 rows", read_diabetes, DIABETES),
    "income": RegressionSet("NIST ACS, income up to 200,000", nist_acs.read_nist_acs, ACS),
    "hours": RegressionSet("Adult, hours a week", read_adult, _adult_schema("hours-per-week")),
    "age": RegressionSet("Adult, age", read_adult, _adult_schema("age")),
}


class Split(NamedTuple):
    """Rows to train on, and rows to score."""

    train: NDArray[np.intp]
    test: NDArray[np.intp]


def split(rows: int, run: int) -> Split:
    """Return the split of a run: four fifths and the rest."""
    order = np.random.default_rng(run % SPLITS).permutation(rows)
    return Split(order[: rows * 4 // 5], order[rows * 4 // 5 :])


@cache
def loaded(name: str) -> pd.DataFrame:
    """Return the table of a set."""
    return SETS[name].read().reset_index(drop=True)


_planned = cache(one_fit.make_plan)


def measure_regression(name: str, epsilon: float, run: int) -> float:
    """Fit with the planner's defaults and simulated noise; return the held-out R^2."""
    one_fit.make_plan = _planned
    table, known = loaded(name), SETS[name].known
    rows, label = split(len(table), run), known.label.name
    model = PrivateLinearRegression(epsilon, DELTA, schema=known, random_state=FIRST_SEED + run)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimulatedNoiseWarning)
        warnings.simplefilter("ignore", HopelessPlanWarning)  # the planner warns at the smallest budgets
        model.fit(table.iloc[rows.train], table[label].iloc[rows.train])
    return model.score(table.iloc[rows.test], table[label].iloc[rows.test])
