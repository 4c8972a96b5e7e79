"""Invitations: who may register, as whom, once; and who is let in at the port, for what."""

import json
import os
import sqlite3
import stat
from contextlib import closing, contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")

import httpx
from tests.protections import changed, nested

from dpadmm.data import Numeric, Schema, ThresholdLabel
from dpadmm.errors import InputError
from dpadmm.federation import messages
from dpadmm.federation.admin.joining import InvitedSilo, OwnerRules, check_silo, create_silo
from dpadmm.federation.admin.rehearsal import serve_in_thread
from dpadmm.federation.coordinator_store import CoordinatorFiles, CoordinatorStore
from dpadmm.federation.errors import Refusal
from dpadmm.federation.https import server
from dpadmm.federation.https.client import Address, CoordinatorUnavailable, open_client
from dpadmm.federation.https.service import free_port
from dpadmm.federation.keys import SigningKey, open_envelope
from dpadmm.federation.messages import Join, Register
from dpadmm.federation.policy import FULLY_CERTIFIED, Policy
from dpadmm.federation.silo import Silo
from dpadmm.federation.studies import Invitation, Studies, check_silos
from dpadmm.planner.drafting import draft
from dpadmm.privacy.ledger import open_for_reading
from dpadmm.privacy.protection import NeighbouringRelation, Protection, View
from dpadmm.settings import CellRules, TableFormat

pytestmark = pytest.mark.usefixtures("instant_forecasts")
SCHEMA = Schema((Numeric("age", 0, 120), Numeric("dose", 0, 10)), ThresholdLabel("result", 0))
NAMES = ("clinic", "north", "south")


def table(path, seed: int, rows: int = 60):
    rng = np.random.default_rng(seed)
    age, dose = rng.integers(20, 90, rows), rng.integers(0, 10, rows)
    pd.DataFrame({"age": age, "dose": dose, "result": np.where(age > 50, 1, -1)}).to_csv(path, index=False)
    return path


def asked(key: SigningKey, **others) -> Invitation:
    reported = {"study": "asthma", "address": "127.0.0.1:1", "epsilon": 1.0, "delta": 1e-6, "view": View.AGGREGATE}
    reported |= {"coordinator": key.public, "schema": SCHEMA.to_json()}
    return Invitation(**nested(Protection(), reported | others))


