"""The problem that all methods solve: minimise `sum_i w_i f_i(x) + g(x)`."""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.problems.functions import LocalFunctions
from dpadmm.problems.regularisers import NoRegulariser, Regulariser


class Weighting(Enum):
    """How much each agent's function counts."""

    EQUAL = "w_i = 1"
    AVERAGE = "w_i = 1/N"
    POOLED = "w_i = n_i/n, as if all records were pooled"

    def weights(self, sizes: Ints) -> Floats:
        """Return the weights for agents of these sizes."""
        rules = {
            Weighting.EQUAL: np.ones(len(sizes)),
            Weighting.AVERAGE: np.full(len(sizes), 1.0 / len(sizes)),
            Weighting.POOLED: sizes / sizes.sum(),
        }
        return np.asarray(rules[self], dtype=np.float64)


@dataclass(frozen=True)
class Problem:
    """Minimise `sum_i w_i f_i(x) + g(x)` over x in R^d.

    >>> from dpadmm.problems.quadratics import QuadraticAgents
    >>> problem = Problem.of(QuadraticAgents(np.ones((2, 1, 1)), np.array([[1.0], [3.0]])), Weighting.AVERAGE)
    >>> problem.objective(np.array([[-2.0]])).tolist()
    [-2.0]
    """

    functions: LocalFunctions
    weights: Floats
    regulariser: Regulariser

    def __post_init__(self) -> None:
        """Check the functions and the weights."""
        _check_functions(self.functions)
        try:
            weights = np.asarray(self.weights, dtype=np.float64)
        except (TypeError, ValueError) as problem:
            raise InputError(f"weights must be numbers, got something else ({problem}).") from problem
        if weights.shape != (self.functions.n_agents,):
            raise InputError(
                f"weights must hold one number per agent ({self.functions.n_agents}), got {weights.shape}."
            )
        if not (np.isfinite(weights).all() and (weights > 0).all()):
            raise InputError("weights must be finite and greater than 0.")
        object.__setattr__(self, "weights", weights)

    @classmethod
    def of(
        cls,
        functions: LocalFunctions,
        weighting: Weighting = Weighting.POOLED,
        regulariser: Regulariser | None = None,
    ) -> "Problem":
        """Build a problem with weights by rule and, unless given, no regulariser."""
        _check_functions(functions)
        chosen = regulariser if regulariser is not None else NoRegulariser()
        return cls(functions, weighting.weights(functions.sizes), chosen)

    @property
    def n_agents(self) -> int:
        """Number of agents N."""
        return self.functions.n_agents

    @property
    def dimension(self) -> int:
        """Dimension d."""
        return self.functions.dimension

    def objective(self, x: Floats) -> Floats:
        """Return the objective at common points x (d, R)."""
        losses = self.functions.value(x[None])
        return self.weights @ losses + self.regulariser.value(x)

    def gradient(self, x: Floats) -> Floats:
        """Return the gradient of the smooth part, sum_i w_i grad f_i, at common points x (d, R)."""
        return np.einsum("i,idr->dr", self.weights, self.functions.gradient(x[None]))

    def optimality(self, x: Floats) -> Floats:
        """Return, per column, the distance of 0 from the subdifferential of the objective: 0 at the optimum."""
        return self.regulariser.subgradient_residual(x, self.gradient(x))


def _check_functions(functions: object) -> None:
    if isinstance(functions, type) or not (hasattr(functions, "gradient") and hasattr(functions, "constants")):
        raise InputError(
            f"A problem is made of the agents' functions, such as EmpiricalRisk(silos, Logistic()), got "
            f"{type(functions).__name__}."
        )
