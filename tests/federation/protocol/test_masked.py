"""Sums under masks in a federation: the model of the in-process run bit for bit, durably, and by the owner's rules."""

from dataclasses import replace

import numpy as np
import pytest

from dpadmm.core.model import ReleasedModel
from dpadmm.core.release import PlannedNoise, masks_of, noisy_values
from dpadmm.core.train import Problems, run_training
from dpadmm.errors import InputError
from dpadmm.federation import messages
from dpadmm.federation.errors import FederationStopped, Refusal
from dpadmm.federation.inbox import encoding_of
from dpadmm.federation.keys import fingerprint
from dpadmm.federation.messages import Answer, Refused
from dpadmm.federation.outcome import outcome_of
from dpadmm.federation.policy import FULLY_CERTIFIED, SUMMED, Policy
from dpadmm.federation.silo import Silo
from dpadmm.federation.silo_directory import SiloDirectory
from dpadmm.federation.terms import (
    MOST_SUMMED,
    Missing,
    NoiseOrigin,
)
from dpadmm.models.federated import federation_model
from dpadmm.noise.masks import MOST_MULTIPLE
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.protection import View
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.regularisers import ElasticNet
from dpadmm.testing import LocalEngine, Stopping

METHODS = {
    "noisy-gradients": {"step": 0.5},
    "fp-coordinator": {"gamma": 1.0},
    "consensus-gaussian": {"rho": 0.3},
}


def make(setups, place, method="noisy-gradients", **terms):
    return setups.make(place, method, METHODS[method], **(setups.MASKED | terms))


def run_here(terms, problem, *, is_masked):
    """Return the model of the in-process engine with the same test noise, with masks or without."""
    masks = masks_of(len(terms.participants), "here") if is_masked else None
    noise = PlannedNoise(terms.plan, SimulatedSampler(seed=terms.seed), masks=masks)
    stopping = Stopping(rounds=terms.rounds)
    return LocalEngine(progress=False).run(terms.algorithm, problem, stopping, None, noise)


@pytest.mark.parametrize("method", METHODS)
def test_the_model_is_that_of_the_in_process_run_bit_for_bit(setups, tmp_path, method):
    world = make(setups, tmp_path, method, rounds=6, penalty=ElasticNet(l2=0.01))
    coordinator = world.coordinator()
    carried = world.drive(coordinator).carried
    terms, outcome, problem = coordinator.terms, outcome_of(coordinator), world.problem()
    sampler = SimulatedSampler(seed=world.terms.seed)
    (here,) = run_training(terms.spec, Problems([problem]), sampler, label="here").runs()
    assert outcome.estimate.tolist() == here.last[:, 0].tolist()
    for run in (run_here(terms, problem, is_masked=False), run_here(terms, problem, is_masked=True)):
        assert outcome.estimate.tolist() == run.estimate[:, 0].tolist()
        np.testing.assert_allclose(outcome.tail_average, run.tail_average[:, 0], rtol=1e-14)  # the mean of the same
    args = [messages.read(one.envelope[64:]) for one in carried if not one.is_request]
    assert sum(isinstance(one, Answer) for one in args) == 3 * 6
    assert all(one.values.dtype == "u8" for one in args if isinstance(one, Answer))


@pytest.mark.parametrize("method", METHODS)
def test_round_zero_is_summed_under_masks_as_well(setups, tmp_path, method):
    world = make(setups, tmp_path, method, **setups.COUNTED, epsilon=20.0, budget=(20.0, 1e-5))
    coordinator = world.coordinator()
    carried = world.drive(coordinator).carried
    terms, outcome = coordinator.terms, outcome_of(coordinator)
    counts = np.stack([silo._records().counts() for silo in world.silos.values()])
    plan, sampler = terms.spec.part(terms.spec.sums[0], is_secure=False), SimulatedSampler(seed=terms.seed)
    for masks in (None, masks_of(len(counts), "profile")):
        pooled = noisy_values(terms.spec.sums[0], plan, counts[:, :, None], PlannedNoise(plan, sampler, masks=masks))
        assert coordinator.counts().tolist() == pooled[0, :, 0].tolist()
    rows = setups.stacked(world.silos.values(), encoding_of(terms, setups.SCHEMA, outcome.counts))
    problem = Problem.of(EmpiricalRisk(rows, Logistic(), terms.mu))
    assert outcome.estimate.tolist() == run_here(terms, problem, is_masked=True).estimate[:, 0].tolist()
    assert terms.releases(0, 0)[0].certificate.theorem == "C11 + C12"
    kinds = [messages.read(one.envelope[64:]) for one in carried if not one.is_request]
    assert sum(isinstance(one, Answer) and one.values.shape == (96,) for one in kinds) == 3
    assert all(one.values.dtype == "u8" for one in kinds if isinstance(one, Answer))


