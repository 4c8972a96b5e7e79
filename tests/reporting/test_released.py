"""A released model predicts from its file alone, states its privacy in one set of words, and knows its ledger."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit, softmax
from tests.page_facts import facts_of

from dpadmm.codec import encode
from dpadmm.core.model import ReleasedModel
from dpadmm.data.columns import ArrayLabel, RealLabel
from dpadmm.data.encoding import RowEncoding
from dpadmm.data.schema import Schema, numbered_names
from dpadmm.data.tables import encode_table
from dpadmm.errors import InputError
from dpadmm.models import files
from dpadmm.models.predict import predict_from_scores, probabilities_from_scores, read_rows, score_rows
from dpadmm.problems.losses import Huber, Softmax
from dpadmm.settings import CellRules

BOUNDS = ((0.0, -1.0), (10.0, 3.0))
BOUNDED = RowEncoding.of_numbers(2, BOUNDS, 1.5)
FREE = RowEncoding.of_numbers(2, has_intercept=False)
ROWS = np.array([[5.0, 1.0], [0.1, 2.9], [50.0, -7.0], [9.0, 0.0]])
SICK = ArrayLabel("sick", ("no", "yes"))


def plain(model, encoding, label, weights, loss=None):
    bounds = None if encoding.lower is None else (encoding.lower, encoding.upper)
    schema = Schema.of_array(numbered_names(2), label, bounds, has_intercept=encoding.constant is not None)
    coefficients = tuple(np.ravel(weights).tolist())
    return replace(model, schema=schema, encoding=encoding, coefficients=coefficients, loss=loss or model.loss)


def kept(model, tmp_path):
    """Return the model as both kinds of file give it back."""
    return [ReleasedModel.load(model.save(tmp_path / name)) for name in ("m.json", "m.npz")]


@pytest.mark.parametrize("encoding", [BOUNDED, FREE], ids=["bounds", "none"])
def test_two_classes_of_an_array(model, tmp_path, encoding):
    weights = np.arange(1.0, 1.0 + encoding.dimension) / 7
    made = plain(model, encoding, SICK, weights)
    scores = encoding.encode(ROWS) @ weights
    np.testing.assert_allclose(made.decision_function(ROWS), scores, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(made.predict_proba(ROWS)[:, 1], expit(scores), rtol=1e-12)
    assert made.predict(ROWS).tolist() == np.where(scores > 0, "yes", "no").tolist()
    for again in kept(made, tmp_path):
        assert again == made
        assert again.decision_function(ROWS).tolist() == made.decision_function(ROWS).tolist()
        table = pd.DataFrame(ROWS, columns=["column1", "column2"])
        assert again.predict_proba(table.iloc[:, ::-1]).tolist() == made.predict_proba(ROWS).tolist()
        assert again.decision_function(sparse.csr_array(ROWS)).tolist() == pytest.approx(made.decision_function(ROWS))


def test_a_threshold_of_two_classes(model):
    made = plain(model, BOUNDED, SICK, (2.0, -1.0, 0.3))
    likely = made.predict_proba(ROWS)[:, 1]
    assert 0 < (likely > 0.62).sum() < (likely > 0.4).sum()
    for threshold in (0.4, 0.62):
        found = made.predict(ROWS, threshold=threshold)
        assert found.tolist() == np.where(likely > threshold, "yes", "no").tolist()


@pytest.mark.parametrize("cap", [1.0, 0.7])
def test_classes_of_one_softmax_model(model, tmp_path, cap):
    """Files, probabilities by the link, and the statement."""
    weights = np.array([[1.0, 0.0, 0.1], [-1.0, 2.0, 0.0], [0.0, -2.0, 0.3]]) * 3
    made = plain(model, BOUNDED, ArrayLabel("ward", (3, 5, 8)), weights, Softmax(3, cap))
    p = softmax(BOUNDED.encode(ROWS) @ weights.T, axis=1)
    expected = p * np.maximum(1.0, (1 - p) / cap)
    expected /= expected.sum(axis=1, keepdims=True)
    for again in kept(made, tmp_path):
        np.testing.assert_allclose(again.predict_proba(ROWS), expected, rtol=1e-12)
        assert again.predict(ROWS).tolist() == np.array([3, 5, 8])[p.argmax(axis=1)].tolist()
    assert "Classes     3 in one model (softmax)" in made.statement
    with pytest.raises(InputError):
        made.predict(ROWS, threshold=0.4)


def test_several_classes_are_several_vectors(model, tmp_path):
    weights = np.array([[1.0, 0.0, 0.1], [-1.0, 2.0, 0.0], [0.0, -2.0, 0.3]])
    made = plain(model, BOUNDED, ArrayLabel("ward", (3, 5, 8)), weights)
    made = replace(made, guarantee=replace(made.guarantee, n_models=3))
    scores = BOUNDED.encode(ROWS) @ weights.T
    for again in kept(made, tmp_path):
        assert again.predict(ROWS).tolist() == np.array([3, 5, 8])[scores.argmax(axis=1)].tolist()
        assert again.predict(ROWS).dtype == np.int64
        np.testing.assert_allclose(again.predict_proba(ROWS).sum(axis=1), 1.0)
        assert again.decision_function(ROWS).shape == (4, 3)
    assert "Shared by   3 one-vs-rest models" in made.statement
    assert "column2 (for 5)" in made.report()


def test_a_number_comes_in_its_own_units(model, tmp_path):
    made = plain(model, BOUNDED, RealLabel("cost", 100.0, 300.0), (0.5, -0.25, 0.1), Huber(0.5))
    encoded = BOUNDED.encode(ROWS) @ np.array([0.5, -0.25, 0.1])
    for again in kept(made, tmp_path):
        np.testing.assert_allclose(again.predict(ROWS), 200 + 100 * encoded, rtol=1e-12)
        read = read_rows(
            again,
            pd.DataFrame(ROWS, columns=["column1", "column2"]).assign(cost=[100, "200", 999, 300]),
            "t.csv",
            CellRules(),
            is_labelled=True,
        )
        assert read.labels.tolist() == [-1.0, 0.0, 1.0, 1.0]


def test_awkward_cells_of_plain_columns_follow_the_policies(model):
    made = plain(model, BOUNDED, SICK, (1.0, 1.0, 0.0))
    table = pd.DataFrame({"column1": ["5", None, "11"], "column2": ["1", "1", "x"], "sick": ["yes", "no", "no"]})
    rows = table.head(2)
    filled = score_rows(made, rows, screening=CellRules(missing="fill"))
    assert filled.tolist() == score_rows(made, np.array([[5.0, 1.0], [5.0, 1.0]])).tolist()
    blanked = score_rows(made, rows, screening=CellRules(missing="blank"))
    assert predict_from_scores(made, blanked).tolist() == ["yes" if blanked[0, 0] > 0 else "no", None]
    assert np.isnan(probabilities_from_scores(made, blanked)[1]).all()
    assert made.predict(rows, cells=CellRules(missing="blank")).tolist() == predict_from_scores(made, blanked).tolist()
    cells = CellRules(missing="fill")
    assert made.predict_proba(rows, cells=cells).tolist() == probabilities_from_scores(made, filled).tolist()
    assert made.decision_function(rows, cells=cells).tolist() == filled[:, 0].tolist()


def test_predictions_by_a_schema_are_the_same_after_loading(model, tmp_path):
    table = pd.DataFrame({"age": [20, 70, 130], "sex": ["F", "M", "F"]})
    rows = encode_table(model.schema, table, is_labelled=False, encoding=model.encoding).features
    scores = rows @ np.array(model.coefficients)
    for again in kept(model, tmp_path):
        assert again.decision_function(table).tolist() == scores.tolist()
        assert again.predict(table).tolist() == np.where(scores > 0, "yes", "no").tolist()


def test_the_statement_and_the_page_say_the_same(model, tmp_path):
    said = model.statement
    for texts in ("epsilon 1 at delta 1e-05", "from the eavesdropper", "C1 + C8; certified"):
        assert texts in said
    assert "NOT a private release" not in said
    page = model.report(tmp_path / "page.html", name="m.json")
    assert (tmp_path / "page.html").read_text() == page
    assert "dpadmm report m.json --json" in page
    assert "dpadmm report" not in model.report()  # nobody knows of a file
    assert facts_of(page)["protected"] == [str(model.guarantee.protection)]


def test_a_model_is_known_by_its_digest(model, tmp_path):
    place = model.save(tmp_path / "m.json")
    assert json.loads(place.read_text())["digest"] == model.digest
    for again in kept(model, tmp_path):
        again.verify(digest=model.digest)
        with pytest.raises(InputError):
            replace(again, title="Another").verify(digest=model.digest)


def test_plain_columns_with_other_types_are_refused_even_with_a_right_digest(model, tmp_path):
    made = encode(plain(model, BOUNDED, SICK, (1.0, 1.0, 0.0)))
    changes = ({"names": "ab"}, {"centre": [0.0]}, {"norm_bound": "x"}, {"label": {"name": "a"}}, {"more": 1})
    for change in changes:
        (tmp_path / "m.json").write_bytes(files.sign_facts(made | {"schema": made["schema"] | change}))
        with pytest.raises(InputError, match=r"m\.json"):
            ReleasedModel.load(tmp_path / "m.json")
