"""Whoever asks for or sends anything but what was agreed is refused, and nothing is spent.

Against the state machines with real files; the same requests over TLS are in https/test_attacks.py.
"""

import base64
import json
from dataclasses import replace

import numpy as np
import pytest

from dpadmm.codec import encode
from dpadmm.errors import BudgetError, InputError, LedgerError
from dpadmm.federation import messages
from dpadmm.federation.agreement import Agreement, Missing, NoiseOrigin
from dpadmm.federation.errors import FederationStopped, Refusal
from dpadmm.federation.keys import SIGNATURE_BYTES, SigningKey, open_envelope
from dpadmm.federation.messages import Answer, Join, Joined, Refused, Step, Vector
from dpadmm.federation.policy import Policy
from dpadmm.federation.silo import MOST_AWAITED, Silo
from dpadmm.federation.terms import agreed_run
from dpadmm.privacy.ledger import Budget
from dpadmm.privacy.protection import View

NOTHING = np.zeros((0, 3))


def told(silo, envelope):
    """Return a silo's answer."""
    return messages.read(open_envelope(silo.answer(envelope), silo.public_key))


def invite(world, agreement=None, key=None):
    """Return an invitation."""
    terms = agreement or world.agreement
    return (key or world.key).seal(Join(terms).encode())


def ask(world, k, agent=0, inbox=NOTHING, relay=(), digest=None, key=None):
    """Return a request for a round."""
    step = Step(digest or world.agreement.digest, agent, k, Vector.of(np.asarray(inbox)), tuple(relay))
    return (key or world.key).seal(step.encode())


def join_all(world):
    """Let all silos join."""
    for silo in world.silos.values():
        assert isinstance(told(silo, invite(world)), Joined)


def round_one(world):
    """Return the envelopes of the first round."""
    join_all(world)
    return [silo.answer(ask(world, 1, agent)) for agent, silo in enumerate(world.silos.values())]


def refused(world, silo, envelope, words, releases=0):
    """Check that a request is refused for this reason, logged, and that the ledger is as it should be."""
    answer = told(silo, envelope)
    assert isinstance(answer, Refused), answer
    assert words in answer.reason
    assert silo.store.log()[-1].event == "refused"
    assert world.statement(silo.policy.name).releases == releases


# --- terms -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
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
    ],
)
def test_terms_that_nobody_approved(world, change):
    refused(world, world.first, invite(world, replace(world.agreement, **change)), "not been approved")


def test_more_records_than_there_are_would_mean_less_noise(worlds, tmp_path):
    world = worlds.make(tmp_path, approves=False)
    people = (replace(world.agreement.participants[0], records=6000), *world.agreement.participants[1:])
    wrong = replace(world.agreement, participants=people)
    with pytest.raises(Refusal, match="not the number it holds"):
        world.first.approve(wrong)
    refused(world, world.first, invite(world, wrong), "not been approved")


def test_a_schema_of_the_same_shape_is_another_schema(worlds, tmp_path):
    world = worlds.make(tmp_path, approves=False)
    with pytest.raises(Refusal, match="a different schema"):
        world.first.approve(replace(world.agreement, schema="0" * len(world.agreement.schema)))
    for change in ({"row_norm": 0.5 * world.agreement.row_norm}, {"dimension": world.agreement.dimension + 1}):
        with pytest.raises(Refusal, match="a different schema"):  # noise is planned for rows of the terms' norm
            world.first.approve(replace(world.agreement, **change))


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"methods": ("fp-walk",)}, "does not allow the method"),
        ({"least_noise": 1e6}, "times the sensitivity"),
        ({"coordinators": ("00" * 32,)}, "does not work with the coordinator"),
        ({"records_per_person": 2}, "records_per_person to be at least 2"),
        ({"silos_per_person": 2}, "silos_per_person to be at least 2"),
    ],
)
def test_the_policy_is_enforced_even_against_approved_terms(world, worlds, rules, words):
    """The owner tightens the rules after approving."""
    silo = world.first
    worlds.changed(silo.policy, **rules).save(silo.files.policy)
    silo = world.silos["s0"] = Silo(silo.files.directory)
    refused(world, silo, invite(world), words)
    with pytest.raises(Refusal, match=words):
        silo.approve(world.agreement)


