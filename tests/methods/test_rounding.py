"""Sums over records: what rounding costs stays below what certificates count, in any order (C7).

Slopes are saturated and powers of two, so that a record's term is exact and `math.fsum` gives the exact sum.
"""

import math
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse

from dpadmm.core.spec import ReleaseFacts
from dpadmm.methods.base import Agents, Setting
from dpadmm.methods.batches import shrink_far_points, whole_gradients
from dpadmm.methods.dp_dgd import DPDGD
from dpadmm.methods.fixed_point.coordinate_descent import CoordinateDescent
from dpadmm.methods.fixed_point.participation import Participation
from dpadmm.methods.linearised import LinearisedADMM
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.methods.preconditioned import PreconditionedGradients, PreconditionedSilos
from dpadmm.noise.mechanisms import Family
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.certificates.local import MOST_PER_NOMINAL
from dpadmm.privacy.protection import ONE_RECORD, NeighbouringRelation, Protection, Strength, Unit
from dpadmm.problems.centred import CentredRows
from dpadmm.problems.losses import Huber, Logistic, Softmax
from dpadmm.problems.problem import EmpiricalRisk, Problem, PublicFunctions, risk_of
from dpadmm.problems.silos import (
    MOST_RIDGE,
    MOST_SHIFT,
    ROW_NORM_SLACK,
    RUN,
    SPARSE_RUN,
    PairwiseSum,
    Silos,
    gram,
    gram_sum,
    most_additions,
    rounding_share,
)
from dpadmm.queries.curvature import plan_curvature
from dpadmm.solvers.columns import _column_sum, _sparse_sum


@pytest.fixture(autouse=True)
def _compiled(monkeypatch):
    """Few rows are added up as `EmpiricalRisk.gradient` does."""
    monkeypatch.setattr(Silos, "is_small", property(lambda silos: False), raising=False)


SLOPE = 0.5
FAR = 1e9  # a label: no prediction comes near it, so the slope is -SLOPE


@cache
def losing(number, about, restart=10**9):
    """Return numbers near `about`, each of which a running sum rounds up by almost half a unit in its last place."""
    found, total = [], 0.0
    for place in range(number):
        total = 0.0 if place % restart == 0 else total
        half = math.ulp(total + about) / 2
        value = (total + about) - total
        value += half + math.ulp(about) if half > 2 * math.ulp(about) else 0.0
        found.append(value)
        total += value
    return np.array(found)


def stored(values, kind):
    """Return rows with these numbers in the first of two columns."""
    table = np.stack([values, np.zeros_like(values)], axis=1)
    if kind == "dense":
        return table
    if kind == "sparse":
        return sparse.csr_array(table)
    shift = MOST_SHIFT * 0.99
    centre = np.array([shift, 0.0])
    return CentredRows(sparse.csr_array(table + centre), np.ones(len(values)), centre, most_factor=1.0)


def exact_mean(rows):
    """Return the mean gradient, without any rounding but the last one."""
    if isinstance(rows, CentredRows):
        whole, factors = rows.stored.toarray(), rows.centre
        columns = [[*whole[:, j], *(-factors[j] * whole[:, -1])] for j in range(2)]  # factors are 1: exact
    else:
        columns = (rows.toarray() if sparse.issparse(rows) else rows).T
    return np.array([-SLOPE * math.fsum(column) / rows.shape[0] for column in columns])


def computed(risk, way):
    point = np.zeros((1, 2, 1))
    if way == "gradient":
        return risk.gradient(point)[0, :, 0]
    if way == "one part":
        rows = slice(0, len(risk.shifts))
        is_sparse = risk.silos.is_sparse
        total = (
            _sparse_sum(risk, risk.silos.features, rows, point[0]) if is_sparse else _column_sum(risk, rows, point[0])
        )
        return total[:, 0] / rows.stop
    agents = Agents.of(Problem.of(risk), None, 1e-9, threads=way)
    return whole_gradients(agents, point)[0, :, 0]


