"""Gradients of all records, and of random batches of them, for all agents and replicas at once.

Each replica draws its own batches. A batch is a pure function of (seed, step, round, agent, replica) and of nothing
else: a silo alone, a batch of agents and any number of threads agree. It shares no stream with the noise.
"""

import hashlib
import math
import secrets
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from numbers import Integral
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.errors import InputError
from dpadmm.methods.base import Agents
from dpadmm.privacy.releases import FixedSizeSampling, PoissonSampling
from dpadmm.problems.arrays import Floats, Ints, Matrix
from dpadmm.problems.centred import CentredRows
from dpadmm.problems.problem import EmpiricalRisk, LocalFunctions, Problem, PublicFunctions, SoftmaxRisk
from dpadmm.problems.silos import MOST_RIDGE
from dpadmm.problems.streams import StreamedRisk
from dpadmm.solvers import columns


class BatchKind(Enum):
    """How a batch is drawn."""

    POISSON = "every record by itself with probability l/n_i"
    FIXED = "l records without replacement"


@dataclass(frozen=True)
class Batches:
    """Batches of (expected) size l, drawn afresh in every step.

    Parameters
    ----------
    size: l >= 1, at most the records of the smallest agent. Sums are divided by l, the *expected* size: dividing by
        the drawn size would let one record change every other record's term.
    seed: whole number >= 0, for simulation. Privacy by sampling holds only while nobody knows the batches, and batches
        that served one run are known to whoever learns of another: a release takes `Batches.secret`, which has no seed;
        the loop draws one for every run and forgets it.
    kind: Poisson (default) or fixed size.

    >>> Batches(10, seed=1).sampling(1000)
    PoissonSampling(rate=0.01)
    """

    size: int
    seed: int | None
    kind: BatchKind = BatchKind.POISSON

    def __post_init__(self) -> None:
        """Check the numbers."""
        checks.count("size", self.size)
        seed: Any = self.seed
        if seed is not None and (type(seed) is bool or not isinstance(seed, Integral) or int(seed) < 0):
            raise InputError(f"seed must be a whole number of at least 0, of any size, got {safe_repr(self.seed)}.")

    @classmethod
    def secret(cls, size: int, kind: BatchKind = BatchKind.POISSON) -> "Batches":
        """Return batches that are drawn anew for every run: there is nothing in them that could be used twice."""
        return cls(size, None, kind)

    @classmethod
    def default(cls, sizes: Ints) -> "Batches":
        """Return secret batches of a fifth of the smallest silo."""
        return cls.secret(max(1, round(0.2 * int(sizes.min()))))

    @property
    def is_secret(self) -> bool:
        """Whether every run draws its own seed."""
        return self.seed is None

    def with_drawn_seed(self) -> "Batches":
        """Return the batches of one run: secret ones get a seed of 128 bits from the operating system."""
        return replace(self, seed=secrets.randbits(128)) if self.is_secret else self

    def __repr__(self) -> str:
        """Show a fingerprint in place of the seed, which may be a secret."""
        if self.is_secret:
            return f"Batches.secret(size={self.size}, kind={self.kind.name})"
        mark = hashlib.blake2b(f"dpadmm batch seed|{self.seed}".encode(), digest_size=6).hexdigest()
        return f"Batches(size={self.size}, seed=#{mark}, kind={self.kind.name})"

    def check(self, problem: Problem) -> None:
        """Refuse problems without records, or with fewer than l in a silo."""
        _check_records(problem.functions)
        least = int(problem.functions.sizes.min())
        if self.size > least:
            raise InputError(f"Batches of {self.size} records do not fit a silo of {least}. Use at most {least}.")

    def sampling(self, n_records: int) -> PoissonSampling | FixedSizeSampling:
        """Return how the records of an agent with n_i of them are drawn."""
        if self.kind is BatchKind.FIXED:
            return FixedSizeSampling(size=self.size, population=n_records)
        return PoissonSampling(rate=self.size / n_records)

    def key(self, step: int) -> NDArray[np.uint64]:
        """Return the generator's key for one step of a round."""
        if self.is_secret:
            raise InputError("Secret batches are drawn for one run. Run the method by `dpadmm.run`.")
        text = f"dpadmm batches 1|{self.seed}|{step}"
        return np.frombuffer(hashlib.blake2b(text.encode(), digest_size=8).digest(), dtype="<u4").astype(np.uint64)


class Moment(NamedTuple):
    """When a batch is drawn: round k >= 1, and the step within it."""

    round: int
    step: int = 0


def whole_gradients(agents: Agents, x: Floats) -> Floats:
    """Return `w_i grad f_i(x_i)`, (agents, d, R), over all records."""
    x = shrink_far_points(agents.functions, x)
    return agents.weights[:, None, None] * _gradient(agents.functions, x, agents.threads)


