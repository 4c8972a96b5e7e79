"""Optimal noise beats what a numerical search finds."""

import numpy as np
import pytest
from scipy.optimize import minimize

from dpadmm.privacy.accounting import PureTarget, Target, calibrate_gaussian, calibrate_laplace
from dpadmm_research.accounting.best_noise import optimal_gaussian_shape, optimal_pure_rates


def test_optimal_shapes_beat_any_other():
    bounds, weights = np.array([1.0, 0.2, 3.0]), np.array([1.0, 5.0, 0.3])

    def gaussian_cost(log_shape):
        return weights @ calibrate_gaussian(Target(1.0, 1e-5), bounds, np.exp(log_shape)) ** 2

    def pure_cost(log_shape):
        return weights @ calibrate_laplace(PureTarget(1.0), bounds, np.exp(log_shape)) ** -2.0

    best = weights @ calibrate_gaussian(Target(1.0, 1e-5), bounds, optimal_gaussian_shape(bounds, weights)) ** 2
    assert best == pytest.approx(minimize(gaussian_cost, np.zeros(3), tol=1e-12).fun, rel=1e-6)
    rates = optimal_pure_rates(bounds, weights, 1.0)
    assert weights @ rates**-2.0 == pytest.approx(minimize(pure_cost, np.zeros(3), tol=1e-12).fun, rel=1e-6)
    assert 1 - 1e-9 <= rates @ bounds <= 1
