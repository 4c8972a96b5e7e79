"""Likelihood ratios against SciPy's densities, and the identities every likelihood ratio obeys."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from dpadmm.errors import InputError
from dpadmm.methods.dvp import DVP
from dpadmm.networks import complete
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.protection import Certificate, Protection, Unit, View
from dpadmm.privacy.releases import (
    CoordinateLaplaceRelease,
    FixedSizeSampling,
    GaussianRelease,
    ObjectiveRelease,
    PoissonSampling,
    SampledGaussianRelease,
    SphericalLaplaceRelease,
)
from dpadmm_research.audit import neighbours
from dpadmm_research.audit.attacks import LikelihoodRatio
from dpadmm_research.audit.audit import STANDARD, gather
from dpadmm_research.audit.catalogue import all_subjects
from dpadmm_research.audit.likelihood import Lens, ReleasePair, log_determinant, log_ratio
from dpadmm_research.audit.transcripts import Wire, disagreement, replay

CERTIFICATE = Certificate(
    bound=1.0,
    protection=Protection(unit=Unit.RECORD, view=View.EAVESDROPPER),
    theorem="C1",
    assumptions=("unit-norm records",),
)
FACTS = {"certificate": CERTIFICATE, "agent": 0, "round": 1}
RNG = np.random.default_rng(0)
Y, A, B = RNG.standard_normal((3, 3, 5))
PAIR = ReleasePair(sent=(Y, Y), clean=(A, B), x=Y, agent=0, round=1)
LENS = Lens(NoisePlan({}), neighbours.misclassified())


class TestDensities:
    def test_gaussian(self):
        found = log_ratio(GaussianRelease(noise_std=0.7, **FACTS), PAIR, LENS)
        exact = (stats.norm.logpdf(Y, A, 0.7) - stats.norm.logpdf(Y, B, 0.7)).sum(axis=0)
        np.testing.assert_allclose(found, exact, rtol=1e-12)

    def test_coordinate_laplace(self):
        found = log_ratio(CoordinateLaplaceRelease(scale=0.7, **FACTS), PAIR, LENS)
        exact = (stats.laplace.logpdf(Y, A, 0.7) - stats.laplace.logpdf(Y, B, 0.7)).sum(axis=0)
        np.testing.assert_allclose(found, exact, rtol=1e-12)

    def test_spherical_laplace(self):
        found = log_ratio(SphericalLaplaceRelease(rate=0.7, **FACTS), PAIR, LENS)
        exact = 0.7 * (np.linalg.norm(Y - B, axis=0) - np.linalg.norm(Y - A, axis=0))
        np.testing.assert_allclose(found, exact, rtol=1e-12)

    @pytest.mark.parametrize("sampling", [PoissonSampling(rate=0.25), FixedSizeSampling(size=1, population=4)])
    def test_sampled_gaussian(self, sampling):
        release = SampledGaussianRelease(noise_std=0.7, sampling=sampling, **FACTS)

        def density(inside):
            return 0.75 * stats.norm.pdf(Y, 0, 0.7).prod(axis=0) + 0.25 * stats.norm.pdf(Y, inside, 0.7).prod(axis=0)

        np.testing.assert_allclose(log_ratio(release, PAIR, LENS), np.log(density(A) / density(B)), rtol=1e-10)

    def test_objective_by_inverting_the_distribution_function(self):
        """One dimension: P(x <= t) is the noise's distribution function at b(t); differentiate it numerically."""
        rate, pull = 0.8, 3.0
        bent = [HuberAt(0.2), HuberAt(-0.4)]
        x = np.linspace(-0.95, 0.95, 8)[None]  # on both sides of both kinks, never on one
        b = [np.array([[-world.gradient(t) - pull * t for t in x[0]]]) for world in bent]
        pair = ReleasePair(sent=(b[0], b[1]), clean=(b[0], b[1]), x=x, agent=0, round=1)
        lens = Lens(NoisePlan({}), tuple(world.problem for world in bent), lambda k: np.array([pull, pull]))
        found = log_ratio(ObjectiveRelease(rate=rate, **FACTS), pair, lens)

        def log_density(world, t, h=1e-5):
            # x is decreasing in b: P(x <= t) = P(b >= b(t)).
            tails = [stats.laplace.sf(-world.gradient(s) - pull * s, scale=1 / rate) for s in (t - h, t + h)]
            return np.log((tails[1] - tails[0]) / (2 * h))

        exact = [log_density(bent[0], t) - log_density(bent[1], t) for t in x[0]]
        np.testing.assert_allclose(found, exact, atol=1e-6)

    def test_determinants_are_numpys(self):
        problem = neighbours.misclassified(records=3)[0]
        x = np.random.default_rng(1).standard_normal((2, 4))
        exact = [
            np.linalg.slogdet(problem.weights[0] * problem.functions.hessian(0, x[:, r]) + 0.3 * np.eye(2))[1]
            for r in range(4)
        ]
        np.testing.assert_allclose(log_determinant(problem, 0, x, 0.3), exact, rtol=1e-12)


