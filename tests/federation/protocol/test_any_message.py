"""Whatever a coordinator or a silo is sent, it refuses or answers: it goes on, spends nothing, and starts again."""

import json
import logging
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpadmm.codec import decode
from dpadmm.errors import DpadmmError, ResumeError
from dpadmm.federation import messages
from dpadmm.federation.errors import FederationStopped, Refusal
from dpadmm.federation.keys import body_of, open_envelope
from dpadmm.federation.messages import (
    Confirmation,
    ConfirmationRequest,
    Confirmations,
    ConfirmPeers,
    Join,
    Refused,
    Step,
    Vector,
)
from dpadmm.federation.silo import Silo
from dpadmm.federation.terms import Terms, stored_terms
from dpadmm.noise.plan import NoisePlan

INFINITE = float("inf")
DEEP = "[" * 400 + "]" * 400

odd_numbers = st.sampled_from(
    (
        *(float("nan"), INFINITE, -INFINITE, -1, 0, 1, 2, 0.5, -0.0, 5e-324, 1e-16, 1e16, 1e308),
        *(2**31, 2**53 + 1, 2**63, 10**18, 10**400, True, False),
    )
)
texts = (
    "null",
    '""',
    '"x"',
    '"\\ud800"',
    f'"{"0" * 64}"',
    '"NaN"',
    '"\\u0000"',
    DEEP,
    "{}",
    "[]",
    "[[]]",
    '{"a": {"b": []}}',
)
odd = (
    odd_numbers
    | st.sampled_from(texts).map(json.loads)  # made anew each time: they are changed further
    | st.lists(odd_numbers, max_size=3)
    | st.lists(st.lists(odd_numbers, max_size=3), max_size=3)
    | st.dictionaries(st.sampled_from(["shape", "data", "name", "records", "key", "eta"]), odd_numbers, max_size=3)
)


@st.composite
def changed(draw, document):
    """Return a JSON object with one to three of its values, at any depth, replaced, removed or added."""
    made = json.loads(json.dumps(document))
    for _ in range(draw(st.integers(1, 3))):
        place = made
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and place[key] and draw(st.booleans()):
                place = place[key]
                continue
            what = draw(st.sampled_from(["replace", "replace", "replace", "remove", "add"]))
            if what == "replace":
                place[key] = draw(odd)
            elif what == "remove":
                del place[key]
            elif isinstance(place, dict):
                place[draw(st.sampled_from(["more", "kind", "digest"]))] = draw(odd)
            else:
                place.append(draw(odd))
            break
    return made


def sealed(key, document):
    """Return an envelope with this body, whatever it is."""
    return key.seal(json.dumps(document).encode())


@pytest.fixture(scope="module")
def joined(setups, template, tmp_path_factory):
    """A silo that has joined and, not being confirmed, never draws; its world; and valid messages to it."""
    world = setups.copied(template, tmp_path_factory.mktemp("joined"))
    world.first.close()
    silo = world.silos["s0"] = Silo(world.place / "s0")
    silo.answer(world.invite())
    digest, others = world.terms.digest, [s.key for s in list(world.silos.values())[1:]]
    asks = others[0].seal(ConfirmationRequest(digest, 1, "0" * 32).encode())
    confirmation = others[0].seal(Confirmation(digest, 1, 0, silo.session.nonce, {"0" * 64: 1}).encode())
    valid = [
        Join(world.terms),
        Step(digest, 0, 1, Vector.of(np.zeros((0, 3))), ()),
        Step(digest, 0, 2, Vector.of(np.zeros((2, 3))), (asks,)),
        ConfirmPeers(digest, 0, (asks,)),
        Confirmations(digest, 0, (confirmation,)),
    ]
    yield world, [json.loads(each.encode()) for each in valid]
    setups.closed(world)


FUZZED = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@FUZZED
@given(data=st.data())
def test_a_silo_answers_any_message_and_spends_nothing(joined, caplog, data):
    world, valid = joined
    silo, document = world.silos["s0"], data.draw(st.sampled_from(valid))
    if "terms" in document and data.draw(st.booleans()):
        document = document | {"terms": data.draw(changed(document["terms"]))}
    else:
        document = data.draw(changed(document))
    reply = messages.read(open_envelope(silo.answer(sealed(world.key, document)), silo.public_key))
    assert not isinstance(reply, messages.Answer)
    assert world.statement("s0").releases == 0
    assert "UnexpectedFailure" not in caplog.text


def test_after_all_that_the_silo_starts_again_and_answers(joined, setups):
    world, _ = joined
    world.silos["s0"].close()
    world.silos["s0"] = Silo(world.place / "s0")
    assert isinstance(world.reply("s0", world.ask(1)), ConfirmationRequest)


@FUZZED
@given(data=st.data())
def test_any_terms_are_refused_or_computed(joined, data):
    """What an owner is asked to approve, and what a silo would compute after that."""
    world, _ = joined
    plain = data.draw(changed(json.loads(world.terms.as_json())))
    with suppress(DpadmmError):
        terms = decode(Terms, plain)
        assert stored_terms(terms.as_json()).digest == terms.digest
        world.first.check_terms(terms)
    assert world.statement("s0").releases == 0


