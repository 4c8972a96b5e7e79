"""Quadratic agents: values and gradients, constants against sampled curvature, refusals."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpadmm.problems.quadratics import QuadraticAgents


def agents(seed=0, n=4, d=3, bounds=None):
    """Random convex quadratics."""
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(n, d, d))
    return QuadraticAgents(roots @ roots.transpose(0, 2, 1), rng.normal(size=(n, d)), bounds)


@pytest.mark.parametrize("common", [False, True])
def test_value_and_gradient_against_a_plain_loop(common):
    quadratics, rng = agents(), np.random.default_rng(1)
    w = rng.normal(size=(1 if common else 4, 3, 5))
    value, gradient = quadratics.value(w), quadratics.gradient(w)
    assert (value.shape, gradient.shape) == ((4, 5), (4, 3, 5))
    for i in range(4):
        b, c = quadratics.curvatures[i], quadratics.slopes[i]
        for r in range(5):
            x = w[0 if common else i, :, r]
            assert abs(value[i, r] - (0.5 * x @ b @ x + c @ x)) <= 1e-13 * (1 + abs(value[i, r]))
            np.testing.assert_allclose(gradient[i, :, r], b @ x + c, rtol=1e-13, atol=1e-14)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(seed=st.integers(0, 10**6), declared=st.booleans())
def test_constants_are_never_beaten(seed, declared):
    quadratics = agents(seed, bounds=(0.0, 1e3) if declared else None)
    constants, rng = quadratics.constants, np.random.default_rng(seed)
    for b in quadratics.curvatures:
        values = np.linalg.eigvals(b).real
        assert values.max() <= constants.smoothness * (1 + 1e-12) + 1e-12
        assert values.min() >= constants.strong_convexity - 1e-9
        assert constants.record_curvature == constants.smoothness
    x, y = rng.normal(size=(2, 4, 3, 1))
    change = np.linalg.norm(quadratics.gradient(x) - quadratics.gradient(y), axis=1)
    assert (change <= constants.smoothness * np.linalg.norm(x - y, axis=1) * (1 + 1e-12)).all()


def test_constants():
    found = agents().constants
    assert found.record_gradient == math.inf
    spectra = np.linalg.eigvalsh(agents().curvatures)
    assert found.smoothness == pytest.approx(spectra.max(), rel=1e-12)
    assert found.strong_convexity == pytest.approx(spectra.min(), rel=1e-9)
    declared = agents(bounds=(0.0, 100.0)).constants
    assert (declared.strong_convexity, declared.smoothness) == (0.0, 100.0)
    assert "[0, 100]" in declared.assumption
    assert agents().sizes.tolist() == [1] * 4


def test_take_keeps_functions_and_public_bounds():
    quadratics = agents(bounds=(0.0, 100.0))
    taken = quadratics.take(np.array([3, 1]))
    np.testing.assert_array_equal(taken.curvatures, quadratics.curvatures[[3, 1]])
    np.testing.assert_array_equal(taken.slopes, quadratics.slopes[[3, 1]])
    assert taken.constants == quadratics.constants
    assert agents().take(np.array([0])).constants == agents().constants


def test_semidefinite_is_allowed_up_to_rounding():
    flat = np.array([[[1.0, 1.0], [1.0, 1.0]]])
    assert QuadraticAgents(flat, np.zeros((1, 2))).constants.strong_convexity == 0.0
    assert QuadraticAgents(np.zeros((1, 2, 2)), np.ones((1, 2))).constants.smoothness == 0.0
