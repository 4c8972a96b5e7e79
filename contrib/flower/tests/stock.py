"""Flower's own commands on the loopback, as README.md gives them: every process with a log, none left behind."""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="needs the extra dpadmm[flower]")

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID

from dpadmm.federation.https.service import free_port

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "README.md").read_text()
COMMANDS = [line for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S) for line in block.splitlines()]
SECONDS = 600.0
"""How long anything here may take before a test fails."""


def page_command(beginning: str) -> str:
    """Return the one command of the page that begins so."""
    (found,) = [each for each in COMMANDS if each.startswith(beginning)]
    return found


@dataclass
class Stock:
    """A folder in which commands of the page are run, with the page's names and paths put in their place."""

    place: Path
    port: int = field(default_factory=free_port)
    started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Write what `flwr` is set up by, and the app."""
        (self.place / "home").mkdir()
        shutil.copytree(ROOT / "example", self.place / "dpadmm-flower")
        exported = dict(each.split("=") for each in page_command("export").split()[1:])
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        own = {"FLWR_HOME": str(self.place / "home"), "PATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self.environment = os.environ | exported | own

    def configure(self, *lines: str) -> None:
        """Write how `flwr` reaches the SuperLink; by default as on the page."""
        (config,) = re.findall(r"^```toml\n(\[superlink.*?)^```", PAGE, re.M | re.S)
        written = "\n".join(["[superlink.federation]", f'address = "127.0.0.1:{self.port}"', *lines])
        (self.place / "home" / "config.toml").write_text(written if lines else self.here(config))

    def here(self, text: str, name: str = "clinic") -> str:
        """Return text of the page for this machine, and for one of its silos."""
        for old, new in (("federation.example.org", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("8000", str(self.port))):
            text = text.replace(old, new)
        return text.replace("/srv", str(self.place)).replace("clinic", name)

    def args(self, command: str, name: str = "clinic") -> list[str]:
        return shlex.split(self.here(command, name))

    def log(self, name: str) -> str:
        return (self.place / f"{name}.log").read_text(errors="replace")

    def start(self, log: str, *args: str) -> None:
        """Start a command; it writes to a log of its own."""
        with (self.place / f"{log}.log").open("ab") as file:
            self.started[log] = subprocess.Popen(
                args, cwd=self.place, env=self.environment, stdout=file, stderr=file, start_new_session=True
            )

    def run(self, *args: str) -> str:
        """Run a command to its end; it must succeed."""
        done = subprocess.run(
            args, cwd=self.place, env=self.environment, capture_output=True, text=True, timeout=SECONDS
        )
        assert done.returncode == 0, f"{shlex.join(args)}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def wait(self, log: str, text: str) -> None:
        """Wait until a log says something."""
        end = time.monotonic() + SECONDS
        while text not in self.log(log):
            assert time.monotonic() < end, f"{log} does not say {text!r}:\n{self.log(log)[-3000:]}"
            time.sleep(0.2)

    def kill(self, log: str) -> None:
        """End a command and what it has started, as kill -9 would."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.started[log].pid, signal.SIGKILL)
        self.started.pop(log).wait()

    def superlink(self, *args: str) -> None:
        """Start a SuperLink."""
        self.start("superlink", *args)
        self.wait("superlink", "Uvicorn running")

    def supernode(self, log: str, *args: str) -> None:
        """Start a SuperNode; several on one machine need ports of their own."""
        self.start(log, *args, "--port", str(free_port()))
        self.wait(log, "SuperNode ID")


@contextlib.contextmanager
def stock(place: Path) -> Iterator[Stock]:
    """Yield a folder for commands; in the end none of them runs any more."""
    made = Stock(place)
    try:
        yield made
    finally:
        for log in list(made.started):
            made.kill(log)
        for pid in _left_behind(made):  # a SuperLink's apps are in a session of their own, and end some seconds later
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _left_behind(made: Stock) -> Iterator[int]:
    """Return the processes that have the environment of these commands."""
    mark = f"FLWR_HOME={made.environment['FLWR_HOME']}\0".encode()
    for each in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in each.read_bytes():
                yield int(each.parent.name)


def write_certificates(place: Path) -> None:
    """Write an authority and a server's certificate for the loopback: ca.crt, server.pem, server.key."""
    root, server = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())
    authority = _certificate("authority", root, "authority", root, is_authority=True)
    (place / "ca.crt").write_bytes(authority.public_bytes(Encoding.PEM))
    own = _certificate("server", server, "authority", root, is_authority=False)
    (place / "server.pem").write_bytes(own.public_bytes(Encoding.PEM))
    text = server.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (place / "server.key").write_bytes(text)


def _certificate(name, key, issuer, signer, *, is_authority: bool) -> x509.Certificate:
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("localhost")])
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(names, critical=False)
        .sign(signer, hashes.SHA384())
    )


def write_node_key(place: Path, name: str) -> None:
    """Write the key of a SuperNode, as `ssh-keygen -t ecdsa -b 384` does: NAME_key, NAME_key.pub."""
    key = ec.generate_private_key(ec.SECP384R1())
    (place / f"{name}_key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    (place / f"{name}_key.pub").write_bytes(public)
