"""What the package's functions refuse, before anything is spent: every row of tests/snapshots/refusals/front.txt."""

from math import nan
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.front.test_streaming import table
from tests.grouped import grouped
from tests.refusals import check_refusals

import dpadmm
from dpadmm.data import BinaryLabel, Categorical, Numeric
from dpadmm.estimators import ledger_data
from dpadmm.privacy.ledger import Budget, Ledger
from dpadmm.problems.silos import Silos
from dpadmm.settings import TrainingOptions

X = np.random.default_rng(0).uniform(-0.5, 0.5, (90, 4))
Y = np.sign(X[:, 0])
PARTS = [(X[part::3], Y[part::3]) for part in range(3)]
STATED = {"epsilon": 1.0, "delta": 1e-5, "rounds": 5, "eta": 0.05, "mu": 0.01}
PARQUET = ["north.parquet", "south.parquet"]
KNOWN = {"age": (0, 120), "dose": (0, 10), "sick": ("yes", "no")}
COLUMNS = (Numeric("age", 0, 120), Numeric("dose", 0, 10), Categorical("ward", ("01", "02", "03")))


def run(method="p-admm", silos=PARTS, **changes):
    return dpadmm.run(method, silos, **{**STATED, **changes})


def fit(data="north.csv", target=None, **changes):
    return dpadmm.fit(data, target, **grouped(**{"schema": "schema.json", "epsilon": 3.0, "delta": 1e-5} | changes))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Stand beside tables as text and as Parquet, in memory and in pieces, with a schema and the ledger of arrays."""
    monkeypatch.chdir(tmp_path)
    north, south = table(300, 0).assign(dose=5.0), table(200, 1).assign(dose=5.0)
    for name, part in (("north", north), ("south", south), ("copy", north)):
        part.to_csv(f"{name}.csv", index=False)
        part.to_parquet(f"{name}.parquet")
    table(300, 0).to_parquet("gaps.parquet")
    Path("big").mkdir()
    north.to_parquet("big/1.parquet")
    dpadmm.Schema(COLUMNS, BinaryLabel("sick", positive=("yes",), negative=("no",))).save("schema.json")
    groups = np.repeat(["silo 0", "silo 1", "silo 2"], 30)
    data = ledger_data(np.vstack([x for x, _ in PARTS]), np.concatenate([y for _, y in PARTS]), groups)
    Ledger.create(Path("parts.ledger"), data, Budget(epsilon=1.1, delta=1e-5)).close()
    return tmp_path


def test_refused_and_nothing_spent_or_written(snapshot, place, real_plans):
    before = {each: each.read_bytes() for each in place.rglob("*") if each.is_file()}
    check_refusals(snapshot, "front", globals())
    assert {each: each.read_bytes() for each in place.rglob("*") if each.is_file()} == before
