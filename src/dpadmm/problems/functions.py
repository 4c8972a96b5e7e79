"""What an agent's private function must offer, and the constants it declares."""

import math
from dataclasses import dataclass
from typing import Any, Protocol, Self

from dpadmm.problems.arrays import Floats, Ints
from dpadmm.problems.losses import Loss, certified_form


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


def linear_constants(loss: Loss, row_norm: float, mu: float) -> Constants:
    """Return the constants of `mean loss(row' w) + (mu/2)||w||^2` for all rows of at most this norm."""
    form, curvature = certified_form(loss), loss.curvature_bound * row_norm**2
    return Constants(
        record_gradient=loss.slope_bound * row_norm,
        record_curvature=curvature,
        gradient_range=form.width * row_norm,
        smoothness=curvature + mu,
        strong_convexity=mu,
        assumption=f"every record's features have Euclidean norm at most {row_norm:g}; {loss.target.value}",
    )


class MeanLosses:
    """What functions `f_i = mean loss over a silo's records + (mu/2) ||w||^2` share, however the rows are had."""

    silos: Any
    loss: Any
    mu: float

    @property
    def n_agents(self) -> int:
        """Number of agents N."""
        return int(self.silos.n_agents)

    @property
    def sizes(self) -> Ints:
        """Records per agent, n_i, or persons where rows have weights."""
        found: Ints = self.silos.sizes
        return found

    @property
    def constants(self) -> Constants:
        """Constants from the loss and the public row norm alone."""
        return linear_constants(self.loss, self.silos.row_norm, self.mu)

    @property
    def has_people(self) -> bool:
        """Whether rows have weights, those of a person at most 1 in sum, and sums are divided by numbers of persons."""
        return getattr(self.silos, "people", None) is not None

    @property
    def has_nominal_sizes(self) -> bool:
        """Whether sums are divided by nominal numbers, so that a record more or less changes nothing else."""
        return self.silos.nominal is not None

    def part(self, agent: int) -> slice:
        """Return where an agent's rows are."""
        return slice(int(self.silos.offsets[agent]), int(self.silos.offsets[agent + 1]))


class LocalFunctions(Protocol):
    """The private convex functions f_1..f_N, evaluated for all agents and all replicas at once."""

    @property
    def n_agents(self) -> int:
        """Number of agents N."""

    @property
    def dimension(self) -> int:
        """Dimension d."""

    @property
    def sizes(self) -> Ints:
        """Records behind each function, n_i."""

    @property
    def constants(self) -> Constants:
        """The public constants."""

    def value(self, w: Floats) -> Floats:
        """Return f_i(w_i), (N, R), for w of shape (N, d, R), or (1, d, R) for one common point."""

    def gradient(self, w: Floats) -> Floats:
        """Return grad f_i(w_i), (N, d, R), for w as in `value`."""

    def take(self, agents: Ints) -> Self:
        """Return the functions of `agents` only; what one silo holds is `take([i])`."""
