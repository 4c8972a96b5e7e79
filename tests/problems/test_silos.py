"""Silos: stacking, dense and CSR alike, the promise about row norms, and every refusal."""

import numpy as np
import pytest
from scipy import sparse

from dpadmm.methods.base import Agents
from dpadmm.methods.batches import whole_gradients
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.silos import ROW_NORM_SLACK, Silos, row_norms

KINDS = [np.asarray, sparse.csr_array, sparse.csr_matrix, sparse.coo_array]


def tables(seed=0, sizes=(4, 2, 7), d=3, largest=1.0):
    """One table and one label vector per silo, with rows of norm at most `largest`."""
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(n, d)) for n in sizes]
    parts = [largest * part / np.maximum(1, np.linalg.norm(part, axis=1, keepdims=True)) for part in parts]
    return parts, [rng.choice([-1.0, 1.0], size=n) for n in sizes]


def dense(features):
    """The table as an array, whatever it is stored as."""
    return features.toarray() if sparse.issparse(features) else features


@pytest.mark.parametrize("kind", KINDS)
class TestStacking:
    def test_parts_come_back(self, kind):
        parts, labels = tables()
        silos = Silos.from_parts([kind(part) for part in parts], labels, 1.0, ["a", "b", "c"])
        assert (silos.n_agents, silos.dimension, silos.names) == (3, 3, ("a", "b", "c"))
        assert silos.sizes.tolist() == [4, 2, 7]
        assert silos.offsets.tolist() == [0, 4, 6, 13]
        assert silos.is_sparse == (kind is not np.asarray)
        for i in range(3):
            features, y = silos.part(i)
            np.testing.assert_array_equal(dense(features), parts[i])
            np.testing.assert_array_equal(y, labels[i])
            stored = (features, silos.features) if kind is np.asarray else (features.data, silos.features.data)
            assert np.shares_memory(*stored)  # a copy for every look would be most of the time where d is large

    def test_storage_is_what_the_kernels_need(self, kind):
        parts, labels = tables()
        features = Silos.from_parts([kind(part) for part in parts], labels, 1.0).features
        if kind is np.asarray:
            assert features.dtype == np.float64
            assert features.flags.c_contiguous
        else:
            assert (features.format, features.dtype) == ("csr", np.float64)
            assert (features.indices.dtype, features.indptr.dtype) == (np.int32, np.int32)

    def test_take_keeps_the_given_order(self, kind):
        parts, labels = tables()
        silos = Silos.from_parts([kind(part) for part in parts], labels, 1.0).take(np.array([2, 0]))
        assert silos.names == ("silo 2", "silo 0")
        assert silos.sizes.tolist() == [7, 4]
        assert silos.row_norm == 1.0
        for i, j in enumerate((2, 0)):
            features, y = silos.part(i)
            np.testing.assert_array_equal(dense(features), parts[j])
            np.testing.assert_array_equal(y, labels[j])

    def test_negative_numbers_count_from_the_end_and_foreign_ones_are_refused(self, kind):
        parts, labels = tables()
        silos = Silos.from_parts([kind(part) for part in parts], labels, 1.0)
        np.testing.assert_array_equal(dense(silos.part(-1)[0]), parts[2])
        last = silos.take(np.array([-1]))
        np.testing.assert_array_equal(dense(last.features), parts[2])
        assert last.offsets.tolist() == [0, 7]
        for wrong in (3, -4):
            with pytest.raises(IndexError):
                silos.take(np.array([wrong]))
            with pytest.raises(IndexError):
                silos.part(wrong)

    def test_one_record_each(self, kind):
        parts, labels = tables()
        users = Silos.one_record_each(kind(parts[2]), labels[2], 1.0)
        assert users.n_agents == 7
        assert (users.sizes == 1).all()
        assert len(users.names) == 7
        assert (users.names[3], users.names[-1]) == ("user 3", "user 6")
        np.testing.assert_array_equal(dense(users.part(3)[0]), parts[2][3:4])
        chosen = users.take(np.array([5, 1]))
        np.testing.assert_array_equal(dense(chosen.features), parts[2][[5, 1]])
        assert chosen.names == ("user 5", "user 1")

    def test_row_norms(self, kind):
        parts, _ = tables(largest=3.0)
        norms = row_norms(Silos.from_parts([kind(parts[0])], [np.ones(4)], 3.0).features)
        np.testing.assert_allclose(norms, np.linalg.norm(parts[0], axis=1), rtol=1e-15)

    def test_rounding_is_not_a_broken_statement(self, kind):
        edge = np.array([[1.0 + 0.5 * ROW_NORM_SLACK, 0.0]])
        assert Silos.from_parts([kind(edge)], [np.ones(1)], 1.0).n_agents == 1


