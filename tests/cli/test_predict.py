"""`dpadmm predict`: the table's own words, from the saved model alone."""

import io

import numpy as np
import pandas as pd
from scipy.special import expit

from dpadmm.core.model import ReleasedModel
from dpadmm.data.schema import Schema
from dpadmm.data.tables import encode_table


def test_predictions_are_those_of_the_coefficients(cli, study, trained, tmp_path):
    frame = pd.read_csv(study.files[1]).drop(columns="sick")
    frame.to_csv(tmp_path / "new.csv", index=False)
    found = pd.read_csv(io.StringIO(cli.run("predict", str(trained.model), str(tmp_path / "new.csv")).stdout))
    model = ReleasedModel.load(trained.model)
    features = encode_table(Schema.load(study.schema), frame, is_labelled=False, encoding=model.encoding).features
    scores, cap = features @ np.array(model.coefficients), model.linked.slope_bound
    pulls = np.minimum(expit(scores), cap), np.minimum(expit(-scores), cap)
    np.testing.assert_allclose(found["probability"], pulls[0] / (pulls[0] + pulls[1]), rtol=1e-12)
    assert found["sick"].tolist() == np.where(scores > 0, "yes", "no").tolist()
    said = cli.ask("predict", str(trained.model), str(tmp_path / "new.csv"))
    assert said["rows"] == 200
    assert said["predictions"]["sick"] == found["sick"].tolist()


def test_awkward_rows_are_refused_filled_or_left_empty(cli, study, trained, tmp_path):
    frame = pd.read_csv(study.files[1], dtype=str).drop(columns="sick").head(3)
    frame.loc[1, "age"] = None
    frame.to_csv(tmp_path / "new.csv", index=False)
    args = ("predict", str(trained.model), str(tmp_path / "new.csv"))
    assert cli.ask(*args, "--missing", "fill")["predictions"]["sick"][1] in ("yes", "no")
    assert cli.ask(*args, "--missing", "blank")["predictions"]["sick"][1] is None
    out = tmp_path / "p.csv"
    assert "Wrote 3 predictions" in cli.run(*args, "--missing", "fill", "--out", str(out)).stdout
    assert len(pd.read_csv(out)) == 3


def test_an_identifier_stands_beside_each_prediction(cli, study, trained, tmp_path):
    """As it is in the file: with a decimal comma, 12.345 is a number, but an identifier is none."""
    frame = pd.read_csv(study.files[1]).drop(columns="sick").head(2)
    german = frame.assign(who=["12.345", ""], pressure=["120,5", "131,25"])
    german.to_csv(tmp_path / "new.csv", sep=";", index=False)
    args = ("predict", str(trained.model), str(tmp_path / "new.csv"), "--decimal", ",", "--id", "who")
    said = cli.run(*args)
    assert f"{tmp_path / 'new.csv'} read as: semicolons, decimal comma, utf-8, header" in said.stderr
    found = pd.read_csv(io.StringIO(said.stdout), dtype=str)
    assert found.columns.tolist() == ["who", "sick", "probability"]
    assert found["who"].tolist()[0] == "12.345"
    assert cli.ask(*args)["predictions"]["who"] == ["12.345", None]
    frame.assign(probability=1).to_csv(tmp_path / "new.csv", index=False)
    assert "Rename it" in cli.run(*args[:3], "--id", "probability").stderr
