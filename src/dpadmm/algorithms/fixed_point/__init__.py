"""Noisy fixed-point iterations and the ADMM methods built on them (Cyffers, Bellet, Basu 2023), one file a setting."""

from dpadmm.algorithms.fixed_point.centralised import CentralisedADMM
from dpadmm.algorithms.fixed_point.coordinate_descent import CoordinateDescent
from dpadmm.algorithms.fixed_point.coordinator import CoordinatorADMM
from dpadmm.algorithms.fixed_point.federated import FederatedADMM
from dpadmm.algorithms.fixed_point.general import GeneralADMM
from dpadmm.algorithms.fixed_point.iteration import FixedPointIteration
from dpadmm.algorithms.fixed_point.lasso import LassoADMM
from dpadmm.algorithms.fixed_point.participation import Participation
from dpadmm.algorithms.fixed_point.walk import RandomWalkADMM

__all__ = [
    "CentralisedADMM",
    "CoordinateDescent",
    "CoordinatorADMM",
    "FederatedADMM",
    "FixedPointIteration",
    "GeneralADMM",
    "LassoADMM",
    "Participation",
    "RandomWalkADMM",
]