class World:
    """A coordinator, its study, and silos that were made by their invitations."""

    def __init__(self, place, **others) -> None:
        self.place, self.files = place, CoordinatorFiles(place / "coordinator")
        self.key = self.files.create()
        self.studies = Studies(self.files.open_store(), self.key)
        self.made = {each.silo: each for each in self.studies.invite(asked(self.key, **others), NAMES)}

    def invitation(self, name: str) -> Invitation:
        return self.made[name]

    def absent(self) -> list[str]:
        return self.studies.absent("asthma")

    def draft(self):
        """Return the terms that follow from what silos have registered."""
        made = draft(self.studies.entries("asthma"), SCHEMA, self.invitation("north").target)
        return made.terms("asthma", self.key.public)

    def publish(self, terms) -> None:
        self.studies.publish("asthma", terms)

    def silo(self, name: str, budget: float = 2.0) -> Silo:
        if not (self.place / name).exists():
            data = table(self.place / f"{name}.csv", len(name))
            rules = OwnerRules(data=data, budget_epsilon=budget, screening=CellRules())
            create_silo(self.invitation(name), self.place / name, rules)
        return Silo(self.place / name)

    def envelope(self, silo: Silo, /, **others) -> bytes:
        """Return what a silo sends to register."""
        fields = {"study": "asthma", "silo": silo.policy.name, "entry": silo.entry()} | others
        return silo.key.seal(Register(**fields).encode())

    def register(self, name: str, envelope: bytes | None = None) -> None:
        """Register with the invitation of a silo."""
        with closing(self.silo(name)) as silo:
            self.studies.register(self.invitation(name).key.public, envelope or self.envelope(silo))


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_an_invitation_says_all_that_a_silo_needs_and_is_its_owners_alone(world):
    made = world.invitation("north")
    place = world.files.invitation("asthma", "north")
    made.save(place)
    found = Invitation.load(place)
    assert found == made
    assert (found.study, found.silo, found.epsilon, found.delta) == ("asthma", "north", 1.0, 1e-6)
    assert (found.table, found.coordinator, found.protection.n_colluders) == (SCHEMA, world.key.public, 1)
    assert len({world.key.public, *(each.key.public for each in world.made.values())}) == 4
    assert stat.S_IMODE(place.stat().st_mode) == stat.S_IMODE(world.files.database.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert made.secret not in repr(made)


def test_all_register_and_get_terms_that_their_rules_and_budgets_allow(world):
    assert world.absent() == list(NAMES)
    for name in NAMES:
        assert world.studies.terms(world.invitation(name).key.public) is None
        world.register(name)
    assert world.absent() == []
    world.register("north")  # the same again is one
    terms = world.draft()
    world.publish(terms)
    for name in NAMES:
        envelope = world.studies.terms(world.invitation(name).key.public)
        message = messages.read(open_envelope(envelope, world.key.public))
        assert message == Join(terms)
    assert world.studies.drafted("asthma") == terms
    assert terms.is_masked
    assert terms.protection.colluders == 1


def test_terms_are_for_those_who_have_registered(tmp_path):
    world = World(tmp_path, view=View.EAVESDROPPER)
    for name in NAMES[:2]:
        world.register(name)
    world.publish(world.draft())
    assert world.studies.terms(world.invitation("south").key.public) is None
    with pytest.raises(Refusal, match="already been drafted"):
        world.register("south")


# --- what is no entry for an invitation ------------------------------------------------------------------------------


def of_entry(**change):
    """Return what registers north with a changed entry."""
    return lambda world: world.envelope(world.silo("north"), entry=changed(world.silo("north").entry(), **change))


def of_json(value):
    """Return what registers north with any plain value, or plain values in its entry."""

    def made(world):
        silo = world.silo("north")
        body = json.loads(world.envelope(silo)[64:])
        body["entry"] = body["entry"] | value if isinstance(value, dict) and value else value
        return silo.key.seal(json.dumps(body).encode())

    return made


NO_ENTRIES = {
    "of another silo": lambda world: world.envelope(world.silo("south")),
    "of another silo, under this name": lambda world: world.envelope(world.silo("south"), silo="north"),
    "for another study": lambda world: world.envelope(world.silo("north"), study="another"),
    "signed by another key": of_entry(key="0" * 64),
    "another schema": of_entry(schema="0" * 64),
    "another view": of_entry(view=View.EAVESDROPPER),
    "other neighbours": of_entry(relation=NeighbouringRelation.ADD_OR_REMOVE, records=None),
    "more colluders": of_entry(colluders=2),
    "more records of a person": of_entry(records_per_person=2),
    "more silos of a person": of_entry(silos_per_person=2),
    "no records": of_entry(records=0),
    "a secret number": of_entry(records=None),
    "a long story": of_entry(methods=("p-admm",) * 500),
}
ODD = ["north", {}, {"a": 1}, {"name": 1}, {"methods": "p-admm"}, {"methods": [1]}, {"methods": [float("nan")]}]
ODD += [{"methods": {}}, {"schema": 5}, {"key": "0"}, {"protection": {"view": "web"}}]
ODD += [{"records": odd} for odd in (0, False, "", [], float("nan"), 10**30)]
NO_ENTRIES |= {repr(odd): of_json(odd) for odd in ODD}


@pytest.mark.parametrize("envelope", NO_ENTRIES.values(), ids=NO_ENTRIES)
def test_what_is_no_entry_for_this_invitation_is_refused_and_nothing_kept(world, envelope):
    with pytest.raises((Refusal, InputError)):
        world.register("north", envelope(world))
    assert world.absent() == list(NAMES)


def test_an_invitation_is_for_one_key(world):
    world.register("north")
    entry = replace(world.silo("south").entry(), name="north")
    with pytest.raises(Refusal, match="registered before"):
        world.register("north", world.envelope(world.silo("south"), silo="north", entry=entry))
    assert [each.key for each in world.studies.entries("asthma")] == [world.silo("north").public_key]


def test_a_secret_number_is_not_shown(tmp_path):
    world = World(tmp_path, relation=NeighbouringRelation.ADD_OR_REMOVE, nominal_records=100)
    entry = world.silo("north").entry()
    assert entry.records is None
    with pytest.raises(InputError):
        world.register("north", world.envelope(world.silo("north"), entry=replace(entry, records=60)))


def test_terms_are_drafted_for_what_was_announced_where_silos_ask_for_less(tmp_path):
    world = World(tmp_path, colluders=1, records_per_person=3, silos_per_person=2)
    silo = world.silo("north")
    entry = changed(silo.entry(), colluders=0, records_per_person=1, silos_per_person=1)
    world.register("north", world.envelope(silo, entry=entry))
    (found,) = world.studies.entries("asthma")
    assert (found.protection, found.key) == (world.invitation("north").protection, silo.public_key)


# --- studies ---------------------------------------------------------------------------------------------------------

REFUSED = {
    "twice": ({}, ("north", "north"), "cannot be confused"),
    "one": ({}, ("north",), "silos must be"),
    "too many colluders": ({"colluders": 2}, ("north", "south", "clinic"), "at least 4 silos"),
    "a path": ({}, ("../north", "south"), "usable for a file|dot"),
    "no number": (
        {"relation": NeighbouringRelation.ADD_OR_REMOVE, "nominal_records": -3},
        NAMES,
        "nominal_records must be",
    ),
    "a number too many": ({"nominal_records": 100}, NAMES, "otherwise leave that option out"),
    "a number too few": ({"relation": NeighbouringRelation.ADD_OR_REMOVE}, NAMES, "otherwise leave that option out"),
    "who sees less than silos": ({"view": View.PEER}, NAMES, "view must be one of"),
    "no key": ({"coordinator": "zz"}, NAMES, "64 hex digits"),
    "no address": ({"address": "a\nb"}, NAMES, "address"),
}


@pytest.mark.parametrize(("others", "silos", "args"), REFUSED.values(), ids=REFUSED)
def test_studies_that_cannot_be_are_refused_before_anything_is_made(others, silos, args):
    with pytest.raises(InputError, match=args):
        check_silos(asked(SigningKey.new(), **others), silos)


def test_a_study_takes_more_silos_until_it_has_terms_and_only_as_announced(world):
    same = asked(world.key)
    with pytest.raises(InputError, match="different settings"):
        world.studies.invite(replace(same, epsilon=2.0), ["west"])
    with pytest.raises(InputError, match="confused"):
        world.studies.invite(same, ["North"])
    (west,) = world.studies.invite(same, ["west"])
    assert "west" in world.absent()
    assert world.studies.is_invited(west.key.public)
    for name in (*NAMES, "west"):
        world.made["west"] = west
        world.register(name)
    world.publish(world.draft())
    with pytest.raises(InputError, match="already has its terms"):
        world.studies.invite(same, ["east"])
    with pytest.raises(InputError, match="the studies there are: asthma"):
        world.studies.announced("another")


def test_the_same_command_again_invites_the_same_silos_to_the_same_study(world):
    """As after a kill, at any point: what is in the file stays, and the files to be sent are written again."""
    again = world.studies.invite(asked(world.key), [*reversed(NAMES), "west"])
    assert [each.silo for each in again] == [*reversed(NAMES), "west"]
    assert all(world.made[each.silo] == each for each in again[:-1])


def test_a_study_is_there_with_its_invitations_or_not_at_all(world, monkeypatch):
    def killed(self, statement, *values):
        if "INSERT OR IGNORE INTO invitation" in statement and "south" in values:
            raise KeyboardInterrupt
        self._connection.execute(statement, values)

    before = world.studies.keys()
    with monkeypatch.context() as patch:
        patch.setattr(CoordinatorStore, "execute", killed)
        with pytest.raises(KeyboardInterrupt):
            world.studies.invite(asked(world.key, study="second"), NAMES)
    assert world.studies.keys() == before
    other = Schema((Numeric("age", 0, 99),), ThresholdLabel("result", 0))
    world.studies.invite(asked(world.key, study="second", schema=other.to_json()), NAMES)
    assert world.studies.announced("second").table == other


def test_a_replaced_invitation_opens_nothing_any_more(world):
    """Nor does the entry count that was registered by it; those of the others stay."""
    stolen = world.invitation("north").key.public
    for name in NAMES:
        world.register(name)
    (fresh,) = world.studies.invite(asked(world.key), ["north"], may_replace=True)
    assert world.absent() == ["north"]
    assert not world.studies.is_invited(stolen)
    assert world.studies.keys() == {fresh.key.public, *(world.made[name].key.public for name in ("clinic", "south"))}
    with closing(world.silo("north")) as silo:
        envelope = world.envelope(silo)
    for use in (lambda: world.studies.register(stolen, envelope), lambda: world.studies.terms(stolen)):
        with pytest.raises(Refusal, match="withdrawn"):
            use()
    world.made["north"] = fresh
    world.register("north")
    assert world.absent() == []


# --- silos -----------------------------------------------------------------------------------------------------------


def test_a_silo_is_made_with_the_budget_of_its_owner_against_the_view_of_the_study(world):
    silo = world.silo("north", budget=3.0)
    with open_for_reading(silo.files.ledger(silo.policy.noise)) as ledger:
        assert (ledger.budget.epsilon, ledger.budget.delta) == (3.0, 1e-6)
        assert ledger.protection == world.invitation("north").protection
    assert Schema.load(silo.files.schema) == SCHEMA
    assert silo.policy.schema == str(silo.files.schema)
    with pytest.raises(InputError, match="is for 'south'"):
        check_silo(world.invitation("south"), silo)
    with pytest.raises(InputError, match="cannot count both"):
        check_silo(changed(world.invitation("north"), view=View.EAVESDROPPER), silo)
    other = Schema((Numeric("age", 0, 99),), ThresholdLabel("result", 0)).to_json()
    with pytest.raises(InputError, match="a different schema"):
        check_silo(replace(world.invitation("north"), schema=other), silo)


def test_what_the_owner_and_the_study_say_stands_in_the_rules(tmp_path):
    world = World(tmp_path, colluders=0, records_per_person=3, silos_per_person=2)
    screening = CellRules(missing="blank", unlisted="error", out_of_range="error")
    (tmp_path / "bare.csv").write_text("30,1,1\n40,2,-1\n")
    schema = Schema((Numeric("column1", 0, 120), Numeric("column2", 0, 10)), ThresholdLabel("column3", 0))
    invitation = replace(world.invitation("north"), schema=schema.to_json())
    rules = OwnerRules(
        data=tmp_path / "bare.csv",
        budget_epsilon=1.0,
        screening=screening,
        written=TableFormat(header=False),
        least_noise=0.25,
    )
    create_silo(invitation, tmp_path / "north", rules)
    policy = Silo(tmp_path / "north").policy
    assert (policy.screening, policy.written.header, policy.least_noise) == (screening, False, 0.25)
    assert policy.protection == world.invitation("north").protection
    assert "noisy-gradients" in policy.methods
    plain = changed(invitation, view=View.EAVESDROPPER)
    create_silo(plain, tmp_path / "plain", rules)
    assert Silo(tmp_path / "plain").policy.methods == FULLY_CERTIFIED


def test_a_budget_that_could_never_pay_is_refused_before_anything_is_made(world):
    with pytest.raises(InputError, match=r"asks for epsilon 1; a budget of 0.5 cannot cover it"):
        world.silo("north", budget=0.5)
    assert not (world.place / "north").exists()


def test_a_trusted_coordinator_must_be_trusted_by_the_owner(tmp_path):
    world = World(tmp_path, view=View.PUBLIC)
    data = table(tmp_path / "north.csv", 1)
    rules = OwnerRules(data=data, budget_epsilon=2.0, screening=CellRules())
    with pytest.raises(InputError, match="--trust-coordinator"):
        create_silo(world.invitation("north"), tmp_path / "north", rules)
    assert not (tmp_path / "north").exists()
    create_silo(world.invitation("north"), tmp_path / "north", replace(rules, trusts_coordinator=True))
    assert Silo(tmp_path / "north").policy.trusts_coordinator


@contextmanager
def served(world: World, port: int):
    """Serve the coordinator's port, and look for studies again and again."""
    with serve_in_thread(world.files, port) as service:
        service.check_runs()
        yield service


@pytest.fixture(scope="module")
def open_world(tmp_path_factory):
    """A study whose coordinator serves."""
    port = free_port()
    world = World(tmp_path_factory.mktemp("study"), address=f"127.0.0.1:{port}")
    with served(world, port):
        yield world


def test_over_tls_an_invited_silo_registers_and_fetches_what_the_coordinator_has_signed(open_world):
    invited_silos = {name: InvitedSilo(open_world.invitation(name), open_world.silo(name)) for name in NAMES}
    for invited in invited_silos.values():
        assert invited.terms() is None
        invited.register()
        invited.register()
    assert open_world.absent() == []
    terms = open_world.draft()
    open_world.publish(terms)
    assert all(invited.terms() == terms for invited in invited_silos.values())
    wrong = replace(invited_silos["north"], invitation=replace(open_world.invitation("north"), epsilon=0.5))
    with pytest.raises(Refusal, match="not those of the study"):
        wrong.terms()
    poor = open_world.silo("south")
    assert [each.name for each in terms.participants if each.name in poor.unconfirmed(terms)] == ["clinic", "north"]


def request(world: World, key: SigningKey, method: str, path: str, content: bytes = b"") -> httpx.Response:
    where = world.invitation("north").address
    with open_client(Address.parse(where), key, world.place / "probe.pem", [world.key.public]) as client:
        return client.request(method, path, content=content)


def test_an_invitation_opens_nothing_else(open_world):
    key = open_world.invitation("north").key
    assert request(open_world, key, "GET", "/next").status_code == 404
    assert request(open_world, key, "PUT", "/answers/" + "0" * 64, b"x" * 100).status_code == 404
    assert request(open_world, key, "GET", "/").status_code == 404
    assert request(open_world, key, "PUT", "/entry", b"x" * 20_000).status_code == 413
    said = request(open_world, key, "PUT", "/entry", b"x" * 100)
    assert said.status_code == 409
    assert "JSON" in said.text


def test_who_was_not_invited_is_sent_away_before_anything_is_read(open_world):
    with pytest.raises((httpx.HTTPError, CoordinatorUnavailable)):
        request(open_world, SigningKey.new(), "GET", "/terms")


def test_a_silos_own_key_is_no_invitation(open_world):
    with pytest.raises((httpx.HTTPError, CoordinatorUnavailable)):
        request(open_world, open_world.silo("north").key, "GET", "/terms")


def test_an_invited_silo_talks_to_the_coordinator_of_its_invitation_alone(open_world):
    asked_by = replace(open_world.invitation("north"), coordinator=SigningKey.new().public)
    with pytest.raises(httpx.HTTPError):
        InvitedSilo(asked_by, open_world.silo("north")).register()


def test_new_invitations_are_let_in_while_the_port_is_open_and_replaced_ones_are_not(tmp_path):
    port = free_port()
    world = World(tmp_path, address=f"127.0.0.1:{port}")
    stolen, silo = world.invitation("north"), world.silo("north")
    with served(world, port) as service:
        InvitedSilo(stolen, silo).register()
        announced = asked(world.key, address=f"127.0.0.1:{port}")
        (fresh,) = world.studies.invite(announced, ["north"], may_replace=True)
        second, *_ = world.studies.invite(replace(announced, study="second"), ["north", "south", "west"])
        service.check_runs()
        for use in (InvitedSilo(stolen, silo).register, InvitedSilo(stolen, silo).terms):
            with pytest.raises(Refusal, match="no longer knows this invitation"):
                use()
        for invitation in (fresh, second):
            InvitedSilo(invitation, silo).register()
        assert world.absent() == ["clinic", "south"]
        assert world.studies.absent("second") == ["south", "west"]


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["\N{GRINNING FACE}", "\U00020bb7\u91ce", "caf\u00e9"])
def test_names_in_any_script_are_written_as_they_are_read(tmp_path, name):
    files = CoordinatorFiles(tmp_path / "coordinator")
    key = files.create()
    with closing(files.open_store()) as store:
        made, *_ = Studies(store, key).invite(asked(key, study=name), [name, "north", "south"])
    made.save(files.invitation(name, name))
    invitation = Invitation.load(files.invitation(name, name))
    assert invitation.silo == name
    data = table(tmp_path / f"{name}.csv", 1)
    create_silo(invitation, tmp_path / name, OwnerRules(data=data, budget_epsilon=2.0, screening=CellRules()))
    silo = Silo(tmp_path / name)
    entry = silo.entry()
    assert messages.read(Register(name, name, entry).encode()).entry == entry
    assert Policy.load(silo.files.policy).data == str(data)


