"""Reproducible noise for experiments: every number is a pure function of its name."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.errors import InputError
from dpadmm.noise.draws import Draw, NoiseFamily, Perturbed, Releases, Values, checked_values, promised_noise
from dpadmm.privacy.records import Origin

_SEED_STEP = 2**64  # seeds of models that are run together, apart from each other and from other users' seeds

Words: TypeAlias = NDArray[np.uint64]
Keys: TypeAlias = tuple[Words, Words]

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
        seed: Any = self.seed
        if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
            raise InputError(f"seed must be a whole number of at least 0, of any size, got {shown(seed)}.")
        checks.count("threads", self.threads)

    @property
    def is_secure(self) -> bool:
        """Whether what it draws is a release."""
        return False

    def apart(self, number: int) -> "SimulatedSampler":
        """Return the source for one of several models of a run; seeds differ."""
        return replace(self, seed=self.seed + number * _SEED_STEP)

    def perturb(self, values: Values, releases: Releases, draw: Draw) -> Perturbed:
        """Return `values` plus the noise the releases promise; see `Sampler.perturb`."""
        noise = promised_noise(releases, draw)
        array = checked_values(values, draw)
        result = np.empty_like(array)
        agents, replicas = _words(draw.recipients.agents), _words(draw.recipients.replicas)
        keys = _key(self.seed, draw, 0), _key(self.seed, draw, 1)

        def work(part: slice) -> None:
            _add(noise.family, array[part], noise.scales[part], agents[part], replicas, keys, result[part])

        parts = _parts(array.shape[0], min(self.threads, 1 + array.size // _WORTH_A_THREAD))
        if len(parts) == 1:
            work(parts[0])
        else:
            with ThreadPoolExecutor(len(parts)) as pool:
                list(pool.map(work, parts))
        return Perturbed(result, Origin.SIMULATED)


def _key(seed: int, draw: Draw, purpose: int) -> Words:
    """Return the round and the Philox key of (seed, slot, purpose); the name comes last, so no two texts agree."""
    text = f"dpadmm noise 1|{seed}|{purpose}|{draw.slot.step}|{draw.slot.name}"
    low, high = np.frombuffer(hashlib.blake2b(text.encode(), digest_size=8).digest(), dtype="<u4")
    return np.array([draw.round, low, high], dtype=np.uint64)


def _words(indices: NDArray[np.int64]) -> Words:
    """Return indices as 32-bit counter words; the coordinator's -1 becomes 2^32 - 1."""
    return (indices & 0xFFFFFFFF).astype(np.uint64)


def _parts(n: int, parts: int) -> list[slice]:
    edges = np.linspace(0, n, min(n, parts) + 1).astype(int)
    return [slice(int(a), int(b)) for a, b in pairwise(edges)]


def _add(
    family: NoiseFamily, values: Values, scales: Values, agents: Words, replicas: Words, keys: Keys, out: Values
) -> None:
    """Write the values plus noise; `keys[1]` is for the norms of spherical noise, sums of d exponentials."""
    from dpadmm.noise import kernels  # slow to load: compiled code

    if family is not NoiseFamily.SPHERICAL_LAPLACE:
        kind = kernels.NORMAL if family is NoiseFamily.GAUSSIAN else kernels.LAPLACE
        kernels.add_noise(kind, values, scales, agents, replicas, keys[0], out)
        return
    step = max(1, _CHUNK // (values.shape[1] * values.shape[2]))
    for start in range(0, values.shape[0], step):
        which = slice(start, start + step)
        zeros, ones = np.zeros(values[which].shape), np.ones(agents[which].size)
        normals, lengths = np.empty_like(zeros), np.empty_like(zeros)
        kernels.add_noise(kernels.NORMAL, zeros, ones, agents[which], replicas, keys[0], normals)
        kernels.add_noise(kernels.EXPONENTIAL, zeros, ones, agents[which], replicas, keys[1], lengths)
        kernels.add_spherical(values[which], scales[which], normals, lengths, out[which])