@FUZZED
@given(data=st.data())
def test_a_coordinator_takes_or_refuses_any_answer(answers, caplog, data):
    world, run, valid = answers
    document = data.draw(changed(data.draw(st.sampled_from(valid))))
    envelope = sealed(world.silos["s0"].key, document)
    before = run.round
    for joined in (set(), {0, 1, 2}):
        run._joined = joined
        with suppress(FederationStopped):
            run.accept(world.keys[0], envelope)
    assert run.round == before
    assert "UnexpectedFailure" not in caplog.text
    run.progress()


@pytest.fixture(scope="module")
def answers(setups, template, tmp_path_factory):
    """A run in its first round, and valid answers of the first silo."""
    world = setups.copied(template, tmp_path_factory.mktemp("answers"))
    run = world.join(world.coordinator())
    digest = world.terms.digest
    valid = [
        messages.Joined(digest, 0, run.terms.plan_mark),
        messages.Answer(digest, 0, 1, messages.Vector.of(np.zeros(3))),
        ConfirmationRequest(digest, 0, "0" * 32),
        messages.PeersConfirmed(digest, 0, (b"x" * 80,)),
        messages.Refused(messages.mark(body_of(run.requests()[0].envelope)), "no"),
        messages.Confirmed(digest, 0),
        messages.Answer(digest, 0, 1, messages.Vector.of(np.zeros(3, dtype=np.uint64))),
    ]
    yield world, run, [json.loads(each.encode()) for each in valid]
    run.close()
    setups.closed(world)


# --- what nobody foresaw ----------------------------------------------------------------------------------------------


def test_what_nobody_foresaw_is_refused_and_logged_by_its_kind(world, monkeypatch, caplog):
    def fail(*_):
        raise LookupError("the cell 42")

    monkeypatch.setattr(Silo, "_requested", fail)
    caplog.set_level(logging.WARNING)
    reply = world.reply("s0", world.ask(1))
    assert isinstance(reply, Refused)
    assert reply.reason == "UnexpectedFailure; the reason is in the silo's own log."
    assert world.first.store.log()[-1].detail.startswith("UnexpectedFailure: LookupError in test_any_message.py")
    assert "UnexpectedFailure: LookupError" in caplog.text
    assert "42" not in caplog.text + world.first.store.log()[-1].detail
    caplog.clear()  # it was meant
    monkeypatch.undo()
    assert isinstance(world.reply("s0", world.invite()), messages.Joined)


@pytest.mark.parametrize("kind", [OSError, MemoryError, KeyboardInterrupt])
def test_a_failure_of_the_machine_is_no_refusal(world, monkeypatch, kind):
    def fail(*_):
        raise kind

    monkeypatch.setattr(Silo, "_requested", fail)
    with pytest.raises(kind):
        world.first.answer(world.ask(1))


def test_a_coordinator_refuses_what_it_did_not_foresee(answers, monkeypatch, caplog):
    world, run, valid = answers

    def fail(*_):
        raise LookupError("a vector")

    monkeypatch.setattr(messages, "read", fail)
    envelope = sealed(world.silos["s0"].key, valid[1])
    monkeypatch.setattr(run, "_joined", set())
    assert not run.accept(world.keys[0], envelope)
    run._joined = {0, 1, 2}
    with pytest.raises(FederationStopped, match=r"LookupError in test_any_message\.py") as refused:
        run.accept(world.keys[0], envelope)
    assert "a vector" not in str(refused.value) + caplog.text
    caplog.clear()  # it was meant


# --- what the state file holds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"loss": float("nan")}, {"run": "CON"}, {"format": 1}, {"least_silos": 2}])
def test_stored_terms_that_cannot_be_used_are_damage(world, change):
    """A silo whose file holds such terms spends nothing before the file is restored."""
    text = json.dumps(json.loads(world.terms.as_json()) | change)
    world.first.answer(world.invite())
    world.first.store._write("UPDATE run SET terms = ?", text)
    for read in (world.first.store.all_terms, world.first.unfinished):
        with pytest.raises(ResumeError, match="damaged"):
            read()
    world.refuses(world.ask(1), "")


# --- what terms cost to compute ---------------------------------------------------------------------------------------


def test_many_rounds_are_refused_before_anything_is_computed(world, monkeypatch):
    monkeypatch.setattr(Terms, "spec", property(lambda _: pytest.fail("the noise was computed")))
    with pytest.raises(Refusal, match="at most"):
        world.first.approve(replace(world.terms, rounds=10**6))


def test_releases_of_all_rounds_are_found_in_one_pass(world):
    """In the square of the rounds, twenty thousand of them took 39 seconds."""
    terms, passes = world.terms, []

    class Counted(dict):
        def items(self):
            passes.append(1)
            return super().items()

    counted = replace(terms)
    vars(counted)["plan"] = NoisePlan(Counted(terms.plan.releases))
    assert counted.all_releases(0) == terms.all_releases(0)
    assert len(passes) == 1
