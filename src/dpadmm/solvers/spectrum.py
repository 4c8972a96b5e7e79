"""Eigendecompositions `M = V diag(e) V'` of positive semidefinite matrices, thin when the rank is small."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from dpadmm.problems.arrays import Floats, Matrix
from dpadmm.problems.risk import gram


@dataclass(frozen=True)
class Spectrum:
    """`M = vectors diag(values) vectors'`, vectors (d, r), r = min(n, d): `M + sigma I` inverts for every sigma > 0."""

    vectors: Floats
    values: Floats

    @classmethod
    def of_rows(cls, rows: Matrix, scale: float) -> "Spectrum":
        """Return the spectrum of `scale * rows' rows`, from the smaller of the two Gram matrices."""
        n, d = rows.shape
        if n >= d:
            values, vectors = np.linalg.eigh(gram(rows))
            return cls(np.ascontiguousarray(vectors), scale * np.maximum(values, 0.0))
        dense = np.asarray(rows.todense()) if sparse.issparse(rows) else rows
        # n < d: the thin SVD gives the same matrix with n vectors (the Woodbury case).
        _, singular, vt = np.linalg.svd(dense, full_matrices=False)
        return cls(np.ascontiguousarray(vt.T), scale * singular**2)

    def solve(self, rhs: Floats, sigma: float) -> Floats:
        """Return (M + sigma I)^-1 rhs for rhs (d, R); by Woodbury where the decomposition is thin."""
        if len(self.values) == len(self.vectors):
            return self.vectors @ ((self.vectors.T @ rhs) / (self.values + sigma)[:, None])
        shrink = self.values / (self.values + sigma)
        return (rhs - self.vectors @ (shrink[:, None] * (self.vectors.T @ rhs))) / sigma
