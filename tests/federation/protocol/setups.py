"""A small federation in a folder: tables, silos, a coordinator's key, agreed terms, and what carries their messages."""

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import numpy as np
import pandas as pd
from tests.contracts.in_memory import Carried, Crashed, InMemory, at_once  # noqa: F401 - for the tests
from tests.protections import changed, nested

from dpadmm.core.release import PlannedNoise
from dpadmm.data import Numeric, Schema, ThresholdLabel
from dpadmm.data.encoding import RowEncoding
from dpadmm.federation import messages
from dpadmm.federation.coordinator import Coordinator
from dpadmm.federation.coordinator_loop import drive
from dpadmm.federation.coordinator_store import CoordinatorStore
from dpadmm.federation.keys import SigningKey, fingerprint, open_envelope
from dpadmm.federation.messages import Confirmations, ConfirmPeers, Join, Joined, Step, Vector
from dpadmm.federation.policy import Policy
from dpadmm.federation.rollback_detection import Session
from dpadmm.federation.silo import Silo
from dpadmm.federation.silo_directory import SiloDirectory, counted_columns, schema_digest
from dpadmm.federation.terms import NoiseOrigin, Participant, Terms
from dpadmm.methods.base import federated
from dpadmm.noise.masks import MaskKey, Uint64s
from dpadmm.privacy.ledger import open_for_reading
from dpadmm.privacy.protection import Protection, View
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.silos import Silos

SCHEMA = Schema((Numeric("a", -3, 3), Numeric("b", -3, 3), Numeric("c", -3, 3)), ThresholdLabel("y", 0), constant=None)
COUNTED = {"clip_radius": 0.6, "profile": counted_columns(SCHEMA, 0.2)}
"""Terms with a round 0."""

TRUSTING = ("consensus", "consensus-gaussian", "fp-coordinator", "noisy-gradients")
MASKED = {"view": View.AGGREGATE, "edges": ()}
"""Terms under which messages leave under masks."""


def tables(sizes: Iterable[int]) -> dict[str, pd.DataFrame]:
    """Return one table per silo, the same for everybody."""
    rng, made = np.random.default_rng(3), {}
    for i, n in enumerate(sizes):
        x = rng.normal(size=(n, 3))
        y = x @ [1.0, -1.0, 0.5] + rng.normal(size=n)
        made[f"s{i}"] = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": y})
    return made


def losing(name: str, after: int, until: float = float("inf")):
    """Return a fate that loses the requests to one silo after so many, until so many."""
    asked = count(1)

    def fate(carried: Carried) -> tuple[int, ...]:
        is_lost = carried.node == name and carried.is_request and after < next(asked) <= until
        return () if is_lost else (0,)

    return fate


