"""A whole federation on one machine: a coordinator's port, silos in processes of their own, TLS, on the loopback."""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpadmm import checks
from dpadmm.errors import InputError, raise_alone
from dpadmm.federation.coordinator import Progress
from dpadmm.federation.coordinator_store import CoordinatorFiles
from dpadmm.federation.errors import FederationStopped
from dpadmm.federation.https.processes import Process
from dpadmm.federation.https.service import LOOK_SECONDS, CoordinatorService, free_port, request_run, serve_coordinator
from dpadmm.federation.keys import fingerprint
from dpadmm.federation.names import LONGEST, check_distinct, check_name
from dpadmm.federation.outcome import FederationOutcome
from dpadmm.federation.policy import Policy
from dpadmm.federation.silo import Silo
from dpadmm.federation.silo_directory import SiloDirectory, counted_columns, schema_digest
from dpadmm.federation.terms import NoiseOrigin, Participant, Terms, named_edges, write_federation
from dpadmm.methods.p_admm import PADMM
from dpadmm.problems.losses import Logistic, Softmax
from dpadmm.settings import CellRules, TableFormat

if TYPE_CHECKING:
    import pandas as pd

    from dpadmm.data.schema import Schema

DELTA = 1e-5
"""The delta of every rehearsal."""

_DEAL_SEED = 20_241

_ANY, _STRICT = TableFormat(), CellRules()
_AS_DEALT = TableFormat(sep=",", decimal=".", encoding="utf-8", header=True)


@dataclass
class Rehearsal:
    """A federation under `place`, one coordinator and one silo per table, to be used inside `run_rehearsal`."""

    place: Path
    terms: Terms
    coordinator: CoordinatorFiles
    silos: dict[str, SiloDirectory]
    port: int = 0
    nodes: dict[str, Process] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """Where the coordinator listens."""
        return f"127.0.0.1:{self.port}"

    def start_silo(self, name: str) -> None:
        """Start one silo, as `dpadmm silo run` does."""
        directory = self.silos[name].directory
        arguments = [sys.executable, "-m", "dpadmm", "silo", "run", str(directory), "--coordinator", self.address]
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
        return request_run(self.coordinator, self.terms, show, check=self._check_silos)

    def _check_silos(self) -> None:
        for name, process in self.nodes.items():
            if not process.is_alive:
                raise FederationStopped(f"The process of {name} has ended. Its log ends with:\n{process.tail(500)}")


def prepare_rehearsal(
    place: Path,
    tables: "dict[str, pd.DataFrame]",
    schema: "Schema",
    build: Callable[[Sequence[Participant], str, str], Terms],
    policy: Callable[[str, Path, Path], Policy],
    budget: tuple[float, float],
) -> Rehearsal:
    """Make a coordinator and the silos, write the tables and the federation file, and let all silos approve the terms.

    build: from participants, the coordinator's key and the schema's digest to the terms. policy: from a silo's name,
    table and schema file to its rules. budget: epsilon and delta of every silo's ledger.
    """
    _check_names(list(tables))
    coordinator = CoordinatorFiles(place / "coordinator")
    key = coordinator.create()
    schema.save(place / "schema.json")
    silos, people = {}, []
    for name, table in tables.items():
        data = place / f"{name}.csv"
        table.to_csv(data, index=False)
        files = SiloDirectory(place / name)
        records = files.create(policy(name, data, place / "schema.json"), *budget)
        with closing(Silo(files.directory)) as silo:
            people.append(Participant(name, records.number, silo.public_key))
        silos[name] = files
    terms = build(people, key.public, schema_digest(place / "schema.json"))
    write_federation(place / "federation.toml", terms)
    for files in silos.values():
        with closing(Silo(files.directory)) as silo:
            for person in people:  # all of them were made here a moment ago
                if person.name != silo.policy.name:
                    silo.confirm_peer(person.name, fingerprint(person.key))
            silo.approve(terms)
    return Rehearsal(place, terms, coordinator, silos)


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
def run_rehearsal(rehearsal: Rehearsal) -> Iterator[Rehearsal]:
    """Start coordinator and silos, and end all of them afterwards, whatever happens."""
    with ExitStack() as ends:
        ends.callback(rehearsal.stop)
        for name in rehearsal.silos:  # they dial until somebody answers
            rehearsal.port = rehearsal.port or free_port()
            rehearsal.start_silo(name)
        ends.enter_context(serve_in_thread(rehearsal.coordinator, rehearsal.port))
        yield rehearsal


