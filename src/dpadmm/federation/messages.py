"""The messages of a federation: typed, versioned, signed; anything else is refused.

On the wire a message is an envelope: 64 bytes of Ed25519 signature, then the body, canonical JSON. Vectors travel as
base64 of little-endian float64 (under masks: uint64), so that what arrives is bit for bit what was sent. This is the
only module that knows the format.
"""

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from dpadmm.checks import shown
from dpadmm.errors import InputError
from dpadmm.federation.refusal import MessageError
from dpadmm.files import parse_json
from dpadmm.noise.masks import Words
from dpadmm.problems.arrays import Floats

VERSION = 2
"""Version of the format; a message of another version is refused."""

LARGEST_BODY = 64 * 2**20
"""Bytes of a body that are read at most."""

NONCE_DIGITS = 32
"""Hex digits of a nonce: others repeat it in what they sign, so that its length is not for the silo to choose."""

MOST_PARTS = 100_000
"""Values, lists and objects in a body at most: vectors are text, and count as one."""

SIGNATURE_BYTES = 64
_PARTS = f"A message has more than {MOST_PARTS} parts, which no valid message has."


Nonce = Annotated[str, "nonce"]
Seen = tuple[tuple[str, int], ...]
"""Numbers by names."""

_KINDS: "dict[str, type[Message]]" = {}


@dataclass(frozen=True)
class Message:
    """What all messages share: whom they concern and how they are written."""

    kind: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        """Know the kind by its name."""
        cls.kind = cls.__name__.lower()
        if not cls.kind.startswith("_"):
            _KINDS[cls.kind] = cls

    def encode(self) -> bytes:
        """Return the body."""
        plain = {field.name: _FORMS[field.type][0](getattr(self, field.name)) for field in fields(self)}
        document = plain | {"kind": self.kind, "version": VERSION}
        return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()

    @classmethod
    def decode(cls, document: dict[str, Any]) -> Self:
        """Read the fields of a body; every field must be there, of its type, and no other."""
        odd = ", ".join(sorted(set(document) ^ {"kind", "version", *(field.name for field in fields(cls))}))
        if odd:
            raise MessageError(f"A {cls.kind!r} message has missing or unexpected fields: {odd:.200}.")
        try:
            return cls(**{field.name: _FORMS[field.type][1](document[field.name]) for field in fields(cls)})
        except (KeyError, TypeError, ValueError) as problem:
            raise MessageError(f"A {cls.kind!r} message has an array that cannot be read ({problem}).") from problem


@dataclass(frozen=True)
class Register(Message):
    """A silo that was invited to a study tells what terms are drafted from: its entry (`entry.SiloEntry`), as TOML."""

    study: str
    silo: str
    entry: str


@dataclass(frozen=True)
class Join(Message):
    """The coordinator asks a silo to take part; `terms` is the whole agreement as JSON."""

    terms: str


@dataclass(frozen=True)
class Joined(Message):
    """A silo takes part; `plan` is the mark of the noise it has computed for itself."""

    digest: str
    agent: int
    plan: str


@dataclass(frozen=True)
class Keyed(Joined):
    """A silo takes part in a run under masks; `mask_key` is the public part of its key for this run alone."""

    mask_key: str


@dataclass(frozen=True, eq=False)
class Step(Message):
    """The coordinator asks for round `round`.

    inbox: what the coordinator broadcasts (star, walk), as rows; empty in round 1, which starts from public values.
    relay: envelopes of the neighbours' answers to the round before (graph), of all silos' counts (the first round of
        training), or of all silos' mask keys (the first round under masks), signed by them.
    """

    digest: str
    agent: int
    round: int
    inbox: Floats
    relay: tuple[bytes, ...]


@dataclass(frozen=True, eq=False)
class Stepped(Message):
    """A silo's message of a round: what the method lets leave, noise included."""

    digest: str
    agent: int
    round: int
    vector: Floats


@dataclass(frozen=True, eq=False)
class Masked(Message):
    """A silo's part of a sum, with its share of the noise and under masks; words modulo 2^64."""

    digest: str
    agent: int
    round: int
    words: Words


@dataclass(frozen=True)
class _Relay(Message):
    """Signed messages of others on their way to or from silo `agent`."""

    digest: str
    agent: int
    relay: tuple[bytes, ...]


@dataclass(frozen=True)
class Unsure(Message):
    """A silo that was started anew asks what the others have seen of it, before it draws anything for these terms."""

    digest: str
    agent: int
    nonce: Nonce


@dataclass(frozen=True)
class Vouch(_Relay):
    """The coordinator asks a silo to vouch for others; `relay` holds their `Unsure` messages, signed by them."""


@dataclass(frozen=True)
class Vouched(_Relay):
    """A silo's answer: one `Voucher` for each, in envelopes of their own."""


