"""Metrics that steps start from: an agent's curvature, as much of it as its dimension allows to keep."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from dpadmm.problems.arrays import Floats, Matrix
from dpadmm.problems.centred import CentredRows
from dpadmm.solvers.solution import Spectrum

_RANK = 50
# Columns tried beside the rank, and products with the matrix before its largest directions are read off.
_SPARE = 10
_PRODUCTS = 2


@dataclass(frozen=True)
class Metric:
    """`M = V diag(values) V' + diag(rest)`, V (d, r) orthonormal, values at least 0; `rest` is one number if r > 0.

    A metric shapes the steps and nothing else: where they end is decided by the gradient.
    """

    vectors: Floats
    values: Floats
    rest: Floats

    @classmethod
    def of_spectrum(cls, spectrum: Spectrum) -> "Metric":
        """Return the whole matrix."""
        return cls(spectrum.vectors, spectrum.values, np.zeros(len(spectrum.vectors)))

    @classmethod
    def low_rank(cls, rows: Floats, weights: Floats) -> "Metric":
        """Return the largest directions of `rows' diag(weights) rows`, and the mean of what is left of it."""
        d = rows.shape[1]
        rank = min(_RANK, *rows.shape)
        basis = np.random.default_rng(0).standard_normal((d, min(rank + _SPARE, d)))
        for _ in range(_PRODUCTS):
            basis, _ = np.linalg.qr(rows.T @ (weights[:, None] * (rows @ basis)))
        images = rows @ basis
        values, turn = np.linalg.eigh(images.T @ (weights[:, None] * images))
        values, vectors = np.maximum(values[::-1][:rank], 0.0), basis @ turn[:, ::-1][:, :rank]
        trace = float(weights @ np.einsum("ij,ij->i", rows, rows))
        left = max(trace - float(values.sum()), 0.0) / max(d - rank, 1)
        return cls(np.ascontiguousarray(vectors), np.maximum(values - left, 0.0), np.full(d, left))

    @classmethod
    def diagonal(cls, rows: Matrix, weights: Floats) -> "Metric":
        """Return the diagonal of `rows' diag(weights) rows`, from sparse rows."""
        rest = _diagonal(rows, weights)
        return cls(np.empty((len(rest), 0)), np.empty(0), rest)

    def inverse(self, sigma: float) -> tuple[Floats, Floats, Floats]:
        """Return V, g and h of `(M + sigma I)^-1 = V diag(g) V' + diag(h)`."""
        d, rank = self.vectors.shape
        if rank == d:
            return self.vectors, 1.0 / (self.values + self.rest + sigma), np.zeros(d)
        spread = 1.0 / (self.rest + sigma)
        base = spread[:1]  # of no account for a diagonal, which has no vectors
        return self.vectors, 1.0 / (self.values + 1.0 / base) - base if rank > 0 else np.empty(0), spread


def _diagonal(rows: Matrix, weights: Floats) -> Floats:
    if isinstance(rows, CentredRows):
        stored, centre = rows.stored, rows.centre
        factors = np.asarray(stored @ np.eye(1, stored.shape[1], stored.shape[1] - 1)[0])
        squares, cross = _diagonal(stored, weights)[:-1], np.asarray(stored.T @ (weights * factors))[:-1]
        return np.maximum(squares - 2 * centre * cross + centre**2 * float(weights @ factors**2), 0.0)
    squared = sparse.csr_array((rows.data**2, rows.indices, rows.indptr), shape=rows.shape)
    return np.asarray(squared.T @ weights)
