"""A column profile is paid for once: later fits use what the ledger keeps, and pay for no more."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from tests.grouped import grouped

import dpadmm.core.train as training
from dpadmm.core.model import ReleasedModel
from dpadmm.core.release import OpenRelease, PlannedNoise
from dpadmm.data.columns import BinaryLabel, Numeric
from dpadmm.data.schema import Schema
from dpadmm.errors import BudgetError, InputError, LedgerError
from dpadmm.estimators import PrivateLogisticRegression, ledger_data
from dpadmm.privacy.curves import epsilon_of_delta, m_of
from dpadmm.privacy.ledger import Budget, ConfirmedLedger, Ledger
from dpadmm.privacy.protection import Protection, Unit, View

DELTA = 1e-5
SHARE = 0.1


@pytest.fixture
def data(table):
    X, y, _, groups = table
    return X, y, groups


def build(path, **options):
    usual = {"epsilon": 1.0, "delta": DELTA, "feature_bounds": (-1.0, 1.0), "classes": (0, 1), "profile_share": SHARE}
    return PrivateLogisticRegression(**grouped(**{**usual, "ledger": path, **options}))


@pytest.fixture
def held(data, tmp_path):
    path = tmp_path / "held.ledger"
    Ledger.create(path, ledger_data(*data), Budget(epsilon=5.0, delta=DELTA)).close()
    return path


def state(path):
    """Return what is spent, how many profiles are kept, and of each run whether it released one."""
    with Ledger.open(path) as ledger:
        has_profile = [run.profile_epsilon is not None for run in ledger.runs()]
        return ledger.statement().spent_epsilon, len(ledger.profiles()), has_profile


def rounds_of(model) -> set[int]:
    return {release.round for release in model.plan_.spec.noise_plan()}


def together(*squares_of_m: float) -> float:
    return epsilon_of_delta(np.sqrt(sum(squares_of_m)), DELTA)


def test_the_second_fit_pays_for_its_training_alone(data, held):
    X, y, groups = data
    first = build(held).fit(X, y, groups)
    assert min(rounds_of(first)) == 0
    second = build(held).fit(X, y, groups)
    assert min(rounds_of(second)) == 1
    assert second.profile_ == first.profile_
    assert second.profile_.run == first.released_.run
    m = m_of(1.0, DELTA)
    spent, kept, has_profile = state(held)
    assert spent == pytest.approx(together(m**2, (1 - SHARE) * m**2), rel=1e-4)
    assert (kept, has_profile) == (1, [True, False])
    assert second.plan_.spec.account().curve.epsilon(DELTA) == pytest.approx(together((1 - SHARE) * m**2), rel=1e-4)


def test_a_profile_that_was_dearer_than_half_a_budget_is_not_used_again(data, held):
    X, y, groups = data
    first = build(held).fit(X, y, groups)
    small = build(held).set_params(epsilon=0.3).fit(X, y, groups)
    assert small.privacy_.epsilon <= 0.3 * (1 + 1e-9)
    assert small.profile_ is None or small.profile_.run != first.profile_.run


@pytest.mark.parametrize("method", ["dp-gd", "dvp", "m-admm", "output-perturbation", "p-admm-recycled", "r-admm"])
@pytest.mark.parametrize("share", [SHARE, 0.49])
def test_whatever_the_noise_of_a_method_its_figure_stays_within_epsilon(data, held, method, share):
    """Pure epsilons and Gaussian noise do not add up in squares."""
    X, y, groups = data
    build(held, method="p-admm", profile_share=share).fit(X, y, groups)
    model = build(held, method=method, alpha=0.01).fit(X, y, groups)
    assert min(rounds_of(model)) == 1
    assert model.profile_ is not None
    assert model.privacy_.epsilon <= 1.0


def test_a_model_counts_the_profile_it_rests_on_whoever_paid_for_it(data, held, tmp_path):
    """The model file holds the counts: seen alone it tells them too, so a figure without them would be too small."""
    X, y, groups = data
    first, second = (build(held).fit(X, y, groups) for _ in range(2))
    m = m_of(1.0, DELTA)
    alone = together(SHARE * m**2)
    assert first.privacy_.epsilon == pytest.approx(1.0, rel=1e-6)
    assert second.privacy_.epsilon == pytest.approx(1.0, rel=1e-4)
    assert second.privacy_.epsilon <= 1.0
    assert second.privacy_.epsilon == second.released_.guarantee.epsilon
    for model in (first, second):
        assert model.privacy_.profile.epsilon == pytest.approx(alone, rel=1e-4)
        assert f"epsilon {alone:.3g}" in str(model.privacy_)
        assert "C11" in "".join(model.privacy_.theorems)
    run = first.released_.run
    assert run not in str(first.privacy_)
    for text in (str(second.privacy_), second.released_.statement, str(second.plan_)):
        assert run in text
    saved = second.released_.save(tmp_path / "model.json")
    assert ReleasedModel.load(saved).statement == second.released_.statement


@pytest.mark.parametrize("way", ["copy", "deepcopy", "pickle", "open ledger"])
def test_copies_find_it(data, held, way):
    X, y, groups = data
    first = build(held).fit(X, y, groups)
    copied_by = {
        "copy": copy.copy,
        "deepcopy": copy.deepcopy,
        "pickle": lambda model: pickle.loads(pickle.dumps(model)),
        "open ledger": lambda _: build(Ledger.open(held)),
    }
    again = copied_by[way](first).fit(X, y, groups)
    assert again.profile_.run == first.profile_.run
    assert min(rounds_of(again)) == 1


def test_without_a_profile_none_is_used(data, held):
    X, y, groups = data
    build(held).fit(X, y, groups)
    off = build(held, profile="off", profile_share=None).fit(X, y, groups)
    assert off.profile_ is None
    assert off.privacy_.profile is None
    assert off.privacy_.epsilon == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("change", ["bounds", "columns", "order", "people", "target"])
def test_only_the_same_columns_and_protection_use_it(data, held, change):
    X, y, groups = data
    build(held).fit(X, y, groups)
    table, options = {
        "bounds": (X, {"feature_bounds": (-1.0, 2.0)}),
        "columns": (X[:, 1:], {}),
        "order": (X[:, ::-1], {}),
        "people": (X, {"records_per_person": 2}),
        "target": (X, {"epsilon": 0.5}),
    }[change]
    model = build(held, **options).fit(table, y, groups)
    assert min(rounds_of(model)) == (1 if change == "target" else 0)


def test_the_same_table_is_the_same_profile_with_other_columns_and_in_another_order(data, tmp_path):
    X, y, groups = data
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(spare=np.arange(len(X)))
    columns = tuple(Numeric(name, -1.0, 1.0) for name in ("a", "b"))
    schema = Schema(columns=columns, label=BinaryLabel("y", positive=(1,), negative=(0,)), constant=0.3)
    path = tmp_path / "table.ledger"
    Ledger.create(path, ledger_data(frame.assign(y=y), None, groups), Budget(epsilon=5.0, delta=DELTA)).close()
    options = {"schema": schema, "feature_bounds": None, "classes": None}
    first = build(path, **options).fit(frame, y, groups)
    second = build(path, **options).fit(frame[["c", "b", "a"]], y, groups)
    assert second.profile_ == first.profile_
    swapped = frame.rename(columns={"a": "b", "b": "a"})
    assert build(path, **options).fit(swapped, y, groups).profile_.run != first.profile_.run


class Killed(BaseException):
    """The process dies."""


def killed(*_args, **_kwargs):
    raise Killed


@pytest.mark.parametrize(
    ("owner", "name", "is_kept"),
    [(OpenRelease, "total", False), (ConfirmedLedger, "keep_profile", False), (training, "run_rounds", True)],
    ids=["before the draw", "before it is kept", "before training"],
)
def test_what_was_paid_for_survives_as_soon_as_it_is_kept(data, held, monkeypatch, owner, name, is_kept):
    X, y, groups = data
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, killed)
        with pytest.raises(Killed):
            build(held).fit(X, y, groups)
    spent, kept, has_profile = state(held)
    assert spent == pytest.approx(1.0, rel=1e-6)  # all of the run is reserved before anything is drawn
    assert (kept, has_profile) == (int(is_kept), [True])
    model = build(held).fit(X, y, groups)
    assert state(held)[2] == [True, not is_kept]
    assert (model.profile_.run == model.released_.run) is not is_kept


@pytest.mark.parametrize("kind", [LedgerError, InputError])
def test_a_ledger_that_cannot_keep_it_does_not_stop_what_is_paid_for(data, held, monkeypatch, kind):
    X, y, groups = data

    def full(*_args):
        raise kind("The disk is full")

    monkeypatch.setattr(ConfirmedLedger, "keep_profile", full)
    with pytest.warns(UserWarning, match="full"):
        model = build(held).fit(X, y, groups)
    assert model.profile_ is not None
    assert state(held)[1] == 0


def test_nothing_is_kept_before_it_is_drawn(data, held, monkeypatch):
    X, y, groups = data
    order = []
    draw, keep = PlannedNoise.perturb, ConfirmedLedger.keep_profile

    def drawing(self, kind, *rest):
        order.append(kind.name)
        return draw(self, kind, *rest)

    def keeping(self, *rest):
        order.append("kept")
        return keep(self, *rest)

    monkeypatch.setattr(PlannedNoise, "perturb", drawing)
    monkeypatch.setattr(ConfirmedLedger, "keep_profile", keeping)
    build(held).fit(X, y, groups)
    assert order[:2] == ["profile", "kept"]
    assert "profile" not in order[2:]


@pytest.mark.slow
def test_fits_never_pass_the_budget(data, tmp_path):
    """Some buy, some use what there is: the ledger's sum stays within the budget until it refuses."""
    X, y, groups = data
    path = tmp_path / "small.ledger"
    Ledger.create(path, ledger_data(*data), Budget(epsilon=2.0, delta=DELTA)).close()
    rng, refused = np.random.default_rng(0), 0
    for _ in range(12):
        bound = float(rng.choice([1.0, 2.0]))
        epsilon = float(rng.choice([0.3, 0.7, 1.2]))
        before = state(path)[0]
        try:
            build(path, epsilon=epsilon, feature_bounds=(-bound, bound)).fit(X, y, groups)
        except BudgetError:
            refused += 1
            assert state(path)[0] == before
        assert before <= state(path)[0] <= 2.0
    assert refused > 0
    assert state(path)[1] == sum(state(path)[2]) <= 2  # one for each form