@dataclass(frozen=True)
class Voucher(Message):
    """What silo `agent` has seen of silo `about`, in all runs of both: in `seen`, by the digests of their terms.

    It is one more than the last round that silo `about` has answered; runs of which nothing was seen are left out.
    """

    digest: str
    agent: int
    about: int
    nonce: Nonce
    seen: Seen


@dataclass(frozen=True)
class Vouchers(_Relay):
    """The coordinator hands a silo the vouchers of the others."""


@dataclass(frozen=True)
class Assured(Message):
    """A silo has seen enough vouchers, and its own files are not behind them."""

    digest: str
    agent: int


@dataclass(frozen=True)
class Refused(Message):
    """A silo will not answer; the reason is for people."""

    request: str
    reason: str


@dataclass(frozen=True)
class Unapproved(Refused):
    """A silo does not take part, since its owner has not approved the terms; it may be invited again."""


def read(body: bytes) -> Message:
    """Return the message in a body; `MessageError` if it is none of ours."""
    if len(body) > LARGEST_BODY:
        raise MessageError(f"A message has {len(body)} bytes; at most {LARGEST_BODY} are accepted.")
    if sum(body.count(sign) for sign in (b",", b"[", b"{")) > MOST_PARTS:  # each takes a hundred times its size to read
        raise MessageError(_PARTS)
    try:
        document = parse_json(body)
    except InputError as problem:
        raise MessageError(f"A message cannot be read: {problem}.") from problem
    if not isinstance(document, dict):
        raise MessageError("A message is not a JSON object.")
    if type(document.get("version")) is not int or document["version"] != VERSION:
        raise MessageError(
            f"A message has version {shown(document.get('version'))}; this side speaks version {VERSION}. Use the same "
            "version of dpadmm everywhere."
        )
    named = document.get("kind")
    kind = _KINDS.get(named) if isinstance(named, str) else None
    if kind is None:
        raise MessageError(f"A message has the unknown kind {shown(document.get('kind'))}.")
    return kind.decode(document)


def split(envelope: bytes) -> tuple[bytes, bytes]:
    """Return signature and body of an envelope."""
    if not isinstance(envelope, bytes) or len(envelope) <= SIGNATURE_BYTES:
        raise MessageError("An envelope is too short to hold a signature.")
    return envelope[:SIGNATURE_BYTES], envelope[SIGNATURE_BYTES:]


def mark(body: bytes) -> str:
    """Return the digest by which a body is known."""
    return hashlib.sha256(body).hexdigest()


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise MessageError(f"A message has {shown(value)} where text was expected.")
    if sum(map(value.count, ",[{")) > MOST_PARTS:  # in a body they can be written otherwise, and not be counted
        raise MessageError(_PARTS)
    if any("\ud800" <= sign <= "\udfff" for sign in ("" if value.isascii() else value)):
        raise MessageError("A message has text with an unpaired surrogate, which cannot be encoded.")
    return value


def _nonce(value: Any) -> str:
    if len(_text(value)) != NONCE_DIGITS or set(value) - set("0123456789abcdef"):
        raise MessageError(f"A message has {shown(value)} where a nonce of {NONCE_DIGITS} hex digits was expected.")
    return str(value)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**32:
        raise MessageError(f"A message has {shown(value)} where a whole number was expected.")
    return value


def _rows_to_plain(rows: Floats) -> dict[str, Any]:
    array = np.ascontiguousarray(rows, dtype="<f8")
    return {"shape": list(array.shape), "data": _base64(array.tobytes())}


def _bytes(value: Any) -> bytes:
    return base64.b64decode(_text(value), validate=True)


def _rows(value: Any) -> Floats:
    shape = tuple(_whole(size) for size in value["shape"])
    data = np.frombuffer(base64.b64decode(value["data"], validate=True), dtype="<f8")
    if len(value) != 2 or not 1 <= len(shape) <= 3 or int(np.prod(shape, dtype=object)) != data.size:
        raise MessageError(f"A message has {data.size} numbers for an array of shape {shape}.")
    return data.reshape(shape).astype(np.float64)  # no numbers in a shape too large to be counted is an error too


def _seen(value: Any) -> Seen:
    if not isinstance(value, dict):
        raise MessageError("A message has something else where named numbers were expected.")
    return tuple((_text(name), _whole(number)) for name, number in value.items())


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


_FORMS: dict[Any, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    str: (str, _text),
    Nonce: (str, _nonce),
    int: (int, _whole),
    Floats: (_rows_to_plain, _rows),
    Words: (
        lambda words: _base64(np.ascontiguousarray(words, dtype="<u8").tobytes()),
        lambda text: np.frombuffer(_bytes(text), dtype="<u8").astype(np.uint64),
    ),
    tuple[bytes, ...]: (lambda parts: [_base64(part) for part in parts], lambda parts: tuple(map(_bytes, parts))),
    Seen: (dict, _seen),
}
"""By the type of a field, how it is written and read."""
