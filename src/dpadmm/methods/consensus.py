"""Consensus ADMM through a coordinator, without noise (Consensus DP-ADMM paper, Algorithm 1).

z   <- prox_{g/(rho N)}( mean_i x_i + mean_i a_i / rho )
x_i <- argmin w_i f_i(x) + (rho/2) || x + a_i/rho - z ||^2
a_i <- a_i + rho (x_i - z)
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from dpadmm import checks
from dpadmm.methods.base import BROADCAST, About, Agents, Method, NoiseHook, Residuals, Topology
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import COORDINATOR
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem


class StarState(NamedTuple):
    """x: each agent's model. a: its dual variable."""

    x: Floats
    a: Floats


@dataclass(frozen=True)
class ConsensusADMM(Method):
    """Agents and a coordinator minimise `sum w_i f_i + g`; any regulariser with a prox.

    Parameters
    ----------
    rho: penalty to the consensus model z, > 0. The subproblem is `rho + w_i mu` strongly convex.

    Guarantees: converges for every rho > 0. No privacy: the messages carry no noise.

    The inbox is z; a round is: the agents' x and a steps, then the coordinator's z step, so the first z is the
    data-free prox of 0 and K rounds give z computed from the K-th models. (The paper counts the other way round: its K
    iterations end with x(K), the models that round K computes before its z step.)

    Reference: Boyd et al., "Distributed optimization and statistical learning via ADMM" (2011), section 7.1;
    Algorithm 1 of the Consensus DP-ADMM paper.
    """

    about: ClassVar[About] = About(
        name="consensus-admm", summary="consensus ADMM, not private", topology=Topology.STAR, is_federated=False
    )

    rho: float

    def __post_init__(self) -> None:
        """Refuse penalties that are not positive numbers."""
        checks.positive("rho", self.rho)

    def start(self, agents: Agents, replicas: int) -> tuple[StarState, Floats]:
        """x = a = 0 and z = prox(0)."""
        zero = np.zeros((len(agents.index), agents.dimension, replicas))
        z = agents.regulariser.prox(np.zeros((1, agents.dimension, replicas)), 1 / (self.rho * agents.number))
        return StarState(x=zero, a=zero.copy()), z

    def local_step(
        self, k: int, agents: Agents, state: StarState, inbox: Floats, noise: NoiseHook
    ) -> tuple[StarState, Floats]:
        """The x and a steps against the last broadcast z; the message is the agent's part of the mean that z needs."""
        centre = inbox - state.a / self.rho
        pull = np.full(len(agents.index), self.rho)
        x = agents.minimise(np.zeros_like(centre), centre, pull, start=state.x).point
        a = state.a + self.rho * (x - inbox)
        return StarState(x=x, a=a), (x + a / self.rho) / agents.number

    def exchange(
        self, k: int, problem: Problem, network: Network | None, inbox: Floats, messages: Floats, noise: NoiseHook
    ) -> Floats:
        """The z step of the coordinator."""
        mean = messages.sum(axis=0, keepdims=True)
        z = problem.regulariser.prox(mean, 1 / (self.rho * problem.n_agents))
        return noise.perturb(BROADCAST, k, np.array([COORDINATOR]), z)

    def models(self, state: StarState, inbox: Floats) -> Floats:
        """Each agent's model."""
        return state.x

    def residuals(self, agents: Agents, before: tuple[StarState, Floats], after: tuple[StarState, Floats]) -> Residuals:
        """Primal: largest distance of a model from z. Dual: rho times the movement of z."""
        return consensus_residuals(self.rho, after[0].x, before[1], after[1])


def consensus_residuals(rho: float, x: Floats, z_before: Floats, z: Floats) -> Residuals:
    """Return the largest distance of a model from z, and rho times the movement of z."""
    moved = rho * np.linalg.norm(z - z_before, axis=1)
    return Residuals(primal=np.linalg.norm(x - z, axis=1).max(axis=0), dual=moved.max(axis=0))
