"""R-ADMM: every even iteration recycles what the odd one before it has revealed (Zhang, Khalili, Liu 2018).

Odd t (touches the data; b_i = 0 in the non-private form):

    x_i <- argmin w_i f_i(x) + (a_i + b_i)'x + eta(t) sum_{j in V_i} || x - (x_i + x_j)/2 ||^2       (12), (28)
    g_i  = -( a_i + 2 eta(t) deg_i x_i - eta(t) sum_j (x_i_prev + x_j_prev) )                        (15), (47)
    a_i <- a_i + theta sum_{j in V_i} (x_i - x_j)                                                    (13)

Even t (no data, no noise, dual unchanged):

    x_i <- x_i - ( g_i + a_i + eta(t) sum_{j in V_i} (x_i - x_j) ) / (2 eta(t) deg_i + gamma(t))     (10), (29)

g_i is `grad f_i(x_i) + b_i` by the optimality of the odd step. The paper takes it from memory, which would leak the
solver's residue; here it is computed from broadcasts, so the even iterations are post-processing to the last bit.
a_i is the paper's `2 lambda_i`.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpadmm import checks
from dpadmm.methods.base import About, Setting, Topology
from dpadmm.methods.dvp import TiltedADMM, check_smoothing, tilted_broadcasts
from dpadmm.methods.m_admm import check_growth, check_theta, grow
from dpadmm.methods.recycled import RecyclingADMM
from dpadmm.noise.mechanisms import Family, MechanismSpec
from dpadmm.privacy.certificates.objective import r_admm
from dpadmm.problems.arrays import Floats


@dataclass(frozen=True)
class BareRADMM(TiltedADMM, RecyclingADMM):
    """Recycled ADMM without privacy (Algorithm 1): half of the iterations need no pass over the data.

    Parameters
    ----------
    eta: penalty on each edge, > 0. gamma: damping of the even step, >= 0; both on the scale of the weighted f_i.
    growth: q >= 1; `eta(t) = eta q^t`, `gamma(t) = gamma q^t` in iteration t = 1, 2, ... (Fig. 3: q = 1.01).
    theta: penalty of the dual step, > 0 and at most eta; eta if left out.

    Guarantees: none about privacy. Converges if eqs. (24)-(25) hold (`papers.r_admm.theory`), and in practice far
    beyond them; ever growing penalties slow it down and in the end stop it, so keep `q^rounds` moderate.
    """

    about: ClassVar[About] = About(
        name="r-admm-bare", summary="recycled ADMM, not private", topology=Topology.GRAPH, is_federated=False
    )

    eta: float
    gamma: float = 0.0
    growth: float = 1.0
    theta: float | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        checks.positive("eta", self.eta)
        checks.non_negative("gamma", self.gamma)
        check_growth(self.growth)
        check_theta(self.theta, self.eta)

    def penalty(self, t: int) -> float:
        """Return eta(t)."""
        return float(grow(np.array(self.eta), np.array(self.growth), t))

    def penalties(self, t: int, n_agents: int) -> Floats:
        """Return eta(t) for all agents."""
        return np.full(n_agents, self.penalty(t))

    def damping(self, t: int) -> float:
        """Return gamma(t)."""
        return float(grow(np.array(self.gamma), np.array(self.growth), t))


@dataclass(frozen=True)
class RADMM(BareRADMM):
    """Recycled ADMM with a random linear term in the odd objectives (Algorithm 2).

    Parameters
    ----------
    eta, gamma, growth, theta: as in `BareRADMM`.
    smoothing: part of epsilon in [0, 1) spent on hiding the solver's error, as in `DVP`.

    Guarantees: C2 for the odd iterations, pure epsilon; the even ones are functions of earlier broadcasts and cost
    nothing.

    Reference: Zhang, Khalili, Liu, "Recycled ADMM: improve privacy and accuracy with less computation in distributed
    algorithms" (2018).
    """

    about: ClassVar[About] = About(
        name="r-admm",
        summary="like dvp, but every even iteration reuses earlier messages",
        topology=Topology.GRAPH,
        certificate="C2",
        noise=(Family.OBJECTIVE,),
        noised="the objective, as a linear term",
        free=frozenset({"gamma"}),
    )

    smoothing: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        super().__post_init__()
        check_smoothing(self.smoothing)

    def mechanisms(self, setting: Setting) -> tuple[MechanismSpec, ...]:
        """One objective perturbation per agent and odd iteration."""
        return tilted_broadcasts(setting, range(1, setting.rounds + 1, 2), self.penalties, r_admm, self.smoothing)
