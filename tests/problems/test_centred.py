"""Centred rows: every operation against the dense matrix, silos of them, refusals, and memory."""

import pickle
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from tests.contracts.centred_rows import as_array, random_centred

from dpadmm.methods.base import Agents, Setting
from dpadmm.methods.batches import whole_gradients
from dpadmm.problems.centred import CentredRows
from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge, Squared
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.silos import (
    MOST_SHIFT,
    Silos,
    dense,
    gram,
    row_norms,
    row_products,
    row_squares,
    scale_rows,
    stack_rows,
)

LOSSES = (Logistic(), Squared(), Huber(0.7), SmoothedHinge(0.5))

shapes = {
    "n": st.integers(1, 12),
    "d": st.integers(1, 9),
    "density": st.sampled_from([0.0, 0.2, 0.7, 1.0]),
    "seed": st.integers(0, 10**6),
}
each_case = settings(deadline=None, derandomize=True, max_examples=80)


def case(n, d, density, seed):
    """Random rows of norm at most 2, as they are stored and as an array."""
    rng = np.random.default_rng(seed)
    (rows,) = random_centred(rng, (n,), d, row_norm=2.0, density=density)
    return rng, rows, as_array(rows)


def close(found, expected):
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13 * scale)


class TestOperations:
    @each_case
    @given(**shapes)
    def test_facts(self, n, d, density, seed):
        _, rows, table = case(n, d, density, seed)
        assert rows.shape == table.shape == rows.T.shape[::-1]
        assert rows.ndim == 2
        assert rows.nnz == np.count_nonzero(rows.stored.toarray()) == len(rows.data)
        np.testing.assert_array_equal(rows.toarray(), table)
        np.testing.assert_array_equal(dense(rows), table)

    @each_case
    @given(**shapes)
    def test_products(self, n, d, density, seed):
        rng, rows, table = case(n, d, density, seed)
        for w, u in ((rng.normal(size=d), rng.normal(size=n)), (rng.normal(size=(d, 3)), rng.normal(size=(n, 3)))):
            close(rows @ w, table @ w)
            close(rows.T @ u, table.T @ u)
        own = rng.normal(size=(n, d, 2))
        close(row_products(rows, own), np.einsum("id,idr->ir", table, own))

    @each_case
    @given(**shapes)
    def test_gram_scaling_and_norms(self, n, d, density, seed):
        rng, rows, table = case(n, d, density, seed)
        weights = rng.normal(size=n)
        close(gram(rows), table.T @ table)
        close(gram(rows, weights), table.T @ (weights[:, None] * table))
        close(scale_rows(rows, weights).toarray(), weights[:, None] * table)
        close(row_squares(rows), (table**2).sum(axis=1))
        close(row_norms(rows), np.linalg.norm(table, axis=1))

    @each_case
    @given(**shapes)
    def test_rows_are_taken_and_stacked(self, n, d, density, seed):
        rng, rows, table = case(n, d, density, seed)
        for index in (slice(n // 3, n), slice(None), rng.integers(-n, n, 5), rng.random(n) < 0.5, list(range(n))[::-1]):
            np.testing.assert_array_equal(rows[index].toarray(), table[index])
        cut = n // 2
        np.testing.assert_array_equal(
            stack_rows([rows[cut:], rows[:cut]]).toarray(), np.vstack([table[cut:], table[:cut]])
        )
        mixed = stack_rows([table, rows, sparse.csr_array(table)])
        np.testing.assert_array_equal(mixed.toarray(), np.vstack([table] * 3))

    def test_a_column_has_the_same_bits_in_any_batch(self):
        rng = np.random.default_rng(0)
        (rows,) = random_centred(rng, (4,), 1003)
        w = rng.normal(size=(3, 1003, 21))
        whole = rows.extend(w)
        for chosen in ([0], [20], [3, 1], range(8)):
            for x in (np.ascontiguousarray(w[:, :, chosen]), np.asfortranarray(w[:, :, chosen])):
                np.testing.assert_array_equal(rows.extend(x), whole[:, :, chosen])
                np.testing.assert_array_equal(rows.extend(x[1]), whole[1][:, chosen])

    def test_entries_given_in_parts_count_as_one(self):
        table = sparse.csr_array((np.ones(3), np.array([0, 0, 1]), np.array([0, 3])), shape=(1, 2))
        rows = CentredRows(table, np.ones(1), np.array([0.5, 0.5]))
        assert row_squares(rows).tolist() == [1.5**2 + 0.5**2]

    def test_rows_that_lie_at_the_centre_have_norm_zero(self):
        centre = np.array([0.3, 0.7, 1e3])
        rows = CentredRows(np.array([centre, 0.1 * centre]), np.array([1.0, 0.1]), centre)
        assert row_squares(rows).tolist() == [0.0, 0.0]

    @pytest.mark.parametrize("rest", [0.0, 1e-3])
    def test_norms_survive_a_heavy_centre(self, rest, monkeypatch):
        """Columns around 1e6 that every row has: what is left of the centre's norm is lost in rounding."""
        monkeypatch.setattr("dpadmm.problems.centred._BLOCK", 40)
        rng = np.random.default_rng(5)
        centre = np.concatenate([[1e6, -3e6], np.full(8, rest)])
        table = np.zeros((30, 10))
        table[:, :2] = centre[:2] + rng.normal(size=(30, 2)) * 1e-3
        table[:, 2] = rng.random(30) < 0.5
        rows = CentredRows(table, np.ones(30), centre)
        exact = (table.astype(np.longdouble) - centre.astype(np.longdouble)) ** 2
        np.testing.assert_allclose(row_squares(rows), exact.sum(axis=1).astype(float), rtol=1e-14)

    def test_pickled(self):
        (rows,) = random_centred(np.random.default_rng(1), (6,), 4)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(rows)).toarray(), rows.toarray())

    def test_the_input_is_left_alone(self):
        table, factors, centre = sparse.csr_array(np.eye(3)), np.ones(3), np.full(3, 0.25)
        rows = CentredRows(table, factors, centre)
        scale_rows(rows, np.full(3, 2.0))
        assert abs(table - sparse.eye_array(3)).max() == 0
        np.testing.assert_array_equal(rows.toarray(), np.eye(3) - 0.25)


