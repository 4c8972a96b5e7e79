"""Fits that are recorded: spending, refusal before any draw, copies and workers, and what a ledger does not take."""

import copy
import pickle
import threading
import warnings
from contextlib import nullcontext
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from tests.builders import logistic
from tests.grouped import grouped

from dpadmm import PrivateSearchCV
from dpadmm.errors import BudgetError, InputError, LedgerError
from dpadmm.estimators import PrivateLinearRegression, PrivateLogisticRegression, ledger_data
from dpadmm.evaluation import private_score
from dpadmm.noise.sampler import SecureSampler
from dpadmm.privacy.curves import epsilon_of_delta, m_of
from dpadmm.privacy.ledger import Budget, Ledger
from dpadmm.privacy.protection import Protection, Unit, View
from dpadmm.settings import Privacy, TrainingOptions


def spent(path) -> float:
    with Ledger.open(path) as held:
        return held.statement().spent_epsilon


@pytest.fixture
def no_noise(monkeypatch):
    """Fail if noise is drawn."""

    def draw(*_args, **_kwargs):
        raise AssertionError("noise was drawn after the ledger refused")

    monkeypatch.setattr(SecureSampler, "perturb", draw)


def test_fits_are_recorded_until_the_budget_is_spent(make, tmp_path, monkeypatch):
    build, X, y = make
    path = tmp_path / "held.ledger"
    Ledger.create(path, ledger_data(X, y), Budget(epsilon=1.2, delta=1e-5)).close()
    model = build(ledger=path).fit(X, y)
    assert spent(path) == pytest.approx(model.privacy_.epsilon, rel=1e-6)

    def draw(*_args, **_kwargs):
        raise AssertionError("noise was drawn after the ledger refused")

    monkeypatch.setattr(SecureSampler, "perturb", draw)
    before = model.coef_.copy()
    with pytest.raises(BudgetError):
        model.fit(X, y)
    np.testing.assert_array_equal(model.coef_, before)


def test_an_open_ledger_survives_cloning(make, tmp_path):
    build, X, y = make
    with Ledger.create(tmp_path / "b", ledger_data(X, y), Budget(epsilon=9.0, delta=1e-5)) as held:
        assert clone(build(ledger=held)).fit(X, y).ledger is held


@pytest.mark.parametrize("way", ["copy", "deepcopy", "pickle", "joblib", "clone of a pickle"])
def test_no_copy_loses_its_ledger(make, tmp_path, way):
    """Copies used to forget an open ledger, and went on without one."""
    build, X, y = make

    def dumped(model):
        joblib.dump(model, tmp_path / "model")
        return joblib.load(tmp_path / "model")

    copied_by = {
        "copy": copy.copy,
        "deepcopy": copy.deepcopy,
        "pickle": lambda model: pickle.loads(pickle.dumps(model)),
        "joblib": dumped,
        "clone of a pickle": lambda model: clone(pickle.loads(pickle.dumps(model))),
    }
    with Ledger.create(tmp_path / "b", ledger_data(X, y), Budget(epsilon=1.0, delta=1e-5)) as held:
        copied = copied_by[way](build(ledger=held))
        copied.fit(X, y)
        assert held.statement().spent_epsilon == pytest.approx(1.0, rel=1e-6)
        with pytest.raises(BudgetError):
            copied.fit(X, y)
    for file in Path(tmp_path).glob("b*"):
        file.unlink()
    with pytest.raises(LedgerError):
        copied.fit(X, y)
    assert pickle.loads(pickle.dumps(copied)).predict(X[:3]).shape == (3,)  # a model travels without its ledger