# --- what silos are told ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def offered(tmp_path_factory):
    """A served study of which all silos have registered, a guest, and the terms that are drafted from it."""
    port = free_port()
    world = World(tmp_path_factory.mktemp("offered"), address=f"127.0.0.1:{port}")
    for name in NAMES:
        world.register(name)
    terms = world.draft()
    with served(world, port):
        yield world, InvitedSilo(world.invitation("north"), world.silo("north")), terms


OTHERWISE = {
    "another run": ({"run": "asthma again"}, "not those of the study"),
    "more epsilon": ({"epsilon": 1.01}, "not those of the study"),
    "more delta": ({"delta": 1e-5}, "not those of the study"),
    "fewer colluders": ({"colluders": 0}, "the study was announced"),
}


@pytest.mark.parametrize(("change", "args"), OTHERWISE.values(), ids=OTHERWISE)
def test_terms_that_were_not_announced_are_refused_whoever_signs_them(offered, change, args):
    world, invited, terms = offered
    world.publish(terms)
    assert invited.terms() == terms
    world.publish(changed(terms, **change))
    with pytest.raises(Refusal, match=args):
        invited.check_protection(invited.terms())


def test_what_the_coordinator_has_not_signed_as_terms_is_none(offered, monkeypatch):
    world, invited, terms = offered
    body = Join(terms).encode()
    reported = {
        "signature": SigningKey.new().seal(body),
        "something other than terms": world.key.seal(Register("asthma", "north", invited.silo.entry()).encode()),
    }
    for args, envelope in reported.items():
        monkeypatch.setattr(Studies, "terms", lambda *_, envelope=envelope: envelope)
        with pytest.raises(Refusal, match=args):
            invited.terms()

    def refuse(*_):
        raise Refusal("not \x1b[2J today " + "x" * 5000)

    monkeypatch.setattr(Studies, "terms", refuse)
    with pytest.raises(Refusal, match=r"The coordinator refuses: not \\x1b\[2J today x{400,}\.\.\.$"):
        invited.terms()


