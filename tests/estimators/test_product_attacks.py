"""Attacks on whole fits and figures: races, copies put back, interrupts at the commit, people with several records."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dpadmm.errors import LedgerError
from dpadmm.estimators import PrivateLogisticRegression, ledger_data
from dpadmm.evaluation import private_score
from dpadmm.noise.sampler import SecureSampler
from dpadmm.privacy.curves import epsilon_of_delta, m_of
from dpadmm.privacy.ledger import Budget, Ledger, store
from dpadmm.settings import Privacy, TrainingOptions
from dpadmm_research.audit.estimates import clopper_pearson_bound

EACH, BUDGET = 0.4, Budget(epsilon=1.0, delta=1e-5)
MOST = int(m_of(BUDGET.epsilon, BUDGET.delta) ** 2 / m_of(EACH, BUDGET.delta) ** 2 * (1 + 1e-9))  # fits that fit


def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 2))
    return X, (X[:, 0] > 0).astype(int)


def estimator(path):
    return PrivateLogisticRegression(
        epsilon=EACH,
        delta=1e-5,
        feature_bounds=(-1, 1),
        classes=(0, 1),
        ledger=path,
        training=TrainingOptions(row_norm=1.0),
    )


@pytest.fixture
def held(tmp_path):
    path = tmp_path / "held.ledger"
    Ledger.create(path, ledger_data(*data()), BUDGET).close()
    return path


def spent(path):
    with Ledger.open(path) as ledger:
        return ledger.statement().spent_epsilon


PROCESS = """
import json, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[2])
from dpadmm.errors import BudgetError
from tests.estimators import test_product_attacks as here

models = []
sys.stdin.readline()  # until all are ready
for _ in range(here.MOST + 1):
    try:
        models.append(here.estimator(sys.argv[1]).fit(*here.data()).coef_.tolist())
    except BudgetError:
        break
print(json.dumps(models))
"""


def test_fits_of_three_processes_race_for_one_budget(held):
    """However they interleave, as many models leave as the budget pays for, each with noise of its own."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", PROCESS, str(held), str(root)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ)
        for _ in range(3)
    ]
    released = []
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        out, _ = process.communicate(timeout=300)
        assert process.returncode == 0
        released += json.loads(out)
    assert MOST >= 3
    assert len(released) == MOST
    assert len({json.dumps(model) for model in released}) == MOST
    assert spent(held) <= BUDGET.epsilon


def test_a_ledger_put_back_by_hand_is_noticed_before_any_noise(held, tmp_path, monkeypatch):
    kept = tmp_path / "copy"
    shutil.copy(held, kept)
    estimator(held).fit(*data())
    before = spent(held)
    shutil.copy(kept, held)
    drawn = []
    monkeypatch.setattr(SecureSampler, "perturb", lambda *_a, **_k: drawn.append(1))
    with pytest.raises(LedgerError, match="older copy"):
        estimator(held).fit(*data())
    assert before > 0
    assert not drawn


@pytest.mark.parametrize(("point", "is_paid"), [("append", False), ("write_anchor", True)])
def test_an_interrupt_at_the_commit(held, monkeypatch, point, is_paid):
    """Before it nothing is recorded, after it all is; in neither case has anything been drawn."""
    drawn, right = [], getattr(store, point)
    perturb = SecureSampler.perturb
    monkeypatch.setattr(SecureSampler, "perturb", lambda *a, **k: (drawn.append(1), perturb(*a, **k))[1])

    def interrupt(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(store, point, interrupt)
    model = estimator(held)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*data())
    assert not drawn
    assert not hasattr(model, "coef_")
    monkeypatch.setattr(store, point, right)
    assert (spent(held) > 0) is is_paid
    estimator(held).fit(*data())
    fits = 2 if is_paid else 1
    assert spent(held) == pytest.approx(_epsilon(fits), rel=1e-6)


def _epsilon(fits):
    return epsilon_of_delta(np.sqrt(fits) * m_of(EACH, 1e-5), 1e-5)


class Half:
    """A public model."""

    def predict(self, X):
        return (np.asarray(X)[:, 0] > 0).astype(int)


def test_a_private_figure_hides_people_with_several_records():
    """All records of one person answer the other way; Laplace noise is then as tight as can be. Fails once in 1e6."""
    rng, runs, records = np.random.default_rng(1), 1500, 3
    X = rng.uniform(-1, 1, (200, 1))
    right = (X[:, 0] > 0).astype(int)
    labels = np.where(np.arange(200) < 100, right, 1 - right)  # an accuracy of a half, far from the ends
    other = labels.copy()
    other[:records] = 1 - other[:records]

    def figures(y):
        ask = {"privacy": Privacy(records_per_person=records), "scores_rows_alone": True}
        return [private_score(Half(), X, y, 2.0, **ask).value for _ in range(runs)]

    found = clopper_pearson_bound(figures(labels), figures(other), confidence=1 - 1e-6)
    assert 0.7 < found.epsilon_lower <= 2.0
