"""Masks of silos: every pair shares a stream of words that one of them adds and the other subtracts.

A silo has one X25519 key for a run, made for it and erased after it. For every kind of message and round, HKDF-SHA256
turns a pair's common secret into a key for ChaCha20, whose stream is the mask; `context` names the run (the digest of
all its terms) and who takes part, so that no stream ever serves twice. The pair's places are part of the derivation: a
silo that announced somebody else's key as its own would otherwise give a third silo the same mask with both, once added
and once subtracted. Whose public keys these are is for the caller to know: a key from a stranger hides nothing from the
stranger.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from dpadmm.errors import InputError

Uint64s = NDArray[np.uint64]

MOST_MULTIPLE = 2.0**52
"""How many grids a silo's value may measure: 64-bit floats hold whole numbers up to twice that, without loss."""


class Masks(Protocol):
    """What one silo adds to its words so that they mean nothing by themselves; those of all silos add up to zero."""

    def values(self, kind: str, k: int, size: int) -> Uint64s:
        """Return the masks of a message kind and round, `size` words."""
        ...


def to_uint64(values: NDArray[np.float64], grid: float) -> Uint64s:
    """Return the nearest multiples of the grid as words, in two's complement; refuse what words cannot hold exactly.

    >>> to_uint64(np.array([0.5, -0.25]), 0.25).astype(np.int64).tolist()
    [2, -1]
    """
    multiples = np.rint(values / grid)
    if not np.all(np.abs(multiples) <= MOST_MULTIPLE):
        raise InputError(
            f"A silo's part of a sum is not finite or exceeds 2^52 grids of {grid:.3g}, so the sum could not be "
            "computed exactly. It was not sent: check that the run has not diverged, or choose a smaller epsilon."
        )
    return multiples.astype(np.int64).view(np.uint64)


def from_uint64(total: Uint64s, grid: float) -> NDArray[np.float64]:
    """Return the values that a sum of words stands for."""
    return total.view(np.int64).astype(np.float64) * grid


def sum_uint64(parts: Sequence[Uint64s]) -> Uint64s:
    """Return the sum modulo 2^64."""
    with np.errstate(over="ignore"):
        return np.asarray(np.sum(np.stack(parts), axis=0, dtype=np.uint64))


def add_masks(values: Uint64s, masks: Masks, kind: str, k: int) -> Uint64s:
    """Return what leaves a silo."""
    return sum_uint64([values, masks.values(kind, k, values.size)])


if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

_PURPOSE = b"dpadmm masked sum, version 1"
_PRIME = 2**255 - 19  # keys are numbers modulo it, little end first


@dataclass(frozen=True)
class MaskKey:
    """A silo's secret key of one run.

    >>> MaskKey.create().public == MaskKey.create().public
    False
    """

    private: "X25519PrivateKey" = field(repr=False)

    @classmethod
    def create(cls) -> "MaskKey":
        """Make a key, from the operating system's entropy."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        return cls(X25519PrivateKey.generate())

    @classmethod
    def of(cls, secret: bytes) -> "MaskKey":
        """Return the key that `secret` wrote."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        return cls(X25519PrivateKey.from_private_bytes(secret))

    @property
    def secret(self) -> bytes:
        """The key itself, to be kept as long as the run lasts."""
        return self.private.private_bytes_raw()

    @property
    def public(self) -> str:
        """What the other silos need, 64 hex digits."""
        return self.private.public_key().public_bytes_raw().hex()

    def shared_with(self, public: str) -> bytes:
        """Return the common secret with the owner of a public key; refuse keys that make it predictable."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        try:
            return self.private.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(public)))
        except ValueError as problem:
            raise InputError("A mask key is not a usable X25519 public key; nothing was computed from it.") from problem


@dataclass(frozen=True, eq=False)
class PairwiseMasks:
    """The masks of silo `agent` with every other one.

    secrets: with each other silo, None at its own place. context: what makes this run unlike any other.
    """

    agent: int
    secrets: tuple[bytes | None, ...] = field(repr=False)
    context: bytes

    @classmethod
    def of(cls, agent: int, key: MaskKey, publics: Sequence[str], run: bytes) -> "PairwiseMasks":
        """Return the masks of a silo among these, in the order of their numbers; `run` names the run and its terms."""
        if publics[agent] != key.public or len({_canonical(public) for public in publics}) != len(publics):
            raise InputError("Every silo needs its own mask key, and this silo's must be in its place.")
        secrets = tuple(None if other == agent else key.shared_with(public) for other, public in enumerate(publics))
        named = [str(len(publics)).encode(), run, *(public.encode() for public in publics)]
        return cls(agent, secrets, hashlib.sha256(b"\n".join(named)).digest())

    def values(self, kind: str, k: int, size: int) -> Uint64s:
        """Return the masks of a message kind and round, `size` words; those of all silos add up to zero modulo 2^64."""
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        total, nothing = np.zeros(size, dtype=np.uint64), bytes(8 * size)
        for other, secret in enumerate(self.secrets):
            if secret is None:
                continue
            # The pair is named: a silo that shows another's key as its own, written otherwise (X25519 ignores a bit),
            # would else have its victim add one stream and take it off again.
            pair = f"{min(self.agent, other)} {max(self.agent, other)}"
            info = b"\n".join([_PURPOSE, pair.encode(), kind.encode(), str(k).encode(), str(size).encode()])
            key = HKDF(SHA256(), length=32, salt=self.context, info=info).derive(secret)
            stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor().update(nothing)
            pad = np.frombuffer(stream, dtype="<u8")
            if self.agent < other:
                np.add(total, pad, out=total)
            else:
                np.subtract(total, pad, out=total)
        return total


def _canonical(public: str) -> str:
    """Return a public key; refuse other spellings of one, which would be the same key under another name."""
    try:
        raw = bytes.fromhex(public)
    except ValueError:
        raw = b""
    if raw.hex() != public or len(raw) != 32 or int.from_bytes(raw, "little") >= _PRIME:
        raise InputError("A mask key must be 64 lower-case hex digits of a little-endian number below 2^255 - 19.")
    return public


def pairwise_masks(n_silos: int, run: bytes) -> list[PairwiseMasks]:
    """Return fresh masks of silos that run in one process."""
    keys = [MaskKey.create() for _ in range(n_silos)]
    publics = [key.public for key in keys]
    return [PairwiseMasks.of(agent, key, publics, run) for agent, key in enumerate(keys)]
