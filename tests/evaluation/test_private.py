"""What every private figure shares: people are paid for, the ledger records first, masks share the noise."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpadmm.errors import BudgetError, InputError
from dpadmm.estimators import PrivateLogisticRegression, SimulatedNoiseWarning, ledger_data
from dpadmm.evaluation import private_confusion, private_evaluation, private_score
from dpadmm.privacy.ledger import Budget, Ledger
from dpadmm.privacy.protection import Protection, View
from dpadmm.privacy.releases import Origin
from dpadmm.settings import Privacy

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (400, 2))
Y = (X[:, 0] + 0.3 * RNG.standard_normal(400) > 0).astype(int)
GROUPS = np.arange(400) % 4
DELTA = 1e-6


def score(model: Any, epsilon: float, **settings: Any) -> tuple[Any, float]:
    found = private_score(model, X, Y, epsilon, **{"delta": DELTA} | settings)
    return found, found.standard_error


def error(model: Any, epsilon: float, **settings: Any) -> tuple[Any, float]:
    return score(model, epsilon, largest=2.0, **settings)


def pure_score(model: Any, epsilon: float, **settings: Any) -> tuple[Any, float]:
    return score(model, epsilon, delta=None, **settings)


def confusion(model: Any, epsilon: float, **settings: Any) -> tuple[Any, float]:
    found = private_confusion(model, X, Y, epsilon, delta=DELTA, **settings)
    return found, found.noise_std


def counts(model: Any, epsilon: float, **settings: Any) -> tuple[Any, float]:
    found = private_evaluation(model, X, Y, epsilon, delta=DELTA, **settings)
    return found, found.noise_std


FIGURES: dict[str, Callable[..., tuple[Any, float]]] = {
    each.__name__: each for each in (pure_score, score, error, confusion, counts)
}
MASKABLE = [name for name in FIGURES if name != "pure_score"]


@pytest.fixture(scope="module")
def model() -> Any:
    public = {"feature_bounds": (-1, 1), "classes": (0, 1)}
    with pytest.warns(SimulatedNoiseWarning):
        return PrivateLogisticRegression(epsilon=9.0, delta=1e-5, random_state=0, **public).fit(X, Y)


def spent(path: Any) -> tuple[float, int]:
    with Ledger.open(path) as ledger:
        return ledger.statement().spent_epsilon, ledger.statement().releases


@pytest.mark.parametrize("name", FIGURES)
def test_people_with_several_records_or_silos_get_more_noise(model: Any, name: str) -> None:
    alone, noise = FIGURES[name](model, 0.7, groups=GROUPS)
    several, more = FIGURES[name](model, 0.7, groups=GROUPS, privacy=Privacy(records_per_person=3))
    twice, twofold = FIGURES[name](model, 0.7, groups=GROUPS, privacy=Privacy(silos_per_person=2))
    assert (more, twofold) == (pytest.approx(3 * noise, rel=1e-4), pytest.approx(2 * noise, rel=1e-4))
    assert several.privacy.protection == Protection(records_per_person=3)
    assert twice.privacy.protection == Protection(silos_per_person=2)
    for each in (alone, several, twice):
        assert each.privacy.origin is Origin.SECURE
        assert 0.7 * (1 - 1e-5) <= each.privacy.epsilon <= 0.7


@pytest.mark.parametrize("name", FIGURES)
def test_it_is_recorded_and_a_second_one_beyond_the_budget_is_refused(model: Any, name: str, tmp_path: Any) -> None:
    path = tmp_path / "l"
    Ledger.create(path, ledger_data(X, Y), Budget(epsilon=1.0, delta=DELTA)).close()
    FIGURES[name](model, 0.8, ledger=path)
    before = spent(path)
    assert before == (pytest.approx(0.8, rel=1e-5), 1)
    with pytest.raises(BudgetError):
        FIGURES[name](model, 0.8, ledger=path)
    assert spent(path) == before


@pytest.mark.parametrize("name", MASKABLE)
def test_under_masks_every_silo_adds_its_share_of_the_noise(model: Any, name: str, tmp_path: Any) -> None:
    """A ledger that counts what a coordinator sees records it; one against an eavesdropper does not cover it."""
    sums, masked = Protection(view=View.AGGREGATE, colluders=1), {"groups": GROUPS, "view": "aggregate"}
    paths = {view: tmp_path / view for view in ("sums", "all")}
    for view, path in paths.items():
        kept = {"protection": sums} if view == "sums" else {}
        Ledger.create(path, ledger_data(X, Y, GROUPS), Budget(epsilon=3.0, delta=DELTA), **kept).close()
    _, alone = FIGURES[name](model, 1.0, groups=GROUPS)
    for colluders in (1, 2):
        found, noise = FIGURES[name](model, 1.0, **masked, privacy=Privacy(colluders=colluders))
        assert noise == pytest.approx(alone * np.sqrt(4 / (4 - colluders)), rel=1e-4)
        assert found.privacy.protection == Protection(view=View.AGGREGATE, colluders=colluders)
        assert found.privacy.theorems == ("C10 + C12",)
    recorded, _ = FIGURES[name](model, 1.0, **masked, ledger=paths["sums"])
    assert spent(paths["sums"])[0] == pytest.approx(recorded.privacy.epsilon, rel=1e-6)
    with pytest.raises(InputError):
        FIGURES[name](model, 1.0, **masked, ledger=paths["all"])
    assert spent(paths["all"]) == (0.0, 0)
