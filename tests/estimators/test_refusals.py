"""What estimators refuse, before anything is spent: every row of tests/snapshots/refusals/estimators.txt."""

from math import inf, nan

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.builders import logistic
from tests.estimators.test_tables import AWKWARD, COST, SICK
from tests.evaluation.test_score import Threshold
from tests.grouped import grouped
from tests.refusals import SNAPSHOTS, check_refusals, check_rows

from dpadmm.estimators import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateSearchCV,
    check_pipeline,
    ledger_data,
)
from dpadmm.evaluation import private_evaluation, private_score
from dpadmm.noise.sampler import SecureSampler
from dpadmm.privacy.ledger import Budget, Ledger
from dpadmm.privacy.protection import Protection, Unit
from dpadmm.problems.losses import Huber
from dpadmm.settings import Privacy

X = np.random.default_rng(0).uniform(-1, 1, (40, 2))
Y = (X[:, 0] > 0).astype(int)
THREE = np.digitize(X[:, 0], (-0.3, 0.3))
PERSONS = np.arange(40) // 2
GRID = {"alpha": [0.1, 1.0]}
ROWS = pd.DataFrame({"ward": ["01", "02"] * 20, "dose": 5.0, "age": np.arange(40) + 30})
SICK_OR_NOT = pd.Series(["yes", "no"] * 20, name="sick")


class OwnHuber(Huber):
    """A loss of a user's own."""


class OwnRegression(PrivateLinearRegression):
    """An estimator with a loss of its own."""

    def _loss(self):
        return OwnHuber(0.5)


def fit(X=X, y=Y, groups=None, persons=None, **options):
    return logistic(**options).fit(X, y, groups=groups, persons=persons)


def fit_table(rows, labels, kind=PrivateLogisticRegression, **options):
    return kind(1.0, 1e-5, **grouped(**{"schema": SICK, "random_state": 0} | options)).fit(rows, labels)


def search(model=None, grid=GRID, compared=2, data=(None, None)):
    return PrivateSearchCV(logistic() if model is None else model, grid, compared=compared).fit(*data)


@pytest.mark.filterwarnings("ignore")
def test_refused_and_nothing_spent(snapshot, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    of_persons = fit(random_state=0, persons=PERSONS)
    data, budget = ledger_data(X, Y), Budget(epsilon=9.0, delta=1e-5)
    for name, own in (("own", {}), ("users", {"unit": Unit.USER}), ("persons", {"unit": Unit.PERSON})):
        whose = ledger_data(X, Y, persons=PERSONS) if name == "persons" else data
        Ledger.create(f"{name}.ledger", whose, budget, protection=Protection(**own)).close()

    def draw(*_args, **_kwargs):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(SecureSampler, "perturb", draw)
    with Ledger.create("open.ledger", data, budget) as held:
        names = {"confirmed": held.confirm(data), "of_persons": of_persons}
        check_refusals(snapshot, "estimators", globals(), names)
        assert held.statement().releases == 0
    for name in ("own", "users", "persons"):
        with Ledger.open(f"{name}.ledger") as held:
            assert held.statement().releases == 0
    said = [line for line in (SNAPSHOTS / "estimators.txt").read_text().splitlines() if not line.startswith(">>>")]
    assert not [line for line in said if "Jane" in line or "SECRET" in line]


@pytest.mark.filterwarnings("ignore")
def test_statements(snapshot):
    """Every row of tests/snapshots/refusals/statements.txt: what fits, searches and figures say of their privacy."""
    check_rows(snapshot, "statements", globals())
