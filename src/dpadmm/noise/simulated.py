"""Reproducible noise for experiments: every number is a pure function of its name."""

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from numbers import Integral
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.errors import InputError
from dpadmm.noise.draws import (
    CoordinateLaplace,
    Distribution,
    Draw,
    Gaussian,
    Perturbed,
    Releases,
    Slot,
    SphericalLaplace,
    Values,
    checked_out,
    checked_values,
    promised_noise,
)
from dpadmm.privacy.protection import Strength
from dpadmm.privacy.records import Origin

_CHUNK = 2**16  # numbers of scratch at a time for spherical noise
_WORTH_A_THREAD = 2**15  # numbers below which a thread costs more than it brings


@dataclass(frozen=True)
class SimulatedSampler:
    """Seeded noise: Philox4x32-10, keyed (seed, slot), counted by (round, agent, replica, coordinate).

    The same numbers come for a batch of all agents and for one agent alone, for any subset of the replicas and any
    number of threads, bit for bit. Results are labelled as not a private release.

    Parameters
    ----------
    seed : whole number >= 0, of any size.
    threads : number of threads that share the agents of a draw, >= 1.

    >>> from dpadmm.noise import Recipients, Draw, Slot
    >>> from dpadmm.privacy.protection import ONE_RECORD, Certificate
    >>> from dpadmm.privacy.records import GaussianRelease
    >>> certificate = Certificate(
    ...     bound=1.0, protection=ONE_RECORD, theorem="C1", assumptions=("unit-norm records",)
    ... )
    >>> release = GaussianRelease(certificate=certificate, noise_std=2.0, agent=0, round=1)
    >>> draw = Draw(Slot("message"), 1, Recipients.of(agents=3, replicas=2))
    >>> result = SimulatedSampler(seed=7).perturb(np.zeros((3, 4, 2)), release, draw)
    >>> result.values.shape, result.is_private_release
    ((3, 4, 2), False)
    """

    seed: int
    threads: int = 1

    def __post_init__(self) -> None:
        """Refuse seeds and thread counts that are none."""
        if not _is_whole(self.seed) or self.seed < 0:
            raise InputError(f"seed must be a whole number of at least 0, of any size, got {shown(self.seed)}.")
        checks.count("threads", self.threads)

    def perturb(self, values: Values, releases: Releases, draw: Draw, *, out: Values | None = None) -> Perturbed:
        """Return `values` plus the noise the releases promise; see `Sampler.perturb`."""
        noise = promised_noise(releases, draw)
        array = checked_values(values, draw)
        result = checked_out(out, array)
        keys = _key(self.seed, draw, 0), _key(self.seed, draw, 1)
        stream = _Stream(_words(draw.recipients.agents), _words(draw.recipients.replicas), keys)
        add = _ADDERS[noise.family]

        def work(part: slice) -> None:
            add(array[part], noise.scales[part], stream.part(part), result[part])

        parts = _parts(array.shape[0], min(self.threads, 1 + array.size // _WORTH_A_THREAD))
        if len(parts) == 1:
            work(parts[0])
        else:
            with ThreadPoolExecutor(len(parts)) as pool:
                list(pool.map(work, parts))
        return Perturbed(result, Origin.SIMULATED, noise.idealisations | {Strength.UP_TO_FLOATING_POINT})


def _is_whole(number: object) -> bool:
    return isinstance(number, Integral) and not isinstance(number, bool)


def _key(seed: int, draw: Draw, purpose: int) -> NDArray[np.uint64]:
    """Return the round and the Philox key of (seed, slot, purpose); the name comes last, so no two texts agree."""
    slot: Slot = draw.slot
    text = f"dpadmm noise 1|{seed}|{purpose}|{slot.step}|{slot.name}"
    low, high = np.frombuffer(hashlib.blake2b(text.encode(), digest_size=8).digest(), dtype="<u4")
    return np.array([draw.round, low, high], dtype=np.uint64)


def _words(indices: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return indices as 32-bit counter words; the coordinator's -1 becomes 2^32 - 1."""
    return (indices & 0xFFFFFFFF).astype(np.uint64)


def _parts(n: int, parts: int) -> list[slice]:
    edges = np.linspace(0, n, min(n, parts) + 1).astype(int)
    return [slice(int(a), int(b)) for a, b in pairwise(edges)]


@dataclass(frozen=True, eq=False)
class _Stream:
    """The counters and keys of one draw's agents; `keys[1]` is for the norms of spherical noise."""

    agents: NDArray[np.uint64]
    replicas: NDArray[np.uint64]
    keys: tuple[NDArray[np.uint64], NDArray[np.uint64]]

    def part(self, which: slice) -> "_Stream":
        return _Stream(self.agents[which], self.replicas, self.keys)


@cache
def _kernels() -> ModuleType:
    """Return the compiled kernels, which are slow to load, when noise is first drawn."""
    from dpadmm.noise import kernels

    return kernels


def _add_gaussian(values: Values, scales: Values, stream: _Stream, out: Values) -> None:
    kernels = _kernels()
    kernels.add_noise(kernels.NORMAL, values, scales, stream.agents, stream.replicas, stream.keys[0], out)


def _add_laplace(values: Values, scales: Values, stream: _Stream, out: Values) -> None:
    kernels = _kernels()
    kernels.add_noise(kernels.LAPLACE, values, scales, stream.agents, stream.replicas, stream.keys[0], out)


def _add_spherical(values: Values, scales: Values, stream: _Stream, out: Values) -> None:
    """Direction from normals; norm Gamma(d) as a sum of d exponentials of another key."""
    kernels = _kernels()
    step = max(1, _CHUNK // (values.shape[1] * values.shape[2]))
    for start in range(0, values.shape[0], step):
        which = slice(start, start + step)
        part = stream.part(which)
        zeros, ones = np.zeros(values[which].shape), np.ones(part.agents.size)
        normals, lengths = np.empty_like(zeros), np.empty_like(zeros)
        kernels.add_noise(kernels.NORMAL, zeros, ones, part.agents, part.replicas, part.keys[0], normals)
        kernels.add_noise(kernels.EXPONENTIAL, zeros, ones, part.agents, part.replicas, part.keys[1], lengths)
        kernels.add_spherical(values[which], scales[which], normals, lengths, out[which])


_ADDERS: dict[type[Distribution], Callable[[Values, Values, _Stream, Values], None]] = {
    Gaussian: _add_gaussian,
    CoordinateLaplace: _add_laplace,
    SphericalLaplace: _add_spherical,
}
