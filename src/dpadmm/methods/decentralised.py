"""Decentralised ADMM on a graph, without noise (P-ADMM paper, eqs. 8-11), and what all methods on a graph share.

x_i <- argmin w_i f_i(x) + g(x)/N + a_i'x + eta sum_{j in V_i} || x - (x_i + x_j)/2 ||^2          (10)
a_i <- a_i + eta sum_{j in V_i} (x_i - x_j)                                             (11)

Everyone broadcasts to its neighbours, every round. A graph method's state has at least the fields `x` (what the agent
last broadcast) and `a` (its dual variable); its inbox is the sum of the neighbours' broadcasts.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.methods.base import MESSAGE, About, Agents, Method, NoiseHook, Residuals, Setting, Topology, spread
from dpadmm.networks.graph import Network
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem
from dpadmm.problems.regularisers import ElasticNet, Regulariser


class GraphMethod(Method):
    """What all methods on a graph share, whatever their local step is."""

    def check(self, problem: Problem, network: Network | None) -> None:
        """The regulariser must be one that can be split among the agents."""
        check_ridge(self, problem, "Use ConsensusADMM.")

    def exchange(
        self, k: int, problem: Problem, network: Network | None, inbox: Floats, messages: Floats, noise: NoiseHook
    ) -> Floats:
        """Each agent hears the sum of its neighbours' messages."""
        return cast(Network, network).neighbour_sum(messages)

    def models(self, state: Any, inbox: Floats) -> Floats:
        """Each agent's last broadcast."""
        return state.x

    def estimate(self, state: Any, inbox: Floats) -> Floats:
        """The mean of the broadcasts."""
        return state.x.mean(axis=0)

    def residuals(self, agents: Agents, before: tuple[Any, Floats], after: tuple[Any, Floats]) -> Residuals:
        """Primal: distance from consensus. Dual: how far the penalty's centre still moves the gradient."""
        moved = self.dual_scale(agents)[:, None] * np.linalg.norm(after[0].x - before[0].x, axis=1)
        return Residuals(primal=spread(after[0].x), dual=moved.max(axis=0))

    def dual_scale(self, agents: Agents) -> Floats:
        """Return what turns a movement of x_i into one of the gradient: the weight of the penalty."""
        raise InputError(f"{type(self).__name__} does not define the weight of its penalty.")


class GraphState(NamedTuple):
    """x: what each agent last broadcast. a: its dual variable. guess: where its next solve starts (never sent)."""

    x: Floats
    a: Floats
    guess: Floats


class EdgePenaltyADMM(GraphMethod):
    """ADMM with a penalty on each edge: everybody minimises around its neighbours' models, then takes a dual step.

    eta: the penalty, of all agents or one for each. theta: of the dual step; the smallest eta if there is none.
    """

    eta: Any
    theta: float | None = None

    @property
    def dual_penalty(self) -> float:
        """The penalty theta of the dual step."""
        return self.theta if self.theta is not None else float(np.min(self.eta))

    def penalties(self, t: int, n_agents: int) -> Floats:
        """Return the penalties of all agents in round t."""
        return np.full(n_agents, self.eta)

    def dual_scale(self, agents: Agents) -> Floats:
        """The weight of the first penalty, 2 eta_i deg_i."""
        return 2.0 * self.penalties(0, agents.number)[agents.index] * degrees(agents)[:, 0, 0]

    @classmethod
    def at_step(cls, setting: Setting, step: float) -> Self:
        """The mean moves by `1/(2 eta sum_i deg_i)` times its gradient: edges cancel in the sum of all conditions."""
        return cls(eta=1.0 / (2.0 * step * float(setting.degrees.sum())))  # type: ignore[call-arg]

    def start(self, agents: Agents, replicas: int) -> tuple[Any, Floats]:
        """x = a = 0, and the neighbours' x are 0 too."""
        zero = zeros(agents, replicas)
        return GraphState(zero, zero, zero), zero

    def local_step(self, k: int, agents: Agents, state: Any, inbox: Floats, noise: NoiseHook) -> tuple[Any, Floats]:
        """What leaves, and what every later update reads, is the message."""
        x, message = self.solve_round(k, agents, state, inbox, noise)
        return GraphState(x=message, a=state.a, guess=x), message

    def solve_round(self, k: int, agents: Agents, state: Any, inbox: Floats, noise: NoiseHook) -> tuple[Floats, Floats]:
        """Return the minimiser of the round, and what may be broadcast of it."""
        x = penalised_minimiser(self.eta, agents, state.x, inbox, lin=state.a, start=state.guess)
        return x, noise.perturb(MESSAGE, k, agents.index, x)

    def update(self, k: int, agents: Agents, state: Any, inbox: Floats) -> Any:
        """The dual step, a_i + theta sum_{j in V_i} (x_i - x_j)."""
        return state._replace(a=state.a + self.dual_penalty * (degrees(agents) * state.x - inbox))


