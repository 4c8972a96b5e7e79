"""Ask a coordinator's service for a run, and follow it in its file to its end."""

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from dpadmm.federation import sqlite_file
from dpadmm.federation.agreement import Agreement
from dpadmm.federation.coordinator import Progress, open_run
from dpadmm.federation.coordinator_store import ENDED, STOPPED, CoordinatorFiles
from dpadmm.federation.errors import FederationStopped
from dpadmm.federation.https.process_status import CoordinatorProcess, read_status
from dpadmm.federation.outcome import FederationOutcome, outcome_of
from dpadmm.federation.process_lock import is_held

LOOK_SECONDS = 0.1
AWAY_SECONDS = 20.0
"""How long the service may be away, as while it is started again."""


def request_run(
    files: CoordinatorFiles,
    agreement: Agreement,
    show: Callable[[Progress], None] = lambda _: None,
    away_seconds: float = AWAY_SECONDS,
    check: Callable[[], None] = lambda: None,
) -> FederationOutcome:
    """Have these terms run to their end and return the outcome; `FederationStopped` says why it could not be reached.

    A run that was interrupted continues: its file knows what is done. It goes on when nobody follows it. `check` is
    called again and again, and may raise.
    """
    with closing(open_run(files, agreement)) as run:
        try:
            run.ask()
            last, served = None, time.monotonic()
            while True:
                run.check_in_place()
                is_done = run.is_done  # before what is shown, so that the end is shown too
                progress = run.progress()
                process = read_status(files.status, CoordinatorProcess)
                if progress.waiting_for and process is not None and agreement.digest in process.joined:
                    joined = process.joined[agreement.digest]  # until all have, nobody else is asked
                    absent = tuple(name for name, _ in progress.epsilon if name not in joined)
                    progress = replace(progress, waiting_for=absent or progress.waiting_for)
                if progress != last:
                    show(progress)
                    last = progress
                if is_done:
                    return outcome_of(run)
                state, reason = run.stored.state()
                if state in (STOPPED, ENDED):
                    raise FederationStopped(str(reason))
                if is_held(files.lock):
                    served = time.monotonic()
                elif time.monotonic() - served > away_seconds:
                    raise FederationStopped(
                        f"No process serves {files.directory}: start `dpadmm coordinator run {files.directory}`, then "
                        f"run this command again. The run stays at round {max(run.round, 0)}; nothing is lost."
                    )
                check()
                time.sleep(LOOK_SECONDS)
        except sqlite3.Error as problem:
            why = problem if sqlite_file.is_machines(problem) else "it is damaged; restore it from a backup"
            raise FederationStopped(
                f"The coordinator's file, {files.database}, cannot be used: {why}. Run the command again afterwards."
            ) from problem
