"""The optimum without privacy, for comparison in simulations: Newton steps, halved until the objective falls."""

import numpy as np

from dpadmm.problems.arrays import Floats
from dpadmm.problems.risk import EmpiricalRisk

_HALVINGS = 30


def best_model(risk: EmpiricalRisk, steps: int = 50) -> Floats:
    """Return a minimiser (d,) of one silo's empirical risk, which must have a ridge."""
    w = np.zeros((risk.dimension, 1))
    value = float(risk.value(w[None])[0, 0])
    for _ in range(steps):
        gradient = risk.gradient(w[None])[0]
        move = np.linalg.solve(risk.hessian(0, w[:, 0]), gradient)
        for halving in range(_HALVINGS):
            after = w - 0.5**halving * move
            now = float(risk.value(after[None])[0, 0])
            if now < value:
                break
        else:
            return w[:, 0]
        w, value = after, now
    return w[:, 0]
