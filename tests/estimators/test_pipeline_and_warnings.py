"""What happens around a fit: pipelines, searches, no ledger, a large delta. Each is said before anything is spent."""

import re
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.random_projection import GaussianRandomProjection
from sklearn.utils.validation import check_is_fitted
from tests.grouped import grouped

import dpadmm
from dpadmm.errors import InputError
from dpadmm.estimators import (
    LargeDeltaWarning,
    NoLedgerWarning,
    PrivateLogisticRegression,
    check_pipeline,
    ledger_data,
    notices,
)
from dpadmm.evaluation import private_score
from dpadmm.privacy.ledger import Budget, Ledger

MODEL = PrivateLogisticRegression(epsilon=1.0, delta=1e-5, feature_bounds=(-1, 1), classes=(0, 1))


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


class Fancy(BaseEstimator, TransformerMixin):
    """A transformer that nobody has heard of."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        check_is_fitted(self)
        return X


class Scaler(OneHotEncoder):
    """A subclass may learn more than its parent."""


@pytest.mark.parametrize(
    "step",
    [
        "passthrough",
        FunctionTransformer(np.tanh),
        Normalizer(),
        Binarizer(threshold=0.5),
        HashingVectorizer(),
        FeatureHasher(),
        PolynomialFeatures(),
        GaussianRandomProjection(2),
        RBFSampler(gamma=1.0),
        SplineTransformer(knots=np.array([[0.0], [1.0]])),
        CountVectorizer(vocabulary=["a", "b"]),
        OneHotEncoder(categories=[["a", "b"]]),
        OrdinalEncoder(categories=[["a", "b"]]),
        SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True),
        MissingIndicator(features="all"),
        FrozenEstimator(StandardScaler().fit([[0.0], [1.0]])),
    ],
    ids=lambda step: type(step).__name__,
)
def test_steps_that_learn_nothing_are_clean(step):
    checked = check_pipeline(make_pipeline(step, MODEL))
    assert checked.is_clean
    assert checked.findings == ()
    assert "Only the private fit" in str(checked)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (StandardScaler(), "feature_bounds"),
        (MinMaxScaler(), "feature_bounds"),
        (OneHotEncoder(), "categories=[a public list"),
        (OneHotEncoder(categories=[["a", "b"]], min_frequency=3), "without min_frequency"),
        (OrdinalEncoder(), "categories=[a public list"),
        (TargetEncoder(), "OneHotEncoder with public categories"),
        (KBinsDiscretizer(), "public edges"),
        (SimpleImputer(), "strategy='constant'"),
        (SimpleImputer(strategy="constant", fill_value=0.0), "keep_empty_features=True"),
        (SimpleImputer(strategy="constant", keep_empty_features=True, add_indicator=True), "strategy='constant'"),
        (KNNImputer(), "strategy='constant'"),
        (MissingIndicator(), "features='all'"),
        (SelectKBest(), "public knowledge"),
        (VarianceThreshold(), "public knowledge"),
        (PCA(), "public knowledge"),
        (SplineTransformer(), "knots=public numbers"),
        (RBFSampler(gamma="scale"), "gamma=a public number"),
        (CountVectorizer(), "vocabulary=a public list"),
        (TfidfVectorizer(), "vocabulary=a public list"),
        (Fancy(), "public knowledge"),
        (Scaler(categories=[["a"]]), "categories=[a public list"),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else None,
)
def test_steps_that_learn_are_named_with_what_to_use_instead(step, message):
    checked = check_pipeline(Pipeline([("before", step), ("model", MODEL)]))
    (finding,) = checked.findings
    assert (finding.place, finding.step) == ("before", type(step).__name__)
    assert message in finding.instead
    assert f"before ({type(step).__name__})" in str(checked)
    assert message in str(checked)
    assert not checked.is_clean


def test_the_advice_is_clean_itself():
    """What is recommended instead passes the check."""
    steps = (
        OneHotEncoder(categories=[["a", "b"]], handle_unknown="ignore"),
        OrdinalEncoder(categories=[["a"]], handle_unknown="use_encoded_value", unknown_value=-1),
        SimpleImputer(strategy="constant", fill_value=1.0, keep_empty_features=True),
    )
    assert all(check_pipeline(make_pipeline(step, MODEL)).is_clean for step in steps)


def test_everything_that_holds_steps_is_looked_into():
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), FunctionTransformer(np.tanh)), ["age"]),
            ("message", OneHotEncoder(categories=[["a"]]), make_column_selector(dtype_include=object)),
            ("guess", "passthrough", lambda X: [0]),
        ],
        remainder=StandardScaler(),
    )
    union = FeatureUnion([("a", PCA()), ("b", "drop"), ("c", FunctionTransformer())])
    whole = Pipeline([("columns", columns), ("union", union), ("nothing", None), ("model", MODEL)])
    search = GridSearchCV(whole, {"model__epsilon": [1.0, 2.0]})
    found = [(each.place, each.step) for each in check_pipeline(search).findings]
    assert found == [
        ("GridSearchCV", "GridSearchCV"),
        ("GridSearchCV > estimator > columns > guess", "columns chosen by a function"),
        ("GridSearchCV > estimator > columns > numbers > simpleimputer", "SimpleImputer"),
        ("GridSearchCV > estimator > columns > remainder", "StandardScaler"),
        ("GridSearchCV > estimator > union > a", "PCA"),
    ]


@pytest.mark.parametrize(
    ("pipe", "places"),
    [
        (MODEL, []),
        (RandomizedSearchCV(MODEL, {}), ["RandomizedSearchCV"]),
        (CalibratedClassifierCV(MODEL), ["CalibratedClassifierCV"]),
        (BaggingClassifier(MODEL), ["BaggingClassifier"]),
        (make_pipeline(Normalizer(), LogisticRegression()), ["logisticregression"]),
        (TransformedTargetRegressor(MODEL, transformer=StandardScaler()), ["transformer"]),
        (TransformedTargetRegressor(MODEL, func=np.log1p, inverse_func=np.expm1), []),
        (Pipeline([("inner", Pipeline([("scale", StandardScaler())])), ("model", MODEL)]), ["inner > scale"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_models_and_wrappers(pipe, places):
    assert [each.place for each in check_pipeline(pipe).findings] == places


def test_what_cannot_be_seen_is_noted():
    centre = FunctionTransformer(lambda X: X - X.mean(axis=0))
    assert "must treat every row on its own" in str(check_pipeline(make_pipeline(centre, MODEL)))
    assert check_pipeline(make_pipeline(FunctionTransformer(np.log1p), MODEL)).notes == ()
    frozen = FrozenEstimator(StandardScaler().fit([[0.0], [1.0]]))
    assert "was fitted before" in check_pipeline(make_pipeline(frozen, MODEL)).notes[0]
    twice = BaggingClassifier(make_pipeline(FeatureUnion([("a", MODEL)]), MODEL))
    assert "2 private models" in check_pipeline(twice).notes[0]


@pytest.mark.parametrize("what", [None, 3, "passthrough", StandardScaler, object(), [StandardScaler()]])
def test_what_is_no_estimator_is_refused(what):
    with pytest.raises(InputError, match="check_pipeline takes an estimator"):
        check_pipeline(what)


def test_the_result_is_frozen_and_the_package_offers_the_function():
    checked = check_pipeline(make_pipeline(StandardScaler(), MODEL))
    with pytest.raises(AttributeError):
        checked.findings = ()
    with pytest.raises(AttributeError):
        checked.findings[0].place = ""
    assert dpadmm.estimators.check_pipeline is check_pipeline


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
    seeded = PrivateLogisticRegression(epsilon=1.0, delta=1e-5, feature_bounds=(-1, 1), classes=(0, 1), random_state=1)
    assert heard(NoLedgerWarning, lambda: seeded.fit(X, y)) == []
    path = tmp_path / "held.ledger"
    Ledger.create(path, ledger_data(X, y), Budget(epsilon=9.0, delta=1e-5)).close()
    booked = PrivateLogisticRegression(epsilon=1.0, delta=1e-5, feature_bounds=(-1, 1), classes=(0, 1), ledger=path)
    assert heard(NoLedgerWarning, lambda: booked.fit(X, y)) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoLedgerWarning)
        with pytest.raises(NoLedgerWarning):  # nobody has read it yet: it comes again
            MODEL.fit(X, y)
    (said,) = heard(NoLedgerWarning, lambda: MODEL.fit(X, y))
    assert "nothing records what is spent on these data" in said
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
    (said,) = heard(NoLedgerWarning, lambda: private_score(model, X, y, epsilon=1.0))
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


@pytest.mark.parametrize(("cell", "message"), [(np.nan, "Fill empty cells"), (np.inf, "Replace such cells")])
def test_rows_that_cannot_be_used_are_not_to_be_dropped(table, cell, message):
    """How many rows are left would tell how many were bad."""
    X, y, _, _ = table
    bad = X.copy()
    bad[3, 1] = cell
    with pytest.raises(InputError, match=f"{message}.* a public constant") as caught:
        MODEL.fit(bad, y)
    assert "rop" not in str(caught.value)
    with pytest.raises(InputError, match="publicly listed categories, or give a DataFrame and its schema="):
        MODEL.fit([["red"]] * len(y), y)


def test_only_what_is_missing_is_asked_for(table):
    X, y, _, _ = table
    with pytest.raises(TypeError, match="'delta'"):
        PrivateLogisticRegression(1.0)
    with pytest.raises(InputError, match="epsilon must be a finite number, got None"):
        PrivateLogisticRegression(epsilon=None, delta=1e-5).fit(X, y)


def test_a_figure_without_a_ledger_is_announced_too(table):
    X, y, _, _ = table
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoLedgerWarning)
        model = MODEL.fit(X, y)
    notices._WARNED.clear()
    with pytest.warns(NoLedgerWarning) as caught:
        private_score(model, X, y, epsilon=1.0)
    assert caught[0].filename == __file__


def test_warnings_point_at_the_caller_of_fit(table):
    X, y, _, _ = table
    with pytest.warns((NoLedgerWarning, LargeDeltaWarning)) as caught:
        PrivateLogisticRegression(epsilon=1.0, delta=0.01, feature_bounds=(-1, 1), classes=(0, 1)).fit(X, y)
    assert {each.filename for each in caught} == {__file__}
    assert {each.category for each in caught} == {NoLedgerWarning, LargeDeltaWarning}
