"""Recycled P-ADMM: every even round reuses what the last broadcast reveals anyway.

Odd rounds are P-ADMM's. The optimality condition of (13), read at the noisy broadcast, estimates the gradient,

    g_i = -( a_i + 2 eta deg_i xt_i - eta sum_j (xt_i_prev + xt_j_prev) ),

and the even round takes R-ADMM's even step with it:

    xt_i <- xt_i - ( g_i + a_i + eta sum_j (xt_i - xt_j) ) / (2 eta deg_i + gamma).

That is post-processing of broadcasts: no noise, no privacy, no pass over the data.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from dpadmm import checks
from dpadmm.methods.base import ROWS, About, Agents, NoiseHook, Setting, Topology
from dpadmm.methods.decentralised import EdgePenaltyADMM, degrees, revealed_gradient, zeros
from dpadmm.methods.p_admm import gaussian_broadcasts
from dpadmm.noise.mechanisms import MechanismSpec
from dpadmm.problems.arrays import Floats


class RecycledState(NamedTuple):
    """x, a, guess as in P-ADMM; g: the gradient read off the last odd round."""

    x: Floats
    a: Floats
    guess: Floats
    g: Floats


class RecyclingADMM(EdgePenaltyADMM):
    """Odd rounds broadcast a private minimiser; even ones take a step with the gradient that it reveals."""

    gamma: float

    def damping(self, t: int) -> float:
        """Return gamma of round t."""
        return self.gamma

    def start(self, agents: Agents, replicas: int) -> tuple[RecycledState, Floats]:
        """All zeros."""
        zero = zeros(agents, replicas)
        return RecycledState(zero, zero, zero, zero), zero

    def local_step(
        self, k: int, agents: Agents, state: RecycledState, inbox: Floats, noise: NoiseHook
    ) -> tuple[RecycledState, Floats]:
        """Odd: the private step, and read the gradient off what leaves. Even: a step with what was read."""
        eta = self.penalties(k, agents.number)[agents.index][:, None, None]
        if k % 2 == 1:
            x, message = self.solve_round(k, agents, state, inbox, noise)
            g = revealed_gradient(eta, agents, state.a, message, state.x, inbox)
            return RecycledState(x=message, a=state.a, guess=x, g=g), message
        deg = degrees(agents)
        push = state.g + state.a + eta * (deg * state.x - inbox)
        message = state.x - push / (2 * eta * deg + self.damping(k))
        return state._replace(x=message), message

    def update(self, k: int, agents: Agents, state: RecycledState, inbox: Floats) -> Any:
        """The dual step, after odd rounds only."""
        return state if k % 2 == 0 else super().update(k, agents, state, inbox)


@dataclass(frozen=True)
class RecycledPADMM(RecyclingADMM):
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

    def mechanisms(self, setting: Setting) -> tuple[MechanismSpec, ...]:
        """One Gaussian release per agent and odd round."""
        return (gaussian_broadcasts(self.eta, setting, range(1, setting.rounds + 1, 2)),)