@pytest.mark.slow
def test_users_and_one_silo_split_otherwise(data, tmp_path):
    X, y, groups = data
    path = tmp_path / "whole.ledger"
    Ledger.create(path, ledger_data(X, y), Budget(epsilon=20.0, delta=DELTA)).close()
    first = build(path).fit(X, y, groups)
    second = build(path).fit(X, y)  # the same rows, in one silo
    assert second.profile_ == first.profile_
    assert second.privacy_.profile.epsilon == pytest.approx(first.privacy_.profile.epsilon, rel=1e-4)
    people = np.repeat(np.arange(60), 5)
    path = tmp_path / "users.ledger"
    users = Protection(unit=Unit.USER)
    Ledger.create(path, ledger_data(X, y, people), Budget(epsilon=20.0, delta=DELTA), protection=users).close()
    first, second = (build(path, epsilon=5.0).fit(X, y, people) for _ in range(2))
    assert second.profile_ == first.profile_
    assert second.profile_.records == 60


@pytest.mark.parametrize(
    ("people", "is_used"),
    [
        ({}, True),
        ({"silos_per_person": 2}, False),
        ({"records_per_person": 2}, False),
        ({"silos_per_person": 2, "view": "public", "method": "fp-coordinator"}, True),
    ],
)
def test_where_records_of_a_person_may_have_been_together_a_profile_of_another_split_is_not_used(
    data, tmp_path, people, is_used
):
    """Two records in two years may lie in one hospital, whose noise was meant for one of them."""
    X, y, _ = data
    path, view = tmp_path / "whole.ledger", View(people.get("view", "eavesdropper"))
    Ledger.create(path, ledger_data(X, y), Budget(epsilon=20.0, delta=DELTA), protection=Protection(view=view)).close()
    hospitals, years = np.arange(len(X)) // 2 % 3, np.arange(len(X)) % 2
    first = build(path, **people).fit(X, y, hospitals)
    second = build(path, **people).fit(X, y, years)
    assert (second.profile_.run == first.profile_.run) is is_used


