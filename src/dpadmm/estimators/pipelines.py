"""Which steps of a scikit-learn pipeline learn from the rows, where no private fit can account for it.

The rule: a step is taken to read the data when it is fitted, unless it is scikit-learn's own and says that it needs no
fitting (its tag `requires_fit`), or its settings fix all that it could learn (listed below, for exactly these classes).
A subclass may do anything in its fit, so nothing that its parent says counts.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import singledispatch
from types import MappingProxyType
from typing import Any

import numpy as np
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
from dpadmm.estimators.advice import OVERRIDDEN, Advice, advice_for
from dpadmm.estimators.base import PrivateEstimator
from dpadmm.estimators.functions import advice_on


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
    seen = _Seen([], [], 0)
    _walk(pipe, "", seen)
    if seen.private_fits > 1:
        seen.notes.append(f"{seen.private_fits} private models are fitted on the same rows: their epsilons add up")
    return PipelineCheck(findings=tuple(seen.findings), notes=tuple(seen.notes), has_private_fit=seen.private_fits > 0)


@dataclass
class _Seen:
    """What a walk has met so far."""

    findings: list[LearningStep]
    notes: list[str]
    private_fits: int

    def add(self, step: Any, place: str, advice: Advice | None = None, what: str = "") -> None:
        """Add a finding about a step, by default that which is known of its class."""
        name, known = type(step).__name__, advice or advice_for(type(step))
        self.findings.append(
            LearningStep(place=place or name, step=what or name, problem=known.problem, instead=known.instead)
        )

    def note(self, step: Any, place: str, text: str) -> None:
        self.notes.append(f"{place or type(step).__name__} {text}")


def _walk(step: Any, place: str, seen: _Seen) -> None:
    if step is None or isinstance(step, str):  # "passthrough" and "drop"
        return
    if isinstance(step, type):
        raise InputError(f"{place or 'A step'} is the class {step.__name__}. Give an instance: {step.__name__}(...).")
    if isinstance(step, PrivateEstimator):
        seen.private_fits += 1
        if not _is_from("dpadmm", step):
            seen.add(step, place, OVERRIDDEN)
    elif isinstance(step, FrozenEstimator) and _is_from("sklearn", step):
        seen.note(step, place, "was fitted before: if not on public data, its cost belongs to the privacy figures too")
    elif isinstance(step, _CONTAINERS):
        if not _is_from("sklearn", step):
            seen.add(step, place)
        _look_closer(step, place, seen)
        for name, part in _parts(step):
            _walk(part, f"{place} > {name}" if place else name, seen)
    elif reads_the_data(step):
        seen.add(step, place)
        for name, part in _held(step):
            _walk(part, f"{place or type(step).__name__} > {name}", seen)
    else:
        _look_closer(step, place, seen)


def _is_from(package: str, step: Any) -> bool:
    """Return whether a step's very class is of a package; a subclass made elsewhere is not."""
    return type(step).__module__.startswith(f"{package}.")


_CONTAINERS = (Pipeline, FeatureUnion, ColumnTransformer, TransformedTargetRegressor, FixedThresholdClassifier)


@singledispatch
def _parts(container: Any) -> Iterator[tuple[str, Any]]:
    """Yield the steps of a container that only passes rows on, with their names."""
    raise NotImplementedError(type(container))


@_parts.register
def _(container: Pipeline) -> Iterator[tuple[str, Any]]:
    yield from container.steps


@_parts.register
def _(container: FeatureUnion) -> Iterator[tuple[str, Any]]:
    yield from container.transformer_list


@_parts.register
def _(container: ColumnTransformer) -> Iterator[tuple[str, Any]]:
    yield from ((name, step) for name, step, _ in container.transformers)
    yield "remainder", container.remainder


@_parts.register
def _(container: TransformedTargetRegressor) -> Iterator[tuple[str, Any]]:
    yield "transformer", container.transformer
    # Without a regressor scikit-learn takes this one.
    yield "regressor", LinearRegression() if container.regressor is None else container.regressor


@_parts.register
def _(container: FixedThresholdClassifier) -> Iterator[tuple[str, Any]]:
    yield "estimator", container.estimator


