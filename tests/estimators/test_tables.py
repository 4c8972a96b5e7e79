"""One way for tables: the shell, a silo and the estimators read, screen and encode alike, and make the same model."""

import json
import pickle
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "'click", DeprecationWarning)
    from typer.testing import CliRunner

    from dpadmm.cli.main import app

from tests.grouped import grouped

from dpadmm.core.dataset import Dataset
from dpadmm.core.model import ReleasedModel
from dpadmm.data import BinaryLabel, Categorical, Numeric, RealLabel, Schema, ThresholdLabel
from dpadmm.data.tables import read_silos
from dpadmm.errors import InputError, LedgerError
from dpadmm.estimators import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression, ledger_data
from dpadmm.estimators.data import add_label, table_dataset
from dpadmm.estimators.owners import RowOwners
from dpadmm.evaluation import private_score
from dpadmm.federation.silo_directory import read_records
from dpadmm.models.predict import predict_from_scores, read_rows, score_rows
from dpadmm.privacy.ledger import Budget, Ledger
from dpadmm.settings import CellRules

COLUMNS = (Numeric("age", 0, 120, typical=50), Categorical("ward", ("01", "02")), Numeric("dose", 0, 10))
SICK = Schema(COLUMNS, BinaryLabel("sick", positive=("yes", "1"), negative=("no",)), constant=0.5)
COST = Schema(COLUMNS, RealLabel("cost", 0, 1000), row_norm=0.8)
AWKWARD = {"missing": "fill", "unlisted": "zero"}


@pytest.fixture
def hospital():
    """400 rows of two silos with an empty cell, an unlisted ward, a long dose, and columns that no schema names."""
    rng = np.random.default_rng(3)
    age = rng.integers(20, 90, 400).astype(object)
    sick = np.where(age + rng.normal(0, 8, 400) > 55, "yes", "no")
    age[7] = None
    table = pd.DataFrame(
        {
            "name": [f"person {i}" for i in range(400)],
            "dose": rng.normal(5, 2, 400).round(2),
            "ward": rng.choice(["01", "02", "09"], 400, p=[0.5, 0.45, 0.05]),
            "age": age,
            "sick": sick,
            "cost": (900 * (sick == "yes") + rng.uniform(0, 90, 400)).round(),
        }
    )
    table.loc[3, "dose"] = 99.0
    return table, np.repeat(["north", "south"], [250, 150])


@pytest.fixture
def shell(tmp_path, monkeypatch, hospital):
    """Run a command in a folder with the tables of both silos and both schemas; returns what it says."""
    monkeypatch.chdir(tmp_path)
    table, groups = hospital
    for name in ("north", "south"):
        table[groups == name].to_csv(f"{name}.csv", index=False)
    table.to_csv("all.csv", index=False)
    SICK.save("sick.json")
    COST.save("cost.json")

    def run(options, exit_code=0):
        done = CliRunner().invoke(app, options.split(), env={"COLUMNS": "300", "TERM": "dumb"})
        assert done.exit_code == exit_code, done.output
        return done.output

    return run


def features(table, label):
    return table[["ward", "dose", "age"]], table[label]


@pytest.mark.parametrize(
    ("kind", "options", "schema"),
    [
        (PrivateLogisticRegression, "", SICK),
        (PrivateLinearSVC, "--loss svm", SICK),
        (PrivateLinearRegression, "", COST),
    ],
)
@pytest.mark.parametrize("is_grouped", [True, False])
def test_the_shell_and_python_make_the_same_model(shell, hospital, kind, options, schema, is_grouped):
    table, groups = hospital
    name = schema.label.name
    files = "north.csv south.csv" if is_grouped else "all.csv"
    shell(
        f"fit {files} --schema {name}.json --epsilon 2 --delta 1e-5 --simulate 11 --anyway --out shell.json "
        f"--missing fill --unlisted zero {options}"
    )
    theirs = ReleasedModel.load("shell.json")
    X, y = features(table, name)
    ours = kind(2.0, 1e-5, **grouped(schema=f"{name}.json", random_state=11, **AWKWARD))
    with pytest.warns(UserWarning, match="simulated"):
        ours.fit(X, y, groups=groups if is_grouped else None)
    assert ours.released_.coefficients == theirs.coefficients
    assert ours.released_.loss == theirs.loss
    policies = CellRules(**AWKWARD)
    scores = score_rows(theirs, table, screening=policies)
    np.testing.assert_array_equal(ours._scores(X), scores)
    np.testing.assert_array_equal(ours.predict(X), predict_from_scores(theirs, scores))
    # A constant column is the intercept; the rest are the encoded features.
    assert np.atleast_2d(ours.coef_).shape == (1, schema.dimension - (schema.constant is not None))
    assert list(ours.feature_names_in_) == ["age", "ward", "dose"]


