"""A whole federation on one machine: a coordinator's port, silos in processes of their own, TLS, on the loopback."""

import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dpadmm.errors import InputError, raise_alone
from dpadmm.federation.admin.watch import watch
from dpadmm.federation.agreement import Agreement, Participant, write_federation
from dpadmm.federation.coordinator import Progress
from dpadmm.federation.coordinator_files import CoordinatorFiles
from dpadmm.federation.https.processes import Process
from dpadmm.federation.keys import fingerprint
from dpadmm.federation.names import LONGEST, check_distinct, check_name
from dpadmm.federation.outcome import FederationOutcome
from dpadmm.federation.policy import Policy
from dpadmm.federation.refusal import FederationStopped
from dpadmm.federation.silo import Silo
from dpadmm.federation.silo_files import SiloFiles, schema_digest

if TYPE_CHECKING:
    import pandas as pd

    from dpadmm.data.schema import Schema
    from dpadmm.federation.https.service import Service


@dataclass
class Rehearsal:
    """A federation under `place`: one coordinator, one silo per table; made by `prepared`, used inside `running`."""

    place: Path
    agreement: Agreement
    coordinator: CoordinatorFiles
    silos: dict[str, SiloFiles]
    port: int = 0
    nodes: dict[str, Process] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """Where the coordinator listens."""
        return f"127.0.0.1:{self.port}"

    def start_silo(self, name: str) -> None:
        """Start one silo, as `dpadmm silo run` does."""
        directory = self.silos[name].directory
        arguments = [sys.executable, "-m", "dpadmm.federation.https.line", str(directory), self.address]
        self.nodes[name] = Process.start(arguments, directory / "silo.log")

    def stop(self) -> None:
        """End every silo that was started."""
        for process in self.nodes.values():
            process.ask_to_stop()
        for process in self.nodes.values():
            process.stop()
        self.nodes.clear()

    def federate(self, show: Callable[[Progress], None] = lambda _: None) -> FederationOutcome:
        """Run the federation to its end; `FederationStopped` if the process of a silo ends."""
        return watch(self.coordinator, self.agreement, show, check=self._check_silos)

    def _check_silos(self) -> None:
        for name, process in self.nodes.items():
            if not process.is_alive:
                raise FederationStopped(f"The process of {name} has ended. Its log ends with:\n{process.tail(500)}")


def prepared(
    place: Path,
    tables: "dict[str, pd.DataFrame]",
    schema: "Schema",
    build: Callable[[Sequence[Participant], str, str], Agreement],
    policy: Callable[[str, Path, Path], Policy],
    budget: tuple[float, float],
    *,
    is_summed: bool = False,
) -> Rehearsal:
    """Make a coordinator and the silos, write the tables and the federation file, and let all silos approve the terms.

    build: from participants, the coordinator's key and the schema's digest to the terms. policy: from a silo's name,
    table and schema file to its rules. budget: epsilon and delta of every silo's ledger. is_summed: whether
    these count against those who see sums under masks alone.
    """
    _check_names(list(tables))
    coordinator = CoordinatorFiles(place / "coordinator")
    key = coordinator.create()
    schema.save(place / "schema.json")
    silos, people = {}, []
    for name, table in tables.items():
        data = place / f"{name}.csv"
        table.to_csv(data, index=False)
        files = SiloFiles(place / name)
        records = files.create(policy(name, data, place / "schema.json"), *budget, is_summed=is_summed)
        silo = Silo(files.directory)
        people.append(Participant(name, records.number, silo.public_key))
        silo.close()
        silos[name] = files
    agreement = build(people, key.public, schema_digest(place / "schema.json"))
    write_federation(place / "federation.toml", agreement)
    for files in silos.values():
        silo = Silo(files.directory)
        for person in people:  # all of them were made here a moment ago
            if person.name != silo.policy.name:
                silo.confirm_peer(person.name, fingerprint(person.key))
        silo.approve(agreement)
        silo.close()
    return Rehearsal(place, agreement, coordinator, silos)


def _check_names(names: Sequence[str]) -> None:
    """Refuse names that cannot be a folder's; they may be cells of a table, so they are not quoted."""
    for place, name in enumerate(names, start=1):
        try:
            check_name("silo", name)
            check_distinct([*names[:place], "coordinator"])
        except InputError:
            raise_alone(
                InputError(
                    f"Silo {place} of {len(names)} cannot keep its name (not shown here): it needs one of at most "
                    f"{LONGEST} bytes that can name a folder on any system and is not mistaken for another silo's. "
                    "Change it in the table."
                )
            )


@contextmanager
def running(rehearsal: Rehearsal) -> Iterator[Rehearsal]:
    """Start coordinator and silos, and end all of them afterwards, whatever happens."""
    from dpadmm.federation.https.service import free_port

    with ExitStack() as ends:
        ends.callback(rehearsal.stop)
        for name in rehearsal.silos:  # they dial until somebody answers
            rehearsal.port = rehearsal.port or free_port()
            rehearsal.start_silo(name)
        ends.enter_context(coordinating(rehearsal.coordinator, rehearsal.port))
        yield rehearsal


@contextmanager
def coordinating(files: CoordinatorFiles, port: int) -> "Iterator[Service]":
    """Serve a coordinator on the loopback, in threads of this process."""
    from dpadmm.federation.https.service import LOOK_SECONDS, serving

    stop = threading.Event()
    with serving(files, "127.0.0.1", port) as served:

        def look() -> None:
            while not stop.wait(LOOK_SECONDS):
                served.look()

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        try:
            yield served
        finally:
            stop.set()
            looking.join()


@contextmanager
def temporary_place() -> Iterator[Path]:
    """A directory for a rehearsal that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="dpadmm-rehearsal-") as place:
        yield Path(place)


def wait_until(is_true: Callable[[], bool], seconds: float, what: str) -> None:
    """Return when something is true; `TimeoutError` when it takes too long."""
    end = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > end:
            raise TimeoutError(f"Waited {seconds:g} s for {what}, without success.")
        time.sleep(0.05)