def _held(step: Any) -> Iterator[tuple[str, Any]]:
    """Yield the estimators among the settings of an estimator, one by one or in lists of (name, estimator)."""
    settings = step.get_params(deep=False) if hasattr(step, "get_params") else {}
    for name, value in settings.items():
        if hasattr(value, "fit"):
            yield name, value
        elif isinstance(value, list | tuple):
            pairs = (each for each in value if isinstance(each, list | tuple) and len(each) == 2)
            yield from ((str(label), part) for label, part in pairs if hasattr(part, "fit"))


_FUNCTION_NOTE = "calls a function that cannot be inspected: it must treat every row on its own"


@singledispatch
def _look_closer(step: Any, place: str, seen: _Seen) -> None:
    """Look at what is in a step's settings: a mean over the rows can hide in a function of the user's."""


@_look_closer.register
def _(step: FunctionTransformer, place: str, seen: _Seen) -> None:
    _judge(step, step.func, step.kw_args or {}, place, seen)


@_look_closer.register
def _(step: TransformedTargetRegressor, place: str, seen: _Seen) -> None:
    _judge(step, step.func, {}, place, seen)


def _judge(step: Any, function: Any, options: Mapping[str, Any], place: str, seen: _Seen) -> None:
    if function is None or isinstance(function, np.ufunc):
        return
    advice = advice_on(function, options)
    if advice is None:
        seen.note(step, place, _FUNCTION_NOTE)
    else:
        seen.add(step, place, advice, f"a function in {type(step).__name__}")


@_look_closer.register
def _(step: Pipeline, place: str, seen: _Seen) -> None:
    if step.memory is not None:
        seen.note(step, place, "keeps fitted steps and transformed rows on disk (memory=): leave it out")


@_look_closer.register(OneHotEncoder)
@_look_closer.register(OrdinalEncoder)
def _(step: Any, place: str, seen: _Seen) -> None:
    if step.handle_unknown == "error":
        lenient = "'ignore'" if isinstance(step, OneHotEncoder) else "'use_encoded_value', unknown_value=-1"
        seen.note(step, place, f"quotes unlisted cells in its errors: set handle_unknown={lenient}")


@_look_closer.register
def _(step: ColumnTransformer, place: str, seen: _Seen) -> None:
    for name, _, columns in step.transformers:
        if callable(columns) and not isinstance(columns, make_column_selector):
            seen.add(step, f"{place} > {name}" if place else name, _COLUMNS, "columns chosen by a function")


_COLUMNS = Advice(
    "the function sees the rows, and its choice of columns may depend on them",
    "list the columns by name, or by type with make_column_selector",
)


def reads_the_data(step: Any) -> bool:
    """Return whether fitting a step may learn something from the rows; unknown steps are taken to."""
    is_fixed = _FIXED.get(type(step))
    if is_fixed is not None:
        return not is_fixed(step)
    return not (_is_from("sklearn", step) and hasattr(step, "__sklearn_tags__")) or get_tags(step).requires_fit


def _always(step: Any) -> bool:
    return True


def _has_categories(step: Any) -> bool:
    has_all = not isinstance(step.categories, str)
    return has_all and step.min_frequency is None and step.max_categories is None


def _fills_a_constant(step: Any) -> bool:
    # Without keep_empty_features a column is dropped if all its cells are empty; the indicator drops columns too.
    return step.strategy == "constant" and step.keep_empty_features and not step.add_indicator


_FIXED: Mapping[type, Callable[[Any], bool]] = MappingProxyType(
    {
        OneHotEncoder: _has_categories,
        OrdinalEncoder: _has_categories,
        SimpleImputer: _fills_a_constant,
        MissingIndicator: lambda step: step.features == "all",
        SplineTransformer: lambda step: not isinstance(step.knots, str),
        CountVectorizer: lambda step: step.vocabulary is not None,
        RBFSampler: lambda step: not isinstance(step.gamma, str),
        # These count columns and rows, which are public, and draw from their own seed.
        PolynomialFeatures: _always,
        PolynomialCountSketch: _always,
        SkewedChi2Sampler: _always,
        GaussianRandomProjection: _always,
        SparseRandomProjection: _always,
    }
)
"""Steps with settings that leave nothing to be learned: exactly these classes, since a subclass may do more."""
