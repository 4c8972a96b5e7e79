"""Private ADMM for the LASSO, with clipping (Algorithm 6): users who hold one record each.

minimise (1/2N) sum_i (a_i'x - b_i)^2 + kappa ||x||_1

x_i = v - a_i (a_i'v - b_i) gamma/(1 + gamma ||a_i||^2),   v = 2z - u_i
u_i <- u_i + 2 lam ( Clip(x_i - z, C) + N(0, sigma^2 I)/2 )
z   = soft_{gamma kappa}(mean u)

The x step is `prox_{gamma F_i}` of eq. (9) for `F_i(x) = (a_i'x - b_i)^2/2`, solved by the Sherman-Morrison formula.
(As printed it has `2n/gamma` where 1/gamma belongs: a prox with gamma/(2n), beside which the soft threshold weighs the
l1 term 2n times too much.)
"""

from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np

from dpadmm.errors import InputError
from dpadmm.methods.base import About, Agents, Setting
from dpadmm.methods.fixed_point.blocks import BLOCKS, BlockADMM
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import MechanismSpec
from dpadmm.privacy.protection import Unit
from dpadmm.problems.arrays import Floats, Matrix
from dpadmm.problems.losses import Squared
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.regularisers import ElasticNet
from dpadmm.problems.silos import dense


@dataclass(frozen=True)
class LassoADMM(BlockADMM):
    """Algorithm 6 for all users in every round (central) or for sampled ones (`participation`).

    Parameters: see `BlockADMM`; a private run needs a finite `clip`, since the squared loss has no bounded slope.

    Guarantees: C5 with `D_x = 2 clip`. Clipping leaves the fixed point where it is but slows the way there, and biases
    a noisy run; the Huber loss with any other method of this package bounds the sensitivity without it.
    """

    about: ClassVar[About] = replace(
        BLOCKS,
        name="fp-lasso",
        summary="fixed-point ADMM for the LASSO, with clipping",
        is_federated=False,
        units=frozenset({Unit.RECORD, Unit.USER}),
    )

    def check(self, problem: Problem, network: Network | None) -> None:
        """Squared loss, one record per user, l1 and nothing else."""
        super().check(problem, network)
        functions = problem.functions
        is_lasso = (
            isinstance(functions, EmpiricalRisk)
            and functions.loss == Squared()
            and functions.mu == 0
            and functions.is_one_record_each
            and isinstance(problem.regulariser, ElasticNet)
            and problem.regulariser.l2 == 0
        )
        if not is_lasso:
            raise InputError(
                "LassoADMM solves one problem: EmpiricalRisk(Silos.one_record_each(...), Squared()) with mu = 0 and "
                "ElasticNet(l1=...). Use FederatedADMM or CentralisedADMM for other problems."
            )

    def minimiser(self, agents: Agents, v: Floats, start: Floats) -> Floats:
        """The closed form above, with gamma F_i = (gamma N w_i) f_i."""
        users = cast(EmpiricalRisk, agents.functions)
        return solve_lasso_block(users.silos.features, users.shifts, v, self.gamma * agents.number * agents.weights)

    def mechanisms(self, setting: Setting) -> tuple[MechanismSpec, ...]:
        """C5, by clipping alone."""
        if np.isinf(self.clip):
            raise InputError("The squared loss has no bounded slope: a private LASSO needs a finite clip.")
        return super().mechanisms(setting)


def solve_lasso_block(a: Matrix, b: Floats, v: Floats, step: Floats) -> Floats:
    """Return `v_i - a_i (a_i'v_i - b_i) step_i/(1 + step_i ||a_i||^2)`, the prox of `step_i (a_i'x - b_i)^2/2` at v_i.

    a: (m, d). b, step: (m,). v: (m, d, R).

    >>> solve_lasso_block(np.array([[1.0, 0.0]]), np.array([4.0]), np.zeros((1, 2, 1)), np.array([1.0])).ravel()
    array([2., 0.])
    """
    rows = dense(a)
    residual = np.einsum("id,idr->ir", rows, v) - b[:, None]
    share = step / (1 + step * np.einsum("id,id->i", rows, rows))
    return v - rows[:, :, None] * (share[:, None] * residual)[:, None, :]
