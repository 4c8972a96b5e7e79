"""Every method under one name; the command line and the docs read this table."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from dpadmm.algorithms.consensus import ConsensusADMM
from dpadmm.algorithms.consensus_dp import ConsensusDPADMM
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
from dpadmm.algorithms.output_perturbation import OutputPerturbation
from dpadmm.algorithms.p_admm import PADMM
from dpadmm.algorithms.ps_admm import PSADMM
from dpadmm.algorithms.r_admm import RADMM, BareRADMM
from dpadmm.algorithms.recycled import RecycledPADMM
from dpadmm.noise.promises import Family


class Topology(Enum):
    """Who talks to whom."""

    GRAPH = "graph of peers"
    STAR = "coordinator"
    WALK = "walking token"
    ALONE = "each silo once"


@dataclass(frozen=True)
class Entry:
    """One method: its name at the edges, how to build it, who talks to whom, what protects it, one line on it."""

    name: str
    build: Callable[..., Any]
    topology: Topology
    certificate: str
    summary: str


ENTRIES: tuple[Entry, ...] = (
    Entry("admm", DecentralisedADMM, Topology.GRAPH, "none", "decentralised ADMM, not private"),
    Entry("consensus-admm", ConsensusADMM, Topology.STAR, "none", "consensus ADMM, not private"),
    Entry("p-admm", PADMM, Topology.GRAPH, "C1", "Gaussian noise on every broadcast"),
    Entry("p-admm-recycled", RecycledPADMM, Topology.GRAPH, "C1", "P-ADMM with a free step after every private one"),
    Entry("dvp", DVP, Topology.GRAPH, "C2", "a random linear term in every local objective"),
    Entry("m-admm", MADMM, Topology.GRAPH, "C2", "noise inside penalties that grow"),
    Entry("r-admm", RADMM, Topology.GRAPH, "C2", "as dvp, but every even iteration recycles what is known"),
    Entry("r-admm-bare", BareRADMM, Topology.GRAPH, "none", "recycled ADMM, not private"),
    Entry("fp-centralised", CentralisedADMM, Topology.STAR, "C5", "fixed-point ADMM at a curator, noise in the blocks"),
    Entry("fp-federated", FederatedADMM, Topology.STAR, "C5", "fixed-point ADMM with sampled users and a server"),
    Entry("fp-walk", RandomWalkADMM, Topology.WALK, "C5", "fixed-point ADMM by a token that walks from user to user"),
    Entry("fp-coordinator", CoordinatorADMM, Topology.STAR, "C6", "fixed-point ADMM, noise at the coordinator only"),
    Entry("fp-general", GeneralADMM, Topology.STAR, "C9", "fixed-point ADMM for Ax + Bz = c, one silo"),
    Entry("fp-lasso", LassoADMM, Topology.STAR, "C5", "fixed-point ADMM for the LASSO, with clipping"),
    Entry("dp-cd", CoordinateDescent, Topology.STAR, "C9", "private coordinate descent"),
    Entry("consensus", ConsensusDPADMM, Topology.STAR, "C3", "spherical Laplace noise on the coordinator's broadcast"),
    Entry(
        "consensus-gaussian",
        partial(ConsensusDPADMM, family=Family.GAUSSIAN),
        Topology.STAR,
        "C3",
        "Gaussian noise on the coordinator's broadcast",
    ),
    Entry("ps-admm", PSADMM, Topology.STAR, "C4", "stochastic ADMM, noise in its variance-reduced inner steps"),
    Entry("dp-sgd", DPSGD, Topology.STAR, "C9", "noisy batch gradients; one silo is the central model"),
    Entry("dp-prox-sgd", DPProxSGD, Topology.STAR, "C9", "as dp-sgd, with a proximal step for any regulariser"),
    Entry("dp-gd", DPGD, Topology.STAR, "C9", "noisy full gradients"),
    Entry("dp-dgd", DPDGD, Topology.GRAPH, "C9", "decentralised gradient steps and noise that both shrink"),
    Entry("linearised-admm", LinearisedADMM, Topology.STAR, "C9", "one gradient step in place of the local solve"),
    Entry("output-perturbation", OutputPerturbation, Topology.ALONE, "C9", "each silo's noisy optimum, averaged"),
)

BY_NAME: dict[str, Entry] = {entry.name: entry for entry in ENTRIES}