# --- terms -----------------------------------------------------------------------------------------------------------


def test_more_silos_than_texts_can_add_up_are_refused(setups, world, monkeypatch):
    assert MOST_SUMMED * MOST_MULTIPLE < 2**63
    masked = setups.changed(world.terms, method="noisy-gradients", settings=(("step", 0.4),), **setups.MASKED)
    monkeypatch.setattr("dpadmm.federation.terms.MOST_SUMMED", 2)
    with pytest.raises(InputError, match="at most 2 silos"):
        masked.check()


def test_shares_of_the_noise_allow_for_the_colluders(setups, world):
    masked = setups.changed(world.terms, method="noisy-gradients", settings=(("step", 0.5),), **setups.MASKED)
    release, none = (setups.changed(masked, colluders=t).releases(0, 1)[0] for t in (1, 0))
    assert release.noise_std == pytest.approx(none.noise_std, rel=1e-6)
    assert release.share_std == pytest.approx(release.noise_std / np.sqrt(2), rel=1e-12)
    assert none.share_std == pytest.approx(none.noise_std / np.sqrt(3), rel=1e-12)
    assert masked.spent_epsilon(0, 4) == pytest.approx(1.0, rel=1e-6)


# --- the owner's rules -----------------------------------------------------------------------------------------------


def test_no_trust_is_needed_and_an_eavesdroppers_budget_is_not_enough(setups, tmp_path, monkeypatch):
    """The ledger of a silo that counts against whoever sees every message knows no masks."""
    world = make(setups, tmp_path)
    assert not world.first.policy.trusts_coordinator
    assert not world.terms.sends_bare
    other = SiloDirectory(tmp_path / "other")
    other.create(setups.changed(world.first.policy, view=View.EAVESDROPPER), 2.0, 1e-5)
    silo = Silo(other.directory)
    people = (replace(world.terms.participants[0], key=silo.public_key), *world.terms.participants[1:])
    terms = replace(world.terms, participants=people)
    for person in people[1:]:
        silo.confirm_peer(person.name, fingerprint(person.key))
    with pytest.raises(Refusal, match="create the silo with --view aggregate"):
        silo.approve(terms)
    monkeypatch.setattr(Policy, "check_observers", lambda *_: None)
    with pytest.raises(InputError, match="does not cover that"):
        silo.approve(terms)
    silo.store.approve(terms)  # however they came to be approved
    invitation = world.key.seal(messages.Join(terms).encode())
    assert isinstance(messages.read(silo.answer(invitation)[64:]), Refused)
    assert "does not cover that" in silo.store.log()[-1].detail


def test_a_policy_without_colluders_covers_one(setups, world):
    masked = {"method": "noisy-gradients", "settings": (("step", 0.5),)} | setups.MASKED
    for view in (View.PUBLIC, View.EAVESDROPPER):
        with pytest.raises(Refusal, match="requires colluders to be at least 1, got 0"):
            setups.changed(world.first.policy, view=view).check_terms(
                setups.changed(world.terms, **masked, colluders=0)
            )
    path = world.first.files.policy
    setups.changed(world.first.policy, view=View.AGGREGATE, colluders=0).save(path)
    path.write_text("".join(line for line in path.read_text().splitlines(True) if not line.startswith("colluders")))
    assert Policy.load(path).protection.colluders == 1
    assert not set(FULLY_CERTIFIED) & set(SUMMED)
    assert set(SUMMED) == {"noisy-gradients", "fp-coordinator", "consensus-gaussian"}


@pytest.mark.parametrize("reported", ["", "ab", "zz" * 16, "00" * 17])
def test_a_fingerprint_that_is_none(world, reported):
    with pytest.raises(InputError, match="32 hex digits"):
        world.first.confirm_peer("s1", reported)


def test_a_fingerprint_may_be_typed_as_people_do(world):
    key = world.terms.participants[1].key
    digits = fingerprint(key)
    assert "s1" in world.first.unconfirmed(world.terms)
    for typed in (digits, digits.upper(), digits.replace("-", " "), digits.replace("-", "")):
        world.first.confirm_peer("s1", typed)
        assert "s1" not in world.first.unconfirmed(world.terms)
    world.first.confirm_peer("s1", digits[:-1] + ("0" if digits[-1] != "0" else "1"))
    assert "s1" in world.first.unconfirmed(world.terms)


