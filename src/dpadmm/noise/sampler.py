"""Asking for noise (`Draw`), and two samplers that draw it: seeded for experiments, secure for releases.

Secure noise is from the operating system's entropy, exact where an exact sampler exists (C8); seeded noise is
reproducible: every number is a pure function of its name.
"""

import hashlib
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import count
from types import ModuleType
from typing import Any, ClassVar, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.errors import InputError
from dpadmm.noise import counters, exact
from dpadmm.noise.mechanisms import COORDINATOR, MessageKind
from dpadmm.privacy.protection import Certificate, Norm, power_of_two
from dpadmm.privacy.releases import (
    CoordinateLaplaceRelease,
    GaussianRelease,
    NoisyRelease,
    ObjectiveRelease,
    Release,
    SampledGaussianRelease,
    SphericalLaplaceRelease,
)

_LIMIT = 2**32  # indices are 32-bit words of the generator's counter

Values = NDArray[np.float64]
Releases = Release | Sequence[Release]


class NoiseFamily(Enum):
    """How noise in R^d is distributed: a scale times a parameter-free unit noise."""

    GAUSSIAN = "Gaussian"
    """N(0, scale^2 I): independent normal coordinates."""
    SPHERICAL_LAPLACE = "SphericalLaplace"
    """Density proportional to exp(-||v||_2/scale): norm Gamma(d, scale), direction uniform on the sphere."""
    COORDINATE_LAPLACE = "CoordinateLaplace"
    """Independent Laplace coordinates: density proportional to exp(-||v||_1/scale)."""


_FAMILIES: dict[type[NoisyRelease], tuple[NoiseFamily, str]] = {
    GaussianRelease: (NoiseFamily.GAUSSIAN, "noise_std"),
    SampledGaussianRelease: (NoiseFamily.GAUSSIAN, "noise_std"),
    SphericalLaplaceRelease: (NoiseFamily.SPHERICAL_LAPLACE, "rate"),
    ObjectiveRelease: (NoiseFamily.SPHERICAL_LAPLACE, "rate"),
    CoordinateLaplaceRelease: (NoiseFamily.COORDINATE_LAPLACE, "scale"),
}
"""The noise of each kind of release, and what the release calls its size."""


def family_of(release: Release) -> NoiseFamily:
    """Return the family of a release's noise; its scale is the release's `level`.

    Refused: releases without noise, and Laplace noise on coordinates behind a Euclidean bound, which it does not
    protect.
    """
    for kind, (family, size) in _FAMILIES.items():
        if isinstance(release, kind):
            checks.positive(size, getattr(release, size))
            if family is NoiseFamily.COORDINATE_LAPLACE and release.certificate.norm is not Norm.L1:
                raise InputError("Laplace noise on coordinates needs an L1 certificate, got one in the L2 norm.")
            return family
    raise InputError(f"A {type(release).__name__} carries no noise. Draw noise for a Gaussian or Laplace release.")


class Draw:
    """One request for noise: for which kind of message, in which round, for whom.

    agents, replicas: their indices in the whole experiment, or their numbers, counted from 0. round: 0 to 2^32 - 1.
    Refused: indices out of range, or given twice (they would share their noise).

    >>> Draw(MessageKind("message"), 1, agents=3, replicas=[7]).agents
    array([0, 1, 2])
    """

    def __init__(self, kind: MessageKind, round: int, agents: int | ArrayLike, replicas: int | ArrayLike = 1) -> None:
        if checks.count("round", round, least=0) >= _LIMIT:
            raise InputError(f"round must be below 2^32, got {round}.")
        self.kind, self.round = kind, round
        self.agents, self.replicas = _indices("agents", agents, COORDINATOR), _indices("replicas", replicas, 0)


