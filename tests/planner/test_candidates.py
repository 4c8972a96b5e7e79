"""The theory behind candidates, against the noise that is really planned."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpadmm.core.loop import simulate
from dpadmm.core.task import TableShape
from dpadmm.methods.base import plannable
from dpadmm.methods.fixed_point import CentralisedADMM, CoordinatorADMM, FederatedADMM
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.methods.output_perturbation import OutputPerturbation
from dpadmm.methods.p_admm import PADMM
from dpadmm.networks import ring
from dpadmm.noise.mechanisms import Constant, Family
from dpadmm.planner import Task
from dpadmm.planner.candidates import (
    NOISE_RATIOS,
    Candidate,
    candidate_at,
    margin_scale,
    methods_for,
    run_of,
    split_penalty,
    unit_noise,
    why_not,
)
from dpadmm.planner.planner import _form_for_numbers
from dpadmm.planner.simulations import WORLDS, run_simulation, scale_noise, simulation_of
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import Protection, Unit, View
from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge
from dpadmm.problems.regularisers import ElasticNet
from dpadmm.problems.silos import Silos


def task_of(sizes=(300, 300, 300), epsilon=1.0, **facts):
    facts = {"dimension": 5, "loss": Logistic()} | facts
    people = Protection(**{each.name: facts.pop(each.name) for each in fields(Protection) if each.name in facts})
    return Task(sizes=tuple(sizes), target=Target(epsilon, 1e-5), protection=people, **facts)


def planned_noise(candidate):
    """Noise per coordinate of the mean model after one round, from the releases themselves."""
    run_spec = run_of(candidate)
    run_spec = replace(run_spec, schedule=Constant(), setting=replace(run_spec.setting, tolerance=1e-13))
    row = next(iter(run_spec.noise_plan(is_secure=False).releases.values()))
    stds = np.array([release.noise_std for release in row.values()])
    if any(release.agent < 0 for release in row.values()):
        return stds[0]
    if None in row:
        stds = np.repeat(stds, candidate.task.n_silos)
    # Fixed-point ADMM adds half of the noise (lam = 1/2) to a block; P-ADMM all of it to a model.
    part = 1.0 if candidate.method is PADMM else 0.5
    return part * np.sqrt((stds**2).sum()) / candidate.task.n_silos


@pytest.mark.parametrize(
    ("method", "facts"),
    [
        (PADMM, {}),
        (PADMM, {"sizes": (500, 200, 200), "records_per_person": 3, "silos_per_person": 2}),
        (PADMM, {"network": ring(3), "row_norm": 2.5, "loss": Huber(0.4)}),
        (FederatedADMM, {"epsilon": 0.2}),
        (FederatedADMM, {"unit": Unit.USER}),
        (FederatedADMM, {"unit": Unit.USER, "sizes": (500, 200, 200)}),
        (CentralisedADMM, {"sizes": (700,)}),
        (CoordinatorADMM, {"view": View.PUBLIC, "unit": Unit.USER}),
        (CoordinatorADMM, {"view": View.PUBLIC, "sizes": (300,) * 3}),
    ],
)
def test_tau_is_the_noise_that_certificates_and_budget_give(method, facts):
    task = task_of(**facts)
    for rounds, step in ((1, 1e-4), (9, 1e-4)):
        noise = planned_noise(Candidate(task, method, rounds, step))
        assert noise == pytest.approx(unit_noise(task, method) * step * np.sqrt(rounds), rel=2e-3)


@pytest.mark.parametrize("loss", [Logistic(), Logistic(0.7), SmoothedHinge(), Huber(0.25)], ids=repr)
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 20.0])
def test_the_aim_is_met_unless_the_ridge_settles_earlier(loss, epsilon):
    task = task_of(sizes=(3000,) * 3, epsilon=epsilon, loss=loss, row_norm=1.7)
    for ratio in NOISE_RATIOS:
        chosen = candidate_at(task, PADMM, ratio)
        time = chosen.step * chosen.rounds
        left = task.row_norm * unit_noise(task, PADMM) * time / margin_scale(loss)
        assert left == pytest.approx(ratio) or (left < ratio and time * chosen.mu <= 25.0 * (1 + 1e-9))
        assert chosen.rounds % 2 == 0


@pytest.mark.parametrize("method", [PADMM, FederatedADMM])
def test_many_rounds_become_fewer_and_longer_ones(method):
    """Up to 120 of them t L is 50 at most; beyond, K/(t L) stays 2.4. The whole time is what noise allows, as ever."""
    seen = set()
    for n in np.geomspace(1e3, 3e6, 30).astype(int):
        task = task_of(sizes=(n,) * 3, epsilon=5.0)
        chosen, smoothness = candidate_at(task, method, 2.0), 0.25 + 1 / (3 * n)
        length = chosen.step * smoothness
        usual = length * chosen.rounds / 50
        aim = 2.0 / unit_noise(task, method)
        assert chosen.step * chosen.rounds == pytest.approx(min(aim, 25.0 * 3 * n, 50 * 400 / smoothness))
        if usual <= 120:
            assert chosen.rounds in (40, *(2 * np.ceil(np.array([usual, usual - 1]) / 2)))
            assert length <= 50 * (1 + 1e-9)
        else:
            assert chosen.rounds / length == pytest.approx(2.4, rel=0.05)
        seen.add(chosen.rounds)
    assert (min(seen), max(seen)) == (40, 220)


def test_fewer_rounds_of_unlike_silos_come_to_the_same_model():
    """Hardly any noise, silos far apart: half the rounds with steps twice as long lose nothing that could be seen."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 4)) * (1.0, 0.5, 0.2, 0.05)
    rows = np.column_stack([rows / np.linalg.norm(rows, axis=1).max(), np.full(300, 0.3)]) / 1.1
    labels = np.where(rng.random(300) < 1 / (1 + np.exp(-rows @ (3.0, -4.0, 6.0, 9.0, 1.0))), 1.0, -1.0)
    parts = np.array_split(np.argsort(rows[:, 0]), 3)
    silos = Silos.from_parts([rows[part] for part in parts], [labels[part] for part in parts], row_norm=1.0)
    task, losses = task_of(sizes=(100,) * 3), []
    for rounds in (400, 200, 20):
        run_spec = run_of(Candidate(task, PADMM, rounds, 50 * 400 / 0.25 / rounds, 1e-3))
        problem = replace(run_spec.setting.problem, functions=task.risk(silos, 1e-3))
        silence = scale_noise(run_spec.noise_plan(is_secure=False), 1e-9)
        losses.append(float(problem.objective(simulate(run_spec, problem, 1, 0, silence))[0]))
    assert losses[1] == pytest.approx(losses[0], abs=1e-4)
    assert losses[2] > losses[0] + 1e-3  # too few


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    scale=st.floats(0.05, 20.0),
    threshold=st.floats(0.05, 20.0),
    epsilon=st.sampled_from([0.1, 1.0, 8.0]),
    ratio=st.sampled_from(NOISE_RATIOS),
)
def test_units_of_rows_and_labels_do_not_matter(scale, threshold, epsilon, ratio):
    """Rows times R and labels times S give the same simulation, up to the rounding of its numbers."""
    made = []
    for row_norm, slope in ((1.0, 1.0), (scale, threshold)):
        task = task_of(epsilon=epsilon, row_norm=row_norm, loss=Huber(slope))
        made.append(simulation_of(candidate_at(task, PADMM, ratio)))
    one, other = made
    assert (one.loss, one.method, one.n_records, one.dimension) == (
        other.loss,
        other.method,
        other.n_records,
        other.dimension,
    )
    assert one.tau * one.time == pytest.approx(other.tau * other.time, rel=1e-2)
    assert one.mu * one.time == pytest.approx(other.mu * other.time, rel=1e-2)


