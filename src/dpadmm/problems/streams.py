"""Silos whose rows are never in memory at once: their functions, as sums over batches of encoded rows.

A *pass* reads every row once and adds up what a `BatchTask` makes of each batch, in a fixed order: the sums depend on
how the rows are cut into batches, as those of rows in memory are (`row_bounds`), and not on who computes which of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.problems.losses import AnyLoss, Loss, Poisson, Softmax
from dpadmm.problems.problem import MeanLosses, risk_of
from dpadmm.problems.silos import Silos, gram_sum

BatchTask: TypeAlias = Callable[[Silos], Floats]
"""What a batch of rows, a silo of nominal size 1, adds to a sum; picklable, since it may be computed elsewhere."""


class SiloStream(ABC):
    """The encoded rows and labels of N silos, to be had in passes only."""

    row_norm: float
    names: tuple[str, ...]
    nominal: Ints | None
    is_small: bool

    @property
    @abstractmethod
    def sizes(self) -> Ints:
        """Records per silo, or the nominal numbers in their place."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of features d."""

    @property
    @abstractmethod
    def no_rows(self) -> Silos:
        """Silos that store rows as these are stored, without any."""

    @abstractmethod
    def totals(self, tasks: Sequence[BatchTask], dimension: int | None) -> list[Floats | float]:
        """Return, of every silo, the sum over its batches of its task; 0.0 for a silo without rows.

        dimension: of the functions, which decides how rows are cut into batches; None: each silo is one.
        """

    @abstractmethod
    def take(self, agents: Ints) -> "SiloStream":
        """Return the silos of `agents` only, in that order."""

    @abstractmethod
    def with_nominal(self, sizes: Sequence[int]) -> "SiloStream":
        """Return the same rows with public numbers in the place of their secret ones."""

    @property
    def n_agents(self) -> int:
        """Number of silos N."""
        return len(self.names)


@dataclass(frozen=True, eq=False)
class ValueSum:
    """Add up the losses at points (d, R)."""

    loss: AnyLoss
    point: Floats

    def __call__(self, batch: Silos) -> Floats:
        """Return the sums (R,)."""
        return risk_of(batch, self.loss).value(self.point[None])[0]


@dataclass(frozen=True, eq=False)
class GradientSum:
    """Add up the losses' gradients at points (d, R)."""

    loss: AnyLoss
    point: Floats

    def __call__(self, batch: Silos) -> Floats:
        """Return the sums (d, R)."""
        return risk_of(batch, self.loss).gradient(self.point[None])[0]


@dataclass(frozen=True, eq=False)
class CurvatureSum:
    """Add up the gradients and the Hessians of a loss of one score at one point (d,)."""

    loss: Loss | Poisson
    point: Floats

    def __call__(self, batch: Silos) -> Floats:
        """Return the sums (d, 1 + d): the gradient, and the Hessian beside it."""
        risk = risk_of(batch, self.loss)
        gradient = risk.gradient(self.point[None, :, None])[0]
        return np.hstack([gradient, risk.hessian(0, self.point)])


@dataclass(frozen=True)
class MomentSum:
    """Add up `a a'` over the rows, each as often as it counts."""

    def __call__(self, batch: Silos) -> Floats:
        """Return the sum (d, d)."""
        return gram_sum(batch.features, batch.weights)


@dataclass(frozen=True, eq=False)
class StreamedRisk(MeanLosses):
    """The mean loss over each silo's records plus `(mu/2) ||w||^2`, as `EmpiricalRisk` and `SoftmaxRisk` have it.

    Every call of `value` or `gradient` is one pass over all silos.
    """

    silos: SiloStream
    loss: AnyLoss
    mu: float = 0.0

    def totals(self, tasks: Sequence[BatchTask]) -> list[Floats | float]:
        """Return the sums of every silo's task, in one pass; few rows are one batch, as they are in memory."""
        is_one = self.silos.is_small and self.linear_loss is not None
        return self.silos.totals(tasks, None if is_one else self.dimension)

    def value(self, w: Floats) -> Floats:
        """Return f_i(w_i)."""
        totals = self.totals([ValueSum(self.loss, point) for point in self._points(w)])
        return self._means(totals, (w.shape[2],)) + 0.5 * self.mu * (w * w).sum(axis=1)

    def gradient(self, w: Floats) -> Floats:
        """Return grad f_i(w_i)."""
        totals = self.totals([GradientSum(self.loss, point) for point in self._points(w)])
        return self._means(totals, w.shape[1:]) + self.mu * w

    def hessian(self, agent: int, w: Floats) -> Floats:
        """Return the Hessian of one agent's function at one point w (d,), in a pass over its rows; no softmax."""
        if isinstance(self.loss, Softmax):
            raise InputError("Hessians are formed for losses of one score only.")
        own = self.take(np.array([agent]))
        found = own._means(own.totals([CurvatureSum(self.loss, w)]), (self.dimension, 1 + self.dimension))
        return np.asarray(found[0, :, 1:] + self.mu * np.eye(self.dimension))

    def _points(self, w: Floats) -> list[Floats]:
        return [w[i if len(w) > 1 else 0] for i in range(self.n_agents)]

    def _means(self, totals: Sequence[Floats | float], shape: tuple[int, ...]) -> Floats:
        return np.stack([np.zeros(shape) + total / n for total, n in zip(totals, self.sizes, strict=True)])


@risk_of.register
def _(silos: SiloStream, loss: AnyLoss, mu: float = 0.0) -> StreamedRisk:
    return StreamedRisk(silos, loss, mu)
