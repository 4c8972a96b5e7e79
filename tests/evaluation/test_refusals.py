"""What private figures refuse: every row of tests/snapshots/refusals/evaluation.txt."""

import json
from dataclasses import replace
from math import nan
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from tests.builders import logistic
from tests.evaluation.test_metrics import STATEMENT
from tests.evaluation.test_score import GROUPS, Threshold
from tests.refusals import check_refusals

from dpadmm.data.columns import BinaryLabel, Categorical, Numeric
from dpadmm.data.schema import Schema
from dpadmm.estimators import PrivateLinearRegression, PrivateLogisticRegression
from dpadmm.evaluation import PrivateEvaluation, private, private_confusion, private_evaluation
from dpadmm.evaluation.metrics import WIDTH
from dpadmm.settings import Privacy, TrainingOptions

X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
Y = (X[:, 0] > 0).astype(int)
PERSONS = np.arange(200) // 2
MASKED = {"view": "aggregate", "delta": 1e-6}
TABLE = pd.DataFrame({"age": np.arange(60) + 20, "sex": ["F", "M"] * 30, "sick": ["no"] * 30 + ["yes"] * 30})
COLUMNS = (Numeric("age", 0, 100), Categorical("sex", ("F", "M")))
SCHEMA = Schema(COLUMNS, BinaryLabel("sick", ("yes",), ("no",)))


class Shaped:
    """Predicts in a shape of its own."""

    def __init__(self, *shape):
        self.shape = shape

    def predict(self, X):
        return np.zeros(self.shape)


def score(model, **asked):
    """Return a private score of a model that scores each row alone, unless something else is said."""
    return private.private_score(model, **{"X": X, "y": Y, "epsilon": 1.0, "scores_rows_alone": True} | asked)


def evaluation(model, y=Y, rows=X, **asked):
    return private_evaluation(model, rows, y, 1.0, **{"delta": 1e-6} | asked)


def counted(**others):
    facts = {"model": "run", "label": "sick", "classes": ("no", "yes"), "limit": 8.0, "has_probabilities": True}
    counts = (0.0,) * (2 * WIDTH * (1 + len(others.get("groups", ()))))
    return PrivateEvaluation(**facts | others, counts=counts, records=10, noise_std=1.0, privacy=STATEMENT)


def load(text):
    Path("e.json").write_text(text)
    return PrivateEvaluation.load(Path("e.json"))


@pytest.mark.filterwarnings("ignore")
def test_refused(snapshot, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, public = logistic(epsilon=9.0, random_state=0).fit(X, Y), {"random_state": 0, "feature_bounds": (-1, 1)}
    off = TrainingOptions(profile="off")
    whole = json.loads(counted().save(Path("e.json")).read_text())
    whole["evaluation"]["noise_std"] /= 2
    made = {
        "model": model,
        "number": PrivateLinearRegression(9.0, 1e-5, target_bounds=(-1, 1), **public).fit(X, X[:, 0]),
        "of_table": PrivateLogisticRegression(9.0, 1e-5, schema=SCHEMA, random_state=0, training=off).fit(
            TABLE, TABLE["sick"]
        ),
        "confusion": private_confusion(model, X, Y, 1.0, delta=1e-6, random_state=0),
        "edited": json.dumps(whole),
    }
    check_refusals(snapshot, "evaluation", globals(), made)
