"""What methods refuse: every row of tests/snapshots/refusals/methods.txt."""

from dataclasses import replace
from math import inf, nan

import numpy as np
from tests.contracts.local_facts import local_function
from tests.refusals import check_refusals

import dpadmm
from dpadmm.data import random_quadratics
from dpadmm.methods import fixed_point
from dpadmm.methods.batches import Batches
from dpadmm.methods.consensus import ConsensusADMM
from dpadmm.methods.consensus_dp import ConsensusDPADMM, FunctionsDiffer, LinearTermsDiffer
from dpadmm.methods.decentralised import DecentralisedADMM
from dpadmm.methods.dp_dgd import DPDGD
from dpadmm.methods.dp_gd import DPGD
from dpadmm.methods.dp_sgd import DPSGD
from dpadmm.methods.dvp import DVP
from dpadmm.methods.fixed_point.general import Constraint
from dpadmm.methods.linearised import LinearisedADMM
from dpadmm.methods.m_admm import MADMM
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.methods.output_perturbation import OutputPerturbation
from dpadmm.methods.p_admm import PADMM
from dpadmm.methods.ps_admm import PSADMM
from dpadmm.methods.r_admm import RADMM, BareRADMM
from dpadmm.methods.recycled import RecycledPADMM
from dpadmm.networks import ring
from dpadmm.noise.mechanisms import Family
from dpadmm.privacy.accounting import PureTarget, Target
from dpadmm.privacy.certificates.gradients import sampled_gradient
from dpadmm.privacy.certificates.objective import objective_perturbation
from dpadmm.privacy.protection import Protection, Unit, View
from dpadmm.problems.losses import EpsilonInsensitive, Huber, Logistic, Quantile, SmoothedHinge, Softmax, Squared
from dpadmm.problems.problem import EmpiricalRisk, Problem, PublicFunctions, SoftmaxRisk, Weighting
from dpadmm.problems.regularisers import Box, ElasticNet, Quadratic
from dpadmm.problems.silos import PersonRows, Silos
from dpadmm.testing import LocalEngine, Recording, Stopping, plan_noise

MU, D = 0.1, 6
QUIET = LocalEngine(progress=False, threads=1, recording=Recording(every=0))
SAME = Constraint(np.eye(5), -np.eye(5), np.zeros(5))
COUPLED = Quadratic(np.eye(D) + 0.5, np.zeros(D))
BUDGET = {"epsilon": 20.0, "delta": 1e-5, "seed": 0}
PARTS = [(np.ones((100, 1)), np.random.default_rng(i).exponential(size=100)) for i in range(3)]


def rng():
    return np.random.default_rng(0)


def silos_of(**more):
    rows = rng().uniform(-0.4, 0.4, (4, 20, D))
    return Silos.from_parts(list(rows), [np.where(part[:, 0] > 0, 1.0, -1.0) for part in rows], row_norm=1.0, **more)


def users_of(loss, regulariser=ElasticNet(l1=0.1), mu=0.0):  # noqa: B008 - a frozen value
    users = Silos.one_record_each(rng().uniform(-0.4, 0.4, (20, D)), np.ones(20), 1.0)
    return Problem.of(EmpiricalRisk(users, loss, mu), Weighting.AVERAGE, regulariser)


SILOS = silos_of()
logistic = Problem.of(EmpiricalRisk(SILOS, Logistic(), mu=MU))
one_silo = Problem.of(logistic.functions.take(np.array([0])))
flat, svm = Problem.of(EmpiricalRisk(SILOS, Logistic())), Problem.of(EmpiricalRisk(SILOS, SmoothedHinge()))
squared, users = Problem.of(EmpiricalRisk(SILOS, Squared(), mu=MU)), users_of(Squared())
quadratic = Problem.of(random_quadratics(4, 3, rng=rng()), Weighting.EQUAL)
persons = Problem.of(EmpiricalRisk(silos_of(people=[PersonRows.of(np.arange(20) // 2).people] * 4), Logistic(), mu=MU))
person_function = local_function(gradient_bound=1.0, n_records=10, unit=Unit.PERSON)
softmax = Problem.of(SoftmaxRisk(Silos.from_parts([np.eye(D)] * 4, [np.arange(D) % 4.0] * 4, 1.0), Softmax(4), MU))
public_softmax = replace(softmax, functions=PublicFunctions.of_loss(softmax.functions.sizes, D, Softmax(4), 1.0, MU))


def ps_admm(**changes):
    return PSADMM(**{"rho": 0.05, "step": 1.0, "inner_steps": 3, "batches": Batches(5, seed=1), **changes})


def run(method, problem=logistic, network=None, rounds=1):
    return QUIET.run(method, problem, Stopping(rounds), network)


def planned(method, problem=logistic, target=Target(1.0, 1e-5), network=None, rounds=2, **people):  # noqa: B008
    return plan_noise(method, problem, rounds, target, network, protection=Protection(**people))


def test_refused(snapshot):
    check_refusals(snapshot, "methods", vars(fixed_point), globals())


def test_what_lies_just_inside_is_taken():
    run(ps_admm(step=0.499 / (0.25 + MU + 0.05)), one_silo)
    run(RecycledPADMM(0.1), replace(logistic, regulariser=Quadratic(np.eye(D), np.zeros(D))), ring(4))
