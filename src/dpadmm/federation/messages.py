"""The messages of a federation: typed, versioned, signed; anything else is refused.

On the wire a message is an envelope: 64 bytes of Ed25519 signature, then the body, canonical JSON by the codec, with
the message's class as its kind. Vectors travel as base64 of little-endian numbers, so that what arrives is bit for bit
what was sent. This is the only module that knows the format.
"""

import hashlib
import json
import math
import re
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np

from dpadmm.checks import safe_repr
from dpadmm.codec import canonical, decode, encode, register_union
from dpadmm.errors import InputError
from dpadmm.federation.errors import MessageError
from dpadmm.federation.keys import SIGNATURE_BYTES
from dpadmm.federation.policy import SiloEntry
from dpadmm.federation.terms import Terms
from dpadmm.files import parse_json

VERSION = 3
"""Version of the format; a message of another version is refused."""

LARGEST_BODY = 64 * 2**20
"""Bytes of a body that are read at most."""

NONCE_DIGITS = 32
"""Hex digits of a nonce: others repeat it in what they sign, so that its length is not for the silo to choose."""

MOST_PARTS = 100_000
"""Values, lists and objects in a body at most: vectors are text, and count as one."""

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


@dataclass(frozen=True)
class Vector:
    """An array as it travels: 64-bit floats, or words modulo 2^64."""

    dtype: Literal["f8", "u8"]
    shape: tuple[int, ...]
    data: bytes

    def __post_init__(self) -> None:
        """Refuse data that do not fill the shape."""
        is_shape = 1 <= len(self.shape) <= 3 and all(0 <= size < 2**32 for size in self.shape)
        if not is_shape or 8 * math.prod(self.shape) != len(self.data):
            raise InputError(f"{len(self.data)} bytes do not make an array of the shape {list(self.shape)}.")

    @classmethod
    def of(cls, array: Any) -> "Vector":
        """Return an array of floats or of words."""
        dtype: Literal["f8", "u8"] = "u8" if np.asarray(array).dtype.kind == "u" else "f8"
        plain = np.ascontiguousarray(array, dtype=f"<{dtype}")
        return cls(dtype, plain.shape, plain.tobytes())

    @cached_property
    def array(self) -> Any:
        """The array."""
        return np.frombuffer(self.data, dtype=f"<{self.dtype}").reshape(self.shape).astype(f"={self.dtype}")


@dataclass(frozen=True)
class Message:
    """What all messages share: how they are written."""

    def __post_init__(self) -> None:
        """Refuse numbers that no round and no silo has."""
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, int) and not 0 <= value < 2**32:
                raise InputError(f"{each.name} must be a whole number below 2^32.")

    def encode(self) -> bytes:
        """Return the body."""
        return canonical(encode(self, Message) | {"version": VERSION}).encode()


@dataclass(frozen=True)
class Register(Message):
    """An invited silo sends what terms are drafted from: its entry."""

    study: str
    silo: str
    entry: SiloEntry


@dataclass(frozen=True)
class Join(Message):
    """The coordinator asks a silo to take part."""

    terms: Terms


@dataclass(frozen=True)
class Joined(Message):
    """A silo takes part; `plan` is the mark of the noise it has computed for itself.

    mask_key: the public part of its key for this run alone, where messages leave under masks.
    """

    digest: str
    agent: int
    plan: str
    mask_key: str | None = None


@dataclass(frozen=True)
class Step(Message):
    """The coordinator asks for round `round`.

    inbox: what the coordinator broadcasts (star, walk), as rows; empty in round 1, which starts from public values.
    relay: envelopes of the neighbours' answers to the round before (graph), of all silos' counts (the first round of
        training), or of all silos' mask keys (the first round under masks), signed by them.
    """

    digest: str
    agent: int
    round: int
    inbox: Vector
    relay: tuple[bytes, ...]


@dataclass(frozen=True)
class Answer(Message):
    """A silo's message of a round: what the method lets leave, noise included.

    Under masks: its part of a sum, with its share of the noise, in words.
    """

    digest: str
    agent: int
    round: int
    values: Vector


@dataclass(frozen=True)
class _Relay(Message):
    """Signed messages of others on their way to or from silo `agent`."""

    digest: str
    agent: int
    relay: tuple[bytes, ...]


@dataclass(frozen=True)
class ConfirmationRequest(Message):
    """A silo that was started anew asks what the others have seen of it, before it draws anything for these terms."""

    digest: str
    agent: int
    nonce: str

    def __post_init__(self) -> None:
        """Refuse another length: others repeat it."""
        super().__post_init__()
        _check_nonce(self.nonce)