def test_a_fit_in_another_thread_opens_the_ledger_there(make, tmp_path):
    build, X, y = make
    with Ledger.create(tmp_path / "b", ledger_data(X, y), Budget(epsilon=1.0, delta=1e-5)) as held:
        model, failures = build(ledger=held), []

        def work():
            try:
                model.fit(X, y)
            except BudgetError as failure:
                failures.append(failure)

        workers = [threading.Thread(target=work) for _ in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert [type(failure) for failure in failures] == [BudgetError]
        assert held.statement().spent_epsilon == pytest.approx(1.0, rel=1e-6)


def test_worker_processes_share_one_ledger(table, tmp_path):
    """`n_jobs=2` made 16 releases of epsilon 3 to 8 beside a ledger of budget 1, none of them recorded."""
    X, y = table[:2]
    path = tmp_path / "b"
    with Ledger.create(path, ledger_data(X, y), Budget(epsilon=1.0, delta=1e-5)) as held:
        model = logistic(method="output-perturbation", ledger=held)

        def attempt(estimator):
            try:
                return estimator.fit(X, y).privacy_.epsilon
            except BudgetError:
                return None

        done = joblib.Parallel(n_jobs=2)(joblib.delayed(attempt)(model) for _ in range(3))
        assert [result is None for result in sorted(done, key=str)] == [False, True, True]
        assert held.statement().spent_epsilon == pytest.approx(1.0, rel=1e-6)
        before = held.head
        grid = GridSearchCV(model, {"epsilon": [0.1, 0.2]}, cv=2, n_jobs=2)
        for search in (lambda: cross_val_score(model, X, y, cv=2, n_jobs=2), lambda: grid.fit(X, y)):
            # The folds are other data than the ledger's: no fit, no score.
            with pytest.raises(ValueError, match="other data"):
                search()
        assert held.head == before


def test_several_classes_are_recorded_together_or_not_at_all(table, tmp_path):
    X = table[0]
    y = np.digitize(X[:, 0], (-0.3, 0.3))
    with Ledger.create(tmp_path / "b", ledger_data(X, y), Budget(epsilon=4.0, delta=1e-5)) as held:
        model = PrivateLogisticRegression(epsilon=4.0, delta=1e-5, feature_bounds=(-1, 1), ledger=held).fit(X, y)
        total = held.statement().spent_epsilon
        assert total == pytest.approx(model.privacy_.epsilon, rel=1e-6)
        with pytest.raises(BudgetError):
            model.fit(X, y)
        assert held.statement().spent_epsilon == total


def test_other_data_are_refused_on_every_use(make, table, tmp_path, no_noise):
    """An open ledger was never compared with the data: a fit on others charged it."""
    build, X, y = make
    path, groups = tmp_path / "held.ledger", table[3]
    fitted = PrivateLogisticRegression(epsilon=1.0, delta=1e-5, random_state=0, feature_bounds=(-1, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted.fit(table[0], table[1])
    with Ledger.create(path, ledger_data(X, y, groups), Budget(epsilon=9.0, delta=1e-5)) as held:
        shifted = np.where(groups == 0, 1, np.where(groups == 1, 0, groups))
        shifted[0] = (groups[0] + 1) % 4
        for ledger in (path, held):
            for other in ((X[::-1], y, groups), (X, y[::-1], groups), (X[1:], y[1:], groups[1:]), (X, y, shifted)):
                with pytest.raises(LedgerError, match="other data"):
                    build(ledger=ledger).fit(*other)
            with pytest.raises(LedgerError, match="other data"):
                private_score(fitted, X[::-1], y, 1.0, ledger=ledger, groups=groups)
            with pytest.raises(LedgerError, match="4 silo"):
                private_score(fitted, X, y, 1.0, ledger=ledger)
        assert held.statement().releases == 0
    with pytest.raises(LedgerError):
        build(ledger=tmp_path / "nowhere").fit(X, y)


def test_a_metric_counts_people_of_one_silo_wherever_they_are(table, tmp_path):
    X, y, _, groups = table
    protection = Protection(records_per_person=2)
    with Ledger.create(
        tmp_path / "b", ledger_data(X, y), Budget(epsilon=9.0, delta=1e-5), protection=protection
    ) as held:
        model = logistic(ledger=held).fit(X, y)
        assert private_score(model, X, y, 1.0, groups=groups, ledger=held).privacy.protection.records_per_person == 2


def test_groups_in_another_order_pay_for_themselves(table, tmp_path):
    """Six user-level fits with the users in another order each were admitted: 1.002 counted of 1.2, 2.706 true."""
    X, y = table[:2]
    sizes = (200, 60, 40)
    users = np.repeat(np.arange(3), sizes)
    budget, path = Budget(epsilon=1.2, delta=1e-5), tmp_path / "b"
    Ledger.create(path, ledger_data(X, y, users), budget, protection=Protection(unit=Unit.USER)).close()
    fits, outcomes = np.array([[0, 1, 2], [1, 2, 0], [2, 0, 1]]), []
    for names in fits:
        model = logistic(ledger=path, method="fp-federated")
        try:
            model.fit(X, y, groups=names[users])
            outcomes.append(model.privacy_)
        except BudgetError:
            outcomes.append(None)
    assert [outcome is None for outcome in outcomes] == [False, True, True]
    assert outcomes[0].protection.unit is Unit.USER  # the ledger's, though nobody said so
    assert spent(path) == pytest.approx(1.0, rel=1e-6)


def test_a_ledger_remembers_what_it_assumes(make, table, tmp_path):
    build, X, y = make
    groups, protection = table[3], Protection(records_per_person=2, silos_per_person=3, view=View.COORDINATOR)
    data, budget = ledger_data(X, y, groups), Budget(epsilon=3.0, delta=1e-5)
    with Ledger.create(tmp_path / "b", data, budget, protection=protection) as held:
        model = build(ledger=held).fit(X, y, groups=groups)
        said = model.privacy_
        assert (said.protection.records_per_person, said.protection.silos_per_person) == (2, 3)
        assert held.statement().spent_epsilon == pytest.approx(1.0, rel=1e-6)  # for a person in three silos
        for less in ({"silos_per_person": 2}, {"records_per_person": 1}, {"view": "public"}):
            with pytest.raises(InputError):
                build(ledger=held, **less).fit(X, y, groups=groups)
        build(ledger=held, records_per_person=3, view="eavesdropper").fit(X, y, groups=groups)
        m = [m_of(1.0, 1e-5)] * 2
        both = epsilon_of_delta(np.sqrt(np.sum(np.square(m))), 1e-5)
        assert held.statement().spent_epsilon == pytest.approx(both, rel=1e-4)


def test_a_metric_takes_people_from_the_ledger(table, tmp_path):
    """It recorded 1.0 where a person in both silos pays 2.155."""
    X, y, _, groups = table
    data, protection = ledger_data(X, y, groups), Protection(silos_per_person=2)
    with Ledger.create(tmp_path / "b", data, Budget(epsilon=4.0, delta=1e-5), protection=protection) as held:
        model = logistic(ledger=held).fit(X, y, groups=groups)
        score = private_score(model, X, y, 1.0, groups=groups, ledger=held)
        assert score.privacy.protection.silos_per_person == 2
        assert score.standard_error == pytest.approx(2 * np.sqrt(2) / 300, rel=1e-4)  # Laplace, two records move it
        before = held.statement().spent_epsilon
        with pytest.raises(InputError):
            private_score(model, X, y, 1.0, groups=groups, ledger=held, privacy=Privacy(silos_per_person=1))
        assert held.statement().spent_epsilon == before


def test_sparse_and_text_data_have_fingerprints(tmp_path):
    from scipy import sparse

    rng = np.random.default_rng(0)
    X = sparse.random_array((120, 4), density=0.4, rng=rng, format="csr")
    y = np.array(["a", "b"], dtype=object)[rng.integers(2, size=120)]
    Ledger.create(tmp_path / "b", ledger_data(X.toarray(), y), Budget(epsilon=9.0, delta=1e-5)).close()
    PrivateLogisticRegression(
        epsilon=5.0, delta=1e-5, ledger=tmp_path / "b", training=TrainingOptions(row_norm=2.0)
    ).fit(X, y)


def test_the_commands_and_python_know_the_same_table(table, tmp_path):
    """A ledger of `dpadmm fit` is the ledger of the same rows in Python, with groups under any names."""
    from dpadmm.core.dataset import ledger_columns
    from dpadmm.data.tables import read_silos

    frame = pd.DataFrame(table[0], columns=["a", "b", "c"]).assign(
        label=np.where(table[1] > 0, "sick", "well"), identifier=[f"p{i}" for i in range(300)], unused=1
    )
    groups = np.repeat(["x", "y"], (180, 120))
    for name, part in frame.groupby(groups):
        part.to_csv(tmp_path / f"hospital-{name}.csv", index=False)
    files = sorted(tmp_path.glob("*.csv"), reverse=True)
    read = ledger_columns(read_silos(files, None, protection=None))
    Ledger.create(tmp_path / "b", read, Budget(epsilon=1.0, delta=1e-5)).close()
    X, y = frame[["c", "a"]], frame["label"]
    model = PrivateLogisticRegression(epsilon=1.0, delta=1e-5, feature_bounds=(-1, 1), ledger=tmp_path / "b")
    model.fit(X, y, groups=groups)
    assert spent(tmp_path / "b") == pytest.approx(1.0, rel=1e-6)
    with Ledger.open(tmp_path / "b") as held:
        assert [spending.silo for spending in held.statement().silos] == ["hospital-x", "hospital-y"]
        held.confirm(ledger_data(frame, groups=groups))  # the whole table, as a DataFrame


@pytest.mark.parametrize(
    "held",
    [lambda y: y, lambda y: y.astype(float), lambda y: y.astype(object), lambda y: y[:, None], lambda y: y.tolist()],
    ids=["whole", "float", "object", "column", "list"],
)
@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
def test_a_ledger_knows_its_targets_however_they_are_held(table, tmp_path, held):
    X, y = table[0], table[1]
    kinds = {PrivateLinearRegression: {"target_bounds": (0, 1)}, PrivateLogisticRegression: {}}
    if np.asarray(held(y)).dtype.kind == "O":
        del kinds[PrivateLogisticRegression]  # scikit-learn knows no such classes
    for kind, public in kinds.items():
        path = tmp_path / kind.__name__
        Ledger.create(path, ledger_data(X, held(y)), Budget(epsilon=1.0, delta=1e-5)).close()
        kind(epsilon=1.0, delta=1e-5, feature_bounds=(-1, 1), ledger=path, **public).fit(X, held(y))
        with Ledger.open(path) as ledger, pytest.raises(LedgerError, match="other data"):
            ledger.confirm(ledger_data(X, held(1 - y)))


def test_a_ledger_that_adds_up_silos_says_how_to_keep_them_apart(make, table, tmp_path):
    build, X, y = make
    with Ledger.create(tmp_path / "b", ledger_data(X, y), Budget(epsilon=1.0, delta=1e-5)) as held:
        with pytest.raises(BudgetError, match="groups"):
            build(ledger=held).fit(X, y, groups=table[3])
        build(ledger=held).fit(X, y)
        with pytest.raises(BudgetError) as caught:  # one silo: that is not what stands in the way
            build(ledger=held).fit(X, y)
        assert "groups" not in str(caught.value)


class Planning(PrivateLogisticRegression):
    """An estimator that plans while another one makes the same ledger."""

    def _warn(self, *arguments):
        if not Path(self.ledger).exists():
            same = {name: value for name, value in self.get_params(deep=False).items() if name != "alpha"}
            PrivateLogisticRegression(**grouped(**same)).fit(*ROWS)
        super()._warn(*arguments)


_X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
ROWS = _X, (_X[:, 0] > 0).astype(int)


def planning(path, budget, *, is_search):
    public = {"feature_bounds": (-1, 1), "classes": (0, 1)}
    own = {"epsilon": 1.0, "delta": 1e-5, "ledger": path, "budget": budget}
    model = Planning(**public, **own)
    return PrivateSearchCV(model, {"alpha": [1e-3, 1.0]}, compared=1) if is_search else model


@pytest.mark.parametrize("is_search", [False, True])
def test_a_ledger_that_another_fit_makes_meanwhile_records_both(tmp_path, is_search):
    path = tmp_path / "new.ledger"
    model = planning(path, 3.0, is_search=is_search).fit(*ROWS)
    with Ledger.open(path) as held:
        assert len(held.runs()) == 2
        assert model.released_.run in {each.run for each in held.runs()}
        assert held.statement().spent_epsilon > 1.0
    assert model.released_.spending is not None


@pytest.mark.parametrize("is_search", [False, True])
def test_a_ledger_that_another_fit_has_used_up_meanwhile_refuses(tmp_path, is_search):
    path = tmp_path / "new.ledger"
    with pytest.raises(BudgetError):
        planning(path, 1.0, is_search=is_search).fit(*ROWS)
    with Ledger.open(path) as held:
        assert len(held.runs()) == 1


def test_no_noise_is_drawn_without_the_ledger_that_was_asked_for(tmp_path, no_noise, monkeypatch):
    monkeypatch.setattr("dpadmm.core.budget.LedgerFile.open", lambda *_: nullcontext())
    path = tmp_path / "a.ledger"
    Ledger.create(path, ledger_data(*ROWS), Budget(epsilon=3.0, delta=1e-5)).close()
    with pytest.raises(LedgerError):
        planning(path, None, is_search=False).fit(*ROWS)
