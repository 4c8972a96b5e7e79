"""Recycled P-ADMM: every even round reuses what the last broadcast reveals anyway.

Odd rounds are P-ADMM's. The optimality condition of (13), read at the noisy broadcast, estimates the gradient,

    g_i = -( a_i + 2 eta deg_i xt_i - eta sum_j (xt_i_prev + xt_j_prev) ),

and the even round takes R-ADMM's even step with it:

    xt_i <- xt_i - ( g_i + a_i + eta sum_j (xt_i - xt_j) ) / (2 eta deg_i + gamma).

That is post-processing of broadcasts: no noise, no privacy, no pass over the data.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

from dpadmm import checks
from dpadmm.methods.anatomy import MESSAGE, Agents, NoiseHook
from dpadmm.methods.decentralised import (
    GraphMethod,
    degrees,
    dual_step,
    edge_penalty,
    penalised_minimiser,
    revealed_gradient,
    zeros,
)
from dpadmm.methods.method import ROWS, About, Setting, Topology
from dpadmm.methods.p_admm import gaussian_broadcasts
from dpadmm.noise.promises import Promise
from dpadmm.problems.arrays import Floats


class RecycledState(NamedTuple):
    """x, a, guess as in P-ADMM; g: the gradient read off the last odd round."""

    x: Floats
    a: Floats
    guess: Floats
    g: Floats


@dataclass(frozen=True)
class RecycledPADMM(GraphMethod):
    """P-ADMM with a free step after every private one.

    Parameters
    ----------
    eta: penalty on each edge, > 0. gamma: damping of the recycled step, >= 0.

    Guarantees: C1 for the odd rounds; the even rounds are functions of earlier broadcasts and cost nothing.
    """

    about: ClassVar[About] = About(
        name="p-admm-recycled",
        summary="P-ADMM with a free step after every private one",
        topology=Topology.GRAPH,
        certificate="C1",
        noised="the broadcast model",
        units=ROWS,
        free=frozenset({"gamma"}),
    )

    eta: float
    gamma: float = 0.0

    def __post_init__(self) -> None:
        """Check both numbers."""
        checks.positive("eta", self.eta)
        checks.non_negative("gamma", self.gamma)

    def start(self, agents: Agents, replicas: int) -> tuple[RecycledState, Floats]:
        """All zeros."""
        return RecycledState(*(zeros(agents, replicas) for _ in range(4))), zeros(agents, replicas)

    def local_step(
        self, k: int, agents: Agents, state: RecycledState, inbox: Floats, noise: NoiseHook
    ) -> tuple[RecycledState, Floats]:
        """Odd: a P-ADMM round, and read the gradient off it. Even: a step with what was read."""
        if k % 2 == 1:
            x = penalised_minimiser(self.eta, agents, state.x, inbox, lin=state.a, start=state.guess)
            message = noise.perturb(MESSAGE, k, agents.index, x)
            g = revealed_gradient(self.eta, agents, state.a, message, state.x, inbox)
            return RecycledState(x=message, a=state.a, guess=x, g=g), message
        deg = degrees(agents)
        push = state.g + state.a + self.eta * (deg * state.x - inbox)
        x = state.x - push / (2 * self.eta * deg + self.gamma)
        return state._replace(x=x), x

    def update(self, k: int, agents: Agents, state: RecycledState, inbox: Floats) -> RecycledState:
        """The dual step, after odd rounds only."""
        if k % 2 == 0:
            return state
        return state._replace(a=dual_step(self.eta, agents, state.a, state.x, inbox))

    def dual_scale(self, agents: Agents) -> Floats:
        """The penalty's weight, 2 eta deg_i."""
        return 2.0 * self.eta * degrees(agents)[:, 0, 0]

    @classmethod
    def at_step(cls, setting: Setting, step: float) -> Self:
        """The mean model moves by `1/(2 eta sum_i deg_i)` times its gradient."""
        return cls(eta=edge_penalty(setting, step))

    def promises(self, setting: Setting) -> tuple[Promise, ...]:
        """One Gaussian release per agent and odd round."""
        return (gaussian_broadcasts(self.eta, setting, range(1, setting.rounds + 1, 2)),)
