"""Forecasts of accuracy, AUC and log-loss: against scikit-learn's figures, and what they say."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score

from dpadmm.errors import InputError
from dpadmm.planning import Task, plan, utility_curve
from dpadmm.planning.forecast import Extent
from dpadmm.planning.simulations import MOST_RECORDS, MOST_ROUNDS, MOST_WIDTH, score_models
from dpadmm.privacy.calibration import Target
from dpadmm.problems.losses import CappedLogistic, Huber, Logistic, SmoothedHinge

TASK = Task(sizes=(300, 250), dimension=5, loss=Logistic(), target=Target(1.0, 1e-5))


@pytest.fixture
def predicted():
    rng = np.random.default_rng(3)
    labels = np.where(rng.random(400) < 0.2, 1.0, -1.0)
    return np.round(rng.standard_normal((400, 3)) + 0.7 * labels[:, None], 1), labels  # rounded: there are ties


@pytest.mark.parametrize("loss", [Logistic(), CappedLogistic(0.5), CappedLogistic(0.7), SmoothedHinge()], ids=repr)
def test_scores_are_those_of_scikit_learn(predicted, loss):
    scores, labels = predicted
    accuracy, mean_loss, area = score_models(loss, scores, labels)
    for column in range(3):
        found = scores[:, column]
        assert accuracy[column] == accuracy_score(labels, np.where(found == 0, -labels, np.sign(found)))
        assert area[column] == pytest.approx(roc_auc_score(labels > 0, found))
        if not isinstance(loss, SmoothedHinge):
            risk = 1 / (1 + np.exp(-loss.log_odds(found)))
            assert mean_loss[column] == pytest.approx(log_loss(labels > 0, risk))


def test_regressions_are_scored_by_r2(predicted):
    scores, _ = predicted
    truth = scores[:, 0] + np.linspace(-1, 1, 400)
    found, _, area = score_models(Huber(1.0), scores, truth)
    assert found[1] == pytest.approx(r2_score(truth, scores[:, 1]))
    assert np.isnan(area).all()


def test_better_models_are_expected_of_larger_budgets_by_every_figure():
    curve = [point.expected for point in utility_curve(TASK, (0.1, 1.0, 20.0))]
    losses, areas = [each.loss for each in curve], [each.auc for each in curve]
    assert losses == sorted(losses, reverse=True)
    assert areas == sorted(areas)
    assert 0.5 < areas[-1] <= curve[-1].auc_non_private + 0.02
    assert curve[-1].loss >= curve[-1].loss_non_private - 0.02


def test_a_stated_base_rate_is_what_is_forecast():
    rare = plan(replace(TASK, prevalence=0.05))
    assert rare.expected.trivial == pytest.approx(0.95, abs=0.02)
    assert rare.expected.loss_trivial == pytest.approx(-0.05 * np.log(0.05) - 0.95 * np.log(0.95), abs=0.05)
    text, usual = rare.describe(), plan(TASK)
    assert "for the stated base rate of 0.05" in text
    assert f"AUC {rare.expected.auc:.3f}" in text
    assert f"log-loss {rare.expected.loss:.3f}" in text
    assert "as stated" not in usual.describe()
    assert usual.expected.trivial < 0.8
    said = json.loads(json.dumps(rare.as_json()))
    assert said["task"]["prevalence"] == said["expected"]["prevalence"] == 0.05
    assert said["expected"]["auc"] == rare.expected.auc


def test_a_hinge_has_no_log_loss_and_a_number_no_auc():
    hinge = plan(replace(TASK, loss=SmoothedHinge())).expected
    assert list(hinge.figures) == ["AUC"]
    assert "log-loss" not in str(hinge)
    number = plan(replace(TASK, loss=Huber(0.5))).expected
    assert number.figures == {}
    assert json.loads(json.dumps(number.as_json()))["auc"] is None


@pytest.mark.parametrize("wrong", [0.0, 1.0, -0.2, float("nan"), "half"])
def test_no_share_is_no_prevalence(wrong):
    with pytest.raises(InputError, match="prevalence"):
        replace(TASK, prevalence=wrong)


def test_numbers_have_no_prevalence():
    with pytest.raises(InputError, match="but the target is a number"):
        replace(TASK, loss=Huber(0.5), prevalence=0.3)


def test_a_plan_says_where_its_simulations_were_smaller():
    large = plan(Task(sizes=(40_000,) * 2, dimension=90, loss=Logistic(), target=Target(1.0, 1e-5)))
    assert large.simulated == Extent(MOST_RECORDS, MOST_WIDTH, MOST_ROUNDS)
    sizes = f"{MOST_RECORDS} of 80000 records, {MOST_WIDTH} of 90 features, {MOST_ROUNDS} of {large.rounds} rounds"
    assert f"Simulated {sizes}" in " ".join(large.describe().split())
    assert large.as_json()["simulated"]["limits"].startswith(sizes)
    small = plan(TASK, method="output-perturbation")
    assert small.simulated.words(small.task, small.rounds) is None
    assert "Simulated" not in small.describe()
    assert small.as_json()["simulated"]["limits"] is None
