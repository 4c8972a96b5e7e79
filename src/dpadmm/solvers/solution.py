"""What a solver is asked, and what it answers."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpadmm.errors import SolverError
from dpadmm.problems.arrays import Floats, Ints


@dataclass(frozen=True)
class Subproblem:
    """`min_x w_i f_i(x) + lin_i'x + (pull_i/2) ||x - centre_i||^2` for all agents and replicas.

    lin, centre: (m, d, R); pull: (m,), greater than 0; start: (m, d, R), where iterative solvers begin.
    agents: (m,) which of the solver's agents these rows belong to; all of them, in order, if left out.
    out: (m, d, R), C order, where closed forms write the point; a fresh array if left out.
    """

    lin: Floats
    centre: Floats
    pull: Floats
    start: Floats
    agents: Ints | None = None
    out: Floats | None = None

    def seats(self) -> Ints:
        """Return the agents as an index array."""
        return self.agents if self.agents is not None else np.arange(len(self.lin))


@dataclass(frozen=True)
class Solution:
    """The minimisers (m, d, R) and a bound on the norm of the subproblem's gradient there (m, R).

    `passes` counts the sweeps over the data that the slowest column of each agent needed (0: closed form).
    """

    point: Floats
    gradient_norm: Floats
    passes: Floats


class Solver(Protocol):
    """Solves one kind of subproblem to a tolerance on the gradient norm, or raises `SolverError`."""

    @property
    def tolerance(self) -> float:
        """The gradient norm that every returned column has reached."""
        ...

    def solve(self, subproblem: Subproblem) -> Solution:
        """Solve for every agent and replica."""
        ...


def require_converged(solution: Solution, tolerance: float, subproblem: Subproblem) -> Solution:
    """Return the solution, or raise: a column that misses the tolerance has no certified sensitivity."""
    # A NaN makes the maximum a NaN, which is not below the tolerance.
    if not solution.gradient_norm.max() <= tolerance:
        # By how much it was missed is a fact about the records, and is not told.
        missed = ~(solution.gradient_norm <= tolerance)
        agents = np.unique(subproblem.seats()[np.nonzero(missed)[0]])
        raise SolverError(
            f"{missed.sum()} of {missed.size} local solves missed the gradient tolerance {tolerance:.1e} "
            f"(agents {agents[:5].tolist()}). Raise the tolerance, the penalty or the ridge term."
        )
    return solution
