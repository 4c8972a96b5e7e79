"""A silo alone is the batch, a run goes on where it stopped, plans spend all: methods without the graph contract."""

import math

import numpy as np
import pytest
from tests.contracts.certificates import by_agent

from dpadmm.core.release import PlannedNoise
from dpadmm.data.examples import logistic_table
from dpadmm.data.partition import by_sizes
from dpadmm.methods.base import Agents, Silence, take
from dpadmm.methods.batches import Batches, BatchKind
from dpadmm.methods.consensus import ConsensusADMM
from dpadmm.methods.consensus_dp import ConsensusDPADMM, FunctionsDiffer, GaussianConsensusADMM, NoisePlace
from dpadmm.methods.decentralised import DecentralisedADMM
from dpadmm.methods.dp_dgd import DPDGD
from dpadmm.methods.dp_gd import DPGD
from dpadmm.methods.dp_sgd import DPSGD, DPProxSGD
from dpadmm.methods.fixed_point import (
    CentralisedADMM,
    CoordinateDescent,
    CoordinatorADMM,
    FederatedADMM,
    Participation,
    RandomWalkADMM,
)
from dpadmm.methods.linearised import LinearisedADMM
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.methods.output_perturbation import OutputPerturbation
from dpadmm.methods.ps_admm import PSADMM, Averaging
from dpadmm.networks import path, ring
from dpadmm.noise.mechanisms import Family
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.accounting import PureTarget, Target
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.regularisers import Box
from dpadmm.testing import LocalEngine, Recording, Stopping, plan_noise

SIZES, DELTA, REPLICAS, ROUNDS = (60, 40, 30, 20), 1e-5, 3, 6
ENGINE = LocalEngine(progress=False, threads=1, recording=Recording(every=0), replicas=REPLICAS, tolerance=1e-12)
FIXED, PLAIN = Batches(8, seed=1, kind=BatchKind.FIXED), Averaging.PLAIN
RNG = np.random.default_rng(3)
METHODS = {
    "admm": DecentralisedADMM(0.02),
    "consensus-admm": ConsensusADMM(0.05),
    "consensus": ConsensusDPADMM(0.05),
    "consensus-of-functions": ConsensusDPADMM(0.05, FunctionsDiffer(0.1), place=NoisePlace.BEFORE_PROX),
    "consensus-gaussian": GaussianConsensusADMM(0.05),
    "dp-sgd": DPSGD(step=2.0, batches=Batches(8, seed=1)),
    "dp-sgd-fixed-clipped": DPSGD(step=2.0, batches=FIXED, clip=0.3),
    "dp-prox-sgd": DPProxSGD(step=2.0, power=0.5, batches=Batches(8, seed=1)),
    "dp-gd": DPGD(step=4.0),
    "noisy-gradients": NoisyGradients(step=1.0),
    "linearised": LinearisedADMM(rho=0.05, step=4.0, power=0.5),
    "dp-dgd": DPDGD(step=4.0, decay=0.9, noise_decay=0.95, noise=Family.GAUSSIAN),
    "dp-dgd-coordinate": DPDGD(step=4.0, decay=0.9, noise_decay=0.95, constraint=Box(-1.0, 1.0)),
    "dp-dgd-spherical": DPDGD(step=4.0, decay=0.9, noise=Family.SPHERICAL),
    "dp-cd": CoordinateDescent(step=2.0, block_size=2),
    "fp-centralised": CentralisedADMM(2.0, 0.8),
    "fp-federated": FederatedADMM(2.0, 0.8, clip=0.3),
    "fp-federated-sampled": FederatedADMM(2.0, participation=Participation.subsets(4, 2, ROUNDS, RNG)),
    "fp-walk": RandomWalkADMM(2.0, participation=Participation.in_turn(4, ROUNDS)),
    "fp-coordinator": CoordinatorADMM(2.0, 0.4),
    "fp-coordinator-sampled": CoordinatorADMM(2.0, participation=Participation.subsets(4, 2, ROUNDS, RNG)),
    "ps-admm": PSADMM(
        0.05, 1.0, 3, Batches(8, seed=1), averaging=PLAIN, constraint=Box(0.0, math.inf), noise_ratio=1.4
    ),
    "ps-admm-fixed": PSADMM(0.05, 1.0, 3, FIXED),
    "output": OutputPerturbation(),
    "output-spherical": OutputPerturbation(Family.SPHERICAL),
}
SAMPLED = {name for name in METHODS if "sgd" in name or name.startswith("ps-admm")}
PRIVATE = [name for name, method in METHODS.items() if method.about.is_private]


