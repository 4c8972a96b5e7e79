"""Who is at the other end: TLS certificates issued by the identity keys that the agreed terms name, and by no others.

Every silo and every coordinator is an authority for itself. Its Ed25519 identity key, whose public part is in the
terms, signs a short-lived certificate for each process; the other side trusts the keys of its terms. So there is no
certificate to hand around, none to renew, and no name to check: whoever shows one issued by the agreed key is who was
agreed on.
"""

import ssl
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dpadmm.federation.keys import SigningKey

VALID = timedelta(days=90)
BACKDATED = timedelta(days=2)
"""A certificate is valid since so long before it was made: the other clock may be slow."""


def server_context(own: SigningKey, path: Path) -> ssl.SSLContext:
    """Return the TLS of a coordinator: TLS 1.3, a certificate by its own key, and certificates demanded of silos."""
    return _context(ssl.PROTOCOL_TLS_SERVER, own, path)


def client_context(own: SigningKey, path: Path, coordinators: Iterable[str]) -> ssl.SSLContext:
    """Return the TLS of a silo, which talks to the coordinators with these keys only."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, own, path)
    trust(context, coordinators)
    return context


def trust(context: ssl.SSLContext, keys: Iterable[str]) -> None:
    """Accept certificates issued by these public keys (hex) from now on."""
    for key in keys:
        context.load_verify_locations(cadata=_anchor(key))


def renew(context: ssl.SSLContext, own: SigningKey, path: Path, *, is_server: bool, valid: timedelta = VALID) -> None:
    """Put a new certificate into use, for connections from now on; `path` is overwritten with it and its key."""
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(secret + _certificate(own, key.public_key(), is_server=is_server, valid=valid))
    context.load_cert_chain(path)


def issuer(shown: Mapping[str, Any]) -> str:
    """Return the key (hex) that has issued a certificate, as `getpeercert` gives one that TLS has found to be in order.

    TLS compares names without regard to case and outer spaces: however a silo writes its key, it is one silo.
    """
    (((_, name),),) = shown["issuer"]
    return str(name).strip().lower()


def _context(protocol: int, own: SigningKey, path: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the key is known, which says more than a name
    context.verify_mode = ssl.CERT_REQUIRED
    is_server = protocol == ssl.PROTOCOL_TLS_SERVER
    if is_server:
        context.num_tickets = 0  # a session that is taken up again would show no certificate
    renew(context, own, path, is_server=is_server)
    return context


def _certificate(own: SigningKey, public: Ed25519PublicKey, *, is_server: bool, valid: timedelta) -> bytes:
    usage = ExtendedKeyUsageOID.SERVER_AUTH if is_server else ExtendedKeyUsageOID.CLIENT_AUTH
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_name("dpadmm"))
        .issuer_name(_name(own.public))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + valid)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(own.private.public_key()), critical=False)
        .sign(own.private, None)
    )
    return certificate.public_bytes(Encoding.PEM)


def _anchor(key: str) -> bytes:
    """Return a public key as an authority (DER), which may issue certificates of parties but not of other authorities.

    TLS wants authorities as certificates, and looks at the key and the constraints of those it is given, not at who has
    signed them: a key that is forgotten at once does.
    """
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
    signs = x509.KeyUsage(False, False, False, False, False, True, False, False, False)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_name(key))
        .issuer_name(_name(key))
        .public_key(public)
        .serial_number(1)
        .not_valid_before(datetime(2000, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(9999, 12, 31, tzinfo=UTC))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(signs, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(Ed25519PrivateKey.generate(), None)
    )
    return certificate.public_bytes(Encoding.DER)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
