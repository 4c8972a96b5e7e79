"""What a private method declares: the releases it will make, as certificates, before any noise is chosen."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.noise.promises import Promise, Row
from dpadmm.privacy.certificates import LocalFunction
from dpadmm.privacy.protection import ONE_RECORD, Certificate, Protection
from dpadmm.problems.arrays import Ints
from dpadmm.problems.problem import Problem

ROUNDING = 1e-10
"""What rounding may add to one gradient before noise; far above what is seen."""


class Neighbourhood(Protocol):
    """What a certificate needs of a network."""

    @property
    def degrees(self) -> Ints:
        """How many neighbours each agent has."""
        ...


@dataclass(frozen=True)
class Setting:
    """The public facts a certificate rests on: sizes, weights, constants, the graph, the number of rounds.

    `tolerance` is the gradient norm to which the engine solves (C7); None leaves it out of the bounds, which then hold
    up to solver error. `protection` says who is protected from whom; its unit and view are a method's own to certify.
    `rounding` takes the tolerance's place where gradients are computed and nothing is solved.
    """

    problem: Problem
    rounds: int
    tolerance: float | None
    network: Neighbourhood | None = None
    protection: Protection = ONE_RECORD
    rounding: float = ROUNDING

    def __post_init__(self) -> None:
        """Check the numbers."""
        checks.count("rounds", self.rounds)
        if self.tolerance is not None:
            checks.positive("tolerance", self.tolerance)
        self.protection.check_silos(self.problem.n_agents)

    @property
    def gradient_bound(self) -> float:
        """`G`, or an error that says what to do where no bound exists."""
        bound = self.problem.functions.constants.record_gradient
        if not np.isfinite(bound):
            raise InputError(
                "A record's gradient has no bound for this loss, so no guarantee exists. Use a loss with a bounded "
                "slope (Huber instead of squared; logistic; smoothed hinge)."
            )
        return bound

    @property
    def graph(self) -> Neighbourhood:
        """The network, or an error where there is none."""
        if self.network is None:
            raise InputError("The certificate needs the network: what an agent sends depends on its neighbours.")
        return self.network

    def rows(self, certificate: Callable[[int], Certificate], rounds: Sequence[int] | None = None) -> tuple[Row, ...]:
        """Return a row for each agent, with the same certificate in all these rounds (None: in every round)."""
        when = tuple(range(1, self.rounds + 1) if rounds is None else rounds)
        return tuple(Row(i, when, (certificate(i),) * len(when)) for i in range(self.problem.n_agents))

    def local(self, agent: int, tolerance: float | None = None, is_clipped: bool = False) -> LocalFunction:
        """Return the public side of one agent's function, with its share g/N of a ridge regulariser.

        `tolerance` is the error of what it computes, the engine's if left out. Where gradients are clipped, the loss
        need not bound them.
        """
        problem, weight = self.problem, float(self.problem.weights[agent])
        share = problem.regulariser.strong_convexity / problem.n_agents
        return LocalFunction(
            gradient_bound=problem.functions.constants.record_gradient if is_clipped else self.gradient_bound,
            n_records=int(problem.functions.sizes[agent]),
            weight=weight,
            strong_convexity=problem.functions.constants.strong_convexity + share / weight,
            solver_tolerance=self.tolerance if tolerance is None else tolerance,
            records_per_person=self.protection.records_per_person,
            silos_per_person=self.protection.silos_per_person,
        )

    def degree(self, agent: int) -> int:
        """Return the number of an agent's neighbours."""
        return int(self.graph.degrees[agent])


class Private(Protocol):
    """A method that can say what it releases."""

    def promises(self, setting: Setting) -> tuple[Promise, ...]:
        """Return the private releases of a run, slot by slot."""
        ...
