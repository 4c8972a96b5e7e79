"""The product itself on the scoreboard: what the planner chooses by default, with nothing tuned on the data."""

import time
import warnings
from typing import Any

import numpy as np
import pandas as pd

from dpadmm.estimators import HopelessPlanWarning, PrivateLogisticRegression, SimulatedNoiseWarning
from dpadmm.papers.reproduction.figure import Order
from dpadmm.papers.reproduction.table import Reading, Rows, Table
from dpadmm.papers.scoreboard.entries import Sight
from dpadmm.papers.scoreboard.rows import (
    CERTIFIED_EPS,
    DELTA,
    EPSILONS,
    ERROR,
    PUBLIC,
    ROUND_COUNT,
    RUNS,
    SECONDS,
    TEST,
    TRAIN,
    Board,
    board,
)
from dpadmm.privacy.protection import View
from dpadmm.problems.arrays import Floats

FIRST_SEED = 20_000
"""Of noise that nothing was tuned on."""
VIEWS = {Sight.MESSAGES: View.EAVESDROPPER, Sight.RELEASE: View.PUBLIC}
METHOD = "planned: "
"""Before the name of the method that was planned."""


def planned_name(sight: Sight) -> str:
    """Return what the product's row is called in a view."""
    return f"dpadmm as planned, {sight.name.lower()}"


def compute_planned(sight: Sight, order: Order) -> Table:
    """Fit with epsilon, delta, public schema and view, nothing else; score it on the rows of all others."""
    data, runs = board(order), order.runs_of(RUNS)
    rows = Rows(data.train.label)
    for epsilon in order.pick(EPSILONS, EPSILONS[3:4]):
        facts: dict[str, Any] = {
            "panel": "", "curve": planned_name(sight), "reading": Reading.CERTIFIED, "epsilon": epsilon, "x": epsilon,
        }  # fmt: skip
        begin = time.process_time()
        models = [fitted(data, sight, epsilon, FIRST_SEED + order.seed + run) for run in range(runs)]
        seconds = (time.process_time() - begin) / runs
        train = np.array([right_chances(model, data.train_table, data.train.data.labels) for model in models])
        test = np.array([right_chances(model, data.test_table, data.test.data.labels) for model in models])
        rows.add(**facts, metric=TRAIN, values=-np.log(train).mean(axis=1))
        rows.add(**facts, metric=TEST, values=-np.log(test).mean(axis=1))
        rows.add(**facts, metric=ERROR, values=(test <= 0.5).mean(axis=1))
        plan = models[0].plan_  # made of public facts alone, so the same for all runs
        single = {CERTIFIED_EPS: models[0].privacy_.certified, ROUND_COUNT: plan.rounds, SECONDS: seconds}
        for metric, value in {**single, METHOD + plan.method: 1.0}.items():
            rows.fact(**facts, metric=metric, value=float(value))
    return rows.table()


def fitted(data: Board, sight: Sight, epsilon: float, seed: int) -> PrivateLogisticRegression:
    """Return a model of the training rows by the planner's defaults."""
    model = PrivateLogisticRegression(epsilon, DELTA, schema=PUBLIC, view=VIEWS[sight].value, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimulatedNoiseWarning)
        warnings.simplefilter("ignore", HopelessPlanWarning)
        return model.fit(data.train_table, data.train_table[PUBLIC.label.name], groups=data.silo_of_train)


def right_chances(model: PrivateLogisticRegression, table: pd.DataFrame, labels: Floats) -> Floats:
    """Return the probability that a model gives to the true label of every row."""
    positive = model.predict_proba(table)[:, 1]
    return np.where(labels > 0, positive, 1 - positive)
