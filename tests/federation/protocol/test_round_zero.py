"""Round 0 of a federation: columns are counted with noise before the training, as durably and strictly as any round."""

from dataclasses import replace

import numpy as np
import pytest
from tests.page_facts import facts_of

from dpadmm.core.model import ReleasedModel
from dpadmm.core.release import PlannedNoise
from dpadmm.errors import BudgetError
from dpadmm.federation import messages
from dpadmm.federation.errors import FederationStopped
from dpadmm.federation.inbox import encoding_of, released_profile
from dpadmm.federation.messages import Answer, Joined, Refused, Vector
from dpadmm.federation.outcome import outcome_of
from dpadmm.federation.silo_directory import counted_columns
from dpadmm.federation.silo_store import SiloStore
from dpadmm.federation.terms import Missing, NoiseOrigin
from dpadmm.models.federated import federation_model
from dpadmm.noise.sampler import SecureSampler, SimulatedSampler
from dpadmm.privacy.accounting import compose
from dpadmm.privacy.ledger import Budget
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.silos import Silos
from dpadmm.testing import LocalEngine, Stopping

NOTHING = np.zeros((0, 3))
COMPLETE = ((0, 1), (0, 2), (1, 2))
BARE = {"method": "fp-coordinator", "settings": {"gamma": 1.0}}
STAR = {"method": "fp-federated", "settings": {"gamma": 1.0}}


def make(setups, place, **terms):
    """Return three silos, all joined to each other, that count their columns first."""
    return setups.make(place, **({"edges": COMPLETE} | counting(setups, terms)))


def counting(setups, change):
    """Return terms with a round 0, and these changes of them or of what is counted."""
    own = {name: change[name] for name in change.keys() & {"share", "n_numeric", "n_categorical", "size"}}
    others = {name: value for name, value in change.items() if name not in own}
    return setups.COUNTED | {"profile": replace(setups.COUNTED["profile"], **own)} | others


def joined(world):
    """Let all silos join."""
    for silo in world.silos.values():
        assert isinstance(world.reply(silo.policy.name, world.invite()), Joined)
    return world


def counted(world):
    """Return the envelopes of round 0."""
    joined(world)
    return [silo.answer(world.ask(0, agent)) for agent, silo in enumerate(world.silos.values())]


def forged(world, agent, counts):
    """Return counts that a registered but malicious silo signs."""
    answer = Answer(world.terms.digest, agent, 0, Vector.of(np.asarray(counts, dtype=np.float64)))
    return world.silos[f"s{agent}"].key.seal(answer.encode())


def draws_of(monkeypatch):
    """Count secure draws."""
    original, calls = SecureSampler.perturb, []

    def wrapped(*args, **kwargs):
        calls.append(args)
        return original(*args, **kwargs)

    monkeypatch.setattr(SecureSampler, "perturb", wrapped)
    return calls


# --- terms -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "share"), [({}, 0.2), (STAR, 0.01), (BARE, 0.5)])
def test_round_zero_is_paid_for_from_the_same_epsilon(setups, tmp_path, kind, share):
    terms = make(setups, tmp_path, **kind, share=share).terms
    assert terms.spent_epsilon(0, -1) == 0
    assert terms.releases(0, 0)[0].certificate.theorem == "C11"
    assert 0 < terms.spent_epsilon(0, 0) < terms.spent_epsilon(0, 1) < terms.spent_epsilon(0, 4)
    assert max(terms.spent_epsilon(agent, 4) for agent in range(3)) == pytest.approx(1.0, rel=1e-6)
    assert max(terms.spent_epsilon(agent, 4) for agent in range(3)) <= 1.0
    assert terms.spent_epsilon(0, 0) == pytest.approx(compose(terms.releases(0, 0)).epsilon(1e-5), rel=1e-12)


# --- the owner's rules -----------------------------------------------------------------------------------------------


