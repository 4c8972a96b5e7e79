"""Decentralised ADMM on a graph, without noise (P-ADMM paper, eqs. 8-11).

x_i <- argmin w_i f_i(x) + a_i'x + eta sum_{j in V_i} || x - (x_i + x_j)/2 ||^2
a_i <- a_i + eta sum_{j in V_i} (x_i - x_j)
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpadmm import checks
from dpadmm.algorithms.anatomy import Agents, NoiseHook, Residuals, spread
from dpadmm.errors import InputError
from dpadmm.networks.graph import Network
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.problems.problem import Problem


class GraphState(NamedTuple):
    """x: what each agent last broadcast. a: its dual variable."""

    x: Floats
    a: Floats


@dataclass(frozen=True)
class DecentralisedADMM:
    """Agents on a connected graph agree on the minimiser of `sum w_i f_i + g` by talking to neighbours only.

    Parameters
    ----------
    eta: penalty on each edge, > 0. The subproblem is `2 eta deg_i + w_i mu` strongly convex.

    Guarantees: converges for every eta > 0 and connected graph, linearly where the f_i are smooth and strongly
    convex. No privacy: the messages are the bare minimisers.

    Reference: Shi, Ling, Yuan, Wu, Yin, "On the linear convergence of the ADMM in decentralized consensus
    optimization" (2014); eqs. 8-11 of the P-ADMM paper.
    """

    eta: float

    def __post_init__(self) -> None:
        """Refuse penalties that are not positive numbers."""
        checks.positive("eta", self.eta)

    @property
    def needs_network(self) -> bool:
        """Messages go to neighbours."""
        return True

    def check(self, problem: Problem, network: Network | None) -> None:
        """A graph is needed, and a regulariser that can be shared out among the agents."""
        if network is None:
            raise InputError("Decentralised ADMM needs a network; pass one, for example ring(n_agents).")
        if not problem.regulariser.is_smooth:
            raise InputError(
                f"Decentralised ADMM cannot share out {type(problem.regulariser).__name__}: each agent's subproblem "
                "must be smooth. Use ConsensusADMM, or a ridge regulariser."
            )

    def start(self, agents: Agents, replicas: int) -> tuple[GraphState, Floats]:
        """x = a = 0, and the neighbours' x are 0 too."""
        zero = np.zeros((len(agents.index), agents.dimension, replicas))
        return GraphState(x=zero, a=zero.copy()), zero.copy()

    def participants(self, k: int) -> Ints | None:
        """Everyone, every round."""
        return None

    def local_step(
        self, k: int, agents: Agents, state: GraphState, inbox: Floats, noise: NoiseHook
    ) -> tuple[GraphState, Floats]:
        """Eq. 10: the sum over neighbours completes to one square around the mean of the midpoints."""
        deg = agents.degrees[:, None, None]
        centre = (deg * state.x + inbox) / (2 * deg)
        pull = 2.0 * self.eta * agents.degrees.astype(np.float64)
        x = agents.minimise_with_share(state.a, centre, pull, start=state.x).point
        message = noise.perturb("message", k, agents.index, x)
        return GraphState(x=message, a=state.a), message

    def exchange(
        self, k: int, problem: Problem, network: Network | None, inbox: Floats, messages: Floats, noise: NoiseHook
    ) -> Floats:
        """Each agent hears the sum of its neighbours' messages."""
        if network is None:
            raise InputError("Decentralised ADMM needs a network; pass one, for example ring(n_agents).")
        return network.neighbour_sum(messages)

    def update(self, k: int, agents: Agents, state: GraphState, inbox: Floats) -> GraphState:
        """Eq. 11: the dual step."""
        deg = agents.degrees[:, None, None]
        return GraphState(x=state.x, a=state.a + self.eta * (deg * state.x - inbox))

    def models(self, state: GraphState, inbox: Floats) -> Floats:
        """Each agent's last broadcast."""
        return state.x

    def estimate(self, state: GraphState, inbox: Floats) -> Floats:
        """The mean of the broadcasts."""
        return state.x.mean(axis=0)

    def residuals(
        self, agents: Agents, before: tuple[GraphState, Floats], after: tuple[GraphState, Floats]
    ) -> Residuals:
        """Primal: distance from consensus. Dual: how far the penalty's centre still moves the gradient."""
        moved = 2 * self.eta * agents.degrees[:, None] * np.linalg.norm(after[0].x - before[0].x, axis=1)
        return Residuals(primal=spread(after[0].x), dual=moved.max(axis=0))
