"""Asking for noise: who gets it (`Recipients`), when and what for (`Draw`), by which promise, and what comes back."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.errors import InputError
from dpadmm.privacy.protection import Certificate, Norm
from dpadmm.privacy.records import (
    CoordinateLaplaceRelease,
    GaussianRelease,
    NoisyRelease,
    ObjectiveRelease,
    Origin,
    Release,
    SampledGaussianRelease,
    SphericalLaplaceRelease,
)

COORDINATOR = -1
"""Index of the coordinator where an agent is asked for."""

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
    """Return the family of the noise that a release promises; its scale is the release's `level`.

    Refused: releases without noise, and Laplace noise on coordinates behind a Euclidean bound, which it does not
    protect.
    """
    family, size = next((found for kind, found in _FAMILIES.items() if isinstance(release, kind)), (None, ""))
    if family is None or not isinstance(release, NoisyRelease):
        raise InputError(f"A {type(release).__name__} promises no noise. Draw noise for a Gaussian or Laplace release.")
    checks.positive(size, getattr(release, size))
    if family is NoiseFamily.COORDINATE_LAPLACE and release.certificate.norm is not Norm.L1:
        raise InputError("Laplace noise on coordinates needs an L1 certificate, got one in the L2 norm.")
    return family


@dataclass(frozen=True, order=True)
class Slot:
    """What a number is for within a round, e.g. `Slot("message")` or `Slot("inner", 17)`; slots never share noise."""

    name: str
    step: int = 0

    def __post_init__(self) -> None:
        """Refuse nameless slots."""
        if not self.name:
            raise InputError("A slot needs a name, got an empty one.")
        checks.count("step", self.step, least=0)


@dataclass(frozen=True, eq=False)
class Recipients:
    """The agents and replicas at hand, by their indices in the whole experiment; checked once, used every round.

    >>> Recipients.of(3, 2)
    Recipients(3 agents, 2 replicas)
    >>> Recipients.one(agent=1).agents
    array([1])
    """

    agents: NDArray[np.int64]
    replicas: NDArray[np.int64]

    def __post_init__(self) -> None:
        """Refuse indices out of range or given twice (they would share their noise)."""
        object.__setattr__(self, "agents", _indices("agents", self.agents, COORDINATOR))
        object.__setattr__(self, "replicas", _indices("replicas", self.replicas, 0))

    @classmethod
    def of(cls, agents: int | ArrayLike, replicas: int | ArrayLike = 1) -> "Recipients":
        """Return them from indices, or from numbers of agents and replicas counted from 0."""
        return cls(_expand("agents", agents), _expand("replicas", replicas))

    @classmethod
    def one(cls, agent: int, replica: int = 0) -> "Recipients":
        """Return those of a silo: one agent, one replica."""
        return cls(np.array([agent]), np.array([replica]))

    def __repr__(self) -> str:
        """Say the sizes."""
        return f"Recipients({self.agents.size} agents, {self.replicas.size} replicas)"


@dataclass(frozen=True, eq=False)
class Draw:
    """One request: round (0 to 2^32 - 1), slot, and who gets it."""

    slot: Slot
    round: int
    recipients: Recipients

    def __post_init__(self) -> None:
        """Refuse rounds that are no 32-bit numbers."""
        if checks.count("round", self.round, least=0) >= _LIMIT:
            raise InputError(f"round must be below 2^32, got {self.round}.")


@dataclass(frozen=True, eq=False)
class Perturbed:
    """Values with noise on them, and where it came from."""

    values: Values
    origin: Origin

    @property
    def is_private_release(self) -> bool:
        """Whether a ledger may record it: seeded noise can be repeated by anyone who knows the seed."""
        return self.origin is Origin.SECURE


class Sampler(Protocol):
    """Adds the noise that releases promise to values."""

    @property
    def is_secure(self) -> bool:
        """Whether what it draws is a release."""

    def apart(self, number: int) -> "Sampler":
        """Return the source for one of several models of a run; so that seeded noise differs."""

    def perturb(self, values: Values, releases: Releases, draw: Draw) -> Perturbed:
        """Return `values` (agents, dimension, replicas) plus fresh noise.

        `releases` is a sequence with one release per agent of the draw, in its order, or one release that stands
        for all of them and names one of them.
        """


@dataclass(frozen=True, eq=False)
class Noise:
    """What releases promise: one family, the scale of each agent, and the certificate of each agent or of all."""

    family: NoiseFamily
    scales: NDArray[np.float64]
    certificates: tuple[Certificate, ...]


def promised_noise(releases: Releases, draw: Draw) -> Noise:
    """Return the noise of the draw's agents, after checking that the releases are about this draw."""
    agents = draw.recipients.agents
    if isinstance(releases, Sequence):
        if [release.agent for release in releases] != agents.tolist():
            raise InputError(
                f"The {len(releases)} releases do not match the draw's {agents.size} agents in order. Give one per "
                "agent, or a single one for all."
            )
        records = tuple(releases)
    else:
        if releases.agent not in agents:
            raise InputError(f"The release belongs to agent {releases.agent}, which is not in the draw.")
        records = (releases,)
    for record in records:
        if record.round != draw.round:
            raise InputError(f"The release belongs to round {record.round}, but the draw to round {draw.round}.")
    families = {family_of(record) for record in records}
    if len(families) != 1:
        names = ", ".join(sorted(family.value for family in families))
        raise InputError(f"One draw takes one family of noise, got {names}. Make one draw per family.")
    noisy = [record for record in records if isinstance(record, NoisyRelease)]  # the others have no family
    scales = np.array([record.level for record in noisy])
    return Noise(families.pop(), np.broadcast_to(scales, agents.shape).copy(), tuple(r.certificate for r in noisy))


def checked_values(values: Values, draw: Draw) -> Values:
    """Return `values` as a plain float64 array of the draw's shape (agents, dimension, replicas)."""
    array = np.require(values, np.float64, ("C", "A", "W"))  # kernels are compiled for this layout only
    n, replicas = draw.recipients.agents.size, draw.recipients.replicas.size
    if array.ndim != 3 or array.shape[0] != n or array.shape[2] != replicas or array.shape[1] == 0:
        raise InputError(
            f"values must have the shape ({n} agents, dimension, {replicas} replicas), got {np.shape(values)}."
        )
    return array


def _expand(name: str, indices: int | ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(indices)
    return np.arange(checks.count(name, int(array))) if array.ndim == 0 else array


def _indices(name: str, indices: ArrayLike, least: int) -> NDArray[np.int64]:
    array = np.asarray(indices)
    if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer):
        raise InputError(f"{name} must be a non-empty list of whole numbers, got {shown(indices)}.")
    array = array.astype(np.int64)
    if array.min() < least or array.max() >= _LIMIT - 1:
        raise InputError(f"{name} must be from {least} to 2^32 - 2, got {array.min()} to {array.max()}.")
    if np.any(np.diff(array) <= 0) and np.unique(array).size != array.size:
        raise InputError(f"{name} must not repeat: equal indices would share their noise.")
    array.flags.writeable = False
    return array