def test_silos_that_add_noise_each_are_one_descent():
    """P-ADMM with four silos and fixed-point ADMM with one do alike at the same tau: what simulations rely on."""
    task = task_of(sizes=(512,) * 4, epsilon=0.5, dimension=8)
    simulation = simulation_of(candidate_at(task, PADMM, 2.0))
    assert simulation.method is CentralisedADMM
    for world in WORLDS[:2]:
        one = run_simulation(simulation, world)
        peers = run_simulation(replace(simulation, method=PADMM), world)
        assert 0.2 < one.kept < 1
        # The runs have other noise; six of them leave some spread.
        assert peers.kept == pytest.approx(one.kept, abs=0.12)


def test_more_noise_loses_more():
    task = task_of(sizes=(512,) * 4, epsilon=2.0, dimension=8)
    simulation = simulation_of(candidate_at(task, PADMM, 2.0))
    kept = [run_simulation(replace(simulation, tau=simulation.tau * f), WORLDS[1]).kept for f in (1.0, 8.0, 64.0)]
    assert kept[0] > kept[1] > kept[2]


@pytest.mark.parametrize(
    ("facts", "methods"),
    [
        ({}, (PADMM,)),
        ({"sizes": (500,)}, (NoisyGradients, CentralisedADMM)),
        ({"sizes": (5,) * 80}, (FederatedADMM,)),
        ({"sizes": (5,) * 80, "network": ring(80)}, (PADMM,)),
        ({"regulariser": ElasticNet(l1=0.01)}, (FederatedADMM,)),
        ({"regulariser": ElasticNet(l2=0.01)}, (PADMM,)),
        ({"unit": Unit.USER}, (FederatedADMM,)),
        ({"view": View.COORDINATOR}, (PADMM,)),
        ({"view": View.PEER}, (PADMM,)),
        ({"view": View.PUBLIC}, (NoisyGradients, CoordinatorADMM)),
        ({"view": View.PUBLIC, "network": ring(3)}, (PADMM,)),
        ({"view": View.AGGREGATE}, (NoisyGradients, CoordinatorADMM)),
        (
            {"view": View.PUBLIC, "unit": Unit.USER, "regulariser": ElasticNet(l1=0.01)},
            (NoisyGradients, CoordinatorADMM),
        ),
    ],
)
def test_methods_fit_view_unit_and_penalty(facts, methods):
    task = task_of(**facts)
    assert methods_for(task) == methods
    assert all(why_not(task, method) is None for method in methods)


