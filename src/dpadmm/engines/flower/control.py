"""The SuperLink's control API: register nodes, start runs, ask whether they have ended."""

import hashlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpadmm.engines.flower.processes import FlowerError


@dataclass(frozen=True)
class SuperLinkControl:
    """Whoever reaches this API can register nodes and start apps; silos therefore run no app that is sent to them."""

    address: str
    ca: Path | None

    def register(self, public_key: Path, name: str) -> None:
        """Let the node with this public key (OpenSSH format, NIST curve) connect."""
        from cryptography.hazmat.primitives.serialization import load_ssh_public_key
        from flwr.proto.control_pb2 import RegisterNodeRequest
        from flwr.supercore.primitives.asymmetric import public_key_to_bytes

        try:
            key: Any = load_ssh_public_key(public_key.read_bytes())
        except (OSError, ValueError) as problem:
            raise FlowerError(f"{public_key} is not a node's public key: {problem}.") from problem
        with self._client("register a node") as client:
            client.RegisterNode(RegisterNodeRequest(public_key=public_key_to_bytes(key), name=name))

    def start(self, app: Path, settings: dict[str, str]) -> int:
        """Start a run of the app in this folder; return its number."""
        from flwr.cli.build import build_fab_from_disk
        from flwr.common.serde import fab_to_proto, user_config_to_proto
        from flwr.proto.control_pb2 import StartRunRequest
        from flwr.supercore.fab import Fab

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Flower's use of a library, not ours
            content = build_fab_from_disk(app)
        fab = Fab(hashlib.sha256(content).hexdigest(), content, {})
        request = StartRunRequest(fab=fab_to_proto(fab), override_config=user_config_to_proto(dict(settings)))
        with self._client("start a run") as client:
            return int(client.StartRun(request).run_id)

    def is_over(self, run: int) -> bool:
        """Say whether a run has ended, for whatever reason; a SuperLink that was killed does not know it any more."""
        from flwr.proto.control_pb2 import ListRunsRequest

        try:
            with self._client("list runs") as client:
                found = client.ListRuns(ListRunsRequest(run_id=run)).run_dict
        except FlowerError:
            return True
        return run not in found or found[run].status.status == "finished"

    def stop(self, run: int) -> None:
        """End a run whose process gives no sign of life, if the SuperLink still knows it."""
        from flwr.proto.control_pb2 import StopRunRequest

        with suppress(FlowerError), self._client("stop a run") as client:
            client.StopRun(StopRunRequest(run_id=run))

    @contextmanager
    def _client(self, purpose: str) -> Iterator[Any]:
        from flwr.supercore.control import ControlHttpClient
        from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

        client = ControlHttpClient.from_server_address(
            server_address=self.address,
            insecure=self.ca is None,
            root_certificates=None if self.ca is None else self.ca.read_bytes(),
            interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr CLI")],
        )
        try:
            yield client
        except Exception as problem:
            raise FlowerError(f"The SuperLink at {self.address} did not {purpose}: {problem}") from problem
        finally:
            client.close()