@contextmanager
def serve_in_thread(files: CoordinatorFiles, port: int) -> Iterator[CoordinatorService]:
    """Serve a coordinator on the loopback, in threads of this process."""
    stop = threading.Event()
    with serve_coordinator(files, "127.0.0.1", port) as served:

        def look() -> None:
            while not stop.wait(LOOK_SECONDS):
                served.check_runs()

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        try:
            yield served
        finally:
            stop.set()
            looking.join()


def rehearsal_tables(
    silos: int,
    data: Path | None,
    schema: Path | None,
    by: str | None,
    *,
    written: TableFormat = _ANY,
    screening: CellRules = _STRICT,
) -> "tuple[dict[str, pd.DataFrame], Schema]":
    """Return one table per silo: the user's, dealt by a column or at random; or breast cancer, from scikit-learn.

    Cells that `screening` refuses are refused here, where file and row are still those of the user.
    """
    from dpadmm.data.reading import read_file
    from dpadmm.data.schema import Schema
    from dpadmm.data.tables import encode_table, split_table

    checks.count("silos", silos, least=2)
    if data is None:
        from sklearn import datasets

        from dpadmm.data.examples import BREAST_CANCER_SCHEMA

        frame, public = datasets.load_breast_cancer(as_frame=True).frame, BREAST_CANCER_SCHEMA
    else:
        if schema is None:
            raise InputError("A table needs its public schema: give --schema FILE.")
        frame, public = read_file(data, written).frame, Schema.load(schema)
        encode_table(public, frame, str(data), screening)
    if by is not None:
        tables = split_table(frame, by, "The table")
    else:
        order = np.random.default_rng(_DEAL_SEED).permutation(len(frame))
        tables = {f"silo-{i}": frame.iloc[rows] for i, rows in enumerate(np.array_split(order, silos))}
    if len(tables) != silos:
        raise InputError(f"The column {by!r} names {len(tables)} silos, not {silos}.")
    return tables, public


def p_admm_terms(
    schema: "Schema",
    rounds: int,
    epsilon: float,
    clip_radius: float = 0.0,
    profile_share: float = 0.0,
    class_weights: Sequence[float] = (),
) -> Callable[[Sequence[Participant], str, str], Terms]:
    """Return the builder of the terms: P-ADMM on a ring (a path for two) at delta 1e-5 with test noise.

    clip_radius, profile_share: how rows are encoded, class_weights: what those of each class count, see `Terms`.
    """

    loss = Softmax(len(schema.label.classes)) if len(schema.label.classes) > 2 else Logistic()
    vectors = loss.n_classes if isinstance(loss, Softmax) else 1

    def build(people: Sequence[Participant], coordinator: str, digest: str) -> Terms:
        return Terms(
            run="rehearsal",
            method=PADMM.about.name,
            settings=(("eta", 0.01),),
            rounds=rounds,
            epsilon=epsilon,
            delta=DELTA,
            participants=tuple(people),
            coordinator=coordinator,
            schema=digest,
            dimension=vectors * schema.dimension,
            row_norm=schema.row_norm,
            edges=tuple(named_edges("ring", len(people))),
            mu=0.01,
            noise=NoiseOrigin.TEST,
            seed=7,
            clip_radius=clip_radius,
            profile=counted_columns(schema, profile_share) if profile_share else None,
            class_weights=tuple(class_weights),
            loss=loss,
        )

    return build


def rehearsal_policy(name: str, data: Path, schema: Path, screening: CellRules = _STRICT) -> Policy:
    """Return a policy for a rehearsal's silo; awkward cells are refused unless `screening` says otherwise."""
    return Policy(
        name=name,
        data=str(data),
        schema=str(schema),
        noise=NoiseOrigin.TEST,
        screening=screening,
        written=_AS_DEALT,
    )
