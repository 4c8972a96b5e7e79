"""What a solver is asked and answers, which one fits the functions, and what they share: threads, spectra, metrics.

Where blocks of an agent's rows begin follows from public numbers alone, and their sums are added up in order: neither
the number of threads nor what the rows store shows in a single bit of a result.

The solvers are imported when one is made: their compiled kernels are slow to load, and planning or accounting by closed
forms needs none of them.
"""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, singledispatch
from typing import Generic, Protocol, TypeVar

import numpy as np  # brings a BLAS library, which `_blas` looks for
import scipy.special  # noqa: F401 - brings another one
from scipy import sparse
from threadpoolctl import ThreadpoolController

from dpadmm import checks
from dpadmm.errors import InputError, SolverError
from dpadmm.problems.arrays import Floats, Ints, Matrix
from dpadmm.problems.centred import CentredRows
from dpadmm.problems.losses import Constants, Squared
from dpadmm.problems.problem import CountRisk, EmpiricalRisk, LocalFunctions, SoftmaxRisk
from dpadmm.problems.quadratics import QuadraticAgents
from dpadmm.problems.silos import PairwiseSum, dense, gram, row_block, row_bounds, scale_rows
from dpadmm.problems.streams import StreamedRisk


def sum_blocks(one: Callable[[slice], Floats], bounds: Ints, threads: int) -> Floats:
    """Return the sum of `one` over all blocks, in an order that they alone decide."""
    if len(bounds) == 2:
        return one(slice(int(bounds[0]), int(bounds[1])))
    sums: list[Floats] = [np.empty(0)] * (len(bounds) - 1)

    def work(first: int, last: int) -> None:
        for block in range(first, last):
            sums[block] = one(slice(int(bounds[block]), int(bounds[block + 1])))

    for_each_block(work, len(sums), 1, threads)
    total = PairwiseSum()
    for each in sums:
        total.add(each)
    return np.asarray(total.value())


def block_gram(rows: Matrix, roots: Floats | None, threads: int) -> Floats:
    """Return `rows' diag(roots)^2 rows` as a dense matrix; roots None: all are 1."""

    def one(part: slice) -> Floats:
        block = row_block(rows, part)
        return gram(block if roots is None else scale_rows(block, roots[part]))

    bounds = row_bounds(slice(0, rows.shape[0]), rows.shape[1], not isinstance(rows, np.ndarray))
    return sum_blocks(one, bounds, threads)


def for_each_agent(work: Callable[[int, int], None], blocks: Sequence[int], threads: int) -> None:
    """Call `work(row, threads)` for every agent; blocks: how many blocks of rows each of them has.

    Agents of several blocks come one after the other, and may use all threads; the others have one thread each.
    """
    small = []
    for row, number in enumerate(blocks):
        if number > 1:
            work(row, threads)
        else:
            small.append(row)

    def alone(first: int, last: int) -> None:
        for row in small[first:last]:
            work(row, 1)

    for_each_block(alone, len(small), 1, threads)


def available_threads() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep matrix products on one thread: two BLAS threads on small products are many times slower."""
    with _blas().limit(limits=1, user_api="blas"):
        yield


@cache
def _blas() -> ThreadpoolController:
    """Return the loaded BLAS libraries, NumPy's and SciPy's own: both are imported above, and looking is slow."""
    return ThreadpoolController()


def for_each_block(work: Callable[[int, int], None], number: int, block: int, threads: int) -> None:
    """Call `work(first, last)` for consecutive blocks of 0..number; blocks must not share output.

    `work` itself must not call this with more than one thread: it would wait for threads that wait for it.
    """
    if threads == 1 or number <= block:
        for first in range(0, number, block):
            work(first, min(first + block, number))
        return
    tasks = [_pool(threads).submit(work, first, min(first + block, number)) for first in range(0, number, block)]
    wait(tasks)  # also where one fails: the others still write
    for done in tasks:
        done.result()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return threads that are kept: to start them takes as long as a small pass."""
    return ThreadPoolExecutor(max_workers=threads, thread_name_prefix="dpadmm")


if hasattr(os, "register_at_fork"):  # threads do not live on in a forked process
    os.register_at_fork(after_in_child=_pool.cache_clear)


Functions = TypeVar("Functions")


@dataclass(frozen=True)
class Subproblem:
    """`min_x w_i f_i(x) + lin_i'x + (pull_i/2) ||x - centre_i||^2` for all agents and replicas.

    lin, centre: (m, d, R); pull: (m,), greater than 0; start: (m, d, R), where iterative solvers begin.
    agents: (m,) which of the solver's agents these rows belong to; all of them, in order, if left out.
    out: (m, d, R), C order, where closed forms write the point; a fresh array if left out.
    """

    lin: Floats
    centre: Floats
    pull: Floats
    start: Floats
    agents: Ints | None = None
    out: Floats | None = None

    def agent_index(self) -> Ints:
        """Return the agents as an index array."""
        return self.agents if self.agents is not None else np.arange(len(self.lin))