def test_the_quietest_release_must_have_the_noise_that_the_policy_wants(world):
    loud = agreed_run(world.agreement).all_releases(0)[0]
    rules = replace(world.first.policy, least_noise=0.9 * loud.noise_ratio)
    rules.check_releases([loud, loud.scale_noise(10.0)])
    with pytest.raises(Refusal, match="times the sensitivity"):
        rules.check_releases([loud.scale_noise(10.0), loud.scale_noise(0.5), loud])


def test_bare_messages_need_trust(worlds, tmp_path):
    policy = {"view": View.EAVESDROPPER}
    world = worlds.make(tmp_path, "fp-coordinator", {"gamma": 1.0}, policy=policy, approves=False)
    with pytest.raises(Refusal, match="messages without noise to the coordinator"):
        world.first.approve(world.agreement)


def test_test_noise_is_not_for_a_real_silo_nor_the_other_way_round(worlds, tmp_path):
    for mine, theirs in ((NoiseOrigin.SECURE, NoiseOrigin.TEST), (NoiseOrigin.TEST, NoiseOrigin.SECURE)):
        world = worlds.make(tmp_path / mine.value, noise=mine, approves=False)
        with pytest.raises(Refusal, match=f"works with {mine.value} noise only"):
            world.first.approve(replace(world.agreement, noise=theirs))


def test_a_run_that_does_not_fit_the_budget_is_refused_before_it_starts(worlds, tmp_path):
    """A budget that was cut after the terms were approved."""
    world = worlds.make(tmp_path)
    world.first.ledger.set_budget(Budget(epsilon=0.9, delta=1e-5), reason="test")
    refused(world, world.first, invite(world), "budget of this silo")
    assert "0.9" not in told(world.first, invite(world)).reason  # what the budget is stays in the silo


def test_the_budget_holds_over_several_runs(worlds, tmp_path):
    """Both are approved while there is room for either: approval reserves nothing."""
    world = worlds.make(tmp_path, budget=(1.2, 1e-5))
    again = replace(world.agreement, run="second")
    world.approve(again)
    world.drive(world.coordinator())
    refused(world, world.first, invite(world, again), "budget of this silo", releases=4)


@pytest.mark.parametrize("spent", [0, 4])
def test_terms_above_what_is_left_are_not_approved(worlds, tmp_path, spent):
    world = worlds.make(tmp_path, budget=(1.2, 1e-5) if spent else (0.9, 1e-5), approves=bool(spent))
    if spent:
        world.drive(world.coordinator())
    again = replace(world.agreement, run="second")
    left = "0.2 is left" if spent else "0.9 is left"
    with pytest.raises(BudgetError, match=rf"{left}; the 4 requested releases would cost 1 alone"):
        world.first.approve(again)
    refused(world, world.first, invite(world, again), "not been approved", releases=spent)
    if spent:
        world.first.approve(world.agreement)  # what is paid for already needs no room


def test_terms_are_not_approved_beside_data_that_have_changed(world):
    table = world.place / "s0.csv"
    lines = table.read_text().splitlines()
    table.write_text("\n".join([lines[0], lines[2], *lines[2:]]) + "\n")
    with pytest.raises(LedgerError, match="dpadmm silo new-data"):
        world.first.approve(replace(world.agreement, run="second"))


# --- who asks --------------------------------------------------------------------------------------------------------


def test_a_stranger_cannot_ask(world, tmp_path):
    stranger = SigningKey.create(tmp_path / "stranger.key")
    refused(world, world.first, invite(world, key=stranger), "signature")
    join_all(world)
    refused(world, world.first, ask(world, 1, key=stranger), "signature")
    refused(
        world, world.first, invite(world, replace(world.agreement, coordinator=stranger.public), stranger), "approved"
    )


def test_a_changed_byte_breaks_the_signature(world):
    join_all(world)
    envelope = bytearray(ask(world, 1))
    envelope[-10] ^= 1
    answer = told(world.first, bytes(envelope))
    assert isinstance(answer, Refused)
    assert world.statement("s0").releases == 0


def test_asked_before_joining_and_in_somebody_elses_name(world):
    refused(world, world.first, ask(world, 1), "has not joined")
    join_all(world)
    refused(world, world.first, ask(world, 1, agent=1), "this is silo 0")


# --- order -----------------------------------------------------------------------------------------------------------


