"""The ServerApp: drives the run of some terms to its end; the result is in the coordinator's directory."""

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from dpadmm.errors import DpadmmError, InputError
from dpadmm.federation.coordinator import open_run
from dpadmm.federation.coordinator_loop import drive
from dpadmm.federation.coordinator_store import CoordinatorFiles
from dpadmm.federation.party_directory import exclusive_lock
from dpadmm.federation.terms import read_federation
from dpadmm_flower.transport import LIVES_SECONDS, FlowerTransport

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Drive the run that the run config names: `coordinator`, a directory, and `federation`, the file of the terms."""
    files = CoordinatorFiles(_path(context, "coordinator"))
    terms = read_federation(_path(context, "federation"))
    files.check()
    with (
        _shown_log(),
        exclusive_lock(files.lock, "The coordinator of this directory"),
        closing(open_run(files, terms)) as run,
    ):
        run.ask()
        try:
            keys = tuple(person.key for person in terms.participants)
            drive(run, FlowerTransport(grid, run.invitation, keys), resend_seconds=LIVES_SECONDS)
        except DpadmmError as problem:
            run.stop(str(problem))  # for whoever watches the file
            raise


def _path(context: Context, name: str) -> Path:
    """Return a path of the run config: on the machine of the SuperLink, whose folder the submitter does not know."""
    path = Path(str(context.run_config.get(name, "")))
    if not path.is_absolute():
        raise InputError(f"The run config must give {name!r} as an absolute path, got {str(path)!r}.")
    return path


@contextmanager
def _shown_log() -> Iterator[None]:
    """Let `flwr log` show what the coordinator logs."""
    log, shown = logging.getLogger("dpadmm"), logging.StreamHandler()
    log.addHandler(shown)
    before = log.level
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(before)
        log.removeHandler(shown)
