"""Plans for intervals: what they cost, whom they are for, and what is said beforehand where there can be none."""

from dataclasses import replace

import pytest

from dpadmm.core.task import Aim, TableShape, Task
from dpadmm.planner.coefficients import CURVATURE_SHARE, expected_intervals, least_records
from dpadmm.planner.planner import plan
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.curves import m_of
from dpadmm.privacy.protection import ONE_RECORD, NeighbouringRelation, Protection, View
from dpadmm.problems.losses import Logistic

TARGET = Target(1.0, 1e-5)
pytestmark = pytest.mark.usefixtures("instant")


def task_of(sizes=(20_000,), who=ONE_RECORD, **more):
    facts = {"dimension": 6, "loss": Logistic(), "target": TARGET, "table": TableShape(5), "aim": Aim.INFERENCE}
    return Task(sizes=sizes, protection=who, **(facts | more))


@pytest.mark.parametrize(
    ("sizes", "who"),
    [
        ((20_000,), ONE_RECORD),
        ((5000,) * 4, Protection(view=View.PUBLIC)),
        ((5000,) * 4, Protection(view=View.AGGREGATE, colluders=1)),
        ((20_000,), Protection(relation=NeighbouringRelation.ADD_OR_REMOVE)),
    ],
)
def test_a_tenth_of_the_squared_budget_buys_the_curvature(sizes, who):
    made = plan(task_of(sizes, who))
    own = made.spec.part(made.curvature, is_secure=False).account().curve.m
    assert (own / m_of(1.0, 1e-5)) ** 2 == pytest.approx(CURVATURE_SHARE, rel=1e-6)
    assert made.spec.account().curve.epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)
    assert made.spec.noise_plan().account().curve.epsilon(1e-5) <= 1.0
    assert made.profile is not None
    assert (made.method, made.clip_radius, made.task.loss) == ("noisy-gradients", 1.0, Logistic())
    assert "Intervals" in made.describe()
    assert made.as_json()["curvature_epsilon"] == made.curvature.target.epsilon
    assert made.as_json()["task"]["aim"] == "inference"
    assert not made.lacks_intervals


def test_predictions_are_planned_as_ever():
    made = plan(task_of(aim=Aim.PREDICTION))
    assert made.curvature is None
    assert not made.lacks_intervals
    assert "Intervals" not in made.describe()


def test_too_few_records_are_announced_beforehand_and_cost_nothing():
    made = plan(task_of((1000,)))
    assert made.lacks_intervals
    assert made.curvature is None
    assert made.spec.account().curve.epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)
    assert not plan(task_of((1000,), target=Target(5.0, 1e-5))).lacks_intervals


def test_a_rare_class_needs_more_records():
    """One record in twenty has a fifth of the curvature that one in two has, so five times the records are needed."""
    usual, rare = (least_records(each, TARGET) for each in (task_of(), task_of(prevalence=0.05)))
    assert rare / usual == pytest.approx(0.25 / (0.05 * 0.95), rel=1e-3)
    assert not plan(task_of()).lacks_intervals
    made = plan(task_of(prevalence=0.005))
    assert made.lacks_intervals
    assert "0.005" in made.warnings[-1]


def test_categories_of_a_column_count_one_less():
    """Ten columns of two categories have no more directions than ten numbers."""
    numbers = task_of((30_000,), dimension=11, table=TableShape(10))
    pairs = task_of((30_000,), dimension=21, table=TableShape(0, (2,) * 10))
    assert plan(numbers).lacks_intervals is plan(pairs).lacks_intervals is False


def test_a_released_profile_leaves_its_share():
    task = task_of()
    rule = task.profile.with_earlier("earlier", 0.1)
    made = plan(replace(task, profile=rule))
    m = m_of(1.0, 1e-5)
    whole = made.spec.account().curve.m
    assert whole == pytest.approx((m**2 - 0.1**2) ** 0.5, rel=1e-6)
    own = made.spec.part(made.curvature, is_secure=False).account().curve.m
    assert (own / whole) ** 2 == pytest.approx(CURVATURE_SHARE, rel=1e-6)


def test_the_plan_says_how_many_intervals_to_expect():
    """A category of few records has none, once a profile has shown its share; a number at twice its noise has one."""
    shape = TableShape(4, (3,))
    many = task_of((100_000,), dimension=8, table=shape)
    assert plan(many).expected_intervals == 7
    assert "at most 7 of 7 coefficients" in " ".join(plan(many).describe().split())
    rare = replace(many, table=replace(shape, shares=((0.6, 0.399, 0.001),)))
    assert plan(rare).expected_intervals == 6
    assert plan(rare).as_json()["expected_intervals"] == 6
    assert plan(task_of(aim=Aim.PREDICTION)).expected_intervals == 0


def test_what_is_expected_follows_the_share_of_the_outcome():
    task = task_of((100_000,), dimension=8, table=TableShape(4, (3,)))
    own = plan(task).curvature.target
    numbers = [expected_intervals(replace(task, prevalence=p), own) for p in (0.5, 0.05, 0.01, 0.001)]
    assert numbers == sorted(numbers, reverse=True)
    assert (numbers[0], numbers[-1]) == (7, 0)
