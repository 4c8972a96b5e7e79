"""The Flower ServerApp: drives a run of the coordinator in `DPADMM_COORDINATOR` over Flower's grid."""

import logging
import os
import time
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from dpadmm.engines.flower.coordinator_files import DIRECTORY, CoordinatorFiles
from dpadmm.engines.flower.grid import GridTransport, LostGrid

_log = logging.getLogger("dpadmm.coordinator")
app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Drive the run to its end; a run that was interrupted continues where its file says."""
    from dpadmm.engines.federation.coordinator import Coordinator
    from dpadmm.engines.federation.drive import Drive, Unattended

    files = CoordinatorFiles(Path(os.environ[DIRECTORY]))
    path = files.run_named(str(context.run_config.get("run", "")))
    coordinator = Coordinator(path, files.key(), time.time)
    try:
        transport = GridTransport(grid)
        Drive(coordinator, transport, time.monotonic, is_wanted=lambda: coordinator.signs.is_wanted).run()
    except (LostGrid, Unattended) as problem:
        _log.warning("the run is left where it is: %s", problem)
    except Exception as problem:
        coordinator.stopped(str(problem))
        raise
    finally:
        coordinator.rest()
        coordinator.close()
