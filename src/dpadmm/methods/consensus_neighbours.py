"""Whom consensus DP-ADMM protects: three notions of neighbouring data, each with its form of certificate C3.

All of them bound the coordinator's mean `mean_i (x_i + a_i/rho)`; the z-update is non-expansive, so the same bound
holds for z itself. Nothing here looks at data: `StarFacts` holds every public number that a certificate rests on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.methods.method import Setting
from dpadmm.privacy.certificates.hidden_state import (
    consensus_broadcast,
    consensus_broadcast_quadratic,
    consensus_broadcast_records,
)
from dpadmm.privacy.certificates.local import LocalFunction
from dpadmm.privacy.protection import ONE_RECORD, Certificate, Protection
from dpadmm.problems.quadratics import QuadraticAgents


@dataclass(frozen=True, kw_only=True)
class StarFacts:
    """The public facts of a problem `sum_i w_i f_i + g` on a star.

    strong_convexity tau, smoothness L: of every admissible f_i, without its weight. gradient_bound G: of one record's
    loss (infinite: none). kinds: the distinct pairs (weight w_i, records n_i) among the agents. tolerance: gradient
    norm of the local solves (C7). is_quadratic: every admissible f_i is a quadratic.
    """

    n_agents: int
    dimension: int
    strong_convexity: float
    smoothness: float
    kinds: tuple[tuple[float, int], ...] = ((1.0, 1),)
    gradient_bound: float = float("inf")
    tolerance: float | None = None
    protection: Protection = ONE_RECORD
    is_quadratic: bool = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        checks.count("n_agents", self.n_agents)
        checks.count("dimension", self.dimension)
        checks.non_negative("strong_convexity", self.strong_convexity)
        if not self.kinds:
            raise InputError("kinds must hold at least one pair (weight, records), got none.")

    @classmethod
    def of(cls, setting: Setting) -> "StarFacts":
        """Read the public facts off a setting."""
        problem, constants = setting.problem, setting.problem.functions.constants
        pairs = np.unique(np.column_stack([problem.weights, problem.functions.sizes]), axis=0)
        return cls(
            n_agents=problem.n_agents,
            dimension=problem.dimension,
            strong_convexity=constants.strong_convexity,
            smoothness=constants.smoothness,
            kinds=tuple((float(weight), int(size)) for weight, size in pairs),
            gradient_bound=constants.record_gradient,
            tolerance=setting.tolerance,
            protection=setting.protection,
            is_quadratic=isinstance(problem.functions, QuadraticAgents),
        )

    @property
    def least_curvature(self) -> float:
        """tau of the weighted functions w_i f_i."""
        return self.strong_convexity * min(weight for weight, _ in self.kinds)

    @property
    def most_curvature(self) -> float:
        """L of the weighted functions w_i f_i."""
        return self.smoothness * max(weight for weight, _ in self.kinds)


class Neighbours(Protocol):
    """What makes two data sets neighbours, and how far the k-th private broadcast can then move."""

    def certificates(self, rho: float, rounds: int, facts: StarFacts) -> tuple[Certificate, ...]:
        """Return C3 for private broadcasts 1..rounds: the largest bound over the agents, round by round."""
        ...


@dataclass(frozen=True)
class RecordsDiffer:
    """One record of one silo is replaced (unit: record); its loss has gradients bounded by G.

    A person with records in s silos moves the mean by at most the sum of what each silo does, s times the bound.
    """

    def certificates(self, rho: float, rounds: int, facts: StarFacts) -> tuple[Certificate, ...]:
        """C3 with gradient distance 2 G r/n_i."""
        if not np.isfinite(facts.gradient_bound):
            raise InputError(
                "A record's gradient has no bound for these functions, so records cannot be protected. Use a loss with "
                "a bounded slope, or protect functions: FunctionsDiffer(gradient_distance)."
            )

        def one_kind(weight: float, n_records: int) -> tuple[Certificate, ...]:
            local = LocalFunction(
                gradient_bound=facts.gradient_bound,
                n_records=n_records,
                weight=weight,
                strong_convexity=facts.strong_convexity,
                solver_tolerance=facts.tolerance,
                records_per_person=facts.protection.records_per_person,
                silos_per_person=facts.protection.silos_per_person,
            )
            return consensus_broadcast_records(
                local, rounds=rounds, n_agents=facts.n_agents, penalty=rho, smoothness=facts.smoothness
            )

        return _worst(one_kind, facts)


RECORDS = RecordsDiffer()


@dataclass(frozen=True)
class FunctionsDiffer:
    """One agent's function is replaced, its gradient moves by at most `gradient_distance` delta >= 0 everywhere.

    Unit: function (Definition 1 of the paper). Any admissible functions, tau-strongly convex and L-smooth.
    """

    gradient_distance: float

    def __post_init__(self) -> None:
        """Refuse distances that are none."""
        checks.positive("gradient_distance", self.gradient_distance)

    def certificates(self, rho: float, rounds: int, facts: StarFacts) -> tuple[Certificate, ...]:
        """C3."""
        return _functions(consensus_broadcast, self.gradient_distance, rho, rounds, facts)


@dataclass(frozen=True)
class LinearTermsDiffer:
    """The linear term of one agent's *quadratic* is replaced by one at most `gradient_distance` away.

    Among quadratics this is all that a bounded gradient distance allows: the Hessians are equal and not protected. The
    bound is smaller than that of `FunctionsDiffer`, and valid for `QuadraticAgents` only.
    """

    gradient_distance: float

    def __post_init__(self) -> None:
        """Refuse distances that are none."""
        checks.positive("gradient_distance", self.gradient_distance)

    def certificates(self, rho: float, rounds: int, facts: StarFacts) -> tuple[Certificate, ...]:
        """C3 for the quadratic class."""
        if not facts.is_quadratic:
            raise InputError(
                "LinearTermsDiffer is proved for quadratic functions only (QuadraticAgents). Use FunctionsDiffer or "
                "RecordsDiffer for other functions."
            )
        return _functions(consensus_broadcast_quadratic, self.gradient_distance, rho, rounds, facts)


def _functions(
    certify: Callable[..., tuple[Certificate, ...]], distance: float, rho: float, rounds: int, facts: StarFacts
) -> tuple[Certificate, ...]:
    if facts.protection.records_per_person != 1 or facts.protection.silos_per_person != 1:
        raise InputError(
            "The protected unit is one agent's function, so records_per_person and silos_per_person do not apply; "
            "leave them at 1."
        )

    def one_kind(weight: float, _: int) -> tuple[Certificate, ...]:
        return certify(
            rounds=rounds,
            gradient_distance=distance,
            n_agents=facts.n_agents,
            penalty=rho,
            strong_convexity=facts.strong_convexity,
            smoothness=facts.smoothness,
            weight=weight,
            solver_tolerance=facts.tolerance,
        )

    return _worst(one_kind, facts)


def _worst(one_kind: Callable[[float, int], Sequence[Certificate]], facts: StarFacts) -> tuple[Certificate, ...]:
    """Return, round by round, the certificate of the agents that can move the mean most: valid for all agents."""
    tables = [one_kind(weight, size) for weight, size in facts.kinds]
    return tuple(max(column, key=lambda certificate: certificate.bound) for column in zip(*tables, strict=True))
