"""The data of a fit: checked by scikit-learn's rules or read by a schema, laid out by silo, and known to a ledger.

Everything here is done before anything is computed, drawn or recorded.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from dpadmm.checks import safe_repr
from dpadmm.core.budget import LedgerData
from dpadmm.core.dataset import ArrayRows, Dataset
from dpadmm.core.model import ReleasedModel
from dpadmm.data.columns import Label, RealLabel
from dpadmm.data.encoding import RowEncoding, box_of
from dpadmm.data.schema import Schema, numbered_names
from dpadmm.data.tables import screen_cells
from dpadmm.errors import InputError, raise_alone
from dpadmm.estimators.owners import RowOwners, RowsBySilo, refuse_as
from dpadmm.models.predict import encode_predictions, read_rows, shift_to_threshold
from dpadmm.privacy.ledger import SiloColumns
from dpadmm.problems.arrays import Floats, Matrix
from dpadmm.settings import CellRules

# What other packages say about data may hold a cell ("could not convert string to float: 'Meier'"), a whole table
# ("Complex data not supported [[...]]") or names of columns, which are a record where a file has no header. So a text
# passes only if all of it matches a pattern with open places for counts, types and class names alone.
_CLASS = r"[A-Za-z_]\w*"
_SHAPE = r"\((?:\d+,?\s?)*\)"
_SAFE = tuple(
    re.compile(pattern)
    for pattern in (
        rf"Found array with \d+ (?:sample|feature)\(s\) \(shape={_SHAPE}\) while a minimum of \d+ is required"
        rf"(?: by {_CLASS})?\.",
        rf"Found array with dim \d+, while dim <= 2 is required(?: by {_CLASS})?\.",
        rf"X has \d+ features, but {_CLASS} is expecting \d+ features as input\.?",
        rf"y should be a 1d array, got an array of shape {_SHAPE} instead\.",
        r"y must be real numbers, got values of type [a-z0-9<>U]+\.",
        r"predict must return one value per record, \d+ in all, got \((?:\d+,?\s?)*\)\.",
        rf"(?:This )?{_CLASS}(?: estimator)? requires y to be passed, but the target y is None\.?",
        rf"This {_CLASS} instance is not fitted yet\. Call 'fit' with appropriate arguments before using this "
        r"estimator\.",
        r"Unknown label type: [a-z-]+\. Maybe you are trying to fit a classifier, which expects discrete classes on a "
        r"regression target with continuous values\.",
        rf"float\(\) argument must be a string or a real number, not '{_CLASS}'",
        r"Expected sequence or array-like, got <class '[\w.]+'>",
        r"Support for labels represented as bytes is not supported\. Convert the labels to a string or integer "
        r"format\.",
    )
)
_TEXT = (
    "a cell is text and not a number. Encode text by publicly listed categories, or give a DataFrame and its schema= "
    "(draft one with `dpadmm schema init`)."
)
_COMPLEX = "Complex data not supported: X and y must hold real numbers."
_SHAPE_OF_X = (
    "X must be a table with two dimensions, (records, features). Reshape your data: array.reshape(-1, 1) if it has one "
    "feature, array.reshape(1, -1) if it is one record."
)
_SINGLE = "X and y must be arrays, got a single value."
_UNEVEN = "the rows do not all have the same length, or a cell holds a list."
_REPLACEMENTS = {
    "could not convert string": _TEXT,
    "Unable to convert array of bytes": _TEXT,
    "not compatible with arrays of bytes": _TEXT,
    "Complex data not supported": _COMPLEX,
    "can't convert complex": _COMPLEX,
    "Expected 2D": _SHAPE_OF_X,
    "Expected a 2-dimensional container": _SHAPE_OF_X,
    "Input should have at least 1 dimension": _SINGLE,
    "Singleton array": _SINGLE,
    "inconsistent numbers of samples": "X, y and all other arrays must have the same number of rows.",
    "The feature names should match those that were passed during fit": (
        "The feature names should match those that were passed during fit, in number, name and order; these do not. "
        "Give the columns of the training table, in its order."
    ),
    "Feature names are only supported if all input features have string names": (
        "the names of the columns must be all text or none of them."
    ),
    "inhomogeneous shape": _UNEVEN,
    "setting an array element with a sequence": _UNEVEN,
    "Unknown label type": "Unknown label type: y must contain labels of one kind, all numbers or all text.",
    "Sparse data was passed": "sparse data were passed where dense ones are needed. Use .toarray().",
}
_FOUND = {
    # Leaving such rows out would publish how many there are.
    "NaN": ("NaN", "Fill empty cells with a public constant"),
    "infinity": ("infinity or a value too large for float64", "Replace such cells with a public constant"),
}
_NOT_FINITE = re.compile(r"Input (?:(X|y) )?contains (NaN|infinity)")


class InputTypeError(InputError, TypeError):
    """The data are of a kind that cannot be used; scikit-learn's conventions want a `TypeError` for these."""


