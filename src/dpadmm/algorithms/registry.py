"""The list of all methods, each of which describes itself (`about`); a line here adds a method (see `by_name`).

A package of its own adds methods by announcing them in its `pyproject.toml`:

    [project.entry-points."dpadmm.methods"]
    mine = "my_package.mine:Mine"
"""

from dpadmm.algorithms.consensus import ConsensusADMM
from dpadmm.algorithms.consensus_dp import ConsensusDPADMM, GaussianConsensusADMM
from dpadmm.algorithms.decentralised import DecentralisedADMM
from dpadmm.algorithms.dp_dgd import DPDGD
from dpadmm.algorithms.dp_gd import DPGD
from dpadmm.algorithms.dp_sgd import DPSGD, DPProxSGD
from dpadmm.algorithms.dvp import DVP
from dpadmm.algorithms.fixed_point import (
    CentralisedADMM,
    CoordinateDescent,
    CoordinatorADMM,
    FederatedADMM,
    GeneralADMM,
    LassoADMM,
    RandomWalkADMM,
)
from dpadmm.algorithms.linearised import LinearisedADMM
from dpadmm.algorithms.m_admm import MADMM
from dpadmm.algorithms.method import Method
from dpadmm.algorithms.noisy_gradients import NoisyGradients
from dpadmm.algorithms.output_perturbation import OutputPerturbation
from dpadmm.algorithms.p_admm import PADMM
from dpadmm.algorithms.ps_admm import PSADMM
from dpadmm.algorithms.r_admm import RADMM, BareRADMM
from dpadmm.algorithms.recycled import RecycledPADMM

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
    DPDGD,
    LinearisedADMM,
    OutputPerturbation,
)