@dataclass(frozen=True)
class Solution:
    """The minimisers (m, d, R) and a bound on the norm of the subproblem's gradient there (m, R).

    `passes` counts the sweeps over the data that the slowest column of each agent needed (0: closed form).
    """

    point: Floats
    gradient_norm: Floats
    passes: Floats


class Solver(Protocol):
    """Solves one kind of subproblem to a tolerance on the gradient norm, or raises `SolverError`."""

    @property
    def tolerance(self) -> float:
        """The gradient norm that every returned column has reached."""

    def solve(self, subproblem: Subproblem) -> Solution:
        """Solve for every agent and replica."""


@dataclass
class AgentSolver(Generic[Functions]):
    """Solves `min w_i f_i(x) + lin'x + (s/2)||x - c||^2` for all agents of a problem; subclasses say how.

    What serves every round is prepared at the first solve: methods that go by gradients need none of it.
    """

    risk: Functions
    weights: Floats
    tolerance: float
    threads: int = 1

    def __post_init__(self) -> None:
        """Check the numbers."""
        checks.positive("tolerance", self.tolerance)
        checks.count("threads", self.threads)
        self._is_prepared = False

    def solve(self, subproblem: Subproblem) -> Solution:
        """Solve for every agent and replica, or raise `SolverError`."""
        if not self._is_prepared:
            self._prepare()
            self._is_prepared = True
        return self._solve(subproblem)

    def _solve(self, subproblem: Subproblem) -> Solution:
        """Solve; what was prepared is there."""
        raise NotImplementedError

    def _prepare(self) -> None:
        """Most solvers have something to prepare."""


class CountSolver(AgentSolver[CountRisk]):
    """Counts are fitted by gradients (C20): no local subproblem of theirs is solved."""

    def _solve(self, subproblem: Subproblem) -> Solution:
        """Refuse."""
        raise InputError("Counts are fitted by methods that take gradients, such as noisy-gradients.")


def require_converged(solution: Solution, tolerance: float, subproblem: Subproblem) -> Solution:
    """Return the solution, or raise: a column that misses the tolerance has no certified sensitivity."""
    # A NaN makes the maximum a NaN, which is not below the tolerance.
    if not solution.gradient_norm.max() <= tolerance:
        # By how much it was missed is a fact about the records, and is not reported.
        missed = ~(solution.gradient_norm <= tolerance)
        agents = np.unique(subproblem.agent_index()[np.nonzero(missed)[0]])
        raise SolverError(
            f"{missed.sum()} of {missed.size} local solves missed the gradient tolerance {tolerance:.1e} "
            f"(agents {agents[:5].tolist()}). Raise the tolerance, the penalty or the ridge term."
        )
    return solution


@dataclass(frozen=True)
class Spectrum:
    """`M = vectors diag(values) vectors'`, vectors (d, r), r = min(n, d): `M + sigma I` inverts for every sigma > 0."""

    vectors: Floats
    values: Floats

    @classmethod
    def of_rows(cls, rows: Matrix, scale: float, roots: Floats | None = None, threads: int = 1) -> "Spectrum":
        """Return the spectrum of `scale * rows' rows`, from the smaller of the two Gram matrices.

        roots: what every row is multiplied by; None for 1.
        """
        n, d = rows.shape
        if n >= d:
            values, vectors = np.linalg.eigh(block_gram(rows, roots, threads))
            return cls(np.ascontiguousarray(vectors), scale * np.maximum(values, 0.0))
        # n < d: the thin SVD gives the same matrix with n vectors (the Woodbury case).
        counted = rows if roots is None else scale_rows(rows, roots)
        _, singular, vt = np.linalg.svd(dense(counted), full_matrices=False)
        return cls(np.ascontiguousarray(vt.T), scale * singular**2)

    def solve(self, rhs: Floats, sigma: float) -> Floats:
        """Return (M + sigma I)^-1 rhs for rhs (d, R); by Woodbury where the decomposition is thin."""
        if len(self.values) == len(self.vectors):
            return self.vectors @ ((self.vectors.T @ rhs) / (self.values + sigma)[:, None])
        shrink = self.values / (self.values + sigma)
        return (rhs - self.vectors @ (shrink[:, None] * (self.vectors.T @ rhs))) / sigma


DEFAULT_TOLERANCE = 1e-9
_UNIT = 2.0**-52
_ROUNDED = 8 * _UNIT  # of the largest term of a gradient, is left where solvers iterate


# Above, what a d x d matrix costs is more than what it saves.
_LARGE, _LARGE_SPARSE = 400, 500


def is_large(dimension: int, is_sparse: bool) -> bool:
    """Return whether local problems are solved without d x d matrices.

    It follows from the dimension and the way of storing rows, not from what they store: a silo alone and all of them
    together take the same way. Either way ends within the tolerance, which certificates count (C7).
    """
    return dimension > (_LARGE_SPARSE if is_sparse else _LARGE)


