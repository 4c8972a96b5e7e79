"""Forecasts of accuracy, AUC and log-loss: against scikit-learn's figures, and what they say."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score

from dpadmm.planner import Task, plan
from dpadmm.planner.forecast import MOST_SIGNAL_ROUNDS, SimulatedExtent
from dpadmm.planner.simulations import MOST_RECORDS, MOST_WIDTH, score_models
from dpadmm.privacy.accounting import Target
from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge, Softmax

TASK = Task(sizes=(300, 250), dimension=5, loss=Logistic(), target=Target(1.0, 1e-5))


@pytest.fixture
def predicted():
    rng = np.random.default_rng(3)
    labels = np.where(rng.random(400) < 0.2, 1.0, -1.0)
    return np.round(rng.standard_normal((400, 3)) + 0.7 * labels[:, None], 1), labels  # rounded: there are ties


@pytest.mark.parametrize("loss", [Logistic(), Logistic(0.5), Logistic(0.7), SmoothedHinge()], ids=repr)
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


def test_weighted_scores_are_those_of_scikit_learn(predicted):
    """A record that is split between its labels counts as much as a whole one, in every figure."""
    scores, labels = predicted
    weights = np.random.default_rng(4).uniform(0.1, 1.0, len(labels))
    accuracy, losses, areas = score_models(Logistic(), scores, labels, weights)
    for column, found in enumerate(scores.T):
        assert areas[column] == pytest.approx(roc_auc_score(labels > 0, found, sample_weight=weights))
        right = np.where(found == 0, -labels, np.sign(found))
        assert accuracy[column] == pytest.approx(accuracy_score(labels, right, sample_weight=weights))
        assert losses[column] == pytest.approx(log_loss(labels > 0, expit(found), sample_weight=weights))
    truth = scores[:, 0] + np.linspace(-1, 1, 400)
    assert score_models(Huber(1.0), scores, truth, weights)[0][1] == pytest.approx(
        r2_score(truth, scores[:, 1], sample_weight=weights)
    )


def test_several_classes_are_scored_by_the_mean_of_one_against_the_rest():
    rng = np.random.default_rng(5)
    classes, scores, weights = rng.integers(3, size=300), rng.standard_normal((300, 3)), rng.uniform(0.1, 1, 300)
    scores[np.arange(300), classes] += 1
    area = score_models(Softmax(3), scores[:, :, None], classes.astype(float), weights)[2]
    chances = softmax(scores, axis=1)
    assert area[0] == pytest.approx(roc_auc_score(classes, chances, multi_class="ovr", sample_weight=weights))


def test_a_stated_base_rate_is_what_is_forecast():
    rare = plan(replace(TASK, prevalence=0.05))
    assert "base rate of 0.05" in rare.describe()
    assert "base rate" not in plan(TASK).describe()
    said = json.loads(json.dumps(rare.as_json()))
    assert said["task"]["prevalence"] == said["expected"]["prevalence"] == 0.05


def test_a_plan_says_where_its_simulations_were_smaller():
    large = plan(Task(sizes=(10_000,) * 2, dimension=90, loss=Logistic(), target=Target(1.0, 1e-5)))
    assert large.simulated == SimulatedExtent(MOST_RECORDS // 2, MOST_WIDTH, MOST_SIGNAL_ROUNDS)
    rounds = f"{MOST_SIGNAL_ROUNDS} of {large.rounds} rounds"
    sizes = f"{MOST_RECORDS // 2} of 20000 records, {MOST_WIDTH} of 90 features, {rounds}"
    assert f"Simulated {sizes}" in " ".join(large.describe().split())
    assert large.as_json()["simulated"]["limits"].startswith(sizes)
    small = plan(TASK, method="output-perturbation")
    assert small.simulated.limits(small.task, small.rounds) is None
    assert "Simulated" not in small.describe()
    assert small.as_json()["simulated"]["limits"] is None
