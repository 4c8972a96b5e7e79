"""Which steps of a scikit-learn pipeline learn from the rows, where no private fit can account for it.

The rule: a step is taken to read the data when it is fitted, unless it is scikit-learn's own and says that it needs no
fitting (its tag `requires_fit`), or its settings fix all that it could learn (listed below, for exactly these classes).
A subclass may do anything in its fit, so nothing that its parent says counts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from sklearn import preprocessing
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import PolynomialCountSketch, RBFSampler, SkewedChi2Sampler
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection
from sklearn.utils import get_tags

from dpadmm.checks import plural
from dpadmm.errors import InputError
from dpadmm.estimators.base import PrivateEstimator

_Advice: TypeAlias = tuple[str, str]
"""What a step gives away, and what does the same without looking at the rows."""


@dataclass(frozen=True, kw_only=True)
class LearningStep:
    """A step that learns from the rows: where it stands, what it is, what it gives away, and what to use instead."""

    place: str
    step: str
    problem: str
    instead: str

    def __str__(self) -> str:
        """Say it in two lines."""
        return f"{self.place} ({self.step}): {self.problem}.\n    Instead: {self.instead}."


@dataclass(frozen=True, kw_only=True)
class PipelineCheck:
    """What `check_pipeline` found; `notes` are what it cannot see and you must know."""

    findings: tuple[LearningStep, ...]
    notes: tuple[str, ...] = ()
    has_private_fit: bool = True

    @property
    def is_clean(self) -> bool:
        """Whether no step learns from the rows but the private fit itself."""
        return not self.findings

    def __str__(self) -> str:
        """Return all findings and notes as text."""
        if self.is_clean:
            head = "Only the private fit learns from the rows."
            head = head if self.has_private_fit else "No step learns from the rows, but none of them is a private fit."
        else:
            covered = "the private fit does not account for" if self.has_private_fit else "no private fit accounts for"
            number = len(self.findings)
            head = f"{plural(number, 'step')} learn{'s' * (number == 1)} from the rows, which {covered}:"
        return "\n".join(
            [head, *(f"  - {each}" for each in self.findings), *(f"  note: {each}" for each in self.notes)]
        )


def check_pipeline(pipe: Any) -> PipelineCheck:
    """Return every step of `pipe` that learns from the rows when fitted, with what to use instead.

    Looks into pipelines, unions, column transformers, transformed targets, searches and other estimators that hold
    estimators. It looks at settings alone; nothing is fitted, and no data are needed.

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from dpadmm.estimators import PrivateLogisticRegression
    >>> model = PrivateLogisticRegression(epsilon=1.0, delta=1e-5, feature_bounds=(-1, 1))
    >>> check_pipeline(make_pipeline(StandardScaler(), model)).findings[0].place
    'standardscaler'
    >>> check_pipeline(model).is_clean
    True
    """
    if isinstance(pipe, type) or not callable(getattr(pipe, "fit", None)):
        what = f"the class {pipe.__name__}" if isinstance(pipe, type) else f"an object of type {type(pipe).__name__}"
        raise InputError(
            f"check_pipeline takes an estimator, got {what}. Give for instance "
            "make_pipeline(FunctionTransformer(np.tanh), PrivateLogisticRegression(...))."
        )
    seen = _Seen()
    seen.walk(pipe, "")
    if seen.private_fits > 1:
        seen.notes.append(f"{seen.private_fits} private models are fitted on the same rows: their epsilons add up")
    return PipelineCheck(findings=tuple(seen.findings), notes=tuple(seen.notes), has_private_fit=seen.private_fits > 0)


@dataclass
class _Seen:
    """What a walk has met so far."""

    findings: list[LearningStep] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    private_fits: int = 0

    def add(self, step: Any, place: str, advice: _Advice | None = None, what: str = "") -> None:
        """Add a finding about a step, by default that which is known of its class."""
        name, (problem, instead) = type(step).__name__, advice or _advice_for(type(step))
        self.findings.append(LearningStep(place=place or name, step=what or name, problem=problem, instead=instead))

    def note(self, step: Any, place: str, text: str) -> None:
        self.notes.append(f"{place or type(step).__name__} {text}")

    def walk(self, step: Any, place: str) -> None:
        if step is None or isinstance(step, str):  # "passthrough" and "drop"
            return
        if isinstance(step, type):
            raise InputError(
                f"{place or 'A step'} is the class {step.__name__}. Give an instance: {step.__name__}(...)."
            )
        held: Iterable[tuple[str, Any]] = ()
        if isinstance(step, PrivateEstimator):
            self.private_fits += 1
            if not _is_from("dpadmm", step):
                self.add(step, place, _OVERRIDDEN)
        elif isinstance(step, FrozenEstimator) and _is_from("sklearn", step):
            self.note(step, place, _FROZEN_NOTE)
        elif (parts := next((parts for kind, parts in _PARTS.items() if isinstance(step, kind)), None)) is not None:
            if not _is_from("sklearn", step):
                self.add(step, place)
            self.look_closer(step, place)
            held = parts(step)
        elif _reads_the_data(step):
            self.add(step, place)
            held, place = _held(step), place or type(step).__name__
        else:
            self.look_closer(step, place)
        for name, part in held:
            self.walk(part, f"{place} > {name}" if place else name)

    def look_closer(self, step: Any, place: str) -> None:
        """Look at what is in a step's settings: a mean over the rows can hide in a function of the user's."""
        match step:
            case FunctionTransformer() | TransformedTargetRegressor():
                options = getattr(step, "kw_args", None) or {}
                if step.func is None or isinstance(step.func, np.ufunc):
                    return
                advice = _advice_on(step.func, options)
                if advice is None:
                    self.note(step, place, _FUNCTION_NOTE)
                else:
                    self.add(step, place, advice, f"a function in {type(step).__name__}")
            case Pipeline() if step.memory is not None:
                self.note(step, place, "keeps fitted steps and transformed rows on disk (memory=): leave it out")
            case OneHotEncoder() | OrdinalEncoder() if step.handle_unknown == "error":
                lenient = "'ignore'" if isinstance(step, OneHotEncoder) else "'use_encoded_value', unknown_value=-1"
                self.note(step, place, f"quotes unlisted cells in its errors: set handle_unknown={lenient}")
            case ColumnTransformer():
                for name, _, columns in step.transformers:
                    if callable(columns) and not isinstance(columns, make_column_selector):
                        self.add(step, f"{place} > {name}" if place else name, _COLUMNS, "columns chosen by a function")


def _is_from(package: str, step: Any) -> bool:
    """Return whether a step's very class is of a package; a subclass made elsewhere is not."""
    return type(step).__module__.startswith(f"{package}.")


