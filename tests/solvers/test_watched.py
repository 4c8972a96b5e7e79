"""Extreme records, all of them within the public bounds: no solve fails because of them, and refusals are the same."""

import numpy as np
import pytest
from scipy import sparse

from dpadmm.errors import SolverError
from dpadmm.problems.losses import Huber, LabelKind, Logistic, SmoothedHinge, Squared
from dpadmm.problems.problem import EmpiricalRisk
from dpadmm.problems.silos import Silos
from dpadmm.solvers.solver import Subproblem, largest_term, prepare, prepare_release

LOSSES = (Logistic(), Logistic(0.75), SmoothedHinge(0.5), SmoothedHinge(1e-6), Huber(1e-3), Huber(1e6))


def extreme_rows(n, d):
    """Rows of norm 1 at most: at the bound, equal, opposite, nearly parallel, zero, denormal, of all sizes at once."""
    rng = np.random.default_rng(0)
    axis, usual = np.zeros((n, d)), rng.standard_normal((n, d))
    axis[:, 0] = 1.0
    usual /= np.linalg.norm(usual, axis=1, keepdims=True)
    signs = np.where(np.arange(n) % 2, 1.0, -1.0)[:, None]
    nearly = np.full((n, d), 0.99 / np.sqrt(d)) * (1 - 1e-15 * np.arange(n)[:, None])
    return (
        *(np.zeros((n, d)), axis, axis * signs, usual, nearly, np.full((n, d), 5e-324), np.full((n, d), 1e-160)),
        *(
            axis * (np.arange(n) == 0)[:, None],
            usual * 10.0 ** rng.uniform(-300, 0, (n, 1)),
            np.eye(d)[np.arange(n) % d],
        ),
    )


def risks(n, d, loss):
    labels = np.where(np.arange(n) % 2, 1e9, -1e-3) if loss.target is LabelKind.REALS else np.ones(n)
    for i, rows in enumerate(extreme_rows(n, d)):
        features = sparse.csr_array(rows) if i % 2 else rows
        yield EmpiricalRisk(Silos.from_parts([features], [labels], row_norm=1.0), loss)


def subproblems(d):
    rng = np.random.default_rng(1)
    for pull in (1e-5, 1e-2, 10.0):
        for out, force in ((0.0, 0.0), (1e4, 1.0), (1.0, 1e4)):
            lin, centre = force * rng.standard_normal((1, d, 1)), out * rng.standard_normal((1, d, 1))
            yield Subproblem(lin, centre, np.array([pull]), np.zeros((1, d, 1)))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize(("n", "d"), [(1, 3), (2, 5), (20, 3)])
def test_what_is_not_refused_is_solved(loss, n, d):
    """At the smallest tolerance that public numbers allow."""
    weights = np.full(1, 0.5)
    for risk in risks(n, d, loss):
        solver = prepare_release(risk, weights, 1.0)
        for subproblem in subproblems(d):
            least = largest_term(subproblem, risk.constants, weights) * solver.rounded
            solver.solver.tolerance = least
            assert solver.solve(subproblem).gradient_norm.max() <= least
            solver.solver.tolerance = least * (1 - 1e-9)
            with pytest.raises(SolverError, match="public numbers"):
                solver.solve(subproblem)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_minimisers_are_within_the_public_reach(loss):
    """The bound behind the refusal: no force that adds up to the gradient is larger."""
    for risk in risks(20, 3, loss):
        for subproblem in subproblems(3):
            point = prepare(risk, np.ones(1), 1e-3).solve(subproblem).point
            pulled = float(subproblem.pull[0]) * np.linalg.norm(point)
            assert pulled <= largest_term(subproblem, risk.constants, np.ones(1))


def test_a_refusal_does_not_depend_on_the_record():
    """A row of zeros was solved where a row at the bound was not: one look told which of the two it was."""
    silent, loud = (
        EmpiricalRisk(Silos.one_record_each(np.full((1, 1), size), np.ones(1), row_norm=1.0), SmoothedHinge(1e-3))
        for size in (0.0, 1.0)
    )
    subproblem = Subproblem(np.zeros((1, 1, 1)), np.full((1, 1, 1), 100.0), np.array([1e-3]), np.zeros((1, 1, 1)))
    prepare(silent, np.ones(1), 1e-10).solve(subproblem)
    with pytest.raises(SolverError, match="missed"):
        prepare(loud, np.ones(1), 1e-10).solve(subproblem)
    reported = []
    for risk in (silent, loud):
        with pytest.raises(SolverError) as refusal:
            prepare_release(risk, np.ones(1), 1e-10).solve(subproblem)
        reported.append(str(refusal.value))
    assert reported[0] == reported[1]


def test_nothing_is_solved_before_a_refusal():
    risk = next(risks(20, 3, Logistic()))
    solver = prepare_release(risk, np.ones(1), 1e-12)
    solver.solver.solve = lambda _: pytest.fail("the records were read")
    for size in (1e9, np.nan):
        with pytest.raises(SolverError, match="public numbers"):
            solver.solve(Subproblem(np.full((1, 3, 1), size), np.zeros((1, 3, 1)), np.ones(1), np.zeros((1, 3, 1))))


def test_gradients_without_a_bound_have_the_bare_solver():
    risk = EmpiricalRisk(Silos.from_parts([np.eye(2)], [np.ones(2)], row_norm=1.0), Squared())
    assert type(prepare_release(risk, np.ones(1), 1e-9)) is type(prepare(risk, np.ones(1), 1e-9))