SPELLINGS = {1: [1, 1.0, "1", "01", " 1", "1.0", "+1", "001"], 2: [2, 2.0, "2", "02", "2 ", "2e0"]}
CELLS = st.sampled_from([(number, cell) for number, cells in SPELLINGS.items() for cell in cells])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(CELLS, min_size=2, max_size=6),
    st.sampled_from([("01", "02"), ("1", "2"), (1, 2), ("1.0", "2.0")]),
    st.sampled_from([None, "3", "one", ""]),
    st.sampled_from(["error", "fill", "zero", "blank"]),
)
def test_a_category_is_the_same_for_commands_silos_and_estimators(tmp_path_factory, cells, categories, odd, policy):
    place = tmp_path_factory.mktemp("doors")
    written = [cell for _, cell in cells] + ([] if odd is None else [odd])
    label = [str(i % 2) for i in range(len(written))]
    sick = BinaryLabel("sick", positive=("1",), negative=("0",))
    schema = Schema((Categorical("ward", categories),), sick, constant=None)
    schema.save(place / "schema.json")
    table = pd.DataFrame({"ward": pd.Series(written, dtype=object), "sick": label})
    table.to_csv(place / "table.csv", index=False)
    options = {"missing": policy if policy != "zero" else "fill", "unlisted": policy if policy != "fill" else "zero"}
    screening, encoding = CellRules(**options), schema.by_bounds()

    def shell():
        tables = read_silos([place / "table.csv"], None, protection=None)
        [silos] = Dataset.of_tables(schema, tables, screening).silos(encoding)
        return silos.features, silos.labels

    def silo():
        records = read_records(place / "table.csv", place / "schema.json", screening)
        return records.cells.rows(schema.by_bounds()), records.cells.labels

    def estimator():
        model = PrivateLogisticRegression(1.0, 1e-5, **grouped(schema=schema, fit_intercept=False, **options))
        labelled_table = add_label(model, table[["ward"]], table["sick"], "sick")
        [silos] = table_dataset(schema, model.screening, labelled_table, RowOwners()).silos(encoding)
        return silos.features, silos.labels

    found = []
    for way in (shell, silo, estimator):
        try:
            found.append(way())
        except InputError as refusal:
            found.append(str(refusal).partition(", row")[2])
    if odd is not None and policy == "error":
        assert found[0] == found[1] == found[2] != ""
        return
    for rows, labels in found[1:]:
        np.testing.assert_array_equal(rows, found[0][0])
        np.testing.assert_array_equal(labels, found[0][1])
    wanted = [[number == 1, number == 2] for number, _ in cells]
    np.testing.assert_array_equal(found[0][0][: len(cells)], np.array(wanted, dtype=float))


def test_fits_on_every_spelling_are_the_same(hospital):
    table, _ = hospital
    X, y = features(table, "sick")
    other = X.assign(ward=X["ward"].map({"01": 1, "02": 2.0, "09": "9"}).astype(object))[["age", "ward", "dose"]]
    model = PrivateLogisticRegression(2.0, 1e-5, **grouped(schema=SICK, random_state=1, **AWKWARD))
    with pytest.warns(UserWarning, match="simulated"):
        one, two = (clone(model).fit(rows, y).released_.coefficients for rows in (X, other))
    assert one == two


def test_a_ledger_of_the_shell_is_one_of_python_and_the_other_way_round(shell, hospital):
    table, groups = hospital
    X, y = features(table, "sick")
    fit = "fit north.csv south.csv --schema sick.json --epsilon 1 --delta 1e-6 --anyway --missing fill --unlisted zero"
    shell(f"{fit} --ledger shell.ledger --budget 4 --out one.json")
    model = PrivateLogisticRegression(1.0, 1e-6, **grouped(schema=SICK, ledger="shell.ledger", **AWKWARD)).fit(
        X, y, groups
    )
    assert model.released_.spending.ledger == "shell.ledger"
    assert len(model.released_.spending.runs) == 2
    private_score(model, X, y, epsilon=0.5, groups=groups, ledger="shell.ledger")
    # The whole table, with columns that the schema does not use, and the label among them.
    clone(model).fit(table, y, groups)
    Ledger.create("python.ledger", ledger_data(table, groups=groups), Budget(epsilon=4.0, delta=1e-5)).close()
    clone(model).set_params(ledger="python.ledger").fit(X, y, groups)
    shell(f"{fit} --ledger python.ledger --out two.json")
    with pytest.raises(LedgerError, match="other data"):
        model.fit(X.assign(dose=X["dose"] + 1), y, groups)


