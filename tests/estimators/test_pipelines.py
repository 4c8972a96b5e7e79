"""What `check_pipeline` must see through: subclasses, defaults, functions that look at all rows, and no private fit."""

from functools import partial

import numpy as np
import pytest
from sklearn import preprocessing
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, OrdinalEncoder, StandardScaler

from dpadmm.errors import InputError
from dpadmm.estimators import PrivateLinearRegression, PrivateLogisticRegression, check_pipeline

MODEL = PrivateLogisticRegression(epsilon=1.0, delta=1e-5, feature_bounds=(-1, 1), classes=(0, 1))


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


@pytest.mark.parametrize(
    "function",
    [
        np.tanh,
        preprocessing.normalize,
        preprocessing.binarize,
        lambda rows: rows,
    ],
)
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


def test_a_class_in_place_of_a_step_is_named():
    with pytest.raises(InputError, match=r"scale is the class StandardScaler. Give an instance: StandardScaler\(...\)"):
        check_pipeline(Pipeline([("scale", StandardScaler), ("model", MODEL)]))
