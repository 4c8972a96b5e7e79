"""Agents tied to a public z: `A_i x_i + B_i z = c_i`, with consensus as a special case; and agents on a graph.

    x_i = argmin f_i(x) + ||A_i x + 2 B_i z + u_i - c_i||^2/(2 gamma),   u_i <- u_i + 2 lam (A_i x_i + B_i z - c_i)
    z   = argmin g(z) + sum ||B_i z + u_i||^2/(2 gamma),   of `sum B_i'u_i + N(0, S^2 I)` alone

Where all B_i are equal `sum u_i` leaves instead, so that the noise does not depend on B.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dpadmm import checks
from dpadmm.costs.agents import accelerated, check_solved
from dpadmm.costs.sharing import OwnCosts, OwnState, SharingADMM, project
from dpadmm.methods.base import BROADCAST, MESSAGE, About, Agents, NoiseHook, Setting
from dpadmm.methods.p_admm import PADMM
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import Family, MechanismSpec
from dpadmm.privacy.certificates.hidden_state import relaxation_of
from dpadmm.privacy.certificates.sharing import graph_gap
from dpadmm.privacy.protection import Unit
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem
from dpadmm.problems.regularisers import ElasticNet, Regulariser

_EXACT = 1e-12

_ABOUT = replace(
    SharingADMM.about,
    name="splitting",
    summary="consensus and linear constraints, noise on the sum of the agents' duals",
    certificate="C18 or C19",
    noised="the sum of the agents' duals",
)


@dataclass(frozen=True, eq=False, kw_only=True)
class SplittingADMM(OwnCosts):
    """ADMM for own costs with a linear constraint; the inbox is z.

    b, c: of the constraint, (p, q) or (N, p, q), and (p,) or (N, p). gamma: step, > 0. lam: in (0, 1/2].
    """

    about: ClassVar[About] = _ABOUT

    b: Floats
    c: Floats
    gamma: float
    lam: float = 0.5

    def __post_init__(self) -> None:
        """Check the numbers; lam <= 1/2 is enforced."""
        checks.positive("gamma", self.gamma)
        relaxation_of(self.lam)

    @property
    def is_common(self) -> bool:
        """Whether all B_i are equal."""
        return self.b.ndim == 2

    def start(self, agents: Agents, replicas: int) -> tuple[OwnState, Floats]:
        """u = 0 and its z."""
        costs: Any = agents.functions
        state = self.own_start(agents, replicas)
        return state, self._z_step(agents.regulariser, agents.number, np.zeros((1, costs.dimension, replicas)), None)

    def _z_step(self, g: Regulariser, n: int, total: Floats, start: Floats | None) -> Floats:
        """Return argmin g(z) + (z'Qz + 2 z'm)/(2 gamma), of the sum of `u_i` or of `B_i'u_i`: all of it is public."""
        b, q = self.b, self.b.shape[-1]
        gram = n * b.T @ b if self.is_common else np.einsum("npi,npj->ij", b, b)
        pull = b.T @ total if self.is_common else total
        if type(g) is ElasticNet and g.l1 == 0:
            return np.linalg.solve(gram / self.gamma + g.l2 * np.eye(q), -pull / self.gamma)
        values = np.linalg.eigvalsh(gram) / self.gamma
        if values[-1] - values[0] <= _EXACT * values[-1]:
            return np.asarray(g.prox(-pull / (self.gamma * values[-1]), 1 / values[-1]))
        tolerance = 1e-9 * float(values[-1] * max(1.0, np.abs(total).max()))
        first = np.zeros((1, q, total.shape[2])) if start is None else start
        z = accelerated(
            lambda z: (gram @ z + pull) / self.gamma,
            lambda z: g.prox(z, 1 / values[-1]),
            first,
            float(values[-1]),
            float(values[0]),
            tolerance,
        )
        return check_solved(z, tolerance)

    def local_step(
        self, k: int, agents: Agents, state: OwnState, inbox: Floats, noise: NoiseHook
    ) -> tuple[OwnState, Floats]:
        """Every agent's x and u against the last z; the message is its part of the sum."""
        solver: Any = agents.solver
        moved = self.b @ inbox  # (1 or N, p, R)
        c = np.broadcast_to(self.c, (len(agents.index), moved.shape[1]))[:, :, None]
        pull = np.full(len(agents.index), 1 / self.gamma)
        x = solver.find(pull, c - 2 * moved - state.own, state.x, is_kept=self.region is not None)
        u = state.own + 2 * self.lam * (solver.costs.maps.add_up(x) + moved - c)
        u = project(self.region, u + moved) - moved
        total = state.total + x if k >= self.half else state.total
        return OwnState(u, x, total), u if self.is_common else np.swapaxes(self.b, 1, 2) @ u

    def exchange(
        self, k: int, problem: Problem, network: Network | None, inbox: Floats, messages: Floats, noise: NoiseHook
    ) -> Floats:
        """The noisy sum, then z: post-processing."""
        total = noise.total(BROADCAST, k, messages)
        return self._z_step(problem.regulariser, problem.n_agents, total, inbox)

    def estimate(self, state: OwnState, inbox: Floats) -> Floats:
        """z."""
        return inbox[0]


@dataclass(frozen=True, eq=False)
class GraphADMM(PADMM):
    """P-ADMM where one agent's cost is protected: its gradient moves by at most `distance` (C1)."""

    about: ClassVar[About] = replace(PADMM.about, name="p-admm-costs", units=frozenset({Unit.FUNCTION}))

    distance: float = 1.0
    projected_distance: float | None = None

    def mechanisms(self, setting: Setting) -> tuple[MechanismSpec, ...]:
        """One Gaussian release per agent and round."""

        def certificate(i: int) -> Any:
            return graph_gap(
                gradient_distance=self.distance,
                projected_distance=self.projected_distance,
                edge_penalty=self.eta,
                degree=int(setting.degrees[i]),
                strong_convexity=setting.problem.functions.constants.strong_convexity,
                solver_tolerance=setting.tolerance,
            )

        return (MechanismSpec(MESSAGE, Family.GAUSSIAN, setting.rows(certificate)),)
