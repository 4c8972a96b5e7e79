"""A model's file states the loss that was fitted as a typed record, and probabilities follow that loss's link."""

import json
from dataclasses import replace

import numpy as np
from scipy.special import expit

from dpadmm.core.model import ReleasedModel
from dpadmm.data.columns import ArrayLabel
from dpadmm.data.encoding import RowEncoding
from dpadmm.data.schema import Schema, numbered_names
from dpadmm.models.predict import probabilities_from_scores
from dpadmm.problems.losses import Logistic

ROWS = np.array([[9.0, -8.0], [-0.1, 0.2], [50.0, 7.0], [-30.0, 4.0]])


def by_slopes(scores, cap):
    """Return the probability of +1 by the definition: each class pulls as hard as its share."""
    pulls = np.minimum(expit(scores), cap), np.minimum(expit(-scores), cap)
    return pulls[0] / (pulls[0] + pulls[1])


def of_array(model, classes, weights, loss):
    """Return a model of two columns whose rows are divided by 1000, with this loss."""
    schema = Schema.of_array(numbered_names(2), ArrayLabel("label", classes))
    encoding, coefficients = RowEncoding.of_numbers(2, row_norm=1e3), tuple(np.ravel(weights).tolist())
    return replace(model, schema=schema, encoding=encoding, coefficients=coefficients, loss=loss)


def test_two_classes_follow_the_link(model, tmp_path):
    made = of_array(model, ("no", "yes"), (700.0, 300.0, 0.5), Logistic(0.7))
    scores = made.decision_function(ROWS)
    chances = made.predict_proba(ROWS)
    np.testing.assert_allclose(chances[:, 1], by_slopes(scores, 0.7), rtol=1e-12)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-15)
    assert np.abs(chances[:, 1] - expit(scores)).max() > 0.005
    assert made.predict(ROWS).tolist() == np.where(chances[:, 1] > 0.5, "yes", "no").tolist()
    for name in ("m.json", "m.npz"):
        again = ReleasedModel.load(made.save(tmp_path / name))
        assert again.linked == Logistic(0.7)
        assert again.predict_proba(ROWS).tolist() == chances.tolist()


def test_several_classes_follow_the_link_and_sum_to_one(model, tmp_path):
    weights = np.array([[600.0, 0.0, 0.1], [-300.0, 200.0, 0.0], [0.0, -200.0, 0.3]])
    made = of_array(model, ("a", "b", "c"), weights, Logistic(0.55))
    alone = by_slopes(made.decision_function(ROWS), 0.55)
    again = ReleasedModel.load(made.save(tmp_path / "m.json"))
    np.testing.assert_allclose(again.predict_proba(ROWS), alone / alone.sum(axis=1, keepdims=True), rtol=1e-12)
    np.testing.assert_array_equal(made.predict_proba(ROWS).argmax(axis=1), made.decision_function(ROWS).argmax(axis=1))
    far = probabilities_from_scores(made, np.array([[-1e4] * 3, [1e300, -1e300, 0.0], [np.nan] * 3]))
    np.testing.assert_allclose(far[:2].sum(axis=1), 1.0)
    assert np.isnan(far[2]).all()


def test_the_file_holds_the_record_and_the_description_changes_nothing(model, tmp_path, monkeypatch):
    """The regular expression that once read the sentence back would have fallen back to log-odds here."""
    made = of_array(model, ("no", "yes"), (700.0, 300.0, 0.5), Logistic(0.7))
    wanted = made.predict_proba(ROWS).tolist()
    monkeypatch.setattr("dpadmm.core.model.loss_description", lambda _: "logistic something else")
    place = made.save(tmp_path / "m.json")
    assert json.loads(place.read_text())["model"]["loss"] == {"kind": "Logistic", "cap": 0.7}
    again = ReleasedModel.load(place)
    assert again.loss == Logistic(0.7)
    assert again.loss_description == "logistic something else"
    assert again.predict_proba(ROWS).tolist() == wanted
