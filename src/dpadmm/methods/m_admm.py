"""M-ADMM: noise inside growing penalties (Zhang, Khalili, Liu 2018, "Improving the privacy and accuracy of ADMM").

    x_i <- argmin w_i f_i(x) + a_i'x + eta_i(t) sum_{j in V_i} || x + e_i - (x_i + x_j)/2 ||^2,  e_i ~ exp(-alpha ||e||)
    a_i <- a_i + theta sum_{j in V_i} (x_i - x_j)

Expanding the square, e_i is the linear term `b_i = 2 eta_i(t) deg_i e_i` of DVP, whose rate is
`alpha/(2 eta_i(t) deg_i)`. The noise is planned and drawn for b_i, so that one certificate serves both.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.methods.base import About, Setting, Topology
from dpadmm.methods.decentralised import each
from dpadmm.methods.dvp import TiltedADMM, check_smoothing, tilted_broadcasts
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import Custom, Family, MechanismSpec
from dpadmm.privacy.certificates.objective import m_admm
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem


@dataclass(frozen=True)
class MADMM(TiltedADMM):
    """Each agent pulls harder towards its neighbours as rounds pass, so that the same noise moves it less and less.

    Parameters
    ----------
    eta: penalty on each edge, > 0; one for all agents or one for each.
    growth: q >= 1, one for all or one for each; `eta_i(t) = eta_i q_i^t` in round t = 1, 2, ...
    theta: penalty of the dual step, > 0 and at most every eta; the smallest eta if left out.
    smoothing: part of epsilon in [0, 1) spent on hiding the solver's error, as in `DVP`.

    Guarantees: C2 with the round's own penalty, pure epsilon, every round. Converges without noise for constant
    penalties; growing ones slow it down and in the end stop it, so keep `q^rounds` moderate.

    The schedule of a run shapes the noise of b_i. `noise_of_paper` gives the shape for which e_i has the same rate in
    every round, as in the paper.
    """

    about: ClassVar[About] = About(
        name="m-admm",
        summary="noise inside growing penalties",
        topology=Topology.GRAPH,
        certificate="C2",
        noise=(Family.OBJECTIVE,),
        noised="the model inside the penalty",
    )

    eta: float | tuple[float, ...]
    growth: float | tuple[float, ...] = 1.0
    theta: float | None = None
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        for eta in each(self.eta):
            checks.positive("eta", eta)
        for growth in each(self.growth):
            check_growth(growth)
        check_theta(self.theta, min(each(self.eta)))
        check_smoothing(self.smoothing)

    def penalties(self, t: int, n_agents: int) -> Floats:
        """Return eta_i(t) for all agents."""
        return np.broadcast_to(grow(np.array(each(self.eta)), np.array(each(self.growth)), t), (n_agents,))

    def check(self, problem: Problem, network: Network | None) -> None:
        """As for all graph methods; and one number per agent, where there is more than one."""
        super().check(problem, network)
        for name, given in (("eta", each(self.eta)), ("growth", each(self.growth))):
            if len(given) not in (1, problem.n_agents):
                raise InputError(f"{name} must be one number or {problem.n_agents}, one per agent; got {len(given)}.")

    def mechanisms(self, setting: Setting) -> tuple[MechanismSpec, ...]:
        """One objective perturbation per agent and round, each with its own penalty."""
        return tilted_broadcasts(setting, range(1, setting.rounds + 1), self.penalties, m_admm, self.smoothing)

    def noise_of_paper(self, rounds: int) -> Custom:
        """Return the schedule of b_i for which e_i has the same rate alpha_i in every round: b_i grows as eta_i(t).

        Agents must share one growth. Rates follow it exactly where the Jacobian is free or negligible.

        >>> MADMM(eta=0.5, growth=2.0).noise_of_paper(3)
        Custom(values=(1.0, 2.0, 4.0))
        """
        growths = list(set(each(self.growth)))
        if len(growths) != 1:
            raise InputError(f"A schedule is common to all agents, so they must share one growth; got {len(growths)}.")
        return Custom(tuple(float(growths[0]) ** t for t in range(checks.count("rounds", rounds))))


def check_growth(growth: float) -> None:
    """Refuse penalties that shrink."""
    if checks.finite("growth", growth) < 1:
        raise InputError(f"growth must be at least 1, got {growth!r}: penalties may not fall.")


def check_theta(theta: float | None, least_eta: float) -> None:
    """Refuse a dual penalty above the primal ones."""
    if theta is not None and checks.positive("theta", theta) > least_eta:
        raise InputError(f"theta must be at most the penalty eta = {least_eta:g}, got {theta!r}; lower theta.")


def grow(first: Floats, growth: Floats, t: int) -> Floats:
    """Return `first growth^t`; refuse what no longer is a penalty.

    >>> grow(np.array([1.0]), np.array([2.0, 3.0]), 2)
    array([4., 9.])
    """
    with np.errstate(over="ignore"):
        eta = np.asarray(first * growth**t, dtype=np.float64)
    if not np.isfinite(eta).all():
        raise InputError(f"The penalty of round {t} is too large for a float; use fewer rounds or a smaller growth.")
    return eta
