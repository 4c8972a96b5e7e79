"""Local solves of silos that are streamed: few passes over the rows, since a pass costs far more than all else.

Up to `_LARGE` dimensions a pass returns gradient and Hessian together, and the steps are Newton's; for more, and for
several scores, they are L-BFGS steps that start from a diagonal. Either kind is guarded as in `solvers.newton`: a step
is taken because the gradient has halved, or because the function still falls where it ends; else it is shortened to a
point where its slope is small and not positive, found in passes that try several lengths at once. The agents that are
still at work share their passes.
"""

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from dpadmm.problems.arrays import Floats, Ints
from dpadmm.problems.losses import Softmax
from dpadmm.problems.silos import Silos
from dpadmm.problems.streams import BatchTask, CurvatureSum, GradientSum, StreamedRisk
from dpadmm.solvers.solver import AgentSolver, Solution, Subproblem, require_converged

_LARGE = 400  # dimensions from which on Hessians cost more than the passes they save
_MEMORY = 10  # steps that L-BFGS goes by
_MOST_PASSES = 1000
_LENGTHS = np.arange(1, 8) / 8  # of a step, tried in one pass
_SLOPE_LEFT = 0.1  # a shortened step ends where nine tenths of the slope along it are lost
_MOST_SEARCHES = 20

Asking: TypeAlias = Generator[BatchTask, Floats, tuple[Floats, float, int]]
"""Asks for sums over an agent's rows, is sent them, and returns the point, its gradient's norm and the passes."""


@dataclass(frozen=True, eq=False)
class SquareSum:
    """Add up the squares of every feature."""

    def __call__(self, batch: Silos) -> Floats:
        """Return the sums (d,)."""
        rows = batch.part(0)[0]
        dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
        return np.einsum("ij,ij->j", dense, dense)


@dataclass(frozen=True, eq=False)
class _Local:
    """`w f(x) + lin'x + (pull/2) ||x - centre||^2` of one agent and one replica; sums over n records become f's."""

    risk: StreamedRisk
    weight: float
    size: int
    lin: Floats
    centre: Floats
    pull: float

    def gradient(self, x: Floats, total: Floats) -> Floats:
        """Return the gradients at points x (d, R), from the sums of the records' gradients there."""
        own = total / self.size + self.risk.mu * x
        return self.weight * own + self.lin[:, None] + self.pull * (x - self.centre[:, None])

    @property
    def shift(self) -> float:
        """What the pull and the ridge add to every curvature."""
        return self.pull + self.weight * self.risk.mu


@dataclass
class _NewtonSteps:
    """Steps by the Hessian where they begin. known: the sums at the point where the last solve ended."""

    local: _Local
    known: tuple[Floats, Floats] | None = None

    def look(self, x: Floats) -> Generator[BatchTask, Floats, Floats]:
        """Ask for the sums at x; return the gradient there."""
        if self.known is None or not np.array_equal(self.known[0], x):
            loss = self.local.risk.linear_loss
            assert loss is not None
            self.known = (x, (yield CurvatureSum(loss, x)))
        return self.local.gradient(x[:, None], self.known[1][:, :1])[:, 0]

    def direction(self, x: Floats, gradient: Floats) -> Floats:
        """Return the step from x, where `look` was last."""
        assert self.known is not None
        hessian = self.local.weight / self.local.size * self.known[1][:, 1:]
        bend = hessian + self.local.shift * np.eye(len(x))
        return np.asarray(-np.linalg.solve(bend, gradient), dtype=np.float64)


@dataclass
class _DiagonalSteps:
    """L-BFGS steps from a diagonal. known: the sum at the point where the last solve ended."""

    local: _Local
    diagonal: Floats
    known: tuple[Floats, Floats] | None = None
    pairs: deque[tuple[Floats, Floats]] = field(default_factory=lambda: deque(maxlen=_MEMORY))
    before: tuple[Floats, Floats] | None = None

    def look(self, x: Floats) -> Generator[BatchTask, Floats, Floats]:
        """Ask for the sum at x; return the gradient there."""
        if self.known is None or not np.array_equal(self.known[0], x):
            self.known = (x, (yield GradientSum(self.local.risk.loss, x[:, None])))
        return self.local.gradient(x[:, None], self.known[1])[:, 0]

    def direction(self, x: Floats, gradient: Floats) -> Floats:
        """Return the step from x."""
        if self.before is not None:
            step, change = x - self.before[0], gradient - self.before[1]
            if step @ change > 0:
                self.pairs.append((step, change))
        self.before = (x, gradient)
        q, shares = gradient.copy(), []
        for step, change in reversed(self.pairs):
            shares.append((step @ q) / (step @ change))
            q -= shares[-1] * change
        q /= self.diagonal + self.local.shift
        for (step, change), share in zip(self.pairs, reversed(shares), strict=True):
            q += (share - (change @ q) / (step @ change)) * step
        return -q


