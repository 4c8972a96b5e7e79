"""What the noisy gradient methods through a coordinator share.

    m_i <- w_i grad f_i(x) + noise          each silo, at the last broadcast x
    x   <- next(x, sum_i m_i)               the coordinator

The broadcast is a function of noisy messages only. One silo that holds all records is the central model; several
silos that each add noise are the federated one.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.errors import InputError
from dpadmm.methods.base import MESSAGE, Agents, Method, NoiseHook, Residuals
from dpadmm.networks.graph import Network
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem


class GradientState(NamedTuple):
    """x: the model each agent last heard."""

    x: Floats


class BroadcastMethod(Method):
    """What methods share whose agents hold nothing but the model that was broadcast; `step` is their first step."""

    step: float

    def update(self, k: int, agents: Agents, state: GradientState, inbox: Floats) -> GradientState:
        """Remember the model."""
        return GradientState(copy_to_agents(agents, inbox[:1]))

    def residuals(
        self, agents: Agents, before: tuple[GradientState, Floats], after: tuple[GradientState, Floats]
    ) -> Residuals:
        """Primal: zero, all agents hold the same model. Dual: the movement in units of the first step."""
        moved = np.linalg.norm(after[1][0] - before[1][0], axis=0) / self.step
        return Residuals(primal=np.zeros_like(moved), dual=moved)


@dataclass(frozen=True)
class GradientMethod(BroadcastMethod):
    """Steps `step k^(-power)` along noisy gradients; subclasses say how a gradient is taken and released.

    Parameters
    ----------
    step: first step size, > 0; without noise, constant steps converge below `2/(sum_i w_i L)`.
    power: 0 keeps the step constant, 1/2 and 1 are the usual decays; in [0, 1].
    """

    step: float
    power: float = 0.0

    def __post_init__(self) -> None:
        """Check both numbers."""
        checks.positive("step", self.step)
        check_power(self.power)

    def step_at(self, k: int) -> float:
        """Return the step size of round k."""
        return self.step * float(k) ** -self.power

    def start(self, agents: Agents, replicas: int) -> tuple[GradientState, Floats]:
        """x = prox(0)."""
        x = agents.regulariser.prox(np.zeros((1, agents.dimension, replicas)), self.step)
        return GradientState(copy_to_agents(agents, x)), x

    def local_step(
        self, k: int, agents: Agents, state: GradientState, inbox: Floats, noise: NoiseHook
    ) -> tuple[GradientState, Floats]:
        """The noisy gradient at the last broadcast."""
        raw, free = self.gradients(k, agents, copy_to_agents(agents, inbox))
        return state, noise.perturb(MESSAGE, k, agents.index, raw) + free

    def gradients(self, k: int, agents: Agents, x: Floats) -> tuple[Floats, Floats]:
        """Return the part of `w_i grad f_i(x)` that needs noise, and the part that touches no data."""
        raise InputError(f"{type(self).__name__} does not define how it computes a gradient.")

    def exchange(
        self, k: int, problem: Problem, network: Network | None, inbox: Floats, messages: Floats, noise: NoiseHook
    ) -> Floats:
        """A proximal step along the sum of the messages."""
        step = self.step_at(k)
        return problem.regulariser.prox(inbox - step * messages.sum(axis=0, keepdims=True), step)


def copy_to_agents(agents: Agents, x: Floats) -> Floats:
    """Return one model for every agent."""
    return np.repeat(x, len(agents.index), axis=0)


def check_power(power: float) -> None:
    """Refuse powers by which steps would grow, or shrink too fast to get anywhere."""
    if not 0 <= checks.finite("power", power) <= 1:
        raise InputError(f"power must lie between 0 and 1, got {safe_repr(power)}.")