# --- durability ------------------------------------------------------------------------------------------------------


def stored_bytes(silo):
    """Return everything that is in a silo's state files."""
    return b"".join(path.read_bytes() for path in sorted(silo.files.directory.glob("*.db*")))


def test_a_mask_key_is_erased_when_the_last_answer_is_stored(setups, tmp_path):
    world = make(setups, tmp_path)
    coordinator, secrets = world.coordinator(), {}

    def fate(carried):
        if carried.node == "s0" and carried.is_request and not secrets:
            row = next(iter(world.first.store.rows("SELECT secret FROM mask")), None)
            if row is not None:
                secrets["s0"] = row[0]
                assert row[0] in stored_bytes(world.first)
        return (0,)

    world.drive(coordinator, world.transport(fate))
    assert len(secrets["s0"]) == 32
    assert secrets["s0"] not in stored_bytes(world.first)
    assert world.first.ledger._connection.execute("PRAGMA secure_delete").fetchone() == (1,)  # wherever a page had it
    assert world.first.store.rows("SELECT secret FROM mask") == [(None,)]
    last = coordinator.stored.answers(4)[0]
    again = setups.reopened(world)
    query = "SELECT reply FROM answer WHERE round = 4"
    assert again.first.store.rows(query) == [(last,)]
    twin = again.coordinator(world.terms, "twin.db")  # the silos repeat all they have answered
    again.drive(twin)
    assert twin.estimates().tolist() == coordinator.estimates().tolist()
    assert again.statement("s0").releases == 4


def test_silos_and_coordinator_that_are_started_again_go_on(setups, tmp_path):
    calm = make(setups, tmp_path / "calm", noise=NoiseOrigin.TEST)
    expected = calm.coordinator()
    calm.drive(expected)
    world = make(setups, tmp_path / "w", missing=Missing.STOP, wait_seconds=30.0)
    for lost in (2, 2, 2):
        with pytest.raises(FederationStopped, match="No usable answer from s1"):
            world.drive(world.coordinator(), world.transport(setups.losing("s1", lost)))
        world = setups.reopened(world)
    coordinator = world.coordinator()
    world.drive(coordinator)
    assert coordinator.estimates().tolist() == expected.estimates().tolist()
    assert [world.statement(name).releases for name in world.silos] == [4, 4, 4]


# --- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_counted", [False, True])
def test_a_secure_run_says_who_sees_what(setups, tmp_path, is_counted):
    world = make(setups, tmp_path, noise=NoiseOrigin.SECURE, **(setups.COUNTED if is_counted else {}))
    coordinator = world.coordinator()
    world.drive(coordinator)
    outcome = outcome_of(coordinator)
    model = federation_model(outcome, setups.SCHEMA)
    for name, silo in zip(world.silos, outcome.costs, strict=True):
        assert silo.view == "aggregate"
        assert "C12" in silo.certificate
        assert silo.epsilon == pytest.approx(1.0, rel=1e-6)
        assert world.statement(name).spent_epsilon == pytest.approx(1.0, rel=1e-6)
    assert any("at most 1 of the 3 silos look" in args for args in model.guarantee.assumptions)
    assert not any("trusted" in args for args in model.guarantee.assumptions)
    release = coordinator.terms.releases(0, 1)[0]
    assert outcome.costs[0].noise_level == release.noise_std
    assert ReleasedModel.load(model.save(tmp_path / "model.json")) == model
    assert model.guarantee.protection.view.value == "aggregate"
    assert ("messages", "masked, with up to 1 colluding silo") in model.choice.settings
    for silo in world.silos.values():
        model.verify(ledger=silo.files.ledger(NoiseOrigin.SECURE))


def test_a_ledger_that_counts_against_the_public_takes_masked_sums_too(setups, tmp_path):
    """What nobody sees, the public does not see either."""
    world = make(setups, tmp_path)
    files = SiloDirectory(tmp_path / "trusting")
    files.create(setups.changed(world.first.policy, view=View.PUBLIC), 2.0, 1e-5)
    silo = Silo(files.directory)
    people = (replace(world.terms.participants[0], key=silo.public_key), *world.terms.participants[1:])
    terms = replace(world.terms, participants=people, run="trusting")
    world.silos["s0"] = silo
    world.approve(terms)
    coordinator = world.coordinator(terms)
    world.drive(coordinator)
    assert world.statement("s0").spent_epsilon == pytest.approx(1.0, rel=1e-6)
