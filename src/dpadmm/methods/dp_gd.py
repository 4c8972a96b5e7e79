"""DP full-gradient descent: every silo adds noise to its whole gradient (spec C9).

m_i <- w_i grad f_i(x) + N(0, s_{i,k}^2 I)
x   <- prox_{step g}( x - step sum_i m_i )
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from dpadmm.methods.base import MESSAGE, ROWS, About, Agents, Setting, Topology
from dpadmm.methods.batches import whole_gradients
from dpadmm.methods.gradient_method import GradientMethod
from dpadmm.noise.mechanisms import Family, MechanismSpec
from dpadmm.privacy.certificates.gradients import full_gradient
from dpadmm.problems.arrays import Floats


@dataclass(frozen=True)
class DPGD(GradientMethod):
    """Proximal gradient descent on noisy full gradients.

    Parameters
    ----------
    step, power: see `GradientMethod`.

    Guarantees: C9. One record moves a silo's gradient by at most `2 G w_i/n_i`; record level, replace-one, against an
    eavesdropper who sees every message; Gaussian noise composes exactly (C0). Without noise the method converges
    linearly where the objective is strongly convex.
    """

    about: ClassVar[About] = About(
        name="dp-gd",
        summary="noisy full gradients",
        topology=Topology.STAR,
        certificate="C9",
        noised="a silo's gradient",
        units=ROWS,
        free=frozenset({"step", "power", "mu"}),
        takes_any_regulariser=True,
        longest_step=1.9,
        is_federated=False,
    )

    @classmethod
    def at_step(cls, setting: Setting, step: float) -> Self:
        """As long as is safe for every data set."""
        return cls(step=min(step, cls.about.longest_step / setting.problem.functions.constants.smoothness))

    def gradients(self, k: int, agents: Agents, x: Floats) -> tuple[Floats, Floats]:
        """The whole gradient needs noise; nothing is free."""
        return whole_gradients(agents, x), np.zeros(1)

    def mechanisms(self, setting: Setting) -> tuple[MechanismSpec, ...]:
        """One Gaussian release per silo and round."""
        rows = setting.rows(lambda i: full_gradient(setting.local_gradient(i)))
        return (MechanismSpec(MESSAGE, Family.GAUSSIAN, rows),)
