"""Checks at the door of the estimators: data by scikit-learn's rules, words to types, groups to silos.

Everything here is done before anything is computed, drawn or recorded.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from dpadmm import checks
from dpadmm.algorithms.method import by_name, plannable
from dpadmm.checks import shown
from dpadmm.errors import InputError, raise_alone
from dpadmm.estimators.complaints import complaint
from dpadmm.networks.graph import Network, complete, path, ring, star
from dpadmm.problems.arrays import Ints, Matrix
from dpadmm.problems.regularisers import L1, ElasticNet, Regulariser, Ridge

Word = TypeVar("Word", bound=Enum)
_TOPOLOGIES = {"complete": complete, "path": path, "ring": ring, "star": star}
_AUTO = "auto"


class InputTypeError(InputError, TypeError):
    """The data are of a kind that cannot be used; scikit-learn's conventions want a `TypeError` for these."""


@contextmanager
def own_words(estimator: BaseEstimator) -> Iterator[None]:
    """Turn complaints about data, of scikit-learn or of a model, into ours.

    Many of theirs quote cells, or names of columns, which may be somebody's record; see `complaints`.
    """
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as problem:  # noqa: BLE001 - whatever it is, its text may quote a cell
        kind = InputTypeError if isinstance(problem, TypeError) else InputError
        raise_alone(kind(f"{type(estimator).__name__} cannot use these data: {complaint(problem)}"))


@contextmanager
def told_as(text: str) -> Iterator[None]:
    """Say `text` whatever goes wrong: an object's own complaint, when it is read as an array, may quote a cell."""
    try:
        yield
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - an object may raise anything
        raise_alone(InputError(text))


def training_data(estimator: BaseEstimator, X: Any, y: Any, *, is_numeric: bool) -> tuple[Matrix, NDArray[Any]]:
    """Return X as float64 (dense or CSR) and y as a vector."""
    with own_words(estimator):
        table, target = validate_data(estimator, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=is_numeric)
        if is_numeric and target.dtype.kind not in "biuf":
            raise ValueError(f"y must be real numbers, got values of type {target.dtype}.")
    return table, target


def real_table(X: Any) -> NDArray[np.float64]:
    """Return X as float64 numbers as it is, or say what is wrong with it."""
    try:
        return np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError, ArithmeticError) as problem:
        raise_alone(InputError(f"X cannot be read as numbers: {complaint(problem)}"))


def new_data(estimator: BaseEstimator, X: Any) -> Matrix:
    """Return X for prediction, with the columns the estimator was fitted on."""
    with own_words(estimator):
        return validate_data(estimator, X, accept_sparse="csr", dtype=np.float64, reset=False)


def word(name: str, value: Any, kind: type[Word]) -> Word:
    """Return the enum member that a word (or the member itself) names."""
    if isinstance(value, kind):
        return value
    known = {member.value: member for member in kind}
    if not isinstance(value, str) or value not in known:
        raise InputError(f"{name} must be one of {', '.join(map(repr, known))}, got {shown(value)}.")
    return known[value]


def method_name(algorithm: Any) -> str | None:
    """Return the registry's name of the method, None where the planner chooses."""
    if isinstance(algorithm, str) and algorithm == _AUTO:
        return None
    known = plannable()
    if isinstance(algorithm, str) and algorithm in by_name() and algorithm not in known:
        raise InputError(
            f"algorithm {algorithm!r} cannot be planned: it adds no noise, or needs settings no public fact decides. "
            f"Run it from Python with run_private, or choose 'auto' or one of {', '.join(known)}."
        )
    if not isinstance(algorithm, str) or algorithm not in known:
        raise InputError(f"algorithm must be 'auto' or one of {', '.join(known)}, got {shown(algorithm)}.")
    return algorithm


def network_of(topology: Any, n_silos: int) -> Network | None:
    """Return the network that a word, a `Network` or a networkx graph names; None where the planner chooses."""
    if topology is None or (isinstance(topology, str) and topology == _AUTO):
        return None
    if isinstance(topology, str):
        if topology not in _TOPOLOGIES:
            raise InputError(
                f"topology must be 'auto', {', '.join(map(repr, _TOPOLOGIES))} or a graph, got {shown(topology)}."
            )
        if n_silos < 2:
            raise InputError(
                f"topology {shown(topology)} needs at least 2 silos, got 1. Pass groups= to fit, or leave it out."
            )
        return _TOPOLOGIES[topology](n_silos)
    if isinstance(topology, Network):
        return topology
    try:
        return Network.from_graph(topology)
    except InputError as problem:
        raise InputError(f"topology: {problem}") from problem


