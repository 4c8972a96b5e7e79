"""The list of all methods, each of which describes itself (`about`); a line here adds a method.

A package of its own adds methods by announcing them in its `pyproject.toml`:

    [project.entry-points."dpadmm.methods"]
    mine = "my_package.mine:Mine"
"""

from functools import lru_cache
from importlib.metadata import entry_points

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
from dpadmm.algorithms.output_perturbation import OutputPerturbation
from dpadmm.algorithms.p_admm import PADMM
from dpadmm.algorithms.ps_admm import PSADMM
from dpadmm.algorithms.r_admm import RADMM, BareRADMM
from dpadmm.algorithms.recycled import RecycledPADMM
from dpadmm.errors import InputError

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
    DPDGD,
    LinearisedADMM,
    OutputPerturbation,
)


@lru_cache(maxsize=1)
def by_name() -> dict[str, type[Method]]:
    """Return all methods by name, those of this package first."""
    found: dict[str, type[Method]] = {}
    for method in (*METHODS, *(point.load() for point in entry_points(group="dpadmm.methods"))):
        if not issubclass(method, Method) or not hasattr(method, "about"):
            raise InputError(f"{method.__name__} is no method: it must inherit from Method and have an `about`.")
        if method.about.name in found:
            raise InputError(f"Two methods are called {method.about.name!r}; rename one.")
        found[method.about.name] = method
    return found


def federated() -> dict[str, type[Method]]:
    """Return the methods that silos can run by themselves."""
    return {name: method for name, method in by_name().items() if method.about.is_private and method.about.is_federated}


def plannable() -> dict[str, type[Method]]:
    """Return the methods that can be planned; the others need choices that no public fact settles."""
    return {name: method for name, method in sorted(by_name().items()) if method.is_plannable()}
