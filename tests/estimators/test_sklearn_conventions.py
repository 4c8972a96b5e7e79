"""scikit-learn manners beyond its own checks: cloning, pipelines, routing, sparse tables, several classes."""

import pickle

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import has_fit_parameter
from tests.builders import logistic
from tests.grouped import grouped

from dpadmm.errors import InputError
from dpadmm.estimators import (
    AssumedBoundsWarning,
    HopelessPlanWarning,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateSearchCV,
    SimulatedNoiseWarning,
)
from dpadmm.privacy.protection import Protection
from dpadmm.privacy.releases import Origin
from dpadmm.settings import CellRules, TrainingOptions

simulated = pytest.mark.filterwarnings("ignore::dpadmm.estimators.SimulatedNoiseWarning")


def test_a_fit_states_its_privacy(make):
    build, X, y = make
    model = build(records_per_person=2).fit(X, y)
    said = model.privacy_
    assert 0.99 < said.epsilon <= 1.0 + 1e-9
    assert (said.delta, said.n_models) == (1e-5, 1)
    assert said.origin is Origin.SECURE
    assert said.is_private_release
    assert said.protection == Protection(records_per_person=2)
    assert said.noise.least_scale > 0
    assert said.strength.value == "certified"
    assert said.is_private_release
    assert len(model.history_) == 1
    assert model.plan_.task.target.epsilon == 1.0


def test_noise_is_fresh_in_every_release(make):
    build, X, y = make
    first, second = build().fit(X, y).coef_, build().fit(X, y).coef_
    assert np.all(first != second)


def test_random_state_simulates_loudly_and_repeats(make):
    build, X, y = make
    with pytest.warns(SimulatedNoiseWarning) as heard:
        first = build(random_state=7).fit(X, y)
    assert heard[0].filename == __file__
    assert not first.privacy_.is_private_release
    assert str(first.privacy_).startswith("NOT a private release")
    with pytest.warns(SimulatedNoiseWarning):
        again = build(random_state=7).fit(X, y)
    with pytest.warns(SimulatedNoiseWarning):
        other = build(random_state=np.random.RandomState(1)).fit(X, y)
    np.testing.assert_array_equal(first.coef_, again.coef_)
    assert np.all(first.coef_ != other.coef_)


def test_missing_bounds_are_announced_not_read_off_the_data(make):
    build, X, y = make
    with pytest.warns(AssumedBoundsWarning, match="feature_bounds"):
        model = build(feature_bounds=None).fit(X, y)
    assert all(column.allowed == "any number" for column in model.released_.schema.columns)
    assert any("square root" in text for text in model.privacy_.assumptions)


def test_missing_target_bounds_are_announced(table):
    X, _, y, _ = table
    with pytest.warns(AssumedBoundsWarning, match="target_bounds") as heard:
        PrivateLinearRegression(epsilon=5.0, delta=1e-5, training=TrainingOptions(row_norm=2.0)).fit(X, y)
    assert heard[0].filename == __file__


@simulated
def test_warnings_as_errors_stop_before_anything_is_spent(make, tmp_path):
    from dpadmm.estimators import ledger_data
    from dpadmm.privacy.ledger import Budget, Ledger

    build, X, y = make
    path = tmp_path / "held.ledger"
    Ledger.create(path, ledger_data(X, y), Budget(epsilon=9.0, delta=1e-5)).close()
    with pytest.raises(AssumedBoundsWarning):  # the suite turns warnings into errors
        build(feature_bounds=None, ledger=path).fit(X, y)
    with Ledger.open(path) as held:
        assert held.statement().releases == 0


def test_a_hopeless_budget_is_announced(real_plans):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (30, 20))
    with pytest.warns(HopelessPlanWarning):
        PrivateLogisticRegression(epsilon=0.01, delta=1e-6, classes=(0, 1), training=TrainingOptions(row_norm=5.0)).fit(
            X, np.arange(30) % 2
        )


def test_clone_and_pickle_keep_parameters_and_predictions(make):
    build, X, y = make
    model = build().fit(X, y)
    copied = clone(model)
    assert copied.get_params() == model.get_params()
    assert not hasattr(copied, "coef_")
    back = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    assert back.privacy_ == model.privacy_


def test_pipelines_and_cross_validation(make):
    build, X, y = make
    chain = make_pipeline(FunctionTransformer(np.tanh), build(epsilon=50.0)).fit(X, y)
    assert chain.predict(X).shape == y.shape
    scores = cross_validate(chain, X, y, cv=2)["test_score"]
    assert np.all(np.isfinite(scores))


