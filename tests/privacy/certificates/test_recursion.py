"""The hidden-state recursion against an adversary who picks a new matrix and a new push in every step."""

import math

import numpy as np
import pytest

from dpadmm.privacy.certificates.hidden_state import SpectralInterval, hidden_drift, prox_spectrum

SPECTRA = [
    SpectralInterval(1 / 6, 2 / 7),
    SpectralInterval(0.0, 0.5),
    SpectralInterval(0.05, 0.95),
    SpectralInterval(0.3, 0.3),
    SpectralInterval(0.6, 0.9),
]


def worst_step(d, b, spectrum):
    """Return `M d + (I - M) b` for the symmetric M in the spectrum that makes it longest (a reflection)."""
    c, r = spectrum.centre, spectrum.radius
    mid, arm = c * d + (1 - c) * b, d - b
    size = np.linalg.norm(mid, axis=1, keepdims=True)
    ray = np.where(size > 0, mid / np.where(size > 0, size, 1), [1.0, 0.0])
    return mid + r * np.linalg.norm(arm, axis=1, keepdims=True) * ray


@pytest.mark.parametrize("spectrum", SPECTRA)
def test_random_matrices_never_exceed(spectrum, rng):
    d = np.zeros((20_000, 3))
    for bound in hidden_drift(spectrum, 1.0, 12)[1:]:
        q = np.linalg.qr(rng.standard_normal((2000, 3, 3)))[0].repeat(10, axis=0)
        ends = rng.choice([spectrum.low, spectrum.high], (20_000, 3))
        m = np.einsum("tij,tj,tkj->tik", q, ends, q)
        b = rng.standard_normal(d.shape)
        b /= np.linalg.norm(b, axis=1, keepdims=True)
        candidates = [np.einsum("tij,tj->ti", m, d - a) + a for a in (b, -b, d / np.maximum(np.linalg.norm(d), 1e-9))]
        d = max(candidates, key=lambda a: np.linalg.norm(a, axis=1).mean())
        assert np.linalg.norm(d, axis=1).max() <= bound * (1 + 1e-12)


@pytest.mark.parametrize("spectrum", SPECTRA)
def test_greedy_planar_adversary_reaches_the_recursion(spectrum):
    """Best angle of the push and best reflection in every step: close to sqrt(V_k), never above."""
    angle = np.linspace(0, np.pi, 20_001)
    pushes = np.stack([np.cos(angle), np.sin(angle)], 1)
    d = np.zeros(2)
    for bound in hidden_drift(spectrum, 1.0, 40)[1:]:
        moved = worst_step(np.broadcast_to(d, pushes.shape), pushes, spectrum)
        length = np.linalg.norm(moved, axis=1)
        assert length.max() <= bound * (1 + 1e-12)
        d = np.array([length.max(), 0.0])  # directions are free: rotate the picture
    assert d[0] >= 0.99 * bound


def test_worst_step_is_a_matrix_of_the_spectrum():
    """The reflection behind `worst_step`: symmetric, eigenvalues c +- r."""
    spectrum, d, b = SpectralInterval(0.1, 0.8), np.array([0.9, 0.3]), np.array([-0.2, 1.0])
    c, r = spectrum.centre, spectrum.radius
    mid, arm = c * d + (1 - c) * b, d - b
    axis = mid / np.linalg.norm(mid) + arm / np.linalg.norm(arm)
    axis /= np.linalg.norm(axis)
    m = c * np.eye(2) + r * (2 * np.outer(axis, axis) - np.eye(2))
    np.testing.assert_allclose(m @ d + (np.eye(2) - m) @ b, worst_step(d[None], b[None], spectrum)[0], atol=1e-14)
    np.testing.assert_allclose(np.linalg.eigvalsh(m), [0.1, 0.8])


def limit(spectrum, push):
    """What V increases to (docs/proofs/c3.md, lemma 3)."""
    c, r = spectrum.centre, spectrum.radius
    if r == 0:
        return push
    stretch = 1 + r * r / (c * (1 - c))
    return push * math.sqrt(stretch * (1 - c) ** 2 / ((1 - spectrum.high) * (1 - spectrum.low)))


@pytest.mark.parametrize("spectrum", [*SPECTRA, SpectralInterval(0.0, 0.0)])
def test_drift_grows_to_its_limit(spectrum):
    values = np.array(hidden_drift(spectrum, 2.0, 3000))
    assert np.all(np.diff(values) >= -1e-12)
    assert values[-1] == pytest.approx(limit(spectrum, 2.0), rel=1e-6)
    assert values.max() <= limit(spectrum, 2.0) * (1 + 1e-12)


@pytest.mark.parametrize("gamma_l", [0.1, 1.0, 20.0])
def test_limit_without_strong_convexity(gamma_l):
    spectrum = prox_spectrum(step=gamma_l, strong_convexity=0.0, smoothness=1.0)
    assert limit(spectrum, 1.0) == pytest.approx(math.sqrt(1 + gamma_l / 2), rel=1e-12)


def test_relaxed_spectrum():
    half, quarter = SpectralInterval(0.2, 0.6).relax(0.5), SpectralInterval(0.2, 0.6).relax(0.25)
    assert (half.low, half.high) == pytest.approx((0.2, 0.6))
    assert (quarter.low, quarter.high) == pytest.approx((0.6, 0.8))
