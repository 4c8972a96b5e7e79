"""The general quadratic: the regulariser contract, linear solves, refusals."""

import math

import numpy as np
import pytest
from tests.contracts.regulariser_contract import RegulariserContract

from dpadmm.problems.regularisers import Quadratic

DENSE = np.array([[2.0, 0.5, -0.3], [0.5, 1.0, 0.2], [-0.3, 0.2, 0.7]])
SINGULAR = np.outer([1.0, 2.0, -1.0], [1.0, 2.0, -1.0])


class TestQuadratic(RegulariserContract):
    instances = (
        Quadratic(DENSE, [0.3, -1.0, 0.5]),
        Quadratic(SINGULAR, [1.0, 0.0, -2.0]),
        Quadratic(np.zeros((3, 3)), [0.5, 0.5, 0.5]),
    )

    def test_constants(self):
        g = Quadratic(DENSE, [0.3, -1.0, 0.5])
        spectrum = np.linalg.eigvalsh(DENSE)
        assert (g.strong_convexity, g.smoothness) == pytest.approx((spectrum[0], spectrum[-1]), rel=1e-12)
        assert (g.lipschitz(3), g.is_smooth) == (math.inf, True)
        assert Quadratic(SINGULAR, np.zeros(3)).strong_convexity == pytest.approx(0, abs=1e-15)
        assert Quadratic(np.zeros((2, 2)), [3.0, 4.0]).lipschitz(2) == 5

    @pytest.mark.parametrize("step", [1e-8, 0.3, 1e6])
    def test_prox_is_the_linear_solve(self, step):
        rng = np.random.default_rng(0)
        root, slope, v = rng.standard_normal((12, 12)), rng.standard_normal(12), rng.standard_normal((4, 12, 3))
        hessian = root @ root.T
        expected = np.linalg.solve(np.eye(12) + step * hessian, v - step * slope[:, None])
        np.testing.assert_allclose(Quadratic(hessian, slope).prox(v, step), expected, rtol=1e-6, atol=1e-8)

    def test_values_do_not_follow_the_caller(self):
        hessian = np.eye(2)
        g = Quadratic(hessian, np.zeros(2))
        hessian[:] = 5.0
        assert g == Quadratic(np.eye(2), np.zeros(2))
        assert g != Quadratic(np.eye(2), [0.0, 1e-9])
