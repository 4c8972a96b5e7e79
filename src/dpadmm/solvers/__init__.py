"""How an agent solves its subproblem of a round, for many agents and replicas at once, with a bound on the error.

A `Subproblem` is prepared once for a problem (`prepare`; `prepare_release` for a release, whose failures may depend on
messages and public bounds alone) and solved in every round; every decision is taken per column.
"""

from dpadmm import _offer

_HOMES = {
    "MajoriserSolver": "columns",
    "NewtonColumns": "newton",
    "QuadraticSolver": "closed_forms",
    "RankOneSolver": "closed_forms",
    "Solution": "solver",
    "Solver": "solver",
    "SquaredSolver": "closed_forms",
    "Subproblem": "solver",
    "WatchedSolver": "solver",
    "prepare": "solver",
    "prepare_release": "solver",
}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
