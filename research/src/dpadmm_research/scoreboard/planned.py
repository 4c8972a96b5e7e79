"""The product itself on the scoreboard: what the planner chooses by default, with nothing tuned on the data."""

import time
from typing import Any, NamedTuple

import numpy as np

from dpadmm.core.dataset import Dataset
from dpadmm.core.loop import Outcome
from dpadmm.core.task import TableShape, Task
from dpadmm.data.profile import ProfileForm
from dpadmm.data.tables import ScreenedCells, screen_cells
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.planner.planner import Plan, plan
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import Protection, View
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import Logistic, log_loss_of
from dpadmm.settings import CellRules
from dpadmm.testing import run_plan
from dpadmm_research.reproduction.figure import Order
from dpadmm_research.reproduction.table import Reading, Rows, Table
from dpadmm_research.scoreboard.entries import VIEWS
from dpadmm_research.scoreboard.rows import (
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
    AdultTables,
    board,
)

FIRST_SEED = 20_000
"""Of noise that nothing was tuned on."""
METHOD = "planned: "
"""Before the name of the method that was planned."""


def planned_name(view: View) -> str:
    """Return what the product's row is called in a view."""
    return f"dpadmm as planned, {VIEWS[view].name}"


class Read(NamedTuple):
    """The rows as they were read: those of every silo, of all silos, and the test rows."""

    silos: Dataset
    train: ScreenedCells
    test: ScreenedCells

    @classmethod
    def of(cls, data: AdultTables) -> "Read":
        """Read the cells once for all runs."""
        tables = [data.train_table, data.test_table]
        tables += [part for _, part in data.train_table.groupby(data.silo_of_train)]
        train, test, *parts = (screen_cells(PUBLIC, t, "Adult", CellRules()) for t in tables)
        return cls(Dataset(PUBLIC, parts), train, test)


def default_plan(sizes: tuple[int, ...], view: View, epsilon: float) -> Plan:
    """Return the plan for sizes, schema, view and budget, as an estimator or a federation gets it that says no more."""
    return plan(
        Task(
            sizes=sizes,
            dimension=PUBLIC.dimension,
            loss=Logistic(),
            target=Target(epsilon, DELTA),
            protection=Protection(view=view),
            row_norm=PUBLIC.row_norm,
            table=TableShape.of(ProfileForm(PUBLIC.columns)),
        )
    )


def compute_planned(view: View, order: Order) -> Table:
    """Plan and run for every budget, and score on the rows of all others."""
    data, runs = board(order), order.runs_of(RUNS)
    read, rows = Read.of(data), Rows(data.train.label)
    for epsilon in order.pick(EPSILONS, EPSILONS[3:4]):
        facts: dict[str, Any] = {
            "panel": "", "curve": planned_name(view), "reading": Reading.CERTIFIED, "epsilon": epsilon, "x": epsilon,
        }  # fmt: skip
        made = default_plan(read.silos.sizes, view, epsilon)
        begin = time.process_time()
        seeds = range(FIRST_SEED + order.seed, FIRST_SEED + order.seed + runs)
        done = [run_plan(made, read.silos, SimulatedSampler(seed), progress=False) for seed in seeds]
        seconds = (time.process_time() - begin) / runs
        train, test = (
            np.array([row_losses(made, outcome, cells) for outcome in done]) for cells in (read.train, read.test)
        )
        scores = {TRAIN: train.mean(axis=1), TEST: test.mean(axis=1), ERROR: (test >= np.log(2)).mean(axis=1)}
        for metric, values in scores.items():
            rows.add(**facts, metric=metric, values=values)
        cost = done[0].account.curve.epsilon(DELTA)
        single = {CERTIFIED_EPS: cost, ROUND_COUNT: made.rounds, SECONDS: seconds, METHOD + made.method: 1.0}
        for metric, value in single.items():
            rows.fact(**facts, metric=metric, value=float(value))
    return rows.table()


def row_losses(made: Plan, outcome: Outcome, cells: ScreenedCells) -> Floats:
    """Return -log of the probability that a model gives to the true label of every row, by its own loss's link."""
    loss, encoding = made.task.loss, outcome.encoding
    assert isinstance(loss, Logistic)
    assert encoding is not None
    return log_loss_of(loss, np.asarray(cells.rows(encoding) @ outcome.model), cells.labels)