def penalty_of(alpha: Any, l1_ratio: Any) -> Regulariser | None:
    """Return `alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2)`; None where the planner chooses."""
    ratio = checks.finite("l1_ratio", l1_ratio)
    if not 0 <= ratio <= 1:
        raise InputError(f"l1_ratio must lie between 0 (ridge) and 1 (lasso), got {shown(l1_ratio)}.")
    if alpha is None:
        if ratio > 0:
            raise InputError("l1_ratio needs alpha, the weight of the penalty, which is public. Give alpha > 0.")
        return None
    weight = checks.non_negative("alpha", alpha)
    if ratio == 0:
        return Ridge(weight)
    return L1(weight) if ratio == 1 else ElasticNet(weight * ratio, weight * (1 - ratio))


def boolean(name: str, value: Any) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False, got {shown(value)}.")
    return bool(value)


def seed_of(random_state: Any) -> int | None:
    """Return the seed of simulated noise, None for a release."""
    if random_state is None:
        return None
    is_seed = isinstance(random_state, Integral) and int(random_state) >= 0
    if isinstance(random_state, bool) or not (is_seed or isinstance(random_state, np.random.RandomState)):
        raise InputError(
            "random_state must be None (a release), a whole number of at least 0 or a numpy RandomState, got "
            f"{shown(random_state)}."
        )
    if is_seed:
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


@dataclass(frozen=True, eq=False)
class Layout:
    """Which rows are whose: the rows of every silo, in the order of the silos' names."""

    rows: tuple[Ints, ...] = field(repr=False)
    names: tuple[str, ...] = field(repr=False)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Records per silo, public."""
        return tuple(len(part) for part in self.rows)

    @classmethod
    def of(cls, groups: Any, n_records: int) -> "Layout":
        """Return the layout that `groups` (n,) names; without groups there is one silo."""
        if groups is None:
            return cls((np.arange(n_records),), ("silo 0",))
        with told_as(f"groups must name the silo of each of the {n_records} records, in one list."):
            labels = np.asarray(groups)
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        if labels.shape != (n_records,):
            raise InputError(
                f"groups must name the silo of each of the {n_records} records, got an array of shape {labels.shape}."
            )
        if labels.dtype.kind not in "biufUSOM":
            raise InputError(f"groups must be numbers or text, got values of type {labels.dtype}.")
        if np.any(pd.isna(labels)):
            raise InputError("groups hold missing values; name the silo of every record.")
        with told_as("groups must be all numbers or all text, got a mixture or other objects."):
            names, which = np.unique(labels, return_inverse=True)
            words = tuple(str(name) for name in names)
        rows = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
        return cls(tuple(rows), words)


def class_list(classes: Any, y: NDArray[Any]) -> tuple[NDArray[Any], bool]:
    """Return the classes in order and whether they were given; reading them off y touches the data."""
    if classes is None:
        with told_as("y must hold labels of one kind, all numbers or all text."):
            found = np.unique(y)
        if len(found) < 2:
            raise InputError(
                "A classifier needs at least 2 classes, but y holds 1 class only. If others may occur, name all of "
                "them with classes=."
            )
        return found, False
    with told_as(f"classes must list at least 2 distinct labels, got {shown(classes)}."):
        given = np.asarray(classes)
    if given.ndim != 1 or len(given) < 2:
        raise InputError(f"classes must list at least 2 distinct labels, got {shown(classes)}.")
    with told_as("classes must be labels of one kind, all numbers or all text."):
        known = np.unique(given)
        strange = ~np.isin(y, known)
    if len(known) != len(given):
        raise InputError(f"classes must be distinct, got {shown(classes)}.")
    if np.any(strange):
        raise InputError(f"y holds labels that are not among the {len(known)} given as classes. Add what may occur.")
    return known, True


def one_hot_signs(y: NDArray[Any], classes: NDArray[Any]) -> Sequence[NDArray[np.float64]]:
    """Return labels -1/+1, one vector per problem: one for two classes, else one per class against the rest."""
    positive = classes[1:] if len(classes) == 2 else classes
    return [np.where(y == label, 1.0, -1.0) for label in positive]