@singledispatch
def prepare(
    functions: LocalFunctions, weights: Floats, tolerance: float = DEFAULT_TOLERANCE, threads: int = 1
) -> Solver:
    """Return a solver of `min w_i f_i(x) + lin'x + (s/2)||x - c||^2` for these functions.

    Functions of a new kind register their solver here (`@prepare.register`).

    >>> from dpadmm.problems.silos import Silos
    >>> silos = Silos.from_parts([np.eye(3)], [np.ones(3)], row_norm=1.0)
    >>> type(prepare(EmpiricalRisk(silos, Squared()), np.ones(1))).__name__
    'SquaredSolver'
    """
    raise InputError(f"No solver is known for {type(functions).__name__}; register one with prepare.register.")


@prepare.register
def _(
    functions: QuadraticAgents | EmpiricalRisk | SoftmaxRisk | CountRisk | StreamedRisk,
    weights: Floats,
    tolerance: float = DEFAULT_TOLERANCE,
    threads: int = 1,
) -> Solver:
    if isinstance(functions, StreamedRisk):
        from dpadmm.solvers.streamed import StreamedSolver

        return StreamedSolver(functions, weights, tolerance, threads)
    if isinstance(functions, CountRisk):
        return CountSolver(functions, weights, tolerance, threads)
    if isinstance(functions, SoftmaxRisk):
        from dpadmm.solvers.softmax import SoftmaxSolver

        return SoftmaxSolver(functions, weights, tolerance, threads)
    from dpadmm.solvers.closed_forms import QuadraticSolver, RankOneSolver, SquaredSolver

    if isinstance(functions, QuadraticAgents):
        return QuadraticSolver(functions, weights, tolerance, threads)
    if functions.is_one_record_each:
        return RankOneSolver(functions, weights, tolerance, threads)
    from dpadmm.solvers.columns import MajoriserSolver, MatrixFreeSolver

    if is_large(functions.dimension, functions.silos.is_sparse):
        return MatrixFreeSolver(functions, weights, tolerance, threads)
    if functions.loss == Squared():
        return SquaredSolver(functions, weights, tolerance, threads)
    return MajoriserSolver(functions, weights, tolerance, threads)


@dataclass(frozen=True)
class WatchedSolver:
    """A solver for releases: whether it fails follows from public numbers, never from the records.

    That a run stops is seen by everybody and counted by no certificate. So before a record is read, the largest terms
    of the gradient are bounded for every record there could be; if 64-bit numbers might not reach the tolerance beside
    them, the solve is refused. Otherwise the solver does reach it.

    weights: of the solver's agents. rounded: what rounding may leave of the largest term of a gradient.
    """

    solver: Solver
    constants: Constants
    weights: Floats
    rounded: float

    @property
    def tolerance(self) -> float:
        """The gradient norm that every returned column has reached."""
        return self.solver.tolerance

    def solve(self, subproblem: Subproblem) -> Solution:
        """Solve, or refuse without having looked at the records."""
        self.check(subproblem)
        return self.solver.solve(subproblem)

    def check(self, subproblem: Subproblem, spare: float = 0.0) -> None:
        """Refuse a subproblem that rounding might keep from its tolerance; spare: forces that are not listed in it."""
        largest = largest_term(subproblem, self.constants, self.weights, spare)
        if not largest * self.rounded <= self.solver.tolerance:  # NaN: refuse
            raise SolverError(
                "Messages have become so large, or the penalty is so small, that 64-bit numbers cannot solve every "
                f"local problem to the gradient tolerance {self.tolerance:.1e}. This follows from public numbers and "
                "tells nothing about the records. Choose a larger epsilon, penalty, ridge term or tolerance."
            )


def largest_term(subproblem: Subproblem, constants: Constants, weights: Floats, spare: float = 0.0) -> float:
    """Bound all that adds up to the gradient at the minimiser x, whatever the records are.

    `||x|| <= (s ||c|| + ||lin|| + w G)/(s + w mu)`, and the gradient of `w f` moves by `w L` times as much at most.
    """
    weight, pull = weights[subproblem.agent_index(), None], subproblem.pull[:, None]
    forces = pull * np.linalg.norm(subproblem.centre, axis=1) + np.linalg.norm(subproblem.lin, axis=1)
    forces += weight * constants.record_gradient + spare
    reach = forces / (pull + weight * constants.strong_convexity)
    return float(np.max(forces + (pull + weight * constants.smoothness) * reach))


def prepare_release(functions: LocalFunctions, weights: Floats, tolerance: float, threads: int = 1) -> Solver:
    """Return the solver of `prepare`, watched; the bare one where gradients have no bound to go by."""
    solver, constants = prepare(functions, weights, tolerance, threads), functions.constants
    if not math.isfinite(constants.record_gradient):
        return solver
    # One record each: `solvers.kernels` bounds its arithmetic term by term, by so much at most.
    d, is_closed_form = functions.dimension, bool(getattr(functions, "is_one_record_each", False))
    rounded = 12 * (d + 8) * math.sqrt(d) * _UNIT if is_closed_form else _ROUNDED
    return WatchedSolver(solver, constants, weights, rounded)


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
