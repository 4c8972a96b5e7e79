"""Exported models predict what the released model does, by scikit-learn alone or by the reader of the documents."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest

from dpadmm.core.task import Aim
from dpadmm.data.columns import ArrayLabel, BinaryLabel, Categorical, Numeric, RealLabel
from dpadmm.data.encoding import RowEncoding
from dpadmm.data.schema import Schema
from dpadmm.models.predict import read_rows
from dpadmm.privacy.releases import Origin
from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge, Softmax
from dpadmm.problems.silos import dense
from dpadmm.settings import CellRules

PAGE = Path(__file__).parents[2] / "docs" / "export.md"
COLUMNS = (
    Numeric("age", 0, 100),
    Categorical("sex", ("F", "M")),
    Numeric("pay", -5.0, 1e6, typical=20_000.0),
    Categorical("ward", (1, 2, 30)),
    Categorical("code", ("01", "7", "x y")),
)
SICK, PRICE = BinaryLabel("sick", ("yes", "y"), ("no",)), RealLabel("price", -3, 40)
LOSSES = {"logistic": Logistic(), "capped": Logistic(0.7), "machine": SmoothedHinge(), "number": Huber(0.5)}
BLOCKED = """
import sys, joblib, numpy, pandas
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "dpadmm":
            raise ImportError("dpadmm is not installed")
sys.meta_path.insert(0, Blocked())
pipeline, rows = joblib.load(sys.argv[1]), pandas.read_pickle(sys.argv[2])
assert not any(name.startswith("dpadmm") for name in sys.modules)
numpy.save(sys.argv[3], pipeline.predict_proba(rows))
"""


@pytest.fixture(scope="module")
def base(model):
    """Any released model: the tests change all that predictions take."""
    return replace(model, measurements=(), profile=None)


def of_table(base, kind, seed=0, by_bounds=False, constant=0.3):
    """A model of a table with random coefficients; a small radius, so that most rows are shortened."""
    schema = Schema(COLUMNS, PRICE if kind == "number" else SICK, constant=constant)
    encoding = schema.by_bounds() if by_bounds else schema.encoding(0.6)
    weights = np.random.default_rng(seed).normal(0, 4, schema.dimension)
    loss = LOSSES[kind]
    return replace(base, schema=schema, encoding=encoding, loss=loss, coefficients=tuple(weights.tolist()))


def of_array(base, kind, classes=("a", "b"), has_bounds=True):
    """A model of an array with random coefficients."""
    label = RealLabel("label", -4.0, 10.0) if kind == "number" else ArrayLabel("label", classes)
    bounds = ([-1.0, 0.0, 0.0], [1.0, 5.0, 9.0]) if has_bounds else None
    columns = Schema.of_array(("column1", "column2", "column3"), label, bounds)
    encoding = RowEncoding.of_numbers(3, bounds, 0.9)
    weights = np.random.default_rng(1).normal(0, 5, (len(classes) if len(classes) > 2 else 1) * 4)
    return replace(base, schema=columns, encoding=encoding, loss=LOSSES[kind], coefficients=tuple(weights.tolist()))


def rows_of(n=300, seed=2):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.uniform(-20, 140, n),
            "sex": rng.choice(["F", "M"], n),
            "pay": rng.lognormal(10, 2, n),
            "ward": rng.choice([1, 2, 30], n),
            "code": rng.choice(["01", "7", "x y"], n),
        }
    )


def awkward_rows():
    rows = rows_of().astype({"ward": float})
    rows.loc[::3, "age"] = np.nan
    rows.loc[1::5, "sex"] = None
    rows.loc[2::7, "ward"] = np.nan
    rows.loc[4::9, "code"] = "other"
    return rows


def agree(found, wanted):
    assert np.abs(np.asarray(found, dtype=float) - np.asarray(wanted, dtype=float)).max() <= 1e-12


@pytest.mark.parametrize("by_bounds", [False, True])
@pytest.mark.parametrize("kind", list(LOSSES))
def test_the_pipeline_of_a_table_predicts_the_same(base, kind, by_bounds):
    model, policies = of_table(base, kind, by_bounds=by_bounds), CellRules(missing="fill", unlisted="zero")
    for rows, cells in ((rows_of(), None), (awkward_rows(), policies)):
        pipeline = model.to_sklearn(cells=cells)
        wanted = model.predict(rows, cells=cells)
        if kind == "number":
            agree(pipeline.predict(rows) / 43, wanted / 43)
            continue
        assert (pipeline.predict(rows) == wanted).all()
        assert len(set(wanted)) == 2
        if kind != "machine":
            agree(pipeline.predict_proba(rows), model.predict_proba(rows, cells=cells))
    shuffled = rows_of().iloc[:, ::-1]
    assert (model.to_sklearn().predict(shuffled) == model.to_sklearn().predict(rows_of())).all()


@pytest.mark.parametrize("kind", ["logistic", "number"])
def test_models_with_coefficients_for_reports_are_linear_everywhere(base, read, kind):
    """Their rows are never shortened, and numbers never moved within the label's range."""
    model, rows = of_table(base, kind), rows_of()
    model = replace(model, encoding=model.schema.encoding_for_coefficients(1.0), aim=Aim.INFERENCE)
    encoded = dense(read_rows(model, rows, "X", CellRules(), is_labelled=False).features)
    assert (np.linalg.norm(encoded, axis=1) > 1.1).mean() > 0.3
    found = [read(json.loads(model.to_plain_json()), row) for row in rows.to_dict("records")]
    if kind == "number":
        assert np.any(model.predict(rows) > PRICE.upper)
        agree(model.to_sklearn().predict(rows) / 43, model.predict(rows) / 43)
        agree(np.array(found) / 43, model.predict(rows) / 43)
    else:
        agree(model.to_sklearn().predict_proba(rows), model.predict_proba(rows))
        agree(np.array(found), model.predict_proba(rows))