def test_the_least_noise_holds_for_counts(setups, tmp_path):
    """A large share: the counts are the release with the least noise."""
    world = make(setups, tmp_path, share=0.99)
    ratios = [release.noise_ratio for release in world.terms.all_releases(0)]
    assert ratios[0] == min(ratios) < ratios[1]
    joined(world)
    replace(world.first.policy, least_noise=(ratios[0] + ratios[1]) / 2).save(world.first.files.policy)
    world.refuses(world.invite(), "times the sensitivity", releases=0)
    world.refuses(world.ask(0), "times the sensitivity", releases=0)


def test_a_run_whose_round_zero_does_not_fit_the_budget_does_not_start(setups, tmp_path):
    world = make(setups, tmp_path)
    world.first.ledger.set_budget(Budget(epsilon=0.99, delta=1e-5), reason="test")
    world.refuses(world.invite(), "budget of this silo", releases=0)
    with pytest.raises(BudgetError, match=r"0\.99 is left"):
        world.first.approve(world.terms)


# --- order, repeats, durability --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [{}, STAR, BARE], ids=["graph", "star", "bare"])
def test_round_zero_comes_first_and_is_answered_once(setups, tmp_path, kind):
    world = joined(make(setups, tmp_path, **kind))
    world.refuses(world.ask(1), "round 0 is due", releases=0)
    world.refuses(world.ask(0, inbox=np.ones((1, 3))), "request must be empty", releases=0)
    world.refuses(world.ask(0, relay=[b"x" * 100]), "request must be empty", releases=0)
    first = world.first.answer(world.ask(0))
    assert isinstance(messages.read(first[64:]), Answer)
    assert world.first.answer(world.ask(0)) == first
    world.refuses(world.ask(0, inbox=np.zeros((0, 4))), "already answered, to a different request", releases=1)
    world = setups.reopened(world)
    assert world.first.answer(world.ask(0)) == first
    assert world.statement("s0").releases == 1


def test_only_noisy_counts_leave(setups, tmp_path):
    """On the grid of the exact sampler, and far from the bare counts."""
    world = make(setups, tmp_path, noise=NoiseOrigin.SECURE)
    terms = world.terms
    for agent, envelope in enumerate(counted(world)):
        release = terms.releases(agent, 0)[0]
        noisy, bare = messages.read(envelope[64:]).values.array, world.silos[f"s{agent}"]._records().counts()
        assert np.all(noisy % release.certificate.grid == 0)
        assert np.std(noisy - bare) == pytest.approx(release.noise_std, rel=0.5)
        assert bare.sum() == 3 * world.terms.participants[agent].records


# --- counts that come back -------------------------------------------------------------------------------------------


def test_the_relay_cannot_change_leave_out_or_invent_counts(setups, tmp_path):
    world = make(setups, tmp_path)
    answers = counted(world)
    size = world.terms.n_counts
    world.refuses(world.ask(1), "counts of 0 were relayed", releases=1)
    world.refuses(world.ask(1, relay=answers[:2]), "counts of 2 were relayed", releases=1)
    world.refuses(world.ask(1, relay=[answers[0], answers[2], answers[1]]), "signature", releases=1)
    world.refuses(world.ask(1, relay=[answers[0], answers[1], answers[1]]), "signature", releases=1)
    world.refuses(world.ask(1, relay=answers, inbox=np.ones((1, size))), "relayed messages", releases=1)
    changed = bytearray(answers[1])
    changed[-20] ^= 1
    assert isinstance(world.reply("s0", world.ask(1, relay=[answers[0], bytes(changed), answers[2]])), Refused)
    for wrong, command in (
        (np.full(size, np.nan), "not finite"),
        (np.full(size, 1e9), "norm"),
        (np.zeros(size + 1), "shape"),
        (np.zeros(3), "shape"),
    ):
        world.refuses(world.ask(1, relay=[answers[0], forged(world, 1, wrong), answers[2]]), command, releases=1)
    assert isinstance(world.reply("s0", world.ask(1, relay=answers)), Answer)


