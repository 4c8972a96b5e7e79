"""Processes that kill themselves at the next point of a list: `trapped.py KIND FILE ...`."""

import logging
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "federation"))


def arm(points: Path) -> None:
    """Set the first trap of the file and take it off the list, so that the next start has the next one."""
    import crashes

    listed = points.read_text().splitlines()
    if listed:
        points.write_text("\n".join(listed[1:]))
        crashes.trap(listed[0])


def silo(points: Path, directory: str, superlink: str, ca: str) -> None:
    """Run a silo's node with a trap."""
    from dpadmm.engines.flower.node import run_silo

    arm(points)
    run_silo(Path(directory), superlink, Path(ca))


def conductor(points: Path, directory: str) -> None:
    """Serve a SuperLink's tasks with server apps that have traps."""
    from dpadmm.engines.flower.conductor import Conductor
    from dpadmm.engines.flower.coordinator_files import CoordinatorFiles
    from dpadmm.engines.flower.processes import stopped_by_signals

    serving = Conductor(CoordinatorFiles(Path(directory)), (sys.executable, __file__, "server", str(points)))
    try:
        serving.run(stopped_by_signals())
    finally:
        serving.close()


def server(points: Path, address: str, directory: str) -> None:
    """Run a server app with a trap."""
    from dpadmm.engines.flower import server_app

    arm(points)
    sys.argv = ["server_app", address, directory]
    server_app.main()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    {"silo": silo, "conductor": conductor, "server": server}[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
