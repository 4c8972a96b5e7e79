"""What problems refuse: every row of tests/snapshots/refusals/problems.txt."""

from dataclasses import replace
from math import inf, nan

import numpy as np
from scipy import sparse
from tests.problems import own_parts
from tests.refusals import check_refusals

from dpadmm.codec import decode, encode
from dpadmm.problems import declared, losses, problem, quadratics, regularisers
from dpadmm.problems.centred import CentredRows
from dpadmm.problems.silos import ROW_NORM_SLACK, PersonWeights, Silos

EYE, TWO = np.eye(2), np.ones(2)


def silos(tables, labels, row_norm=1.0, **more):
    return Silos.from_parts(tables, labels, row_norm, **more)


def centred(stored, factors=None, centre=None, most_factor=1.0):
    """Rows of an array less a centre, 0 unless there is one."""
    rows, columns = np.shape(stored)
    factors = np.ones(rows) if factors is None else np.asarray(factors)
    centre = np.zeros(columns) if centre is None else np.asarray(centre)
    return CentredRows(sparse.csr_array(np.asarray(stored)), factors, centre, most_factor)


def doubled():
    """One row with two entries of 0.8 in one place."""
    return sparse.csr_array((np.array([0.8, 0.8]), np.array([1, 1]), np.array([0, 2])), shape=(1, 2))


class MySoftmax(losses.Softmax):
    """A softmax of a user's own."""


class MyOperator:
    """A constraint of a user's own."""

    omega = 5.0


one_silo = silos([EYE], [np.array([1.0, -1.0])])
risk = problem.EmpiricalRisk(one_silo, losses.Logistic())


def test_refused(snapshot):
    parts = (losses, problem, quadratics, regularisers, own_parts, declared)
    check_refusals(snapshot, "problems", *map(vars, parts), globals())
