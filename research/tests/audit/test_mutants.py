"""Broken builds that the audit must catch, each beside the right one, which must pass the same audit.

Caught means that the lower bound on epsilon exceeds the certified one at a confidence of 1 - 1e-6; seeds are fixed.
"""

import math
from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
from research.tests.audit.builders import attacked_as_certified as attacked
from research.tests.audit.builders import is_caught, scaled

from dpadmm.methods.base import MESSAGE, Setting
from dpadmm.methods.batches import Batches, whole_gradients
from dpadmm.methods.consensus_dp import ConsensusDPADMM
from dpadmm.methods.decentralised import GraphState, degrees, penalised_minimiser
from dpadmm.methods.dp_sgd import DPSGD
from dpadmm.methods.p_admm import PADMM
from dpadmm.methods.ps_admm import PSADMM, Averaging
from dpadmm.methods.r_admm import RADMM
from dpadmm.noise.sampler import SecureSampler, SimulatedSampler
from dpadmm.privacy.curves import GaussianCurve, m_of
from dpadmm.privacy.protection import View
from dpadmm_research.audit import neighbours
from dpadmm_research.audit.attacks import Afresh, RehearsedNoise
from dpadmm_research.audit.audit import STANDARD
from dpadmm_research.audit.catalogue import subjects_of
from dpadmm_research.audit.estimates import How
from dpadmm_research.audit.transcripts import TOLERANCE
from dpadmm_research.levels import at_levels
from dpadmm_research.papers.ps_admm.claims import Theorem2


def subject_of(method, place=0):
    return subjects_of(method, seed=1)[place]


def check_pair(right, wrong, **kwargs):
    assert not attacked(right, **kwargs).is_violation
    assert is_caught(attacked(wrong, **kwargs))


ALL_ADDITIVE = ["p-admm", "fp-centralised", "fp-coordinator", "consensus-gaussian", "dp-gd", "output-perturbation"]


@pytest.mark.parametrize(
    ("factor", "runs", "methods"),
    [
        (0.0, 2000, [*ALL_ADDITIVE, "dvp", "r-admm", "consensus", "dp-dgd", "dp-sgd"]),
        (0.5, 8000, [*ALL_ADDITIVE, "dvp", "consensus", "dp-dgd"]),
    ],
    ids=["off", "halved"],
)
def test_noise_off_or_halved(factor, runs, methods):
    for subject in [subject_of(method) for method in methods] + [subject_of("p-admm", 1)] * (factor > 0):
        assert not attacked(subject, runs=runs, sampler=scaled(1.0)).is_violation
        assert is_caught(attacked(subject, runs=runs, sampler=scaled(factor))), subject.method


@dataclass(frozen=True)
class Literal(PADMM):
    """Eq. (10) read literally: the agent goes on from its own noise-free model."""

    def local_step(self, k, agents, state, inbox, noise):
        # `guess` is the noise-free minimiser of the round before; the duals still read broadcasts.
        x = penalised_minimiser(self.eta, agents, state.guess, inbox, lin=state.a, start=state.guess)
        message = noise.perturb(MESSAGE, k, agents.index, x)
        return GraphState(x=message, a=state.a, guess=x), message


def test_own_noise_free_iterate():
    right = subject_of("p-admm", 1)
    check_pair(right, replace(right, algorithm=Literal(eta=right.algorithm.eta)))


@dataclass(frozen=True)
class TalkativeConsensus(ConsensusDPADMM):
    """The broadcast carries the mean of the duals beside the noisy model."""

    def start(self, agents, replicas):
        state, z = super().start(agents, replicas)
        return state, np.concatenate([z, np.zeros_like(z)])

    def local_step(self, k, agents, state, inbox, noise):
        state, messages = super().local_step(k, agents, state, inbox[:1], noise)
        return state, np.concatenate([messages, state.a])

    def exchange(self, k, problem, network, inbox, messages, noise):
        models, duals = np.split(messages, 2)
        z = super().exchange(k, problem, network, inbox[:1], models, noise)
        return np.concatenate([z, duals.mean(axis=0, keepdims=True)])

    def models(self, state, inbox):
        return super().models(state, inbox[:1])

    def residuals(self, agents, before, after):
        return super().residuals(agents, (before[0], before[1][:1]), (after[0], after[1][:1]))


def test_duals_in_the_clear():
    right = subject_of("consensus-gaussian")
    algorithm = TalkativeConsensus(rho=right.algorithm.rho, family=right.algorithm.family)
    check_pair(right, replace(right, algorithm=algorithm), runs=2000)


