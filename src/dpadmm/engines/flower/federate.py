"""Submit a run to the SuperLink, watch it in the coordinator's file, and submit it again if its process dies."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from dpadmm.engines.federation.agreement import Agreement
from dpadmm.engines.federation.coordinator import Coordinator, Progress
from dpadmm.engines.federation.outcome import FederationOutcome, outcome_of
from dpadmm.engines.federation.refusal import FederationStopped
from dpadmm.engines.flower.coordinator_files import CoordinatorFiles
from dpadmm.engines.flower.processes import FlowerError

MOST_SUBMISSIONS = 10
"""How often in a row a run whose process died, with no round done, is continued as a new run before giving up."""

_LOOK_SECONDS = 0.3
_CHECK_SECONDS = 5.0
_log = logging.getLogger("dpadmm.coordinator")


def watch(
    files: CoordinatorFiles,
    agreement: Agreement,
    show: Callable[[Progress], None] = lambda _: None,
    submissions: int = MOST_SUBMISSIONS,
) -> FederationOutcome:
    """Run these terms to their end and return the outcome; `FederationStopped` says why it could not be reached.

    A run that was interrupted, here or elsewhere, continues: the coordinator's file knows what is done. It is driven
    only while somebody watches.
    """
    coordinator = files.open_run(agreement)
    try:
        watching, deaths = Watch(files, coordinator, agreement, show), 0
        while deaths < submissions:
            before = coordinator.phase, coordinator.round
            if watching.is_done_after_one_run():
                return outcome_of(coordinator)
            deaths = deaths + 1 if (coordinator.phase, coordinator.round) == before else 0
    finally:
        coordinator.close()
    raise FederationStopped(
        f"The server app died {submissions} times in a row. Its log is {files.directory / 'server.log'}."
    )


@dataclass
class Watch:
    """Somebody who wants a run to be driven to its end.

    away_seconds: how long a SuperLink may be away. start_seconds: how long a server app may take to begin.
    """

    files: CoordinatorFiles
    coordinator: Coordinator
    agreement: Agreement
    show: Callable[[Progress], None]
    away_seconds: float = 60.0
    start_seconds: float = 60.0
    _last: Progress | None = field(default=None, init=False)
    _known: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Remember what was in the log before."""
        self._known = len(self.coordinator.log())

    def is_done_after_one_run(self) -> bool:
        """Submit, unless a process drives the run already, and watch until none does; say whether all rounds are done.

        `FederationStopped` if the run has stopped for good, or if nobody is there to drive it.
        """
        self.coordinator.want()
        if self.coordinator.is_done:
            return True
        run = None if self.coordinator.signs.is_driven else self._submit()
        self.coordinator.want()
        submitted = checked = time.monotonic()
        has_begun = run is None
        while not self._is_done():
            time.sleep(_LOOK_SECONDS)
            if time.monotonic() - checked < _CHECK_SECONDS:
                continue
            checked = time.monotonic()
            self.coordinator.want()
            if self.coordinator.signs.is_driven:
                has_begun = True
                continue
            # Flower notices a dead process late: the file knows better.
            is_over = run is not None and self.files.control().is_over(run)
            if not has_begun and not is_over and checked - submitted < self.start_seconds:
                continue
            if run is not None:
                self.files.control().stop(run)
            if not has_begun and not is_over:
                raise FederationStopped(
                    f"The SuperLink took the run, but nobody has driven it for {self.start_seconds:g} s. "
                    f"Is `dpadmm coordinator run {self.files.directory}` running? If it is, see server.log there."
                )
            return self._is_done()
        return True

    def _is_done(self) -> bool:
        """Show what is new; say whether all rounds are done."""
        self.coordinator.refresh()
        is_done = self.coordinator.is_done  # before what is shown, so that the end is shown too
        progress = self.coordinator.progress()
        if progress != self._last:
            self.show(progress)
            self._last = progress
        if is_done:
            return True
        reasons = [detail for _, event, detail in self.coordinator.log()[self._known :] if event == "stopped"]
        if reasons:
            raise FederationStopped(reasons[-1])
        return False

    def _submit(self) -> int:
        """Start a run; wait for a SuperLink that is on its way back."""
        end, is_first = time.monotonic() + self.away_seconds, True
        while True:
            try:
                return self.files.submit(self.agreement)
            except FlowerError as problem:
                said = f"{problem}\nIs `dpadmm coordinator run {self.files.directory}` running?"
                if time.monotonic() > end:
                    raise FederationStopped(said) from problem
                if is_first:
                    _log.warning("%s Trying for %g s.", said, self.away_seconds)
                is_first = False
                time.sleep(_CHECK_SECONDS)
                self.coordinator.want()