def test_groups_are_routed(make, table):
    build, X, y = make
    groups = table[3]
    with sklearn.config_context(enable_metadata_routing=True):
        chain = make_pipeline(FunctionTransformer(), build(epsilon=20.0).set_fit_request(groups=True))
        chain.fit(X, y, groups=groups)
        assert chain[-1].plan_.task.sizes == tuple(np.bincount(groups))
        cross_validate(chain, X, y, params={"groups": groups}, cv=GroupKFold(2), error_score="raise")


def test_silos_and_their_messages_are_in_the_history(make, table):
    build, X, y = make
    names = np.array(["a", "b", "c", "d"])[table[3]]
    model = build(epsilon=20.0, silos_per_person=2).fit(X, y, groups=names)
    assert model.privacy_.protection.silos_per_person == 2
    assert model.privacy_.epsilon <= 20.0 * (1 + 1e-9)
    assert len(model.history_[0]) >= 1
    assert all(norm >= 0 for each in model.history_[0] for norm in each.norms)


def test_sparse_tables_train_and_predict(make):
    build, X, y = make
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    for bounds in ((-1.0, 1.0), (-1.0, 2.0)):
        with pytest.warns(SimulatedNoiseWarning):
            dense = build(random_state=0, feature_bounds=bounds).fit(X, y)
        with pytest.warns(SimulatedNoiseWarning):
            thin = build(random_state=0, feature_bounds=bounds).fit(sparse.csr_matrix(X), y)
        np.testing.assert_allclose(thin.coef_, dense.coef_, rtol=1e-5, atol=1e-8)
        np.testing.assert_allclose(thin.predict(sparse.csc_array(X)), thin.predict(X))


@simulated
def test_linear_in_the_units_of_the_user(make):
    """Predictions of rows that are not shortened are `X coef + intercept`, and the units of X do not matter."""
    build, X, y = make
    plain = build(random_state=0, profile="off").fit(X, y)
    wide = {"random_state": 0, "profile": "off", "feature_bounds": ([90.0, 0, -2], [110.0, 8, 2])}
    scaled = build(**wide).fit(X * [10, 4, 2] + [100, 4, 0], y)
    np.testing.assert_allclose(scaled.coef_ * [10, 4, 2], plain.coef_, rtol=1e-6, atol=1e-9)
    encoding = plain.released_.encoding
    short = np.array(encoding.centre) + 0.05 * X * encoding.scale
    scores = getattr(plain, "decision_function", plain.predict)(short)
    np.testing.assert_allclose(scores, short @ plain.coef_.ravel() + plain.intercept_, atol=1e-12)


@simulated
def test_rows_outside_the_bounds_are_treated_as_in_training(make):
    build, X, y = make
    model = build(random_state=0).fit(X, y)
    scores = getattr(model, "decision_function", model.predict)
    np.testing.assert_array_equal(scores([[9.0, -9.0, 0.0]]), scores([[1.0, -1.0, 0.0]]))


@pytest.mark.parametrize("options", [{}, {"classes": ("p", "q", "r"), "multi_class": "one-vs-rest"}])
def test_several_classes_share_one_budget(table, options):
    X = table[0]
    y = np.array(["p", "q", "r"])[np.digitize(X[:, 0], (-0.3, 0.3))]
    is_one = options.get("multi_class") != "one-vs-rest"
    model = PrivateLogisticRegression(**grouped(epsilon=30.0, delta=1e-5, feature_bounds=(-1, 1), **options)).fit(X, y)
    assert model.coef_.shape == (3, 3)
    assert model.privacy_.n_models == (1 if is_one else 3)
    assert 0.95 * 30 < model.privacy_.epsilon <= 30 * (1 + 1e-9)
    assert ("3 one-vs-rest models" in str(model.privacy_)) is not is_one
    assert ("C13" in str(model.privacy_)) is is_one
    assert ("3 in one model (softmax)" in model.released_.statement) is is_one
    assert model.score(X, y) > 0.6
    assert any("taken from y" in text for text in model.privacy_.assumptions) == ("classes" not in options)
    chances = model.predict_proba(X)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert np.all(chances >= 0)
    assert model.decision_function(X).shape == (300, 3)
    np.testing.assert_array_equal(model.predict(X), model.classes_[model.decision_function(X).argmax(axis=1)])
    assert len(model.history_) == (1 if is_one else 3)


def test_which_classes_are_one_model(table):
    """Softmax is the rule; a method that is not certified for it falls back, or is refused where softmax is asked."""
    X, y = table[0], np.digitize(table[0][:, 0], (-0.3, 0.3))
    model = PrivateLogisticRegression(
        epsilon=9.0, delta=1e-5, random_state=0, method="dp-gd", training=TrainingOptions(row_norm=1.0)
    )
    with pytest.warns(SimulatedNoiseWarning):
        assert model.fit(X, y).privacy_.n_models == 3