class TestArithmetic:
    def test_no_other_product_is_taken_for_theirs(self):
        rows = CentredRows(sparse.csr_array(np.eye(2)), np.ones(2), np.zeros(2))
        for work in (lambda: np.ones((2, 2)) @ rows, lambda: np.ones((2, 2)) * rows, lambda: np.exp(rows)):
            with pytest.raises(TypeError):
                work()


class TestSilos:
    def parts(self, sizes=(4, 2, 7), d=3):
        rng = np.random.default_rng(0)
        return random_centred(rng, sizes, d), [rng.choice([-1.0, 1.0], n) for n in sizes]

    def test_stacked_taken_and_given_back(self):
        parts, labels = self.parts()
        silos = Silos.from_parts(parts, labels, 1.0)
        assert silos.is_sparse
        assert silos.dimension == 3
        stored = silos.features.stored
        assert (stored.format, stored.dtype, stored.indices.dtype, stored.indptr.dtype) == ("csr", float, "i4", "i4")
        for i in (0, 1, 2, -1):
            np.testing.assert_array_equal(silos.part(i)[0].toarray(), parts[i].toarray())
        taken = silos.take(np.array([2, 0]))
        np.testing.assert_array_equal(taken.features.toarray(), np.vstack([parts[2].toarray(), parts[0].toarray()]))
        assert taken.features.stored.indices.dtype == np.int32

    def test_one_record_each(self):
        parts, labels = self.parts()
        users = Silos.one_record_each(parts[2], labels[2], 1.0)
        assert users.n_agents == 7
        np.testing.assert_array_equal(users.part(3)[0].toarray(), parts[2].toarray()[3:4])

    def test_the_norm_that_counts_is_that_of_the_centred_row(self):
        """(1.2, 0.8) less the centre has norm 0.6, though more is stored."""
        centre = np.array([0.6, 0.8])
        short = CentredRows(sparse.csr_array(np.array([[1.2, 0.8]])), np.array([1.0]), centre)
        assert Silos.from_parts([short], [np.ones(1)], 0.6).n_agents == 1

    def test_rounding_is_not_a_broken_statement(self):
        rng = np.random.default_rng(2)
        parts = random_centred(rng, (400,), 30)
        norms = row_norms(parts[0])
        full = scale_rows(parts[0], 1 / norms)
        assert Silos.from_parts([full], [np.ones(400)], 1.0).n_agents == 1

    @pytest.mark.parametrize("size", [7.9, 8.1])
    def test_rows_are_stored_dense_where_sums_would_be_lost_in_rounding(self, size):
        rows = CentredRows(np.array([[size, 1.0], [0.0, 0.5]]), np.array([1.0, 0.0]), np.array([size, 0.0]), 1.0)
        for silos in (Silos.from_parts([rows], [np.ones(2)], 1.0), Silos.one_record_each(rows, np.ones(2), 1.0)):
            assert silos.is_sparse == (size < MOST_SHIFT)
            np.testing.assert_array_equal(dense(silos.features), [[0.0, 1.0], [0.0, 0.5]])

    def test_without_a_public_bound_rows_are_stored_dense(self):
        rows = CentredRows(sparse.csr_array(np.eye(2)), np.ones(2), np.full(2, 0.1))
        silos = Silos.from_parts([rows], [np.ones(2)], 2.0)
        assert not silos.is_sparse
        assert not replace(silos, features=rows).is_sparse

    def test_the_largest_public_bound_on_factors_counts(self):
        def rows(most):
            return CentredRows(sparse.csr_array(np.eye(2)), np.array([0.5, 1.0]), np.full(2, 0.1), most)

        assert Silos.from_parts([rows(1.0)], [np.ones(2)], 2.0).is_sparse
        both = Silos.from_parts([rows(0.7)[:1], rows(1.0)], [np.ones(1), np.ones(2)], 2.0)
        assert both.features.most_factor == 1.0

    def test_one_rows_factor_does_not_decide_how_others_are_stored(self):
        """Neighbours: at a far point, sparse and dense sums over the other rows would differ by more than counted."""
        d, n = 40, 50
        rng = np.random.default_rng(0)
        centre, point, row = rng.normal(size=(3, d))
        centre /= np.linalg.norm(centre)
        row -= point * (row @ point) / (point @ point)
        row /= 2 * np.linalg.norm(row)
        for most in (np.inf, 8.2, 7.95):
            gradients = []
            for last in (7.9, 8.1 if most > 8 else 1.0):
                factors = np.append(np.full(n - 1, 7.0), last)
                table = sparse.csr_array(row + np.outer(factors, centre))
                silos = Silos.from_parts([CentredRows(table, factors, centre, most)], [np.ones(n)], 1.0)
                assert silos.is_sparse == (most < MOST_SHIFT)
                risk = Problem.of(EmpiricalRisk(silos, Logistic()))
                agents = Agents.of(risk, None, 1e-9, threads=1)
                gradients.append(whole_gradients(agents, 2.0**56 * point[None, :, None]))
            assert np.linalg.norm(gradients[0] - gradients[1]) <= Setting(risk, 1, 0.0).local_gradient(0).gap


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("sizes", [(5, 1, 9), (1,) * 8], ids=["silos", "users"])
def test_an_empirical_risk_is_that_of_the_dense_rows(loss, sizes):
    rng = np.random.default_rng(3)
    parts, labels = random_centred(rng, sizes, 4), [rng.choice([-1.0, 1.0], n) for n in sizes]
    ours = EmpiricalRisk(Silos.from_parts(parts, labels, 1.0), loss, 0.3)
    plain = EmpiricalRisk(Silos.from_parts([as_array(part) for part in parts], labels, 1.0), loss, 0.3)
    for w in (rng.normal(size=(len(sizes), 4, 3)), rng.normal(size=(1, 4, 3))):
        close(ours.value(w), plain.value(w))
        close(ours.gradient(w), plain.gradient(w))
    for i in range(len(sizes)):
        close(ours.hessian(i, w[0, :, 0]), plain.hessian(i, w[0, :, 0]))
    close(ours.squares, plain.squares)
    chosen = np.array([len(sizes) - 1, 0])
    close(ours.take(chosen).gradient(w), plain.take(chosen).gradient(w))
    assert ours.constants == plain.constants


def test_no_dense_table_is_made(monkeypatch):
    """20,000 rows of 5,000 columns would take 800 MB; silos, values and gradients take what is stored, and models."""
    monkeypatch.setattr(CentredRows, "toarray", lambda _: pytest.fail("a dense table was made"))
    n, d, each = 20_000, 5_000, 10
    rng = np.random.default_rng(4)
    table = sparse.csr_array(
        (np.full(n * each, 0.2), rng.integers(0, d, n * each), np.arange(0, n * each + 1, each)), (n, d)
    )
    tracemalloc.start()
    try:
        rows = CentredRows(table, np.full(n, 0.2), np.full(d, each / d), most_factor=0.2)
        silos = Silos.from_parts([rows[: n // 2], rows[n // 2 :]], [np.ones(n // 2)] * 2, 4.0)
        risk = EmpiricalRisk(silos.take(np.array([1, 0])), Logistic(), 0.1)
        w = rng.normal(size=(2, d, 2))
        assert np.isfinite(risk.value(w)).all()
        assert np.isfinite(risk.gradient(w)).all()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * n * d / 20
