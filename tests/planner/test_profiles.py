"""What a plan spends on a column profile: rules, borders, and the budget as a whole."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpadmm.core.task import ProfileRule, TableShape
from dpadmm.methods.base import by_name
from dpadmm.methods.p_admm import PADMM
from dpadmm.planner import Task, plan, planner
from dpadmm.planner.candidates import STANDARD, form_of, profile_noise, profile_share, worthwhile_share
from dpadmm.planner.simulations import SimulatedScores
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.curves import m_of
from dpadmm.problems.losses import Huber, Logistic

TABLE = TableShape(5, (3, 4))


def scores(loss):
    return SimulatedScores(score=0.8, loss=loss, norm=1.0, loss_best=0.3, loss_trivial=0.7)


TASK = Task(sizes=(4000,) * 3, dimension=13, loss=Logistic(), target=Target(1.0, 1e-5), table=TABLE)


@pytest.mark.parametrize("n_models", [1, 2, 7])
@pytest.mark.parametrize("share", [None, 0.05, 0.4])
@pytest.mark.usefixtures("instant")
def test_profile_and_problems_spend_the_whole_budget_and_no_more(n_models, share):
    made = plan(replace(TASK, profile=ProfileRule(share=share)), n_models=n_models)
    delta = TASK.target.delta
    whole = m_of(1.0, delta) ** 2
    own, each = (m_of(target.epsilon, delta) ** 2 for target in (made.profile.target, made.task.target))
    assert own + n_models * each == pytest.approx(whole, rel=1e-6)
    if share is not None:
        assert own / whole == pytest.approx(share, rel=1e-6)
    assert made.spec.account().curve.epsilon(delta) <= 1.0 * (1 + 1e-9)
    assert made.spec.account().curve.epsilon(delta) == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize(
    "facts",
    [
        {"profile": ProfileRule(is_wanted=False)},
        {"profile": ProfileRule(earlier_run="run")},
        {"table": None},
        {"target": Target(0.001, 1e-5)},
    ],
    ids=["off", "bought", "no table", "nothing to be seen"],
)
@pytest.mark.usefixtures("instant")
def test_nothing_is_spent_where_nothing_is_to_be_gained(facts):
    task = replace(TASK, **facts)
    assert profile_share(task, PADMM) == 0.0
    made = plan(task)
    assert made.profile is None
    assert made.task.target == task.target


def test_methods_without_gaussian_noise_have_no_profile():
    pure = [method for method in (each for each in by_name().values()) if method.about.is_pure]
    assert pure
    assert all(profile_share(TASK, method) == 0.0 for method in pure)


def test_the_rule_at_its_borders():
    most = 0.08 * math.sqrt(0.1)
    assert worthwhile_share(most, seen=0.005, most=0.08) == 0.1
    assert worthwhile_share(math.nextafter(most, 1), seen=0.005, most=0.08) == 0.0
    assert worthwhile_share(0.005 * math.sqrt(0.1), seen=0.005, most=0.08) == pytest.approx(0.1)
    assert worthwhile_share(0.005 * math.sqrt(0.03), seen=0.005, most=0.08) == pytest.approx(0.03)
    assert worthwhile_share(0.0, seen=0.005, most=0.08) == 0.01


@settings(deadline=None, derandomize=True, max_examples=60)
@given(epsilon=st.floats(0.02, 20.0), more=st.floats(1.0, 10.0), numbers=st.integers(0, 40), silos=st.integers(2, 20))
def test_larger_budgets_see_more_for_no_larger_share(epsilon, more, numbers, silos):
    task = replace(TASK, sizes=(1500,) * silos, table=TableShape(numbers, (5,)), target=Target(epsilon, 1e-5))
    richer = replace(task, target=Target(epsilon * more, 1e-5))
    assert profile_noise(richer, PADMM) <= profile_noise(task, PADMM)
    if profile_share(task, PADMM) > 0:
        assert 0 < profile_share(richer, PADMM) <= profile_share(task, PADMM)


def test_rows_have_the_form_that_the_plan_gives_them():
    assert form_of(replace(TASK, table=None), PADMM, 0.0) == STANDARD
    assert form_of(TASK, PADMM, 0.0).noise is None
    assert form_of(TASK, PADMM, 0.04).noise == pytest.approx(profile_noise(TASK, PADMM) / 0.2)
    earlier = ProfileRule(earlier_run="run", earlier_m=0.3 * m_of(1.0, 1e-5))
    assert form_of(replace(TASK, profile=earlier), PADMM, 0.0).noise == pytest.approx(form_of(TASK, PADMM, 0.09).noise)
    assert form_of(TASK, PADMM, 0.1).clip_radius == 0.6


@pytest.mark.parametrize(("without", "is_released"), [(0.45, True), (0.395, True), (0.37, False)])
def test_the_worlds_may_overrule_the_rule_for_a_profile_but_not_for_little(monkeypatch, without, is_released):
    monkeypatch.setattr(
        planner, "run_simulation", lambda simulation, _: scores(0.4 if simulation.form.noise is not None else without)
    )
    made = plan(TASK)
    assert (made.profile is not None) == is_released
    assert any(
        ("pays for a column profile" if is_released else "no column profile") in reason for reason in made.reasons
    )
    if not is_released:
        asked = plan(replace(TASK, profile=ProfileRule(share=0.05)))
        assert asked.profile is not None


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.5)], ids=repr)
def test_a_plan_reads_and_writes_no_file(monkeypatch, loss):
    def watched(name, *more, **options):
        assert str(name).startswith("/proc/"), f"opened {name}"  # which libraries are loaded, for their threads
        return opened(name, *more, **options)

    plan(replace(TASK, loss=loss))  # compiled kernels and late imports are read from files
    opened = open
    monkeypatch.setattr("builtins.open", watched)
    monkeypatch.setattr("io.open", watched)
    monkeypatch.setattr("os.open", watched)
    assert plan(replace(TASK, loss=loss)).profile is not None


def test_caps_are_compared_and_the_strongest_kept_unless_it_clearly_loses(monkeypatch):
    def prefer(best):
        monkeypatch.setattr(planner, "run_simulation", lambda one, _: scores(0.33 if one.loss == best else 0.4))

    for best in (Logistic(0.5), Logistic(0.7)):
        prefer(best)
        assert plan(TASK).task.loss == best
    monkeypatch.setattr(planner, "run_simulation", lambda one, _: scores(0.4 - 0.01 * one.loss.slope_bound))
    assert plan(TASK).task.loss == Logistic(0.5)
