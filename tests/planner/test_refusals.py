"""What the planner refuses: every row of tests/snapshots/refusals/planner.txt; nothing of it draws noise."""

from dataclasses import replace

import numpy as np
import pytest
from tests.planner.test_drafting import ENTRIES, KEY, SCHEMA
from tests.protections import changed
from tests.refusals import check_refusals

from dpadmm.core.task import Aim, TableShape
from dpadmm.federation.terms import Participant
from dpadmm.networks import ring
from dpadmm.noise.sampler import SecureSampler
from dpadmm.planner import Task, plan
from dpadmm.planner.drafting import draft, federation_terms
from dpadmm.planner.search import plan_search
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import NeighbouringRelation, Protection, Unit, View
from dpadmm.problems.losses import Huber, Logistic, Poisson, SmoothedHinge, Softmax, Squared
from dpadmm.problems.problem import EmpiricalRisk
from dpadmm.problems.regularisers import ElasticNet
from dpadmm.problems.silos import Silos
from dpadmm.testing import run_plan

ADDED = NeighbouringRelation.ADD_OR_REMOVE
SUMS, USERS = Protection(view=View.AGGREGATE), Protection(unit=Unit.USER, view=View.PUBLIC)
TARGET = Target(1.0, 1e-5)
PEOPLE = [Participant(name=f"s{i}", key=f"{i}" * 64, records=5000) for i in range(4)]


class Mute(SecureSampler):
    """A sampler that must not be asked."""

    def perturb(self, *_args, **_more):
        raise AssertionError("noise was drawn")


def task(**facts):
    return Task(**{"sizes": (40, 60), "dimension": 3, "loss": Logistic(), "target": TARGET} | facts)


def intervals(**facts):
    return task(**{"sizes": (20_000,), "dimension": 6, "table": TableShape(5), "aim": Aim.INFERENCE} | facts)


def candidates(**facts):
    return [task(regulariser=ElasticNet(l2=l2), **facts) for l2 in (1e-3, 1.0)]


def rows_of(sizes, dimension=3):
    rng = np.random.default_rng(0)
    tables = [rng.uniform(-0.5, 0.5, (n, dimension)) for n in sizes]
    return Silos.from_parts(tables, [np.where(rows[:, 0] > 0, 1.0, -1.0) for rows in tables], row_norm=1.0)


def carried_out(rows, sampler=Mute()):  # noqa: B008 - it has no state
    run_plan(plan(task()), rows, sampler, progress=False)


silos = rows_of((40, 60))


@pytest.mark.usefixtures("instant")
def test_refused(snapshot):
    check_refusals(snapshot, "planner", globals())
    with pytest.raises(AssertionError, match="drawn"):
        carried_out(silos)
