"""Extreme eigenvalues of the graph Laplacians, for the convergence theorems that ask for them."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array, diags_array
from scipy.sparse.csgraph import connected_components

from dpadmm.errors import SolverError
from dpadmm.networks.graph import FloatArray, IntArray, Network

Apply = Callable[[FloatArray], FloatArray]

DENSE_LIMIT = 500
"""Up to this many agents all eigenvalues are computed densely."""

MAX_RESTARTS = 300
"""How often the sparse eigensolver restarts before it gives up."""


@dataclass(frozen=True, repr=False)
class SpectralFacts:
    """Extreme eigenvalues of the Laplacian L = D - A and signless Laplacian Q = D + A of a connected graph.

    `algebraic_connectivity` is the smallest non-zero eigenvalue of L (a graph in which it is small is easily
    cut in two); `smallest_signless` is the smallest eigenvalue of Q, exactly 0 if and only if the graph is
    bipartite.
    """

    algebraic_connectivity: float
    largest_laplacian: float
    smallest_signless: float
    largest_signless: float
    is_bipartite: bool

    def __repr__(self) -> str:
        """Show six digits, one fact a line."""
        lines = (f"  {field.name} = {getattr(self, field.name):.6g}" for field in fields(self)[:-1])
        return "SpectralFacts(\n" + "\n".join(lines) + f"\n  is_bipartite = {self.is_bipartite}\n)"


def laplacian(network: Network) -> Any:
    """Return the Laplacian L = D - A as a CSR array; x'Lx = sum over edges of (x_i - x_j)^2."""
    return csr_array(diags_array(network.degrees.astype(np.float64)) - network.adjacency)


def signless_laplacian(network: Network) -> Any:
    """Return the signless Laplacian Q = D + A as a CSR array; x'Qx = sum over edges of (x_i + x_j)^2."""
    return csr_array(diags_array(network.degrees.astype(np.float64)) + network.adjacency)


@lru_cache(maxsize=32)
def is_bipartite(network: Network) -> bool:
    """Return whether the agents split into two groups with edges only between the groups."""
    # The double cover joins (i, side) to (j, other side); it falls apart exactly if no odd cycle exists.
    i, j = network.edges.T
    n = network.n_agents
    cover = csr_array((np.ones(2 * len(i)), (np.r_[i, j], np.r_[j + n, i + n])), shape=(2 * n, 2 * n))
    return bool(connected_components(cover, directed=False, return_labels=False) == 2)


@lru_cache(maxsize=32)
def spectral_facts(network: Network) -> SpectralFacts:
    """Return the extreme eigenvalues of D - A and D + A.

    Dense up to `DENSE_LIMIT` agents. Beyond, each comes from a sparse eigensolver and is checked by its
    residual; `SolverError` if the solver does not converge or a check fails.
    """
    if network.n_agents <= DENSE_LIMIT:
        return _dense_facts(network.adjacency, is_bipartite(network))
    return _Sparse(network.adjacency, network.edges, is_bipartite(network)).facts()


def _dense_facts(adjacency: Any, is_bipartite: bool) -> SpectralFacts:
    """All eigenvalues of both matrices; index 1 is the connectivity because L has exactly one zero here."""
    a = adjacency.toarray()
    degrees = np.diag(a.sum(axis=1))
    laplacian, signless = np.linalg.eigvalsh(degrees - a), np.linalg.eigvalsh(degrees + a)
    return SpectralFacts(
        algebraic_connectivity=float(laplacian[1]),
        largest_laplacian=float(laplacian[-1]),
        smallest_signless=0.0 if is_bipartite else float(signless[0]),
        largest_signless=float(laplacian[-1] if is_bipartite else signless[-1]),
        is_bipartite=is_bipartite,
    )


