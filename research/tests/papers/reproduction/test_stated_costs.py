"""A cost that is told beside a curve is that of the noise which was run, whichever paper's it is."""

import math
import re

import numpy as np
import pytest

from dpadmm.methods.ps_admm import CORRECTION, FULL
from dpadmm.noise.mechanisms import MessageKind
from dpadmm_research.claims.base import linear_renyi_of_epsilon
from dpadmm_research.comparison.adult import adult
from dpadmm_research.papers.fixed_point import runs as fixed_point
from dpadmm_research.papers.fixed_point.claims import FederatedTheorem3
from dpadmm_research.papers.fixed_point.world import TOY as TOY_WORLD
from dpadmm_research.papers.ps_admm import runs as ps_admm
from dpadmm_research.reproduction.figure import Order, Size
from dpadmm_research.reproduction.table import Reading, chosen, mean_at

ORDER = Order(Size.TOY)


def test_fixed_point_costs_are_those_of_the_noise_of_the_runs(monkeypatch):
    drawn, paid = {}, {}

    def drawing(name):
        run_curve = getattr(fixed_point, name)

        def noted(world, stds, *more):
            drawn[name.split("_")[0]] = sorted(map(float, stds))
            return run_curve(world, stds, *more)

        monkeypatch.setattr(fixed_point, name, noted)

    def paying(name):
        def noted(world, std, *more):
            paid.setdefault(name.split("_")[0], []).append(float(std))
            return 1.0

        monkeypatch.setattr(fixed_point, name, noted)

    for method in ("admm", "sgd"):
        drawing(f"{method}_curve")
        paying(f"{method}_cost")
    fixed_point.compute_runs(ORDER)
    fixed_point.compute_costs(ORDER)
    assert set(drawn) == {"admm", "sgd"}
    assert {name: sorted(stds) for name, stds in paid.items()} == drawn


def test_the_authors_noise_is_compared_with_theorem_3_as_printed(monkeypatch):
    monkeypatch.setattr(fixed_point, "sgd_cost", lambda *about: 1.0)
    world, table = TOY_WORLD, fixed_point.compute_costs(ORDER)
    for epsilon in world.epsilons:
        theorem = FederatedTheorem3(
            rounds=world.iterations, users=world.rows, sampled=1, lipschitz=world.admm_clip, gamma=1.0
        )
        asked = theorem.noise(order=2.0, rdp=2 * linear_renyi_of_epsilon(epsilon, world.delta)).value ** 2
        rho = linear_renyi_of_epsilon(epsilon, world.delta)
        coded = 2 * world.admm_clip**2 * world.iterations / (rho * world.rows**2)
        reported = mean_at(table, metric=fixed_point.BY_THEOREM_3, panel="square root taken", epsilon=epsilon)
        assert reported == pytest.approx(coded / asked, rel=1e-9)


def test_ps_admm_draws_theorem_2s_noise_and_pays_for_it(monkeypatch):
    paid = []

    def noted(method, problem, rounds, std):
        paid.append(std)
        return ps_admm.CertifiedCost(1.0, 0.5)

    monkeypatch.setattr(ps_admm, "least_cost", noted)
    ps_admm.compute_claimed(ORDER)
    problem = ps_admm.eq_1(adult(ORDER).split()[0])
    method, rounds = ps_admm.SETTING.method(ORDER, Reading.CLAIMED), ps_admm.SETTING.rounds_of(ORDER)
    asked = ps_admm.theorem_2_std(method, problem, rounds, ps_admm.SETTING.epsilons[-1])
    assert paid == [pytest.approx(asked, rel=1e-12)]
    plan = ps_admm.ps_trial(method, problem, rounds, Reading.CLAIMED, ps_admm.SETTING.epsilons[-1]).plan
    first, second = (plan.of(MessageKind(name), 1, np.array([0]))[0].noise_std for name in (FULL, CORRECTION))
    assert math.hypot(first, second) == pytest.approx(asked, rel=1e-12)
    assert second < 1e-4 * first


@pytest.mark.parametrize("name", ["p-admm/fig1", "p-admm/fig2", "p-admm/fig3"])
def test_legends_of_claimed_curves_tell_what_that_noise_costs(toy, name):
    table = toy.table(name)
    spent = chosen(table, metric="certified eps", reading=Reading.CLAIMED)
    reported = 0
    for ax in toy.pictures[name].axes:
        for label in ax.get_legend_handles_labels()[1]:
            found = re.fullmatch(r"(.+) \(certified eps (\S+)\)", label)
            if found:
                mine = chosen(spent, curve=found[1])
                assert found[2] in {f"{mean_at(mine, epsilon=eps):.3g}" for eps in set(mine["epsilon"])}, label
                reported += 1
    assert reported >= 3


def test_the_fixed_point_figure_shows_what_the_model_0_has(toy):
    axes = toy.pictures["fixed-point/fig1"].axes
    shown = [any("the model 0" in label for label in ax.get_legend_handles_labels()[1]) for ax in axes]
    assert sum(shown) >= 5
