"""Noisy gradients of the sum: one noise hides all silos, and the coordinator descends with momentum (spec C9, C12).

m_i <- w_i grad f_i(y)                                each silo, at the last broadcast y; read through the sum alone
v   <- sum_i m_i + N(0, s_k^2 I)                      at the coordinator, in masked shares, or in the only silo
x+  <- prox_{step g}( y - step v )
y+  <- x+ + momentum (x+ - x)
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.errors import InputError
from dpadmm.methods.base import BROADCAST, ROWS, About, Agents, NoiseHook, Setting, Topology
from dpadmm.methods.batches import whole_gradients
from dpadmm.methods.fixed_point.blocks import check_unit
from dpadmm.methods.gradient_method import BroadcastMethod, GradientState, copy_to_agents
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import COORDINATOR, Family, MechanismSpec
from dpadmm.privacy.certificates.gradients import gradient_sum
from dpadmm.privacy.protection import NeighbouringRelation, Unit
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem
from dpadmm.problems.regularisers import Regulariser


@dataclass(frozen=True)
class NoisyGradients(BroadcastMethod):
    """Accelerated proximal gradient descent on the noisy sum of the silos' gradients.

    Parameters
    ----------
    step: > 0; without noise it converges up to `1/(sum_i w_i L)`.
    momentum: part of the last movement that is repeated, in [0, 1); 0 is plain descent.
    unit: whom the noise is calibrated for: record (or person, if the setting protects persons) or user.

    Guarantees: C9, with C13 for softmax losses. A person moves the sum by at most `2 G w_i r/n_i` in each of their
    silos, which add up, and by half of that where records are added or removed and the n_i are nominal; Gaussian noise
    composes exactly (C0). Against
    the public where the coordinator adds the noise, against everybody where there is one silo, and with masks against
    coordinator, outsiders and colluding silos (C12).
    """

    about: ClassVar[About] = About(
        name="noisy-gradients",
        summary="gradient descent with momentum on noisy sums of gradients",
        topology=Topology.STAR,
        certificate="C9",
        noised="the sum of the silos' gradients",
        trusts_coordinator=True,
        is_sum=True,
        hides_alone=True,
        units=ROWS | {Unit.USER},
        relations=frozenset(NeighbouringRelation),
        takes_softmax=True,
        takes_any_regulariser=True,
        longest_step=1.0,
        free=frozenset({"step", "momentum", "mu", "smoothness"}),
        why="one noise vector on the sum of all gradients hides every record at once (C9)",
    )
    inbox_rows: ClassVar[int] = 2  # x and y

    step: float
    momentum: float = 0.9
    unit: Unit = Unit.RECORD

    def __post_init__(self) -> None:
        """Check the numbers."""
        checks.positive("step", self.step)
        check_unit(self.unit)
        if not 0 <= checks.finite("momentum", self.momentum) < 1:
            raise InputError(f"momentum must be at least 0 and below 1, got {safe_repr(self.momentum)}.")

    @classmethod
    def at_step(cls, setting: Setting, step: float) -> Self:
        """As long as is safe for every data set."""
        longest = cls.about.longest_step / setting.problem.functions.constants.smoothness
        return cls(step=min(step, longest), unit=setting.protection.unit)

    def first_averaged_round(self, rounds: int) -> int:
        """Momentum settles early: the mean of the last 70 % of the models is released."""
        return 3 * rounds // 10 + 1

    def start(self, agents: Agents, replicas: int) -> tuple[GradientState, Floats]:
        """x = y = prox(0)."""
        inbox = self.origin(agents.regulariser, agents.dimension, replicas)
        return GradientState(copy_to_agents(agents, inbox[:1])), inbox

    def origin(self, penalty: Regulariser, dimension: int, replicas: int) -> Floats:
        """Return x and y before the first round; no data."""
        x = penalty.prox(np.zeros((1, dimension, replicas)), self.step)
        return np.concatenate([x, x])

    def local_step(
        self, k: int, agents: Agents, state: GradientState, inbox: Floats, noise: NoiseHook
    ) -> tuple[GradientState, Floats]:
        """The gradient at y; bare, since only the sum of all is read."""
        return state, whole_gradients(agents, copy_to_agents(agents, inbox[1:]))

    def exchange(
        self, k: int, problem: Problem, network: Network | None, inbox: Floats, messages: Floats, noise: NoiseHook
    ) -> Floats:
        """A proximal step from y along the noisy sum, and on by a part of the movement."""
        return self.descend(problem.regulariser, inbox, noise.total(BROADCAST, k, messages))

    def descend(self, penalty: Regulariser, inbox: Floats, noisy: Floats) -> Floats:
        """Return the next x and y, from the noisy sum alone."""
        x, y = inbox[:1], inbox[1:]
        after = penalty.prox(y - self.step * noisy, self.step)
        return np.concatenate([after, after + self.momentum * (after - x)])

    def mechanisms(self, setting: Setting) -> tuple[MechanismSpec, ...]:
        """The noisy sum, once a round."""
        certificate = gradient_sum(setting.local_gradients(), unit=self.unit)
        return (MechanismSpec(BROADCAST, Family.GAUSSIAN, (setting.row(COORDINATOR, certificate),)),)
