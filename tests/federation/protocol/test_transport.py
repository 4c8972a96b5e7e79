"""Whatever a transport does, and wherever a process ends: the same model, nothing spent twice, one answer a round."""

import hashlib
import shutil
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.contracts.in_memory import Crashed, InMemory
from tests.federation.protocol.durable_steps import DurableSteps

from dpadmm.federation import messages
from dpadmm.federation.coordinator_loop import drive
from dpadmm.federation.keys import SIGNATURE_BYTES
from dpadmm.federation.messages import Answer
from dpadmm.federation.silo import Silo
from dpadmm.federation.terms import NoiseOrigin
from dpadmm.noise.masks import MaskKey

ROUNDS = 2
KINDS = {
    "graph": {"method": "p-admm", "settings": {"eta": 0.05}},
    "star": {"method": "fp-federated", "settings": {"gamma": 1.0}},
    "counted graph": {"method": "p-admm", "settings": {"eta": 0.05}, "rounds": 1},
    "counted star": {"method": "fp-federated", "settings": {"gamma": 1.0}, "rounds": 1},
    "counted by a coordinator": {"method": "fp-coordinator", "settings": {"gamma": 1.0}, "rounds": 1},
    "counted under masks": {"method": "noisy-gradients", "settings": {"step": 0.5}, "rounds": 1},
}
"""The last four with a round 0, in which columns are counted, and one round of training: two answers each."""

NOBODY_LOOKS = {"colluders": 0, "policy": {"colluders": 0}}  # two silos hide nothing from each other

FATES = st.lists(st.lists(st.integers(0, 12), max_size=3).map(tuple), min_size=1, max_size=40)
"""What becomes of the first envelopes: lost, repeated, late and in another order; the others arrive."""


@contextmanager
def watched(steps, *, has_known_keys):
    """Watch what becomes durable; with the same mask key in every run all bits can be compared."""
    with steps.watched(), pytest.MonkeyPatch.context() as patch:
        if has_known_keys:
            patch.setattr(MaskKey, "create", lambda: MaskKey.of(hashlib.sha256(steps.actor.encode()).digest()))
        yield


def process(steps, directory):
    """Return how a silo's process starts, whose steps are counted as its own."""

    def answer(silo, envelope):
        steps.actor = directory.name
        try:
            return Silo.answer(silo, envelope)
        finally:
            steps.actor = "coordinator"

    return lambda: type("Watched", (Silo,), {"answer": answer})(directory)


@dataclass
class End:
    """What is in all files when a run has ended, and what left the silos on the way."""

    has_other_steps: bool
    model: list
    answers: dict
    stored: dict
    ledgers: list
    left: dict


def driven(setups, template, place, point=None, *, steps=None, has_known_keys=True, **how) -> End:
    """Run a copy of a closed world to its end, opening the coordinator again after a crash."""
    steps = steps or DurableSteps(point)
    steps.actor = "coordinator"
    world = setups.copied(template, place)
    transport = InMemory({name: process(steps, place / name) for name in world.silos}, world.terms, **how)
    with watched(steps, has_known_keys=has_known_keys):
        while True:
            coordinator = world.coordinator()
            try:
                drive(coordinator, transport, transport.clock)
                break
            except Crashed:
                coordinator.close()
    assert point is None or steps.crashes == 1
    end = ended(world, coordinator, transport)
    for silo in (*world.silos.values(), *transport._running.values()):
        silo.close()
    coordinator.close()
    shutil.rmtree(place)
    return end


