"""What a run looked like from inside: losses read the private data, residuals states without noise.

For non-private and simulated runs. What anyone who saw the released messages can compute is `private.PublicRound`.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpadmm.methods.anatomy import Residuals, spread
from dpadmm.methods.method import Method
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.problems.problem import Problem


@dataclass(frozen=True)
class Snapshot:
    """One row of a history: per replica (R,), per agent and replica (N, R)."""

    round: int
    objective: Floats
    consensus_error: Floats
    agent_loss: Floats
    primal: Floats
    dual: Floats


@dataclass
class History:
    """Snapshots in the order of their rounds, with columns as arrays of shape (rounds, R)."""

    snapshots: list[Snapshot] = field(default_factory=list)

    @property
    def rounds(self) -> Ints:
        """The rounds at which snapshots were taken."""
        return np.array([s.round for s in self.snapshots], dtype=np.int64)

    @property
    def objective(self) -> Floats:
        """sum w_i f_i + g at the estimate."""
        return np.array([s.objective for s in self.snapshots])

    @property
    def consensus_error(self) -> Floats:
        """Largest distance of an agent's model from the mean."""
        return np.array([s.consensus_error for s in self.snapshots])

    @property
    def agent_loss(self) -> Floats:
        """f_i at the agent's own model, (rounds, N, R)."""
        return np.array([s.agent_loss for s in self.snapshots])

    @property
    def primal(self) -> Floats:
        """Primal residuals."""
        return np.array([s.primal for s in self.snapshots])

    @property
    def dual(self) -> Floats:
        """Dual residuals."""
        return np.array([s.dual for s in self.snapshots])


def snapshot(k: int, algorithm: Method, problem: Problem, state: Any, inbox: Floats, residuals: Residuals) -> Snapshot:
    """Measure the state after round k."""
    models = algorithm.models(state, inbox)
    return Snapshot(
        round=k,
        objective=problem.objective(algorithm.estimate(state, inbox)),
        consensus_error=spread(models),
        agent_loss=problem.functions.value(models),
        primal=residuals.primal,
        dual=residuals.dual,
    )