@dataclass
class World:
    """Everything of a small federation."""

    place: Path
    terms: Terms
    key: SigningKey
    silos: dict[str, Silo] = field(default_factory=dict)

    @property
    def first(self) -> Silo:
        return next(iter(self.silos.values()))

    def coordinator(self, terms: Terms | None = None, name: str = "run.db") -> Coordinator:
        """Open the run, or start it."""
        path = self.place / name
        if not path.exists():
            CoordinatorStore.create(path)
        return Coordinator.start(CoordinatorStore(path), terms or self.terms, self.key)

    def join(self, coordinator: Coordinator) -> Coordinator:
        """Let all silos join."""
        for silo in self.silos.values():
            coordinator.accept(silo.public_key, silo.answer(coordinator.invitation))
        return coordinator

    @property
    def keys(self) -> list[str]:
        """The silos' public keys, in the order of the terms."""
        return [person.key for person in self.terms.participants]

    def transport(self, fate=at_once, terms=None, **others) -> InMemory:
        """Return a transport to these silos, or to others in their places."""
        starts = {name: (lambda silo=silo: silo) for name, silo in (self.silos | others).items()}
        return InMemory(starts, terms or self.terms, fate)

    def processes(self, fate=at_once) -> InMemory:
        """Return a transport to these silos as new processes, which want to be confirmed."""
        starts = {name: (lambda name=name: Silo(self.place / name)) for name in self.silos}
        return InMemory(starts, self.terms, fate)

    def drive(self, coordinator: Coordinator, transport: InMemory | None = None, **settings) -> InMemory:
        """Run to the end; return what carried the messages."""
        used = transport or self.transport(terms=coordinator.terms)
        drive(coordinator, used, used.clock, **settings)
        return used

    def approve(self, terms: Terms) -> None:
        """Let all silos approve these terms; under masks their owners have compared fingerprints."""
        for name, silo in self.silos.items():
            for person in terms.participants if terms.is_masked else ():
                if person.name != name:
                    silo.confirm_peer(person.name, fingerprint(person.key))
            silo.approve(terms)

    def refuses(self, envelope: bytes, args: str, releases: int = 0, name: str = "s0") -> None:
        """Check that a silo refuses for this reason and has spent no more than so many releases."""
        answer = self.reply(name, envelope)
        assert isinstance(answer, messages.Refused), answer
        assert args in answer.reason
        assert self.silos[name].store.log()[-1].event == "refused"
        assert self.statement(name).releases == releases

    def reply(self, name: str, envelope: bytes) -> messages.Message:
        """Return a silo's answer."""
        silo = self.silos[name]
        return messages.read(open_envelope(silo.answer(envelope), silo.public_key))

    def invite(self, terms: Terms | None = None, key: SigningKey | None = None) -> bytes:
        """Return an invitation."""
        return (key or self.key).seal(Join(terms or self.terms).encode())

    def forged(self, plain: object) -> bytes:
        """Return a signed invitation to terms that are any plain value."""
        return self.key.seal(json.dumps({"kind": "Join", "version": messages.VERSION, "terms": plain}).encode())

    def ask(self, k: int, agent: int = 0, inbox=None, relay=(), terms=None, key: SigningKey | None = None) -> bytes:
        """Return a request for a round."""
        terms = terms or self.terms
        carried = np.zeros((0, 3)) if inbox is None else np.asarray(inbox)
        return (key or self.key).seal(Step(terms.digest, agent, k, Vector.of(carried), tuple(relay)).encode())

    def seen(self, *questions: bytes, by: str = "s1", terms: Terms | None = None) -> tuple[bytes, ...]:
        """Let a silo confirm what it has seen of those who ask; return what it has signed."""
        about = terms or self.terms
        request = ConfirmPeers(about.digest, about.agent(by), questions)
        return self.reply(by, self.key.seal(request.encode())).relay

    def handed(self, relay, terms: Terms | None = None, key: SigningKey | None = None) -> bytes:
        """Return the request by which the first silo is handed confirmations."""
        return (key or self.key).seal(Confirmations((terms or self.terms).digest, 0, tuple(relay)).encode())

    def roster(self) -> list[bytes]:
        """Let all silos join; return the messages by which they do, with their mask keys."""
        return [silo.answer(self.invite()) for silo in self.silos.values()]

    def two_rounds(self) -> tuple[list[bytes], dict[tuple[int, int], Uint64s]]:
        """Return the mask keys and, by silo and round, the words of noisy gradients, as they are on the wire."""
        roster, found = self.roster(), {}
        for agent, name in enumerate(self.silos):
            found[agent, 1] = self.reply(name, self.ask(1, agent, relay=roster)).values.array
            found[agent, 2] = self.reply(name, self.ask(2, agent, inbox=np.zeros((2, 3)))).values.array
        return roster, found

    def keyed(self, number: int, key: SigningKey | None = None, **change) -> bytes:
        """Return what silo `number` might sign to join under masks: with any key, for any terms."""
        terms, public = self.terms, MaskKey.create().public
        usual = {"digest": terms.digest, "agent": number, "plan": terms.plan_mark, "mask_key": public}
        return (key or self.silos[f"s{number}"].key).seal(Joined(**(usual | change)).encode())

    def problem(self, terms: Terms | None = None) -> Problem:
        """Return the problem of these terms with all data in one place, for comparison."""
        terms = terms or self.terms
        silos = stacked([self.silos[participant.name] for participant in terms.participants])
        return Problem.of(EmpiricalRisk(silos, Logistic(), terms.mu), regulariser=terms.problem.regulariser)

    def reopen(self) -> None:
        """Open the first silo again, in another process as it were."""
        self.silos["s0"] = alone(self.first.files.directory)

    def statement(self, name: str):
        """Return what a silo's ledger says."""
        with open_for_reading(self.silos[name].ledger.path) as ledger:
            return ledger.statement()


class Everything(set):
    """A set that holds whatever is looked for."""

    def __contains__(self, each: object) -> bool:
        return True


def alone(directory: Path) -> Silo:
    """Open a silo that answers without being confirmed by others."""
    return Silo(directory, session=Session(confirmed=Everything()))


