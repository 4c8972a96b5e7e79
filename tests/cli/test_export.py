"""`dpadmm export`: files for programs without this package; refusals that change nothing."""

import json

import joblib
import numpy as np
import pandas as pd
import pytest

from dpadmm.core.model import ReleasedModel


def test_both_files_are_those_of_the_model(cli, study, trained, tmp_path):
    model, rows = ReleasedModel.load(trained.model), pd.read_csv(study.files[0])
    place = tmp_path / "p.joblib"
    assert cli.ask("export", str(trained.model), "--to", str(place))["file"] == str(place)
    assert np.abs(joblib.load(place).predict_proba(rows) - model.predict_proba(rows)).max() < 1e-12
    plain = tmp_path / "plain.json"
    said = cli.run("export", str(trained.model), "--to", str(plain)).stdout
    assert "can be used without dpadmm" in said
    assert json.loads(plain.read_text()) == json.loads(model.to_plain_json())
    again = cli.run("export", str(trained.model), "--to", str(plain))
    assert (again.exit_code, "--force" in again.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--to p.pickle", "must end in .joblib"),
        ("--to plain.json --missing fill", "are for .joblib"),
        ("--to p.joblib --unlisted zero", "Add missing='fill'"),
    ],
)
def test_what_is_refused_writes_nothing(cli, trained, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    result = cli.run("export", str(trained.model), *words.split())
    assert result.exit_code == 2
    assert message in result.stderr
    assert not list(tmp_path.iterdir())
