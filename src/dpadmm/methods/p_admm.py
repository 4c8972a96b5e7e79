"""P-ADMM: decentralised ADMM with Gaussian noise on what is broadcast (Ding et al. 2019, Algorithm 1).

    x_i  <- argmin w_i f_i(x) + g(x)/N + a_i'x + eta sum_{j in V_i} || x - (xt_i + xt_j)/2 ||^2          (13)
    xt_i <- x_i + N(0, s_{i,k}^2 I)
    a_i  <- a_i + eta sum_{j in V_i} (xt_i - xt_j)                                             (14)

Every update, the agent's own included, reads only the broadcasts `xt`: read literally, the paper's eq. (10) keeps the
agent's own noise-free model, a hidden state that doubles the sensitivity. (The noise-free minimiser only serves as
the place where the next solve starts, which its tolerance covers: C7.)
"""

from dataclasses import dataclass
from typing import ClassVar

from dpadmm.methods.base import MESSAGE, ROWS, About, Setting, Topology
from dpadmm.methods.decentralised import DecentralisedADMM
from dpadmm.noise.mechanisms import Family, MechanismSpec
from dpadmm.privacy.certificates.local import p_admm
from dpadmm.privacy.protection import Certificate


@dataclass(frozen=True)
class PADMM(DecentralisedADMM):
    """Agents on a graph broadcast noisy models; whoever listens to everything learns little about any record.

    Parameters
    ----------
    eta: penalty on each edge, > 0.

    Guarantees: C1, for every convex g. One record moves a broadcast by at most `2 G w_i / (n_i (2 eta deg_i + w_i mu))`
    (g's own strong convexity m adds m/N to what it is divided by); record level,
    replace-one, against an eavesdropper who sees every message; Gaussian noise composes exactly (C0).

    Reference: Ding, Gong, Zhang, Pan, Han, "Optimal differentially private ADMM for distributed machine learning".
    """

    about: ClassVar[About] = About(
        name="p-admm",
        takes_softmax=True,
        summary="Gaussian noise on every broadcast",
        topology=Topology.GRAPH,
        certificate="C1",
        noised="the broadcast model",
        units=ROWS,
        takes_any_regulariser=True,
        why="silos are peers: each sends a noisy model to its neighbours, and nobody has to be trusted (C1)",
    )

    def mechanisms(self, setting: Setting) -> tuple[MechanismSpec, ...]:
        """One Gaussian release per agent and round."""
        return (gaussian_broadcasts(self.eta, setting, range(1, setting.rounds + 1)),)


def gaussian_broadcasts(eta: float, setting: Setting, rounds: range) -> MechanismSpec:
    """Return the mechanism that every agent's minimiser leaves with Gaussian noise in these rounds (C1)."""

    def certificate(i: int) -> Certificate:
        return p_admm(setting.local(i), edge_penalty=eta, degree=int(setting.degrees[i]))

    return MechanismSpec(MESSAGE, Family.GAUSSIAN, setting.rows(certificate, rounds))
