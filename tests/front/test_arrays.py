"""The front door: one import, one result, and every fault told before anything is spent."""

import pickle

import numpy as np
import pytest

import dpadmm
from dpadmm.errors import BudgetError, InputError
from dpadmm.estimators import ledger_data
from dpadmm.methods.p_admm import PADMM
from dpadmm.networks.graph import complete
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.curves import m_of
from dpadmm.privacy.ledger import Budget
from dpadmm.privacy.protection import Protection, Unit
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.silos import Silos
from dpadmm.testing import run_private

_X = np.random.default_rng(0).uniform(-0.5, 0.5, (90, 4))
_PARTS = [(_X[part::3], np.sign(_X[part::3, 0])) for part in range(3)]
_STATED = {"epsilon": 1.0, "delta": 1e-5, "rounds": 5, "eta": 0.05, "mu": 0.01}


def test_the_front_entry_point_offers_exactly_what_it_states() -> None:
    linear = {"PrivateLinearRegression", "PrivateLinearSVC", "PrivateLogisticRegression", "PrivatePoissonRegressor"}
    estimators = linear | {"PrivateSearchCV"}
    records = {"CellRules", "OutputFiles", "Privacy", "TableOptions", "TrainingOptions"}
    assert dir(dpadmm) == sorted(
        {"Ledger", "Schema", "data", "fit", "load", "minimise", "plan", "run"} | estimators | records
    )
    for name in dir(dpadmm):
        assert getattr(dpadmm, name).__doc__
    with pytest.raises(AttributeError, match="'plan'"):
        dpadmm.plann  # noqa: B018


def test_a_stated_run_is_the_run_of_its_parts() -> None:
    done = dpadmm.run("p-admm", _PARTS, seed=3, **_STATED)
    silos = Silos.from_parts([x for x, _ in _PARTS], [y for _, y in _PARTS], 1.0)
    problem = Problem.of(EmpiricalRisk(silos, Logistic(), mu=0.01))
    by_hand = run_private(PADMM(eta=0.05), problem, 5, Target(1.0, 1e-5), SimulatedSampler(3), complete(3))
    np.testing.assert_array_equal(done.model, by_hand.run.estimate[:, 0])
    assert done.epsilon == pytest.approx(1.0)
    assert not done.is_private_release
    assert str(done).startswith("p-admm(eta=0.05), 5 rounds: NOT a private release")


def test_names_order_and_objects_are_the_same_silos() -> None:
    named = dict(zip("abc", _PARTS, strict=True))
    silos = Silos.from_parts([x for x, _ in _PARTS], [y for _, y in _PARTS], 1.0)
    first, *others = (dpadmm.run("p-admm", each, seed=1, **_STATED).model for each in (_PARTS, named, silos))
    for model in others:
        np.testing.assert_array_equal(model, first)


def test_a_run_without_numbers_is_planned_and_costs_what_was_asked() -> None:
    done = dpadmm.run("noisy-gradients", _PARTS, epsilon=2.0, delta=1e-6, view="public")
    assert done.is_private_release
    assert 1.9 < done.epsilon <= 2.0
    assert done.model.shape == (4,)


def test_a_run_is_recorded_before_it_is_drawn_and_refused_when_nothing_is_left(tmp_path) -> None:  # type: ignore[no-untyped-def]
    place = tmp_path / "a.ledger"
    X, y = np.vstack([x for x, _ in _PARTS]), np.concatenate([y for _, y in _PARTS])
    groups = np.repeat(["silo 0", "silo 1", "silo 2"], 30)
    dpadmm.Ledger.create(place, ledger_data(X, y, groups), Budget(epsilon=1.1, delta=1e-5)).close()
    dpadmm.run("p-admm", _PARTS, ledger=place, **_STATED)
    with pytest.raises(BudgetError):
        dpadmm.run("p-admm", _PARTS, ledger=place, **_STATED)


def test_a_stored_result_holds_no_rows() -> None:
    """What was run is told with the problem's public side, stated and planned alike, and does not change by that."""
    for given in (_STATED, {"epsilon": 1.0, "delta": 1e-6}):
        done = dpadmm.run("p-admm", _PARTS, **given)
        stored = pickle.dumps(done)
        assert not any(each.tobytes() in stored for x, y in _PARTS for each in (*x, y))
        again = pickle.loads(stored)
        assert np.array_equal(again.dynamic_zcdp, done.dynamic_zcdp)


