"""Whoever asks for or sends anything but what was agreed is refused, and nothing is spent.

Against the state machines with real files; the same requests over TLS are in https/test_attacks.py.
"""

import base64
import json
from dataclasses import dataclass, replace

import numpy as np
import pytest

from dpadmm.codec import decode, encode
from dpadmm.errors import BudgetError, InputError, LedgerError
from dpadmm.federation import messages
from dpadmm.federation.errors import FederationStopped, Refusal
from dpadmm.federation.keys import SIGNATURE_BYTES, SigningKey
from dpadmm.federation.messages import Answer, Refused, Step, Vector
from dpadmm.federation.policy import Policy
from dpadmm.federation.silo import MOST_AWAITED, Silo
from dpadmm.federation.terms import Missing, NoiseOrigin, Terms, stored_terms
from dpadmm.privacy.ledger import Budget
from dpadmm.privacy.protection import View

STRANGER = SigningKey.new()


@dataclass
class Asked:
    """A federation on a path whose silos have answered round 1: what may be sent to the first one, or to all."""

    world: object
    first: list[bytes]

    def ask(self, k=2, *relay, **more):
        return self.world.ask(k, relay=relay or [self.first[1]], **more)

    def forge(self, agent, vector=(0, 0, 0.0), k=1, key=None, **changes):
        """Return an answer that a registered but malicious silo could sign."""
        about = changes.get("digest", self.world.terms.digest), changes.get("claims", agent)
        answer = Answer(*about, k, Vector.of(np.array(vector)))
        return (key or list(self.world.silos.values())[agent].key).seal(answer.encode())

    def mangle(self, changes, envelope=None):
        """Return a signed request with fields replaced (None: left out)."""
        document = json.loads((envelope or self.ask())[SIGNATURE_BYTES:]) | changes
        return self.world.key.seal(
            json.dumps({name: value for name, value in document.items() if value is not None}).encode()
        )

    def terms(self, **change):
        return replace(self.world.terms, **change)


@pytest.fixture(scope="module")
def asked(setups, template, tmp_path_factory):
    """A copy of the template in which all silos have answered round 1; after all refusals the next is answered."""
    world = setups.copied(template, tmp_path_factory.mktemp("refusals"))
    world.roster()
    made = Asked(world, [silo.answer(world.ask(1, agent)) for agent, silo in enumerate(world.silos.values())])
    yield made
    assert isinstance(world.reply("s0", made.ask()), Answer)
    setups.closed(world)


def flip(envelope):
    changed = bytearray(envelope)
    changed[-10] ^= 1
    return bytes(changed)


