"""Twelve data sets, real and made, on which the planner's forecasts are held against fits: AUC from .6 to .99.

A run fits on four fifths of every silo and scores the rest, with another split in each of five runs. The signal that is
stated is what scikit-learn's logistic regression reaches on the same rows without privacy. The kinds of worlds behind
the forecasts were settled with these sets in view, by fits with other seeds.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from accuracy_sets import DELTA, FIRST_SEED, HELD_OUT, SETS, column, schema_of, silo_fits
from dpadmm import PrivateLogisticRegression, TrainingOptions
from dpadmm.data.columns import Categorical, Numeric, ThresholdLabel
from dpadmm.data.schema import Schema
from dpadmm.estimators import HopelessPlanWarning, SimulatedNoiseWarning
from dpadmm_research.datasets import adult, nist_acs

FORECAST = "forecast"
NON_PRIVATE, REACHED, LOW, HIGH = "without privacy", "reached", "low", "high"


def with_columns(known: Schema, *names: str) -> Schema:
    """Return the schema with some of its columns alone."""
    return replace(known, columns=tuple(each for each in known.columns if each.name in names))


def dealt(table: pd.DataFrame, number: int = 4) -> NDArray[Any]:
    """Deal rows to silos, one after the other: the rows of these sets are in no order."""
    return np.arange(len(table)) % number


def read_digits() -> pd.DataFrame:
    """Return handwritten digits, 64 grey values each; `digit` is 1 for odd ones."""
    pixels, digits = load_digits(return_X_y=True)
    return pd.DataFrame(pixels, columns=[f"pixel {i}" for i in range(64)]).assign(digit=digits % 2)


DIGITS = Schema(tuple(Numeric(f"pixel {i}", 0, 16) for i in range(64)), ThresholdLabel("digit", 0.5), row_norm=1.0)

DIABETES = Schema(
    (
        Numeric("age", 18, 100),
        Categorical("sex", (1, 2)),
        Numeric("bmi", 10, 60),
        Numeric("bp", 40, 200),
        Numeric("s1", 50, 400),
        Numeric("s2", 20, 300),
        Numeric("s3", 10, 120),
        Numeric("s4", 1, 12),
        Numeric("s5", 2, 8),
        Numeric("s6", 40, 200),
    ),
    ThresholdLabel("target", 140),
    row_norm=1.0,
)


def read_diabetes() -> pd.DataFrame:
    """Return 442 patients; `target` is the progression of diabetes after a year."""
    return load_diabetes(as_frame=True, scaled=False).frame


@dataclass(frozen=True)
class MadeTable:
    """A made table: correlated numbers, uniform categories, labels by log-odds of a deviation.

    relevant: how many numbers the log-odds depend on. curved: part of the log-odds that no linear model explains.
    """

    rows: int
    numbers: int
    categories: tuple[int, ...]
    deviation: float
    relevant: int
    shared: float
    share: float
    curved: float = 0.0
    seed: int = 0

    @property
    def schema(self) -> Schema:
        """Its columns, within bounds of six deviations."""
        columns = [Numeric(f"number {i}", -6, 6) for i in range(self.numbers)]
        kinds = [Categorical(f"kind {i}", tuple(range(size))) for i, size in enumerate(self.categories)]
        return Schema((*columns, *kinds), ThresholdLabel("label", 0.5), row_norm=1.0)

    def read(self) -> pd.DataFrame:
        """Draw it."""
        rng = np.random.default_rng(self.seed)
        common = rng.standard_normal((self.rows, 1)) * np.sqrt(self.shared)
        numbers = common + np.sqrt(1 - self.shared) * rng.standard_normal((self.rows, self.numbers))
        kinds = np.column_stack([np.zeros(self.rows, int), *(rng.integers(k, size=self.rows) for k in self.categories)])
        odds = numbers[:, : self.relevant] @ rng.standard_normal(self.relevant)
        for place, size in enumerate(self.categories, start=1):
            odds += 0.5 * rng.standard_normal(size)[kinds[:, place]]
        odds = (odds - odds.mean()) / odds.std()
        bent = numbers[:, 0] * numbers[:, 1]
        odds = self.deviation * (np.sqrt(1 - self.curved) * odds + np.sqrt(self.curved) * bent / bent.std())
        label = rng.random(self.rows) < expit(odds + np.log(self.share / (1 - self.share)))
        table = {f"number {i}": np.clip(numbers[:, i], -6, 6) for i in range(self.numbers)}
        table |= {f"kind {i}": kinds[:, i + 1] for i in range(len(self.categories))}
        return pd.DataFrame(table).assign(label=label.astype(int))


@dataclass(frozen=True)
class ForecastSet:
    """A data set: how it is read, its public schema, and the silo of each row."""

    title: str
    read: Callable[[], pd.DataFrame]
    known: Schema
    silos: Callable[[pd.DataFrame], NDArray[Any]] = dealt


def made(title: str, table: MadeTable) -> ForecastSet:
    """Return a made set."""
    return ForecastSet(title, table.read, table.schema)


def real(name: str, title: str) -> ForecastSet:
    """Return a set of the accuracy benchmark."""
    return ForecastSet(title, SETS[name].read, SETS[name].known, SETS[name].silos if name != "adult" else dealt)


FORECAST_SETS = {
    "adult": real("adult", "Adult"),
    "adult-few": ForecastSet(
        "Adult, by work class, race and country alone",
        adult.read_adult,
        with_columns(adult.SCHEMA, "workclass", "fnlwgt", "race", "native-country"),
    ),
    "heart": real("heart", "Heart disease, 4 hospitals"),
    "nist": real("nist", "NIST ACS, 20 regions"),
    "nist-few": ForecastSet(
        "NIST ACS, by sex, origin and marital status alone",
        nist_acs.read_nist_acs,
        with_columns(nist_acs.SCHEMA, "SEX", "MSP", "HISP", "RAC1P", "HOUSING_TYPE"),
        partial(column, name=nist_acs.REGION),
    ),
    "breast": real("breast", "Breast cancer, 4 hospitals"),
    "digits": ForecastSet("Digits, odd or even", read_digits, DIGITS),
    "diabetes": ForecastSet("Diabetes, progression above 140", read_diabetes, DIABETES),
    "made-weak": made("Made, 6,000 rows, 12 numbers", MadeTable(6000, 12, (), 0.4, 4, 0.2, 0.3)),
    "made-rare": made("Made, 12,000 rows, 1 in 10 positive", MadeTable(12000, 15, (3, 8), 0.9, 5, 0.3, 0.1)),
    "made-curved": made("Made, 3,000 rows, no linear truth", MadeTable(3000, 8, (4,), 2.0, 8, 0.5, 0.5, 0.5)),
    "made-strong": made("Made, 2,500 rows, 20 numbers", MadeTable(2500, 20, (2, 2), 4.0, 10, 0.6, 0.4)),
}


@lru_cache(maxsize=2)
def _loaded(name: str) -> tuple[pd.DataFrame, NDArray[Any], Schema]:
    chosen = FORECAST_SETS[name]
    table = chosen.read().reset_index(drop=True)
    return table, chosen.silos(table), schema_of(chosen.known)


def without_privacy(schema: Schema, table: pd.DataFrame, positive: NDArray[np.bool_], train: Any, test: Any) -> float:
    """Return the AUC on held-out rows of scikit-learn's logistic regression."""
    numbers = [each.name for each in schema.columns if isinstance(each, Numeric)]
    kinds = [each.name for each in schema.columns if not isinstance(each, Numeric)]
    encoder = make_column_transformer((StandardScaler(), numbers), (OneHotEncoder(handle_unknown="ignore"), kinds))
    model = make_pipeline(encoder, LogisticRegression(max_iter=2000))
    features = table.assign(**{name: table[name].astype(float) for name in numbers})
    model.fit(features.iloc[train], positive[train])
    return float(roc_auc_score(positive[test], model.decision_function(features.iloc[test])))