def test_the_users_ridge_is_kept_and_the_planners_own_is_small():
    assert split_penalty(task_of(regulariser=ElasticNet(l2=0.3)))[0] == 0.3
    assert split_penalty(task_of(regulariser=ElasticNet(l1=0.3)))[0] == 0.0
    assert split_penalty(task_of())[0] == pytest.approx(1 / 900)


def test_the_solver_is_far_more_exact_than_one_record_matters():
    for sizes in ((10, 10), (10**6,) * 3):
        task = task_of(sizes=sizes)
        assert run_of(candidate_at(task, PADMM, 2.0)).setting.tolerance <= 1e-4 * 2 / task.n_records


def test_batches_of_records_and_the_general_form_are_planned_for_what_they_hide():
    people = task_of(records_per_person=3, regulariser=ElasticNet(l2=0.1))
    refused = {name for name, method in plannable().items() if why_not(people, method) is not None}
    assert refused == {"dp-sgd", "dp-prox-sgd", "ps-admm", "fp-general"} | {
        name for name, method in plannable().items() if View.EAVESDROPPER not in method.about.views(3)
    }


_OF_ROWS = {
    name: method
    for name, method in plannable().items()
    if Family.SAMPLED not in method.about.noise and method.about.most_silos > 1
}


@pytest.mark.parametrize("silos", [1, 2])
@pytest.mark.parametrize("method", _OF_ROWS.values(), ids=_OF_ROWS)
def test_certificates_state_in_text_what_they_state_in_numbers(method, silos):
    task = task_of(view=View.PUBLIC, records_per_person=3, silos_per_person=silos, regulariser=ElasticNet(l2=0.1))
    rounds = 1 if method is OutputPerturbation else 3
    plan = run_of(Candidate(task, method, rounds=rounds, step=1.0, mu=0.1)).noise_plan(is_secure=False)
    for release in plan:
        said = [text for text in release.certificate.assumptions if text.startswith("neighbours differ")]
        where = "of one silo" if silos == 1 else "in each of at most 2 silos"
        assert said == [f"neighbours differ in at most 3 record(s) {where}, replaced by others"]
        assert release.certificate.protection.silos_per_person == silos


PURE = {name: method for name, method in plannable().items() if Family.OBJECTIVE in method.about.noise}


@pytest.mark.parametrize("name", PURE)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0, 50.0])
def test_pure_budgets_cover_what_noise_in_an_objective_costs_at_least(name, epsilon):
    """However large the budget and small the silos (C2)."""
    for sizes in ((1, 1, 2), (100,) * 3, (30_000,) * 5):
        for ratio in (NOISE_RATIOS[0], NOISE_RATIOS[-1]):
            run = run_of(candidate_at(task_of(sizes, epsilon), PURE[name], ratio))
            assert run.noise_plan().account().curve.epsilon(0.0) <= epsilon


def test_a_large_pure_budget_is_simulated():
    task = task_of((100, 100, 100), 50.0)
    assert run_simulation(simulation_of(candidate_at(task, PURE["r-admm"], 2.0)), WORLDS[0]).kept > 0.5


def test_rows_of_numbers_are_shortened_less_where_that_teaches_far_more():
    """Ten columns of numbers and little noise; not with more noise, mostly categories, classes or another aim."""
    facts = {"sizes": (8000,), "dimension": 11, "loss": Huber(0.5), "target": Target(1.0, 1e-5)}
    task = Task(**facts, table=TableShape(10))
    radii = {
        "numbers": task,
        "threshold and penalty": replace(task, loss=Huber(0.1), regulariser=ElasticNet(l1=0.01)),
        "noise": replace(task, target=Target(0.1, 1e-5)),
        "categories": replace(task, dimension=31, table=TableShape(2, (7, 7, 7, 7))),
        "classes": replace(task, loss=Logistic()),
    }
    found = {name: _form_for_numbers(each, NoisyGradients, 0.02).clip_radius for name, each in radii.items()}
    wide = {"numbers", "threshold and penalty"}
    assert found == {name: 1.5 if name in wide else 0.6 for name in radii}