@dataclass(frozen=True)
class RereadingRADMM(RADMM):
    """The even step asks the data for the gradient again."""

    def local_step(self, k, agents, state, inbox, noise):
        if k % 2 == 1:
            return super().local_step(k, agents, state, inbox, noise)
        eta, deg = self.penalty(k), degrees(agents)
        push = whole_gradients(agents, state.x) + state.a + eta * (deg * state.x - inbox)
        message = state.x - push / (2 * eta * deg + self.damping(k))
        return state._replace(x=message), message


def test_even_step_that_reads_the_data_again():
    right = subject_of("r-admm")
    check_pair(right, replace(right, algorithm=RereadingRADMM(eta=right.algorithm.eta)), runs=2000)


class TestPrintedNoiseOfPsAdmm:
    """Theorem 2 with c = 1: on saturated records every inner step tells 2G/M, whatever the batches are."""

    M, K, S = 4, 5, 3

    def noise(self, epsilon):
        method = PSADMM(rho=1.0, step=0.1, inner_steps=self.S, batches=Batches(1, 3), averaging=Averaging.PLAIN)
        pair = neighbours.saturated(2, records=self.M)
        subject = replace(subject_of("ps-admm", 1), algorithm=method, worlds=pair, rounds=self.K)
        everyone = replace(method, batches=Batches(self.M, 0))
        ratio = replace(subject.views[View.EAVESDROPPER], revealed=(everyone, float(self.M)))
        subject = replace(subject, views={View.EAVESDROPPER: ratio})
        std = Theorem2(rounds=self.K, inner_steps=self.S, records=self.M, lipschitz=1.0).noise(
            epsilon=epsilon, delta=STANDARD.delta
        )
        return subject, std.value

    def test_the_theorem_is_refuted(self):
        subject, std = self.noise(STANDARD.epsilon)
        # One noise on the sum, as printed: the corrections, which are zero here, get a hair of it.
        levels = [np.full(self.K, std * math.sqrt(1 - 1e-6)), np.full(self.K, std * 1e-3)]
        plan = at_levels(subject.algorithm.mechanisms(Setting(subject.worlds[0], self.K, TOLERANCE)), levels)
        claimed = GaussianCurve(m_of(STANDARD.epsilon, STANDARD.delta))  # any curve through the claimed point
        result = attacked(subject, plan=plan, reserved=claimed, how=How.GDP)
        assert is_caught(result)
        assert result.estimate.epsilon_lower > 1.5

    def test_the_certified_noise_passes(self):
        assert not attacked(self.noise(1.0)[0]).is_violation


@dataclass(frozen=True)
class StubbornSGD(DPSGD):
    """Every batch is the same: the first record."""

    def gradients(self, k, agents, x):
        _, ridge = super().gradients(k, agents, x)
        always = whole_gradients(agents, x) * agents.functions.sizes[:, None, None] / self.draws.size
        return always, ridge


def test_sampling_that_is_not_random():
    right = subject_of("dp-sgd")
    wrong = replace(right, algorithm=StubbornSGD(step=0.1, batches=right.algorithm.batches))
    check_pair(right, wrong)


def divided_mechanisms(method, setting):
    """The method's promises, with every bound divided by n_i once more."""
    sizes = setting.problem.functions.sizes

    def row(old):
        n = int(sizes[max(old.agent, 0)])
        return replace(old, certificates=tuple(replace(c, bound=c.bound / n) for c in old.certificates))

    return tuple(replace(p, rows=tuple(row(r) for r in p.rows)) for p in method)


@pytest.mark.parametrize(("name", "place"), [("p-admm", 1), ("fp-centralised", 0), ("fp-coordinator", 0)])
def test_certificate_divided_by_the_records_once_too_often(name, place):
    right = subject_of(name, place)
    method = type(right.algorithm)
    divided = type(method.__name__, (method,), {
        "mechanisms": lambda self, setting: divided_mechanisms(method.mechanisms(self, setting), setting)
    })  # fmt: skip
    algorithm = divided(**{each.name: getattr(right.algorithm, each.name) for each in fields(method)})
    check_pair(right, replace(right, algorithm=algorithm))


def test_secure_sampler_with_a_fixed_seed():
    """Whoever owns the program can draw the noise beforehand."""
    subject = replace(subject_of("p-admm"), views={View.EAVESDROPPER: RehearsedNoise()})
    plan = subject.plan(STANDARD, is_secure=True)
    right, wrong = Afresh(SecureSampler), Afresh(lambda: SimulatedSampler(0))
    assert not attacked(subject, runs=600, plan=plan, sampler=right).is_violation
    assert is_caught(attacked(subject, runs=600, plan=plan, sampler=wrong))
