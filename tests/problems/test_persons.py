"""Persons with several rows: what is kept of whom and what it counts; the risk and its solvers by a plain reference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from dpadmm.methods.base import Agents
from dpadmm.methods.batches import whole_gradients
from dpadmm.methods.p_admm import PADMM
from dpadmm.networks import complete
from dpadmm.problems.centred import CentredRows
from dpadmm.problems.losses import Huber, LabelKind, Logistic, SmoothedHinge, Squared
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.silos import PersonRows, Silos
from dpadmm.testing import LocalEngine, Recording, Stopping

STORAGES = {
    "dense": lambda rows: rows,
    "csr": sparse.csr_array,
    "centred": lambda rows: CentredRows(
        sparse.csr_array(rows + 0.1), np.ones(len(rows)), np.full(rows.shape[1], 0.1), most_factor=1.0
    ),
}
LOSSES = (Logistic(), Huber(0.4), SmoothedHinge(0.5), Squared())
people = st.lists(st.integers(0, 5), min_size=1, max_size=30)


def make(loss, storage="dense", mu=0.05, one_row_each=False, seed=0):
    """Three silos in which people have one to five rows, in a mixed order."""
    rng = np.random.default_rng(seed)
    whose = [rng.permutation(np.repeat(np.arange(n), rng.integers(1, 6, n))) for n in (30, 8, 3)]
    if one_row_each:
        whose = [np.arange(len(each)) for each in whose]
    parts = [rng.normal(size=(len(each), 4)) for each in whose]
    parts = [part / np.maximum(1, np.linalg.norm(part, axis=1, keepdims=True)) for part in parts]
    is_sign = loss.target is LabelKind.SIGNS
    labels = [rng.choice([-1.0, 1.0], len(p)) if is_sign else rng.normal(size=len(p)) for p in parts]
    silos = Silos.from_parts(
        [STORAGES[storage](part) for part in parts],
        labels,
        row_norm=1.0 + 1e-9,
        people=[PersonRows.of(each).people for each in whose],
    )
    return EmpiricalRisk(silos, loss, mu), parts, labels, whose


class TestWhatIsKept:
    @given(whose=people, keep=st.one_of(st.none(), st.integers(1, 4)))
    @settings(max_examples=80, deadline=None)
    def test_the_first_rows_of_each_person_count_one_together(self, whose, keep):
        found = PersonRows.of(np.array(whose), keep)
        wanted = [i for i, who in enumerate(whose) if keep is None or whose[:i].count(who) < keep]
        assert found.kept.tolist() == wanted
        assert found.people.persons == len(set(whose))
        kept = [whose[i] for i in wanted]
        weights = [1 / kept.count(who) for who in kept]
        np.testing.assert_allclose(found.people.weights, weights, rtol=1e-6)
        total = np.bincount(kept, found.people.weights)
        assert total.max() <= 1.0  # no rounding: weights are multiples of 1/2^26
        np.testing.assert_array_equal(found.people.weights * 2**26 % 1, 0.0)

    @given(whose=people, other=people, keep=st.integers(1, 3))
    @settings(max_examples=80, deadline=None)
    def test_nobody_else_decides_what_is_kept_of_a_person(self, whose, other, keep):
        """Person 9's rows among two crowds: the same ones are kept, with the same weights."""
        mine = [9] * 4

        def kept(crowd):
            mixed, places = [], []
            for i in range(max(len(crowd), len(mine))):
                if i < len(mine):
                    places.append(len(mixed))
                mixed += mine[i : i + 1] + crowd[i : i + 1]
            found = PersonRows.of(np.array(mixed), keep)
            own = np.isin(found.kept, places)
            return [places.index(row) for row in found.kept[own]], found.people.weights[own].tolist()

        assert kept(whose) == kept(other)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(
    "loss", [Logistic(), Huber(0.4), SmoothedHinge(0.5), Squared()], ids=lambda v: type(v).__name__
)
class TestTheRisk:
    def test_value_gradient_and_hessian_by_a_plain_loop(self, loss, storage):
        risk, parts, labels, whose = make(loss, storage)
        w = np.random.default_rng(1).normal(size=(3, 4, 2))
        value, gradient = risk.value(w), risk.gradient(w)
        for i in range(3):
            rows, y, who = parts[i], labels[i], whose[i].tolist()
            sides = y if loss.target is LabelKind.SIGNS else np.ones(len(y))
            shift = np.zeros(len(y)) if loss.target is LabelKind.SIGNS else y
            weights = np.array([1 / who.count(person) for person in who]) / len(set(who))
            signed, x = sides[:, None] * rows, w[i, :, 1]
            t = signed @ x - shift
            assert value[i, 1] == pytest.approx(weights @ loss.value(t) + 0.025 * x @ x, rel=1e-6)
            expected = signed.T @ (weights * loss.slope(t)) + 0.05 * x
            np.testing.assert_allclose(gradient[i, :, 1], expected, rtol=1e-6, atol=1e-7)
            bend = (signed.T * (weights * loss.curvature(t))) @ signed + 0.05 * np.eye(4)
            np.testing.assert_allclose(risk.hessian(i, x), bend, rtol=1e-6, atol=1e-7)
        assert risk.sizes.tolist() == [len(set(each.tolist())) for each in whose]
        seated = Agents.of(Problem.of(risk), None, 1e-9, 1)
        shares = (risk.sizes / risk.sizes.sum())[:, None, None]
        np.testing.assert_allclose(whole_gradients(seated, w), shares * gradient, rtol=1e-12, atol=1e-15)

    def test_subproblems_are_solved(self, loss, storage):
        """A small and a large pull, columns that Newton's method finishes among them; other agents than in order.

        Columns alone as well, as in a release: dense ones are then solved by compiled Newton steps.
        """
        risk, *_ = make(loss, storage, mu=0.0)
        weights, rng = np.array([1.0, 0.5, 2.0]), np.random.default_rng(2)
        agents = Agents.of(Problem(risk, weights, Problem.of(risk).regulariser), None, 1e-9, 1).take(np.array([2, 0]))
        lin, centre = rng.normal(size=(2, 4, 3)), 3 * rng.normal(size=(2, 4, 3))
        pull = np.array([1e-3, 2.0])
        together = agents.minimise(lin, centre, pull, np.zeros_like(lin)).point
        columns = [(lin[:, :, [r]], centre[:, :, [r]]) for r in range(3)]
        alone = [agents.minimise(*column, pull, np.zeros((2, 4, 1))).point for column in columns]
        for x in (together, np.concatenate(alone, axis=2)):
            left = weights[[2, 0], None, None] * risk.take(np.array([2, 0])).gradient(x) + lin
            left += pull[:, None, None] * (x - centre)
            assert np.linalg.norm(left, axis=1).max() <= 2e-9

    def test_one_row_each_is_the_unweighted_problem_to_the_last_bit(self, loss, storage):
        weighted, *_ = make(loss, storage, one_row_each=True)
        plain = EmpiricalRisk(
            Silos(*(getattr(weighted.silos, name) for name in ("features", "labels", "offsets", "row_norm", "names"))),
            loss,
            weighted.mu,
        )
        assert weighted.has_people
        assert not plain.has_people
        runs = [
            LocalEngine(progress=False, threads=1, recording=Recording(every=0)).run(
                PADMM(eta=0.1), Problem.of(risk), Stopping(rounds=3), complete(3)
            )
            for risk in (weighted, plain)
        ]
        np.testing.assert_array_equal(runs[0].models, runs[1].models)
        w = np.random.default_rng(3).normal(size=(3, 4, 2))
        np.testing.assert_array_equal(weighted.gradient(w), plain.gradient(w))


def test_without_noise_the_optimum_is_scikit_learns_with_sample_weights():
    risk, parts, labels, whose = make(Logistic(), "csr", mu=0.02)
    run = LocalEngine(progress=False, threads=1, tolerance=1e-11).run(
        PADMM(eta=0.05), Problem.of(risk), Stopping(rounds=250), complete(3)
    )
    persons = sum(int(n) for n in risk.sizes)
    weights = np.concatenate([1 / np.bincount(each)[each] for each in whose])
    model = LogisticRegression(C=1 / (persons * 0.02), fit_intercept=False, tol=1e-12, solver="newton-cholesky")
    optimum = model.fit(np.concatenate(parts), np.concatenate(labels), sample_weight=weights).coef_.T
    np.testing.assert_allclose(run.estimate, optimum, atol=1e-6)
    unweighted = model.fit(np.concatenate(parts), np.concatenate(labels)).coef_.T
    assert np.abs(unweighted - optimum).max() > 1e-2
