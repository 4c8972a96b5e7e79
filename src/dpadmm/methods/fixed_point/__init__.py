"""Noisy fixed-point iterations and the ADMM methods built on them (Cyffers, Bellet, Basu 2023), one file a setting."""

from dpadmm.methods.fixed_point.blocks import CentralisedADMM
from dpadmm.methods.fixed_point.coordinate_descent import CoordinateDescent
from dpadmm.methods.fixed_point.coordinator import CoordinatorADMM
from dpadmm.methods.fixed_point.federated import FederatedADMM
from dpadmm.methods.fixed_point.general import GeneralADMM
from dpadmm.methods.fixed_point.lasso import LassoADMM
from dpadmm.methods.fixed_point.participation import Participation
from dpadmm.methods.fixed_point.walk import RandomWalkADMM

__all__ = [
    "CentralisedADMM",
    "CoordinateDescent",
    "CoordinatorADMM",
    "FederatedADMM",
    "GeneralADMM",
    "LassoADMM",
    "Participation",
    "RandomWalkADMM",
]
