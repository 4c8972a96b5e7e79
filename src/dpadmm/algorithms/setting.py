"""What a private method declares: the releases it will make, as certificates, before any noise is chosen."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.networks.graph import Network
from dpadmm.noise.promises import Promise
from dpadmm.privacy.records import ONE_RECORD, Protection
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem


@dataclass(frozen=True)
class Setting:
    """The public facts a certificate rests on: sizes, weights, constants, the graph, the number of rounds.

    `tolerance` is the gradient norm to which the engine solves (C7). `protection` says who is protected from whom;
    its unit and view are a method's own to certify.
    """

    problem: Problem
    rounds: int
    tolerance: float
    network: Network | None = None
    protection: Protection = ONE_RECORD

    def __post_init__(self) -> None:
        """Check the numbers."""
        checks.count("rounds", self.rounds)
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

    def strong_convexity(self) -> Floats:
        """Return mu of each agent's function with its share g/N of a ridge regulariser, per unit of its weight."""
        problem = self.problem
        share = problem.regulariser.strong_convexity / problem.n_agents
        return problem.functions.constants.strong_convexity + share / problem.weights


class Private(Protocol):
    """A method that can say what it releases."""

    def promises(self, setting: Setting) -> tuple[Promise, ...]:
        """Return the private releases of a run, slot by slot."""
        ...
