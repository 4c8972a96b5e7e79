"""Signing keys of silos and coordinators: Ed25519, one file each, readable by their owners only; and their rotation.

The next key is made beside the one in use, which stays until the last step, a rename. A silo's file says which key it
belongs to: a file from before the change under the new key, or the other way round, is recognised. The other silos
could not tell, because they know a silo by its key.
"""

import hashlib
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpadmm.errors import InputError, ResumeError
from dpadmm.federation.errors import MessageError
from dpadmm.files import sync_directory, write_atomic

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

NEEDS_EXTRA = (
    "Federations need the extra `federation`, which is not installed: "
    "run pip install '.[federation]' in a checkout of dpadmm."
)


SIGNATURE_BYTES = 64


@dataclass(frozen=True)
class SigningKey:
    """A private key that signs the envelopes of one silo or coordinator."""

    private: "Ed25519PrivateKey"

    @classmethod
    def new(cls) -> "SigningKey":
        """Make a key."""
        return cls(_tools()[0].Ed25519PrivateKey.generate())

    @classmethod
    def of(cls, secret: str) -> "SigningKey":
        """Return the key with this secret part, 64 hex digits."""
        return cls(_tools()[0].Ed25519PrivateKey.from_private_bytes(bytes.fromhex(secret)))

    @classmethod
    def create(cls, path: Path) -> "SigningKey":
        """Make a key and keep it in a new file."""
        made = cls.new()
        made.save(path)
        return made

    def save(self, path: Path) -> None:
        """Keep the key in a new file, mode 0600."""
        _, serialization = _tools()
        text = self.private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        write_private(path, text)

    @classmethod
    def load(cls, path: Path) -> "SigningKey":
        """Read a key; refuse files that others can read."""
        ed25519, serialization = _tools()
        from cryptography.exceptions import UnsupportedAlgorithm

        try:
            check_private(path)
            private = serialization.load_pem_private_key(path.read_bytes(), password=None)
        except (OSError, TypeError, ValueError, UnsupportedAlgorithm) as problem:  # TypeError: it has a password
            if isinstance(problem, InputError):
                raise
            raise InputError(f"The key file {path} cannot be used: {problem}.") from problem
        if not isinstance(private, ed25519.Ed25519PrivateKey):
            raise InputError(f"The key in {path} is not an Ed25519 key.")
        return cls(private)

    @property
    def public(self) -> str:
        """The public key, 64 hex digits."""
        return self.private.public_key().public_bytes_raw().hex()

    @property
    def secret(self) -> str:
        """The secret part, 64 hex digits."""
        return self.private.private_bytes_raw().hex()

    def seal(self, body: bytes) -> bytes:
        """Return the envelope of a body."""
        return self.private.sign(body) + body


def body_of(envelope: bytes) -> bytes:
    """Return the body of an envelope, which follows the signature."""
    if not isinstance(envelope, bytes) or len(envelope) <= SIGNATURE_BYTES:
        raise MessageError("An envelope is too short to hold a signature.")
    return envelope[SIGNATURE_BYTES:]


def open_envelope(envelope: bytes, key: str) -> bytes:
    """Return the body of an envelope if `key` (hex) has signed it; `MessageError` if not."""
    body = body_of(envelope)
    ed25519, _ = _tools()
    from cryptography.exceptions import InvalidSignature

    try:
        ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(envelope[:SIGNATURE_BYTES], body)
    except (InvalidSignature, ValueError) as problem:
        raise MessageError("The signature was not made with the key named in the terms.") from problem
    return body


def fingerprint(key: str) -> str:
    """Return a public key's fingerprint, which people can compare: 128 bits of its SHA-256, in groups of eight digits.

    >>> fingerprint("00" * 32)
    '66687aad-f862bd77-6c8fc18b-8e9f8e20'
    """
    digits = hashlib.sha256(bytes.fromhex(key)).hexdigest()[:32]
    return "-".join(digits[place : place + 8] for place in range(0, 32, 8))


def read_fingerprint(name: str, reported: str) -> str:
    """Return the 32 digits of a fingerprint as people write it; `InputError` if it is none."""
    digits = "".join(sign for sign in reported.lower() if sign not in "-: ")
    if len(digits) != 32 or not all(sign in "0123456789abcdef" for sign in digits):
        raise InputError(
            f"The fingerprint of {name} must be 32 hex digits, as `dpadmm silo show` prints them there; got "
            f"{reported!r}."
        )
    return digits


def write_private(path: Path, content: bytes) -> None:
    """Write a new file that only its owner can read, whole or not at all; an existing one is refused."""
    try:
        write_atomic(path, content, 0o600, may_replace=False)
    except OSError as problem:
        raise InputError(f"{path} cannot be created: {problem.strerror}. Keys are never overwritten.") from problem


def check_private(path: Path) -> None:
    """Refuse a file that others can read."""
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise InputError(f"The key file {path} can be read by others; run chmod 600 on it.")


def need_extra() -> None:
    """Raise `InputError` if the packages of the extra are not installed, or this is neither Linux nor macOS."""
    from dpadmm.federation import party_directory  # noqa: F401 - refuses where it cannot lock

    _tools()
    if find_spec("httpx") is None or find_spec("uvicorn") is None:
        raise InputError(NEEDS_EXTRA)


def _tools() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as problem:
        raise InputError(NEEDS_EXTRA) from problem
    return ed25519, serialization


def next_place(path: Path) -> Path:
    """Return where the next key is kept until it is used."""
    return path.with_name(path.name + ".next")


def next_key(path: Path) -> SigningKey:
    """Return the key that comes after the one in `path`; one that an interrupted change has left is taken."""
    place = next_place(path)
    key = SigningKey.load(place) if place.exists() else SigningKey.create(place)
    sync_directory(place.parent)  # before anything says that it is the one
    return key


def put_into_use(path: Path, *, is_old_kept: bool) -> Path | None:
    """Let the next key take the place of the one in `path`; return where that is kept now, None if it is destroyed."""
    aside = path.with_name(f"{path.stem}-{datetime.now(UTC):%Y-%m-%d}-{_short(path)}{path.suffix}")
    for copy in path.parent.glob(f"{path.stem}-*-{_short(path)}{path.suffix}"):  # of a change that was interrupted
        copy.unlink()
    with path.open("r+b") as old:
        if is_old_kept:
            os.link(path, aside)
        sync_directory(path.parent)
        os.replace(next_place(path), path)
        sync_directory(path.parent)
        if not is_old_kept:  # it has no name any more
            old.write(bytes(os.fstat(old.fileno()).st_size))
            old.flush()
            os.fsync(old.fileno())
    return aside if is_old_kept else None


def _short(path: Path) -> str:
    return fingerprint(SigningKey.load(path).public)[:8]


def check_key(known: str, file: Path, path: Path, key: SigningKey) -> None:
    """Refuse the key in `path` where the silo's file belongs to another one, `known`."""
    if known != key.public:
        place = next_place(path)
        if place.exists() and SigningKey.load(place).public == known:
            raise ResumeError(
                f"The change of the key in {path.parent} was interrupted. Run the command again to finish it: `dpadmm "
                f"silo rotate-key {path.parent}`."
            )
        raise ResumeError(
            f"{file} belongs to the key {fingerprint(known)}, but {path} is {fingerprint(key.public)}: one of them is "
            "an older copy. Restore the newest copy of all of them."
        )