def _indices(name: str, indices: int | ArrayLike, least: int) -> NDArray[np.int64]:
    array = np.asarray(indices)
    if array.ndim == 0:
        array = np.arange(checks.count(name, int(array)))
    if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer):
        raise InputError(f"{name} must be a non-empty list of whole numbers, got {safe_repr(indices)}.")
    array = array.astype(np.int64)
    if array.min() < least or array.max() >= _LIMIT - 1:
        raise InputError(f"{name} must be from {least} to 2^32 - 2, got {array.min()} to {array.max()}.")
    if np.any(np.diff(array) <= 0) and np.unique(array).size != array.size:
        raise InputError(f"{name} must not repeat: equal indices would share their noise.")
    array.flags.writeable = False
    return array


class Sampler(Protocol):
    """Adds the noise that releases are certified with to values."""

    @property
    def is_secure(self) -> bool:
        """Whether what it draws is a release."""

    def apart(self, number: int) -> "Sampler":
        """Return the source for one of several models of a run; so that seeded noise differs."""

    def perturb(self, values: Values, releases: Releases, draw: Draw) -> Values:
        """Return `values` (agents, dimension, replicas) plus fresh noise.

        `releases` is a sequence with one release per agent of the draw, in its order, or one release that stands
        for all of them and names one of them.
        """


def check_draw(values: Values, releases: Releases, draw: Draw) -> tuple[Values, NoiseFamily, list[NoisyRelease]]:
    """Return the values as kernels take them, the family of the noise, and the releases; refuse what does not fit."""
    array = np.require(values, np.float64, ("C", "A", "W"))  # kernels are compiled for this layout only
    n, replicas = draw.agents.size, draw.replicas.size
    if array.ndim != 3 or array.shape[0] != n or array.shape[2] != replicas or array.shape[1] == 0:
        raise InputError(
            f"values must have the shape ({n} agents, dimension, {replicas} replicas), got {np.shape(values)}."
        )
    if isinstance(releases, Sequence):
        if [release.agent for release in releases] != draw.agents.tolist():
            raise InputError(
                f"The {len(releases)} releases do not match the draw's {n} agents in order. Give one per agent, or a "
                "single one for all."
            )
    elif releases.agent not in draw.agents:
        raise InputError(f"The release belongs to agent {releases.agent}, which is not in the draw.")
    families, noisy = set(), []
    for release in releases if isinstance(releases, Sequence) else (releases,):
        if release.round != draw.round:
            raise InputError(f"The release belongs to round {release.round}, but the draw to round {draw.round}.")
        families.add(family_of(release))
        noisy.append(cast(NoisyRelease, release))  # the others have no family
    if len(families) != 1:
        names = ", ".join(sorted(family.value for family in families))
        raise InputError(f"One draw takes one family of noise, got {names}. Make one draw per family.")
    return array, families.pop(), noisy


def noise_scales(noisy: list[NoisyRelease], n: int) -> Values:
    """Return the scale of the noise of each of n agents."""
    return np.broadcast_to([release.level for release in noisy], n).copy()


LEAST_RATIO = 2**10
"""Least scale/grid: from here on the discrete Gaussian's delta exceeds the continuous one's by less than 2e-6 of it."""

MOST_RATIO = 2**40
"""Greatest scale/grid: beyond it 64-bit integers leave too little room for the value."""