def test_what_the_ledger_and_the_silos_statement_is_what_is_run(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """A ledger's people, and rows that are longer than 1, are counted without being said again."""
    place, hidden = tmp_path / "a.ledger", Protection(records_per_person=3)
    X, y = np.vstack([x for x, _ in _PARTS]), np.concatenate([y for _, y in _PARTS])
    data = ledger_data(X, y, np.repeat(["silo 0", "silo 1", "silo 2"], 30))
    dpadmm.Ledger.create(place, data, Budget(epsilon=1.1, delta=1e-5), protection=hidden).close()
    assert dpadmm.run("p-admm", _PARTS, ledger=place, **_STATED).account.protection == hidden
    long = [(8 * x, y) for x, y in _PARTS]
    done = dpadmm.run("noisy-gradients", long, epsilon=2.0, delta=1e-6, view="public", row_norm=8.0, seed=0)
    assert "norm at most 8;" in done.spec.setting.problem.functions.constants.assumption


def test_every_silo_pays_for_itself_whatever_the_order_of_names(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """A ledger lists silos by name: eleven of them, or a mapping in another order, must not be mixed up."""
    place = tmp_path / "a.ledger"
    sizes = {f"s{i}": 20 + i for i in (3, 1, 2)}
    silos = {name: (_X[:size], np.sign(_X[:size, 0])) for name, size in sizes.items()}
    rows = [silos[name] for name in sorted(silos)]
    X, y = np.vstack([x for x, _ in rows]), np.concatenate([y for _, y in rows])
    groups = np.repeat(sorted(silos), [sizes[name] for name in sorted(silos)])
    dpadmm.Ledger.create(place, ledger_data(X, y, groups), Budget(epsilon=1.1, delta=1e-5)).close()
    done = dpadmm.run("p-admm", silos, ledger=place, **_STATED)
    assert done.spec.setting.problem.functions.sizes.tolist() == [21, 22, 23]
    many = dpadmm.run("p-admm", [_PARTS[0]] * 11, seed=0, **_STATED)
    assert list(many.silos) == [f"silo {i:02}" for i in range(11)]


def test_a_weaker_observer_and_another_unit_may_be_asked_for() -> None:
    reported = {"epsilon": 1.0, "delta": 1e-5, "rounds": 3, "seed": 0}
    assert dpadmm.run("p-admm", _PARTS, view="public", eta=0.05, mu=0.01, **reported).epsilon == pytest.approx(1.0)  # type: ignore[arg-type]
    assert dpadmm.run("noisy-gradients", _PARTS, view="public", step=0.1, **reported).epsilon == pytest.approx(1.0)  # type: ignore[arg-type]
    assert dpadmm.run("noisy-gradients", _PARTS, view="aggregate", step=0.1, **reported).epsilon == pytest.approx(1.0)  # type: ignore[arg-type]
    user = dpadmm.run("noisy-gradients", _PARTS, unit="user", step=0.1, **reported)  # type: ignore[arg-type]
    assert user.account.protection.unit is Unit.USER


def test_what_was_spent_after_every_round_is_shown_drawn_and_recorded(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """P-ADMM's dynamic zCDP: rho adds up by `D^2/(2 s^2)`, more where a silo has fewer records or the noise falls."""
    place = tmp_path / "a.ledger"
    parts = [_PARTS[0], _PARTS[1], tuple(each[:20] for each in _PARTS[2])]
    X, y = np.vstack([x for x, _ in parts]), np.concatenate([y for _, y in parts])
    groups = np.repeat(["silo 0", "silo 1", "silo 2"], [30, 30, 20])
    dpadmm.Ledger.create(place, ledger_data(X, y, groups), Budget(epsilon=1.1, delta=1e-5)).close()
    done = dpadmm.run("p-admm", parts, ledger=place, schedule="geometric:0.5", **_STATED)  # type: ignore[arg-type]
    spent = done.dynamic_zcdp
    assert spent.shape == (3, 5)
    np.testing.assert_allclose(np.diff(spent, axis=1), spent[:, :1] * 2.0 ** np.arange(1, 5), rtol=1e-5)
    m = m_of(1.0, 1e-5)
    np.testing.assert_allclose(spent[:, -1], m * m / 2, rtol=1e-6)
    assert spent[0, -1] + 2 * np.sqrt(spent[0, -1] * np.log(1e5)) > done.epsilon
    with dpadmm.Ledger.open(place) as ledger:
        recorded = ledger.dynamic_zcdp(ledger.runs()[0].run)
    np.testing.assert_allclose([recorded[agent] for agent in range(3)], spent)
    for name in ("spent.svg", "spent.png"):
        done.plot_privacy(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    with pytest.raises(InputError):
        done.plot_privacy(tmp_path / "spent.gif")
    one = dpadmm.run("consensus-gaussian", parts, epsilon=1.0, delta=1e-5, rounds=3, rho=0.5, mu=0.1, seed=0)  # type: ignore[arg-type]
    assert (one.dynamic_zcdp == one.dynamic_zcdp[0]).all()  # one noise is everybody's
    pure = dpadmm.run("r-admm", parts, epsilon=1.0, rounds=4, eta=0.5, mu=0.1, seed=0).dynamic_zcdp  # type: ignore[arg-type]
    np.testing.assert_allclose(pure[0], [0.125, 0.125, 0.25, 0.25])  # even rounds cost nothing