def make(
    place: Path,
    method: str = "p-admm",
    settings: dict[str, float] | None = None,
    sizes: tuple[int, ...] = (60, 40, 50),
    noise: NoiseOrigin = NoiseOrigin.TEST,
    budget: tuple[float, float] = (2.0, 1e-5),
    policy: dict | None = None,
    approves: bool = True,
    nominal: int | None = None,
    **terms,
) -> World:
    """Make a federation on a path of silos; `nominal`: what the terms say instead of each silo's records."""
    place.mkdir(parents=True, exist_ok=True)
    SCHEMA.save(place / "schema.json")
    silos, people, is_masked = {}, [], terms.get("view") is View.AGGREGATE
    for name, table in tables(sizes).items():
        table.to_csv(place / f"{name}.csv", index=False)
        trusted = View.PUBLIC if method in TRUSTING else View.EAVESDROPPER
        rules = {"methods": tuple(federated()), "view": View.AGGREGATE if is_masked else trusted, "noise": noise}
        mine = Policy(
            name=name,
            data=str(place / f"{name}.csv"),
            schema=str(place / "schema.json"),
            **nested(Protection(), rules | (policy or {})),
        )
        SiloDirectory(place / name).create(mine, *budget)
        silos[name] = alone(place / name)
        people.append(Participant(name, nominal or len(table), silos[name].public_key))
    key = SigningKey.create(place / "coordinator.key")
    standard = {"run": "test", "rounds": 4, "epsilon": 1.0, "delta": 1e-5, "mu": 0.01, "seed": 5}
    terms = Terms(
        method=method,
        settings=tuple((settings or {"eta": 0.05}).items()),
        participants=tuple(people),
        coordinator=key.public,
        schema=schema_digest(place / "schema.json"),
        dimension=3,
        noise=noise,
        **nested(Protection(), standard | {"edges": path(len(people))} | terms),
    )
    world = World(place, terms, key, silos)
    if approves:
        world.approve(terms)
    return world


def masked(place: Path, **terms: object) -> World:
    """Make a federation of noisy gradients under masks."""
    return make(place, "noisy-gradients", {"step": 0.5}, **(MASKED | terms))


def copied(world: World, place: Path) -> World:
    """Return a copy of a closed world at another place; quicker than making one."""
    shutil.copytree(world.place, place, dirs_exist_ok=True)
    silos = {}
    for name in world.silos:
        policy = SiloDirectory(place / name).policy
        policy.write_text(policy.read_text().replace(str(world.place), str(place)))
        silos[name] = alone(place / name)
    return World(place, world.terms, SigningKey.load(place / "coordinator.key"), silos)


def stacked(silos: Iterable[Silo], encoding: RowEncoding | None = None) -> Silos:
    """Return all data in one place, plainly encoded unless it is said how."""
    records = [silo._records() for silo in silos]
    how = records[0].schema.by_bounds() if encoding is None else encoding
    return Silos.from_parts([r.cells.rows(how) for r in records], [r.cells.labels for r in records], 1.0)


def releases(rehearsal) -> list[int]:
    """Return how many releases each silo's rehearsal ledger holds."""
    found = []
    for files in rehearsal.silos.values():
        with open_for_reading(files.ledger(NoiseOrigin.TEST)) as ledger:
            found.append(ledger.statement().releases)
    return found


def recorded_shares(monkeypatch) -> dict[tuple[int, int], Uint64s]:
    """Return what each silo's values and share of the noise will amount to before its masks, by silo and round."""
    original, found = PlannedNoise.shares, {}

    def wrapped(self, kind, k, agents, values):
        (args,) = original(self, kind, k, agents, values)
        found[int(agents[0]), k] = args[:, 0]
        return [args]

    monkeypatch.setattr(PlannedNoise, "shares", wrapped)
    return found


def path(n: int) -> tuple[tuple[int, int], ...]:
    """Return the edges of a path."""
    return tuple((i, i + 1) for i in range(n - 1))


def reopened(world: World) -> World:
    """Return the same world as new processes would see it."""
    for silo in world.silos.values():
        silo.close()
    return replace(world, silos={name: alone(silo.files.directory) for name, silo in world.silos.items()})


def closed(world: World) -> World:
    """Close the silos of a world, and return it."""
    for silo in world.silos.values():
        silo.close()
    return world


def grown(world: World, rows: int = 1) -> Path:
    """Write the first silo's table with so many rows more; return where it is."""
    table, place = pd.read_csv(world.place / "s0.csv"), world.place / "s0-later.csv"
    pd.concat([table, table.iloc[:rows]]).to_csv(place, index=False)
    return place


def corrected(world: World) -> Path:
    """Write the first silo's table with one cell changed; return where it is."""
    table, place = pd.read_csv(world.place / "s0.csv"), world.place / "s0-corrected.csv"
    table.loc[0, "a"] = 0.25
    table.to_csv(place, index=False)
    return place


def later_terms(world: World, run: str = "later", **change) -> Terms:
    """Return terms like those of a world, under another name, with its silos' present numbers and keys."""
    people = tuple(
        replace(each, records=world.silos[each.name].records, key=world.silos[each.name].public_key)
        for each in world.terms.participants
    )
    return changed(world.terms, run=run, participants=people, **change)


def answered(world: World, rounds: int = 1) -> list[bytes]:
    """Let the first silo join and answer so many rounds on a star; return its answers."""
    world.first.answer(world.invite())
    asked = [world.ask(k, inbox=None if k == 1 else np.zeros((2, 3))) for k in range(1, rounds + 1)]
    return [world.first.answer(envelope) for envelope in asked]
