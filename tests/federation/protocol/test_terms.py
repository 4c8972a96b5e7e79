"""Every method gives, over silos that see only their own data, exactly what the in-process engine gives."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dpadmm.core.release import PlannedNoise
from dpadmm.federation.messages import read
from dpadmm.federation.outcome import outcome_of
from dpadmm.federation.terms import NoiseOrigin
from dpadmm.methods.base import federated
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.testing import LocalEngine, Stopping

CASES = [
    ("p-admm", {"eta": 0.05}, 1e-5),
    ("p-admm-recycled", {"eta": 0.05, "gamma": 0.01}, 1e-5),
    ("dvp", {"eta": 0.05}, 0.0),
    ("m-admm", {"eta": 0.05, "growth": 1.1}, 0.0),
    ("r-admm", {"eta": 0.05, "gamma": 0.01}, 0.0),
    ("consensus", {"rho": 0.3}, 0.0),
    ("consensus-gaussian", {"rho": 0.3}, 1e-5),
    ("fp-federated", {"gamma": 1.0}, 1e-5),
    ("fp-federated", {"gamma": 1.0, "sampled": 2, "clip": 0.5}, 1e-5),
    ("fp-walk", {"gamma": 1.0}, 1e-5),
    ("fp-coordinator", {"gamma": 1.0}, 1e-5),
    pytest.param("ps-admm", {"rho": 0.3, "step": 0.3, "inner_steps": 3, "batch": 5}, 1e-5, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("method", "settings", "delta"), CASES)
def test_same_model_as_in_process(setups, tmp_path, method, settings, delta):
    world = setups.make(tmp_path, method, settings, delta=delta)
    coordinator = world.coordinator()
    world.drive(coordinator)
    outcome = outcome_of(coordinator)
    terms = world.terms
    noise = PlannedNoise(terms.plan, SimulatedSampler(seed=world.terms.seed))
    run = LocalEngine(progress=False).run(terms.algorithm, world.problem(), Stopping(rounds=4), terms.network, noise)
    np.testing.assert_allclose(outcome.estimate, run.estimate[:, 0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(outcome.tail_average, run.tail_average[:, 0], rtol=0, atol=1e-12)
    for agent, (name, said) in enumerate(zip(world.silos, outcome.costs, strict=True)):
        assert said.releases == len(terms.all_releases(agent)) == world.statement(name).releases
        assert said.epsilon <= world.terms.epsilon
        if delta > 0:  # the ledger's delta is that of the terms
            assert world.statement(name).spent_epsilon == pytest.approx(said.epsilon, rel=1e-9)


def test_the_worst_silo_spends_the_whole_epsilon(setups, tmp_path):
    world = setups.make(tmp_path)
    terms = world.terms
    assert max(terms.spent_epsilon(agent, 4) for agent in range(3)) == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("method", ["p-admm", "dvp", "consensus-gaussian"])
def test_secure_noise_is_fresh_and_recorded(setups, tmp_path, method):
    estimates = []
    for place in ("one", "two"):
        settings = {"rho": 0.3} if method == "consensus-gaussian" else {"eta": 0.05}
        delta = 0.0 if method == "dvp" else 1e-5
        world = setups.make(tmp_path / place, method, settings, noise=NoiseOrigin.SECURE, delta=delta, rounds=2)
        coordinator = world.coordinator()
        world.drive(coordinator)
        outcome = outcome_of(coordinator)
        assert outcome.terms.is_secure
        assert world.statement("s0").releases == 2
        assert (world.place / "s0" / "silo.db").exists()
        estimates.append(outcome.estimate)
    assert np.abs(estimates[0] - estimates[1]).max() > 1e-6


def test_rehearsals_say_so_in_a_ledger_of_their_own(world):
    world.drive(world.coordinator())
    assert not (world.place / "s0" / "silo.db").exists()
    assert all(run.run.startswith("REHEARSAL, seeded noise") for run in world.first.ledger.runs())


def test_what_leaves_is_only_the_noisy_message(setups, tmp_path):
    """Vectors lie on the grid of the exact sampler (C8), far from the bare minimiser, and are all that leaves."""
    world = setups.make(tmp_path, noise=NoiseOrigin.SECURE, rounds=1)
    carried = world.drive(world.coordinator()).carried
    for agent, envelope in enumerate([one.envelope for one in carried if not one.is_request][-3:]):
        answer = read(envelope[64:])
        certificate = world.terms.releases(agent, 1)[0].certificate
        assert np.all(answer.values.array % certificate.grid == 0)
        assert set(json.loads(envelope[64:])) == {"kind", "version", "digest", "agent", "round", "values"}


def test_every_method_of_the_issue_is_there():
    star = {"consensus", "consensus-gaussian", "ps-admm", "fp-federated", "fp-coordinator"}
    assert star | {"p-admm", "r-admm", "dvp", "m-admm", "fp-walk"} <= set(federated())


def test_the_mark_of_a_plan_is_about_every_release(setups, tmp_path):
    """Versions that compute other noise in any round, for any silo, must not work together."""
    terms = setups.make(tmp_path, approves=False).terms
    marks = {terms.plan_mark}
    for place, row in terms.plan.releases.items():
        for agent, release in row.items():
            changed = {**terms.plan.releases, place: {**row, agent: release.scale_noise(0.5)}}
            other = replace(terms)
            vars(other)["plan"] = NoisePlan(changed)
            marks.add(other.plan_mark)
    assert len(marks) == 1 + len(list(terms.plan))
