"""C4: the two ways the noisy inner gradient touches the data."""

import math

import numpy as np
import pytest
from scipy.special import expit
from tests.contracts.local_facts import of
from tests.privacy.certificates.models import ball, gradient

from dpadmm.privacy.certificates.gradients import ps_admm_correction, ps_admm_full_gradient, sampled_gradient


def test_full_gradient_attacked_and_nearly_attained(rng):
    n, w = 3, 2.5
    v = ball(rng, (20_000, n, 2))
    other = v.copy()
    other[:, :2] = ball(rng, (20_000, 2, 2))
    x = rng.standard_normal((20_000, 2)) * 10.0 ** rng.uniform(-1, 3, (20_000, 1))
    moved = np.linalg.norm(gradient(v, x, w, 0.3) - gradient(other, x, w, 0.3), axis=1).max()
    bound = of(ps_admm_full_gradient, gradient_bound=1, n_records=n, weight=w, records_per_person=2).bound
    assert 0.9 * bound <= moved <= bound
    assert of(ps_admm_full_gradient, gradient_bound=1, n_records=n, solver_tolerance=0.1).bound == pytest.approx(
        2 / 3 + 0.2
    )


def test_one_records_correction_attacked_and_nearly_attained(rng):
    """||grad l(v) - grad l(vt)|| <= min(2G, c1 ||v - vt||) for logistic records, divided by the expected batch."""
    size, batch, w = 2.0, 5.0, 0.5
    a = ball(rng, (50_000, 2), size)
    v = rng.standard_normal((50_000, 2)) * 10.0 ** rng.uniform(-2, 2, (50_000, 1))
    u = v + rng.standard_normal((50_000, 2)) * 10.0 ** rng.uniform(-3, 1, (50_000, 1))
    term = w / batch * np.linalg.norm((expit(-(a * v).sum(1)) - expit(-(a * u).sum(1)))[:, None] * a, axis=1)
    step = np.linalg.norm(v - u, axis=1)
    ratio = [
        t
        / of(
            ps_admm_correction, batch_size=batch, gradient_bound=size, curvature_bound=1.0, displacement=s, weight=w
        ).bound
        for t, s in zip(term, step, strict=True)
    ]
    assert 0.95 <= max(ratio) <= 1 + 1e-9


def test_the_smallest_of_the_three_bounds_is_taken():
    assert of(ps_admm_correction, batch_size=2, gradient_bound=3).bound == pytest.approx(3.0)
    assert of(ps_admm_correction, batch_size=2, gradient_bound=3, clip=1.0).bound == pytest.approx(0.5)
    assert of(ps_admm_correction, batch_size=2, curvature_bound=2.0, displacement=0.1).bound == pytest.approx(0.1)
    assert of(
        ps_admm_correction, batch_size=2, gradient_bound=3, clip=1.0, solver_tolerance=0.5
    ).bound == pytest.approx(0.75)


def _total_variation(probabilities, shifts):
    """Total variation between N(0, 1) and the mixture of N(shift, 1), by integration."""
    x = np.linspace(-12, 60, 40_001)
    base = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    mix = sum(
        p * np.exp(-((x - s) ** 2) / 2) / math.sqrt(2 * math.pi) for p, s in zip(probabilities, shifts, strict=True)
    )
    return np.trapezoid(np.maximum(mix - base, 0), x)


def test_several_sampled_records_do_not_amplify_like_one():
    """Two records drawn one by one show up with probability 1 - (1-q)^2: twice the bound at rate q is no bound."""
    q, shift = 0.1, 8.0
    truth = _total_variation([(1 - q) ** 2, 2 * q * (1 - q), q * q], [0, shift, 2 * shift])
    naive = _total_variation([1 - q, q], [0, 2 * shift])
    assert truth > 1.8 * naive
    for build in (ps_admm_correction, sampled_gradient):
        whole = of(build, batch_size=10, gradient_bound=1, records_per_person=2, persons_sampled_whole=True)
        assert whole.bound == pytest.approx(2 * of(build, batch_size=10, gradient_bound=1).bound)
