"""Submit a run to the SuperLink, watch it in the coordinator's file, and submit it again if its process dies."""

import time
from collections.abc import Callable

from dpadmm.engines.flower.agreement import Agreement
from dpadmm.engines.flower.coordinator import Coordinator, Progress
from dpadmm.engines.flower.coordinator_files import CoordinatorFiles
from dpadmm.engines.flower.outcome import FederationOutcome, outcome_of
from dpadmm.engines.flower.processes import FlowerError
from dpadmm.engines.flower.refusal import FederationStopped

_LOOK_SECONDS = 0.3
_CHECK_SECONDS = 5.0
_START_SECONDS = 90.0
_PULSE_SECONDS = 15.0
_RETRY_SECONDS = 5.0
MOST_SUBMISSIONS = 10
"""How often a run whose process died is continued as a new run before giving up."""


def watch(
    files: CoordinatorFiles,
    agreement: Agreement,
    show: Callable[[Progress], None] = lambda _: None,
    submissions: int = MOST_SUBMISSIONS,
) -> FederationOutcome:
    """Run these terms to their end and return the outcome; `FederationStopped` says why it could not be reached.

    A run that was interrupted, here or elsewhere, continues: the coordinator's file knows what is done.
    """
    coordinator = files.open_run(agreement)
    try:
        for _ in range(submissions):
            if coordinator.is_done or _watch_one(files, coordinator, agreement, show):
                return outcome_of(coordinator)
    finally:
        coordinator.close()
    raise FederationStopped(f"The server app died {submissions} times. Its log is {files.directory / 'server.log'}.")


def _watch_one(
    files: CoordinatorFiles, coordinator: Coordinator, agreement: Agreement, show: Callable[[Progress], None]
) -> bool:
    """Submit once and watch; return whether all rounds are done, False if the process ended before."""
    known = len(coordinator.log())
    try:
        run = files.submit(agreement)
    except FlowerError:
        time.sleep(_RETRY_SECONDS)  # the SuperLink may be on its way back
        return coordinator.is_done
    checked, last, submitted = time.monotonic(), None, time.time()
    while True:
        coordinator.refresh()
        progress = coordinator.progress()
        if progress != last:
            show(progress)
            last = progress
        if coordinator.is_done:
            return True
        reasons = [detail for _, event, detail in coordinator.log()[known:] if event == "stopped"]
        if reasons:
            raise FederationStopped(reasons[-1])
        if time.monotonic() - checked > _CHECK_SECONDS:
            # Flower notices a dead process late. Two at once do no harm: both work on the same file.
            begun = coordinator.pulse > submitted
            quiet = time.time() - max(coordinator.pulse, submitted)
            if quiet > (_PULSE_SECONDS if begun else _START_SECONDS):
                files.control().stop(run)
                return coordinator.is_done
            if files.control().is_over(run):
                return coordinator.is_done
            checked = time.monotonic()
        time.sleep(_LOOK_SECONDS)
