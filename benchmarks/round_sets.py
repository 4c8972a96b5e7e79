"""Few preconditioned rounds beside the usual ones, with the same seeds: on arrays without a column profile, and on real
tables, whose rows a profile has scaled. What is compared is the loss on rows that were not trained on.
"""

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from accuracy_sets import DELTA, FIRST_SEED, HELD_OUT, SETS, schema_of
from dpadmm import PrivateLogisticRegression, TrainingOptions
from dpadmm.core import train as one_fit
from dpadmm.estimators import SimulatedNoiseWarning
from dpadmm.privacy.curves import m_of

RECORDS, SCORED, SPREAD = 100_000, 30_000, 1.8  # of arrays; deviation of their log-odds
ROUNDS, USUAL, FEW, CLEARANCE = "rounds", "usual", "few", "clearance"
USUAL_SECONDS, FEW_SECONDS = "usual seconds", "few seconds"
CLEAR = 250.0  # from which on the planner takes few rounds
METHODS = {
    USUAL: ("noisy-gradients", "p-admm"),
    FEW: ("noisy-gradients-preconditioned", "dp-gd-preconditioned"),
}
"""Those of one silo, and of several where nobody is trusted."""


class Rows(NamedTuple):
    """Rows, their labels, the silo of each and how likely it is to be positive; which are trained on, which scored."""

    X: NDArray[np.float64] | pd.DataFrame
    y: NDArray[np.int_] | pd.Series
    silo: NDArray[np.int_]
    chance: NDArray[np.float64]
    train: NDArray[np.int_]
    scored: NDArray[np.int_]


@dataclass(frozen=True)
class RoundSet:
    """Rows by their number of a split, and whether all are in one silo. aim: of the difference at epsilon 1."""

    title: str
    rows: Callable[[int], Rows]
    is_one_silo: bool
    aim: float = 0.005


def isotropic(split: int) -> Rows:
    """Return rows in all directions of 100 columns."""
    rng = np.random.default_rng(1)
    return _array(rng.standard_normal((RECORDS + SCORED, 100)), rng.standard_normal(100))


def correlated(split: int) -> Rows:
    """Return 50 columns of ten factors and a little noise, and labels that depend on their differences."""
    rng = np.random.default_rng(2)
    factors = np.geomspace(1, 0.1, 10)[:, None] * rng.standard_normal((10, 50))
    X = rng.standard_normal((RECORDS + SCORED, 10)) @ factors + 0.3 * rng.standard_normal((RECORDS + SCORED, 50))
    values, vectors = np.linalg.eigh(X.T @ X / len(X))
    return _array(X, vectors @ (vectors.T @ rng.standard_normal(50) / np.sqrt(values)))


def _array(X: NDArray[np.float64], coefficients: NDArray[np.float64]) -> Rows:
    """Return rows of norm 1, whose labels follow a linear model of them."""
    X = X / (1.000001 * np.linalg.norm(X, axis=1, keepdims=True))
    odds, places = X @ coefficients, np.arange(len(X))
    chance = expit(SPREAD * odds / odds.std())
    y = (np.random.default_rng(3).random(len(X)) < chance).astype(int)
    return Rows(X, y, places % 5, chance, places[:RECORDS], places[RECORDS:])


def real(name: str, split: int) -> Rows:
    """Return a set of the accuracy benchmark, split as there."""
    chosen = SETS[name]
    table = chosen.read().reset_index(drop=True)
    fit = next(each for each in chosen.fits(chosen.silos(table), split) if HELD_OUT in each.scored)
    schema = schema_of(chosen.known)
    positive = (schema.label.read(table[schema.label.name]).values > 0).astype(np.float64)
    return Rows(table, table[schema.label.name], chosen.silos(table), positive, fit.train, fit.scored[HELD_OUT])


ROUND_SETS = {
    f"{name}, {'one silo' if is_one else 'silos'}": RoundSet(name, rows, is_one, aim if is_one else 0.005)
    for name, rows, aim in (
        ("isotropic", isotropic, 0.005),
        ("correlated", correlated, -0.03),
        ("adult", partial(real, "adult"), 0.005),
        ("nist", partial(real, "nist"), 0.005),
    )
    for is_one in (True, False)
}

_rows = lru_cache(maxsize=2)(lambda name, split: ROUND_SETS[name].rows(split))
_planned = lru_cache(maxsize=32)(one_fit.make_plan)


def measure_rounds(name: str, epsilon: float, run: int) -> dict[str, float]:
    """Fit by both, with the same seed; return their losses on other rows, and the processor time of their fits."""
    one_fit.make_plan, chosen = _planned, ROUND_SETS[name]
    rows, found = _rows(name, run % 5), {}
    asked = {"schema": schema_of(SETS[chosen.title].known)} if chosen.title in SETS else {}
    if not asked:
        asked = {"training": TrainingOptions(row_norm=1.0, profile="off"), "classes": (0, 1)}
    for kind, seconds in ((USUAL, USUAL_SECONDS), (FEW, FEW_SECONDS)):
        method = METHODS[kind][not chosen.is_one_silo]
        model = PrivateLogisticRegression(epsilon, DELTA, method=method, random_state=FIRST_SEED + run, **asked)
        X, scored = (rows.X.iloc if chosen.title in SETS else rows.X)[rows.train], rows.scored
        y = np.asarray(rows.y)[rows.train]
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SimulatedNoiseWarning)
            model.fit(X, y, groups=None if chosen.is_one_silo else rows.silo[rows.train])
        found[seconds] = time.process_time() - begin
        sources = 1 if chosen.is_one_silo else model.plan_.task.n_silos
        found[CLEARANCE] = len(y) * m_of(epsilon, DELTA) / math.sqrt(sources * model.plan_.task.dimension)
        risk = model.predict_proba((rows.X.iloc if chosen.title in SETS else rows.X)[scored])[:, 1]
        chance = rows.chance[scored]
        found[kind] = float(-np.mean(chance * np.log(risk) + (1 - chance) * np.log1p(-risk)))
    return found
