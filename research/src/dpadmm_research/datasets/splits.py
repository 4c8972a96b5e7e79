"""Random training and test rows."""

from dataclasses import replace

import numpy as np

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.data.partition import EncodedTable, Rows, check_generator
from dpadmm.errors import InputError


def split(n_rows: int, rng: np.random.Generator, *, train_fraction: float = 0.7) -> tuple[Rows, Rows]:
    """Return random training and test rows, `floor(train_fraction * n_rows)` of them for training.

    >>> train, test = split(45_222, np.random.default_rng(0))
    >>> len(train), len(test)
    (31655, 13567)
    """
    rows = checks.count("n_rows", n_rows, least=2)
    fraction = checks.open_unit("train_fraction", train_fraction)
    # The nudge keeps 0.7 * 10 = 7 from becoming 6.999...
    size = int(np.floor(fraction * rows + 1e-9))
    if not 0 < size < rows:
        raise InputError(
            f"train_fraction {safe_repr(train_fraction)} of {rows} rows leaves one side empty; "
            "use more rows or another fraction."
        )
    order = check_generator(rng).permutation(rows)
    return np.sort(order[:size]), np.sort(order[size:])


def take(data: EncodedTable, rows: Rows) -> EncodedTable:
    """Return the data set with these rows only."""
    groups = None if data.groups is None else data.groups[rows]
    return replace(data, features=data.features[rows], labels=data.labels[rows], groups=groups)


def split_data(
    data: EncodedTable, rng: np.random.Generator, *, train_fraction: float = 0.7
) -> tuple[EncodedTable, EncodedTable]:
    """Return random training and test parts; a 70/30 split unless told otherwise."""
    train, test = split(data.n_rows, rng, train_fraction=train_fraction)
    return take(data, train), take(data, test)