_CHOSEN_BITS = 24  # rounding then adds sqrt(d) 2^-24 noise scales to the sensitivity; the cost does not depend on it
MOST_MULTIPLE = 2.0**62
MOST_GRIDS = 2.0**58
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
        raise InputError(f"noise_scale must be at least 1e-290, got {safe_repr(noise_scale)}. Rescale the problem.")
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

    >>> from dpadmm.noise.mechanisms import MessageKind
    >>> from dpadmm.noise.sampler import Draw
    >>> from dpadmm.privacy.protection import ONE_RECORD, Certificate
    >>> from dpadmm.privacy.releases import GaussianRelease
    >>> grid = grid_for(2.0)
    >>> certificate = Certificate(
    ...     bound=1.0 + 2 * grid, protection=ONE_RECORD, theorem="C1 + C8",
    ...     assumptions=("unit-norm records",), grid=grid, grid_dimension=4,
    ... )
    >>> release = GaussianRelease(certificate=certificate, noise_std=2.0, agent=5, round=1)
    >>> result = SecureSampler().perturb(np.zeros((1, 4, 1)), release, Draw(MessageKind("message"), 1, [5]))
    >>> bool(np.all(result % grid == 0))
    True
    """

    is_secure: ClassVar[bool] = True

    def apart(self, number: int) -> "SecureSampler":
        """Return the source for one of several models of a run; the same, since no noise repeats."""
        return self

    def perturb(self, values: Values, releases: Releases, draw: Draw) -> Values:
        """Return `values` plus the noise the releases are certified with; see `Sampler.perturb`."""
        array, family, noisy = check_draw(values, releases, draw)
        if draw.replicas.size != 1:
            raise InputError(
                f"A secure draw has one replica, got {draw.replicas.size}. Use SimulatedSampler for experiments."
            )
        if not np.all(np.isfinite(array)):
            raise InputError("Values to be released must be finite; some are not. Nothing was drawn.")
        scales = noise_scales(noisy, len(array))
        if family is NoiseFamily.SPHERICAL_LAPLACE:
            return _with_spherical(array, scales)
        grids = [_checked_grid(release.certificate, array.shape[1]) for release in noisy]
        law = exact.GAUSSIAN if family is NoiseFamily.GAUSSIAN else exact.LAPLACE
        return _with_discrete(law, array, scales, np.broadcast_to(grids, scales.shape))


def _with_discrete(law: exact.Law, values: Values, scales: Values, grids: Values) -> Values:
    """Round to the grid and add exact discrete noise; everything is checked before anything is drawn."""
    pairs: dict[tuple[float, float], list[int]] = {}  # agents of one grid and scale share a call of the sampler
    for row, pair in enumerate(zip(grids.tolist(), scales.tolist(), strict=True)):
        pairs.setdefault(pair, []).append(row)
    work = [
        (rows, grid, _ratio(scale, grid), to_multiples(values[rows], grid)) for (grid, scale), rows in pairs.items()
    ]
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
    power_of_two(grid)
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


def to_multiples(values: Values, grid: float, most: float = MOST_MULTIPLE) -> NDArray[np.int64]:
    """Return the nearest whole multiples of the grid, `most` at most; dividing by a power of two is exact."""
    with np.errstate(over="ignore"):
        multiples = np.rint(values / grid)
    if not np.all(np.abs(multiples) <= most):
        raise InputError(
            f"A value to be released is not finite or exceeds 2^62 grids of {grid:.3g}, which 64-bit numbers cannot "
            "hold. Nothing was drawn: check that the run has not diverged."
        )
    return multiples.astype(np.int64)


def sum_on_grid(messages: Values, grid: float | None) -> tuple[Values, Values]:
    """Return two parts (1, d, R) of the sum of all messages, each rounded to the grid (C8); the sum of floats without.

    Multiples of the grid are added as whole numbers. The second part is below 2^40 grids, so that its noise is added
    exactly, too; the floating-point sum of both is post-processing.
    """
    if grid is None:
        return np.zeros(1), messages.sum(axis=0, keepdims=True)
    total = to_multiples(messages, grid, MOST_MULTIPLE / len(messages)).sum(axis=0, keepdims=True)
    near = total % 2**40
    return (total - near) * grid, near * grid


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
    bits = np.frombuffer(os.urandom(8 * math.prod(shape)), dtype=np.uint64).reshape(shape)
    return ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


_SEED_STEP = 2**64  # seeds of models that are run together, apart from each other and from other users' seeds

Uint64s: TypeAlias = NDArray[np.uint64]
Keys: TypeAlias = tuple[Uint64s, Uint64s]

_CHUNK = 2**16  # numbers of scratch at a time for spherical noise
_FEW, _MOST_SMALL_DRAWS, _SMALL_DRAWS = 2000, 2000, count()  # draws of few numbers that go by NumPy


@dataclass(frozen=True)
class SimulatedSampler:
    """Seeded noise: Philox4x32-10, keyed (seed, message kind), counted by (round, agent, replica, coordinate).

    The same numbers come for a batch of all agents and for one agent alone, and for any subset of the replicas, bit for
    bit. Results are no private release.

    Parameters
    ----------
    seed : whole number >= 0, of any size.

    >>> from dpadmm.noise.mechanisms import MessageKind
    >>> from dpadmm.noise.sampler import Draw
    >>> from dpadmm.privacy.protection import ONE_RECORD, Certificate
    >>> from dpadmm.privacy.releases import GaussianRelease
    >>> certificate = Certificate(
    ...     bound=1.0, protection=ONE_RECORD, theorem="C1", assumptions=("unit-norm records",)
    ... )
    >>> release = GaussianRelease(certificate=certificate, noise_std=2.0, agent=0, round=1)
    >>> draw = Draw(MessageKind("message"), 1, agents=3, replicas=2)
    >>> result = SimulatedSampler(seed=7).perturb(np.zeros((3, 4, 2)), release, draw)
    >>> result.shape
    (3, 4, 2)
    """

    seed: int
    is_secure: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse what is no seed."""
        seed: Any = self.seed
        if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
            raise InputError(f"seed must be a whole number of at least 0, of any size, got {safe_repr(seed)}.")

    def apart(self, number: int) -> "SimulatedSampler":
        """Return the source for one of several models of a run; seeds differ."""
        return replace(self, seed=self.seed + number * _SEED_STEP)

    def perturb(self, values: Values, releases: Releases, draw: Draw) -> Values:
        """Return `values` plus the noise the releases are certified with; see `Sampler.perturb`."""
        array, family, noisy = check_draw(values, releases, draw)
        result, keys = np.empty_like(array), (_key(self.seed, draw, 0), _key(self.seed, draw, 1))
        _add(
            family,
            array,
            noise_scales(noisy, len(array)),
            _as_uint64s(draw.agents),
            _as_uint64s(draw.replicas),
            keys,
            result,
        )
        return result