_PARTS: Mapping[type, Callable[[Any], Iterable[tuple[str, Any]]]] = MappingProxyType(
    {
        Pipeline: lambda step: step.steps,
        FeatureUnion: lambda step: step.transformer_list,
        ColumnTransformer: lambda step: [*(each[:2] for each in step.transformers), ("remainder", step.remainder)],
        TransformedTargetRegressor: lambda step: [
            ("transformer", step.transformer),
            # Without a regressor scikit-learn takes this one.
            ("regressor", LinearRegression() if step.regressor is None else step.regressor),
        ],
        FixedThresholdClassifier: lambda step: [("estimator", step.estimator)],
    }
)
"""The named steps of containers that only pass rows on."""


def _held(step: Any) -> Iterator[tuple[str, Any]]:
    """Yield the estimators among the settings of an estimator, one by one or in lists of (name, estimator)."""
    settings = step.get_params(deep=False) if hasattr(step, "get_params") else {}
    for name, value in settings.items():
        if hasattr(value, "fit"):
            yield name, value
        elif isinstance(value, list | tuple):
            pairs = (each for each in value if isinstance(each, list | tuple) and len(each) == 2)
            yield from ((str(label), part) for label, part in pairs if hasattr(part, "fit"))


_FROZEN_NOTE = "was fitted before: if not on public data, its cost belongs to the privacy figures too"
_FUNCTION_NOTE = "calls a function that cannot be inspected: it must treat every row on its own"


