"""Schedules against the formulas they stand for."""

import numpy as np
import pytest
from scipy import optimize

from dpadmm.noise.mechanisms import CaoOptimal, Custom, Geometric, Tail


@pytest.mark.parametrize("decay", [1.0, 0.9, 0.2])
def test_geometric_decays_in_variance(decay):
    variances = Geometric(decay).shape(20) ** 2
    assert variances[0] == 1
    np.testing.assert_allclose(variances[1:] / variances[:-1], decay)


@pytest.mark.parametrize(("beta", "iterations"), [(0.3, 9), (0.05, 40), (2.0, 3)])
def test_cao_is_equation_21(beta, iterations):
    epsilon, h, q = 0.1, 9.24e-3, (1 + beta) ** 0.25
    l = np.arange(2, iterations + 1)  # noqa: E741
    rates = epsilon * q ** (l - 2) * (q - 1) / (h * (q ** (iterations - 1) - 1))
    shape = CaoOptimal(beta).shape(iterations - 1)
    np.testing.assert_allclose(shape, rates[0] / rates, rtol=1e-13)
    # the level that spends epsilon = h sum(rates) gives (21) back
    np.testing.assert_allclose(epsilon / h / np.sum(1 / shape) / shape, rates, rtol=1e-13)


def test_cao_minimises_the_bound_at_a_given_sum_of_rates():
    """The noise term of (19) is sum (1+beta)^(l/2) / alpha(l)."""
    beta, rounds = 0.4, 5
    weights = (1 + beta) ** (np.arange(2, rounds + 2) / 2)

    def cost(logits):
        rates = np.exp(logits - np.max(logits))
        return np.sum(weights / (rates / rates.sum()))

    best = optimize.minimize(cost, np.zeros(rounds), method="BFGS", options={"gtol": 1e-8}).x
    rates = 1 / CaoOptimal(beta).shape(rounds)
    np.testing.assert_allclose(rates / rates.sum(), np.exp(best) / np.exp(best).sum(), rtol=1e-4)


def test_custom_gives_the_values_of_the_rounds():
    np.testing.assert_array_equal(Custom((3.0, 1.0, 2.0)).shape(2), [3, 1])


class TestTail:
    def test_even_then_growing(self):
        shape = Tail(power=0.5).shape(10)
        np.testing.assert_allclose(shape[:5], 1.0)
        np.testing.assert_allclose(shape[5:] ** -2, [1.0, 0.8, 0.6, 0.4, 0.2])

    def test_power_zero_is_constant_and_one_round_works(self):
        np.testing.assert_allclose(Tail(power=0.0).shape(7), 1.0)
        np.testing.assert_allclose(Tail().shape(1), 1.0)

    def test_half_is_the_least_variance_of_a_tail_average_of_a_random_walk(self):
        """In a flat direction the model is the sum of the noise so far; w_k is its squared weight in the average."""
        rounds = 12
        k = np.arange(1, rounds + 1)
        weights = np.minimum(1.0, (rounds - k + 1) / (rounds - rounds // 2)) ** 2

        def variance(shape):
            # Equal sensitivities: spending the same total needs std_k = shape_k sqrt(sum 1/shape^2).
            return (weights * shape**2).sum() * (shape**-2.0).sum()

        best = variance(Tail(power=0.5).shape(rounds))
        assert best < variance(Tail(power=0.25).shape(rounds)) < variance(Tail(power=0.0).shape(rounds))
        rng = np.random.default_rng(0)
        for _ in range(200):
            other = Tail(power=0.5).shape(rounds) * np.exp(0.2 * rng.standard_normal(rounds))
            assert best <= variance(other) * (1 + 1e-12)
