"""Local solves of softmax risks: Newton's method, its directions by conjugate gradients, column by column.

The Hessian of a record's loss in its scores is `h'' u u' + |h'| (diag q - q q')`, `u = e_y - q` (see
`problems.softmax`), so that a product with it costs as much as a gradient. A step is taken if it shortens the
gradient; if no part of it does (the cap has kinks), a gradient step of length 1/L takes its place, which always does:
the solver reaches its tolerance whatever the records are.
"""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import SoftmaxRisk
from dpadmm.solvers.newton import conjugate_gradients
from dpadmm.solvers.solver import AgentSolver, Solution, Subproblem, for_each_block, require_converged

_MOST_STEPS = 1000
_MOST_PRODUCTS = 250  # of conjugate gradients, in one step
_HALVINGS = 12
_SHORTER = 1e-4  # of a step's length, by which it must shorten the gradient


class SoftmaxSolver(AgentSolver[SoftmaxRisk]):
    """Solve the subproblems of a softmax risk."""

    def _solve(self, subproblem: Subproblem) -> Solution:
        """Solve for every agent and replica."""
        index, (number, _, replicas) = subproblem.agent_index(), subproblem.lin.shape
        out = np.empty_like(subproblem.lin) if subproblem.out is None else subproblem.out
        norms, passes = np.empty((number, replicas)), np.zeros(number)

        def work(first: int, last: int) -> None:
            for row in range(first, last):
                for column in range(replicas):
                    place = (row, slice(None), column)
                    one = _Column(
                        self.risk,
                        int(index[row]),
                        float(self.weights[index[row]]),
                        subproblem.lin[place],
                        subproblem.centre[place],
                        float(subproblem.pull[row]),
                    )
                    out[place], norms[row, column], used = one.solve(subproblem.start[place], self.tolerance)
                    passes[row] = max(passes[row], used)

        for_each_block(work, number, 1, self.threads)
        return require_converged(Solution(out, norms, passes), self.tolerance, subproblem)


class _Bend(NamedTuple):
    """What the Hessian at a point is made of: |h'|, h'' (n,), and q (C, n)."""

    slopes: Floats
    curvatures: Floats
    others: Floats


@dataclass(frozen=True, eq=False)
class _Column:
    """`w f(x) + lin'x + (pull/2) ||x - centre||^2` of one agent and one replica."""

    risk: SoftmaxRisk
    agent: int
    weight: float
    lin: Floats
    centre: Floats
    pull: float
    part: slice = field(init=False)
    labels: NDArray[np.intp] = field(init=False)

    def __post_init__(self) -> None:
        part = self.risk.part(self.agent)
        vars(self).update(part=part, labels=self.risk.labels[part])

    def solve(self, start: Floats, tolerance: float) -> tuple[Floats, float, int]:
        """Return the minimiser, the norm of the gradient there, and how many passes over the data that took."""
        x, g = start.copy(), self.gradient(start)
        size, passes = float(np.linalg.norm(g)), 1
        longest = 1.0 / (self.weight * self.risk.constants.smoothness + self.pull)
        for _ in range(_MOST_STEPS):
            if size <= tolerance:
                break
            # A step that brings the gradient's linear model below a part of its size.
            enough, times = min(0.1, math.sqrt(size)) * size, partial(self.product, self.bend(x))
            direction, products = conjugate_gradients(times, -g, enough, _MOST_PRODUCTS)
            passes += products
            for halving in range(_HALVINGS):
                part = 0.5**halving
                after = x + part * direction
                now = self.gradient(after)
                passes += 1
                if np.linalg.norm(now) <= (1 - _SHORTER * part) * size:
                    break
            else:
                after = x - longest * g
                now = self.gradient(after)
            x, g, size = after, now, float(np.linalg.norm(now))
        return x, size, passes

    def gradient(self, x: Floats) -> Floats:
        """Return the gradient of the subproblem."""
        pulls = self.risk.loss.residual(self.risk.scores(self.part, x[:, None]), self.labels)
        own = self._summed(pulls[:, 0]) + self.risk.mu * x
        return self.weight * own + self.lin + self.pull * (x - self.centre)

    def bend(self, x: Floats) -> _Bend:
        """Return what the Hessian at x is made of."""
        loss = self.risk.loss
        margin, others = loss.margins(self.risk.scores(self.part, x[:, None]), self.labels)
        inner = loss.of_margin
        return _Bend(-inner.slope(margin[0]), inner.curvature(margin[0]), others[:, 0])

    def product(self, bend: _Bend, v: Floats) -> Floats:
        """Return the Hessian times v."""
        t, place = self.risk.scores(self.part, v[:, None])[:, 0], (self.labels, np.arange(len(self.labels)))
        mean = (bend.others * t).sum(axis=0)
        rise = bend.curvatures * (t[place] - mean)
        pulls = bend.others * (bend.slopes * (t - mean) - rise)
        pulls[place] += rise
        return self.weight * (self._summed(pulls) + self.risk.mu * v) + self.pull * v

    def _summed(self, pulls: Floats) -> Floats:
        """Return the mean over records of `pull outer row`, as one vector (C d,)."""
        total = self.risk.sum_outer(self.part, self.risk.weigh(pulls[:, None], self.part))[:, 0]
        return total / self.risk.sizes[self.agent]
