"""Noise for real releases: operating-system entropy, and exact discrete sampling where an exact sampler exists (C8)."""

import math
import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.errors import InputError
from dpadmm.noise import exact
from dpadmm.noise.draws import Draw, Noise, NoiseFamily, Perturbed, Releases, Values, checked_values, promised_noise
from dpadmm.privacy.protection import Certificate
from dpadmm.privacy.records import Origin

LEAST_RATIO = 2**10
"""Least scale/grid: from here on the discrete Gaussian's delta exceeds the continuous one's by less than 2e-6 of it."""

MOST_RATIO = 2**40
"""Greatest scale/grid: beyond it 64-bit integers leave too little room for the value."""

_CHOSEN_BITS = 24  # rounding then adds sqrt(d) 2^-24 noise scales to the sensitivity; the cost does not depend on it
_MOST_MULTIPLE = 2.0**62
MOST_REACH = 2.0**58
"""How many grids a message may be expected to measure: 64-bit numbers hold 2^62, and runs overshoot."""


def grid_for(noise_scale: float) -> float:
    """Return the grid for noise of that standard deviation (Laplace: scale): a power of two.

    `2^24 <= noise_scale/grid < 2^25`. A function of public parameters only. The order of work is: calibrate
    roughly, choose the grid, widen the certificate by the rounding, calibrate on the widened certificate, draw on the
    same grid; the second calibration may move the scale, which the sampler allows between 2^10 and 2^40 grids.

    >>> grid_for(1.0) == 2.0**-24
    True
    """
    exponent = math.frexp(checks.positive("noise_scale", noise_scale))[1] - 1 - _CHOSEN_BITS
    if exponent < -1000:
        raise InputError(f"noise_scale must be at least 1e-290, got {shown(noise_scale)}. Rescale the problem.")
    return math.ldexp(1.0, exponent)


@dataclass(frozen=True)
class SecureSampler:
    """Noise for release: nothing is seeded, nothing can be drawn again.

    Gaussian and coordinate Laplace noise: values are rounded to the certificate's grid and an exact discrete
    Gaussian or Laplace multiple of the grid is added (`exact`). A certificate that does not count the rounding
    is refused. Spherical Laplace and objective noise have no exact sampler: they are drawn in floating point
    from operating-system entropy; their guarantee holds up to floating point.

    A draw has one replica: several noisy copies of a value would be several releases. Values that are not finite, or
    too large for 64-bit multiples of the grid, are refused; such a refusal is visible and not covered by the
    certificate.

    >>> from dpadmm.noise import Recipients, Draw, Slot
    >>> from dpadmm.privacy.protection import ONE_RECORD, Certificate
    >>> from dpadmm.privacy.records import GaussianRelease
    >>> grid = grid_for(2.0)
    >>> certificate = Certificate(
    ...     bound=1.0 + 2 * grid, protection=ONE_RECORD, theorem="C1 + C8",
    ...     assumptions=("unit-norm records",), grid=grid, grid_dimension=4,
    ... )
    >>> release = GaussianRelease(certificate=certificate, noise_std=2.0, agent=5, round=1)
    >>> result = SecureSampler().perturb(np.zeros((1, 4, 1)), release, Draw(Slot("message"), 1, Recipients.one(5)))
    >>> result.is_private_release, bool(np.all(result.values % grid == 0))
    (True, True)
    """

    @property
    def is_secure(self) -> bool:
        """Whether what it draws is a release."""
        return True

    def apart(self, number: int) -> "SecureSampler":
        """Return the source for one of several models of a run; the same, since no noise repeats."""
        return self

    def perturb(self, values: Values, releases: Releases, draw: Draw) -> Perturbed:
        """Return `values` plus the noise the releases promise; see `Sampler.perturb`."""
        noise = promised_noise(releases, draw)
        array = checked_values(values, draw)
        if draw.recipients.replicas.size != 1:
            raise InputError(
                f"A secure draw has one replica, got {draw.recipients.replicas.size}. "
                "Use SimulatedSampler for experiments."
            )
        if not np.all(np.isfinite(array)):
            raise InputError("Values to be released must be finite; some are not. Nothing was drawn.")
        if noise.family is NoiseFamily.SPHERICAL_LAPLACE:
            return Perturbed(_with_spherical(array, noise.scales), Origin.SECURE)
        law = exact.GAUSSIAN if noise.family is NoiseFamily.GAUSSIAN else exact.LAPLACE
        return Perturbed(_with_discrete(law, array, noise), Origin.SECURE)


