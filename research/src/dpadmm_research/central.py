"""The central model of a problem: all records in one silo."""

from dataclasses import replace

import numpy as np

from dpadmm.errors import InputError
from dpadmm.problems.problem import EmpiricalRisk, Problem


def pool_records(problem: Problem) -> Problem:
    """Return the same problem with all records in one silo.

    Only where it *is* the same problem: the weights must be proportional to the records, w_i = c n_i.
    """
    functions = problem.functions
    if not isinstance(functions, EmpiricalRisk):
        raise InputError(
            f"{type(functions).__name__} has no records to pool. Use an empirical risk.", setting="functions"
        )
    ratios = problem.weights / functions.sizes
    if not np.allclose(ratios, ratios[0], rtol=1e-9):
        raise InputError(
            "Pooled records all have the same weight, so the silos' weights must be proportional to their sizes.",
            setting="weights",
        )
    silos = replace(functions.silos, offsets=functions.silos.offsets[[0, -1]], names=("all records",))
    return Problem(replace(functions, silos=silos), np.array([problem.weights.sum()]), problem.regulariser)
