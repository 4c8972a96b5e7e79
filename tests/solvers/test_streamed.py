"""Local solves of streamed silos: the minimisers that solvers of rows in memory find, in few passes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from dpadmm.errors import SolverError
from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge, Softmax, Squared
from dpadmm.problems.problem import risk_of
from dpadmm.problems.silos import Silos
from dpadmm.problems.streams import SiloStream, StreamedRisk
from dpadmm.solvers import streamed as module
from dpadmm.solvers.solver import Subproblem, WatchedSolver, prepare, prepare_release


@dataclass(eq=False)
class HeldStream(SiloStream):
    """A stream of rows that are in memory, in batches of seven, which counts its passes."""

    silos: Silos
    nominal: None = None
    is_small: bool = False

    def __post_init__(self) -> None:
        self.names, self.row_norm, self.counter = self.silos.names, self.silos.row_norm, [0]

    @property
    def sizes(self):
        return self.silos.sizes

    @property
    def dimension(self) -> int:
        return self.silos.dimension

    @property
    def no_rows(self) -> Silos:
        raise NotImplementedError

    def totals(self, tasks: Sequence, dimension: int | None) -> list:
        self.counter[0] += 1
        sums: list = [0.0] * self.n_agents
        for agent, task in enumerate(tasks):
            rows, labels = self.silos.part(agent)
            for first in range(0, len(labels), 7):
                part = slice(first, first + 7)
                batch = Silos.from_parts([rows[part]], [labels[part]], self.row_norm, nominal=[1])
                sums[agent] = sums[agent] + task(batch)
        return sums

    def take(self, agents) -> "HeldStream":
        taken = HeldStream(self.silos.take(agents))
        taken.counter = self.counter
        return taken

    def with_nominal(self, sizes) -> "HeldStream":
        raise NotImplementedError


def silos(loss, d: int = 6, sizes=(60, 35, 11), seed: int = 0) -> Silos:
    drawn = np.random.default_rng(seed)
    tables = [drawn.normal(size=(n, d)) * np.logspace(0, -1, d) for n in sizes]
    tables = [table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1.0) for table in tables]
    if isinstance(loss, Softmax):
        labels = [drawn.integers(0, loss.n_classes, n).astype(float) for n in sizes]
    elif loss in (Squared(), Huber(0.1)):
        labels = [drawn.uniform(-1, 1, n) for n in sizes]
    else:
        labels = [np.sign(table[:, 0] + 0.1) for table in tables]
    return Silos.from_parts(tables, labels, row_norm=1.0)


def subproblem(d: int, pull: float, agents=(0, 1, 2), replicas: int = 1, seed: int = 1) -> Subproblem:
    drawn, number = np.random.default_rng(seed), len(agents)
    lin, centre, start = (scale * drawn.normal(size=(number, d, replicas)) for scale in (0.1, 1.0, 3.0))
    return Subproblem(lin, centre, np.full(number, pull), start, np.array(agents))


WEIGHTS = np.array([0.5, 0.3, 0.2])
LOSSES = [Logistic(), SmoothedHinge(), Logistic(0.5), Huber(0.1), Squared(), Softmax(3), Softmax(3, 0.5)]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("pull", [1.0, 1e-3])
@pytest.mark.parametrize("large", [False, True], ids=["Hessians", "L-BFGS"])
def test_the_minimiser_is_that_of_rows_in_memory(monkeypatch, loss, pull, large):
    monkeypatch.setattr(module, "_LARGE", 0 if large else 400)
    held = silos(loss)
    theirs = prepare(risk_of(held, loss, 0.01), WEIGHTS, 1e-10)
    ours = prepare(StreamedRisk(HeldStream(held), loss, 0.01), WEIGHTS, 1e-10)
    d = ours.risk.dimension
    for sub in (subproblem(d, pull, replicas=2), subproblem(d, pull, agents=(2, 0), seed=2)):
        found = ours.solve(sub)
        assert found.gradient_norm.max() <= 1e-10
        # Two points with gradients of 1e-10 are at most so far apart, by strong convexity.
        apart = np.linalg.norm(found.point - theirs.solve(sub).point, axis=1).max()
        assert apart <= 2e-10 / (pull + 0.01 * 0.2)


def test_warm_starts_need_few_passes_and_the_last_sums_are_not_asked_for_again():
    held, loss = silos(Logistic()), Logistic()
    stream = HeldStream(held)
    solver, sub = prepare(StreamedRisk(stream, loss, 0.01), WEIGHTS, 1e-9), subproblem(6, 0.5)
    first = solver.solve(sub)
    used = stream.counter[0]
    assert used == first.passes.max() <= 8
    again = solver.solve(replace(sub, start=first.point))
    assert stream.counter[0] == used
    np.testing.assert_array_equal(again.point, first.point)
    near = solver.solve(replace(sub, start=first.point, lin=sub.lin + 1e-3))
    assert stream.counter[0] - used <= 3
    fresh = prepare(StreamedRisk(HeldStream(held), loss, 0.01), WEIGHTS, 1e-9)
    resumed = fresh.solve(replace(sub, start=first.point, lin=sub.lin + 1e-3))
    np.testing.assert_array_equal(resumed.point, near.point)


def test_steps_that_go_too_far_are_shortened():
    """Newton's steps of a flat loss with a kink overshoot; without the search they would cycle."""
    loss = Huber(0.1)
    held = silos(loss, d=3, sizes=(40, 20, 20))
    solver = prepare(StreamedRisk(HeldStream(held), loss), WEIGHTS, 1e-10)
    far = replace(subproblem(3, 1e-4), start=np.full((3, 3, 1), 50.0))
    found = solver.solve(far)
    other = prepare(risk_of(held, loss), WEIGHTS, 1e-10).solve(far)
    assert np.abs(found.point - other.point).max() <= 1e-5


def test_a_column_that_misses_the_tolerance_is_refused(monkeypatch):
    monkeypatch.setattr(module, "_MOST_PASSES", 2)
    solver = prepare(StreamedRisk(HeldStream(silos(Logistic())), Logistic()), WEIGHTS, 1e-12)
    with pytest.raises(SolverError, match="missed"):
        solver.solve(subproblem(6, 1e-3))


def test_a_release_refuses_by_public_numbers_before_a_pass():
    stream = HeldStream(silos(Logistic()))
    solver = prepare_release(StreamedRisk(stream, Logistic()), WEIGHTS, 1e-12)
    assert isinstance(solver, WatchedSolver)
    with pytest.raises(SolverError, match="public numbers"):
        solver.solve(replace(subproblem(6, 1.0), centre=np.full((3, 6, 1), 1e9)))
    assert stream.counter[0] == 0
