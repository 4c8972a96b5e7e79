"""Solvers for releases: whether a solve fails follows from public numbers, never from the records.

That a run stops is seen by everybody and counted by no certificate. So before any record is read, the largest terms of
the gradient are bounded for every record there could be; if 64-bit numbers might not reach the tolerance beside them,
the solve is refused. Otherwise solvers do reach it.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpadmm.errors import SolverError
from dpadmm.problems.arrays import Floats
from dpadmm.problems.functions import Constants, LocalFunctions
from dpadmm.solvers.solution import Solution, Solver, Subproblem, prepare

_UNIT = 2.0**-52
_ROUNDED = 8 * _UNIT  # of the largest term of a gradient, is left where solvers iterate


@dataclass(frozen=True)
class WatchedSolver:
    """A solver that refuses by public numbers what it could not solve for every record there might be.

    weights: of the solver's agents. rounded: what rounding may leave of the largest term of a gradient.
    """

    solver: Solver
    constants: Constants
    weights: Floats
    rounded: float

    @property
    def tolerance(self) -> float:
        """The gradient norm that every returned column has reached."""
        return self.solver.tolerance

    def solve(self, subproblem: Subproblem) -> Solution:
        """Solve, or refuse without having looked at the records."""
        if not largest_term(subproblem, self.constants, self.weights) * self.rounded <= self.tolerance:  # NaN: refuse
            raise SolverError(
                "Messages have become so large, or the penalty is so small, that 64-bit numbers cannot solve every "
                f"local problem to the gradient tolerance {self.tolerance:.1e}. This follows from public numbers and "
                "tells nothing about the records. Choose a larger epsilon, penalty, ridge term or tolerance."
            )
        return self.solver.solve(subproblem)


def largest_term(subproblem: Subproblem, constants: Constants, weights: Floats) -> float:
    """Bound all that adds up to the gradient at the minimiser x, whatever the records are.

    `||x|| <= (s ||c|| + ||lin|| + w G)/(s + w mu)`, and the gradient of `w f` moves by `w L` times as much at most.
    """
    weight, pull = weights[subproblem.seats(), None], subproblem.pull[:, None]
    forces = pull * np.linalg.norm(subproblem.centre, axis=1) + np.linalg.norm(subproblem.lin, axis=1)
    forces += weight * constants.record_gradient
    reach = forces / (pull + weight * constants.strong_convexity)
    return float(np.max(forces + (pull + weight * constants.smoothness) * reach))


def prepare_release(functions: LocalFunctions, weights: Floats, tolerance: float, threads: int = 1) -> Solver:
    """Return the solver of `prepare`, watched; the bare one where gradients have no bound to go by."""
    solver, constants = prepare(functions, weights, tolerance, threads), functions.constants
    if not math.isfinite(constants.record_gradient):
        return solver
    # One record each: `solvers.kernels` bounds its arithmetic term by term, by so much at most.
    d, is_closed_form = functions.dimension, bool(getattr(functions, "is_one_record_each", False))
    rounded = 12 * (d + 8) * math.sqrt(d) * _UNIT if is_closed_form else _ROUNDED
    return WatchedSolver(solver, constants, weights, rounded)
