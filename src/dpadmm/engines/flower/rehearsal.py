"""A whole federation on one machine: real SuperLink, real SuperNodes, TLS, registered keys; nothing leaves loopback."""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dpadmm.engines.federation.agreement import Agreement, Participant, write_federation
from dpadmm.engines.federation.coordinator import Progress
from dpadmm.engines.federation.keys import fingerprint
from dpadmm.engines.federation.outcome import FederationOutcome
from dpadmm.engines.federation.policy import Policy
from dpadmm.engines.federation.silo import Silo
from dpadmm.engines.federation.silo_files import SiloFiles
from dpadmm.engines.flower import processes
from dpadmm.engines.flower.coordinator_files import CoordinatorFiles
from dpadmm.engines.flower.federate import watch
from dpadmm.engines.flower.processes import Process
from dpadmm.engines.flower.tls import create_node_key
from dpadmm.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from dpadmm.datasets.schema import Schema

LONGEST_NAME = 200


@dataclass
class Rehearsal:
    """A federation under `place`: one coordinator, one silo per table; made by `prepared`, used inside `running`."""

    place: Path
    agreement: Agreement
    coordinator: CoordinatorFiles
    silos: dict[str, SiloFiles]
    port: int = 0
    superlink: Process | None = None
    conductor: Process | None = None
    nodes: dict[str, Process] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """Where the SuperLink listens."""
        return f"127.0.0.1:{self.port}"

    def start_superlink(self) -> None:
        """Start the SuperLink, on the same port after the first time."""
        self.port = self.port or processes.free_port()
        self.superlink = self.coordinator.start_superlink("127.0.0.1", self.port)

    def start_conductor(self) -> None:
        """Start what runs the server app, as `dpadmm coordinator run` does beside the SuperLink."""
        arguments = [sys.executable, "-m", "dpadmm.engines.flower.conductor", str(self.coordinator.directory)]
        environment = processes.flower_environment(self.coordinator.home)
        self.conductor = Process.start(arguments, environment, self.coordinator.directory / "server.log")

    def start_silo(self, name: str) -> None:
        """Start one silo, as `dpadmm silo run` does."""
        files = self.silos[name]
        ca = self.coordinator.directory / "ca.pem"
        arguments = [sys.executable, "-m", "dpadmm.engines.flower.node", str(files.directory), self.address, str(ca)]
        environment = processes.flower_environment(files.directory / "flower")
        self.nodes[name] = Process.start(arguments, environment, files.directory / "silo.log")

    def stop(self) -> None:
        """End every process that was started."""
        started = [each for each in (*self.nodes.values(), self.conductor, self.superlink) if each is not None]
        for process in started[:-1]:
            process.ask_to_stop()
        for process in started:
            process.stop()
        self.nodes.clear()
        self.superlink = self.conductor = None

    def federate(self, show: Callable[[Progress], None] = lambda _: None) -> FederationOutcome:
        """Run the federation to its end."""
        return watch(self.coordinator, self.agreement, show)


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
    """Make coordinator and silos under `place` and let every silo approve the terms.

    build: from participants, the coordinator's key and the schema's digest to the terms. policy: from a silo's name,
    table and schema file to its rules. budget: epsilon and delta of every silo's ledger. is_summed: whether
    these count against those who see sums under masks alone.
    """
    from dpadmm.engines.federation.silo_files import schema_digest

    _check_names(list(tables))
    coordinator = CoordinatorFiles(place / "coordinator")
    key = coordinator.create(["127.0.0.1", "localhost"])
    schema.save(place / "schema.json")
    silos, people = {}, []
    for name, table in tables.items():
        data = place / f"{name}.csv"
        table.to_csv(data, index=False)
        files = SiloFiles(place / name)
        records = files.create(policy(name, data, place / "schema.json"), *budget, is_summed=is_summed)
        create_node_key(files.directory)
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
        is_folder = Path(name).name == name and name not in ("..", "coordinator")
        if not (is_folder and name.isprintable() and name.strip() and len(name.encode()) <= LONGEST_NAME):
            raise InputError(
                f"Silo {place} of {len(names)} cannot be called as it is (the name is not shown): it needs a printable "
                f"name that can be a folder's, of at most {LONGEST_NAME} bytes. Change it in the table."
            )


@contextmanager
def running(rehearsal: Rehearsal) -> Iterator[Rehearsal]:
    """Start SuperLink and nodes, register the nodes' keys, and end all of them afterwards, whatever happens."""
    try:
        rehearsal.start_superlink()
        rehearsal.start_conductor()
        for name, files in rehearsal.silos.items():
            rehearsal.coordinator.control().register(files.directory / "node.pub", name)
            rehearsal.start_silo(name)
        yield rehearsal
    finally:
        rehearsal.stop()


@contextmanager
def temporary_place() -> Iterator[Path]:
    """A directory for a rehearsal that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="dpadmm-rehearsal-") as place:
        yield Path(place)


def wait_until(is_true: Callable[[], bool], seconds: float, what: str) -> None:
    """Return when something is true; `FlowerError` when it takes too long."""
    end = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > end:
            raise processes.FlowerError(f"Waited {seconds:g} s in vain for {what}.")
        time.sleep(0.1)