def test_rounds_are_answered_in_order_and_once(world):
    envelopes = round_one(world)
    silo = world.first
    assert silo.answer(ask(world, 1)) == envelopes[0]  # bit for bit
    refused(world, silo, ask(world, 3, relay=[envelopes[1]]), "round 2 is due", releases=1)
    second = ask(world, 2, relay=[envelopes[1]])
    answer = silo.answer(second)
    assert silo.answer(second) == answer
    assert silo.answer(ask(world, 1)) == envelopes[0]  # an old request gets its old answer, nothing is computed
    assert world.statement("s0").releases == 2


def test_an_answered_round_is_not_answered_to_another_request(worlds, tmp_path):
    world = worlds.make(tmp_path, "fp-federated", {"gamma": 1.0})
    round_one(world)
    inbox = np.ones((2, 3))
    first = world.first.answer(ask(world, 2, inbox=inbox))
    refused(world, world.first, ask(world, 2, inbox=2 * inbox), "already answered, to a different request", releases=2)
    assert world.first.answer(ask(world, 2, inbox=inbox)) == first


def test_no_rounds_beyond_the_last(worlds, tmp_path):
    world = worlds.make(tmp_path, rounds=1)
    envelopes = round_one(world)
    refused(world, world.first, ask(world, 2, relay=[envelopes[1]]), "all rounds are answered", releases=1)


# --- what arrives ----------------------------------------------------------------------------------------------------


def forged(world, agent, vector, k=1, key=None, **changes):
    """Return an answer that a registered but malicious silo could sign."""
    about = changes.get("digest", world.agreement.digest), changes.get("claims", agent)
    answer = Answer(*about, k, Vector.of(np.array(vector)))
    return (key or list(world.silos.values())[agent].key).seal(answer.encode())


@pytest.mark.parametrize(
    ("vector", "words"),
    [
        ([np.nan, 0.0, 0.0], "not finite"),
        ([np.inf, 0.0, 0.0], "not finite"),
        ([1e300, 1e300, 0.0], "norm"),
        ([1e7, 0.0, 0.0], "norm"),
        ([1.0, 2.0], "shape"),
        ([1.0, 2.0, 3.0, 4.0], "shape"),
        ([], "shape"),
        ([[1.0, 2.0, 3.0]], "shape"),
    ],
)
def test_bad_vectors_from_a_peer(world, vector, words):
    envelopes = round_one(world)
    bad = forged(world, 1, vector)
    refused(world, world.first, ask(world, 2, relay=[bad]), words, releases=1)
    assert isinstance(told(world.first, ask(world, 2, relay=[envelopes[1]])), Answer)  # the true one is still good
    coordinator = world.coordinator()
    world.join(coordinator)
    with pytest.raises(FederationStopped, match=words):
        coordinator.accept(world.keys[1], bad)
    assert coordinator.stored.logged()[-1][0] == "refused"
    assert coordinator.round == 0


@pytest.mark.parametrize("vector", [[[np.nan, 0, 0]] * 2, [[1e9, 0, 0]] * 2, [[1.0, 2.0]] * 2, [[1.0, 2.0, 3.0]]])
def test_bad_vectors_from_the_coordinator(worlds, tmp_path, vector):
    world = worlds.make(tmp_path, "fp-federated", {"gamma": 1.0})
    round_one(world)
    assert isinstance(told(world.first, ask(world, 2, inbox=vector)), Refused)
    assert world.statement("s0").releases == 1


def test_the_relay_cannot_forge_replay_or_misdirect(world, tmp_path):
    envelopes = round_one(world)
    stranger = SigningKey.create(tmp_path / "stranger.key")
    silo = world.first
    refused(world, silo, ask(world, 2, relay=[forged(world, 1, [0, 0, 0.0], key=stranger)]), "signature", releases=1)
    refused(world, silo, ask(world, 2, relay=[envelopes[2]]), "signature", releases=1)  # another silo's
    refused(world, silo, ask(world, 2, relay=[forged(world, 1, [0, 0, 0.0], k=3)]), "replayed", releases=1)
    refused(world, silo, ask(world, 2, relay=[forged(world, 1, [0, 0, 0.0], claims=2)]), "replayed", releases=1)
    other = forged(world, 1, [0, 0, 0.0], digest="00" * 32)
    refused(world, silo, ask(world, 2, relay=[other]), "replayed", releases=1)
    refused(world, silo, ask(world, 2, relay=[]), "1 neighbours; 0 messages", releases=1)
    refused(world, silo, ask(world, 2, relay=[envelopes[1], envelopes[2]]), "1 neighbours; 2", releases=1)
    refused(world, silo, ask(world, 2, relay=[envelopes[1]], inbox=np.ones((1, 3))), "relayed messages", releases=1)


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