def test_a_model_of_python_is_one_of_the_shell(shell, hospital):
    table, groups = hospital
    X, y = features(table, "sick")
    Ledger.create("data.ledger", ledger_data(table, groups=groups), Budget(epsilon=4.0, delta=1e-5)).close()
    model = PrivateLogisticRegression(1.0, 1e-6, **grouped(schema=SICK, ledger="data.ledger", **AWKWARD)).fit(
        X, y, groups
    )
    model.released_.save("python.json")
    assert ReleasedModel.load("python.json") == model.released_
    said = json.loads(shell("predict python.json all.csv --missing fill --unlisted zero --json"))
    assert said["predictions"]["sick"] == model.predict(X).tolist()
    np.testing.assert_array_equal(said["predictions"]["probability"], model.predict_proba(X)[:, 1])
    shell("report python.json --out page.html --ledger data.ledger")
    assert "data.ledger" in Path("page.html").read_text()
    said = json.loads(
        shell("evaluate python.json all.csv --public made-up --declare published --missing fill --unlisted zero --json")
    )
    assert said["value"] == pytest.approx(model.score(X, y))
    model.released_.verify(ledger="data.ledger")
    with pytest.raises(InputError):
        replace(model.released_, run="another run").verify(ledger="data.ledger")


def test_one_label_in_a_list_never_changes_how_anothers_is_read():
    """As one array, a word among small floats would make texts of them all, and 0.1 no longer above 0.1."""
    schema, X = Schema((Numeric("a", 0, 1),), ThresholdLabel("y", 0.1)), pd.DataFrame({"a": [0.5, 0.5, 0.5]})
    small = [np.float32(0.1), np.float32(0.1)]
    read = [
        schema.label.read(add_label(PrivateLogisticRegression(1.0, 1e-5), X, [*small, last], "y")["y"]).values[:2]
        for last in (np.float32(0.3), "NA", None, 7)
    ]
    assert all(each.tolist() == [1.0, 1.0] for each in read)


def test_an_array_model_is_one_of_the_shell_too(shell, hospital):
    table, _ = hospital
    X, y = table[["dose", "cost"]], table["sick"]
    model = PrivateLogisticRegression(2.0, 1e-5, feature_bounds=((0, 0), (10, 1000)), classes=("no", "yes")).fit(X, y)
    model.released_.save("array.json")
    said = json.loads(shell("predict array.json all.csv --json"))
    assert said["predictions"]["label"] == model.predict(X).tolist()
    # Names that look like a record are not written down.
    model.fit(X.set_axis(["17.5", "900"], axis=1), y)
    assert model.released_.schema.column_names == ("column1", "column2")
    # A label is told apart from a column that is called label.
    model.fit(X.rename(columns={"dose": "label"}), y)
    assert model.released_.schema.label.name not in model.released_.schema.column_names
    # Nor are those of groups, which may be people's.
    model.fit(X, y, groups=np.repeat(["Meier", "Roth"], 200))
    assert [silo.name for silo in model.released_.silos] == ["silo 1", "silo 2"]


def test_labels_are_judged_by_what_they_mean(hospital):
    table, _ = hospital
    X, _ = features(table, "sick")
    model = PrivateLogisticRegression(9.0, 1e-5, **grouped(schema=SICK, **AWKWARD)).fit(X, table["sick"])
    # "1" is another word for "yes", and 1 is that "1".
    labels = table["sick"].map({"yes": 1, "no": "no"})
    assert model.score(X, labels) == model.score(X, table["sick"]) > 0.7
    assert set(model.predict(X)) <= {"no", "yes"}
    assert list(model.classes_) == ["no", "yes"]
    found = private_score(model, X, labels, epsilon=50.0)
    assert found.value == pytest.approx(model.score(X, labels), abs=0.01)
    above = Schema(COLUMNS, ThresholdLabel("cost", 500), constant=0.5)
    rich = PrivateLogisticRegression(9.0, 1e-5, **grouped(schema=above, **AWKWARD)).fit(X, table["cost"])
    assert set(rich.predict(X)) <= {"at most 500", "above 500"}
    assert rich.score(X, table["cost"]) > 0.7