def errors_of(rows, *ways):
    """Return how far computed gradients are from the exact one at most, and what the certificate counts."""
    risk = EmpiricalRisk(Silos.from_parts([rows], [np.full(rows.shape[0], FAR)], 1.0), Huber(SLOPE))
    counted = Setting(Problem.of(risk), 1, 0.0).local_gradient(0).solver_tolerance
    exact = exact_mean(rows)
    return max(np.linalg.norm(computed(risk, way) - exact) for way in ways), counted


ORDERS = {
    "constant": lambda n: np.full(n, 0.1),
    "rounded up throughout": lambda n: losing(n, 0.75),
    "rounded up in runs": lambda n: losing(n, 0.75, RUN),
    "largest first": lambda n: np.sort(np.random.default_rng(n).random(n) ** 8)[::-1].copy(),
    "cancelling": lambda n: np.repeat(losing(n // 2 + 1, 0.75), 2)[:n] * np.resize([1.0, -1.0], n),
    "half against half": lambda n: losing(n, 0.75) * np.where(np.arange(n) < n // 2, 1.0, -1.0),
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS.keys())
@pytest.mark.parametrize("kind", ["dense", "sparse", "centred"])
def test_no_order_of_rows_loses_more_than_is_counted(kind, order):
    for number in (1, 7, 2 * RUN + 3):
        rows = stored(order(number), kind)
        lost, counted = errors_of(rows, 1, "gradient")
        assert lost <= counted


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_error_does_not_grow_with_half_a_million_rows(kind):
    """Added up one after the other, these rows would lose more than is counted."""
    values = losing(2**19, 0.75)
    naive = SLOPE * abs(float(np.add.accumulate(values)[-1]) - math.fsum(values)) / len(values)
    lost, counted = errors_of(stored(values, kind), 2, "gradient", "one part")
    assert lost <= counted < naive


@pytest.mark.parametrize(("way", "run"), [("gradient", SPARSE_RUN), (1, RUN)])
def test_the_bound_must_grow_with_the_rows(way, run, monkeypatch):
    """Where what is stored is much longer than rows: a run loses more than a bound for few additions would count."""
    shift = MOST_SHIFT * 0.99
    values = losing(run, shift)
    rows = CentredRows(sparse.csr_array(values[:, None] * [1.0, 0.0]), np.ones(run), np.array([shift, 0.0]), 1.0)
    lost, counted = errors_of(rows, way)
    monkeypatch.setattr("dpadmm.methods.base.most_additions", lambda rows, dimension: most_additions(0, 0))
    assert errors_of(rows, way)[1] < lost <= counted


def terms_of(table, loss, labels, point, places):
    """Return the gradient of one record among records without features, at each of these places."""
    record, silent = table
    for before, after in places:
        rows = [silent[:before], record, silent[:after]]
        whole = np.concatenate(rows) if isinstance(record, np.ndarray) else sparse.vstack(rows).tocsr()
        silos = Silos.from_parts([whole], [np.full(whole.shape[0], labels)], 1.0, nominal=[1])
        yield from _both_ways(risk_of(silos, loss), point)


def _both_ways(risk, point):
    yield risk.gradient(point[None])[0]
    yield whole_gradients(Agents.of(Problem.of(risk), None, 1e-9, threads=1), point[None])[0]


PLACES = [(0, 0), (0, 3), (1, 1), (2, 0), (3, 0), (4, 0), (5, 2), (RUN + 2, 1)]


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("classes", [None, 3])
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 40))
@example(seed=0, d=9)
@example(seed=0, d=31)
def test_a_records_term_is_the_same_wherever_it_stands(kind, classes, seed, d):
    """At a point so far out that another order of the products would give another slope."""
    rng = np.random.default_rng(seed)
    row = rng.normal(size=(1, d))
    row /= 2 * np.linalg.norm(row)
    loss = Logistic() if classes is None else Softmax(classes)
    point = 2.0**56 * rng.normal(size=(d * (classes or 1), 1))
    if classes is None:  # nearly at a right angle
        point -= row.T @ (row @ point) / (row @ row.T)
    wide = np.eye(1, d)[[0] * (RUN + 3)] * 0.0
    table = (row, wide) if kind == "dense" else (sparse.csr_array(row), sparse.csr_array(wide))
    ways = list(terms_of(table, loss, 1.0, point, PLACES))
    for first, second in ((ways[::2], 0), (ways[1::2], 1)):
        assert all(np.array_equal(one, other) for one, other in pairwise(first)), second


def test_sums_in_pairs():
    rng = np.random.default_rng(4)
    for number in range(40):
        terms, total = rng.integers(-9, 9, (number, 3)).astype(float), PairwiseSum()
        for term in terms:
            total.add(term)
        np.testing.assert_array_equal(total.value(), terms.sum(axis=0))
    total = PairwiseSum()
    for _ in range(2**16):
        total.add(0.1)
    assert total.value() == 2**16 * 0.1  # equal numbers are doubled, without any rounding


class TestWhatIsCounted:
    @staticmethod
    def counted(n, d=5, mu=0.0, **who):
        functions = PublicFunctions.of_loss(np.array([n]), d, Logistic(), 2.0, mu)
        return Setting(Problem.of(functions), 1, 0.0, protection=Protection(**who)).local_gradient(0).solver_tolerance

    def test_it_grows_with_rows_dimension_and_gradients_and_then_no_more(self):
        assert self.counted(10) < self.counted(1000) < self.counted(4000) < self.counted(10**6)
        assert self.counted(10**9) == pytest.approx(self.counted(10**6), rel=1e-3)
        assert self.counted(10**6) < self.counted(10**6, d=3000)
        assert self.counted(10**6, mu=0.1) > self.counted(10**6)
        assert self.counted(100, d=5) < 1e-10  # far below the 0.04 that one of these records moves the gradient

    def test_where_sizes_are_secret_all_the_rows_that_there_may_be_count(self):
        added = {"relation": NeighbouringRelation.ADD_OR_REMOVE}
        assert self.counted(10**5, **added) > MOST_PER_NOMINAL * 0.9 * self.counted(10**5)
        assert self.counted(10, unit=Unit.PERSON) == pytest.approx(self.counted(10**6), rel=0.5)  # any number of rows

    def test_no_chain_of_additions_is_longer(self):
        """A run, and the runs of a part, in a compiled kernel; a run outside of them."""
        for d in (1, 3, 500, 2048, 5000):
            assert max(max(RUN, d) + 2**20 // RUN + 1, max(SPARSE_RUN, d)) < (most_additions(math.inf, d) - 64)

    def test_the_sum_over_silos_counts_as_well(self):
        functions = PublicFunctions.of_loss(np.full(50, 100), 5, Logistic(), 1.0)
        setting = Setting(Problem.of(functions), 1, 0.0)
        apart, together = setting.local_gradient(3).solver_tolerance, setting.local_gradients()[3].solver_tolerance
        assert together - apart >= 49 * 2.0**-53
        (mechanism,) = NoisyGradients(step=0.1).mechanisms(setting)
        assert mechanism.rows[0].certificates[0].bound == pytest.approx(2 / 5000 + 2 * together, rel=1e-15)


@pytest.mark.parametrize("method", [LinearisedADMM(rho=1.0), DPDGD(step=0.1, decay=0.9, noise=Family.GAUSSIAN)])
def test_a_gradient_that_is_added_to_a_vector_without_bound_is_certified_up_to_floating_point(method):
    functions = PublicFunctions.of_loss(np.array([10]), 5, Logistic(), 1.0)
    (mechanism,) = method.mechanisms(Setting(Problem.of(functions), 1, 0.0))
    assert mechanism.rows[0].certificates[0].strength is Strength.UP_TO_FLOATING_POINT


def test_a_ridge_far_out_pulls_no_harder_than_is_counted():
    risk = EmpiricalRisk(Silos.from_parts([np.eye(2)], [np.ones(2)], 1.0), Logistic(), mu=0.5)
    near, far = np.array([[[3.0], [4.0]]]), np.array([[[3e9], [4e9]]])
    assert shrink_far_points(risk, near) is near
    assert 0.5 * np.linalg.norm(shrink_far_points(risk, far)) == pytest.approx(MOST_RIDGE)
    agents = Agents.of(Problem.of(risk), None, 1e-9, threads=1)
    assert np.linalg.norm(whole_gradients(agents, far)) <= MOST_RIDGE + 1
    free = EmpiricalRisk(risk.silos, Logistic())
    assert shrink_far_points(free, far) is far


def test_a_term_may_be_a_little_longer_than_its_bound():
    """Rows may be longer than declared by `ROW_NORM_SLACK`, which no sum of exact terms would count."""
    counted = TestWhatIsCounted.counted(10)
    sums = rounding_share(most_additions(10, 5)) * (1 + 2 * MOST_SHIFT) * 2.0
    assert counted >= sums + ROW_NORM_SLACK * 2.0 / 10


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array])
def test_matrices_are_added_up_in_runs(store, monkeypatch):
    lengths = []

    def recorded(rows, weights):
        lengths.append(rows.shape[0])
        return gram(rows, weights)

    monkeypatch.setattr("dpadmm.problems.silos.gram", recorded)
    number = 2 * max(RUN, SPARSE_RUN) + 3
    found = gram_sum(store(np.full((number, 1), 0.5)), np.ones(number))
    assert found == [[number / 4]]
    assert sum(lengths) == number
    assert max(lengths) <= max(RUN, SPARSE_RUN)


