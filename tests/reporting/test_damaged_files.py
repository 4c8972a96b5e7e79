"""Damaged models, evaluations and schemas: read, or refused in one sentence that quotes no cell of the table."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.contracts import damage
from tests.evaluation.test_metrics import STATEMENT

from dpadmm.core.model import ReleasedModel
from dpadmm.data.schema import Schema
from dpadmm.evaluation import PrivateEvaluation
from dpadmm.evaluation.metrics import WIDTH
from dpadmm.models.files import digest_of

CELL = 73.125
FRAME = pd.DataFrame({"age": [10, CELL], "sex": ["F", "M"]})
NUMBER = [25, pytest.param(1000, marks=pytest.mark.slow)]


def signed_anew(key):
    """Return a damage of the facts, with the digest that fits: whoever edits a file can compute it."""

    def change(chance, content):
        whole = json.loads(content)
        damage.change(chance, whole[key])
        try:
            whole["digest"] = digest_of(whole[key])
        except ValueError:  # not a finite number
            whole["digest"] = "0" * 64
        return json.dumps(whole).encode()

    return change


def used(path):
    model = ReleasedModel.load(path)
    assert repr(model)
    with np.errstate(all="ignore"):  # a scale next to 0 is a number like others
        model.predict(FRAME)


@pytest.mark.parametrize("number", NUMBER)
@pytest.mark.parametrize("ending", [".json", ".npz"])
def test_models(model, tmp_path, ending, number):
    path = model.save(tmp_path / f"model{ending}")
    content = path.read_bytes()
    kinds = (signed_anew("model"), damage.of_json) if ending == ".json" else (damage.of_members,)
    copies = damage.attempts(1, number, content, damage.of_bytes, *kinds)
    assert damage.check(used, path, copies, secret=str(CELL)) > number / 2
    used(damage.written(path, content))


@pytest.mark.parametrize("number", NUMBER)
def test_schemas(model, tmp_path, number):
    path = tmp_path / "schema.json"
    model.schema.save(path)
    copies = damage.attempts(3, number, path.read_bytes(), damage.of_bytes, damage.of_json)

    def load(path):
        assert Schema.load(path).digest

    assert damage.check(load, path, copies) > number / 2


@pytest.mark.parametrize("number", NUMBER)
def test_evaluations(tmp_path, number):
    made = PrivateEvaluation(
        model="run",
        label="sick",
        classes=("no", "yes"),
        records=100,
        counts=(1.0,) * (2 * WIDTH),
        noise_std=1.0,
        privacy=STATEMENT,
        limit=8.0,
        has_probabilities=True,
    )
    path = made.save(tmp_path / "evaluation.json")
    copies = damage.attempts(4, number, path.read_bytes(), damage.of_bytes, damage.of_json, signed_anew("evaluation"))
    assert damage.check(PrivateEvaluation.load, path, copies) > number / 2