@contextmanager
def hide_cells(estimator: BaseEstimator) -> Iterator[None]:
    """Turn complaints about data, of scikit-learn or of a model, into ours.

    Many of theirs quote cells, or names of columns, which may be somebody's record; see `_complaint`.
    """
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as problem:  # noqa: BLE001 - whatever it is, its text may quote a cell
        kind = InputTypeError if isinstance(problem, TypeError) else InputError
        raise_alone(kind(f"{type(estimator).__name__} cannot use these data: {_complaint(problem)}"))


def _complaint(problem: BaseException) -> str:
    """Return what was wrong with the data.

    >>> _complaint(ValueError("could not convert string to float: 'Meier'")).split(".")[0]
    'a cell is text and not a number'
    >>> _complaint(ValueError("X has 3 features, but PrivateLinearSVC is expecting 2 features as input"))
    'X has 3 features, but PrivateLinearSVC is expecting 2 features as input'
    >>> _complaint(ValueError("Input X contains NaN.\\nPrivateLinearSVC does not accept missing values"))
    'Input X contains NaN. Fill empty cells with a public constant.'
    """
    text = str(problem)
    if any(pattern.fullmatch(text) for pattern in _SAFE):
        return text
    bad = _NOT_FINITE.match(text)
    if bad is not None:
        found, remedy = _FOUND[bad[2]]
        return f"Input {bad[1] or 'y'} contains {found}. {remedy}."
    for known, instead in _REPLACEMENTS.items():
        if known in text:
            return instead
    return (
        f"their form is not supported ({type(problem).__name__}). X must be a table of real numbers, (records, "
        "features), and y one value per record."
    )


def training_data(estimator: BaseEstimator, X: Any, y: Any, *, is_numeric: bool) -> tuple[Matrix, NDArray[Any]]:
    """Return X as float64 (dense or CSR) and y as a vector."""
    with hide_cells(estimator):
        table, target = validate_data(estimator, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=is_numeric)
        if is_numeric and target.dtype.kind not in "biuf":
            raise ValueError(f"y must be real numbers, got values of type {target.dtype}.")
    return table, target


def new_data(estimator: BaseEstimator, X: Any) -> Matrix:
    """Return X for prediction, with the columns the estimator was fitted on."""
    with hide_cells(estimator):
        return validate_data(estimator, X, accept_sparse="csr", dtype=np.float64, reset=False)


ASSUMED_ROWS = "rows are divided by the square root of the number of features and shortened to norm 1"
_BY_SCHEMA = "cells are encoded by the public schema and the released column profile; long rows are bounded"


def array_dataset(
    estimator: Any, X: Matrix, y: NDArray[Any], label: Label, labels: Floats, owners: RowOwners, note: str
) -> Dataset:
    """Return the rows of an array with their encoded labels, and what the estimator's parameters state about them.

    Bounds alone leave the encoding to the plan; with a norm, features are scaled to -1..1 and rows shortened to it.
    note: about the label, for the statement.
    """
    bounds, norm = bounds_in_order(estimator), estimator.options.row_norm
    names, has_intercept = column_names(estimator), bool(estimator.options.fit_intercept)
    own, box = None, None
    if bounds is None or norm is not None:
        own = RowEncoding.of_numbers(X.shape[1], bounds, norm, has_intercept)
    if bounds is not None:
        low, high = box_of(bounds, X.shape[1])
        box = low.tolist(), high.tolist()
    while label.name in names:  # a column may be called so
        label = replace(label, name=label.name + "_")
    layout, is_whole = owners.layout(X.shape[0]), owners.groups is None and owners.persons is None
    return Dataset(
        Schema.of_array(names, label, box, has_intercept=has_intercept),
        [ArrayRows(X, labels)] if is_whole else [ArrayRows(X[part], labels[part]) for part in layout.rows],
        own=own,
        columns=tuple(f"X[{j}]" for j in range(X.shape[1])),  # as `ledger_data` has them
        ledger_columns=lambda is_whole: ledger_data(X, y, None if is_whole else owners.groups, owners.persons),
        people=layout.people,
        assumed=(_public_map(describe_rows(own, has_bounds=bounds is not None, has_norm=norm is not None)), note),
    )


