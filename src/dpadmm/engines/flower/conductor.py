"""Does a SuperLink's tasks with the installed server app, one process per run; code that was shipped never runs.

Whoever reaches the control API can submit a task. Only those are done that name a run which the coordinator has made,
which `dpadmm federate` wants just now, and which no process drives already.
"""

import base64
import logging
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dpadmm.engines.federation.coordinator import expect_driver, signs_in
from dpadmm.engines.flower import processes
from dpadmm.engines.flower.coordinator_files import CoordinatorFiles
from dpadmm.engines.flower.processes import Process
from dpadmm.engines.flower.runtime import Runtime, auth_secret
from dpadmm.errors import InputError

SERVER = (sys.executable, "-m", "dpadmm.engines.flower.server_app")
_BEGIN_SECONDS = 60.0
_JOIN_SECONDS = 10.0
_log = logging.getLogger("dpadmm.coordinator")


@dataclass
class Conductor:
    """Takes tasks and starts server apps.

    server: the command; it gets the runtime API's address and the coordinator's directory, and the task on its input.
    """

    files: CoordinatorFiles
    server: Sequence[str] = SERVER
    _driving: dict[str, tuple[Process, float]] = field(default_factory=dict)

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set."""
        from flwr.supercore.constant import TaskType

        runtime = self.files.runtime()
        secret = auth_secret(self.files.directory)
        runtime.take_tasks(TaskType.SERVER_APP, secret, lambda token: self._take(runtime, token), stop)

    def close(self) -> None:
        """End all server apps."""
        for process, _ in list(self._driving.values()):
            process.stop()

    def check(self, digest: str) -> None:
        """Raise an error if no server app is to be started for the run of this name, which may come from anybody."""
        path = self.files.run_named(digest)
        signs = signs_in(path, time.time())
        if not signs.is_wanted:
            raise InputError(f"Nobody has asked for the run {digest} lately; `dpadmm federate` does.")
        process, started = self._driving.get(digest, (None, 0.0))
        is_beginning = not signs.has_begun and time.monotonic() - started < _BEGIN_SECONDS
        if process is not None and process.is_alive and (signs.is_driven or is_beginning):
            raise InputError(f"The run {digest} is being driven already.")

    def _take(self, runtime: Runtime, token: str) -> None:
        from flwr.common.constant import SubStatus
        from flwr.common.serde import run_from_proto
        from flwr.proto.runtime_pb2 import PullTaskInputRequest, PushTaskOutputRequest
        from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor

        with runtime.client("flwr-serverapp", RuntimeTokenHttpInterceptor(token)) as client:
            try:
                given = client.PullTaskInput(PullTaskInputRequest())
                digest = str(run_from_proto(given.run).override_config.get("run", ""))
                given.ClearField("fab")  # the app that came with it
                self.check(digest)
                task = b"\n".join([token.encode(), base64.b64encode(given.SerializeToString())])
                self._start(digest, runtime, task)
            except Exception as problem:  # noqa: BLE001 - a task must get an answer; who sent it learns no more
                _log.warning("a task is refused: %s", problem)
                detail = "refused; see the coordinator's log"
                client.PushTaskOutput(PushTaskOutputRequest(sub_status=SubStatus.FAILED, details=detail))

    def _start(self, digest: str, runtime: Runtime, task: bytes) -> None:
        for name, (process, _) in list(self._driving.items()):
            if name == digest or not process.is_alive:  # it has ended, or gives no sign of life
                del self._driving[name]
                process.stop()
        expect_driver(self.files.run_named(digest))
        arguments = [*self.server, runtime.address, str(self.files.directory.resolve())]
        environment = processes.flower_environment(self.files.home)
        started = Process.start(arguments, environment, self.files.directory / "server.log", task)
        self._driving[digest] = started, time.monotonic()


def run_coordinator(files: CoordinatorFiles, host: str, port: int) -> None:
    """Serve until interrupted; a SuperLink that dies is started again, and nodes come back by themselves."""
    files.key()  # before anything is started: is this a coordinator's directory?
    with processes.sole(files.directory / "running.lock", "The coordinator of this directory"):
        superlink = files.start_superlink(host, port)
        stop, conductor = processes.stopped_by_signals(), Conductor(files)
        worker = threading.Thread(target=conductor.run, args=(stop,), name="conductor", daemon=True)
        try:
            worker.start()
            while not stop.wait(0.5):
                if not worker.is_alive():
                    raise InputError(f"The coordinator's executor has ended; see {files.directory / 'server.log'}.")
                if not superlink.is_alive:
                    _log.warning("the SuperLink ended; starting it again. Its log says:\n%s", superlink.tail(500))
                    superlink.stop()
                    stop.wait(1.0)
                    superlink = files.start_superlink(host, port)
        finally:
            stop.set()
            superlink.stop()
            worker.join(_JOIN_SECONDS)
            conductor.close()


def main() -> None:
    """`python -m dpadmm.engines.flower.conductor DIR`: what a rehearsal starts beside its SuperLink."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it reports every poll
    conductor = Conductor(CoordinatorFiles(Path(sys.argv[1])))
    try:
        conductor.run(processes.stopped_by_signals())
    finally:
        conductor.close()


if __name__ == "__main__":
    main()