def shrink_far_points(functions: LocalFunctions, x: Floats) -> Floats:
    """Return the points; those at which a ridge pulls with more than `MOST_RIDGE` G, drawn towards 0 up to there.

    No optimum lies so far out. Rounding is relative to what is rounded, so there it would have no bound (C7).
    """
    constants = functions.constants
    if constants.strong_convexity == 0 or not math.isfinite(constants.record_gradient):
        return x
    longest = MOST_RIDGE * constants.record_gradient / constants.strong_convexity
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return x * np.minimum(1.0, longest / norms) if (norms > longest).any() else x


def batch_gradients(
    batches: Batches, when: Moment, agents: Agents, v: Floats, base: Floats | None = None, clip: float = math.inf
) -> Floats:
    """Return `(w_i/l) sum_{m in batch} clip( grad loss_m(v) - grad loss_m(base) )`, (agents, d, R).

    Without a base the second gradient is left out. `clip` shortens each record's term to that norm. Only the data-fit
    part: the ridge inside f_i touches no data and is added by the caller. One record's term is at most
    `w_i clip/l`, whatever the others are.
    """
    functions, index = agents.functions, agents.index.astype(np.uint64)
    if not isinstance(functions, EmpiricalRisk):
        _check_records(functions)
        raise InputError(
            f"There is no rule for summing gradients of {type(functions).__name__}. Use an empirical risk."
        )
    rows = functions.silos.features
    if isinstance(rows, CentredRows):
        base = None if base is None else rows.extend(base)
        sums = rows.fold(_sums(functions, rows.stored, batches, when, index, rows.extend(v), base, clip))
    else:
        sums = _sums(functions, rows, batches, when, index, v, base, clip)
    return (agents.weights / batches.size)[:, None, None] * sums


def correction_bound(functions: LocalFunctions) -> float:
    """Bound `||grad loss(v) - grad loss(vt)||` of one record: the range of the slope times the public row norm.

    Never above 2 G, and G for logistic and smoothed hinge, whose slopes lie in [-1, 0]. Infinite without a bound.
    """
    return min(2 * functions.constants.record_gradient, functions.constants.gradient_range)


@cache
def _kernels() -> ModuleType:
    """Return the compiled kernels of batches, which are slow to load, at the first batch."""
    from dpadmm.solvers import batch_kernels

    return batch_kernels


def _gradient(functions: LocalFunctions, x: Floats, threads: int) -> Floats:
    if isinstance(functions, EmpiricalRisk) and (functions.silos.is_sparse or not functions.is_one_record_each):
        sums = [columns.slope_sum(functions, i, each, threads) for i, each in enumerate(x)]
    elif isinstance(functions, SoftmaxRisk):
        sums = [columns.softmax_sum(functions, i, each, threads) for i, each in enumerate(x)]
    elif isinstance(functions, StreamedRisk):
        sums = columns.streamed_sums(functions, x)
    else:
        return functions.gradient(x)
    return np.stack(sums) / functions.sizes[:, None, None] + functions.mu * x


def _check_records(functions: LocalFunctions) -> None:
    if not isinstance(functions, EmpiricalRisk | PublicFunctions) or functions.constants.scores > 1:
        raise InputError(f"{type(functions).__name__} has no records to draw batches from. Use an empirical risk.")
    if isinstance(functions, EmpiricalRisk) and functions.silos.weights is not None:
        raise InputError(
            "Batches draw rows one by one with equal weights, not persons with all their rows. Use noisy-gradients or "
            "p-admm."
        )


def _sums(
    functions: EmpiricalRisk,
    rows: Matrix,
    batches: Batches,
    when: Moment,
    index: NDArray[np.uint64],
    v: Floats,
    base: Floats | None,
    clip: float,
) -> Floats:
    """Return the sums over batches of `rows`, dense or CSR, by the labels and norms that the functions have."""
    points = _columns_last(v, functions.n_agents)
    bases = points if base is None else _columns_last(base, functions.n_agents)
    out = np.zeros_like(points)
    rates = np.minimum(batches.size / functions.sizes, 1.0)
    with np.errstate(divide="ignore"):
        log_stays = -np.log1p(-rates)
    form, fixed = functions.loss.form, batches.size if batches.kind is BatchKind.FIXED else 0
    task = (bases, base is not None, clip, form.numbers, form.is_logistic, fixed, log_stays)
    stream = (np.uint64(when.round), index, batches.key(when.step), out)
    records = (functions.shifts, functions.signs, functions.silos.offsets)
    if isinstance(rows, np.ndarray):
        _kernels().dense_sums(rows, records, points, *task, *stream)
    else:
        matrix = (rows.indptr, rows.indices, rows.data, functions.squares)
        _kernels().csr_sums(matrix, records, points, *task, *stream)
    return np.ascontiguousarray(out.transpose(0, 2, 1))


def _columns_last(v: Floats, n_agents: int) -> Floats:
    """Return (agents, R, d), contiguous: a record meets one replica's model at a time."""
    whole = v if len(v) == n_agents else np.broadcast_to(v, (n_agents, *v.shape[1:]))
    return np.ascontiguousarray(whole.transpose(0, 2, 1))
