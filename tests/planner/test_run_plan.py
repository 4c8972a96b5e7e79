"""Carrying out: the ledger first, then noise, then data; and nothing unseen gets out."""

import numpy as np
import pandas as pd
import pytest
from tests.builders import with_rounds

from dpadmm.core.dataset import Dataset
from dpadmm.core.task import ProfileRule, TableShape
from dpadmm.data.columns import Categorical, Numeric, ThresholdLabel
from dpadmm.data.schema import Schema
from dpadmm.data.tables import screen_cells
from dpadmm.errors import InputError
from dpadmm.noise.sampler import SecureSampler, SimulatedSampler
from dpadmm.planner import Task, plan
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import Protection, View
from dpadmm.problems.losses import Logistic
from dpadmm.problems.regularisers import ElasticNet
from dpadmm.settings import CellRules
from dpadmm.testing import run_plan

SIZES = (80, 50, 40)


def made(**facts):
    facts = {"sizes": SIZES, "dimension": 3, "loss": Logistic(), "target": Target(1.0, 1e-5)} | facts
    short = plan(Task(**facts))
    return with_rounds(short, 6)


class Mute(SecureSampler):
    """A sampler that must not be asked."""

    def perturb(self, *_args, **_more):
        raise AssertionError("noise was drawn")


class TestProfiles:
    """A profile is counted only for the columns and silos that the plan pays for (C11)."""

    def raw(self, n_numeric=2, sizes=SIZES, own=None):
        rng = np.random.default_rng(0)
        names = [f"x{i}" for i in range(n_numeric)]
        schema = Schema((*(Numeric(name, -4, 4) for name in names), Categorical("c", (0, 1))), ThresholdLabel("y", 0))
        tables = [
            pd.DataFrame(rng.standard_normal((n, n_numeric)), columns=names).assign(
                c=rng.integers(0, 2, n), y=rng.standard_normal(n)
            )
            for n in sizes
        ]
        parts = [screen_cells(schema, table, "a silo", CellRules()) for table in tables]
        return Dataset(schema, parts, own=own)

    def planned(self, rows):
        table = TableShape.of(rows.form)
        made_ = made(dimension=rows.schema.dimension, table=table, profile=ProfileRule(share=0.1), sizes=rows.sizes)
        assert made_.profile is not None
        return made_

    def test_the_columns_planned_for(self):
        rows = self.raw()
        done = run_plan(self.planned(rows), rows, SimulatedSampler(seed=1), progress=False)
        assert done.profile is not None
        assert "C11" in done.account.theorems
        assert done.account.curve.epsilon(1e-5) <= 1.0

    @pytest.mark.parametrize("change", [{"n_numeric": 3}, {"sizes": (80, 50, 41)}])
    def test_without_a_profile_others_are_refused_before_anything_is_spent(self, monkeypatch, change):
        rows = self.raw()
        table, rule = TableShape.of(rows.form), ProfileRule(is_wanted=False)
        plan_ = made(dimension=rows.schema.dimension, table=table, profile=rule, sizes=rows.sizes)
        monkeypatch.setattr("dpadmm.core.train.open_release", lambda *_, **__: pytest.fail("reserved"))
        with pytest.raises(InputError, match="Plan again"):
            run_plan(plan_, self.raw(**change), SecureSampler(), progress=False)


@pytest.mark.parametrize(
    "facts",
    [{}, {"protection": Protection(view=View.PUBLIC)}, {"regulariser": ElasticNet(l1=0.01)}],
    ids=["peers", "public", "l1"],
)
def test_the_history_is_computed_from_released_messages_alone(make_silos, facts):
    """A sampler that returns noise in place of every value: the history must not be able to tell."""

    class Forget(SimulatedSampler):
        def perturb(self, values, releases, draw):
            return super().perturb(np.zeros_like(values), releases, draw)

    histories = []
    for seed in (0, 1):
        done = run_plan(made(**facts), make_silos(SIZES, seed=seed), Forget(5), progress=False)
        histories.append(done.runs()[0].history)
    assert histories[0] == histories[1]
    assert [row.round for row in histories[0]] == list(range(1, 7))
    assert all(row.noise_norm > 0 for row in histories[0])
    # Nothing but noise was sent, and the planned noise says how large that is.
    ratios = [norm / row.noise_norm for row in histories[0] for norm in row.norms]
    assert 0.5 < np.sqrt(np.mean(np.square(ratios))) < 1.5


@pytest.mark.parametrize("method", ["dvp", "m-admm", "r-admm"])
def test_noise_inside_an_objective_leaves_no_trace(make_silos, method):
    """The minimiser is broadcast, and the noise b is what its gradient lacks: ||b|| would be exact news of the data."""
    task = Task(sizes=(80, 50), dimension=1, loss=Logistic(), target=Target(1.0, 1e-5))
    drawn = []

    class Overheard(SimulatedSampler):
        def perturb(self, values, releases, draw):
            found = super().perturb(values, releases, draw)
            drawn.extend(np.abs(found).ravel().tolist())
            return found

    done = run_plan(plan(task, method=method), make_silos((80, 50), dimension=1), Overheard(5), progress=False)
    shown = [figure for row in done.runs()[0].history for figure in (*row.norms, row.movement, row.disagreement)]
    assert drawn
    assert not set(np.round(shown, 12)) & set(np.round(drawn, 12))