def describe_rows(own: RowEncoding | None, *, has_bounds: bool, has_norm: bool) -> str:
    """Say what is done to a row of an array before training."""
    if own is None:
        return "every feature is clipped to its public bounds, centred and scaled, and long rows are bounded"
    if not has_norm:
        return ASSUMED_ROWS
    parts = ["every feature is clipped to its public bounds and scaled to -1..1"] if has_bounds else []
    return ", then ".join([*parts, f"rows longer than {own.radius:.6g} are shortened to that norm"])


def _public_map(description: str) -> str:
    return f"before training, {description}; this map is public"


def table_dataset(schema: Schema, screening: CellRules, table: pd.DataFrame, owners: RowOwners) -> Dataset:
    """Return the rows of a table with its label, screened as `dpadmm fit` does."""
    layout, places = owners.layout(len(table)), [str(name).strip() for name in table.columns]
    return Dataset(
        schema,
        [screen_cells(schema, table.iloc[part], "X", screening) for part in layout.rows],
        columns=tuple(f"X[{places.index(name)}]" for name in schema.column_names),  # as `ledger_data` has them
        ledger_columns=lambda is_whole: ledger_data(table, None, None if is_whole else owners.groups, owners.persons),
        people=layout.people,
        assumed=(_public_map(_BY_SCHEMA), "the classes or bounds of the label are those of the schema"),
    )


def add_label(estimator: BaseEstimator, X: Any, y: Any, label: str) -> pd.DataFrame:
    """Return the table with its label, y; the index counts the rows of X, so that messages do."""
    name = type(estimator).__name__
    if y is None:
        raise InputError(f"{name} requires y to be passed, but the target y is None.")
    table = reset_rows(X)
    with refuse_as("y must be one label for each row of X."):
        if isinstance(y, list | tuple):  # cell by cell: as one array, one person's label would change how others read
            values = pd.Series(list(y), dtype=object)
        else:
            values = pd.Series(np.asarray(y).reshape(len(table)))
        if len(values) != len(table):
            raise ValueError
    return table.assign(**{label: values})


