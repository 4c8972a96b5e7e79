"""A federation over real TLS on the loopback whose silos are threads: as fast as a test wants it."""

import math
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field

from dpadmm.federation.admin.rehearsal import Rehearsal, serve_in_thread
from dpadmm.federation.https.client import SiloClient
from dpadmm.federation.https.processes import StopRequested
from dpadmm.federation.https.service import CoordinatorService, free_port
from dpadmm.federation.silo import Silo


@dataclass
class Stop:
    """Stands for the signals that end a process; one comes after so many waits for a letter."""

    is_asked: bool = False
    waits: float = math.inf

    def waiting(self):
        self.waits -= 1
        if self.waits < 0:
            raise StopRequested
        return nullcontext()

    def sleep(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.05))


@dataclass
class Staff:
    """Silos in threads, and what they said where they failed."""

    rehearsal: Rehearsal
    stops: dict[str, Stop] = field(default_factory=dict)
    threads: dict[str, threading.Thread] = field(default_factory=dict)

    def start(self, name: str, waits: float = math.inf) -> None:
        """Start a silo."""
        stop = self.stops[name] = Stop(waits=waits)

        def work() -> None:
            silo = Silo(self.rehearsal.silos[name].directory)
            SiloClient(silo, self.rehearsal.address, stop).serve()
            silo.close()

        self.threads[name] = threading.Thread(target=work, daemon=True)
        self.threads[name].start()

    def ask_to_stop(self) -> None:
        """Let all silos end with their present wait."""
        for stop in self.stops.values():
            stop.is_asked = True


@contextmanager
def staffed(rehearsal: Rehearsal, *absent: str) -> Iterator[tuple[CoordinatorService, Staff]]:
    """Serve the coordinator and all silos but these."""
    rehearsal.port = free_port()
    staff = Staff(rehearsal)
    with ExitStack() as ends:
        service = ends.enter_context(serve_in_thread(rehearsal.coordinator, rehearsal.port))
        ends.callback(staff.ask_to_stop)
        for name in rehearsal.silos:
            if name not in absent:
                staff.start(name)
        yield service, staff
    for thread in staff.threads.values():
        thread.join(30)
