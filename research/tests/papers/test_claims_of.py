"""The numbers of a paper's claim are read off the agent it is about: weights, sizes and gradients by hand."""

import numpy as np
import pytest

from dpadmm.methods.base import Setting
from dpadmm.methods.consensus_dp import RECORDS, ConsensusDPADMM, FunctionsDiffer
from dpadmm.methods.fixed_point import CentralisedADMM, GeneralADMM
from dpadmm.methods.fixed_point.general import Constraint
from dpadmm.privacy.protection import Unit
from dpadmm.problems.losses import Constants
from dpadmm.problems.problem import Problem, PublicFunctions
from dpadmm.problems.regularisers import ElasticNet
from dpadmm_research.claims.registry import claims_of
from dpadmm_research.papers.fixed_point.agent import block_lipschitz

WEIGHTS = np.array([0.5, 0.2, 0.3])
G, MU, L = 2.0, 0.1, 3.0


def setting(rounds=4):
    """Three agents of 10, 20 and 30 records whose weights differ."""
    constants = Constants(
        record_gradient=G, record_curvature=0.25, smoothness=L, strong_convexity=MU, assumption="as told"
    )
    functions = PublicFunctions(np.array([10, 20, 30]), 2, constants, None)
    return Setting(Problem(functions, WEIGHTS, ElasticNet()), rounds, 1e-9)


def test_a_record_moves_a_weighted_gradient_by_2g_over_n():
    found = claims_of(ConsensusDPADMM(5.0, RECORDS), setting())
    assert found.gradient_distance == pytest.approx(0.5 * 2 * G / 10, rel=1e-15)
    assert (found.strong_convexity, found.smoothness) == pytest.approx((0.5 * MU, 0.5 * L), rel=1e-15)


def test_the_distance_of_functions_is_weighted_too():
    found = claims_of(ConsensusDPADMM(5.0, FunctionsDiffer(0.7)), setting())
    assert found.gradient_distance == pytest.approx(0.5 * 0.7, rel=1e-15)


def test_a_block_has_the_largest_weight_of_all():
    """F_i = N w_i f_i: the largest of 3 * (.5, .2, .3) times G, unless the clip bounds it."""
    free = CentralisedADMM(1.0, unit=Unit.USER)
    assert block_lipschitz(free, setting()) == pytest.approx(3 * 0.5 * G, rel=1e-15)
    clipped = CentralisedADMM(2.0, unit=Unit.USER, clip=1.0)
    assert block_lipschitz(clipped, setting()) == pytest.approx(1.0 / 2.0, rel=1e-15)


def test_theorem_7_is_about_the_weighted_loss():
    constraint = Constraint(np.eye(2), -np.eye(2), np.zeros(2))
    (theorem,) = claims_of(GeneralADMM(1.0, constraint), setting()).theorems
    assert (theorem.lipschitz, theorem.records) == (pytest.approx(0.5 * G, rel=1e-15), 10)