TERMS = [
    {"epsilon": 1.5},
    {"delta": 1e-4},
    {"method": "p-admm-recycled"},
    {"settings": (("eta", 0.5),)},  # a heavier penalty moves less, so less noise
    {"rounds": 5},
    {"edges": ((0, 1), (0, 2), (1, 2))},
    {"tolerance": 1e-12},
    {"mu": 0.1},
    {"largest": 1e9},
    {"run": "test again"},
    {"seed": 6},
    {"missing": Missing.STOP},
]
VECTORS = [
    ([np.nan, 0.0, 0.0], "not finite"),
    ([np.inf, 0.0, 0.0], "not finite"),
    ([1e300, 1e300, 0.0], "norm"),
    ([1e7, 0.0, 0.0], "norm"),
    ([1.0, 2.0], "shape"),
    ([1.0, 2.0, 3.0, 4.0], "shape"),
    ([], "shape"),
    ([[1.0, 2.0, 3.0]], "shape"),
]
MALFORMED = [
    {"version": messages.VERSION + 1},
    {"version": None},
    {"kind": "steal"},
    {"round": None},
    {"round": -1},
    {"round": True},
    {"round": 1.5},
    {"agent": "0"},
    {"extra": 1},
    {"inbox": {"dtype": "f8", "shape": [1, 3], "data": "AAAA"}},
    {"inbox": {"dtype": "f8", "shape": [2**31, 2**31], "data": ""}},
    {"inbox": {"dtype": "f8", "shape": [0, 3], "data": "*"}},
    {"inbox": {"dtype": "f4", "shape": [0, 3], "data": ""}},
    {"inbox": {"dtype": "f8", "shape": [-1, -3], "data": ""}},
    {"inbox": [0.0]},
    {"relay": "x"},
    {"relay": [1]},
    {"digest": 3},
]
GARBAGE = [b"", b"x", b"\x00" * 64, b"\xff" * 500, b"0" * 64 + b"[" * 100_000, b"0" * 64 + b"3"]
REFUSALS = {
    "a stranger invites": (lambda a: a.world.invite(key=STRANGER), "signature"),
    "terms name a stranger": (lambda a: a.world.invite(a.terms(coordinator=STRANGER.public), STRANGER), "approved"),
    "a stranger asks": (lambda a: a.ask(key=STRANGER), "signature"),
    "another silo is asked for": (lambda a: a.ask(agent=1), "this is silo 0"),
    "terms nobody has joined": (lambda a: a.ask(terms=a.terms(run="other")), "has not joined"),
    "a changed byte": (lambda a: flip(a.ask()), ""),
    "a round too early": (lambda a: a.ask(3), "round 2 is due"),
    "an answer instead of a request": (lambda a: a.first[1], ""),
    "a neighbour's answer by a stranger": (lambda a: a.ask(2, a.forge(1, key=STRANGER)), "signature"),
    "another silo's answer": (lambda a: a.ask(2, a.first[2]), "signature"),
    "an answer of another round": (lambda a: a.ask(2, a.forge(1, k=3)), "replayed"),
    "an answer for another silo": (lambda a: a.ask(2, a.forge(1, claims=2)), "replayed"),
    "an answer to other terms": (lambda a: a.ask(2, a.forge(1, digest="00" * 32)), "replayed"),
    "no neighbour's answer": (lambda a: a.world.ask(2), "1 neighbours; 0 messages"),
    "one answer too many": (lambda a: a.ask(2, *a.first[1:]), "1 neighbours; 2"),
    "a broadcast on a graph": (lambda a: a.ask(inbox=np.ones((1, 3))), "relayed messages"),
    **{f"terms {each}": (lambda a, each=each: a.world.invite(a.terms(**each)), "not been approved") for each in TERMS},
    **{f"vector {v}": (lambda a, v=v: a.ask(2, a.forge(1, v)), args) for v, args in VECTORS},
    **{f"malformed {each}": (lambda a, each=each: a.mangle(each), "") for each in MALFORMED},
    **{f"garbage {each[-9:]!r} {len(each)}": (lambda a, each=each: each, "") for each in GARBAGE},
}
"""By what is wrong: the request, and what is said of it."""


@pytest.mark.parametrize("wrong", REFUSALS)
def test_refused_and_nothing_spent(asked, wrong):
    request, args = REFUSALS[wrong]
    asked.world.refuses(request(asked), args, releases=1)
    if wrong.startswith("malformed"):
        assert "MessageError" in asked.world.first.store.log()[-1].detail


@pytest.mark.parametrize(("vector", "args"), VECTORS)
def test_bad_vectors_stop_the_coordinator(asked, tmp_path, vector, args):
    coordinator = asked.world.join(asked.world.coordinator(name=f"{tmp_path.name}.db"))
    with pytest.raises(FederationStopped, match=args):
        coordinator.accept(asked.world.keys[1], asked.forge(1, vector))
    assert coordinator.stored.logged()[-1][0] == "refused"
    assert coordinator.round == 0
    coordinator.close()


@pytest.mark.parametrize("vector", [[[np.nan, 0, 0]] * 2, [[1e9, 0, 0]] * 2, [[1.0, 2.0]] * 2, [[1.0, 2.0, 3.0]]])
def test_bad_vectors_from_the_coordinator(setups, star, vector):
    setups.answered(star)
    star.refuses(star.ask(2, inbox=vector), "", releases=1)


