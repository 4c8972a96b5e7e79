"""Ask a coordinator's service for a run, and watch it in its file."""

import sqlite3
import time
from collections.abc import Callable
from dataclasses import replace

from dpadmm.federation import durable
from dpadmm.federation.agreement import Agreement
from dpadmm.federation.coordinator import Progress
from dpadmm.federation.coordinator_files import CoordinatorFiles
from dpadmm.federation.https.notice import CoordinatorNotice
from dpadmm.federation.locks import is_held
from dpadmm.federation.outcome import FederationOutcome, outcome_of
from dpadmm.federation.refusal import FederationStopped

LOOK_SECONDS = 0.1
AWAY_SECONDS = 20.0
"""How long the service may be away, as while it is started again."""


def watch(
    files: CoordinatorFiles,
    agreement: Agreement,
    show: Callable[[Progress], None] = lambda _: None,
    away_seconds: float = AWAY_SECONDS,
    check: Callable[[], None] = lambda: None,
) -> FederationOutcome:
    """Have these terms run to their end and return the outcome; `FederationStopped` says why it could not be reached.

    A run that was interrupted continues: its file knows what is done. It goes on when nobody watches. `check` is called
    again and again, and may raise.
    """
    run = files.open_run(agreement)
    try:
        run.ask()
        last, served = None, time.monotonic()
        while True:
            run.refresh()
            is_done = run.is_done  # before what is shown, so that the end is shown too
            progress = _with_absent(run.progress(), CoordinatorNotice.read(files.status), agreement.digest)
            if progress != last:
                show(progress)
                last = progress
            if is_done:
                return outcome_of(run)
            reason = run.reason_to_stop()
            if reason is not None:
                raise FederationStopped(reason)
            if is_held(files.lock):
                served = time.monotonic()
            elif time.monotonic() - served > away_seconds:
                raise FederationStopped(
                    f"No process serves {files.directory}: start `dpadmm coordinator run {files.directory}`, then run "
                    f"this command again. The run stays at round {max(run.round, 0)}; nothing is lost."
                )
            check()
            time.sleep(LOOK_SECONDS)
    except sqlite3.Error as problem:
        why = problem if durable.is_machines(problem) else "it is damaged; restore it from a backup"
        raise FederationStopped(
            f"The file of the run, {run.path}, cannot be used: {why}. Run the command again afterwards."
        ) from problem
    finally:
        run.close()


def _with_absent(progress: Progress, notice: CoordinatorNotice | None, file: str) -> Progress:
    """Name those who have not joined as waited for, where there are any: until they have, nobody else is asked."""
    driven = None if notice is None else notice.driven(file)
    absent = tuple(name for name, _ in progress.epsilon if driven is not None and name in driven.absent)
    return replace(progress, waiting_for=absent) if absent and progress.waiting_for else progress
