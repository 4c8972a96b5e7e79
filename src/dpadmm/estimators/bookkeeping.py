"""The estimators' dealings with a ledger: which data it is about, and how a path becomes an open ledger."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dpadmm.errors import InputError
from dpadmm.estimators.validation import real_table
from dpadmm.privacy.ledger import Ledger


def ledger_data(X: Any, y: Any) -> Mapping[str, Any]:
    """Return a training set as the named arrays a ledger takes its fingerprint of.

    Create a ledger for an estimator with `Ledger.create(path, ledger_data(X, y), Budget(epsilon, delta))`. Features
    count as float64 numbers, dense or sparse alike by what is stored, and so do numbers as targets: 1, 1.0 and True are
    the same label. The order of the rows counts.

    >>> sorted(ledger_data([[0.5], [1.0]], ["a", "b"]))
    ['X', 'y']
    """
    labels = _plain_labels(y)
    if not sparse.issparse(X):
        return {"X": real_table(X), "y": labels}
    table = sparse.csr_array(X, dtype=np.float64)
    table.sum_duplicates()
    parts = {"X.data": table.data, "X.indices": table.indices, "X.indptr": table.indptr, "X.shape": table.shape}
    return {**parts, "y": labels}


def _plain_labels(y: Any) -> NDArray[Any]:
    """Return targets in one form however they are held: estimators see a vector, and regression sees floats."""
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.dtype.kind == "O" and all(isinstance(label, Real) for label in labels.ravel()):
        labels = labels.astype(np.float64)
    return labels.astype(np.float64) if labels.dtype.kind in "biuf" else labels.astype(str)


@contextmanager
def opened(ledger: Any, X: Any, y: Any) -> Iterator[Ledger | None]:
    """Yield the ledger, opened for these data if it is given as a path; an open one is used as it is."""
    with _context(ledger, X, y) as book:
        yield book


def check_ledger(ledger: Any) -> None:
    """Refuse what is neither a path nor a ledger."""
    if ledger is not None and not isinstance(ledger, Ledger | str | os.PathLike):
        raise InputError(
            f"ledger must be a path, an open Ledger or None, got {type(ledger).__name__}. Create one with "
            "Ledger.create(path, ledger_data(X, y), Budget(epsilon, delta))."
        )


def _context(ledger: Any, X: Any, y: Any) -> Any:
    check_ledger(ledger)
    if ledger is None or isinstance(ledger, Ledger):
        return nullcontext(ledger)
    return Ledger.open(ledger, data=ledger_data(X, y))
