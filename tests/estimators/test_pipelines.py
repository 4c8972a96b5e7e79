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
from tests.refusals import check_rows

from dpadmm.estimators import PrivateLinearRegression, PrivateLogisticRegression, check_pipeline

MODEL = logistic()
LISTED = [["a", "b"]]


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


class Called:
    """Fitted somewhere, and called like a function."""

    def fit(self, X, y=None):
        return self

    def __call__(self, X):
        return X


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


def test_what_is_found(snapshot):
    """Every row of tests/snapshots/refusals/pipelines.txt: what is found, what to use instead, and what is refused."""
    check_rows(snapshot, "pipelines", globals())