def _reads_the_data(step: Any) -> bool:
    """Return whether fitting a step may learn something from the rows; unknown steps are taken to."""
    if type(step) in _COUNTING:
        return False
    if type(step) in _FIXED:
        return not _FIXED[type(step)](step)
    return not (_is_from("sklearn", step) and hasattr(step, "__sklearn_tags__")) or get_tags(step).requires_fit


def _has_categories(step: Any) -> bool:
    return not isinstance(step.categories, str) and step.min_frequency is None and step.max_categories is None


_PROJECTIONS = (PolynomialCountSketch, SkewedChi2Sampler, GaussianRandomProjection, SparseRandomProjection)
_COUNTING = (PolynomialFeatures, *_PROJECTIONS)
"""Steps that count columns and rows, which are public, and draw from their own seed."""

_FIXED: Mapping[type, Callable[[Any], bool]] = MappingProxyType(
    {
        OneHotEncoder: _has_categories,
        OrdinalEncoder: _has_categories,
        # Without keep_empty_features a column is dropped if all its cells are empty; the indicator drops columns too.
        SimpleImputer: lambda step: step.strategy == "constant" and step.keep_empty_features and not step.add_indicator,
        MissingIndicator: lambda step: step.features == "all",
        SplineTransformer: lambda step: not isinstance(step.knots, str),
        CountVectorizer: lambda step: step.vocabulary is not None,
        RBFSampler: lambda step: not isinstance(step.gamma, str),
    }
)
"""Steps with settings that leave nothing to be learned: exactly these classes, since a subclass may do more."""


_BOUNDS = (
    "feature_bounds= (or row_norm=) of the private estimator, which scale by public numbers; or a "
    "FunctionTransformer with public numbers"
)
_OTHERS = "choose from public knowledge, or fit it on other, public data and wrap it in FrozenEstimator"
_PUBLIC_FILL = "SimpleImputer(strategy='constant', fill_value=a public number, keep_empty_features=True)"
_REPEATS = (
    "it fits its inner estimator several times, and every fit is a release of its own; it may also learn from the rows"
)