class TestSparse:
    def test_one_sparse_part_makes_all_sparse(self):
        parts, labels = tables()
        silos = Silos.from_parts([parts[0], sparse.csr_array(parts[1]), parts[2]], labels, 1.0)
        assert silos.is_sparse
        np.testing.assert_array_equal(silos.features.toarray(), np.vstack(parts))

    def test_duplicate_entries_are_stored_as_one(self):
        doubled = sparse.csr_array((np.array([0.3, 0.4]), np.array([1, 1]), np.array([0, 2])), shape=(1, 2))
        for silos in (
            Silos.from_parts([doubled.copy()], [np.ones(1)], 1.0),
            Silos.one_record_each(doubled.copy(), np.ones(1), 1.0),
        ):
            assert silos.features.nnz == 1
            np.testing.assert_allclose(silos.features.toarray(), [[0.0, 0.7]], rtol=1e-15)

    def test_the_callers_table_keeps_its_meaning(self):
        table = sparse.csr_array((np.array([0.3, 0.4, 0.1]), np.array([2, 0, 2]), np.array([0, 3, 3])), shape=(2, 3))
        before = table.toarray()
        Silos.one_record_each(table, np.ones(2), 1.0)
        Silos.from_parts([table], [np.ones(2)], 1.0)
        np.testing.assert_array_equal(table.toarray(), before)


class TestNominalSizes:
    PARTS = ([np.eye(2), np.zeros((0, 2)), np.eye(2)[:1]], [np.array([1.0, -1.0]), np.zeros(0), np.ones(1)])

    def silos(self, nominal=(4, 5, 6)):
        return Silos.from_parts(*self.PARTS, row_norm=1.0, nominal=nominal)

    def test_they_stand_for_the_true_ones(self):
        silos = self.silos()
        assert silos.sizes.tolist() == [4, 5, 6]
        assert silos.take(np.array([2, 1])).sizes.tolist() == [6, 5]
        assert silos.part(1)[0].shape == (0, 2)

    @pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
    def test_sums_are_divided_by_them(self, kind):
        """Values, gradients and Hessians, dense and sparse, by hand."""
        features, labels = self.PARTS
        silos = Silos.from_parts([kind(part) for part in features], labels, row_norm=1.0, nominal=(4, 5, 6))
        risk, w = EmpiricalRisk(silos, Logistic(), mu=0.5), np.array([0.3, -0.2])
        points = np.tile(w[:, None], (3, 1, 1))
        for i, n in enumerate((4, 5, 6)):
            margins = labels[i] * (features[i] @ w)
            slopes = -labels[i] / (1 + np.exp(margins))
            value = np.log1p(np.exp(-margins)).sum() / n + 0.25 * w @ w
            gradient = features[i].T @ slopes / n + 0.5 * w
            assert risk.value(points)[i, 0] == pytest.approx(value)
            np.testing.assert_allclose(risk.gradient(points)[i, :, 0], gradient, rtol=1e-12)
            agents = Agents.of(Problem.of(risk), None, 1e-9, 1)
            np.testing.assert_allclose(whole_gradients(agents, points)[i, :, 0], gradient * n / 15, rtol=1e-12)
        assert risk.hessian(1, w).tolist() == [[0.5, 0.0], [0.0, 0.5]]


def test_which_way_sums_are_made_follows_from_public_numbers_and_stays_with_an_agent(monkeypatch):
    """Neighbours must be added up the same way: the two ways round differently (C7)."""
    monkeypatch.setattr("dpadmm.problems.silos.SMALL", 10)
    rows, labels = np.eye(2)[[0, 1] * 4] / 2, np.ones(8)
    few, many = (Silos.from_parts([rows] * number, [labels] * number, 1.0) for number in (1, 2))
    assert few.is_small
    assert not many.is_small
    assert not many.take(np.array([1])).is_small
    assert not few.with_nominal([11]).is_small
    assert many.with_nominal([4, 5]).is_small
