"""The estimators' dealings with a ledger: which data it is about, and how a path becomes a ledger that may be used."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse

from dpadmm.errors import InputError
from dpadmm.estimators.validation import Layout
from dpadmm.privacy.ledger import ConfirmedLedger, Ledger, SiloColumns, open_for_reading
from dpadmm.privacy.protection import ONE_RECORD, Protection


def ledger_data(X: Any, y: Any = None, groups: Any = None) -> tuple[SiloColumns, ...]:
    """Return a training set as the silos that a ledger is made for.

    Create a ledger for an estimator with

        Ledger.create(path, ledger_data(X, y, groups), Budget(epsilon=1.0, delta=1e-6))

    With `groups` as they will be given to fit, each silo has the budget to itself. A ledger made without groups adds up
    what all silos release. What counts are the values of each column and the order of the rows: dense or sparse, 1,
    1.0, "1" or True are the same, in Python and in the files of `dpadmm fit`.

    >>> ledger_data([[0.5], [1.0]], ["a", "b"], groups=["north", "south"])
    (SiloColumns('north', 2 arrays), SiloColumns('south', 2 arrays))
    """
    table = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X)
    if table.ndim != 2:
        raise InputError(f"X must be a table with rows and columns, got an array of shape {table.shape}.")
    parts = {"X": table} | ({} if y is None else {"y": np.asarray(y)})
    layout = Layout.of(groups, table.shape[0])
    return tuple(
        SiloColumns(name, {part: values[rows] for part, values in parts.items()})
        for name, rows in zip(layout.names, layout.rows, strict=True)
    )


@contextmanager
def opened(ledger: Any, X: Any, y: Any, groups: Any = None) -> Iterator[ConfirmedLedger | None]:
    """Yield the ledger, found to be that of these very data; None without one.

    A ledger of one silo takes data in groups as a whole. A confirmed ledger, which only this package hands in, was
    shown the table of which X and y are an encoding.
    """
    if ledger is None or isinstance(ledger, ConfirmedLedger):
        yield ledger
        return
    book = ledger.here() if isinstance(ledger, Ledger) else Ledger.open(ledger)
    try:
        is_whole = len(book.silos) == 1
        yield book.confirm(ledger_data(X, y, None if is_whole else groups))
    finally:
        if book is not ledger:
            book.close()


def protection_of(ledger: Any) -> Protection:
    """Return what the ledger's budget is about, or the usual protection without one."""
    if ledger is None:
        return ONE_RECORD
    if isinstance(ledger, ConfirmedLedger):
        return ledger.ledger.protection
    if isinstance(ledger, Ledger):
        return ledger.protection
    with open_for_reading(ledger) as book:
        return book.protection


def check_ledger(ledger: Any) -> None:
    """Refuse what is neither a path nor a ledger."""
    if ledger is not None and not isinstance(ledger, Ledger | str | os.PathLike):
        raise InputError(
            f"ledger must be a path, an open Ledger or None, got {type(ledger).__name__}. Create one with "
            "Ledger.create(path, ledger_data(X, y, groups), Budget(epsilon=..., delta=...))."
        )