@dataclass(frozen=True)
class ConfirmPeers(_Relay):
    """The coordinator asks a silo what it has seen of others; `relay` holds the signed requests of these."""


@dataclass(frozen=True)
class PeersConfirmed(_Relay):
    """A silo's answer: one `Confirmation` for each, in envelopes of their own."""


@dataclass(frozen=True)
class Confirmation(Message):
    """What silo `agent` has seen of silo `about`, in all runs of both: in `seen`, by the digests of their terms.

    It is one more than the last round that silo `about` has answered; runs of which nothing was seen are left out.
    """

    digest: str
    agent: int
    about: int
    nonce: str
    seen: dict[str, int]

    def __post_init__(self) -> None:
        """Refuse numbers that no round has."""
        super().__post_init__()
        _check_nonce(self.nonce)
        if any(not 0 <= number < 2**32 for number in self.seen.values()):
            raise InputError("seen must have whole numbers below 2^32.")


@dataclass(frozen=True)
class Confirmations(_Relay):
    """The coordinator hands a silo the confirmations of the others."""


@dataclass(frozen=True)
class Confirmed(Message):
    """A silo has seen enough confirmations, and its own files are not behind them."""

    digest: str
    agent: int


@dataclass(frozen=True)
class Refused(Message):
    """A silo will not answer; the reason is for people.

    code: "not_approved" where its owner has not approved the terms, and it may be invited again.
    """

    request: str
    reason: str
    code: Literal["refused", "not_approved"] = "refused"


register_union(
    Message,
    (
        Register,
        Join,
        Joined,
        Step,
        Answer,
        Refused,
        ConfirmationRequest,
        ConfirmPeers,
        PeersConfirmed,
        Confirmation,
        Confirmations,
        Confirmed,
    ),
)


def _check_nonce(nonce: str) -> None:
    if re.fullmatch(f"[0-9a-f]{{{NONCE_DIGITS}}}", nonce) is None:
        raise InputError(f"nonce must have {NONCE_DIGITS} hex digits.")


def read(body: bytes) -> Message:
    """Return the message in a body; `MessageError` if it is none of ours. Its size is checked before it is parsed."""
    if len(body) > LARGEST_BODY:
        raise MessageError(f"A message has {len(body)} bytes; at most {LARGEST_BODY} are accepted.")
    if sum(body.count(sign) for sign in (b",", b"[", b"{")) > MOST_PARTS:  # each takes a hundred times its size to read
        raise MessageError(f"A message has more than {MOST_PARTS} parts, which no valid message has.")
    try:
        document = parse_json(body)
    except InputError as problem:
        raise MessageError(f"A message cannot be read: {problem}.") from problem
    if not isinstance(document, dict):
        raise MessageError("A message is not a JSON object.")
    version = document.pop("version", None)
    if type(version) is not int or version != VERSION:
        raise MessageError(
            f"A message has version {safe_repr(version)}; this side speaks version {VERSION}. Use the same version of "
            "dpadmm everywhere."
        )
    try:
        if _SURROGATE.search(body):
            json.dumps(document, ensure_ascii=False).encode()
        found: Message = decode(Message, document, "A message")
    except UnicodeEncodeError as problem:
        raise MessageError("A message has text with an unpaired surrogate, which cannot be encoded.") from problem
    except InputError as problem:
        raise MessageError(str(problem)) from problem
    return found


def mark(body: bytes) -> str:
    """Return the digest by which a body is known."""
    return hashlib.sha256(body).hexdigest()


_TEXTS, _CONFIRMATION = 4096, 8192
_TEXT_PER_BYTE = 1.4  # base64, with some room
_MOST_ROWS = 4  # vectors of a broadcast


def largest_answer(terms: Terms) -> int:
    """Return how many bytes an envelope of a silo can have: a vector, counts, or confirmations for all others."""
    vector = 8 * _TEXT_PER_BYTE * max(terms.dimension, terms.n_counts)
    confirmations = _CONFIRMATION * len(terms.participants)
    return SIGNATURE_BYTES + min(LARGEST_BODY, int(_TEXTS + max(vector, confirmations)))


def largest_request(terms: Terms) -> int:
    """Return how many bytes an envelope of the coordinator can have: terms, broadcasts, relayed envelopes of silos."""
    relayed = len(terms.participants) * largest_answer(terms)
    own = 8 * _MOST_ROWS * max(terms.dimension, terms.n_counts)
    body = 2 * len(terms.as_json().encode()) + _TEXT_PER_BYTE * (own + relayed)
    return SIGNATURE_BYTES + min(LARGEST_BODY, int(_TEXTS + body))
