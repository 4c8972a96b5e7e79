"""Empirical risk: against a plain loop and finite differences, dense and CSR alike, constants, refusals."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from dpadmm.problems.losses import EpsilonInsensitive, Huber, LabelKind, Logistic, Quantile, SmoothedHinge, Squared
from dpadmm.problems.problem import EmpiricalRisk
from dpadmm.problems.silos import Silos, gram, scale_rows

LOSSES = (Logistic(), Squared(), Huber(0.7), SmoothedHinge(0.5), Quantile(0.9, 0.5), EpsilonInsensitive(0.3, 0.5))
SIZES = (5, 1, 9)

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
both_storages = pytest.mark.parametrize("is_sparse", [False, True])


def make(loss, mu=0.3, is_sparse=False, seed=0, sizes=SIZES, d=4, row_norm=1.0):
    """A risk over silos of unequal sizes, with zeros in the table."""
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7) for n in sizes]
    parts = [row_norm * p / np.maximum(1, np.linalg.norm(p, axis=1, keepdims=True)) for p in parts]
    labels = [rng.choice([-1.0, 1.0], n) if loss.target is LabelKind.SIGNS else rng.normal(size=n) for n in sizes]
    if is_sparse:
        parts = [sparse.csr_array(part) for part in parts]
    return EmpiricalRisk(Silos.from_parts(parts, labels, row_norm), loss, mu)


def records(risk, agent):
    """The records of one agent, dense."""
    features, labels = risk.silos.part(agent)
    return (features.toarray() if sparse.issparse(features) else features), labels


def number(loss, a, y, x):
    """The number t that the loss is a function of, from its definition."""
    return y * (a @ x) if loss.target is LabelKind.SIGNS else a @ x - y


def plain_value(risk, agent, x):
    features, labels = records(risk, agent)
    losses = [risk.loss.value(np.array([number(risk.loss, a, y, x)]))[0] for a, y in zip(features, labels, strict=True)]
    return sum(losses) / len(losses) + risk.mu / 2 * (x @ x)


@every_loss
@both_storages
class TestEvaluation:
    def test_value_against_a_plain_loop(self, loss, is_sparse):
        risk, w = make(loss, is_sparse=is_sparse), np.random.default_rng(1).normal(size=(3, 4, 2))
        value = risk.value(w)
        assert value.shape == (3, 2)
        expected = [[plain_value(risk, i, w[i, :, r]) for r in range(2)] for i in range(3)]
        np.testing.assert_allclose(value, expected, rtol=1e-13)

    def test_gradient_against_a_plain_loop(self, loss, is_sparse):
        risk, w = make(loss, is_sparse=is_sparse), np.random.default_rng(1).normal(size=(3, 4, 2))
        gradient = risk.gradient(w)
        assert gradient.shape == (3, 4, 2)
        for i in range(3):
            features, labels = records(risk, i)
            for r in range(2):
                total = risk.mu * w[i, :, r]
                for a, y in zip(features, labels, strict=True):
                    slope = loss.slope(np.array([number(loss, a, y, w[i, :, r])]))[0]
                    total = total + slope * (y * a if loss.target is LabelKind.SIGNS else a) / len(labels)
                np.testing.assert_allclose(gradient[i, :, r], total, rtol=1e-12, atol=1e-14)

    def test_hessian_is_the_derivative_of_gradient(self, loss, is_sparse):
        risk, rng, h = make(loss, is_sparse=is_sparse), np.random.default_rng(3), 1e-7
        w = rng.normal(size=4)
        for i in range(3):
            steps = np.repeat(w[None, :, None], 4, axis=2) + h * np.eye(4)
            back = np.repeat(w[None, :, None], 4, axis=2) - h * np.eye(4)
            difference = (risk.gradient(steps)[i] - risk.gradient(back)[i]) / (2 * h)
            np.testing.assert_allclose(risk.hessian(i, w), difference, rtol=1e-6, atol=1e-7)

    def test_a_common_point_is_the_point_of_every_agent(self, loss, is_sparse):
        risk, w = make(loss, is_sparse=is_sparse), np.random.default_rng(4).normal(size=(1, 4, 2))
        everywhere = np.repeat(w, 3, axis=0)
        np.testing.assert_array_equal(risk.value(w), risk.value(everywhere))
        np.testing.assert_array_equal(risk.gradient(w), risk.gradient(everywhere))

    def test_take(self, loss, is_sparse):
        risk, w = make(loss, is_sparse=is_sparse), np.random.default_rng(5).normal(size=(3, 4, 2))
        chosen = np.array([2, 0])
        taken = risk.take(chosen)
        assert taken.sizes.tolist() == [9, 5]
        assert taken.constants == risk.constants
        np.testing.assert_allclose(taken.value(w[chosen]), risk.value(w)[chosen], rtol=1e-14)
        np.testing.assert_allclose(taken.gradient(w[chosen]), risk.gradient(w)[chosen], rtol=1e-13, atol=1e-15)
        alone = risk.take(np.array([1]))
        np.testing.assert_allclose(alone.gradient(w[1:2]), risk.gradient(w)[1:2], rtol=1e-13, atol=1e-15)

    def test_signs_and_shifts_bring_the_loss_to_one_form(self, loss, is_sparse):
        risk, x = make(loss, is_sparse=is_sparse), np.random.default_rng(6).normal(size=4)
        before = risk.silos.features.copy()
        table = before.toarray() if is_sparse else before
        expected = [number(loss, a, y, x) for a, y in zip(table, risk.silos.labels, strict=True)]
        everybody = slice(0, len(expected))
        found = risk.margins(risk.silos.features @ x, everybody)
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-14)
        shifts = risk.shifts if risk.shifts.size else 0
        np.testing.assert_allclose(risk.folded(everybody) @ x - shifts, expected, rtol=1e-13, atol=1e-14)
        assert abs(risk.silos.features - before).max() == 0  # the data themselves are left alone


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    loss=st.sampled_from([*LOSSES, SmoothedHinge(0.01), Huber(20.0)]),
    row_norm=st.sampled_from([0.2, 1.0, 7.0]),
    mu=st.sampled_from([0.0, 0.1]),
    spread=st.sampled_from([0.1, 1.0, 30.0]),
    seed=st.integers(0, 10**6),
)
def test_constants_are_never_beaten(loss, row_norm, mu, spread, seed):
    """Rows fill the ball of radius row_norm up to its edge; one agent per record gives each record's own gradient."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(6, 3))
    rows *= row_norm * np.array([1, 1, 1, 0.5, 0.1, 0])[:, None] / np.linalg.norm(rows, axis=1, keepdims=True)
    labels = rng.choice([-1.0, 1.0], 6) if loss.target is LabelKind.SIGNS else 3 * rng.normal(size=6)
    w = spread * rng.normal(size=(1, 3, 4)) / row_norm
    bare = EmpiricalRisk(Silos.one_record_each(rows, labels, row_norm), loss, 0.0)
    pooled = EmpiricalRisk(Silos.from_parts([rows], [labels], row_norm), loss, mu)
    constants = pooled.constants
    assert (np.linalg.norm(bare.gradient(w), axis=1) <= constants.record_gradient * (1 + 1e-12)).all()
    for r in range(4):
        for i in range(6):
            spectrum = np.linalg.eigvalsh(bare.hessian(i, w[0, :, r]))
            assert spectrum[-1] <= constants.record_curvature * (1 + 1e-12)
        spectrum = np.linalg.eigvalsh(pooled.hessian(0, w[0, :, r]))
        assert spectrum[-1] <= constants.smoothness * (1 + 1e-12)
        assert spectrum[0] >= constants.strong_convexity - 1e-12 * constants.smoothness