class StreamedSolver(AgentSolver[StreamedRisk]):
    """Solve the subproblems of streamed silos. `threads` are those of the passes, and not used here."""

    def _prepare(self) -> None:
        """Nothing is known of any solve yet."""
        self._last: dict[tuple[int, int], tuple[Floats, Floats]] = {}
        self._diagonals: dict[int, Floats] = {}

    @property
    def _is_newton(self) -> bool:
        return not isinstance(self.risk.loss, Softmax) and self.risk.dimension <= _LARGE

    def _solve(self, subproblem: Subproblem) -> Solution:
        """Solve for every agent and replica; agents share passes, replicas do not."""
        index, (number, _, replicas) = subproblem.agent_index(), subproblem.lin.shape
        point, norm = np.empty_like(subproblem.start), np.empty((number, replicas))
        passes = np.zeros(number)
        for r in range(replicas):
            asking = {row: self._column(int(index[row]), row, r, subproblem) for row in range(number)}
            for row, (x, size, used) in self._answer(asking, index).items():
                point[row, :, r], norm[row, r], passes[row] = x, size, max(passes[row], used)
        return require_converged(Solution(point, norm, passes), self.tolerance, subproblem)

    def _answer(self, asking: dict[int, Asking], index: Ints) -> dict[int, tuple[Floats, float, int]]:
        """Make passes for those who still ask, until all have ended."""
        found: dict[int, tuple[Floats, float, int]] = {}
        answers: dict[int, Floats | None] = dict.fromkeys(asking)
        while answers:
            asked: dict[int, BatchTask] = {}
            for row, answer in answers.items():
                try:
                    asked[row] = asking[row].send(answer)  # type: ignore[arg-type]
                except StopIteration as ended:
                    found[row] = ended.value
            if not asked:
                break
            rows = list(asked)
            totals = self.risk.take(index[rows]).totals([asked[row] for row in rows])
            answers = {row: np.asarray(total) for row, total in zip(rows, totals, strict=True)}
        return found

    def _column(self, agent: int, row: int, replica: int, sub: Subproblem) -> Asking:
        """Solve for one agent and one replica."""
        place = (row, slice(None), replica)
        weight, size = float(self.weights[agent]), int(self.risk.sizes[agent])
        local = _Local(self.risk, weight, size, sub.lin[place], sub.centre[place], float(sub.pull[row]))
        known = self._last.get((agent, replica))
        steps: _NewtonSteps | _DiagonalSteps
        if self._is_newton:
            steps = _NewtonSteps(local, known)
        else:
            if agent not in self._diagonals:
                self._diagonals[agent] = yield SquareSum()
            squares = np.resize(self._diagonals[agent], self.risk.dimension)  # the same for every class
            steps = _DiagonalSteps(local, weight / size * self.risk.loss.curvature_bound * squares, known)
        found = yield from _descend(steps, np.ascontiguousarray(sub.start[place]), self.tolerance)
        assert steps.known is not None
        self._last[agent, replica] = steps.known
        return found


def _descend(steps: _NewtonSteps | _DiagonalSteps, x: Floats, tolerance: float) -> Asking:
    """Go down from x until the gradient is within the tolerance, or for `_MOST_PASSES` passes."""
    gradient, passes = (yield from steps.look(x)), 1
    norm = best = float(np.linalg.norm(gradient))
    while norm > tolerance and passes < _MOST_PASSES:
        step = steps.direction(x, gradient)
        full = yield from steps.look(x + step)
        passes += 1
        if np.linalg.norm(full) <= 0.5 * best or full @ step <= 0:
            x, gradient = x + step, full
        else:
            share, tried = yield from _shorten(steps.local, x, step, float(gradient @ step))
            x = x + share * step
            gradient = yield from steps.look(x)
            passes += tried + 1
        norm = float(np.linalg.norm(gradient))
        best = min(best, norm)
    return x, norm, passes


def _shorten(local: _Local, x: Floats, step: Floats, start: float) -> Generator[BatchTask, Floats, tuple[float, int]]:
    """Return a share of the step at which the slope along it is small and not positive, and the passes it took."""
    low, high = 0.0, 1.0
    passes = 0
    while passes < _MOST_SEARCHES:
        passes += 1
        lengths = low + (high - low) * _LENGTHS
        points = x[:, None] + step[:, None] * lengths
        slopes = step @ local.gradient(points, (yield GradientSum(local.risk.loss, points)))
        falling = int((slopes <= 0).sum())  # convex: they rise along the step
        if falling:
            low = float(lengths[falling - 1])
        if falling < len(lengths):
            high = float(lengths[falling])
        if falling and slopes[falling - 1] >= _SLOPE_LEFT * start:
            break
    return low, passes
