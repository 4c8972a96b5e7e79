"""Fits that are recorded: spending, refusal before any draw, clones, and what a ledger does not take."""

import numpy as np
import pytest
from sklearn.base import clone

from dpadmm.errors import BudgetError, InputError, LedgerError
from dpadmm.estimators import PrivateLinearRegression, PrivateLogisticRegression, ledger_data
from dpadmm.noise.secure import SecureSampler
from dpadmm.privacy.ledger import Budget, Holding, Ledger, Terms

APART = Terms(holding=Holding.APART)


def test_fits_are_recorded_until_the_budget_is_spent(make, tmp_path, monkeypatch):
    build, X, y = make
    path = tmp_path / "book.ledger"
    Ledger.create(path, ledger_data(X, y), Budget(epsilon=1.2, delta=1e-5)).close()
    model = build(ledger=path).fit(X, y)
    with Ledger.open(path) as book:
        assert book.statement().spent_epsilon == pytest.approx(model.privacy_.certified, rel=1e-6)

    def draw(*_args, **_kwargs):
        raise AssertionError("noise was drawn after the ledger refused")

    monkeypatch.setattr(SecureSampler, "perturb", draw)
    before = model.coef_.copy()
    with pytest.raises(BudgetError, match="Nothing was spent"):
        model.fit(X, y)
    np.testing.assert_array_equal(model.coef_, before)


def test_a_budget_of_exactly_epsilon_is_enough(make, table, tmp_path):
    build, X, y = make
    path = tmp_path / "book.ledger"
    with Ledger.create(path, ledger_data(X, y), Budget(epsilon=1.0, delta=1e-5), terms=APART) as book:
        build(ledger=book).fit(X, y, groups=table[3])
        assert book.statement().spent_epsilon <= 1.0


def test_an_open_ledger_survives_cloning(make, tmp_path):
    build, X, y = make
    with Ledger.create(tmp_path / "b", ledger_data(X, y), Budget(epsilon=9.0, delta=1e-5)) as book:
        copied = clone(build(ledger=book))
        assert copied.ledger is book
        copied.fit(X, y)
        assert book.statement().releases > 0


def test_several_classes_are_recorded_together_or_not_at_all(table, tmp_path):
    X = table[0]
    y = np.digitize(X[:, 0], (-0.3, 0.3))
    with Ledger.create(tmp_path / "b", ledger_data(X, y), Budget(epsilon=4.0, delta=1e-5)) as book:
        model = PrivateLogisticRegression(epsilon=4.0, delta=1e-5, feature_bounds=(-1, 1), ledger=book).fit(X, y)
        spent = book.statement().spent_epsilon
        assert spent == pytest.approx(model.privacy_.certified, rel=1e-6)
        with pytest.raises(BudgetError):
            model.fit(X, y)
        assert book.statement().spent_epsilon == spent


def test_other_data_are_refused(make, tmp_path):
    build, X, y = make
    path = tmp_path / "book.ledger"
    Ledger.create(path, ledger_data(X, y), Budget(epsilon=9.0, delta=1e-5)).close()
    with pytest.raises(LedgerError, match="other data"):
        build(ledger=path).fit(X[::-1], y)
    with pytest.raises(LedgerError):
        build(ledger=tmp_path / "nowhere").fit(X, y)
    with pytest.raises(InputError, match="ledger_data"):
        build(ledger=3).fit(X, y)
    with pytest.raises(InputError, match="random_state"):
        build(ledger=path, random_state=0).fit(X, y)


def test_sparse_and_text_data_have_fingerprints(tmp_path):
    from scipy import sparse

    rng = np.random.default_rng(0)
    X = sparse.random_array((120, 4), density=0.4, rng=rng, format="csr")
    y = np.array(["a", "b"], dtype=object)[rng.integers(2, size=120)]
    Ledger.create(tmp_path / "b", ledger_data(X, y), Budget(epsilon=9.0, delta=1e-5)).close()
    PrivateLogisticRegression(epsilon=5.0, delta=1e-5, row_norm=2.0, ledger=tmp_path / "b").fit(X, y)


@pytest.mark.parametrize(
    "held",
    [
        lambda y: y,
        lambda y: y.astype(float),
        lambda y: y.astype(object),
        lambda y: y[:, None],
        lambda y: y.tolist(),
    ],
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
        with pytest.raises(LedgerError, match="other data"):
            Ledger.open(path, data=ledger_data(X, held(1 - y)))


def test_a_ledger_that_adds_up_silos_says_how_to_keep_them_apart(make, table, tmp_path):
    build, X, y = make
    with Ledger.create(tmp_path / "b", ledger_data(X, y), Budget(epsilon=1.0, delta=1e-5)) as book:
        with pytest.raises(BudgetError, match=r"Terms\(holding=Holding\.APART\)"):
            build(ledger=book).fit(X, y, groups=table[3])
        build(ledger=book).fit(X, y)
        with pytest.raises(BudgetError) as caught:  # one silo: that is not what stands in the way
            build(ledger=book).fit(X, y)
        assert "APART" not in str(caught.value)