_ADVICE: Mapping[str, _Advice] = MappingProxyType(
    {
        "KBinsDiscretizer": (
            "it learns the edges of the bins from the values",
            "a FunctionTransformer with np.digitize and public edges",
        ),
        "OneHotEncoder": (
            "it learns which categories occur, and a rare one may be one person's",
            "OneHotEncoder(categories=[a public list for each column], handle_unknown='ignore'), without min_frequency "
            "and max_categories",
        ),
        "OrdinalEncoder": (
            "it learns which categories occur, and a rare one may be one person's",
            "OrdinalEncoder(categories=[a public list for each column], handle_unknown='use_encoded_value', "
            "unknown_value=-1), without min_frequency and max_categories",
        ),
        "LabelEncoder": ("it learns which labels occur", "classes= of the private classifier"),
        "LabelBinarizer": ("it learns which labels occur", "classes= of the private classifier"),
        "TargetEncoder": (
            "it keeps the mean target of every category, exactly",
            "OneHotEncoder with public categories",
        ),
        "SimpleImputer": ("it learns the fill values, and which columns are empty, from the rows", _PUBLIC_FILL),
        "MissingIndicator": ("it learns which columns have missing values", "MissingIndicator(features='all')"),
        "SplineTransformer": ("it learns the knots from the values", "SplineTransformer(knots=public numbers)"),
        "CountVectorizer": (
            "it keeps the words that occur, and a rare one may be one person's",
            "CountVectorizer(vocabulary=a public list), or HashingVectorizer",
        ),
        "TfidfTransformer": ("it learns exactly how many rows contain each word", "HashingVectorizer"),
        "RBFSampler": ("gamma='scale' is the variance of the rows", "RBFSampler(gamma=a public number)"),
        # whole packages
        "sklearn.preprocessing": (
            "it learns means, ranges, norms, quantiles or exponents of columns exactly, which may be people's values",
            _BOUNDS,
        ),
        "sklearn.model_selection": (
            "it returns exact scores of private rows and keeps the setting that did best on them, and every fit is a "
            "release of its own",
            "dpadmm.PrivateSearchCV, whose epsilon covers all fits and the choice; the planner, which tunes on "
            "synthetic data (method='auto', alpha=None); or search on public data",
        ),
        "sklearn.impute": ("it learns the fill values from the rows", _PUBLIC_FILL),
        "sklearn.feature_selection": ("it chooses columns by looking at the rows", _OTHERS),
        "sklearn.ensemble": (_REPEATS, "one private estimator"),
        "sklearn.multiclass": (
            _REPEATS,
            "the private classifiers themselves, which share one budget between several classes",
        ),
        "sklearn.multioutput": (_REPEATS, "one private estimator per target, with a ledger for all of them"),
        "sklearn.calibration": (
            "it learns a curve from the rows exactly, and every fit is a release of its own",
            "predict_proba of PrivateLogisticRegression",
        ),
        "sklearn.linear_model": (
            "it learns from the rows without noise",
            "PrivateLogisticRegression, PrivateLinearSVC or PrivateLinearRegression",
        ),
        "sklearn.svm": ("it keeps rows, or learns from them without noise", "PrivateLinearSVC"),
    }
)
_COLUMNS = (
    "the function sees the rows, and its choice of columns may depend on them",
    "list the columns by name, or by type with make_column_selector",
)
_OVERRIDDEN = (
    "its class does not belong to this package, and its fit may do more than the private one",
    "the private estimator itself",
)
_UNKNOWN = ("it keeps rows, or learns from them exactly, when it is fitted", _OTHERS)


def _advice_for(kind: type) -> _Advice:
    """Return the advice for a class, or for the nearest class or module it comes from that is known.

    >>> from sklearn.preprocessing import MinMaxScaler
    >>> _advice_for(MinMaxScaler)[0]
    "it learns means, ranges, norms, quantiles or exponents of columns exactly, which may be people's values"
    """
    for each in kind.__mro__:
        if each.__module__.startswith("sklearn.") and each.__name__ in _ADVICE:
            return _ADVICE[each.__name__]
        package = ".".join(each.__module__.split(".")[:2])
        if package in _ADVICE:
            return _ADVICE[package]
    return _UNKNOWN


_SCALERS = ("scale", "minmax_scale", "maxabs_scale", "robust_scale", "quantile_transform", "power_transform")
"""Functions of scikit-learn that do what the classes do."""


def _advice_on(function: Any, options: Mapping[str, Any]) -> _Advice | None:
    """Return what calling `function` on the rows gives away, None if nothing is seen.

    >>> _advice_on(partial(preprocessing.scale, with_mean=False), {}) is _ADVICE["sklearn.preprocessing"]
    True
    >>> _advice_on(preprocessing.normalize, {}) is None
    True
    """
    while isinstance(function, partial):
        function, options = function.func, {**function.keywords, **options}
    owner = getattr(function, "__self__", function)  # of a bound method; an object that is called stands for itself
    if callable(getattr(owner, "fit", None)):
        problem, _ = _advice_for(type(owner))
        return f"it is or was fitted out of sight; {problem}", f"{_OTHERS}; give the step, not its method"
    names = _SCALERS if options.get("axis", 1) == 1 else (*_SCALERS, "normalize")
    is_scaler = any(function is getattr(preprocessing, name) for name in names)
    return _ADVICE["sklearn.preprocessing"] if is_scaler else None