def _with_discrete(law: exact.Law, values: Values, noise: Noise) -> Values:
    """Round to the grid and add exact discrete noise; everything is checked before anything is drawn."""
    grids = np.array([_checked_grid(certificate, values.shape[1]) for certificate in noise.certificates])
    pairs: dict[tuple[float, float], list[int]] = {}  # agents of one grid and scale share a call of the sampler
    grids = np.broadcast_to(grids, noise.scales.shape)
    for row, pair in enumerate(zip(grids.tolist(), noise.scales.tolist(), strict=True)):
        pairs.setdefault(pair, []).append(row)
    work = [(rows, grid, _ratio(scale, grid), _multiples(values[rows], grid)) for (grid, scale), rows in pairs.items()]
    out = np.empty_like(values)
    for rows, grid, ratio, whole in work:
        noisy = whole + exact.draw(law, ratio, whole.size).reshape(whole.shape)
        # multiples beyond 2^53 are rounded to a float here, after the noise: post-processing
        out[rows] = noisy.astype(np.float64) * grid
    return out


def _checked_grid(certificate: Certificate, d: int) -> float:
    """Return the certificate's grid if its bound counts the rounding of at least d coordinates."""
    grid = certificate.grid
    if grid is None:
        raise InputError(
            "The certificate does not count the rounding to a grid, so an exact release on a grid would exceed it. "
            "Choose grid_for(noise scale), widen the certificate by that grid, and calibrate on the result."
        )
    if math.frexp(checks.positive("grid", grid))[0] != 0.5:
        raise InputError(f"The certificate's grid must be a power of two, got {shown(grid)}. Get it from grid_for.")
    if certificate.grid_dimension < d:
        raise InputError(f"The certificate counts the rounding of {certificate.grid_dimension} coordinates, got {d}.")
    return grid


def _ratio(scale: float, grid: float) -> float:
    """Return scale/grid, which is exact: the grid is a power of two, so the sampler gets the very scale promised."""
    ratio = scale / grid
    if not LEAST_RATIO <= ratio <= MOST_RATIO:
        raise InputError(
            f"noise scale / grid must be from 2^10 to 2^40, got {scale:.6g}/{grid:.6g} = {ratio:.6g}. Get the grid "
            "from grid_for(noise scale)."
        )
    return ratio


def _multiples(values: Values, grid: float) -> NDArray[np.int64]:
    """Return the nearest whole multiples of the grid; dividing by a power of two is exact."""
    with np.errstate(over="ignore"):
        multiples = np.rint(values / grid)
    if np.max(np.abs(multiples)) > _MOST_MULTIPLE:
        raise InputError(
            f"A value to be released exceeds 2^62 grids of {grid:.3g}, and 64-bit numbers cannot hold it. Nothing was "
            "drawn: check that the run has not diverged."
        )
    return multiples.astype(np.int64)


def _with_spherical(values: Values, scales: Values) -> Values:
    """Direction from Box-Muller normals, norm from a sum of d exponentials; fresh entropy for every number."""
    n, d, _ = values.shape
    radius = np.sqrt(-2 * np.log(_uniforms((n, d))))
    normals = radius * np.cos(2 * np.pi * _uniforms((n, d)))
    lengths = -np.sum(np.log(_uniforms((n, d))), axis=1)
    factors = scales * lengths / np.linalg.norm(normals, axis=1)
    return np.asarray(values + (factors[:, None] * normals)[:, :, None])


def _uniforms(shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return uniform numbers (k + 1/2)/2^52, never 0 nor 1, straight from the operating system."""
    words = np.frombuffer(os.urandom(8 * math.prod(shape)), dtype=np.uint64).reshape(shape)
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