@dataclass(frozen=True)
class DecentralisedADMM(EdgePenaltyADMM):
    """Agents on a connected graph agree on the minimiser of `sum w_i f_i + g` by talking to neighbours only.

    Parameters
    ----------
    eta: penalty on each edge, > 0. The subproblem is `2 eta deg_i + w_i mu` strongly convex.

    Guarantees: converges for every eta > 0 and connected graph, linearly where the f_i are smooth and strongly
    convex. No privacy: the messages are the exact minimisers, without noise.

    Reference: Shi, Ling, Yuan, Wu, Yin, "On the linear convergence of the ADMM in decentralized consensus
    optimization" (2014); eqs. 8-11 of the P-ADMM paper.
    """

    about: ClassVar[About] = About(
        name="admm",
        summary="decentralised ADMM, not private",
        topology=Topology.GRAPH,
        takes_any_regulariser=True,
        is_federated=False,
    )

    eta: float

    def __post_init__(self) -> None:
        """Refuse penalties that are not positive numbers."""
        checks.positive("eta", self.eta)

    def check(self, problem: Problem, network: Network | None) -> None:
        """Every regulariser is accepted, where agents do nothing with it but minimise."""
        if not self.about.takes_any_regulariser:
            super().check(problem, network)


def is_ridge(regulariser: Regulariser, dimension: int) -> bool:
    """Say whether g = (m/2)||x||^2 for some m >= 0: of one curvature in all directions, with its minimum at 0."""
    if type(regulariser) is ElasticNet:
        return regulariser.l1 == 0
    origin = np.zeros((dimension, 1))
    is_round = regulariser.is_smooth and regulariser.smoothness == regulariser.strong_convexity
    return is_round and not regulariser.subgradient_residual(origin, origin).any()


def check_ridge(method: Method, problem: Problem, instead: str) -> None:
    """Refuse regularisers that agents cannot share: those with another gradient than `strong_convexity * x`."""
    if not is_ridge(problem.regulariser, problem.dimension):
        raise InputError(
            f"{type(method).__name__} needs a ridge regulariser or none, got {problem.regulariser}. {instead}"
        )


def each(value: float | tuple[float, ...]) -> tuple[float, ...]:
    """Return one number or several as a tuple; refuse none at all."""
    values = value if isinstance(value, tuple) else (value,)
    if not values:
        raise InputError("Give one number, or one per agent; got none.")
    return values


def zeros(agents: Agents, replicas: int) -> Floats:
    """Return zeros (agents here, d, R): every method starts there, whatever the data."""
    return np.zeros((len(agents.index), agents.dimension, replicas))


def degrees(agents: Agents) -> Floats:
    """Return the degrees as (agents, 1, 1)."""
    return agents.degrees.astype(np.float64)[:, None, None]


def penalised_minimiser(
    eta: float | Floats, agents: Agents, x: Floats, inbox: Floats, lin: Floats, start: Floats
) -> Floats:
    """Return argmin w_i f_i(y) + g(y)/N + lin'y + eta sum_{j in V_i} || y - (x_i + x_j)/2 ||^2 for all agents here.

    The sum over neighbours completes to one square of weight `2 eta deg_i` around the mean of the midpoints.
    `inbox` is `sum_j x_j`; eta is one number, or one per agent.
    """
    deg = degrees(agents)
    centre = (deg * x + inbox) / (2 * deg)
    pull = np.broadcast_to(2.0 * np.asarray(eta) * agents.degrees, agents.degrees.shape).astype(np.float64)
    if not is_ridge(agents.regulariser, agents.dimension):
        return agents.minimise_with_regulariser(lin, centre, pull, start)
    # The agent's share g/N of a ridge pulls to 0.
    total = pull + agents.regulariser.strong_convexity / agents.number
    return agents.minimise(lin, centre * (pull / total)[:, None, None], total, start).point


def revealed_gradient(
    eta: float | Floats, agents: Agents, a: Floats, x_new: Floats, x: Floats, inbox: Floats
) -> Floats:
    """Return `-( a_i + 2 eta deg_i x_i_new - eta sum_j (x_i + x_j) )`: the gradient that a broadcast reveals.

    By the optimality of `penalised_minimiser` this is grad (w_i f_i) plus any linear noise, at the broadcast point;
    x, a and inbox are those the step started from. Anyone who saw the broadcasts can compute it.
    """
    deg = degrees(agents)
    return -(a + 2 * eta * deg * x_new - eta * (deg * x + inbox))
