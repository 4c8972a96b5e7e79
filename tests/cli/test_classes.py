"""Tables of more than two classes through the commands: one softmax model, or one for each class."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import confusion_matrix
from tests.cli.conftest import STUDY_SCHEMA, study_tables

from dpadmm.core.model import ReleasedModel

pytestmark = pytest.mark.usefixtures("instant_forecasts")


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


def args(place, *others):
    files = [str(place / name) for name in ("north.csv", "south.csv")]
    return (*files, "--schema", str(place / "schema.json"), "--epsilon", "20", "--delta", "1e-5", *others)


def test_one_softmax_model_is_fitted_used_and_measured(cli, place, tmp_path):
    out, ledger, files = tmp_path / "model.json", str(tmp_path / "study.ledger"), args(place)[:2]
    cli.ask("fit", *args(place, "--ledger", ledger, "--budget", "60", "--out", str(out)))
    model, table = ReleasedModel.load(out), pd.read_csv(place / "north.csv")
    assert model.softmax.n_classes == 3
    found = cli.ask("predict", str(out), files[0])["predictions"]
    assert found["stage"] == model.predict(table).tolist()
    assert (model.predict(table) == table["stage"]).mean() > 0.5
    assert {"probability of early", "probability of middle", "probability of late"} <= set(found)
    assert cli.run("predict", str(out), files[0], "--threshold", "0.4").exit_code == 2
    said = cli.ask("evaluate", str(out), *files, "--epsilon", "10", "--delta", "1e-5", "--ledger", ledger)
    both = pd.concat([pd.read_csv(file) for file in files])
    exact = confusion_matrix(both["stage"], model.predict(both), labels=said["classes"])
    assert said["classes"] == ["early", "middle", "late"]
    assert np.abs(np.array(said["confusion"]) - exact).max() < 6 * said["uncertainty"] * np.sqrt(2) * len(both)
    assert said["declaration"].startswith("These records have trained the model, by their ledger")
    (measured,) = ReleasedModel.load(out).measurements
    assert measured.epsilon == pytest.approx(10, rel=1e-5)
