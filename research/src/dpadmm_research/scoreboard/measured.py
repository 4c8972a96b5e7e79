"""The parts of the Adult scoreboard: one method each, and the models that it is compared with."""

import time
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from dpadmm.problems.arrays import Floats
from dpadmm_research.comparison.adult import AdultData
from dpadmm_research.reproduction.figure import Order
from dpadmm_research.reproduction.table import Reading, Rows, Table
from dpadmm_research.scoreboard.entries import ENTRIES
from dpadmm_research.scoreboard.method_run import MethodRun
from dpadmm_research.scoreboard.rows import CERTIFIED_EPS, EPSILONS, ERROR, RUNS, SECONDS, TEST, TRAIN, board

IS_TAIL = "tail average"
BARE = "non-private"
AT_LIMIT = "limit: "
"""Before the name of a number that was chosen: 1 or -1 where the search could not go on above or below it."""


def compute(number: int, order: Order) -> Table:
    """One method: search settings for each budget, then run with fresh noise."""
    data = board(order)
    method_run = MethodRun(ENTRIES[number], data, order)
    rows = Rows(data.train.label)
    for epsilon, choice in method_run.tuned(order.pick(EPSILONS, EPSILONS[3:4])).items():
        begin = time.process_time()
        batch = method_run.run(choice.values, choice.rounds, [epsilon], order.runs_of(RUNS), order.seed)
        seconds = (time.process_time() - begin) / order.runs_of(RUNS)
        if batch is None:
            continue
        model = batch.run.tail_average if choice.is_tail else batch.run.estimate
        facts: dict[str, Any] = {
            "panel": method_run.entry.panel, "curve": method_run.entry.name,
            "reading": Reading.CERTIFIED, "epsilon": epsilon,
            "x": epsilon,
        }  # fmt: skip
        for metric, values in _scores(data.train, data.test, model).items():
            rows.add(**facts, metric=metric, values=values)
        single = {CERTIFIED_EPS: method_run.cost(batch.trials[0].plan), IS_TAIL: choice.is_tail, SECONDS: seconds}
        single |= method_run.numbers(choice) | {
            AT_LIMIT + name: side for name, side in method_run.limits(choice).items()
        }
        for metric, value in single.items():
            rows.fact(**facts, metric=metric, value=float(value))
    return rows.table()


def _scores(train: AdultData, test: AdultData, model: Floats) -> dict[str, Floats]:
    return {TRAIN: train.loss(model), TEST: test.loss(model), ERROR: test.error(model)}


def compute_reference(order: Order) -> Table:
    """The model with the least training loss, and the model 0."""
    data = board(order)
    best = optimum(data.train)
    rows = Rows(data.train.label)
    for curve, model in ((BARE, best), ("the model 0", np.zeros_like(best))):
        for epsilon in order.pick(EPSILONS, EPSILONS[3:4]):
            for metric, values in _scores(data.train, data.test, model[:, None]).items():
                rows.fact(
                    panel="", curve=curve, reading=Reading.NON_PRIVATE, epsilon=float("inf"), x=epsilon, metric=metric,
                    value=float(values[0]),
                )  # fmt: skip
    return rows.table()


def optimum(train: AdultData) -> Floats:
    """Return the model with the least training loss, without ridge and without noise."""
    features, labels = train.data.features, train.data.labels

    def loss(model: Floats) -> tuple[float, Floats]:
        margins = labels * (features @ model)
        slopes = -labels * expit(-margins)
        return float(np.logaddexp(0.0, -margins).mean()), np.asarray(features.T @ slopes) / len(labels)

    start = np.zeros(train.data.dimension)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 5000, "gtol": 1e-7})
    return np.asarray(found.x)