@pytest.mark.parametrize(
    ("vector", "command"),
    [((np.nan,) * 96, "not finite"), ((1e9,) * 96, "norm"), ((1.0,) * 95, "shape"), ((1.0,) * 3, "shape")],
)
def test_bad_counts_from_the_coordinator(setups, tmp_path, vector, command):
    world = make(setups, tmp_path, **BARE)
    counted(world)
    assert world.terms.n_counts == 96
    world.refuses(world.ask(1, inbox=[vector]), command, releases=1)
    world.refuses(world.ask(1), "not 1 rows", releases=1)
    world.refuses(world.ask(1, inbox=np.ones((1, 96)), relay=[b"x" * 100]), "no relayed messages", releases=1)
    assert isinstance(world.reply("s0", world.ask(1, inbox=np.ones((1, 96)))), Answer)


def test_counts_once_taken_stay(setups, tmp_path):
    """Other counts in round 2, or in another request for round 1, are refused, also after a restart."""
    world = make(setups, tmp_path, **BARE)
    counted(world)
    first = world.first.answer(world.ask(1, inbox=np.full((1, 96), 5.0)))
    world.refuses(world.ask(1, inbox=np.full((1, 96), 6.0)), "already answered, to a different request", releases=2)
    world.refuses(world.ask(2, inbox=np.full((1, 96), 6.0)), "not (3,)", releases=2)
    world = setups.reopened(world)
    assert world.first.answer(world.ask(1, inbox=np.full((1, 96), 5.0))) == first
    state = world.first.store.last(world.terms.digest)[1]
    np.testing.assert_array_equal(state[0], 5.0)
    assert isinstance(world.reply("s0", world.ask(2, inbox=np.zeros((1, 3)))), Answer)
    np.testing.assert_array_equal(world.first.store.last(world.terms.digest)[1][0], 5.0)


def test_counts_of_a_step_that_was_never_stored_are_not_used_later(setups, tmp_path, monkeypatch):
    """The machine fails after rows were encoded by the first counts; the answer that leaves goes by the second."""
    answers = {}
    for place, has_failed in (("calm", False), ("failing", True)):
        world = make(setups, tmp_path / place, **BARE)
        counted(world)
        if has_failed:
            with monkeypatch.context() as patch:
                patch.setattr(SiloStore, "add_answer", lambda *_: (_ for _ in ()).throw(OSError("no space left")))
                with pytest.raises(OSError, match="no space"):
                    world.first.answer(world.ask(1, inbox=np.linspace(0, 90, 96)[None]))
        answers[place] = world.reply("s0", world.ask(1, inbox=np.linspace(90, 0, 96)[None])).values.array
    np.testing.assert_array_equal(answers["calm"], answers["failing"])


@pytest.mark.parametrize(
    ("method", "settings"),
    [("p-admm", {"eta": 0.05}), ("consensus-gaussian", {"rho": 0.3}), ("fp-walk", {"gamma": 1.0})],
)
def test_every_kind_of_method_trains_by_the_counts(setups, tmp_path, method, settings):
    world = make(setups, tmp_path, method=method, settings=settings, epsilon=20.0, budget=(20.0, 1e-5))
    coordinator = world.coordinator()
    world.drive(coordinator)
    assert encoding_of(coordinator.terms, setups.SCHEMA, coordinator.counts()) != setups.SCHEMA.encoding(0.6)
    check_model(world, coordinator)


def test_a_silo_first_asked_in_a_later_round_gets_the_counts_then(setups, tmp_path):
    settings = {"gamma": 1.0, "sampled": 1}
    world = make(setups, tmp_path, method="fp-federated", settings=settings, rounds=6)
    terms = world.terms
    assert {terms.first_training(agent) for agent in range(3)} != {1}
    coordinator = world.coordinator()
    world.drive(coordinator)
    check_model(world, coordinator)