def test_terms_without_this_silo_are_refused(offered):
    world, invited, terms = offered
    others = (*(each for each in terms.participants if each.name != "north"), replace(terms.participants[1], name="x"))
    world.publish(replace(terms, participants=others))
    with pytest.raises(InputError, match="'north' does not take part"):
        invited.terms()


def test_an_invited_silo_may_not_ask_as_often_as_a_participant(offered, monkeypatch):
    world, _, terms = offered
    invited, most = world.invitation("south"), int(server.BURST / server.INVITED_COST)
    world.publish(terms)
    monkeypatch.setattr(server, "RATE", 0.0)
    with open_client(
        Address.parse(invited.address), invited.key, world.place / "probe.pem", [world.key.public]
    ) as line:
        said = [line.get("/terms").status_code for _ in range(most + 1)]
    assert said == [200] * most + [429]


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), sqlite3.OperationalError("disk is full")])
def test_a_full_disk_of_the_coordinator_is_waited_for(tmp_path, monkeypatch, failure):
    port = free_port()
    world = World(tmp_path, address=f"127.0.0.1:{port}")
    invited = InvitedSilo(world.invitation("north"), world.silo("north"))

    def full(*_):
        raise failure

    with served(world, port):
        with monkeypatch.context() as patch:
            patch.setattr(CoordinatorStore, "execute", full)
            with pytest.raises(CoordinatorUnavailable, match="HTTP 503"):
                invited.register()
        assert "north" in world.absent()
        invited.register()
    assert "north" not in world.absent()


