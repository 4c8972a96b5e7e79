"""Silos: stacking, dense and CSR alike, the promise about row norms, and every refusal."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from dpadmm.errors import InputError
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

    def test_a_row_above_the_statement_is_refused_and_its_silo_named(self, kind):
        parts, labels = tables()
        parts[1][1] = [0.0, 1.5, 2.0]
        with pytest.raises(InputError, match=r"clinic B has a row that is longer than the declared row_norm 1\."):
            Silos.from_parts([kind(part) for part in parts], labels, 1.0, ["clinic A", "clinic B", "clinic C"])
        with pytest.raises(InputError, match=r"user 1 has a row that is longer.*larger public bound"):
            Silos.one_record_each(kind(parts[1]), labels[1], 1.0)
        assert Silos.from_parts([kind(part) for part in parts], labels, 2.5).row_norm == 2.5

    def test_rounding_is_not_a_broken_statement(self, kind):
        edge = np.array([[1.0 + 0.5 * ROW_NORM_SLACK, 0.0]])
        assert Silos.from_parts([kind(edge)], [np.ones(1)], 1.0).n_agents == 1
        with pytest.raises(InputError, match="row_norm"):
            Silos.from_parts([kind(edge * (1 + 10 * ROW_NORM_SLACK))], [np.ones(1)], 1.0)

    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
    def test_values_that_are_not_finite(self, kind, bad):
        parts, labels = tables()
        parts[1][0, 2] = bad
        with pytest.raises(InputError, match=r"silo 1: features hold NaN or infinite"):
            Silos.from_parts([kind(part) for part in parts], labels, 1.0)
        with pytest.raises(InputError, match=r"the table: features hold NaN"):
            Silos.one_record_each(kind(parts[1]), labels[1], 1.0)

    def test_empty_silo(self, kind):
        parts, labels = tables()
        with pytest.raises(InputError, match=r"silo 2 has no records"):
            Silos.from_parts([kind(p) for p in (*parts[:2], np.empty((0, 3)))], [*labels[:2], np.empty(0)], 1.0)

    def test_different_columns(self, kind):
        with pytest.raises(InputError, match=r"same columns; got tables with \[2, 3\] columns"):
            Silos.from_parts([kind(np.eye(3)), kind(np.eye(2))], [np.ones(3), np.ones(2)], 1.0)

    def test_complex_numbers_would_lose_a_part(self, kind):
        with pytest.raises(InputError, match="silo 0: expected real numbers"):
            Silos.from_parts([kind(np.eye(2) * 1j)], [np.ones(2)], row_norm=1.0)


class TestSparse:
    def test_one_sparse_part_makes_all_sparse(self):
        parts, labels = tables()
        silos = Silos.from_parts([parts[0], sparse.csr_array(parts[1]), parts[2]], labels, 1.0)
        assert silos.is_sparse
        np.testing.assert_array_equal(silos.features.toarray(), np.vstack(parts))

    def test_duplicate_entries_add_up_before_the_norm_is_checked(self):
        """Two entries of 0.8 in one place are a row of norm 1.6, not of norm 1.13."""
        doubled = sparse.csr_array((np.array([0.8, 0.8]), np.array([1, 1]), np.array([0, 2])), shape=(1, 2))
        with pytest.raises(InputError, match="longer than the declared row_norm"):
            Silos.from_parts([doubled.copy()], [np.ones(1)], 1.0)
        with pytest.raises(InputError, match="longer than the declared row_norm"):
            Silos.one_record_each(doubled.copy(), np.ones(1), 1.0)

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


def parts(tables, labels, row_norm=1.0, **more):
    return lambda: Silos.from_parts(tables, labels, row_norm, **more)


EYE, TWO = np.eye(2), np.ones(2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (parts([], []), "At least one silo"),
        (lambda: Silos.from_parts([EYE], [TWO], 1.0).take(np.array([], dtype=int)), "At least one silo"),
        (parts([EYE] * 2, [TWO]), "2 tables and 1 label vectors"),
        (parts([EYE] * 2, [TWO] * 2, names=["only"]), "2 silos and 1 names"),
        *((parts([EYE], [TWO], bad), "row_norm") for bad in (0, -1.0, math.nan, math.inf, "1", None, True)),
        *((lambda bad=bad: Silos.one_record_each(EYE, TWO, bad), "row_norm") for bad in (0, math.nan, math.inf, "1")),
        *(
            (parts([table], [np.ones(3)]), f"silo 0: features must be a table.*{np.ndim(table)} dimension")
            for table in (np.ones(3), np.ones((2, 2, 2)), 1.0)
        ),
        (parts([np.empty((2, 0))], [TWO]), "silo 0 has no columns"),
        *(
            (parts([table], [np.ones(len(table))]), "silo 0: expected numbers")
            for table in ([["a", "b"]], [[1.0, "x"]], [[1.0, None], [{}, 2.0]], [[1.0], [1.0, 2.0]])
        ),
        *((parts([EYE], [labels]), "silo 0: expected numbers") for labels in (["yes", "no"], [{}, 1.0])),
        *(
            (parts([EYE], [labels]), "silo 0: needs one label per row, 2 in one column; got shape")
            for labels in (np.ones(3), np.ones((2, 1)), 1.0)
        ),
        *((parts([EYE] * 2, [TWO, [1.0, bad]]), "silo 1: labels hold NaN or inf") for bad in (math.nan, math.inf)),
    ],
)
def test_refusals(make, message):
    with pytest.raises(InputError, match=message):
        make()


class TestNominalSizes:
    PARTS = ([np.eye(2), np.zeros((0, 2)), np.eye(2)[:1]], [np.array([1.0, -1.0]), np.zeros(0), np.ones(1)])

    def silos(self, nominal=(4, 5, 6)):
        return Silos.from_parts(*self.PARTS, row_norm=1.0, nominal=nominal)

    def test_they_stand_for_the_true_ones(self):
        silos = self.silos()
        assert silos.sizes.tolist() == [4, 5, 6]
        assert silos.take(np.array([2, 1])).sizes.tolist() == [6, 5]
        assert silos.part(1)[0].shape == (0, 2)

    def test_a_silo_without_records_is_refused_where_sizes_are_public(self):
        with pytest.raises(InputError, match="no records"):
            Silos.from_parts(*self.PARTS, row_norm=1.0)

    @pytest.mark.parametrize(("nominal", "texts"), [((4, 5), "one nominal number"), ((4, 0, 6), "at least 1")])
    def test_bad_ones_are_refused(self, nominal, texts):
        with pytest.raises(InputError, match=texts):
            self.silos(nominal)

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


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array])
def test_no_constructor_takes_rows_that_are_longer_than_declared(store):
    silos = Silos.from_parts([store(np.eye(2)), store(0.5 * np.eye(2))], [np.ones(2)] * 2, 1.0)
    with pytest.raises(InputError, match=r"silo 0 has a row that is longer than the declared row_norm 0\.001"):
        replace(silos, row_norm=1e-3)
    with pytest.raises(InputError, match="silo 1 has a row that is longer than the declared row_norm 1"):
        replace(silos, features=store(dense(silos.features) * np.array([[1.0], [1.0], [1.0], [3.0]])))
    with pytest.raises(InputError, match="is longer than the declared"):
        Silos(1000 * silos.features, silos.labels, silos.offsets, 1.0, silos.names)
    with pytest.raises(InputError, match="is longer than the declared"):
        Silos(np.nan * silos.features, silos.labels, silos.offsets, 1.0, silos.names)
    for bad in (math.inf, math.nan, 0.0):
        with pytest.raises(InputError, match="row_norm must be"):
            replace(silos, row_norm=bad)


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
