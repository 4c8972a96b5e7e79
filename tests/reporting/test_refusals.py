"""What released models and their files refuse: every row of tests/snapshots/refusals/models.txt."""

import json
from dataclasses import replace
from math import nan
from pathlib import Path

import numpy as np
import pandas as pd
from tests.refusals import check_refusals
from tests.reporting.test_intervals import facts as curvature_facts
from tests.reporting.test_released import BOUNDED, ROWS, SICK, plain

from dpadmm.codec import encode
from dpadmm.core.model import ReleasedModel
from dpadmm.data.columns import ArrayLabel, Categorical, RealLabel
from dpadmm.data.schema import Schema
from dpadmm.models.files import sign_facts
from dpadmm.models.predict import score_rows
from dpadmm.privacy.ledger import Budget, Ledger, SiloColumns
from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge, Softmax
from dpadmm.settings import CellRules

THREE = ArrayLabel("ward", (3, 5, 8))
CELLS = pd.DataFrame({"column1": ["5", None, "11"], "column2": ["1", "1", "x"], "sick": ["yes", "no", "no"]})


def load(document):
    Path("m.json").write_text(json.dumps(document))
    return ReleasedModel.load(Path("m.json"))


def test_refused(model, snapshot, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Ledger.create(
        Path("other.ledger"), (SiloColumns("clinic", {"x": np.arange(6.0)}),), Budget(epsilon=9.0, delta=1e-5)
    ).close()
    document = json.loads(model.save("model.json").read_text())
    weights = (2.0, -1.0, 0.3)

    def made(label, loss):
        return plain(model, BOUNDED, label, weights if label is SICK else (weights,) * 3, loss)

    def load_signed(**changes):
        Path("m.json").write_bytes(sign_facts(encode(model) | changes))
        return ReleasedModel.load(Path("m.json"))

    names = {
        "of_array": plain(model, BOUNDED, SICK, weights),
        "machine": made(SICK, SmoothedHinge()),
        "number": plain(model, BOUNDED, RealLabel("cost", 100.0, 300.0), weights, Huber(0.5)),
        "several": made(THREE, Logistic()),
        "curvature": curvature_facts(d=5),
        "facts": document["model"],
    }
    check_refusals(snapshot, "models", globals(), names, locals())
