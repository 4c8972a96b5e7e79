"""Flower's runtime API, used by both sides: take a task, say that it lives, and run only the installed app on it.

SuperLink and SuperNodes are started with `--isolation process`: they start no code themselves and wait for someone who
knows their secret to take their tasks. Stock Flower's SuperExec would install the app that came with a task and run it;
here every task goes to the app of this package, and what was shipped is not even unpacked.
"""

import logging
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpadmm.engines.federation.keys import check_private, write_private
from dpadmm.errors import InputError

POLL_SECONDS = 0.2
SECRET_BYTES = 48
_AWAY_SECONDS = 1.0
_TRIES = 3
_PASSING = (502, 503, 504)
_log = logging.getLogger("dpadmm.runtime")


def auth_secret(directory: Path) -> Path:
    """Return the file with the secret by which a SuperLink or SuperNode knows its executor; made if not there."""
    path = directory / "executor.secret"
    if not path.exists():
        write_private(path, secrets.token_bytes(SECRET_BYTES))
    check_private(path)
    if path.stat().st_size < SECRET_BYTES:
        raise InputError(f"{path} is no secret of {SECRET_BYTES} bytes. Delete it; a new one is made.")
    return path


@dataclass(frozen=True)
class Runtime:
    """A runtime API: where it is, and the certificate to know it by (None for plain HTTP on the loopback)."""

    address: str
    ca: Path | None = None

    @contextmanager
    def client(self, component: str, credential: Any, tries: int = _TRIES) -> Iterator[Any]:
        """Yield a client that identifies itself with this credential (an interceptor of Flower's)."""
        from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
        from flwr.supercore.runtime import RuntimeHttpClient

        client = RuntimeHttpClient.from_server_address(
            server_address=self.address,
            insecure=self.ca is None,
            root_certificates=None if self.ca is None else self.ca.read_bytes(),
            interceptors=[RuntimeVersionHttpInterceptor(component_name=component), credential],
            retry_invoker=retries(tries),
        )
        try:
            yield client
        finally:
            client.close()

    def take_tasks(self, kind: str, secret: Path, work: Callable[[str], None], stop: threading.Event) -> None:
        """Take tasks of this kind and call `work` with the token of each, one after the other, until `stop` is set.

        kind: Flower's `TaskType`. Neither an API that does not answer nor a task that fails ends the service.
        """
        from flwr.proto.runtime_pb2 import AcquireTaskRequest
        from flwr.supercore.interceptors import SuperExecAuthHttpInterceptor

        methods = frozenset({"/flwr.proto.Runtime/AcquireTask"})
        guard = SuperExecAuthHttpInterceptor(master_secret=secret.read_bytes(), protected_methods=methods)
        with self.client("SuperExec", guard, tries=1) as client:  # the loop asks again
            while not stop.is_set():
                try:
                    given = client.AcquireTask(AcquireTaskRequest(supported_task_types={kind}))
                except Exception as problem:  # noqa: BLE001 - whatever the API does, the service keeps asking
                    _log.debug("%s does not answer: %s", self.address, problem)
                    stop.wait(_AWAY_SECONDS)
                    continue
                if not given.HasField("task") or not given.token:
                    stop.wait(POLL_SECONDS)
                    continue
                try:
                    work(given.token)
                except Exception:  # noqa: BLE001 - the end of a task may be refused, its run being gone; others come
                    _log.exception("a task could not be brought to its end")


def retries(tries: int = _TRIES) -> Any:
    """Return Flower's means to call again, without what its own does to a process: it sends it SIGINT at a 401."""
    import httpx
    from flwr.supercore.retry import RetryInvoker, exponential

    def is_final(problem: Exception) -> bool:
        return isinstance(problem, httpx.HTTPStatusError) and problem.response.status_code not in _PASSING

    return RetryInvoker(
        wait_gen_factory=lambda: exponential(max_delay=2),
        recoverable_exceptions=(httpx.TransportError, httpx.HTTPStatusError),
        max_tries=tries,
        max_time=None,
        should_giveup=is_final,
    )


@contextmanager
def heartbeat(client: Any) -> Iterator[None]:
    """Tell Flower that the task lives; Flower's own function would interrupt the process of a task that has ended."""
    from flwr.proto.runtime_pb2 import SendTaskHeartbeatRequest
    from flwr.supercore.heartbeat import HeartbeatSender

    def beat() -> bool:
        try:
            client.SendTaskHeartbeat(SendTaskHeartbeatRequest())
        except Exception as problem:  # noqa: BLE001 - the task itself will notice if its API is gone for good
            _log.debug("no heartbeat: %s", problem)
        return True

    pulse = HeartbeatSender(beat)
    pulse.start()
    try:
        yield
    finally:
        pulse.stop()
