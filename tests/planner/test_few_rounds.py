"""Few preconditioned rounds: taken where passes cost and records clear their noise, and nowhere else."""

from dataclasses import replace

import pytest

from dpadmm.core.task import Aim, TableShape, Task
from dpadmm.methods.preconditioned import SECOND_MOMENTS
from dpadmm.networks import ring
from dpadmm.planner.candidates import preconditioned_method
from dpadmm.planner.planner import plan
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.curves import m_of
from dpadmm.privacy.protection import ONE_RECORD, Protection, Unit, View
from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge, Softmax
from dpadmm.problems.regularisers import ElasticNet

MANY = Task(sizes=(1_000_000,), dimension=21, loss=Logistic(), target=Target(1.0, 1e-7))
FIVE = replace(MANY, sizes=(200_000,) * 5)
MASKED, PUBLIC = Protection(view=View.AGGREGATE, colluders=1), Protection(view=View.PUBLIC)


@pytest.mark.parametrize(
    ("task", "name"),
    [
        (MANY, "noisy-gradients-preconditioned"),
        (FIVE, "dp-gd-preconditioned"),
        (replace(FIVE, sizes=(700_000, 200_000, 100_000)), "dp-gd-preconditioned"),
        (replace(FIVE, protection=MASKED), "noisy-gradients-preconditioned"),
        (replace(FIVE, protection=PUBLIC), "noisy-gradients-preconditioned"),
        (replace(MANY, loss=Huber(0.5)), "noisy-gradients-preconditioned"),
        (replace(MANY, regulariser=ElasticNet(l2=1e-4)), "noisy-gradients-preconditioned"),
    ],
)
def test_many_records(task, name):
    made = preconditioned_method(task)
    assert made is not None
    assert made.about.name == name


@pytest.mark.parametrize(
    "task",
    [
        replace(MANY, sizes=(2_000,)),  # a fit is over before passes matter
        replace(MANY, sizes=(100_000,), target=Target(0.03, 1e-7)),  # the matrix would drown
        replace(MANY, dimension=1001),
        replace(MANY, loss=SmoothedHinge(0.5)),
        replace(MANY, loss=Softmax(3)),
        replace(MANY, regulariser=ElasticNet(l1=1e-4)),
        replace(MANY, aim=Aim.INFERENCE),
        replace(MANY, protection=replace(ONE_RECORD, unit=Unit.PERSON)),
        replace(FIVE, protection=replace(ONE_RECORD, unit=Unit.USER)),
        replace(FIVE, network=ring(5)),
        replace(MANY, sizes=(2_000,) * 500),
        replace(MANY, sizes=(30_000,), table=TableShape(20)),
    ],
)
def test_elsewhere_rounds_stay_as_they_are(task):
    assert preconditioned_method(task) is None


def test_a_federation_runs_what_its_silos_can():
    assert plan(FIVE, is_federated=True).method == "p-admm"


@pytest.mark.parametrize(("table", "rounds", "share", "last"), [(None, 16, 0.1, 8), (TableShape(20), 24, 0.02, 18)])
def test_a_plan_spends_its_share_on_the_matrix_and_the_whole_budget(table, rounds, share, last):
    made = plan(replace(MANY, table=table))
    assert (made.method, made.rounds) == ("noisy-gradients-preconditioned", 1 + rounds)
    assert made.run.method.first_averaged_round(made.rounds) == made.rounds + 1 - last
    assert (made.profile is None) == (table is None)
    m = m_of(made.run.target.epsilon, made.run.target.delta)
    (spent,) = [
        (release.bound / release.noise_std) ** 2
        for (kind, _), row in made.run.noise_plan(is_secure=False).releases.items()
        for release in row.values()
        if kind == SECOND_MOMENTS
    ]
    assert spent == pytest.approx(share * m**2, rel=1e-4)
    assert made.spec.account().curve.epsilon(1e-7) == pytest.approx(1.0, rel=1e-3)
    assert not made.is_hopeless
    assert made.candidate.mu < 1e-5
