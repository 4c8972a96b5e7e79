"""A model's file tells the loss that was fitted, and probabilities follow that loss's link; earlier files included."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import expit

from dpadmm.datasets.encoding import RowEncoding
from dpadmm.datasets.schema import numbered_names
from dpadmm.errors import InputError
from dpadmm.problems.losses import CappedLogistic, Huber, Logistic, SmoothedHinge, Squared
from dpadmm.reporting.files import linked_loss, loss_words
from dpadmm.reporting.model import ReleasedModel
from dpadmm.reporting.rows import PlainColumns, PlainLabel

FILES = Path(__file__).parent / "files"
CAPPED = "logistic regression (no record pulls harder than 0.7)"
ROWS = np.array([[9.0, -8.0], [-0.1, 0.2], [50.0, 7.0], [-30.0, 4.0]])


def by_slopes(scores, cap):
    """Return the probability of +1 by the definition: each class pulls as hard as its share."""
    pulls = np.minimum(expit(scores), cap), np.minimum(expit(-scores), cap)
    return pulls[0] / (pulls[0] + pulls[1])


def of_array(model, classes, weights, loss):
    """Return a model of two columns whose rows are divided by 1000, with this loss."""
    schema = PlainColumns(names=tuple(numbered_names(2)), label=PlainLabel(classes=classes))
    encoding, coefficients = RowEncoding.of_numbers(2, row_norm=1e3), tuple(np.ravel(weights).tolist())
    return replace(model, schema=schema, encoding=encoding, coefficients=coefficients, loss=loss_words(loss))


@settings(deadline=None, derandomize=True)
@given(cap=st.floats(0, 1, exclude_min=True, exclude_max=True))
@example(cap=0.1 + 0.2)
@example(cap=1e-5)
@example(cap=np.float64(0.7))
def test_words_keep_the_cap_exactly(cap):
    assert linked_loss(loss_words(CappedLogistic(cap))) == CappedLogistic(cap)


def test_words_of_the_other_losses():
    assert linked_loss(loss_words(Logistic())) == Logistic()
    for loss in (SmoothedHinge(), Huber(0.3), Squared()):
        assert linked_loss(loss_words(loss)) is None


@pytest.mark.parametrize("words", ["logistic", "logistic regression (capped)", CAPPED.replace("0.7", "1")])
def test_words_that_say_no_cap_mean_log_odds(words):
    """As before: an earlier version could write a cap of 0.9999999 as 1."""
    assert linked_loss(words) == Logistic()


def test_two_classes_follow_the_link(model, tmp_path):
    made = of_array(model, ("no", "yes"), (700.0, 300.0, 0.5), CappedLogistic(0.7))
    scores = made.decision_function(ROWS)
    chances = made.predict_proba(ROWS)
    np.testing.assert_allclose(chances[:, 1], by_slopes(scores, 0.7), rtol=1e-12)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-15)
    assert np.abs(chances[:, 1] - expit(scores)).max() > 0.005
    assert made.predict(ROWS).tolist() == np.where(chances[:, 1] > 0.5, "yes", "no").tolist()
    for name in ("m.json", "m.npz"):
        again = ReleasedModel.load(made.save(tmp_path / name))
        assert again.linked == CappedLogistic(0.7)
        assert again.predict_proba(ROWS).tolist() == chances.tolist()


def test_several_classes_follow_the_link_and_sum_to_one(model, tmp_path):
    weights = np.array([[600.0, 0.0, 0.1], [-300.0, 200.0, 0.0], [0.0, -200.0, 0.3]])
    made = of_array(model, ("a", "b", "c"), weights, CappedLogistic(0.55))
    alone = by_slopes(made.decision_function(ROWS), 0.55)
    again = ReleasedModel.load(made.save(tmp_path / "m.json"))
    np.testing.assert_allclose(again.predict_proba(ROWS), alone / alone.sum(axis=1, keepdims=True), rtol=1e-12)
    np.testing.assert_array_equal(made.predict_proba(ROWS).argmax(axis=1), made.decision_function(ROWS).argmax(axis=1))
    far = made.probabilities(np.array([[-1e4] * 3, [1e300, -1e300, 0.0], [np.nan] * 3]))
    np.testing.assert_allclose(far[:2].sum(axis=1), 1.0)
    assert np.isnan(far[2]).all()


def test_losses_without_a_link_have_no_probabilities(model):
    made = of_array(model, ("no", "yes"), (1.0, 1.0, 0.0), SmoothedHinge())
    assert not made.has_probabilities
    with pytest.raises(InputError, match=r"support vector machine .* has no probabilities"):
        made.predict_proba(ROWS)


@pytest.mark.parametrize("name", ["model-1.json", "model-1.npz"])
def test_earlier_files_say_the_cap_in_words(name):
    model = ReleasedModel.load(FILES / name)
    assert model.loss == CAPPED
    assert model.linked == CappedLogistic(0.7)
    rows = pd.DataFrame({"age": [20, 55, 100], "sex": ["F", "M", "F"], "pressure": [110, 130, 190]})
    scores = model.decision_function(rows)
    np.testing.assert_allclose(model.predict_proba(rows)[:, 1], by_slopes(scores, 0.7), rtol=1e-12)
    assert model.predict(rows).tolist() == np.where(scores > 0, "yes", "no").tolist()
