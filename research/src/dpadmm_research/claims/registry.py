"""Whose paper claims what about which method: read off the algorithm and the public facts of its setting.

A paper's figures are shown beside the certified one, never mixed with it.
"""

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from numpy.typing import ArrayLike

from dpadmm.errors import InputError
from dpadmm.methods.base import Setting
from dpadmm.methods.consensus_dp import ConsensusDPADMM
from dpadmm.methods.dvp import DVP
from dpadmm.methods.fixed_point import CentralisedADMM, FederatedADMM, GeneralADMM, RandomWalkADMM
from dpadmm.methods.m_admm import MADMM
from dpadmm.methods.p_admm import PADMM
from dpadmm.methods.ps_admm import PSADMM
from dpadmm.methods.r_admm import RADMM
from dpadmm.methods.recycled import RecycledPADMM
from dpadmm.privacy.protection import Unit
from dpadmm_research.accounting.one_agent import AnyTarget, OneAgent, approximate
from dpadmm_research.claims.agent_claims import Claims
from dpadmm_research.claims.base import ClaimedEpsilon, ClaimedSchedule, ClaimedSensitivity
from dpadmm_research.papers.consensus.agent import coordinator_claims
from dpadmm_research.papers.fixed_point.agent import (
    centralised_claims,
    federated_claims_of,
    general_claims,
    walk_claims,
)
from dpadmm_research.papers.p_admm.agent import broadcast_claims
from dpadmm_research.papers.ps_admm.agent import inner_step_claims
from dpadmm_research.papers.r_admm.agent import dual_claims, penalty_claims, recycled_claims

NO_PAPER = "no paper studied here claims a figure for this method and unit"
OUT_OF_RANGE = "its formula exceeds the range of floating-point numbers here"

PRINTED_ONLY: dict[type, tuple[str, ...]] = {
    PADMM: ("whole_gradient_bound",),
    RecycledPADMM: ("whole_gradient_bound",),
    ConsensusDPADMM: ("l1_weight", "dimension"),
}
"""Numbers of a paper's claim that no certificate uses, and which a user may therefore tell."""


@singledispatch
def claims_of(algorithm: Any, setting: Setting) -> Claims | None:
    """Return what the method's paper claims for agent 0; None without a paper, or where it says nothing."""
    return None


claims_of.register(PADMM, broadcast_claims)
claims_of.register(RecycledPADMM, broadcast_claims)
claims_of.register(DVP, dual_claims)
claims_of.register(RADMM, recycled_claims)
claims_of.register(MADMM, penalty_claims)
claims_of.register(ConsensusDPADMM, coordinator_claims)
claims_of.register(PSADMM, inner_step_claims)
claims_of.register(CentralisedADMM, centralised_claims)
claims_of.register(FederatedADMM, federated_claims_of)
claims_of.register(RandomWalkADMM, walk_claims)
claims_of.register(GeneralADMM, general_claims)


@dataclass(frozen=True)
class ClaimedAgent:
    """An agent, and what its method's paper says about it (None if it says nothing)."""

    agent: OneAgent
    claims: Claims | None

    def epsilon(self, noise: ArrayLike, delta: float) -> tuple[ClaimedEpsilon, ...]:
        """Return what the paper claims at this noise, first the figure it calibrates by; () without a paper."""
        return () if self.claims is None else self.claims.epsilon(self.agent.levels(noise), delta)

    def sensitivity(self) -> ClaimedSensitivity | None:
        """Return the sensitivity the paper prints, None if it prints none."""
        return None if self.claims is None else self.claims.sensitivity()

    def noise(self, target: AnyTarget, shape: ArrayLike = 1.0) -> ClaimedSchedule:
        """Return the noise the paper asks for; *claimed*, to be used only when asked for by name."""
        if self.claims is None:
            raise InputError(
                f"{self.agent.algorithm.about.name} has no claimed calibration here: {self._unclaimed}. Calibrate by "
                "its certificate instead."
            )
        delta = 0.0 if self.agent.family.is_pure else approximate(target).delta
        return self.claims.noise(target.epsilon, delta, self.agent.levels(shape))

    @property
    def _unclaimed(self) -> str:
        about, is_record = self.agent.algorithm.about, self.agent.certificates[0].protection.unit is Unit.RECORD
        if about.is_pure and not self.agent.family.is_pure:
            return "the paper claims nothing about Gaussian noise"
        return "the paper claims nothing about single records" if is_record and Unit.USER in about.units else NO_PAPER
