"""The list of all methods, each of which describes itself (`about`); a line here adds a method (see `by_name`).

A package of its own adds methods by announcing them in its `pyproject.toml`:

    [project.entry-points."dpadmm.methods"]
    mine = "my_package.mine:Mine"
"""

from dpadmm.methods.base import Method
from dpadmm.methods.consensus import ConsensusADMM
from dpadmm.methods.consensus_dp import ConsensusDPADMM, GaussianConsensusADMM
from dpadmm.methods.decentralised import DecentralisedADMM
from dpadmm.methods.dp_dgd import DPDGD
from dpadmm.methods.dp_gd import DPGD
from dpadmm.methods.dp_sgd import DPSGD, DPProxSGD
from dpadmm.methods.dvp import DVP
from dpadmm.methods.fixed_point import (
    CentralisedADMM,
    CoordinateDescent,
    CoordinatorADMM,
    FederatedADMM,
    GeneralADMM,
    LassoADMM,
    RandomWalkADMM,
)
from dpadmm.methods.linearised import LinearisedADMM
from dpadmm.methods.m_admm import MADMM
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.methods.output_perturbation import OutputPerturbation
from dpadmm.methods.p_admm import PADMM
from dpadmm.methods.preconditioned import PreconditionedGradients, PreconditionedSilos
from dpadmm.methods.ps_admm import PSADMM
from dpadmm.methods.r_admm import RADMM, BareRADMM
from dpadmm.methods.recycled import RecycledPADMM

METHODS: tuple[type[Method], ...] = (
    DecentralisedADMM,
    ConsensusADMM,
    PADMM,
    RecycledPADMM,
    DVP,
    MADMM,
    RADMM,
    BareRADMM,
    CentralisedADMM,
    FederatedADMM,
    RandomWalkADMM,
    CoordinatorADMM,
    GeneralADMM,
    LassoADMM,
    CoordinateDescent,
    ConsensusDPADMM,
    GaussianConsensusADMM,
    PSADMM,
    DPSGD,
    DPProxSGD,
    DPGD,
    NoisyGradients,
    PreconditionedGradients,
    PreconditionedSilos,
    DPDGD,
    LinearisedADMM,
    OutputPerturbation,
)
