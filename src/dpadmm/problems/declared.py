"""A user's own losses, regularisers, functions and operators: what they declare is believed, unless it can be refuted.

Certificates are built on declared constants. Those of this package are proved; those of anything else, a subclass of a
built-in loss included, are a user's word. `check_declared` tries to refute them before a run, on public facts alone.
What it does not refute is named by `declared_by`, and the names travel with every certificate of the run: it is
certified *if the declared constants hold*.
"""

import math
from typing import Any

from dpadmm.errors import InputError
from dpadmm.problems.functions import Constants, linear_constants
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.refutation import refute_loss, refute_regulariser
from dpadmm.problems.softmax import Softmax, check_softmax

_BOUNDS = ("record_gradient", "record_curvature", "gradient_range", "smoothness")
_SLACK = 1e-9


def is_own(part: object) -> bool:
    """Return whether a part is a user's own: of a class that this package does not define."""
    return type(part).__module__.partition(".")[0] != __name__.partition(".")[0]


def own_parts(problem: Problem) -> dict[str, Any]:
    """Return the user's own parts of a problem, by what they are."""
    functions = problem.functions
    loss = getattr(functions, "linear_loss", None)
    if loss is None:
        loss = getattr(functions, "loss", None)
    parts = {"functions": functions, "loss": loss, "regulariser": problem.regulariser}
    return {kind: part for kind, part in parts.items() if part is not None and is_own(part)}


def declared_by(problem: Problem, constraint: object = None, method: object = None) -> tuple[str, ...]:
    """Return the names of the user's own parts, on whose constants or certificates the run's rest.

    constraint: that of the method, where it has one.
    """
    parts = own_parts(problem)
    more = {"constraint": constraint, "method": method}
    parts |= {kind: part for kind, part in more.items() if part is not None and is_own(part)}
    return tuple(f"{kind} {type(part).__name__}" for kind, part in parts.items())


def has_same_parts(problem: Problem, public: Problem) -> bool:
    """Return whether the user's own parts of a problem are those of the public one that was planned and checked."""
    own, planned = own_parts(problem), own_parts(public)
    functions = type(own.pop("functions", None)), type(planned.pop("functions", None))  # the data may differ
    return functions[0] is functions[1] and own == planned


def check_declared(problem: Problem, constraint: object = None) -> None:
    """Raise `InputError` if anything that the user's own parts declare is refuted; reads no record.

    Own functions are not evaluated, since they hold private data: only the constants themselves are checked.
    """
    own = own_parts(problem)
    loss = own.get("loss")
    if isinstance(loss, Softmax):
        check_softmax(loss)
    elif loss is not None:
        refute_loss(loss)
    if "regulariser" in own:
        refute_regulariser(problem.regulariser, problem.dimension)
    if constraint is not None and is_own(constraint):
        _check_constraint(constraint, problem.dimension)
    if "functions" in own:
        _check_constants(problem.functions, problem.functions.constants)


def _check_constraint(constraint: Any, dimension: int) -> None:
    """A set with a projection is a regulariser; an operator of any other kind has no certificate."""
    if not hasattr(constraint, "prox"):
        raise InputError(
            f"The constraint {type(constraint).__name__} is of a kind for which no certificate exists. Use the "
            "constraints of this package, which compute their own constants. Nothing was spent."
        )
    refute_regulariser(constraint, dimension)


def _check_constants(functions: Any, constants: Constants) -> None:
    """Constants that contradict each other, or the loss and the norm of rows that they follow from."""
    name = f"The functions {type(functions).__name__}"
    numbers = {each: getattr(constants, each) for each in (*_BOUNDS, "strong_convexity")}
    for each, value in numbers.items():
        if not isinstance(value, int | float) or not value >= 0:
            raise InputError(f"{name} declare {each} {value!r}. It must be a number, 0 or greater. Nothing was spent.")
    if constants.strong_convexity > constants.smoothness * (1 + _SLACK) or math.isinf(constants.strong_convexity):
        raise InputError(
            f"{name} declare strong_convexity {constants.strong_convexity:g} and smoothness {constants.smoothness:g}, "
            "which must be at least as large. Correct them. Nothing was spent."
        )
    if not isinstance(functions, EmpiricalRisk):
        return
    true = linear_constants(functions.loss, functions.silos.row_norm, functions.mu)
    for each in _BOUNDS:
        if getattr(constants, each) < getattr(true, each) * (1 - _SLACK):
            raise InputError(
                f"{name} declare {each} {getattr(constants, each):g}, but their loss on rows of norm up to "
                f"{functions.silos.row_norm:g} has {getattr(true, each):g}. Correct it. Nothing was spent."
            )
    if constants.strong_convexity > true.strong_convexity * (1 + _SLACK):
        raise InputError(
            f"{name} declare strong_convexity {constants.strong_convexity:g}, but mu is {true.strong_convexity:g}. "
            "Correct it. Nothing was spent."
        )
