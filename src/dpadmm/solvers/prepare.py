"""Choose the solver that fits the functions.

The solvers are imported when one is made: their compiled kernels are slow to load, and planning or accounting by closed
forms needs none of them.
"""

from functools import singledispatch

import numpy as np

from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats
from dpadmm.problems.functions import LocalFunctions
from dpadmm.problems.losses import Squared
from dpadmm.problems.quadratics import QuadraticAgents
from dpadmm.problems.risk import EmpiricalRisk
from dpadmm.solvers.solution import Solver

DEFAULT_TOLERANCE = 1e-9


@singledispatch
def prepare(
    functions: LocalFunctions, weights: Floats, tolerance: float = DEFAULT_TOLERANCE, threads: int = 1
) -> Solver:
    """Return a solver of `min w_i f_i(x) + lin'x + (s/2)||x - c||^2` for these functions.

    Functions of a new kind register their solver here (`@prepare.register`).

    >>> from dpadmm.problems.silos import Silos
    >>> silos = Silos.from_parts([np.eye(3)], [np.ones(3)], row_norm=1.0)
    >>> type(prepare(EmpiricalRisk(silos, Squared()), np.ones(1))).__name__
    'SquaredSolver'
    """
    raise InputError(f"No solver is known for {type(functions).__name__}; register one with prepare.register.")


@prepare.register
def _(functions: QuadraticAgents, weights: Floats, tolerance: float = DEFAULT_TOLERANCE, threads: int = 1) -> Solver:
    from dpadmm.solvers.closed_forms import QuadraticSolver

    return QuadraticSolver(functions, weights, tolerance, threads)


@prepare.register
def _(functions: EmpiricalRisk, weights: Floats, tolerance: float = DEFAULT_TOLERANCE, threads: int = 1) -> Solver:
    from dpadmm.solvers.closed_forms import RankOneSolver, SquaredSolver
    from dpadmm.solvers.majoriser import MajoriserSolver

    if np.all(functions.sizes == 1):
        return RankOneSolver(functions, weights, tolerance, threads)
    if functions.loss == Squared():
        return SquaredSolver(functions, weights, tolerance, threads)
    return MajoriserSolver(functions, weights, tolerance, threads)