def ended(world, coordinator, transport) -> End:
    """Read off the files, and off the wire."""
    terms, answers = coordinator.terms, {}
    for k in range(terms.first_round, terms.rounds + 1):
        answers |= {(k, agent): envelope for agent, envelope in coordinator.stored.answers(k).items()}
    stored, ledgers, left = {}, [], {}
    for agent, silo in enumerate(world.silos.values()):
        stored |= {(k, agent): bytes(reply) for k, reply in silo.store.rows("SELECT round, reply FROM answer")}
        silo.ledger.verify()
        ledgers.append((silo.ledger.statement().releases, silo.ledger.statement().spent_epsilon))
    for one in transport.carried:
        reported = None if one.is_request else messages.read(one.envelope[SIGNATURE_BYTES:])
        if isinstance(reported, Answer):
            left.setdefault((reported.round, reported.agent), set()).add(one.envelope)
    has_other_steps = coordinator.terms.is_graph or coordinator.terms.is_masked  # a silo's steps are the same on a star
    return End(has_other_steps, coordinator.estimates().tolist(), answers, stored, ledgers, left)


LONG = ("counted graph", "counted under masks")  # crashes under masks are also tried with fresh noise


@pytest.fixture(
    scope="module", params=[pytest.param(kind, marks=pytest.mark.slow) if kind in LONG else kind for kind in KINDS]
)
def federation(request, setups, tmp_path_factory):
    """Two silos with test noise that have approved their terms, closed, to be copied; and their undisturbed end."""
    place, terms = tmp_path_factory.mktemp("federation"), {"rounds": ROUNDS} | KINDS[request.param]
    if "counted" in request.param:
        terms |= setups.COUNTED
    if "masks" in request.param:
        terms |= setups.MASKED | NOBODY_LOOKS
    made = closed(setups.make(place / "template", sizes=(30, 20), **terms))
    calm = driven(setups, made, place / "calm")
    assert [releases for releases, _ in calm.ledgers] == [ROUNDS, ROUNDS]
    assert calm.answers == calm.stored
    return made, calm


def closed(world):
    world.coordinator().close()
    for silo in world.silos.values():
        silo.close()
    return world


def crash_points(setups, template, place, actors) -> list[tuple[str, int, str]]:
    """Return every durable step of these processes, each cut short and each not followed up."""
    steps = DurableSteps()
    driven(setups, template, place, steps=steps)
    return steps.points(actors)


def test_a_crash_at_any_durable_step_changes_nothing(setups, federation, tmp_path):
    """Deterministic noise: all bits are those of an undisturbed run, in all files and on the wire."""
    template, calm = federation
    actors = ("s0", "coordinator") if calm.has_other_steps else ("coordinator",)
    points = crash_points(setups, template, tmp_path / "count", actors)
    assert len(points) > 10 * len(actors)
    for point in points:
        assert driven(setups, template, tmp_path / "crashed", point) == calm, point


@pytest.mark.parametrize("kind", ["plain", "counted", pytest.param("under masks", marks=pytest.mark.slow)])
def test_with_fresh_noise_every_round_has_one_answer(setups, tmp_path, kind):
    """No crash makes a silo let a second draw leave for a round, and each is paid for once."""
    terms = {"rounds": ROUNDS - 1} | setups.COUNTED if kind == "counted" else {"rounds": ROUNDS}
    if kind == "under masks":
        terms |= KINDS["counted under masks"] | setups.MASKED | NOBODY_LOOKS | {"rounds": ROUNDS}
    made = setups.make(tmp_path / "secure", sizes=(30, 20), noise=NoiseOrigin.SECURE, **terms)
    federation = closed(made)
    for point in crash_points(setups, federation, tmp_path / "count", ("s0",)):
        end = driven(setups, federation, tmp_path / "crashed", point, has_known_keys=False)
        assert end.answers == end.stored, point
        assert end.left == {key: {envelope} for key, envelope in end.stored.items()}, point
        assert [releases for releases, _ in end.ledgers] == [ROUNDS, ROUNDS], point
        assert max(spent for _, spent in end.ledgers) <= 1.0, point


@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(fates=FATES)
def test_what_is_lost_repeated_late_or_out_of_order_changes_nothing(setups, federation, tmp_path, fates):
    template, calm = federation
    due = iter(fates)
    assert driven(setups, template, tmp_path / "stormy", fate=lambda _: next(due, (0,))) == calm
