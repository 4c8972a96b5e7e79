"""Decentralised ADMM on a graph, without noise (P-ADMM paper, eqs. 8-11).

x_i <- argmin w_i f_i(x) + a_i'x + eta sum_{j in V_i} || x - (x_i + x_j)/2 ||^2          (10)
a_i <- a_i + eta sum_{j in V_i} (x_i - x_j)                                             (11)
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from dpadmm import checks
from dpadmm.algorithms.anatomy import MESSAGE, Agents, NoiseHook
from dpadmm.algorithms.graph_method import GraphMethod, degrees, dual_step, penalised_minimiser, zeros
from dpadmm.algorithms.method import About, Topology
from dpadmm.problems.arrays import Floats


class GraphState(NamedTuple):
    """x: what each agent last broadcast. a: its dual variable. guess: where its next solve starts (never sent)."""

    x: Floats
    a: Floats
    guess: Floats


@dataclass(frozen=True)
class DecentralisedADMM(GraphMethod):
    """Agents on a connected graph agree on the minimiser of `sum w_i f_i + g` by talking to neighbours only.

    Parameters
    ----------
    eta: penalty on each edge, > 0. The subproblem is `2 eta deg_i + w_i mu` strongly convex.

    Guarantees: converges for every eta > 0 and connected graph, linearly where the f_i are smooth and strongly
    convex. No privacy: the messages are the bare minimisers.

    Reference: Shi, Ling, Yuan, Wu, Yin, "On the linear convergence of the ADMM in decentralized consensus
    optimization" (2014); eqs. 8-11 of the P-ADMM paper.
    """

    about: ClassVar[About] = About(
        name="admm", summary="decentralised ADMM, not private", topology=Topology.GRAPH, is_federated=False
    )

    eta: float

    def __post_init__(self) -> None:
        """Refuse penalties that are not positive numbers."""
        checks.positive("eta", self.eta)

    def start(self, agents: Agents, replicas: int) -> tuple[GraphState, Floats]:
        """x = a = 0, and the neighbours' x are 0 too."""
        return GraphState(*(zeros(agents, replicas) for _ in range(3))), zeros(agents, replicas)

    def local_step(
        self, k: int, agents: Agents, state: GraphState, inbox: Floats, noise: NoiseHook
    ) -> tuple[GraphState, Floats]:
        """Eq. 10. What leaves, and what every later update reads, is the message."""
        x = penalised_minimiser(self.eta, agents, state.x, inbox, lin=state.a, start=state.guess)
        message = noise.perturb(MESSAGE, k, agents.index, x)
        return GraphState(x=message, a=state.a, guess=x), message

    def update(self, k: int, agents: Agents, state: GraphState, inbox: Floats) -> GraphState:
        """Eq. 11: the dual step."""
        return state._replace(a=dual_step(self.eta, agents, state.a, state.x, inbox))

    def dual_scale(self, agents: Agents) -> Floats:
        """The penalty's weight, 2 eta deg_i."""
        return 2.0 * self.eta * degrees(agents)[:, 0, 0]