# --- messages --------------------------------------------------------------------------------------------------------


def mangled(envelope, **changes):
    """Return the body of an envelope with fields replaced (None: left out)."""
    document = json.loads(envelope[SIGNATURE_BYTES:]) | changes
    return json.dumps({name: value for name, value in document.items() if value is not None}).encode()


@pytest.mark.parametrize(
    "change",
    [
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
    ],
)
def test_malformed_messages(world, change):
    join_all(world)
    envelope = world.key.seal(mangled(ask(world, 1), **change))
    answer = told(world.first, envelope)
    assert isinstance(answer, Refused)
    assert "MessageError" in world.first.store.log()[-1].detail
    assert world.statement("s0").releases == 0


@pytest.mark.parametrize(
    "garbage", [b"", b"x", b"\x00" * 64, b"\xff" * 500, b"0" * 64 + b"[" * 100_000, b"0" * 64 + b"3"]
)
def test_garbage(world, garbage):
    assert isinstance(told(world.first, garbage), Refused)


def test_a_silo_takes_no_answers(world):
    envelopes = round_one(world)
    assert isinstance(told(world.first, envelopes[1]), Refused)


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
    envelopes = round_one(world)
    table = world.place / "s0.csv"
    was = table.read_text()
    table.write_text(was.replace(was.splitlines()[1], was.splitlines()[2], 1))  # one record replaced
    refused_now = told(world.first, ask(world, 1))
    assert isinstance(refused_now, Refused)
    assert "other data" in world.first.store.log()[-1].detail
    assert isinstance(told(world.first, ask(world, 2, relay=[envelopes[1]])), Refused)
    table.write_text(was)
    assert world.first.answer(ask(world, 1)) == envelopes[0]
    assert world.statement("s0").releases == 1


def test_reasons_tell_nothing_about_records(world):
    join_all(world)
    (world.place / "s0.csv").write_text("a,b,c,y\n1,2,3,secret\n")
    answer = told(world.first, ask(world, 1))
    assert isinstance(answer, Refused)
    assert "secret" not in answer.reason
    assert "log" in answer.reason
    (world.place / "s0.csv").unlink()
    assert isinstance(told(world.first, ask(world, 1)), Refused)


# --- agreements and policies as files --------------------------------------------------------------------------------


def test_terms_have_one_canonical_form(world):
    terms = world.agreement
    assert Agreement.from_json(terms.as_json()) == terms
    assert replace(terms, epsilon=1).digest == terms.digest  # 1 and 1.0


@pytest.mark.parametrize(
    "change",
    [
        {"rounds": 0},
        {"epsilon": -1},
        {"epsilon": float("nan")},
        {"delta": 1.0},
        {"participants": []},
        {"coordinator": "abc"},
        {"unknown": 1},
        {"edges": [[0, 9]]},
        {"noise": "loud"},
        {"weighting": "none"},
        {"loss": {"kind": "Squared"}},
        {"loss": {"kind": "Logistic", "cap": 1.5}},
        {"protection": {"view": "public"}},
        {"protection": {"unit": "person"}},
        {"protection": {"view": "eavesdropper", "colluders": 1}},
        {"penalty": {"l1": 1e300}},
        {"schema": "x"},
    ],
)
def test_unusable_terms(world, change):
    with pytest.raises(InputError):
        Agreement.from_json(json.dumps(json.loads(world.agreement.as_json()) | change))
    assert isinstance(told(world.first, world.forged(encode(world.agreement) | change)), Refused)


def test_policies_survive_the_file(world, tmp_path):
    world.first.policy.save(tmp_path / "p.toml")
    assert Policy.load(tmp_path / "p.toml") == world.first.policy
    (tmp_path / "p.toml").write_text("name = 3\n")
    with pytest.raises(InputError, match="cannot be used"):
        Policy.load(tmp_path / "p.toml")


def test_a_silo_is_never_overwritten(world):
    with pytest.raises(InputError, match="not empty"):
        world.first.files.create(world.first.policy, 1.0, 1e-5)


def test_terms_without_end_that_nobody_approved_fill_no_memory(world):
    for number in range(MOST_AWAITED + 10):
        refused(
            world, world.first, invite(world, replace(world.agreement, run=f"invented {number}")), "not been approved"
        )
        assert len(world.first._awaited) <= MOST_AWAITED


def test_a_refusing_silo_stops_the_federation_with_its_reason(world, worlds):
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
