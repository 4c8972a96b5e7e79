"""A model has an intercept unless its user states otherwise, so that its mean prediction can match any base rate."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.grouped import grouped

import dpadmm
from dpadmm import PrivateLinearRegression, PrivateLogisticRegression
from dpadmm.data import BinaryLabel, ClassLabel, Numeric, RealLabel, Schema
from dpadmm.settings import TrainingOptions
from dpadmm_research.datasets import adult
from dpadmm_research.datasets.adult_synthetic import adult_like_frame

pytestmark = pytest.mark.filterwarnings("ignore:.*NOT a private release")

N, NAMES = 4000, ["a", "b", "c"]
COLUMNS = tuple(Numeric(name, 0, 1) for name in NAMES)
X = pd.DataFrame(np.random.default_rng(0).uniform(0, 1, (N, 3)), columns=NAMES)
SICK = pd.Series(np.where(np.random.default_rng(1).random(N) < 0.1, "yes", "no"), name="sick")
SCHEMA = Schema(COLUMNS, BinaryLabel("sick", positive=("yes",), negative=("no",)))
BUDGET = {"epsilon": 20.0, "delta": 1e-5, "random_state": 0}


def by_estimator(**options):
    return PrivateLogisticRegression(**grouped(**BUDGET, **options)).fit(X, SICK).released_


def by_fit(*data, **options):
    return dpadmm.fit(*data, **grouped(epsilon=20.0, delta=1e-5, seed=0, **options))


def schema_file(folder, change=lambda record: record):
    place = folder / "schema.json"
    place.write_text(json.dumps(change(json.loads(SCHEMA.to_json()))), encoding="utf-8")
    return place


def unstated(record):
    return {name: value for name, value in record.items() if name != "constant"}


WAYS = {
    "an array with bounds": lambda _: by_estimator(feature_bounds=(0, 1), classes=("no", "yes")),
    "an array with a norm": lambda _: by_estimator(row_norm=2.0, classes=("no", "yes")),
    "a schema": lambda _: by_estimator(schema=SCHEMA),
    "a schema of another norm": lambda _: by_estimator(schema=Schema(COLUMNS, SCHEMA.label, row_norm=50.0)),
    "a schema file that does not mention it": lambda folder: by_estimator(schema=schema_file(folder, unstated)),
    "fit with a schema": lambda _: by_fit(X.assign(sick=SICK), schema=SCHEMA),
    "fit with a schema file that does not mention it": lambda folder: by_fit(
        X.assign(sick=SICK), schema=schema_file(folder, unstated)
    ),
    "fit with what is known of columns": lambda _: by_fit(
        X.assign(sick=SICK), target="sick", schema=dict.fromkeys(NAMES, (0, 1)) | {"sick": ("yes", "no")}
    ),
    "a schema without a constant": lambda _: by_estimator(schema=SCHEMA.with_constant(None)),
    "fit with a schema without a constant": lambda _: by_fit(X.assign(sick=SICK), schema=SCHEMA.with_constant(None)),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_mean_probability_is_the_base_rate(way, tmp_path):
    """Columns say nothing here, so the intercept alone can: without one it was 0.41 or more."""
    model = WAYS[way](tmp_path)
    rows = X if isinstance(model.schema, Schema) or "array" not in way else X.set_axis(model.schema.names, axis=1)
    assert model.predict_proba(rows)[:, 1].mean() == pytest.approx((SICK == "yes").mean(), abs=0.03)


@pytest.mark.parametrize("way", ["softmax", "one-vs-rest"])
def test_the_mean_probabilities_of_several_classes_are_their_shares(way):
    classes, shares = ("a", "b", "c"), (0.75, 0.2, 0.05)
    y = np.random.default_rng(2).choice(classes, N, p=shares)
    schema = Schema(COLUMNS, ClassLabel("kind", classes))
    model = PrivateLogisticRegression(**grouped(**BUDGET, schema=schema, multi_class=way)).fit(X, y)
    assert model.predict_proba(X).mean(axis=0) == pytest.approx(shares, abs=0.05)


def test_the_mean_of_a_number_is_matched():
    y = np.random.default_rng(3).uniform(80, 100, N)
    model = PrivateLinearRegression(**grouped(**BUDGET, schema=Schema(COLUMNS, RealLabel("cost", 0, 100)))).fit(X, y)
    assert model.predict(X).mean() == pytest.approx(90.0, abs=2.0)


@pytest.mark.parametrize("schema", [SCHEMA, SCHEMA.with_constant(None)])
def test_there_is_none_where_the_user_says_so_whatever_the_schema_has(schema):
    model = by_estimator(schema=schema, training=TrainingOptions(fit_intercept=False))
    table = by_fit(X.assign(sick=SICK), schema=schema, fit_intercept=False)
    for released in (model, table):
        assert len(released.coefficients) == 3
        assert "Intercept   none" in released.statement
    assert "Intercept" not in by_estimator(schema=schema).statement


@pytest.mark.slow
@pytest.mark.usefixtures("real_plans")
def test_the_shipped_schema_of_adult():
    """Without an intercept the mean probability was 0.44 and the log-loss 0.489."""
    frame = adult_like_frame(48_000, seed=0)
    model = PrivateLogisticRegression(5, 1e-5, schema=adult.SCHEMA, random_state=0).fit(frame, frame["income"])
    chances, is_high = model.predict_proba(frame)[:, 1], (frame["income"] == ">50K").to_numpy()
    assert chances.mean() == pytest.approx(is_high.mean(), abs=0.01)
    assert -np.log(np.where(is_high, chances, 1 - chances)).mean() < 0.36