def predict_and_label(
    model: ReleasedModel, table: pd.DataFrame, screening: CellRules, threshold: float | None = None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
    """Return predictions and labels of a labelled table with a schema, and which rows were blanked.

    Numbers are in their own units, classes -1 or +1: the label may have several names for one class.
    """
    label, read = model.schema.label, read_rows(model, table, "X", screening, is_labelled=True)
    scores = np.asarray(read.features @ model.weights.T)
    if isinstance(label, RealLabel):
        return label.decode(encode_predictions(model, scores)), label.decode(read.labels), read.blank
    return encode_predictions(model, shift_to_threshold(model, scores, threshold)), read.labels, read.blank


def reset_rows(X: Any) -> pd.DataFrame:
    """Return a data frame whose index counts its rows: its own may hold people's names or numbers."""
    if not isinstance(X, pd.DataFrame):
        raise InputError(f"With a schema, X must be a pandas DataFrame with its columns, got {type(X).__name__}.")
    return X.reset_index(drop=True)


def column_names(estimator: Any) -> Sequence[str]:
    """Return the names of the columns of an array; numbers where they are none, not distinct, or like a record."""
    names = [str(name).strip() for name in getattr(estimator, "feature_names_in_", ())]
    if names and all(names) and len(set(names)) == len(names):
        from dpadmm.data.draft import is_like_a_value

        if not any(map(is_like_a_value, names)):
            return names
    return numbered_names(int(estimator.n_features_in_))


def bounds_in_order(estimator: Any) -> Any:
    """Return an estimator's feature_bounds; those that are given by the names of columns, in the order of X."""
    bounds = estimator.feature_bounds
    if not isinstance(bounds, Mapping):
        return bounds
    names = list(getattr(estimator, "feature_names_in_", ()))
    if not names:
        raise InputError(
            "feature_bounds by name need named columns. Pass X as a DataFrame, or feature_bounds as a pair (low, high)."
        )
    if set(bounds) != set(names):  # counted: names of columns may be a record
        raise InputError(
            f"feature_bounds must name every column of X and no other: {len(set(names) - set(bounds))} of its "
            f"{len(names)} are left out, and {len(set(bounds) - set(names))} of the names are not in X."
        )
    with refuse_as("feature_bounds by name must be a pair (low, high) of numbers for every column."):
        pairs = [(float(low), float(high)) for low, high in (bounds[name] for name in names)]
    return [low for low, _ in pairs], [high for _, high in pairs]


def class_list(classes: Any, y: NDArray[Any]) -> tuple[NDArray[Any], bool]:
    """Return the classes in order and whether they were given; reading them off y touches the data."""
    if classes is None:
        with refuse_as("y must contain labels of one kind, all numbers or all text."):
            found = np.unique(y)
        if len(found) < 2:
            raise InputError(
                "A classifier needs at least 2 classes, but y contains only 1 class. If others may occur, list "
                "all of them with classes=."
            )
        return found, False
    with refuse_as(f"classes must list at least 2 distinct labels, got {safe_repr(classes)}."):
        given = np.asarray(classes)
    if given.ndim != 1 or len(given) < 2:
        raise InputError(f"classes must list at least 2 distinct labels, got {safe_repr(classes)}.")
    with refuse_as("classes must be labels of one kind, all numbers or all text."):
        known = np.unique(given)
        strange = ~np.isin(y, known)
    if len(known) != len(given):
        raise InputError(f"classes must be distinct, got {safe_repr(classes)}.")
    if np.any(strange):
        raise InputError(
            f"y contains labels that are not among the {len(known)} given as classes. List every label that may occur."
        )
    return known, True


def encoded_classes(y: NDArray[Any], classes: NDArray[Any]) -> Floats:
    """Return labels -1/+1 for two classes, the classes' numbers for more; `classes` are sorted."""
    codes = np.searchsorted(classes, y).astype(np.float64)
    return 2 * codes - 1 if len(classes) == 2 else codes


def ledger_data(X: Any, y: Any = None, groups: Any = None, persons: Any = None) -> tuple[SiloColumns, ...]:
    """Return a training set as the silos that a ledger is made for.

    Create a ledger for an estimator with

        Ledger.create(path, ledger_data(X, y, groups), Budget(epsilon=1.0, delta=1e-6))

    With `groups` as they will be given to fit, each silo has the budget to itself. A ledger made without groups adds up
    what all silos release. What counts are the values of each column and the order of the rows: dense or sparse, 1,
    1.0, "1" or True are the same, in Python and in the files of `dpadmm fit`. With `persons` as they will be given to
    fit, the ledger is made for `Protection(unit=Unit.PERSON)`, and counts persons.

    >>> ledger_data([[0.5], [1.0]], ["a", "b"], groups=["north", "south"])
    (SiloColumns('north', 2 arrays), SiloColumns('south', 2 arrays))
    """
    table = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X)
    if table.ndim != 2:
        raise InputError(f"X must be a table with rows and columns, got an array of shape {table.shape}.")
    parts = {"X": table} | ({} if y is None else {"y": np.asarray(y)})
    layout = RowsBySilo.of(groups, table.shape[0])
    by_silo = [None] * len(layout.rows) if persons is None else RowOwners(groups, persons).numbers(layout).numbers
    return tuple(
        SiloColumns(name, {part: values[rows] for part, values in parts.items()}, numbers)
        for name, rows, numbers in zip(layout.names, layout.rows, by_silo, strict=True)
    )


def silo_columns(X: Any, y: Any, groups: Any = None, persons: Any = None) -> LedgerData:
    """Return a training set as `ledger_data` of it, or of all of its rows as one silo."""
    return lambda is_whole: ledger_data(X, y, None if is_whole else groups, persons)