def _key(seed: int, draw: Draw, purpose: int) -> Uint64s:
    """Return the round and the Philox key of (seed, kind, purpose); the name comes last, so no two texts agree."""
    text = f"dpadmm noise 1|{seed}|{purpose}|{draw.kind.step}|{draw.kind.name}"
    low, high = np.frombuffer(hashlib.blake2b(text.encode(), digest_size=8).digest(), dtype="<u4")
    return np.array([draw.round, low, high], dtype=np.uint64)


def _as_uint64s(indices: NDArray[np.int64]) -> Uint64s:
    """Return indices as 32-bit counter words; the coordinator's -1 becomes 2^32 - 1."""
    return (indices & 0xFFFFFFFF).astype(np.uint64)


def _kernels(numbers: int) -> ModuleType:
    """Return compiled code for many numbers or many draws, or where Numba is loaded anyway; the bits are the same."""
    if numbers <= _FEW and next(_SMALL_DRAWS) < _MOST_SMALL_DRAWS and "numba" not in sys.modules:
        return counters
    from dpadmm.noise import kernels

    return kernels


def _add(
    family: NoiseFamily, values: Values, scales: Values, agents: Uint64s, replicas: Uint64s, keys: Keys, out: Values
) -> None:
    """Write the values plus noise; `keys[1]` is for the norms of spherical noise, sums of d exponentials."""
    kernels = _kernels(values.size)
    if family is not NoiseFamily.SPHERICAL_LAPLACE:
        kind = counters.NORMAL if family is NoiseFamily.GAUSSIAN else counters.LAPLACE
        kernels.add_noise(kind, values, scales, agents, replicas, keys[0], out)
        return
    step = max(1, _CHUNK // (values.shape[1] * values.shape[2]))
    for start in range(0, values.shape[0], step):
        which = slice(start, start + step)
        zeros, ones = np.zeros(values[which].shape), np.ones(agents[which].size)
        normals, lengths = np.empty_like(zeros), np.empty_like(zeros)
        kernels.add_noise(counters.NORMAL, zeros, ones, agents[which], replicas, keys[0], normals)
        kernels.add_noise(counters.EXPONENTIAL, zeros, ones, agents[which], replicas, keys[1], lengths)
        counters.add_spherical(values[which], scales[which], normals, lengths, out[which])