class HuberAt:
    """One agent's Huber record with a label near 0, so that the slope bends where the test looks."""

    def __init__(self, label):
        problem = neighbours.saturated()[0]
        silos = replace(problem.functions.silos, labels=np.array([label, 0.0]))
        self.problem = replace(problem, functions=replace(problem.functions, silos=silos))

    def gradient(self, t):
        return float(self.problem.functions.gradient(np.full((2, 1, 1), t))[0, 0, 0])


EXACT = [s for s in all_subjects(seed=3) if any(isinstance(a, LikelihoodRatio) for a in s.views.values())]


@pytest.mark.parametrize("subject", EXACT, ids=lambda s: f"{s.method}: {s.pair[:40]}")
def test_identities_of_likelihood_ratios(subject):
    """E_P[1/L] = E_Q[L] = 1 for the right L; and a pure certificate bounds |ln L| in every single run."""
    attack = next(a for a in subject.views.values() if isinstance(a, LikelihoodRatio))
    evidence = gather(subject, subject.plan(STANDARD), SimulatedSampler(11), 1500)
    scores = attack.scores(evidence)
    for values in (np.exp(-scores.p), np.exp(scores.q)):
        off = (values.mean() - 1) * np.sqrt(values.size) / values.std()
        assert abs(off) < 6
    if subject.is_pure:
        assert max(np.abs(scores.p).max(), np.abs(scores.q).max()) <= STANDARD.epsilon * (1 + 1e-6)
    assert scores.p.std() > 0.01


def test_batches_are_a_mixture_of_with_and_without_the_record():
    """DP-SGD on a saturated record among silent ones: gradients -1, +1 or nothing, with probability 1/4 each way."""
    subject = next(s for s in all_subjects() if s.method == "dp-sgd")
    plan = subject.plan(STANDARD)
    evidence = gather(subject, plan, SimulatedSampler(0), 200)
    std, exact = next(iter(plan)).noise_std, np.zeros(200)
    for event in evidence.runs[0].events:
        y = event.sent[0, 0]
        in_p, in_q = (0.75 * stats.norm.pdf(y, 0, std) + 0.25 * stats.norm.pdf(y, g, std) for g in (-1.0, 1.0))
        exact += np.log(in_p / in_q)
    assert len(evidence.runs[0].events) == subject.rounds
    np.testing.assert_allclose(subject.attack(None)[1].scores(evidence).p, exact, rtol=1e-7, atol=1e-9)


class TestReplay:
    def evidence(self):
        subject = next(s for s in all_subjects() if s.method == "r-admm")
        return gather(subject, subject.plan(STANDARD), SimulatedSampler(0), 50)

    def test_the_own_world_says_the_same_again(self):
        evidence = self.evidence()
        again = replay(evidence.stage, evidence.worlds[0], evidence.runs[0], evidence.worlds[0])
        for wire in Wire:
            assert disagreement(evidence.runs[0].traffic(wire), again.traffic(wire), 1e-9).max() == 0

    def test_the_other_world_sends_the_same_messages(self):
        """All that travels is explained by releases, so that the transcript is possible in both worlds."""
        evidence = self.evidence()
        other = replay(evidence.stage, evidence.worlds[1], evidence.runs[0], evidence.worlds[0])
        assert disagreement(evidence.runs[0].traffic(Wire.MESSAGES), other.traffic(Wire.MESSAGES), 1e-6).max() < 1e-3
        sent = [np.abs(a.sent - b.sent).max() for a, b in zip(evidence.runs[0].events, other.events, strict=True)]
        assert max(sent) > 0.1  # with different noise

    def test_another_script_is_refused(self):
        evidence = self.evidence()
        method = DVP(eta=1.0)
        stage = type(evidence.stage)(method, evidence.stage.rounds, complete(2), 50)
        with pytest.raises(InputError) as refusal:
            replay(stage, evidence.worlds[1], evidence.runs[0], evidence.worlds[0])
        assert refusal.value.setting == "script"


def test_minimiser_of_the_objective_test():
    """The map from noise to minimiser used above is the library's: b explains x."""
    world = HuberAt(0.2)
    x = brentq(lambda t: world.gradient(t) + 3.0 * t + 0.5, -5, 5)
    assert -world.gradient(x) - 3.0 * x == pytest.approx(0.5)
