"""The scoreboard on Adult at toy size: who is on it, without a ridge, within the budget, and the product untuned."""

import numpy as np
import pytest

from dpadmm import PrivateLogisticRegression
from dpadmm.estimators import SimulatedNoiseWarning
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.curves import m_of
from dpadmm.testing import run_plan
from dpadmm_research.reproduction.figure import Order, Size
from dpadmm_research.scoreboard.adult import GROUPS
from dpadmm_research.scoreboard.entries import BATCH, ENTRIES, RIDGES, VIEWS, entry_of
from dpadmm_research.scoreboard.measured import optimum
from dpadmm_research.scoreboard.method_run import Choice, MethodRun
from dpadmm_research.scoreboard.planned import Read, default_plan, row_losses
from dpadmm_research.scoreboard.rows import DELTA, PUBLIC, SILOS, board

TOY = Order(Size.TOY)


def method_run(name):
    return MethodRun(entry_of(name), board(TOY), TOY)


def test_every_method_has_one_panel_of_its_view():
    placed = [(name, view) for _, view, names in GROUPS for name in names]
    assert sorted(placed, key=str) == sorted(((entry.name, entry.view) for entry in ENTRIES), key=str)
    assert max(len(names) for _, _, names in GROUPS) <= 5


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_no_model_has_a_ridge_but_where_the_certificate_needs_one(entry):
    problem = entry.task(board(TOY).train.silos(SILOS), 0.125)
    needs = entry.method.about.needs_ridge
    assert problem.functions.constants.strong_convexity == (0.125 if needs else 0.0)
    assert problem.regulariser.strong_convexity == 0.0
    assert (entry.knobs[0] is RIDGES) == needs


def test_the_non_private_model_has_the_least_loss():
    data = board(TOY).train
    best = optimum(data)
    margins = data.data.labels * (data.data.features @ best)
    slope = data.data.features.T @ (-data.data.labels / (1 + np.exp(margins))) / len(margins)
    assert np.linalg.norm(slope) < 1e-4


@pytest.mark.parametrize("name", ["p-admm", "dp-sgd", "r-admm", "noisy-gradients"])
def test_the_profile_is_paid_within_epsilon(name):
    """Gaussian, sampled and pure noise, and noise of a coordinator: with the profile no more than the budget."""
    here = method_run(name)
    choice = here.tuned((0.5,))[0.5]
    plan = here.run(choice.values, choice.rounds, [0.5], 1, 0).trials[0].plan
    assert 0.5 * (1 - 2e-3) <= here.cost(plan) <= 0.5
    alone = plan.account().curve.epsilon(DELTA)
    assert alone < here.cost(plan)
    if name == "p-admm":  # squares add up (C0)
        assert m_of(alone, DELTA) ** 2 + here.board.profile_m**2 == pytest.approx(m_of(0.5, DELTA) ** 2, rel=1e-3)


def test_batches_end_with_the_records_of_a_silo_and_the_choice_says_so():
    here = method_run("dp-sgd")
    smallest = int(here.silos.sizes.min())
    batch = here.axes[here.entry.knobs.index(BATCH)]
    assert batch.most == smallest
    assert entry_of("dp-sgd (records pooled)").axes(SILOS * smallest)[1].most == SILOS * smallest
    most = batch.start
    while most * 2 <= smallest:
        most *= 2
    assert here.limits(Choice((8.0, most), 128, is_tail=True)) == {"step": 0, "batch": 1, "rounds": 0}
    assert here.limits(Choice((8.0, 4.0), 1, is_tail=True)) == {"step": 0, "batch": 0, "rounds": -1}
    assert here.run((8.0, 2.0 * smallest), 8, [5.0], 1, 0) is None  # refused, so it cannot win


@pytest.mark.parametrize("view", VIEWS)
def test_the_product_is_what_an_estimator_gives_that_is_shown_no_more(view):
    """Epsilon, delta, schema and view, and the seed of the noise: the same plan, and the same loss of every row."""
    data = board(TOY)
    asked = PrivateLogisticRegression(5.0, DELTA, schema=PUBLIC, view=view.value, random_state=3)
    labels = data.train_table[PUBLIC.label.name]
    with pytest.warns(SimulatedNoiseWarning):
        model = asked.fit(data.train_table, labels, groups=data.silo_of_train)
    read = Read.of(data)
    made = default_plan(read.silos.sizes, view, 5.0)
    assert made.as_json() == model.plan_.as_json()
    done = run_plan(made, read.silos, SimulatedSampler(3), progress=False)
    positive = model.predict_proba(data.train_table)[:, 1]
    right = np.where(data.train.data.labels > 0, positive, 1 - positive)
    np.testing.assert_allclose(row_losses(made, done, read.train), -np.log(right), rtol=1e-6)
    silos = data.train.silos(SILOS)
    assert read.silos.sizes == tuple(silos.sizes.tolist())