def test_no_rounds_beyond_the_last(setups, star):
    setups.answered(star, 3)
    star.refuses(star.ask(4, inbox=np.zeros((2, 3))), "all rounds are answered", releases=3)


# --- terms -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def unapproved(setups, tmp_path):
    return setups.make(tmp_path, approves=False)


def test_the_quietest_release_must_have_the_noise_that_the_policy_wants(world):
    loud = world.terms.all_releases(0)[0]
    rules = replace(world.first.policy, least_noise=0.9 * loud.noise_ratio)
    rules.check_releases([loud, loud.scale_noise(10.0)])
    with pytest.raises(Refusal, match="times the sensitivity"):
        rules.check_releases([loud.scale_noise(10.0), loud.scale_noise(0.5), loud])


@pytest.mark.parametrize("mine", NoiseOrigin)
def test_test_noise_is_not_for_a_real_silo_nor_the_other_way_round(setups, tmp_path, mine):
    """Neither by the terms nor by the owner's rules, once the silo is made."""
    (theirs,) = set(NoiseOrigin) - {mine}
    world = setups.make(tmp_path, noise=mine)
    with pytest.raises(Refusal, match=f"works with {mine.value} noise only"):
        world.first.approve(replace(world.terms, noise=theirs))
    replace(world.first.policy, noise=theirs).save(world.first.files.policy)
    world.refuses(world.invite(), f"was made for {mine.value} noise")


def test_a_run_that_does_not_fit_the_budget_is_refused_before_it_starts(world):
    """A budget that was cut after the terms were approved."""
    world.first.ledger.set_budget(Budget(epsilon=0.9, delta=1e-5), reason="test")
    world.refuses(world.invite(), "budget of this silo")
    assert "0.9" not in world.reply("s0", world.invite()).reason  # what the budget is stays in the silo


def test_the_budget_holds_over_several_runs(setups, tmp_path):
    """Both are approved while there is room for either: approval reserves nothing."""
    world = setups.make(tmp_path, budget=(1.2, 1e-5))
    again = replace(world.terms, run="second")
    world.approve(again)
    world.drive(world.coordinator())
    world.refuses(world.invite(again), "budget of this silo", releases=4)


@pytest.mark.parametrize("spent", [0, 4])
def test_terms_above_what_is_left_are_not_approved(setups, tmp_path, spent):
    world = setups.make(tmp_path, budget=(1.2, 1e-5) if spent else (0.9, 1e-5), approves=bool(spent))
    if spent:
        world.drive(world.coordinator())
    again = replace(world.terms, run="second")
    left = "0.2 is left" if spent else "0.9 is left"
    with pytest.raises(BudgetError, match=rf"{left}; the 4 requested releases would cost 1 alone"):
        world.first.approve(again)
    world.refuses(world.invite(again), "not been approved", releases=spent)
    if spent:
        world.first.approve(world.terms)  # what is paid for already needs no room


def test_terms_are_not_approved_beside_data_that_have_changed(world):
    table = world.place / "s0.csv"
    lines = table.read_text().splitlines()
    table.write_text("\n".join([lines[0], lines[2], *lines[2:]]) + "\n")
    with pytest.raises(LedgerError, match="dpadmm silo new-data"):
        world.first.approve(replace(world.terms, run="second"))


def test_replayed_answers_do_not_count_twice(world):
    coordinator = world.coordinator()
    world.join(coordinator)
    answers = [world.silos[f"s{agent}"].answer(each.envelope) for agent, each in enumerate(coordinator.requests())]
    assert not coordinator.accept(world.keys[0], answers[0])
    assert not coordinator.accept(world.keys[0], answers[0])
    again = world.first.answer(coordinator.invitation)  # a slow silo's second answer to an invitation
    assert not coordinator.accept(world.keys[0], again)
    with pytest.raises(FederationStopped, match="signature"):
        coordinator.accept(world.keys[1], answers[0])
    coordinator.accept(world.keys[1], answers[1])
    assert coordinator.accept(world.keys[2], answers[2])
    assert coordinator.round == 1
    assert not coordinator.accept(world.keys[0], answers[0])  # late copy of an old answer
    assert coordinator.round == 1