@every_loss
def test_constants_are_attained(loss):
    """One record of full norm: the bounds are not only true but as small as they can be."""
    a = np.array([[1.2, -1.6]])
    risk = EmpiricalRisk(Silos.from_parts([a], [np.ones(1)], 2.0), loss, 0.25)
    far = a[0] * 1e3 if type(loss) in (Huber, EpsilonInsensitive) else -a[0] * 1e3
    if math.isfinite(loss.slope_bound):
        steepest = np.linalg.norm(risk.gradient(far[None, :, None])[0, :, 0] - 0.25 * far)
        assert steepest == pytest.approx(risk.constants.record_gradient, rel=1e-9)
    centre = {Logistic: 0.0, SmoothedHinge: 0.9, EpsilonInsensitive: 1.5}.get(type(loss), 1.0)
    most_curved = np.linalg.eigvalsh(risk.hessian(0, centre * a[0] / 4.0))
    assert most_curved[-1] == pytest.approx(risk.constants.smoothness, rel=1e-9)
    assert most_curved[0] == pytest.approx(risk.constants.strong_convexity, rel=1e-9)


def test_constants_come_from_public_numbers_alone():
    one, other = make(Logistic(), seed=1, row_norm=3.0), make(Logistic(), seed=2, row_norm=3.0)
    assert one.constants == other.constants
    assert "at most 3" in one.constants.assumption
    assert make(Squared()).constants.record_gradient == math.inf


@both_storages
def test_gram_and_scaled_rows(is_sparse):
    rng = np.random.default_rng(9)
    rows, weights = rng.normal(size=(6, 3)), rng.random(6)
    stored = sparse.csr_array(rows) if is_sparse else rows
    np.testing.assert_allclose(gram(stored), rows.T @ rows, rtol=1e-13)
    np.testing.assert_allclose(gram(stored, weights), rows.T @ np.diag(weights) @ rows, rtol=1e-13)
    scaled = scale_rows(stored, weights)
    np.testing.assert_allclose(scaled.toarray() if is_sparse else scaled, np.diag(weights) @ rows, rtol=1e-14)
