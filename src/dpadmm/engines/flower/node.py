"""A silo's node: Flower's SuperNode as a child process, and the executor that answers for it in this one."""

import logging
import os
import sys
import threading
import time
from pathlib import Path

from dpadmm.engines.federation.silo_files import SiloFiles
from dpadmm.engines.flower import processes
from dpadmm.engines.flower.processes import Process
from dpadmm.engines.flower.runtime import auth_secret
from dpadmm.errors import InputError

_log = logging.getLogger("dpadmm.silo")


def start_supernode(files: SiloFiles, superlink: str, ca: Path | None, port: int) -> Process:
    """Start the SuperNode of a silo; `ca` is the federation's certificate, None for plain HTTP on the loopback."""
    host = superlink.rsplit(":", 1)[0]
    arguments = [processes.command("flower-supernode"), "--superlink", superlink, "--isolation", "process"]
    arguments += ["--host", "127.0.0.1", "--port", str(port)]
    arguments += ["--superexec-auth-secret-file", str(auth_secret(files.directory))]
    if ca is None:
        if host not in ("127.0.0.1", "localhost", "[::1]"):
            raise InputError(f"Plain HTTP is for the loopback only, not for {host!r}. Give the CA's certificate.")
        arguments.append("--insecure")
    else:
        arguments += ["--root-certificates", str(ca)]
        arguments += ["--auth-supernode-private-key", str(files.directory / "node.key")]
    home = files.directory / "flower"
    home.mkdir(exist_ok=True)
    return Process.start(arguments, processes.flower_environment(home), files.directory / "node.log")


def run_silo(directory: Path, superlink: str, ca: Path | None) -> None:
    """Serve until interrupted; a SuperNode that dies is started again."""
    from dpadmm.engines.flower.client_app import SILO
    from dpadmm.engines.flower.executor import serve

    files = SiloFiles(Path(directory).resolve())
    os.environ[SILO] = str(files.directory)
    os.environ.update(FLWR_TELEMETRY_ENABLED="0", FLWR_DISABLE_UPDATE_CHECK="1")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it reports every poll
    stop, stuck = processes.stopped_by_signals(), threading.Event()
    port = processes.free_port()
    node = start_supernode(files, superlink, ca, port)
    worker = threading.Thread(
        target=serve, args=(f"127.0.0.1:{port}", auth_secret(files.directory), stop, stuck), name="silo", daemon=True
    )
    try:
        worker.start()
        while not stop.wait(0.5):
            if not worker.is_alive():
                raise InputError("The silo's executor has ended; see its log.")
            if stuck.is_set() or not node.is_alive:
                how = "waits for a reply that it will not get" if node.is_alive else "ended"
                _log.warning("the SuperNode %s; starting it again. Its log says:\n%s", how, node.tail(500))
                node.stop()
                time.sleep(2.0)
                node = start_supernode(files, superlink, ca, port)
                stuck.clear()
    finally:
        stop.set()
        node.stop()


if __name__ == "__main__":  # python -m dpadmm.engines.flower.node DIR HOST:PORT CA: what a rehearsal starts
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    run_silo(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