def test_the_weaker_view_is_stated_where_methods_differ(data, tmp_path):
    X, y, groups = data
    path, public = tmp_path / "public.ledger", Protection(view=View.PUBLIC)
    Ledger.create(path, ledger_data(*data), Budget(epsilon=9.0, delta=DELTA), protection=public).close()
    pooled = build(path, method="fp-coordinator").fit(X, y, groups)
    assert {release.agent for release in pooled.plan_.spec.part(pooled.plan_.profile)} == {-1}
    peers = build(path, method="p-admm").fit(X, y, groups)
    assert peers.profile_ == pooled.profile_
    assert peers.privacy_.protection.view is View.PUBLIC


@pytest.mark.parametrize(
    ("first", "second", "is_used"),
    [
        (("aggregate", 1), ("aggregate", 1), True),
        (("aggregate", 0), ("aggregate", 0), True),
        (("public", None), ("aggregate", 1), False),
        (("aggregate", 1), ("aggregate", 2), False),
        (("eavesdropper", None), ("aggregate", 1), False),
    ],
)
def test_where_sums_are_seen_a_profile_serves_the_same_observers_alone(data, tmp_path, first, second, is_used):
    X, y, groups = data
    path = tmp_path / "held.ledger"
    Ledger.create(
        path, ledger_data(*data), Budget(epsilon=5.0, delta=DELTA), protection=Protection(view=View.PUBLIC)
    ).close()
    one, two = (build(path, view=view, colluders=t).fit(X, y, groups) for view, t in (first, second))
    m, n, t = m_of(1.0, DELTA), 4, second[1]
    assert (two.profile_.run == one.released_.run) is is_used
    assert state(path)[1:] == (1 if is_used else 2, [True, not is_used])
    assert state(path)[0] == pytest.approx(together(m**2, (1 - SHARE * is_used) * m**2), rel=1e-4)
    said = two.privacy_
    assert said.protection == Protection(view=View.AGGREGATE, colluders=t)
    assert said.epsilon == pytest.approx(1.0, rel=1e-4)
    assert said.epsilon <= 1.0
    # The profile is a sum of shares as well, whoever paid for it, so that colluders see more of it too.
    assert said.collusion.if_all == pytest.approx(together((n - t) * m**2), rel=1e-4)
    assert said.collusion.if_one == (None if t else pytest.approx(together(n / (n - 1) * m**2), rel=1e-4))
    read = ReleasedModel.load(two.released_.save(tmp_path / "model.json"))
    assert (read.guarantee.epsilon, read.guarantee.protection) == (said.epsilon, said.protection)
    assert read.guarantee.collusion == said.collusion
