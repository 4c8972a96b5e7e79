"""The planner: what it chooses and what it says."""

import json
import re
from dataclasses import replace

import pytest

from dpadmm.core.spec import FinalModel
from dpadmm.methods.p_admm import PADMM
from dpadmm.networks import complete, ring
from dpadmm.planner import Task, plan, utility_curve
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import ONE_RECORD, Protection, Unit, View
from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge
from dpadmm.problems.regularisers import ElasticNet

SPREAD = Protection(records_per_person=2, silos_per_person=2)
TASK = Task(sizes=(200, 150), dimension=4, loss=Logistic(), target=Target(1.0, 1e-5))


def test_a_plan_spends_the_budget_and_says_what_it_is():
    made = plan(TASK)
    assert isinstance(made.run.method, PADMM)
    assert (made.run.setting.network, made.run.output) == (complete(2), FinalModel.TAIL_AVERAGE)
    assert made.spec.account().curve.epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)
    assert made.noise_std.shape == made.sensitivity.shape == (2,)
    assert (made.noise_std > 0).all()
    text = " ".join(made.describe().split())
    assert max(map(len, made.describe().splitlines())) <= 80
    assert all(part in text for part in ("p-admm", "epsilon 1", "Noise", "synthetic", "without privacy"))
    assert json.loads(json.dumps(made.as_json()))["method"] == "p-admm"


def test_equal_tasks_have_equal_plans():
    assert plan(TASK).as_json() == plan(replace(TASK, sizes=[200, 150])).as_json()


@pytest.mark.parametrize(
    ("loss", "facts"),
    [
        (Logistic(), {"sizes": (300,)}),
        (Huber(0.5), {"sizes": (300,)}),
        (SmoothedHinge(), {"sizes": (200, 100), "regulariser": ElasticNet(0.01, 0.01)}),
        (Huber(0.5), {"sizes": (100,) * 3, "network": ring(3), "protection": SPREAD}),
        (Logistic(), {"sizes": (100,) * 3, "protection": Protection(view=View.PUBLIC)}),
        (Huber(0.5), {"sizes": (4,) * 60, "protection": Protection(unit=Unit.USER, view=View.PUBLIC)}),
        (SmoothedHinge(), {"sizes": (4,) * 60, "protection": Protection(unit=Unit.USER)}),
    ],
)
@pytest.mark.usefixtures("instant")
def test_every_kind_of_task_is_planned_within_its_terms(loss, facts):
    made = plan(Task(dimension=4, loss=loss, target=Target(2.0, 1e-5), **facts))
    account = made.spec.account()
    assert account.curve.epsilon(1e-5) <= 2.0
    asked, said = facts.get("protection", ONE_RECORD), made.spec.account().protection
    assert said.view in (View.EAVESDROPPER, asked.view)
    assert replace(said, view=asked.view) == asked


@pytest.mark.parametrize(
    "method", ["p-admm-recycled", "dvp", "m-admm", "r-admm", "fp-federated", "dp-gd", "linearised-admm"]
)
@pytest.mark.usefixtures("instant")
def test_a_method_can_be_asked_for(method):
    made = plan(TASK, method=method)
    assert made.method == method
    assert made.spec.account().curve.epsilon(1e-5) <= 1.0
    assert "asked for" in made.reasons[0]


def test_output_perturbation_gets_a_ridge_that_its_noise_needs():
    made = plan(TASK, method="output-perturbation")
    assert (made.rounds, made.run.output) == (1, FinalModel.LAST)
    assert made.candidate.mu > 1 / 350


def test_a_method_that_was_asked_for_is_held_against_the_planners_own_choice():
    """Batches are one descent with the same noise, so nothing is gained; a pure epsilon costs more of the signal."""
    lost = {}
    for method in ("ps-admm", "dvp", "p-admm"):
        made = plan(TASK, method=method)
        lost[method] = re.findall(r"0\.\d\d", made.reasons[0])
        assert "asked for" in made.describe()
    assert plan(TASK, method="p-admm").reasons[0].endswith(PADMM.about.why)
    assert "choose p-admm" in plan(TASK, method="dvp").reasons[0]
    assert lost["ps-admm"][1] == lost["dvp"][1] < lost["dvp"][0]
    assert abs(float(lost["ps-admm"][0]) - float(lost["ps-admm"][1])) <= 0.01


def test_a_hopeless_target_is_called_hopeless():
    task = Task(sizes=(400,) * 5, dimension=104, loss=Logistic(), target=Target(0.1, 1e-5))
    made = plan(task)
    assert made.is_hopeless
    assert any(all(number in warning for number in ("400", "104", "0.1", "0.8")) for warning in made.warnings)
    assert not plan(replace(task, sizes=(4000,) * 5, target=Target(2.0, 1e-5))).is_hopeless
    regression = plan(Task(sizes=(100,) * 2, dimension=30, loss=Huber(1.0), target=Target(0.05, 1e-5)))
    assert any("the mean" in warning for warning in regression.warnings)


def test_the_plan_counts_a_persons_records():
    said = plan(replace(TASK, protection=Protection(records_per_person=40, silos_per_person=2))).describe()
    said = " ".join(said.split())
    assert f"Protects {Protection(records_per_person=40, silos_per_person=2)} from" in said
    assert said.count("up to 40 records") == 2


def test_dubious_budgets_and_graphs_that_are_not_used_are_warned_about():
    large = plan(replace(TASK, target=Target(50.0, 0.01)))
    assert [any(part in w for w in large.warnings) for part in ("1/n", "epsilon 50")] == [True, True]
    star = plan(replace(TASK, network=complete(2), regulariser=ElasticNet(l1=0.01)))
    assert any("given graph" in w for w in star.warnings)
    assert plan(TASK).warnings == ()


def test_losses_are_capped_only_where_noise_matters():
    assert plan(TASK).task.loss == Logistic(0.5)
    assert any("capped at 0.5" in reason for reason in plan(TASK).reasons)
    assert plan(replace(TASK, target=Target(1e6, 1e-5))).task.loss == Logistic()
    assert plan(TASK, method="dvp").task.loss == Logistic()


def test_utility_grows_with_epsilon():
    curve = utility_curve(TASK, (0.02, 1.0, 100.0))
    for figure in ("low", "high", "learned"):
        found = [getattr(point.expected.judged, figure) for point in curve]
        assert found == sorted(found)
    assert [point.epsilon for point in curve] == [0.02, 1.0, 100.0]
    assert curve[0].is_hopeless
    assert not curve[-1].is_hopeless
    assert curve[-1].expected.judged.high == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("method", ["dvp", "m-admm", "r-admm", "p-admm", "fp-federated"])
@pytest.mark.usefixtures("instant")
def test_several_problems_together_stay_within_the_budget(method):
    """Costs of pure methods do not add up in squares: three shares of that kind would spend 1.6 of an epsilon of 1."""
    task = replace(TASK, sizes=(200, 200))
    spent = plan(task, method=method, n_models=3).spec.account().curve.epsilon(1e-5)
    assert 0.9 < spent <= 1 + 1e-8