def test_a_released_model_is_measured_as_its_estimator_is(hospital):
    """It scores each row alone, by its schema or its plain columns; no declaration is needed."""
    table, _ = hospital
    whole = table[(table.index != 7) & (table["ward"] != "09")]
    X, y = features(whole, "sick")
    model = PrivateLogisticRegression(9.0, 1e-5, schema=SICK).fit(X, y)
    labels = y.map({"yes": 1, "no": "no"})
    found = private_score(model.released_, X, labels, epsilon=50.0)
    assert found.value == pytest.approx(model.score(X, y), abs=0.01)
    assert not any("declared" in each for each in found.privacy.assumptions)
    with pytest.raises(InputError):
        private_score(model.released_, *features(table, "sick"), epsilon=50.0)
    numbers = X[["dose"]].to_numpy()
    plain = PrivateLinearRegression(20.0, 1e-5, feature_bounds=(0, 10), target_bounds=(0, 1000)).fit(
        numbers, whole["cost"]
    )
    error = np.abs(plain.predict(numbers) - whole["cost"]).mean()
    private = private_score(plain.released_, numbers, whole["cost"], epsilon=50.0, largest=1e4)
    assert private.value == pytest.approx(error, abs=20.0)


def test_numbers_are_in_the_units_of_the_table(hospital):
    table, _ = hospital
    X, y = features(table, "cost")
    model = PrivateLinearRegression(20.0, 1e-5, **grouped(schema=COST, **AWKWARD)).fit(X, y)
    found = model.predict(X)
    assert found.min() >= 0
    assert found.max() <= 1000
    error = np.abs(found - y.clip(0, 1000)).mean()
    private = private_score(model, X, y, epsilon=50.0, largest=1000.0)
    assert private.value == pytest.approx(error, abs=2.0)
    within = (found > 0) & (found < 1000)
    rows = read_rows(model.released_, X.reset_index(drop=True), "X", CellRules(**AWKWARD), is_labelled=False).features
    scores = RealLabel("cost", 0, 1000).decode(rows @ model.released_.weights[0])
    np.testing.assert_allclose(scores[within], found[within], rtol=1e-9)


def test_a_blanked_row_has_no_prediction(hospital):
    table, _ = hospital
    X, y = features(table, "sick")
    model = PrivateLogisticRegression(5.0, 1e-5, schema=SICK, cells=CellRules(missing="blank", unlisted="zero")).fit(
        X, y
    )
    found, chances = model.predict(X), model.predict_proba(X)
    assert found[7] is None
    assert np.isnan(chances[7]).all()
    assert np.isnan(model.decision_function(X)[7])
    assert np.isfinite(np.delete(chances, 7, axis=0)).all()
    assert model.score(X, y) == np.mean(np.delete(found, 7) == np.delete(y.to_numpy(), 7))


def test_an_estimator_with_a_schema_can_be_cloned_and_pickled(hospital):
    table, groups = hospital
    X, y = features(table, "sick")
    model = PrivateLinearSVC(5.0, 1e-5, **grouped(schema=SICK, **AWKWARD))
    assert clone(model).get_params() == model.get_params()
    assert "schema=" in repr(model)
    model.fit(X, y, groups=groups)
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.predict(X), model.predict(X))
    assert copied.released_ == model.released_
    assert not hasattr(clone(model), "released_")
    for cell in ("person 7", "99.0"):
        assert cell.encode() not in pickle.dumps(model)


def test_bounds_may_be_given_by_the_names_of_columns():
    frame = pd.DataFrame({"age": [20.0, 90.0] * 20, "dose": [0.5, 0.1] * 20})
    y = np.array(["no", "yes"] * 20)
    options = {"epsilon": 5.0, "delta": 1e-5, "classes": ("no", "yes"), "random_state": 0, "profile": "off"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        named = PrivateLogisticRegression(**grouped(feature_bounds={"dose": (0, 1), "age": (0, 120)}, **options)).fit(
            frame, y
        )
        listed = PrivateLogisticRegression(**grouped(feature_bounds=([0, 0], [120, 1]), **options)).fit(frame, y)
    np.testing.assert_array_equal(named.coef_, listed.coef_)
