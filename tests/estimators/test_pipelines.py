"""What `check_pipeline` must see through: subclasses, defaults, functions that look at all rows, and no private fit."""

from functools import partial

import numpy as np
import pytest
from sklearn import preprocessing
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
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
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
from tests.builders import logistic

from dpadmm.estimators import PrivateLinearRegression, PrivateLogisticRegression, check_pipeline

MODEL = logistic()


class Centring(FunctionTransformer):
    """Says, as its parent does, that it needs no fitting, and keeps a mean."""

    def fit(self, X, y=None):
        self.mean_ = np.mean(X, axis=0)
        return self


class Keeping(Normalizer):
    def fit(self, X, y=None):
        self.rows_ = X
        return self


class Peeking(Pipeline):
    def fit(self, X, y=None, **params):
        self.rows_ = X
        return super().fit(X, y, **params)


class Choosing(ColumnTransformer):
    pass


class Thawed(FrozenEstimator):
    def fit(self, X, y=None):
        self.rows_ = X
        return self


class Stateless(TransformerMixin, BaseEstimator):
    """A third party's word that it learns nothing."""

    def fit(self, X, y=None):
        self.rows_ = X
        return self

    def transform(self, X):
        return X

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


class Loud(PrivateLogisticRegression):
    def fit(self, X, y, groups=None):
        self.rows_ = X
        return super().fit(X, y, groups)


@pytest.mark.parametrize(
    ("pipe", "steps"),
    [
        (make_pipeline(Centring(), MODEL), ["Centring"]),
        (make_pipeline(Keeping(), MODEL), ["Keeping"]),
        (make_pipeline(Stateless(), MODEL), ["Stateless"]),
        (make_pipeline(Thawed(StandardScaler()), MODEL), ["Thawed", "StandardScaler"]),
        (Peeking([("a", Normalizer()), ("m", MODEL)]), ["Peeking"]),
        (Peeking([("a", StandardScaler()), ("m", MODEL)]), ["Peeking", "StandardScaler"]),
        (make_pipeline(Choosing([("a", StandardScaler(), [0])]), MODEL), ["Choosing", "StandardScaler"]),
        (Loud(1.0, 1e-5), ["Loud"]),
        (make_pipeline(Normalizer(), Loud(1.0, 1e-5)), ["Loud"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_subclass_is_not_trusted_for_its_parent(pipe, steps):
    assert [each.step for each in check_pipeline(pipe).findings] == steps


def test_a_target_regressor_left_out_is_an_exact_one():
    (found,) = check_pipeline(TransformedTargetRegressor()).findings
    assert (found.place, found.step) == ("regressor", "LinearRegression")
    assert "without noise" in found.problem
    assert check_pipeline(TransformedTargetRegressor(PrivateLinearRegression(1.0, 1e-5))).is_clean


class Called:
    """Fitted somewhere, and called like a function."""

    def fit(self, X, y=None):
        return self

    def __call__(self, X):
        return X


SCALERS = ("scale", "minmax_scale", "maxabs_scale", "robust_scale", "quantile_transform", "power_transform")


@pytest.mark.parametrize(
    ("step", "message"),
    [
        *((FunctionTransformer(getattr(preprocessing, name)), "it learns means") for name in SCALERS),
        (FunctionTransformer(preprocessing.normalize, kw_args={"axis": 0}), "it learns means"),
        (FunctionTransformer(partial(preprocessing.normalize, axis=0)), "it learns means"),
        (FunctionTransformer(partial(partial(preprocessing.scale), with_mean=False)), "it learns means"),
        (FunctionTransformer(StandardScaler().fit_transform), "out of sight; it learns means"),
        (FunctionTransformer(StandardScaler().fit([[0.0], [1.0]]).transform), "out of sight"),
        (FunctionTransformer(partial(StandardScaler().fit_transform)), "out of sight"),
        (FunctionTransformer(Called()), "out of sight"),
    ],
)
def test_functions_that_look_at_all_rows_are_found(step, message):
    (found,) = check_pipeline(make_pipeline(step, MODEL)).findings
    assert found.step == "a function in FunctionTransformer"
    assert message in found.problem


def test_a_function_of_the_targets_is_looked_at_too():
    target = TransformedTargetRegressor(
        PrivateLinearRegression(1.0, 1e-5), func=preprocessing.scale, inverse_func=np.exp
    )
    assert "it learns means" in check_pipeline(target).findings[0].problem


@pytest.mark.parametrize("function", [np.tanh, preprocessing.normalize, preprocessing.binarize, lambda rows: rows])
def test_functions_that_may_treat_rows_alone_are_no_findings(function):
    checked = check_pipeline(make_pipeline(FunctionTransformer(function), MODEL))
    assert checked.is_clean
    assert len(checked.notes) == (function is not np.tanh)


def test_the_headline_claims_no_private_fit_where_there_is_none():
    assert str(check_pipeline(make_pipeline(Normalizer()))).startswith("No step learns from the rows, but none")
    assert "which no private fit accounts for" in str(check_pipeline(make_pipeline(StandardScaler())))
    assert str(check_pipeline(MODEL)).startswith("Only the private fit learns")


def test_a_fixed_threshold_is_no_search():
    assert check_pipeline(FixedThresholdClassifier(MODEL, threshold=0.3)).is_clean
    assert "exact scores" in check_pipeline(TunedThresholdClassifierCV(MODEL)).findings[0].problem
    assert check_pipeline(FixedThresholdClassifier(make_pipeline(StandardScaler(), MODEL))).findings


def test_steps_cached_on_disk_are_noted():
    (note,) = check_pipeline(make_pipeline(Normalizer(), MODEL, memory="cache")).notes
    assert "on disk (memory=)" in note


def test_encoders_that_quote_unlisted_cells_are_noted():
    listed = [["a", "b"]]
    (note,) = check_pipeline(make_pipeline(OneHotEncoder(categories=listed), MODEL)).notes
    assert "handle_unknown='ignore'" in note
    (note,) = check_pipeline(make_pipeline(OrdinalEncoder(categories=listed), MODEL)).notes
    assert "handle_unknown='use_encoded_value'" in note
    quiet = OneHotEncoder(categories=listed, handle_unknown="ignore")
    assert check_pipeline(make_pipeline(quiet, MODEL)).notes == ()


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
