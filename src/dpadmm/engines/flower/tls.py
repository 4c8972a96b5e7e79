"""Certificates for the SuperLink and keys for the nodes, made locally: a private CA, nothing from outside."""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dpadmm.engines.federation.keys import write_private
from dpadmm.errors import InputError

_VALID_DAYS = 825


def create_certificates(directory: Path, hosts: Sequence[str]) -> None:
    """Write `ca.pem`, `server.pem` and `server.key` for a SuperLink that is reached under these names or addresses."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    if not hosts:
        raise InputError("A server certificate needs at least one host name or address.")

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    now = datetime.now(UTC)
    ca_key, server_key = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())

    def builder(subject: str, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name("dpadmm federation CA"))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(days=_VALID_DAYS))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()),
                critical=False,
            )
        )

    signs = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    ca = (
        builder("dpadmm federation CA", ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(signs, critical=True)
        .sign(ca_key, hashes.SHA384())
    )
    server = (
        builder(hosts[0], server_key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(ca_key, hashes.SHA384())
    )
    (directory / "ca.pem").write_bytes(ca.public_bytes(Encoding.PEM))
    (directory / "server.pem").write_bytes(server.public_bytes(Encoding.PEM))
    write_private(directory / "server.key", _pem(server_key))
    # The CA's key is not kept: nobody can make a second certificate; for other hosts make a new CA.


def certified_hosts(directory: Path) -> list[str]:
    """Return the names and addresses that the server's certificate is for."""
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate((directory / "server.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


def create_node_key(directory: Path) -> None:
    """Write `node.key` (EC P-384) and `node.pub`, by which the SuperLink knows a silo's node."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    private = ec.generate_private_key(ec.SECP384R1())
    secret = private.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    write_private(directory / "node.key", secret)
    public = private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    (directory / "node.pub").write_bytes(public)


def _pem(private) -> bytes:  # type: ignore[no-untyped-def]
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _host(host: str):  # type: ignore[no-untyped-def]
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