def measure_forecast(name: str, _: str, epsilon: float, run: int) -> dict[str, float]:
    """Fit with the planner's defaults and simulated noise; return the held-out AUC and what was forecast for it."""
    table, silo, schema = _loaded(name)
    labels = table[schema.label.name]
    positive = schema.label.read(labels).values > 0
    train, scored = silo_fits(silo, run)[1]
    test = scored[HELD_OUT]
    stated = without_privacy(schema, table, positive, train, test)
    model = PrivateLogisticRegression(
        epsilon,
        DELTA,
        schema=schema,
        random_state=FIRST_SEED + run,
        training=TrainingOptions(expected_auc=min(round(stated, 3), 0.999)),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimulatedNoiseWarning)
        warnings.simplefilter("ignore", HopelessPlanWarning)
        model.fit(table.iloc[train], labels.iloc[train], groups=silo[train])
    reached = float(roc_auc_score(positive[test], model.decision_function(table.iloc[test])))
    expected = model.plan_.expected.judged
    return {NON_PRIVATE: stated, REACHED: reached, LOW: expected.low, HIGH: expected.high}


def is_within(found: dict[str, float]) -> bool:
    """Return whether the AUC that was reached lies within the printed range."""
    return found[LOW] <= found[REACHED] <= found[HIGH]