def test_rows_are_really_shortened_and_clipped(base):
    """Otherwise the comparison above would say little about either."""
    model, rows = of_table(base, "logistic"), rows_of()
    inside = rows.assign(age=rows["age"].clip(0, 100), pay=rows["pay"].clip(-5, 1e6))
    assert (rows["age"] > 100).sum() > 20
    agree(model.to_sklearn().decision_function(rows), model.to_sklearn().decision_function(inside))
    encoded = dense(read_rows(model, rows, "X", CellRules(), is_labelled=False).features)
    lengths = np.linalg.norm(encoded, axis=1)
    assert (lengths > 1 - 1e-9).mean() > 0.5


@pytest.mark.parametrize("classes", [("a", "b"), (0, 1), (3, 5, 8), ("p", "q", "r", "s")])
@pytest.mark.parametrize("kind", ["logistic", "capped", "machine"])
def test_the_pipeline_of_an_array_predicts_the_same(base, kind, classes):
    model = of_array(base, kind, classes)
    X = np.random.default_rng(3).normal(0, 3, (200, 3))
    pipeline = model.to_sklearn()
    assert (pipeline.predict(X) == model.predict(X)).all()
    assert len(set(model.predict(X).tolist())) > 1
    if kind != "machine":
        agree(pipeline.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("has_bounds", [True, False])
def test_numbers_of_an_array(base, has_bounds):
    model, X = of_array(base, "number", has_bounds=has_bounds), np.random.default_rng(3).normal(0, 3, (200, 3))
    agree(model.to_sklearn().predict(X), model.predict(X))
    agree(of_table(base, "capped", constant=None).to_sklearn().predict_proba(rows_of()),
          of_table(base, "capped", constant=None).predict_proba(rows_of()))  # fmt: skip


def test_the_pipeline_needs_no_dpadmm(base, tmp_path):
    """In a process where it cannot be imported."""
    model, rows = of_table(base, "capped"), awkward_rows()
    cells = CellRules(missing="fill", unlisted="zero")
    joblib.dump(model.to_sklearn(cells=cells), tmp_path / "p.joblib")
    rows.to_pickle(tmp_path / "rows.pickle")
    texts = [sys.executable, "-c", BLOCKED, *(str(tmp_path / name) for name in ("p.joblib", "rows.pickle", "out.npy"))]
    done = subprocess.run(texts, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    agree(np.load(tmp_path / "out.npy"), model.predict_proba(rows, cells=cells))


def test_cells_that_are_not_allowed_are_refused(base):
    pipeline = of_table(base, "capped").to_sklearn()
    for name, cell in (("age", np.nan), ("sex", None), ("sex", "other"), ("ward", 4)):
        rows = rows_of(3).astype({name: object})
        rows.loc[1, name] = cell
        with pytest.raises(ValueError):
            pipeline.predict(rows)
    filled = of_table(base, "capped").to_sklearn(cells=CellRules(missing="fill"))
    with pytest.raises(ValueError):
        filled.predict(rows_of(3).assign(sex="other"))


@pytest.fixture(scope="module")
def read():
    """The reader of the page."""
    (source,) = [
        each for each in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S) if "def parts" in each
    ]
    assert len(source.splitlines()) <= 50
    space: dict[str, object] = {}
    exec(compile(source, str(PAGE), "exec"), space)
    return space["predict"]


@pytest.mark.parametrize("kind", list(LOSSES))
def test_the_reader_of_the_page_predicts_the_same(base, read, kind):
    for model in (of_table(base, kind), of_table(base, kind, seed=5, by_bounds=True, constant=None)):
        plain, rows = json.loads(model.to_plain_json()), awkward_rows()
        cells = rows.astype(object).where(rows.notna(), None)
        found = [read(plain, row) for row in cells.to_dict("records")]
        policies = CellRules(missing="fill", unlisted="zero")
        if kind == "number":
            agree(np.array(found) / 43, model.predict(rows, cells=policies) / 43)
        elif kind == "machine":
            agree(np.array(found)[:, 0], model.decision_function(rows, cells=policies))
        else:
            agree(found, model.predict_proba(rows, cells=policies))


def together(model, cap):
    """The same model with its classes trained as one."""
    return replace(model, loss=Softmax(len(model.schema.label.classes), cap))


@pytest.mark.parametrize("cap", [1.0, 0.7])
def test_the_pipeline_of_a_softmax_model_predicts_the_same(base, cap):
    model, X = together(of_array(base, "logistic", (3, 5, 8)), cap), np.random.default_rng(3).normal(0, 3, (200, 3))
    pipeline = model.to_sklearn()
    assert (pipeline.predict(X) == model.predict(X)).all()
    agree(pipeline.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("classes", [("a", "b"), (3, 5, 8)])
def test_the_reader_knows_arrays_and_more_classes(base, read, classes):
    made = [of_array(base, "capped", classes), of_array(base, "capped", classes, has_bounds=False)]
    made += [together(made[0], cap) for cap in (1.0, 0.7, 0.2) if len(classes) > 2]
    for model in made:
        X = np.random.default_rng(3).normal(0, 3, (50, 3))
        plain = json.loads(model.to_plain_json())
        names = [each["name"] for each in plain["columns"]]
        agree([read(plain, dict(zip(names, row, strict=True))) for row in X.tolist()], model.predict_proba(X))
    model, X = of_array(base, "number"), np.random.default_rng(3).normal(0, 3, (50, 3))
    plain = json.loads(model.to_plain_json())
    agree([read(plain, dict(zip(names, row, strict=True))) for row in X.tolist()], model.predict(X))
    assert plain["epsilon"] == model.guarantee.epsilon
    for origin in Origin:  # who reads the file alone must see that a simulation protects nobody
        reported = replace(model, guarantee=replace(model.guarantee, origin=origin)).to_plain_json()
        assert json.loads(reported)["is_private_release"] is (origin is Origin.SECURE)