class Silent:
    """Noise that is not there."""

    def perturb(self, kind, k, agents, values):
        return values


def test_coordinates_of_a_ridge_far_out_pull_no_harder_than_is_counted():
    risk = EmpiricalRisk(Silos.from_parts([np.eye(2)], [np.ones(2)], 1.0), Logistic(), mu=0.5)
    agents = Agents.of(Problem.of(risk), None, 1e-9, threads=1)
    method = CoordinateDescent(0.1, Participation.in_turn(1, 3), block_size=2)
    _, sent = method.local_step(1, agents, None, np.array([[[3e9], [4e9]]]), Silent())
    assert np.linalg.norm(sent) <= MOST_RIDGE + 1


@pytest.mark.parametrize("silos", [1, 50])
def test_a_matrix_counts_rows_twice_and_the_sum_over_silos(silos):
    functions = PublicFunctions.of_loss(np.full(silos, 100), 5, Logistic(), 1.0)
    setting = Setting(Problem.of(functions), 1, 0.0)
    facts = ReleaseFacts((100,) * silos, ONE_RECORD, is_pooled=True)
    (row,) = plan_curvature(setting, Target(1.0, 1e-5), facts, 2, is_secure=False).releases.values()
    curvature, size = next(iter(row.values())).bound, functions.constants.record_curvature
    ((_, moments, _),) = PreconditionedGradients().certificates(setting)
    alone = min(matrix.bound for _, matrix, _ in PreconditionedSilos().certificates(setting))
    rounded = rounding_share(most_additions(100, 5)) * (1 + 2 * MOST_SHIFT) ** 2 * size / silos
    total = 0.999 * rounding_share(silos + 1) * size if silos > 1 else 0.0
    least = math.sqrt(2) * size / (100 * silos) + 2 * (rounded + 2.0**-38 * size / (100 * silos))
    assert alone >= least
    assert min(curvature, moments.bound) >= least + 2 * total
