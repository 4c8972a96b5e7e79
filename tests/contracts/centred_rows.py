"""Centred rows for tests: made at random, or out of rows that exist, and what a table is as an array."""

from dataclasses import replace

import numpy as np
from scipy import sparse

from dpadmm.problems.centred import CentredRows
from dpadmm.problems.silos import MOST_SHIFT


def as_array(rows):
    """The rows as an array, from their definition and not by `toarray` where they are centred."""
    if isinstance(rows, np.ndarray):
        return rows
    if sparse.issparse(rows):
        return rows.toarray()
    stored = rows.stored.toarray()
    return stored[:, :-1] - np.outer(stored[:, -1], rows.centre)


def random_centred(rng, sizes, d, *, row_norm=1.0, density=0.67):
    """Parts about one centre, rows of norm at most `row_norm`; every fifth row is not centred, some entries are 0."""
    centre = rng.normal(size=d) / np.sqrt(d)
    most = 0.99 * MOST_SHIFT / np.linalg.norm(centre)
    parts = []
    for n in sizes:
        table = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
        factors = np.clip(rng.normal(size=n), -0.99 * most, 0.99 * most) * (np.arange(n) % 5 != 4)
        length = np.maximum(1, np.linalg.norm(table - np.outer(factors, centre), axis=1)) / row_norm
        parts.append(CentredRows(sparse.csr_array(table / length[:, None]), factors / length, centre, most * row_norm))
    return parts


def centred(table):
    """The rows of an array, up to rounding, about a centre that depends on their width alone."""
    n, d = table.shape
    centre, factors = np.linspace(-0.4, 0.6, d), np.cos(np.arange(n))
    return CentredRows(sparse.csr_array(table + np.outer(factors, centre)), factors, centre, most_factor=1.0)


def centred_silos(silos):
    """The same silos with centred rows; the promise allows for their rounding."""
    made = replace(silos, features=centred(as_array(silos.features)))
    assert made.is_sparse
    return made