@pytest.fixture(scope="module")
def problem():
    table = logistic_table(sum(SIZES), 4, rng=np.random.default_rng(5)).data
    silos = table.silos(by_sizes(sum(SIZES), SIZES, np.random.default_rng(6)))
    return Problem.of(EmpiricalRisk(silos, Logistic(), mu=0.1))


@pytest.fixture(scope="module")
def planned(problem):
    """Plans by name, made once; what hides nothing has none."""
    made = {}

    def of(name):
        method = METHODS[name]
        if name not in made and method.about.is_private:
            noise = [each for each in vars(method).values() if isinstance(each, Family)] or method.about.noise
            target = PureTarget(1.0) if noise[0].is_pure else Target(1.0, DELTA)
            made[name] = plan_noise(method, problem, rounds_of(name), target, network_of(name))
        return made.get(name)

    return of


def rounds_of(name):
    return 1 if name.startswith("output") else ROUNDS


def network_of(name):
    return {"admm": ring(4), "dp-dgd-coordinate": path(4)}.get(name, ring(4) if METHODS[name].needs_network else None)


@pytest.mark.parametrize("name", PRIVATE)
def test_the_plan_spends_the_target_for_every_agent(planned, name):
    """Agents who take part less often spend less."""
    curves = by_agent(planned(name))
    worst = max(curve.epsilon(0.0 if curve.epsilon(0.0) <= 1 else DELTA) for curve in curves.values())
    assert (1 - 1.001e-3 if name in SAMPLED else 1 - 1e-6) <= worst <= 1.0
    assert len(curves) in (1, 4)


@pytest.mark.parametrize("name", METHODS)
def test_a_silo_alone_takes_the_same_step(problem, planned, name):
    method, network, k = METHODS[name], network_of(name), min(2, rounds_of(name))
    agents, noise = Agents.of(problem, network, 1e-12, 1), Silence()
    if method.about.is_private:
        noise = PlannedNoise(planned(name), SimulatedSampler(4), REPLICAS)
    state, inbox = method.start(agents, REPLICAS)
    rng = np.random.default_rng(0)
    inbox, state = rng.random(inbox.shape), type(state)(*(rng.random(part.shape) for part in state))
    who = np.arange(4) if method.participants(k) is None else method.participants(k)
    whole, messages = method.local_step(k, agents.take(who), take(state, who), inbox[who] if network else inbox, noise)
    for place, i in enumerate(who):
        mine = type(state)(*(part[[i]] for part in state))
        heard = inbox[[i]] if network is not None else inbox
        one, message = method.local_step(k, agents.alone(i, 1e-12), mine, heard, noise)
        np.testing.assert_allclose(message, messages[[place]], atol=1e-10)
        for part, rows in zip(one, whole, strict=True):
            np.testing.assert_allclose(part, rows[[place]], atol=1e-10)


@pytest.mark.parametrize("name", METHODS)
def test_a_run_repeats_by_its_seed_and_goes_on_as_if_it_had_never_stopped(problem, planned, name):
    method, network, number = METHODS[name], network_of(name), rounds_of(name)

    def run(rounds, seed=7, after=None):
        noise = PlannedNoise(planned(name), SimulatedSampler(seed), REPLICAS) if method.about.is_private else None
        return ENGINE.run(method, problem, Stopping(rounds=rounds), network, noise, after)

    whole = run(number)
    np.testing.assert_array_equal(run(number, after=run(min(2, number))).estimate, whole.estimate)
    if method.about.is_private:
        assert (run(number, seed=8).estimate != whole.estimate).any()
        assert np.ptp(whole.estimate, axis=1).min() > 0
