"""Which steps of a scikit-learn pipeline learn from the rows, where no private fit can account for it.

The rule: a step is taken to read the data when it is fitted, unless it says that it needs no fitting (scikit-learn's
tag `requires_fit`), or its settings fix all that it could learn (listed below, for exactly these classes).
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

from dpadmm.errors import InputError
from dpadmm.estimators.advice import advice_for
from dpadmm.estimators.base import PrivateLinearModel


@dataclass(frozen=True, kw_only=True)
class Finding:
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

    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether no step learns from the rows but the private fit itself."""
        return not self.findings

    def __str__(self) -> str:
        """Return all findings and notes as text."""
        if self.is_clean:
            head = "No step but the private fit learns from the rows."
        else:
            head = f"{len(self.findings)} step(s) learn from the rows, which the private fit does not account for:"
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
    return PipelineCheck(findings=tuple(seen.findings), notes=tuple(seen.notes))


@dataclass
class _Seen:
    """What a walk has met so far."""

    findings: list[Finding]
    notes: list[str]
    private_fits: int

    def add(self, step: Any, place: str) -> None:
        advice = advice_for(type(step))
        where = place or type(step).__name__
        self.findings.append(
            Finding(place=where, step=type(step).__name__, problem=advice.problem, instead=advice.instead)
        )


def _walk(step: Any, place: str, seen: _Seen) -> None:
    if step is None or isinstance(step, str):  # "passthrough" and "drop"
        return
    if isinstance(step, PrivateLinearModel):
        seen.private_fits += 1
    elif isinstance(step, FrozenEstimator):
        seen.notes.append(f"{place or 'it'} was fitted before: on public data, or it belongs to the private figures")
    elif isinstance(step, _CONTAINERS):
        _look_at_functions(step, place, seen)
        for name, part in _parts(step):
            _walk(part, f"{place} > {name}" if place else name, seen)
    elif reads_the_data(step):
        seen.add(step, place)
        for name, part in _held(step):
            _walk(part, f"{place or type(step).__name__} > {name}", seen)
    else:
        _look_at_functions(step, place, seen)


_CONTAINERS = (Pipeline, FeatureUnion, ColumnTransformer, TransformedTargetRegressor)


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
    yield "regressor", container.regressor


def _held(step: Any) -> Iterator[tuple[str, Any]]:
    """Yield the estimators among the settings of an estimator, one by one or in lists of (name, estimator)."""
    settings = step.get_params(deep=False) if hasattr(step, "get_params") else {}
    for name, value in settings.items():
        if hasattr(value, "fit"):
            yield name, value
        elif isinstance(value, list | tuple):
            pairs = (each for each in value if isinstance(each, list | tuple) and len(each) == 2)
            yield from ((str(label), part) for label, part in pairs if hasattr(part, "fit"))


_FUNCTION_NOTE = "calls a function that cannot be looked into: it must treat each row by itself"


@singledispatch
def _look_at_functions(step: Any, place: str, seen: _Seen) -> None:
    """Note what depends on a function of the user's: a mean over the rows can hide in it."""


@_look_at_functions.register
def _(step: FunctionTransformer, place: str, seen: _Seen) -> None:
    if step.func is not None and not isinstance(step.func, np.ufunc):
        seen.notes.append(f"{place or 'FunctionTransformer'} {_FUNCTION_NOTE}")


@_look_at_functions.register
def _(step: TransformedTargetRegressor, place: str, seen: _Seen) -> None:
    if step.func is not None and not isinstance(step.func, np.ufunc):
        seen.notes.append(f"{place or 'TransformedTargetRegressor'} {_FUNCTION_NOTE}")


@_look_at_functions.register
def _(step: ColumnTransformer, place: str, seen: _Seen) -> None:
    for name, _, columns in step.transformers:
        if callable(columns) and not isinstance(columns, make_column_selector):
            where = f"{place} > {name}" if place else name
            seen.findings.append(
                Finding(
                    place=where,
                    step="columns chosen by a function",
                    problem="the function is given the rows, and which columns it takes may depend on them",
                    instead="list the columns by name, or by type with make_column_selector",
                )
            )


def reads_the_data(step: Any) -> bool:
    """Return whether fitting a step may learn something from the rows; unknown steps are taken to."""
    is_fixed = _FIXED.get(type(step))
    if is_fixed is not None:
        return not is_fixed(step)
    return not hasattr(step, "__sklearn_tags__") or get_tags(step).requires_fit


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
