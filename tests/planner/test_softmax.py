"""Plans for one model of several classes: worlds, caps, methods and forecasts."""

from dataclasses import replace

import numpy as np
import pytest
from tests.grouped import grouped

from dpadmm.core.task import TableShape
from dpadmm.estimators import PrivateLogisticRegression
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.planner import Task, plan, planner
from dpadmm.planner.candidates import losses_for, methods_for
from dpadmm.planner.forecast import ScoreKind
from dpadmm.planner.simulations import (
    WORLDS,
    draw,
    predict_scores,
    run_apart,
    run_simulation,
    score_models,
    simulation_of,
    synthetic_data,
    train_models,
    trivial_loss,
)
from dpadmm.privacy.accounting import Target
from dpadmm.problems.losses import LabelKind, Logistic, Softmax


def task(n=2000, epsilon=1.0, **facts):
    facts = {"sizes": (n,), "dimension": 5, "loss": Softmax(3), "target": Target(epsilon, 1e-5)} | facts
    return Task(**facts)


def test_a_plan_of_several_classes():
    made = plan(task())
    assert made.method == "noisy-gradients"
    assert made.task.loss.cap < 1
    assert made.run.setting.problem.dimension == 15
    assert made.expected.score is ScoreKind.MEAN_AUC
    assert "mean AUC" in made.describe()
    simulation = simulation_of(made.candidate)
    found = [run_simulation(simulation, world) for world in WORLDS]
    best, loss, trivial = np.mean([(one.loss_best, one.loss, one.loss_trivial) for one in found], axis=0)
    assert best < loss < trivial - 0.1
    assert made.simulated_score == pytest.approx(-loss)
    assert made.spec.account().curve.epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)
    assert "C13" in made.spec.account().theorems[0]


def test_caps_and_methods():
    """A cap that was asked for stays; without noise the loss itself is fitted, by local solves."""
    assert losses_for(task(loss=Softmax(3, 0.6)), NoisyGradients) == (Softmax(3, 0.6),)
    ample = task(n=10**9)
    assert losses_for(ample, NoisyGradients) == (Softmax(3),)
    assert methods_for(task())[0] is NoisyGradients
    assert [method.about.takes_softmax for method in methods_for(ample)] == [True]


def test_worlds_of_classes_are_learnable_and_many():
    world = draw(WORLDS[0], TableShape(6), 3000, LabelKind.CLASSES, n_classes=5)
    shares = np.bincount(world.labels.astype(int), minlength=5) / 3000
    assert len(shares) == 5
    assert (shares > 0.05).all()


def test_scores_of_several_classes():
    loss, rows = Softmax(3, 0.7), np.eye(2)
    models = np.array([[5.0, 0.0, 0.0, 5.0, 0.0, 0.0]]).T  # class 0 by the first feature, class 1 by the second
    scores = predict_scores(loss, rows, models)
    assert scores[:, :, 0].tolist() == [[5.0, 0.0, 0.0], [0.0, 5.0, 0.0]]
    right, losses, areas = score_models(loss, scores, np.array([0.0, 2.0]))
    logs = loss.log_probabilities(scores[:, :, 0])
    assert right.tolist() == [0.5]
    assert losses[0] == pytest.approx(-(logs[0, 0] + logs[1, 2]) / 2)
    assert np.isnan(areas).all()
    assert trivial_loss(loss, np.array([0.0, 0.0, 1.0, 2.0])) == pytest.approx(1.5 * np.log(2))


def test_softmax_is_compared_with_one_model_per_class():
    """Softmax is taken and the reason tells both figures; numbers that are asked for are not compared."""
    made = plan(task(n=600, loss=Softmax(4)), n_models=None)
    assert (made.run.n_models, made.task.loss.n_classes) == (1, 4)
    assert "softmax" in made.reasons[1]
    assert not any("one-vs-rest" in reason for reason in plan(task(n=600, loss=Softmax(4))).reasons)
    assert plan(task(n=600, loss=Logistic()), n_models=None).run.n_models == 1


def better_apart(simulation, n_classes, world):
    """One-vs-rest as if it lost nothing."""
    found = run_apart(simulation, n_classes, world)
    return replace(found, loss=found.loss_best)


def test_the_better_one_is_taken(monkeypatch):
    """Were one model for each class expected to be clearly better, it would be planned, with its own forecast."""
    monkeypatch.setattr(planner, "run_apart", better_apart)
    drowned = task(n=400, epsilon=0.5)
    made = plan(drowned, n_models=None)
    assert made.run.n_models == 3
    assert isinstance(made.task.loss, Logistic)
    assert "each class" in made.reasons[1]
    assert made.simulated_score > plan(drowned).simulated_score + 0.05
    assert made.expected.score is ScoreKind.MEAN_AUC
    assert "of 3 classes" in made.describe()
    assert made.spec.account().curve.epsilon(1e-5) <= 0.5 * (1 + 1e-9)

    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (400, 4))
    y = np.digitize(X[:, 0], (-0.3, 0.3))
    options = {"delta": 1e-5, "feature_bounds": (-1, 1), "classes": range(3), "random_state": 0}
    with pytest.warns(UserWarning, match="simulated"):
        fitted = PrivateLogisticRegression(0.5, **grouped(**options)).fit(X, y)
    with pytest.warns(UserWarning, match="simulated"):
        forced = PrivateLogisticRegression(0.5, **grouped(multi_class="one-vs-rest", **options)).fit(X, y)
    assert fitted.privacy_.n_models == 3
    assert np.array_equal(fitted.coef_, forced.coef_)
    assert any("3 one-vs-rest models" in note for note in fitted.privacy_.assumptions)


def test_one_model_per_class_is_scored_as_its_predictions_are():
    """Without noise, models of each class and softmax tell nearly the same; with much noise they tell nothing."""
    apart = plan(task(n=10**7, loss=Logistic()), n_models=3)
    simulation = simulation_of(apart.candidate)
    found = [run_apart(replace(simulation, tau=1e-6), 3, world) for world in WORLDS]
    assert all(one.kept > 0.85 for one in found)
    assert run_apart(replace(simulation, tau=1.0), 3, WORLDS[0]).kept < 0
    silos = synthetic_data(simulation, WORLDS[0]).silos
    models = [train_models(replace(simulation, tau=1.0), silos, number) for number in (0, 0, 1)]
    assert np.array_equal(models[0], models[1])
    assert not np.isclose(models[0], models[2]).any()  # noise that classes have in common would cancel
