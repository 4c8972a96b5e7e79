"""What an agent's private function must offer, and the constants it declares."""

import math
from dataclasses import dataclass
from typing import Protocol, Self

from dpadmm.problems.arrays import Floats, Ints


@dataclass(frozen=True, kw_only=True)
class Constants:
    """Public constants of the functions f_i: true for every data set that keeps the assumption.

    None of them is read off the data: a constant computed from private records would itself be a release.

    record_gradient: `G`, bound on the norm of one record's loss gradient anywhere (inf: no bound exists).
    record_curvature: bound on the largest Hessian eigenvalue of one record's loss.
    gradient_range: bound on how far one record's gradient can move from point to point (never above 2 G).
    smoothness: `L` of f_i. strong_convexity: `mu` of f_i. assumption: in words.
    scores: how many linear scores of a record the loss reads; several for softmax (C13).
    """

    record_gradient: float
    record_curvature: float
    smoothness: float
    strong_convexity: float
    assumption: str
    gradient_range: float = math.inf
    scores: int = 1


class LocalFunctions(Protocol):
    """The private convex functions f_1..f_N, evaluated for all agents and all replicas at once."""

    @property
    def n_agents(self) -> int:
        """Number of agents N."""
        ...

    @property
    def dimension(self) -> int:
        """Dimension d."""
        ...

    @property
    def sizes(self) -> Ints:
        """Records behind each function, n_i."""
        ...

    @property
    def constants(self) -> Constants:
        """The public constants."""
        ...

    def value(self, w: Floats) -> Floats:
        """Return f_i(w_i), (N, R), for w of shape (N, d, R), or (1, d, R) for one common point."""
        ...

    def gradient(self, w: Floats) -> Floats:
        """Return grad f_i(w_i), (N, d, R), for w as in `value`."""
        ...

    def take(self, agents: Ints) -> Self:
        """Return the functions of `agents` only; what one silo holds is `take([i])`."""
        ...
