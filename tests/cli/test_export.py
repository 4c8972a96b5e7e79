"""`dpadmm export`: files for programs without this package."""

import json

import joblib
import numpy as np
import pandas as pd

from dpadmm.core.model import ReleasedModel


def test_both_files_are_those_of_the_model(cli, study, trained, tmp_path):
    model, rows = ReleasedModel.load(trained.model), pd.read_csv(study.files[0])
    place = tmp_path / "p.joblib"
    assert cli.ask("export", str(trained.model), "--to", str(place))["file"] == str(place)
    assert np.abs(joblib.load(place).predict_proba(rows) - model.predict_proba(rows)).max() < 1e-12
    plain = tmp_path / "plain.json"
    assert cli.run("export", str(trained.model), "--to", str(plain)).exit_code == 0
    assert json.loads(plain.read_text()) == json.loads(model.to_plain_json())
