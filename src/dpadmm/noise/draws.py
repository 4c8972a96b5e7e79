"""Asking for noise: who gets it (`Recipients`), when and what for (`Draw`), by which promise, and what comes back."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.errors import InputError
from dpadmm.privacy.protection import Certificate, Norm, Strength
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


class Distribution(Protocol):
    """A scale family of noise in R^d: `scale` times a parameter-free unit noise. The samplers draw it."""

    @property
    def scale(self) -> float:
        """The factor on the unit noise of the family."""


@dataclass(frozen=True)
class Gaussian:
    """N(0, std^2 I): independent normal coordinates; std > 0."""

    std: float

    def __post_init__(self) -> None:
        """Refuse a non-positive std."""
        checks.positive("std", self.std)

    @property
    def scale(self) -> float:
        """The standard deviation of a coordinate."""
        return self.std


@dataclass(frozen=True)
class SphericalLaplace:
    """Density proportional to exp(-rate ||v||_2): norm Gamma(d, 1/rate), direction uniform on the sphere; rate > 0."""

    rate: float

    def __post_init__(self) -> None:
        """Refuse a non-positive rate."""
        checks.positive("rate", self.rate)

    @property
    def scale(self) -> float:
        """1/rate: the mean norm per dimension."""
        return 1 / self.rate


@dataclass(frozen=True)
class CoordinateLaplace:
    """Independent Laplace coordinates of scale `scale` > 0: density proportional to exp(-||v||_1/scale)."""

    scale: float

    def __post_init__(self) -> None:
        """Refuse a non-positive scale."""
        checks.positive("scale", self.scale)


@singledispatch
def distribution_of(release: object) -> Distribution:
    """Return the noise a release promises.

    Refused: releases without noise, and Laplace noise on coordinates behind a Euclidean bound, which it does not
    protect.
    """
    raise InputError(f"A {type(release).__name__} promises no noise. Draw noise for a Gaussian or Laplace release.")


@distribution_of.register(GaussianRelease)
@distribution_of.register(SampledGaussianRelease)
def _(release: GaussianRelease | SampledGaussianRelease) -> Gaussian:
    return Gaussian(release.noise_std)


@distribution_of.register(SphericalLaplaceRelease)
@distribution_of.register(ObjectiveRelease)
def _(release: SphericalLaplaceRelease | ObjectiveRelease) -> SphericalLaplace:
    return SphericalLaplace(release.rate)


@distribution_of.register(CoordinateLaplaceRelease)
def _(release: CoordinateLaplaceRelease) -> CoordinateLaplace:
    if release.certificate.norm is not Norm.L1:
        raise InputError("Laplace noise on coordinates needs an L1 certificate, got one in the L2 norm.")
    return CoordinateLaplace(release.scale)


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
    """Values with noise on them, and what may be said of them.

    `grids` holds each agent's grid where values were rounded to one; `idealisations` the assumptions under which
    the certificates hold for these very bits.
    """

    values: Values
    origin: Origin
    idealisations: frozenset[Strength]
    grids: NDArray[np.float64] | None = None

    @property
    def is_private_release(self) -> bool:
        """Whether a ledger may record it: seeded noise can be repeated by anyone who knows the seed."""
        return self.origin is Origin.SECURE

    @property
    def strength(self) -> Strength:
        """The most modest of the idealisations; a solver's error is the coarser one."""
        for strength in (Strength.UP_TO_SOLVER_ERROR, Strength.UP_TO_FLOATING_POINT):
            if strength in self.idealisations:
                return strength
        return Strength.FULL


class Sampler(Protocol):
    """Adds the noise that releases promise to values."""

    @property
    def is_secure(self) -> bool:
        """Whether what it draws is a release."""

    def apart(self, number: int) -> "Sampler":
        """Return the source for one of several models of a run, so that seeded noise differs."""

    def perturb(self, values: Values, releases: Releases, draw: Draw, *, out: Values | None = None) -> Perturbed:
        """Return `values` (agents, dimension, replicas) plus fresh noise.

        `releases` is a sequence with one release per agent of the draw, in its order, or one release that stands
        for all of them and names one of them. `out` receives the result; it may be `values` itself.
        """


@dataclass(frozen=True, eq=False)
class Noise:
    """What releases promise: one family, the scale of each agent, and the certificate of each agent or of all."""

    family: type[Distribution]
    scales: NDArray[np.float64]
    certificates: tuple[Certificate, ...]

    @property
    def idealisations(self) -> frozenset[Strength]:
        """The idealisations of the certificates themselves."""
        return frozenset(certificate.strength for certificate in self.certificates) - {Strength.FULL}


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
    distributions = [distribution_of(record) for record in records]
    families = {type(distribution) for distribution in distributions}
    if len(families) != 1:
        names = ", ".join(sorted(family.__name__ for family in families))
        raise InputError(f"One draw takes one family of noise, got {names}. Make one draw per family.")
    scales = np.array([distribution.scale for distribution in distributions])
    # distribution_of has refused the records that carry no certificate
    certificates = tuple(record.certificate for record in records if isinstance(record, NoisyRelease))
    return Noise(families.pop(), np.broadcast_to(scales, agents.shape).copy(), certificates)


def checked_values(values: Values, draw: Draw) -> Values:
    """Return `values` as a plain float64 array of the draw's shape (agents, dimension, replicas)."""
    array = np.require(values, np.float64, ("C", "A", "W"))  # kernels are compiled for this layout only
    n, replicas = draw.recipients.agents.size, draw.recipients.replicas.size
    if array.ndim != 3 or array.shape[0] != n or array.shape[2] != replicas or array.shape[1] == 0:
        raise InputError(
            f"values must have the shape ({n} agents, dimension, {replicas} replicas), got {np.shape(values)}."
        )
    return array


def checked_out(out: Values | None, values: Values) -> Values:
    """Return the array to write to: a new one, or `out` if it can take the result."""
    if out is None:
        return np.empty_like(values)
    if out.shape != values.shape or out.dtype != np.float64 or not out.flags.c_contiguous or not out.flags.writeable:
        raise InputError(f"out must be a writable contiguous float64 array of shape {values.shape}.")
    return out


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
