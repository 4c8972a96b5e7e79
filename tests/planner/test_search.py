"""Searches are planned from public facts: the budget adds up, a shortlist has no doubles, what cannot be is refused."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dpadmm.core.task import TableShape, Task
from dpadmm.planner.planner import plan
from dpadmm.planner.search import plan_search, score_bound_of, score_share, shortlist
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.curves import m_of
from dpadmm.privacy.protection import Protection, Unit, View
from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge
from dpadmm.problems.regularisers import ElasticNet

TARGET = Target(1.0, 1e-5)


def tasks(n=20_000, alphas=(1e-5, 1e-3, 1.0), sizes=None, table=None, **facts):
    task = Task(sizes=sizes or (n,), dimension=6, loss=Logistic(), target=TARGET, table=table, **facts)
    return [replace(task, regulariser=ElasticNet(l2=alpha)) for alpha in alphas]


def planned(some, **options):
    return plan_search(some, [None] * len(some), "run", **options)


@pytest.mark.parametrize(
    ("sizes", "protection"),
    [
        ((20_000,), Protection()),
        ((8000, 12_000), Protection(view=View.PUBLIC)),
        ((8000, 6000, 6000), Protection(view=View.AGGREGATE, colluders=1)),
        ((10_000, 10_000), Protection()),
    ],
)
@pytest.mark.usefixtures("instant")
def test_the_budget_is_spent_and_not_exceeded(sizes, protection):
    """m^2 of the profile, of the scores and of all trainings add up to that of the target."""
    table = TableShape(2, (3,))
    found = planned(tasks(sizes=sizes, protection=protection, table=table), compared=3)
    assert len(found.trained) == 3
    assert found.profile is not None
    found.check()
    said = found.spec.noise_plan(is_secure=False).account().curve
    assert said.epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)
    assert said.epsilon(1e-5) <= 1.0 + 1e-9
    parts = [m_of(each.epsilon, each.delta) for each in (found.profile.target, found.scores)]
    each = [m_of(run_spec.target.epsilon, 1e-5) for run_spec in found.spec.runs]
    total = math.fsum(m**2 for m in (*parts, *each))
    assert math.sqrt(total) == pytest.approx(m_of(1.0, 1e-5), rel=1e-6)


def test_few_records_are_left_to_simulations():
    found = planned(tasks(n=300))
    assert found.scores is None
    assert len(found.trained) == 1
    assert found.best.whole == TARGET
    assert found.best.spec.account().curve.epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)
    assert found.simulated[found.trained[0]] == max(found.simulated)


def test_many_records_are_asked():
    found = planned(tasks(alphas=(1e-5, 1.0)))
    assert len(found.trained) == 2
    assert found.spec.sums[-1].score_bound == score_bound_of(Logistic()) == 0.5
    assert found.trained[0] == int(np.argmax(found.simulated))


@pytest.mark.usefixtures("instant")
def test_one_may_be_asked_for_whatever_there_is():
    assert planned(tasks(), compared=1).scores is None
    assert len(planned(tasks(n=300), compared=2).trained) == 2


def fake(loss, norm):
    return SimpleNamespace(signal=norm, simulated_score=-loss)


def test_a_shortlist_has_no_doubles():
    plans = [fake(0.5, 1.0), fake(0.4, 2.0), fake(0.4005, 2.01), fake(0.4005, 3.0), fake(0.45, 1.0)]
    assert shortlist(plans, 3, is_filled=False) == (1, 3, 4)
    assert shortlist(plans, 5, is_filled=False) == (1, 3, 4, 0)
    assert shortlist(plans, 5, is_filled=True) == (1, 3, 4, 0, 2)


@pytest.mark.usefixtures("instant")
def test_candidates_that_are_all_the_same_get_the_whole_budget():
    found = planned(tasks(alphas=(1e-5, 1.0000001e-5)))
    assert found.scores is None
    assert found.best.whole == TARGET


@pytest.mark.usefixtures("instant")
def test_scores_get_as_much_as_they_need_and_no_more():
    shares = [score_share(plan(tasks(n=n)[0])) for n in (300, 3000, 30_000, 3_000_000)]
    assert shares[0] == 0.0
    assert shares[1] == 0.1 > shares[2] > shares[3] == 0.01
    assert score_share(plan(tasks(n=300)[0]), is_asked=True) == 0.1


def test_losses_have_scales_of_their_own():
    assert score_bound_of(SmoothedHinge(0.5)) == score_bound_of(Huber(0.5)) == 1.0


@pytest.mark.usefixtures("instant")
def test_users_are_left_to_simulations():
    some = tasks(sizes=(200,) * 100, protection=Protection(unit=Unit.USER, view=View.PUBLIC))
    assert planned(some).scores is None
