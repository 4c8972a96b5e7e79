"""Real data sets for the accuracy benchmark: tables, silos, public schemas, which rows are trained on and scored.

The schemas hold what the world tells, bounds and categories, and for the rest what a draft of `dpadmm schema init`
says: what a user gets who types nothing else.

Adult is split once, 70 % for training, dealt at random to five silos. The other sets have silos of their own. Each of
their runs fits twice: on all records, scored on the same ones, as the documents do; and on four fifths of every silo,
scored on the rest, with five splits in turn. Splits and silos depend on no seed of the noise.
"""

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import log_loss

from dpadmm import Privacy, PrivateLogisticRegression
from dpadmm.core import train as one_fit
from dpadmm.data import examples
from dpadmm.data.draft import ColumnType, draft_schema
from dpadmm.data.partition import Rows, iid
from dpadmm.data.schema import Schema
from dpadmm.estimators import HopelessPlanWarning, SimulatedNoiseWarning
from dpadmm_research.datasets import adult, heart, nist_acs
from dpadmm_research.datasets.splits import split

DELTA = 1e-5
FIRST_SEED = 9000
"""Seeds from here on are for this benchmark alone: nothing may be tuned on them."""
SPLITS = 5
TRAINING, HELD_OUT = "training", "held-out"
LOSS, ACCURACY, RISK = "log-loss", "accuracy", "mean risk / base rate"
METRICS = tuple(f"{rows} {score}" for rows in (TRAINING, HELD_OUT) for score in (LOSS, ACCURACY, RISK))


@dataclass(frozen=True)
class Trust:
    """Who is trusted: what a fit is asked for, and whether its rows are in silos at all."""

    parameters: dict[str, Any]
    has_silos: bool = True


EAVESDROPPER, PUBLIC, ALONE = "nobody, no masks", "the coordinator", "one silo has all records"
UNWATCHED, MASKED = "masks, no silo looks (t = 0)", "masks, one silo may look (t = 1)"
TRUST = {
    EAVESDROPPER: Trust({}),
    PUBLIC: Trust({"view": "public"}),
    ALONE: Trust({}, has_silos=False),
    UNWATCHED: Trust({"view": "aggregate", "privacy": Privacy(colluders=0)}),
    MASKED: Trust({"view": "aggregate", "privacy": Privacy(colluders=1)}),
}
"""By whom they trust; what is fitted is the same."""


class Fit(NamedTuple):
    """Rows to train on, and rows to score, by what they are called."""

    train: Rows
    scored: dict[str, Rows]


def adult_fits(groups: NDArray[Any], run: int) -> list[Fit]:
    """Train on 70 % of Adult, score these and the rest; the same for all runs."""
    train, test = split(len(groups), np.random.default_rng(0))
    return [Fit(train, {TRAINING: train, HELD_OUT: test})]


def silo_fits(groups: NDArray[Any], run: int) -> list[Fit]:
    """Train on all records and score them; train on four fifths of every silo and score the rest."""
    rng = np.random.default_rng(run % SPLITS)
    shuffled = [rng.permutation(np.flatnonzero(groups == name)) for name in np.unique(groups)]
    train, test = (
        np.sort(np.concatenate([part(rows, len(rows) * 4 // 5) for rows in shuffled]))
        for part in (lambda rows, cut: rows[:cut], lambda rows, cut: rows[cut:])
    )
    everything = np.arange(len(groups))
    return [Fit(everything, {TRAINING: everything}), Fit(train, {HELD_OUT: test})]


def five_silos(table: pd.DataFrame) -> NDArray[Any]:
    """Deal Adult's training rows to five silos; the other rows are in none."""
    train, _ = split(len(table), np.random.default_rng(0))
    silo = np.full(len(table), -1)
    for number, rows in enumerate(iid(len(train), 5, np.random.default_rng(1))):
        silo[train[rows]] = number
    return silo


def column(table: pd.DataFrame, name: str) -> NDArray[Any]:
    """Return the silo of every row, by its name."""
    return table[name].to_numpy(dtype=str)


@dataclass(frozen=True)
class RealSet:
    """A data set: how its table is read, what is known of it, whose rows they are, and what is fitted in a run."""

    title: str
    read: Callable[[], pd.DataFrame]
    known: Schema
    silos: Callable[[pd.DataFrame], NDArray[Any]]
    fits: Callable[[NDArray[Any], int], list[Fit]]

    def splits(self, metric: str) -> int:
        """Return how many different sets of rows the runs take in turn for a score."""
        return SPLITS if self.fits is silo_fits and metric.startswith(HELD_OUT) else 1


SETS = {
    "adult": RealSet("Adult, 5 silos", adult.read_adult, adult.SCHEMA, five_silos, adult_fits),
    "breast": RealSet(
        "Breast cancer, 4 hospitals",
        examples.read_breast_cancer,
        examples.BREAST_CANCER_SCHEMA,
        partial(column, name="hospital"),
        silo_fits,
    ),
    "heart": RealSet(
        "Heart disease, 4 hospitals", heart.read_heart, heart.SCHEMA, partial(column, name="hospital"), silo_fits
    ),
    "nist": RealSet(
        "NIST ACS, 20 regions, income > 50,000",
        nist_acs.read_nist_acs,
        nist_acs.SCHEMA,
        partial(column, name=nist_acs.REGION),
        silo_fits,
    ),
}


def schema_of(known: Schema) -> Schema:
    """Return columns and label as they are known, and everything else as a draft has it."""
    types = dict.fromkeys((*known.column_names, known.label.name), ColumnType.NUMBER)
    stated = json.loads(known.to_json())
    record = draft_schema(types, known.label.name) | {key: stated[key] for key in ("columns", "label")}
    return Schema.from_json(json.dumps(record))


@lru_cache(maxsize=1)
def _loaded(name: str) -> tuple[pd.DataFrame, NDArray[Any]]:
    table = SETS[name].read().reset_index(drop=True)
    return table, SETS[name].silos(table)


_planned = lru_cache(maxsize=16)(one_fit.make_plan)


def measure(name: str, trust: str, epsilon: float, run: int) -> dict[str, float]:
    """Fit with the planner's defaults and simulated noise; return the scores, by the names in METRICS.

    A plan is a function of public facts alone, so runs that differ in their noise share it.
    """
    one_fit.make_plan = _planned
    (table, silo), chosen = _loaded(name), SETS[name]
    schema = schema_of(chosen.known)
    labels, found = table[schema.label.name], {}
    positive = schema.label.read(labels).values > 0
    for train, scored in chosen.fits(silo, run):
        asked = {"schema": schema, "random_state": FIRST_SEED + run} | TRUST[trust].parameters
        model = PrivateLogisticRegression(epsilon, DELTA, **asked)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SimulatedNoiseWarning)
            warnings.simplefilter("ignore", HopelessPlanWarning)  # the planner warns at the smallest budgets
            model.fit(table.iloc[train], labels.iloc[train], groups=silo[train] if TRUST[trust].has_silos else None)
        for called, rows in scored.items():
            risk = model.predict_proba(table.iloc[rows])[:, 1]
            found[f"{called} {LOSS}"] = float(log_loss(positive[rows], risk))
            found[f"{called} {ACCURACY}"] = model.score(table.iloc[rows], labels.iloc[rows])
            found[f"{called} {RISK}"] = float(risk.mean() / positive[rows].mean())
    return found
