"""Whom consensus DP-ADMM protects: three notions of neighbouring data, each with its form of certificate C3.

All of them bound the coordinator's mean `mean_i (x_i + a_i/rho)`; the z-update is non-expansive, so the same bound
holds for z itself. Nothing here looks at data: a `Setting` holds every public fact that a certificate rests on.
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
from dpadmm.privacy.protection import Certificate
from dpadmm.problems.quadratics import QuadraticAgents


class Neighbours(Protocol):
    """What makes two data sets neighbours, and how far the k-th private broadcast can then move."""

    def certificates(self, rho: float, setting: Setting) -> tuple[Certificate, ...]:
        """Return C3 for private broadcasts 1..rounds: the largest bound over the agents, round by round."""


@dataclass(frozen=True)
class RecordsDiffer:
    """One record of one silo is replaced (unit: record); its loss has gradients bounded by G.

    A person with records in s silos moves the mean by at most the sum of what each silo does, s times the bound.
    """

    def certificates(self, rho: float, setting: Setting) -> tuple[Certificate, ...]:
        """C3 with gradient distance 2 G r/n_i."""
        constants = setting.problem.functions.constants
        if not np.isfinite(constants.record_gradient):
            raise InputError(
                "A record's gradient has no bound for these functions, so records cannot be protected. Use a loss with "
                "a bounded slope, or protect functions: FunctionsDiffer(gradient_distance)."
            )

        def one_kind(weight: float, n_records: int) -> tuple[Certificate, ...]:
            local = LocalFunction(
                gradient_bound=constants.record_gradient,
                n_records=n_records,
                weight=weight,
                strong_convexity=constants.strong_convexity,
                solver_tolerance=setting.tolerance,
                records_per_person=setting.protection.records_per_person,
                silos_per_person=setting.protection.silos_per_person,
            )
            n, smoothness = setting.problem.n_agents, constants.smoothness
            return consensus_broadcast_records(
                local, rounds=setting.rounds, n_agents=n, penalty=rho, smoothness=smoothness
            )

        return _worst(one_kind, setting)


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

    def certificates(self, rho: float, setting: Setting) -> tuple[Certificate, ...]:
        """C3."""
        return _functions(consensus_broadcast, self.gradient_distance, rho, setting)


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

    def certificates(self, rho: float, setting: Setting) -> tuple[Certificate, ...]:
        """C3 for the quadratic class."""
        if not isinstance(setting.problem.functions, QuadraticAgents):
            raise InputError(
                "LinearTermsDiffer is proved for quadratic functions only (QuadraticAgents). Use FunctionsDiffer or "
                "RecordsDiffer for other functions."
            )
        return _functions(consensus_broadcast_quadratic, self.gradient_distance, rho, setting)


def _functions(
    certify: Callable[..., tuple[Certificate, ...]], distance: float, rho: float, setting: Setting
) -> tuple[Certificate, ...]:
    constants, hidden = setting.problem.functions.constants, setting.protection
    if hidden.records_per_person != 1 or hidden.silos_per_person != 1:
        raise InputError(
            "The protected unit is one agent's function, so records_per_person and silos_per_person do not apply; "
            "leave them at 1."
        )

    def one_kind(weight: float, _: int) -> tuple[Certificate, ...]:
        return certify(
            rounds=setting.rounds,
            gradient_distance=distance,
            n_agents=setting.problem.n_agents,
            penalty=rho,
            strong_convexity=constants.strong_convexity,
            smoothness=constants.smoothness,
            weight=weight,
            solver_tolerance=setting.tolerance,
        )

    return _worst(one_kind, setting)


def _worst(one_kind: Callable[[float, int], Sequence[Certificate]], setting: Setting) -> tuple[Certificate, ...]:
    """Return, round by round, the certificate of the agents that can move the mean most: valid for all agents."""
    pairs = np.unique(np.column_stack([setting.problem.weights, setting.problem.functions.sizes]), axis=0)
    tables = [one_kind(float(weight), int(size)) for weight, size in pairs]
    return tuple(max(column, key=lambda certificate: certificate.bound) for column in zip(*tables, strict=True))
