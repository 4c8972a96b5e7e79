"""The discrete Gaussian's excess over C0 by direct summation (C8)."""

import math

import numpy as np
import pytest

from dpadmm.errors import InputError
from dpadmm.privacy.discrete import check_grid, discrete_gaussian_excess, inflated_delta
from dpadmm.privacy.gaussian import delta_of_epsilon


def summed_delta(ratio, shift, eps):
    """Exact delta of the 1-D discrete Gaussian of std `ratio` (in grid units) moved by the integer `shift`."""
    start = math.floor(ratio**2 * eps / shift - shift / 2)
    n = np.arange(min(start, -int(12 * ratio)), max(start, 0) + int(14 * ratio) + 2)
    support = np.arange(-40 * ratio, 40 * ratio + 1)
    weights = np.exp(-((n / ratio) ** 2) / 2) / np.sum(np.exp(-((support / ratio) ** 2) / 2))
    loss = shift * n / ratio**2 + shift**2 / (2 * ratio**2)
    return float(np.sum(weights * np.maximum(-np.expm1(eps - loss), 0)))


def worst_excess(ratio, shift, least_delta, points):
    """Largest relative excess over eps with delta >= least_delta, at lattice points and between them."""
    m, spacing = shift / ratio, shift / ratio**2
    worst = 0.0
    for eps in np.linspace(0, m * m / 2 + 8 * m, points):
        for offset in np.arange(16) / 16:
            on_lattice = (math.floor((eps - m * m / 2) / spacing) + offset) * spacing + m * m / 2
            if on_lattice >= 0 and (delta := delta_of_epsilon(m, on_lattice)) >= least_delta:
                excess = summed_delta(ratio, shift, on_lattice) / delta - 1
                worst = max(worst, excess)
                assert excess <= discrete_gaussian_excess(ratio, m=m, epsilon=on_lattice)
    return worst


@pytest.mark.parametrize(
    ("ratio", "stated", "tolerance"), [(1, 1.14, 0.15), (4, 0.10, 0.1), (64, 4e-4, 0.15), (1024, 1.5e-6, 0.1)]
)
def test_the_stated_excess_at_m_1_and_delta_from_1e_9(ratio, stated, tolerance):
    points = 60 if ratio < 1000 else 15
    assert worst_excess(ratio, ratio, 1e-9, points) == pytest.approx(stated, rel=tolerance)


@pytest.mark.parametrize(("ratio", "shift"), [(1, 3), (2, 1), (4, 1), (4, 16), (16, 1), (16, 8), (16, 64), (64, 13)])
def test_the_bound_covers_other_shifts(ratio, shift):
    assert worst_excess(ratio, shift, 1e-12, 20) > 0


def test_composed_in_two_dimensions():
    # Two coordinates or rounds with unequal shifts: the loss is a two-dimensional sum.
    ratio, shifts = 4, (3, 5)
    n = np.arange(-60, 61)
    weight = np.exp(-((n / ratio) ** 2) / 2)
    weight /= weight.sum()
    losses = [shift * n / ratio**2 + shift**2 / (2 * ratio**2) for shift in shifts]
    loss, mass = np.add.outer(*losses), np.multiply.outer(weight, weight)
    m = math.hypot(*shifts) / ratio
    for eps in np.linspace(0, 9, 91):
        delta = float(np.sum(mass * np.maximum(-np.expm1(eps - loss), 0)))
        assert delta <= inflated_delta(ratio, m=m, epsilon=eps)


def test_at_the_enforced_grid_the_inflation_is_harmless():
    for m in (0.01, 0.3, 1.0, 3.0):
        for eps in (0.1, 1.0, 5.0):
            delta = delta_of_epsilon(m, eps)
            if delta > 1e-12:
                assert delta < inflated_delta(1024, m=m, epsilon=eps) < delta * (1 + 5e-5)


def test_grid_is_checked():
    assert check_grid(1024) == 1024.0
    for bad in (1023.9, 0.0, -1.0, math.nan):
        with pytest.raises(InputError):
            check_grid(bad)
    with pytest.raises(InputError):
        discrete_gaussian_excess(0.0, m=1.0, epsilon=1.0)