def check_model(world, coordinator):
    """The training is that of the in-process engine on rows encoded by what round 0 has shown."""
    terms, schema, outcome = coordinator.terms, world.first._records().schema, outcome_of(coordinator)
    records = [world.silos[person.name]._records() for person in terms.participants]
    rows = [each.cells.rows(encoding_of(terms, schema, outcome.counts)) for each in records]
    silos = Silos.from_parts(rows, [each.cells.labels for each in records], 1.0)
    problem = Problem.of(EmpiricalRisk(silos, Logistic(), terms.mu))
    noise = PlannedNoise(terms.plan, SimulatedSampler(seed=terms.seed))
    stopping = Stopping(rounds=terms.rounds)
    run = LocalEngine(progress=False).run(terms.algorithm, problem, stopping, terms.network, noise)
    np.testing.assert_allclose(outcome.estimate, run.estimate[:, 0], rtol=0, atol=1e-12)


# --- the coordinator -------------------------------------------------------------------------------------------------


def test_progress_shows_round_zero(setups, tmp_path):
    world = make(setups, tmp_path)
    coordinator, terms = world.coordinator(), world.terms
    world.join(coordinator)
    assert coordinator.progress().round == -1
    assert coordinator.counts() is None
    for agent, (key, _, envelope) in enumerate(coordinator.requests()):
        assert not coordinator.progress().epsilon[agent][1]
        coordinator.accept(key, world.silos[f"s{agent}"].answer(envelope))
        assert coordinator.progress().epsilon[agent][1] == pytest.approx(terms.spent_epsilon(agent, 0), rel=1e-12)
    assert coordinator.round == coordinator.progress().round == 0
    assert coordinator.counts().shape == (96,)
    assert len(coordinator.estimates()) == len(coordinator.seconds_per_round()) == 0
    assert not outcome_of(coordinator).rounds
    assert world.coordinator().counts().tolist() == coordinator.counts().tolist()  # another process


def test_the_coordinator_refuses_bad_counts(setups, tmp_path):
    world = make(setups, tmp_path)
    coordinator = world.join(world.coordinator())
    for wrong in (np.zeros(3), np.full(96, np.inf), np.full(96, 1e9)):
        with pytest.raises(FederationStopped, match="round 0 is unusable"):
            coordinator.accept(world.keys[1], forged(world, 1, wrong))
    assert coordinator.round == -1


def test_the_model_carries_what_round_zero_has_shown(setups, tmp_path):
    world = make(setups, tmp_path, noise=NoiseOrigin.SECURE)
    coordinator = world.coordinator()
    world.drive(coordinator)
    outcome = outcome_of(coordinator)
    model = federation_model(outcome, setups.SCHEMA)
    assert model.profile == released_profile(coordinator.terms, setups.SCHEMA, coordinator.counts())
    assert model.profile.records == 150
    assert model.encoding == encoding_of(coordinator.terms, setups.SCHEMA, coordinator.counts())
    assert "C11" in model.silos[0].cost.certificate
    assert model.silos[0].cost.releases == 5
    assert model.choice.rounds == 4
    assert outcome.costs[0].noise_level == coordinator.terms.releases(0, 1)[0].noise
    alone = max(coordinator.terms.spent_epsilon(agent, 0) for agent in range(3))
    assert model.guarantee.profile.epsilon == pytest.approx(alone, rel=1e-9)
    assert model.profile.run == world.terms.paid_run
    assert "noisy counts of 3 columns (C11)" in model.statement
    assert "profile-cost" in facts_of(model.report())
    assert ReleasedModel.load(model.save(tmp_path / "model.json")) == model
    model.verify(ledger=world.first.files.ledger(NoiseOrigin.SECURE))


# --- somebody is missing ---------------------------------------------------------------------------------------------


def test_the_rule_stop_in_round_zero(setups, tmp_path):
    world = make(setups, tmp_path, missing=Missing.STOP, wait_seconds=30.0)
    coordinator = world.coordinator()
    with pytest.raises(FederationStopped, match="No usable answer from s1 in round 0"):
        world.drive(coordinator, world.transport(setups.losing("s1", 1)))
    again = setups.reopened(world)
    coordinator = again.coordinator()
    again.drive(coordinator)
    assert coordinator.is_done
    assert again.statement("s0").releases == 5


def test_what_silo_show_prints_is_what_terms_need(setups):
    made = counted_columns(setups.SCHEMA, 0.2)
    assert (made.n_numeric, made.n_categorical, made.size) == (3, 0, 96)
