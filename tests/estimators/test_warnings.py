"""Warnings of fits and figures: each is given before anything is spent, and says what to do."""

import re
import warnings

import pytest
from tests.builders import logistic
from tests.grouped import grouped

from dpadmm.estimators import LargeDeltaWarning, NoLedgerWarning, PrivateLogisticRegression, ledger_data, notices
from dpadmm.evaluation import private_score
from dpadmm.privacy.ledger import Budget, Ledger

MODEL = logistic()


@pytest.fixture(autouse=True)
def nothing_said_yet(monkeypatch):
    """Warnings that are given once per process are given again in every test."""
    monkeypatch.setattr(notices, "_WARNED", set())


def heard(kind, call):
    """Return the texts of one kind of warning that a call gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(each.message) for each in caught if issubclass(each.category, kind)]


def test_a_delta_above_one_over_n_warns_every_time(table):
    X, y, _, _ = table
    large = PrivateLogisticRegression(epsilon=1.0, delta=0.01, feature_bounds=(-1, 1), classes=(0, 1))
    for _ in range(2):
        (said,) = heard(LargeDeltaWarning, lambda: large.fit(X, y))
        assert (
            "delta 0.01 is above 1/n = 0.0033: such a guarantee allows somebody's record to be published outright"
            in said
        )
    assert heard(LargeDeltaWarning, lambda: MODEL.fit(X, y)) == []


@pytest.mark.filterwarnings("ignore::dpadmm.estimators.SimulatedNoiseWarning")
def test_a_release_without_a_ledger_is_announced_once(table, tmp_path):
    X, y, _, _ = table
    seeded = logistic(random_state=1)
    assert heard(NoLedgerWarning, lambda: seeded.fit(X, y)) == []
    path = tmp_path / "held.ledger"
    Ledger.create(path, ledger_data(X, y), Budget(epsilon=9.0, delta=1e-5)).close()
    booked = logistic(ledger=path)
    assert heard(NoLedgerWarning, lambda: booked.fit(X, y)) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoLedgerWarning)
        with pytest.raises(NoLedgerWarning):  # nobody has read it yet: it comes again
            MODEL.fit(X, y)
    (said,) = heard(NoLedgerWarning, lambda: MODEL.fit(X, y))
    assert "nothing records" in said
    assert heard(NoLedgerWarning, lambda: MODEL.fit(X, y)) == []


@pytest.mark.parametrize("has_groups", [False, True])
@pytest.mark.parametrize("people", [{}, {"records_per_person": 2, "view": "public"}])
def test_the_recipe_for_a_ledger_runs(table, tmp_path, monkeypatch, people, has_groups):
    """The arguments in the warning are used as they stand; the ledger they make takes the same fit, twice."""
    X, y, _, silos = table
    groups = silos if has_groups else None
    people = people | ({"silos_per_person": 2} if people and has_groups else {})
    options = {"epsilon": 1.0, "delta": 1e-5, "feature_bounds": (-1, 1), "classes": (0, 1), **people}
    (said,) = heard(NoLedgerWarning, lambda: PrivateLogisticRegression(**grouped(**options)).fit(X, y, groups=groups))
    assert "import" not in said
    (recipe,) = re.findall(r"PrivateLogisticRegression\(\.\.\., (.*?)\)", said)
    monkeypatch.chdir(tmp_path)
    model = PrivateLogisticRegression(**grouped(**options, **eval(f"dict({recipe})")))
    model.fit(X, y, groups=groups)
    model.fit(X, y, groups=groups)
    with Ledger.open("data.ledger") as held:
        assert held.statement().releases > 0


def test_the_recipe_of_a_figure_runs(table, tmp_path, monkeypatch):
    X, y, _, _ = table
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoLedgerWarning)
        model = MODEL.fit(X, y)
    notices._WARNED.clear()
    with pytest.warns(NoLedgerWarning) as caught:
        private_score(model, X, y, epsilon=1.0)
    assert caught[0].filename == __file__
    said = str(caught[0].message)
    monkeypatch.chdir(tmp_path)
    exec("\n".join(line.strip() for line in said.splitlines() if line.startswith("    ")), {"X": X, "y": y})
    assert private_score(model, X, y, epsilon=1.0, ledger="data.ledger").privacy.epsilon <= 1.0


def test_a_figure_with_a_large_delta_warns_before_anything_is_spent(table, tmp_path):
    X, y, _, _ = table
    path = tmp_path / "held.ledger"
    Ledger.create(path, ledger_data(X, y), Budget(epsilon=9.0, delta=0.1)).close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoLedgerWarning)
        model = MODEL.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LargeDeltaWarning)
        with pytest.raises(LargeDeltaWarning, match="above 1/n"):
            private_score(model, X, y, epsilon=1.0, delta=0.01, ledger=path)
        private_score(model, X, y, epsilon=1.0, delta=1e-5, ledger=path)
        private_score(model, X, y, epsilon=1.0, ledger=path)
    with Ledger.open(path) as held:
        assert held.statement().releases == 2
    with pytest.warns(LargeDeltaWarning) as caught:
        private_score(model, X, y, epsilon=1.0, delta=0.01, ledger=path)
    assert caught[0].filename == __file__


def test_warnings_point_at_the_caller_of_fit(table):
    X, y, _, _ = table
    with pytest.warns((NoLedgerWarning, LargeDeltaWarning)) as caught:
        PrivateLogisticRegression(epsilon=1.0, delta=0.01, feature_bounds=(-1, 1), classes=(0, 1)).fit(X, y)
    assert {each.filename for each in caught} == {__file__}
    assert {each.category for each in caught} == {NoLedgerWarning, LargeDeltaWarning}