# --- a silo is made whole, or not at all ------------------------------------------------------------------------------


def test_a_silo_whose_making_was_interrupted_can_be_made_again(world, monkeypatch):
    def killed(path):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SigningKey, "create", killed)
        with pytest.raises(KeyboardInterrupt):
            world.silo("north")
    assert sorted(os.listdir(world.place)) == ["coordinator", "north.csv"]
    silo = world.silo("north")
    assert stat.S_IMODE(silo.files.directory.stat().st_mode) == 0o700


def test_of_two_who_make_the_same_silo_one_does(world, monkeypatch):
    original = SigningKey.create

    def overtaken(path):
        with monkeypatch.context() as patch:
            patch.setattr(SigningKey, "create", original)
            world.silo("north").close()
        return original(path)

    with monkeypatch.context() as patch:
        patch.setattr(SigningKey, "create", overtaken)
        with pytest.raises(InputError, match="north cannot be created: Directory not empty"):
            world.silo("north")
    assert world.silo("north").entry().key == world.silo("north").public_key


def test_a_silo_can_be_made_in_a_directory_that_is_there_and_empty(world):
    rules = OwnerRules(data=table(world.place / "t.csv", 1), budget_epsilon=2.0, screening=CellRules())
    place = world.place / "volume"
    place.mkdir()
    kept = place.stat().st_ino
    create_silo(world.invitation("north"), place, rules)
    assert place.stat().st_ino == kept
    assert Silo(place).policy.schema == str(place / "schema.json")
    with pytest.raises(InputError, match="is not empty"):
        create_silo(world.invitation("north"), place, rules)
    with pytest.raises(InputError, match="cannot be created"):
        create_silo(world.invitation("north"), world.place / "t.csv", rules)