@simulated
def test_problems_of_several_classes_get_noise_of_their_own():
    """Rows of zeros teach nothing, so the models are noise alone: equal draws would give equal models."""
    y = np.arange(300) % 3
    options = {"row_norm": 1.0, "fit_intercept": False, "random_state": 0, "multi_class": "one-vs-rest"}
    model = PrivateLogisticRegression(**grouped(epsilon=1.0, delta=1e-5, **options))
    coef = model.fit(np.zeros((300, 3)), y).coef_
    assert np.all(coef != 0)
    assert len({row.tobytes() for row in coef}) == 3


def test_a_single_class_is_no_matter_when_the_classes_are_public(table):
    X = table[0]
    model = PrivateLogisticRegression(epsilon=9.0, delta=1e-5, feature_bounds=(-1, 1), classes=("no", "yes"))
    assert set(model.fit(X, np.full(300, "no")).classes_) == {"no", "yes"}


def test_sparse_tables_may_count_in_64_bits(table):
    X, y, _, _ = table
    wide = sparse.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    build = logistic()
    assert build.fit(wide, y).coef_.shape == (1, 3)


def test_a_subclass_may_have_parameters_of_its_own():
    class Mine(PrivateLogisticRegression):
        def __init__(self, epsilon=1.0, delta=1e-5, more=3):
            super().__init__(epsilon=epsilon, delta=delta)
            self.more = more

    model = Mine(epsilon=2.0)
    assert (model.epsilon, model.more, model.method) == (2.0, 3, "auto")
    assert set(model.get_params()) == {"epsilon", "delta", "more"}


def test_no_paper_speaks_where_its_noise_was_not_asked_for(table):
    X, y, _, groups = table
    public = {"epsilon": 2.0, "delta": 1e-5, "feature_bounds": (-1, 1), "method": "r-admm"}
    said = PrivateLogisticRegression(**grouped(**public)).fit(X, y, groups=groups).privacy_
    assert "claimed" not in str(said).lower()


def test_the_epsilon_is_always_shown():
    assert repr(PrivateLogisticRegression(1.0, 1e-5)) == "PrivateLogisticRegression(delta=1e-05, epsilon=1.0)"
    search = repr(PrivateSearchCV(PrivateLogisticRegression(5.0, 1e-5), {"alpha": [0.1]}))
    assert "estimator=PrivateLogisticRegression(delta=1e-05, epsilon=5.0)" in " ".join(search.split())
    with config_context(print_changed_only=False):
        assert repr(PrivateLogisticRegression(1.0, 1e-5)).count("epsilon=") == 1


def test_settings_in_records_are_parameters_too(make):
    """So that scikit-learn's searches, and people, change one without naming the others."""
    build, _, _ = make
    model = build(l1_ratio=0.25).set_params(training__fit_intercept=False, privacy__unit="user")
    assert model.training == TrainingOptions(l1_ratio=0.25, fit_intercept=False)
    assert model.get_params()["training__l1_ratio"] == 0.25
    assert clone(model).get_params() == model.get_params()
    assert build().set_params(cells__missing="fill").cells == CellRules(missing="fill")


def test_weights_of_rows_are_refused_with_what_to_do(make, tmp_path):
    build, X, y = make
    path = tmp_path / "l"
    model = build(ledger=path, budget=3.0)
    search = PrivateSearchCV(model, {"alpha": [0.1]})
    for each in (model, search):
        with pytest.raises(InputError):
            each.fit(X, y, sample_weight=np.ones(len(y)))
        with pytest.raises(TypeError, match="weights"):
            each.fit(X, y, weights=np.ones(len(y)))
        assert not has_fit_parameter(each, "sample_weight")  # so that scikit-learn does not pass any
    assert not path.exists()


def test_the_stated_signal_reaches_the_plan_and_the_released_model(make, real_plans):
    build, X, y = make
    name, stated = ("expected_r2", 0.3) if "target_bounds" in build().get_params() else ("expected_auc", 0.7)
    with pytest.warns(SimulatedNoiseWarning):
        model = build(random_state=1, epsilon=5.0, **{name: stated}).fit(X, y)
    assert model.plan_.expected.judged.non_private == stated
    (kept,) = model.released_.choice.expected.signals
    assert (kept.signal, kept.non_private) == ("stated", stated)


def test_only_what_is_missing_is_asked_for():
    with pytest.raises(TypeError, match="'delta'"):
        PrivateLogisticRegression(1.0)
