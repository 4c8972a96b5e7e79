"""Tables of more than two classes through the commands: one softmax model, or one for each class."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import confusion_matrix
from tests.cli.conftest import STUDY_SCHEMA, study_tables

from dpadmm.core.model import ReleasedModel
from dpadmm.data.schema import Schema


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two tables of three classes, and their schema."""
    folder = tmp_path_factory.mktemp("classes")
    for name, table in study_tables().items():
        stage = pd.cut(table["age"], (0, 45, 65, 120), labels=["early", "middle", "late"])
        table.drop(columns="sick").assign(stage=stage).to_csv(folder / f"{name}.csv", index=False)
    label = {"kind": "classes", "name": "stage", "classes": ["early", "middle", "late"]}
    (folder / "schema.json").write_text(json.dumps(STUDY_SCHEMA | {"label": label, "row_norm": 1.0, "constant": 0.3}))
    return folder


def words(place, *others):
    files = [str(place / name) for name in ("north.csv", "south.csv")]
    return (*files, "--schema", str(place / "schema.json"), "--epsilon", "20", "--delta", "1e-5", *others)


def test_fit_predict_and_evaluate(cli, place, tmp_path):
    out = tmp_path / "model.json"
    cli.ask("fit", *words(place, "--view", "aggregate", "--colluders", "0", "--out", str(out)))
    model = ReleasedModel.load(out)
    assert model.softmax.n_classes == 3
    assert "C13" in model.statement
    assert model.guarantee.epsilon <= 20 * (1 + 1e-9)
    table = pd.read_csv(place / "north.csv")
    found = cli.ask("predict", str(out), str(place / "north.csv"))["predictions"]
    assert found["stage"] == model.predict(table).tolist()
    assert (model.predict(table) == table["stage"]).mean() > 0.5
    assert {"probability of early", "probability of middle", "probability of late"} <= set(found)
    said = cli.run("evaluate", str(out), str(place / "north.csv"), "--public", "a test", "--declare", "published")
    assert said.exit_code == 0, said.output
    refused = cli.run("predict", str(out), str(place / "north.csv"), "--threshold", "0.4")
    assert refused.exit_code != 0
    assert "threshold is for the probability of two classes" in refused.output


def test_a_private_confusion_matrix(cli, place, tmp_path):
    out, ledger = tmp_path / "model.json", str(tmp_path / "study.ledger")
    cli.ask("fit", *words(place, "--ledger", ledger, "--budget", "60", "--out", str(out)))
    files = [str(place / name) for name in ("north.csv", "south.csv")]
    asked = ("evaluate", str(out), *files, "--epsilon", "10", "--delta", "1e-5", "--ledger", ledger)
    said = cli.ask(*asked)
    table = pd.concat([pd.read_csv(file) for file in files])
    exact = confusion_matrix(table["stage"], ReleasedModel.load(out).predict(table), labels=["early", "middle", "late"])
    noise = said["uncertainty"] * np.sqrt(2) * len(table)
    assert said["classes"] == ["early", "middle", "late"]
    assert np.abs(np.array(said["confusion"]) - exact).max() < 6 * noise
    assert abs(said["value"] - np.trace(exact) / len(table)) < 6 * said["uncertainty"]
    assert said["others"][0]["score"] == "recall of early"
    assert said["declaration"].startswith("These records have trained the model, by their ledger")
    told = cli.run(*asked)
    assert "Records of each class (rows) by prediction (columns), each +- " in told.stdout
    assert told.stdout.rstrip().endswith("others may be predicted less well.")
    assert max(map(len, told.stdout.splitlines()[1:])) <= 100
    for measurement in ReleasedModel.load(out).measurements:
        assert measurement.epsilon == pytest.approx(10, rel=1e-5)
    assert cli.run("report", str(out)).exit_code == 0
    assert "These records have trained the model" in out.with_suffix(".html").read_text()
    other = ("--ledger", str(tmp_path / "other.ledger"), "--budget", "20")
    assert cli.ask(*asked[:3], *asked[4:8], *other)["declaration"] == ""


def test_a_model_for_each_class(cli, place, tmp_path):
    out = tmp_path / "model.json"
    weighted = ("--class-weight", "late=0.01", "--class-weight", "early=2")
    cli.ask("fit", *words(place, "--simulate", "1", "--multi-class", "one-vs-rest", *weighted, "--out", str(out)))
    model = ReleasedModel.load(out)
    assert "early: 2, middle: 1, late: 0.01" in model.statement
    assert (model.predict(pd.read_csv(place / "north.csv")) == "late").mean() < 0.1
    wrong = cli.run("fit", *words(place, "--class-weight", "later=2", "--out", str(tmp_path / "y.json")))
    assert "these are early, middle, late. Did you mean" in " ".join(wrong.output.split())
    twice = cli.run("fit", *words(place, *weighted, "--class-weight", "late=2", "--out", str(tmp_path / "y.json")))
    assert "--class-weight names 'late' twice" in twice.output
    assert model.softmax is None
    assert "3 one-vs-rest models" in model.statement
    one, several = (
        cli.ask("plan", *words(place, "--no-curve", *more)) for more in ((), ("--multi-class", "one-vs-rest"))
    )
    assert one["task"]["loss"].startswith("Softmax(n_classes=3")
    assert several["task"]["loss"].startswith("Logistic")
    assert several["task"]["epsilon"] < one["task"]["epsilon"]
    refused = cli.run(
        "fit", *words(place, "--loss", "svm", "--multi-class", "softmax", "--out", str(tmp_path / "x.json"))
    )
    assert "is for --loss logistic" in refused.output


def test_several_classes_are_drafted(cli, place, tmp_path):
    draft = tmp_path / "draft.json"
    words = ("schema", "init", str(place / "north.csv"), "--target", "stage", "--predict", "several-classes")
    assert cli.run(*words, "--out", str(draft)).exit_code == 0
    record = json.loads(draft.read_text())
    assert (record["label"]["kind"], len(record["label"]["classes"])) == ("classes", 1)
    refused = cli.run("schema", "check", str(draft))
    assert "label 'stage': write in 'classes' every class" in " ".join(refused.output.split())


def test_a_schema_of_classes(place):
    schema = Schema.load(place / "schema.json")
    assert Schema.from_json(schema.to_json()) == schema
    assert schema.label.describe() == "stage: one of 'early', 'middle', 'late'"