def test_messages_survive_the_wire_bit_for_bit():
    vector = np.array([0.1, -0.0, 5e-324, 1.7e308, np.nextafter(1, 2)])
    back = messages.read(Answer("d", 1, 2, Vector.of(vector)).encode())
    assert back.values.array.tobytes() == vector.tobytes()
    step = messages.read(Step("d", 0, 1, Vector.of(np.ones((2, 3))), (b"a", b"")).encode())
    assert step.relay == (b"a", b"")
    plain = json.loads(Answer("d", 1, 2, Vector.of(vector)).encode())
    assert base64.b64decode(plain["values"]["data"]) == vector.tobytes()


# --- data ------------------------------------------------------------------------------------------------------------


def test_changed_data_are_refused_even_for_an_answered_round(world):
    world.roster()
    envelopes = [silo.answer(world.ask(1, agent)) for agent, silo in enumerate(world.silos.values())]
    table = world.place / "s0.csv"
    was = table.read_text()
    table.write_text(was.replace(was.splitlines()[1], was.splitlines()[2], 1))  # one record replaced
    refused_now = world.reply("s0", world.ask(1))
    assert isinstance(refused_now, Refused)
    assert "other data" in world.first.store.log()[-1].detail
    assert isinstance(world.reply("s0", world.ask(2, relay=[envelopes[1]])), Refused)
    table.write_text(was)
    assert world.first.answer(world.ask(1)) == envelopes[0]
    assert world.statement("s0").releases == 1


def test_reasons_tell_nothing_about_records(world):
    world.roster()
    (world.place / "s0.csv").write_text("a,b,c,y\n1,2,3,secret\n")
    answer = world.reply("s0", world.ask(1))
    assert isinstance(answer, Refused)
    assert "secret" not in answer.reason
    assert "log" in answer.reason
    (world.place / "s0.csv").unlink()
    assert isinstance(world.reply("s0", world.ask(1)), Refused)


# --- policies as files -------------------------------------------------------------------------------------------


def test_policies_survive_the_file(world, tmp_path):
    world.first.policy.save(tmp_path / "p.toml")
    assert Policy.load(tmp_path / "p.toml") == world.first.policy
    (tmp_path / "p.toml").write_text("name = 3\n")
    with pytest.raises(InputError, match="not a usable policy"):
        Policy.load(tmp_path / "p.toml")


def test_a_silo_is_never_overwritten(world):
    with pytest.raises(InputError, match="not empty"):
        world.first.files.create(world.first.policy, 1.0, 1e-5)


def test_terms_without_end_that_nobody_approved_fill_no_memory(world):
    for number in range(MOST_AWAITED + 10):
        world.refuses(world.invite(replace(world.terms, run=f"invented {number}")), "not been approved")
        assert len(world.first._awaited) <= MOST_AWAITED


def test_a_refusing_silo_stops_the_federation_with_its_reason(world, setups):
    rules = world.first.policy
    replace(rules, methods=("fp-walk",)).save(world.first.files.policy)
    with pytest.raises(FederationStopped, match="s0 refuses: s0 does not allow the method 'p-admm'"):
        world.drive(world.coordinator())


def test_whoever_is_refused_again_and_again_fills_no_disk(world, monkeypatch):
    """The log keeps the latest refusals, and everything else."""
    monkeypatch.setattr("dpadmm.federation.silo_store.MOST_REFUSALS", 5)
    before = [entry for entry in world.first.store.log() if entry.event != "refused"]
    for _ in range(9):
        world.first.answer(b"x" * 100)
    log = world.first.store.log()
    assert sum(entry.event == "refused" for entry in log) == 5
    assert [entry for entry in log if entry.event != "refused"] == before
