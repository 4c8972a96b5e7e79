"""Plans for one model of several classes: worlds, caps, methods and forecasts."""

import numpy as np
import pytest

from dpadmm.algorithms.noisy_gradients import NoisyGradients
from dpadmm.errors import InputError
from dpadmm.planning import Task, plan
from dpadmm.planning.candidates import losses_for, methods_for
from dpadmm.planning.forecast import ScoreKind
from dpadmm.planning.simulations import predicted, score_models, trivial_scores
from dpadmm.planning.task import TableShape
from dpadmm.planning.worlds import WORLDS, draw
from dpadmm.privacy.calibration import Target
from dpadmm.problems.losses import LabelKind
from dpadmm.problems.softmax import Softmax


def task(n=2000, epsilon=1.0, **facts):
    facts = {"sizes": (n,), "dimension": 5, "loss": Softmax(3), "target": Target(epsilon, 1e-5)} | facts
    return Task(**facts)


def test_a_plan_of_several_classes():
    made = plan(task())
    assert made.method == "noisy-gradients"
    assert made.task.loss.cap < 1
    assert made.setting.problem.dimension == 15
    assert made.expected.score is ScoreKind.ACCURACY
    assert made.expected.auc is None
    assert made.expected.trivial + 0.1 < made.expected.mean < made.expected.non_private
    assert made.expected.loss_non_private < made.expected.loss < made.expected.loss_trivial
    assert made.statement().curve.epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)
    assert "C13" in made.statement().theorems[0]


def test_caps_and_methods():
    """A cap that was asked for stays; without noise the loss itself is fitted, by local solves."""
    assert losses_for(task(loss=Softmax(3, 0.6)), NoisyGradients) == (Softmax(3, 0.6),)
    ample = task(n=10**9)
    assert losses_for(ample, NoisyGradients) == (Softmax(3),)
    assert methods_for(task())[0] is NoisyGradients
    assert [method.about.takes_softmax for method in methods_for(ample)] == [True]
    with pytest.raises(InputError, match="not certified for one model of 3 classes"):
        plan(task(), method="dp-gd")


def test_worlds_of_classes_are_learnable_and_many():
    world = draw(WORLDS[0], TableShape(6), 3000, LabelKind.CLASSES, n_classes=5)
    shares = np.bincount(world.labels.astype(int), minlength=5) / 3000
    assert len(shares) == 5
    assert (shares > 0.05).all()


def test_scores_of_several_classes():
    loss, rows = Softmax(3, 0.7), np.eye(2)
    models = np.array([[5.0, 0.0, 0.0, 5.0, 0.0, 0.0]]).T  # class 0 by the first feature, class 1 by the second
    scores = predicted(loss, rows, models)
    assert scores[:, :, 0].tolist() == [[5.0, 0.0, 0.0], [0.0, 5.0, 0.0]]
    right, losses, areas = score_models(loss, scores, np.array([0.0, 2.0]))
    logs = loss.log_probabilities(scores[:, :, 0])
    assert right.tolist() == [0.5]
    assert losses[0] == pytest.approx(-(logs[0, 0] + logs[1, 2]) / 2)
    assert np.isnan(areas).all()
    assert trivial_scores(loss, np.array([0.0, 0.0, 1.0, 2.0])) == (0.5, pytest.approx(1.5 * np.log(2)))