class _Sparse:
    """Large graphs: inverse iteration where a factorisation is cheap (long thin graphs), else plain Lanczos.

    The two complement each other: graphs without small separators have well separated extreme eigenvalues.
    """

    def __init__(self, adjacency: Any, edges: IntArray, is_bipartite: bool) -> None:
        self.n = adjacency.shape[0]
        self.edges = edges
        self.is_bipartite = is_bipartite
        degrees = adjacency.sum(axis=1)
        self.laplacian = csr_array(diags_array(degrees) - adjacency)
        self.signless = csr_array(diags_array(degrees) + adjacency)
        # Anderson and Morley: no eigenvalue of L or Q exceeds the largest deg_i + deg_j over edges.
        edge_degrees = degrees[edges].sum(axis=1)
        self.ceiling = float(edge_degrees.max())
        self.has_equal_edge_degrees = bool(edge_degrees.min() == edge_degrees.max())
        self.has_cheap_factors = _has_cheap_factors(adjacency)

    def facts(self) -> SpectralFacts:
        largest_laplacian = self.largest_laplacian()
        return SpectralFacts(
            algebraic_connectivity=self.algebraic_connectivity(),
            largest_laplacian=largest_laplacian,
            # Flipping the signs on one side of a bipartite graph turns L into Q: equal spectra.
            smallest_signless=0.0 if self.is_bipartite else self.smallest_signless(),
            largest_signless=largest_laplacian if self.is_bipartite else self.largest_signless(),
            is_bipartite=self.is_bipartite,
        )

    def algebraic_connectivity(self) -> float:
        def inverse() -> Apply:
            # Grounding agent 0 and removing means gives the pseudo-inverse of L exactly.
            solve = _factorised(self.laplacian[1:, 1:])
            return lambda b: _centred(np.r_[0.0, solve(_centred(b)[1:])])

        # Lifting the constant vector out of the way leaves the connectivity as the smallest eigenvalue.
        vector = self._top(inverse, lambda b: b.mean() * -self.ceiling - self.laplacian @ b)
        return self._checked(self.laplacian, _centred(vector), -1.0)

    def smallest_signless(self) -> float:
        vector = self._top(lambda: _factorised(self.signless), lambda b: -(self.signless @ b))
        return self._checked(self.signless, vector, 1.0)

    def largest_laplacian(self) -> float:
        # The ceiling is attained exactly on bipartite graphs whose edges all have the same deg_i + deg_j,
        if self.is_bipartite and self.has_equal_edge_degrees:
            return self.ceiling
        return self._largest(self.laplacian, -1.0)

    def largest_signless(self) -> float:
        # and for Q on all graphs of that kind (its line graph is regular).
        if self.has_equal_edge_degrees:
            return self.ceiling
        return self._largest(self.signless, 1.0)

    def _largest(self, matrix: Any, sign: float) -> float:
        def inverse() -> Apply:
            return _factorised(diags_array(np.full(self.n, self.ceiling)) - matrix)

        return self._checked(matrix, self._top(inverse, lambda b: matrix @ b), sign)

    def _top(self, inverse: Callable[[], Apply], direct: Apply) -> FloatArray:
        """Eigenvector of the largest eigenvalue of the inverse, if cheap, or of the direct operator."""
        from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh  # slow to load; small networks do without

        apply = inverse() if self.has_cheap_factors else direct
        operator = LinearOperator((self.n, self.n), matvec=lambda b: apply(np.ravel(b)), dtype=np.float64)
        # A fixed start keeps the result reproducible; a generic one is not orthogonal to any eigenvector.
        start = np.random.default_rng(0).standard_normal(self.n)
        try:
            _, vectors = eigsh(operator, k=1, which="LA", v0=start, ncv=60, maxiter=MAX_RESTARTS, tol=1e-9)
        except ArpackError as error:
            raise SolverError(
                f"The extreme eigenvalues of this network of {self.n} agents did not converge ({error}). "
                "Use a smaller network of the same kind, or one whose spectrum is known in closed form."
            ) from error
        vector: FloatArray = vectors[:, 0]
        return vector

    def _checked(self, matrix: Any, vector: FloatArray, sign: float) -> float:
        """Return the Rayleigh quotient sum_edges (v_i + sign v_j)^2 / ||v||^2; check its residual.

        Written over edges it keeps its relative accuracy for tiny eigenvalues.
        """
        vector = vector / np.linalg.norm(vector)
        i, j = self.edges.T
        value = float(np.sum((vector[i] + sign * vector[j]) ** 2))
        residual = float(np.linalg.norm(matrix @ vector - value * vector))
        allowed = 1e-6 * value + 64 * np.finfo(np.float64).eps * self.ceiling
        if not (residual <= allowed and 0 < value <= self.ceiling * (1 + 1e-12)):
            raise SolverError(
                f"An extreme eigenvalue of this network of {self.n} agents failed its check: {value:.6g}, "
                f"residual {residual:.3g}, allowed {allowed:.3g}."
            )
        return value


def _centred(vector: FloatArray) -> FloatArray:
    """Remove the mean, i.e. project out the null space of L."""
    return np.asarray(vector - vector.mean(), dtype=np.float64)


def _has_cheap_factors(adjacency: Any) -> bool:
    """Whether a sparse factorisation fills in little: near-trees and long thin graphs."""
    n = int(adjacency.shape[0])
    # Agents of degree one and two are eliminated without fill; what remains has at most 2 (E - N) agents.
    if adjacency.nnz // 2 - n <= 1000:
        return True
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    place = np.empty(n, dtype=np.int64)
    place[reverse_cuthill_mckee(adjacency, symmetric_mode=True)] = np.arange(n)
    rows = np.repeat(np.arange(n), np.diff(adjacency.indptr))
    bandwidth = int(np.abs(place[rows] - place[adjacency.indices]).max())
    return bandwidth <= n / 20


def _factorised(matrix: Any) -> Apply:
    """Return the solver of a symmetric positive definite sparse system."""
    from scipy.sparse.linalg import splu

    factors = splu(
        csc_array(matrix),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    solve: Apply = factors.solve
    return solve
