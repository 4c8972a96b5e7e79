"""What a user's own loss, regulariser or functions declare is not refuted where it is true, and named.

Where it is false: rows of tests/snapshots/refusals/problems.txt.
"""

import numpy as np
import pytest
from tests.problems.own_parts import (
    BUILT_IN,
    HONEST_LOSSES,
    HONEST_REGULARISERS,
    WRONG_LOSSES,
    WRONG_REGULARISERS,
    ClippedLine,
    GroupNorm,
    OwnRidge,
    OwnRisk,
)

from dpadmm.problems.declared import refute_loss, refute_regulariser
from dpadmm.problems.losses import Huber
from dpadmm.problems.problem import (
    EmpiricalRisk,
    Problem,
    PublicFunctions,
    check_declared,
    declared_by,
    has_same_parts,
    is_own,
)
from dpadmm.problems.regularisers import Box, ElasticNet
from dpadmm.problems.silos import Silos

SILOS = Silos.from_parts([np.eye(2) / 2] * 2, [np.array([1.0, -1.0])] * 2, row_norm=1.0)


def problem(loss=None, regulariser=None, risk=EmpiricalRisk):
    return Problem.of(risk(SILOS, loss or Huber(0.5), mu=0.1), regulariser=regulariser)


@pytest.mark.parametrize("loss", HONEST_LOSSES.values(), ids=list(HONEST_LOSSES))
def test_an_honest_loss_is_not_refuted(loss):
    refute_loss(loss)


@pytest.mark.parametrize("dimension", [1, 3, 40])
@pytest.mark.parametrize("regulariser", HONEST_REGULARISERS.values(), ids=list(HONEST_REGULARISERS))
def test_an_honest_regulariser_is_not_refuted(regulariser, dimension):
    refute_regulariser(regulariser, dimension)


def test_what_is_own_is_of_a_class_of_the_users_even_if_that_inherits():
    assert not any(is_own(each) for each in (*BUILT_IN, ElasticNet(l2=1.0), Box(0, 1), problem().functions))
    assert all(is_own(each) for each in (*WRONG_LOSSES, *HONEST_LOSSES.values(), *WRONG_REGULARISERS))


def test_own_parts_are_named():
    assert declared_by(problem(), Box(0, 1)) == ()
    own = problem(ClippedLine(), OwnRidge(l2=0.1), OwnRisk)
    assert declared_by(own, GroupNorm()) == (
        "functions OwnRisk",
        "loss ClippedLine",
        "regulariser OwnRidge",
        "constraint GroupNorm",
    )
    check_declared(own)
    public = PublicFunctions.of_loss(SILOS.sizes, 2, ClippedLine(), 1.0)
    assert declared_by(Problem.of(public)) == ("loss ClippedLine",)


def test_a_problem_must_have_the_parts_that_were_planned_with():
    assert has_same_parts(problem(ClippedLine()), problem(ClippedLine()))
    assert not has_same_parts(problem(ClippedLine()), problem(ClippedLine(low=-0.4)))
    assert not has_same_parts(problem(ClippedLine()), problem())
    assert not has_same_parts(problem(risk=OwnRisk), problem())
    assert not has_same_parts(problem(regulariser=OwnRidge(l2=0.1)), problem(regulariser=OwnRidge(l2=0.2)))


def test_own_functions_are_not_evaluated():
    class Private(OwnRisk):
        def value(self, w):
            raise AssertionError("reads records")

        gradient = hessian = value

    check_declared(problem(risk=Private))


def test_what_is_not_refuted_is_not_proved():
    """A slope that is wrong where no point is tried goes unseen, which is why the statement stays conditional."""

    class WrongInOnePlace(ClippedLine):
        def slope(self, t):
            return np.where(np.abs(t - 0.123456789) < 1e-12, 100.0, super().slope(t))

    assert np.abs(WrongInOnePlace().slope(np.array([0.123456789]))) > WrongInOnePlace().slope_bound
    refute_loss(WrongInOnePlace())
