"""The directory of a coordinator: keys, certificates, Flower's home, the SuperLink's database, one file per run."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dpadmm.engines.federation.agreement import Agreement
from dpadmm.engines.federation.coordinator import Coordinator
from dpadmm.engines.federation.keys import SigningKey, need_extra
from dpadmm.engines.flower import processes
from dpadmm.engines.flower.control import SuperLinkControl
from dpadmm.engines.flower.processes import Process
from dpadmm.engines.flower.runtime import Runtime, auth_secret
from dpadmm.engines.flower.tls import certified_hosts, create_certificates
from dpadmm.errors import InputError

DIRECTORY = "DPADMM_COORDINATOR"
"""Environment variable by which the server app finds this directory."""

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_START_SECONDS = 120.0
_APP = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "dpadmm-federation"
version = "1.0.0"
description = "Runs the server app of the installed dpadmm; silos run theirs."
license = "MIT"
dependencies = []

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "dpadmm"

[tool.flwr.app.components]
serverapp = "dpadmm_federation.server:app"
clientapp = "dpadmm_federation.client:app"

[tool.flwr.app.config]
run = ""
"""


@dataclass(frozen=True)
class CoordinatorFiles:
    """Where the parts of a coordinator are."""

    directory: Path

    @property
    def home(self) -> Path:
        """Flower's home."""
        return self.directory / "flower"

    @property
    def ca(self) -> Path | None:
        """The federation's certificate; None if it was made without (loopback only)."""
        path = self.directory / "ca.pem"
        return path if path.exists() else None

    def create(self, hosts: Sequence[str], *, is_insecure: bool = False) -> SigningKey:
        """Make the directory of a new coordinator: signing key, and certificates for these hosts."""
        need_extra()
        if self.directory.exists() and any(self.directory.iterdir()):
            raise InputError(f"{self.directory} is not empty. A coordinator needs a directory of its own.")
        self.directory.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o700)  # also one that was there already: messages are in the SuperLink's database
        key = SigningKey.create(self.directory / "coordinator.key")
        if not is_insecure:
            # The loopback too: `register` and `federate` reach the SuperLink from this machine.
            create_certificates(self.directory, list(dict.fromkeys([*hosts, *_LOOPBACK])))
        (self.directory / "runs").mkdir()
        self.home.mkdir()
        app = self.directory / "app" / "dpadmm_federation"
        app.mkdir(parents=True)
        (app.parent / "pyproject.toml").write_text(_APP)
        (app / "__init__.py").write_text('"""The installed package does the work."""\n')
        for part in ("server", "client"):
            (app / f"{part}.py").write_text(
                f'"""The app of the installed package."""\n\nfrom dpadmm.engines.flower.{part}_app import app\n\n'
                '__all__ = ["app"]\n'
            )
        return key

    def key(self) -> SigningKey:
        """Return the signing key."""
        return SigningKey.load(self.directory / "coordinator.key")

    def run_named(self, digest: str) -> Path:
        """Return the file of the run with this digest, which may come from anybody."""
        if not re.fullmatch("[0-9a-f]{64}", digest):
            raise InputError(f"A run is named by the digest of its terms, not by {digest!r:.80}.")
        return self.directory / "runs" / f"{digest}.db"

    def open_run(self, agreement: Agreement) -> Coordinator:
        """Open the run of these terms, or start it."""
        path = self.run_named(agreement.digest)
        if path.exists():
            return Coordinator(path, self.key(), time.time)
        return Coordinator.create(path, agreement, self.key(), time.time)

    def start_superlink(self, host: str, port: int) -> Process:
        """Start the SuperLink, TLS and registered nodes, or plain on the loopback only; return when it listens."""
        arguments = [processes.command("flower-superlink"), "--host", host, "--port", str(port)]
        arguments += ["--database", str(self.directory / "superlink.db"), "--disable-runtime-dependency-installation"]
        arguments += ["--isolation", "process", "--superexec-auth-secret-file", str(auth_secret(self.directory))]
        if self.ca is None:
            if host not in ("127.0.0.1", "localhost", "::1"):
                raise InputError(f"Without TLS the SuperLink listens on the loopback only, not on {host!r}.")
            arguments.append("--insecure")
        else:
            arguments += ["--ssl-ca-certfile", str(self.ca)]
            arguments += ["--ssl-certfile", str(self.directory / "server.pem")]
            arguments += ["--ssl-keyfile", str(self.directory / "server.key"), "--enable-supernode-auth"]
        near = processes.reachable(host)
        if self.ca is not None and near not in certified_hosts(self.directory):
            known = ", ".join(certified_hosts(self.directory))
            raise InputError(f"The certificate is for {known}, not for {near}. Make it with `init --host {near}`.")
        if processes.is_listening(near, port):
            raise InputError(f"Something listens on port {port} of {host} already; choose another port, or end it.")
        environment = processes.flower_environment(self.home)
        superlink = Process.start(arguments, environment, self.directory / "superlink.log")
        try:
            superlink.wait_for_port(port, _START_SECONDS, near)
        except BaseException:
            superlink.stop()
            raise
        (self.directory / "address").write_text(f"[{near}]:{port}" if ":" in near else f"{near}:{port}")
        return superlink

    def control(self) -> SuperLinkControl:
        """Return the control API of the SuperLink that was started last."""
        return SuperLinkControl(self._address(), self.ca)

    def runtime(self) -> Runtime:
        """Return the runtime API of the SuperLink that was started last."""
        return Runtime(self._address(), self.ca)

    def _address(self) -> str:
        try:
            return (self.directory / "address").read_text()
        except OSError as problem:
            raise InputError(
                f"No SuperLink was started in {self.directory}; run `dpadmm coordinator run`."
            ) from problem

    def submit(self, agreement: Agreement) -> int:
        """Start a run of the server app for these terms; return Flower's number of it."""
        return self.control().start(self.directory / "app", {"run": agreement.digest})
