"""Public numbers that no arithmetic can carry are refused before anything is spent; large but sane ones train."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.grouped import grouped
from tests.marked_cells import N, T, X, Y, frame

from dpadmm.errors import InputError
from dpadmm.estimators import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression, ledger_data
from dpadmm.evaluation import private_score
from dpadmm.privacy.ledger import Budget, Ledger

pytestmark = pytest.mark.filterwarnings("ignore")
BOUNDS = {"feature_bounds": ((0, 0), (2e6, 1e18))}
SILOS = [f"silo {i % 2}" for i in range(N)]


def fit(kind: Any, target: Any = Y, groups: Any = None, **options: Any) -> Any:
    return kind(**grouped(**{"epsilon": 5.0, "delta": 1e-5, **BOUNDS, **options})).fit(X, target, groups=groups)


def linear(**options: Any) -> Any:
    return fit(PrivateLinearRegression, T, target_bounds=(0, 1e7), **options)


def logistic(**options: Any) -> Any:
    return fit(PrivateLogisticRegression, **options)


def score(ledger: Path) -> Any:
    model = PrivateLogisticRegression(epsilon=5.0, delta=1e-5, **BOUNDS).fit(frame(), Y)
    return private_score(model, frame(), Y, 1e40, ledger=ledger)


def lost_in_noise(method: str, ledger: Path) -> Any:
    """The tolerance of the local solves is below the rounding of an objective with so much noise in it."""
    return logistic(epsilon=1e-11, method=method, groups=SILOS, ledger=ledger)


REFUSED = {
    "row norm": (Y, None, lambda path: logistic(row_norm=1e-320, ledger=path)),
    "bounds": (Y, None, lambda path: logistic(row_norm=1e-200, feature_bounds=(-1e-200, 1e-200), ledger=path)),
    "epsilon": (Y, None, lambda path: logistic(epsilon=1e40, ledger=path)),
    "huber": (T, None, lambda path: linear(huber_threshold=1e200, ledger=path)),
    "hinge": (Y, None, lambda path: fit(PrivateLinearSVC, hinge_width=1e-300, ledger=path)),
    "metric": (Y, None, score),
    "dvp": (Y, SILOS, lambda path: lost_in_noise("dvp", path)),
    "m-admm": (Y, SILOS, lambda path: lost_in_noise("m-admm", path)),
    "r-admm": (Y, SILOS, lambda path: lost_in_noise("r-admm", path)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_and_nothing_spent(tmp_path: Path, name: str) -> None:
    target, groups, call = REFUSED[name]
    path, rows = tmp_path / "l", frame() if name == "metric" else X
    Ledger.create(path, ledger_data(rows, target, groups), Budget(epsilon=1e300, delta=1e-3)).close()
    with pytest.raises(InputError):
        call(path)
    with Ledger.open(path) as ledger:
        assert ledger.statement().releases == 0


@pytest.mark.parametrize("method", ["dvp", "m-admm", "r-admm"])
def test_less_noise_can_be_carried(method: str) -> None:
    assert np.all(np.isfinite(logistic(epsilon=1e-4, method=method, groups=SILOS).coef_))


def test_large_but_sane_public_numbers_still_train() -> None:
    assert np.all(np.isfinite(linear(huber_threshold=1e10).coef_))
