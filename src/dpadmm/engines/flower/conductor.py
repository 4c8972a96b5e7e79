"""Does a SuperLink's tasks with the installed server app, one process per run; code that was shipped never runs.

Whoever reaches the control API can start a run that the coordinator has made already, and nothing else: a run is named
by the digest of its terms, and a server app that is started twice continues the same file.
"""

import logging
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from dpadmm.engines.flower import processes
from dpadmm.engines.flower.coordinator_files import CoordinatorFiles
from dpadmm.engines.flower.processes import Process
from dpadmm.engines.flower.runtime import auth_secret
from dpadmm.errors import InputError

MOST_AT_ONCE = 8
"""Server apps that run side by side; further tasks wait."""

SERVER = (sys.executable, "-m", "dpadmm.engines.flower.server_task")
_log = logging.getLogger("dpadmm.coordinator")


def conduct(files: CoordinatorFiles, stop: threading.Event, server: Sequence[str] = SERVER) -> None:
    """Start a server app for every task of the SuperLink until `stop` is set; end those that run then.

    server: the command; it gets the runtime API's address and the coordinator's directory, and the token on its input.
    """
    from flwr.supercore.constant import TaskType

    runtime = files.runtime()
    running: list[Process] = []
    environment = processes.flower_environment(files.home)

    def start(token: str) -> None:
        arguments = [*server, runtime.address, str(files.directory.resolve())]
        process = Process.start(arguments, environment, files.directory / "server.log", token.encode())
        running.append(process)
        while not stop.is_set() and _alive(running) >= MOST_AT_ONCE:
            stop.wait(1.0)

    try:
        runtime.take_tasks(TaskType.SERVER_APP, auth_secret(files.directory), start, stop)
    finally:
        for process in running:
            process.stop()


def _alive(running: list[Process]) -> int:
    """Forget the processes that have ended; return how many have not."""
    for process in [each for each in running if not each.is_alive]:
        process.stop()
        running.remove(process)
    return len(running)


def run_coordinator(files: CoordinatorFiles, host: str, port: int) -> None:
    """Serve until interrupted; a SuperLink that dies is started again, and nodes come back by themselves."""
    stop = processes.stopped_by_signals()
    superlink = files.start_superlink(host, port)
    worker = threading.Thread(target=conduct, args=(files, stop), name="conductor", daemon=True)
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
        if worker.is_alive():
            worker.join()  # it ends the server apps
        superlink.stop()


if __name__ == "__main__":  # python -m dpadmm.engines.flower.conductor DIR: what a rehearsal starts
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it reports every poll
    conduct(CoordinatorFiles(Path(sys.argv[1])), processes.stopped_by_signals())
