"""Consensus DP-ADMM: the optimum without noise, the budget, the certificate on equal transcripts, the paper's LASSO."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from tests.contracts.certificates import by_agent
from tests.contracts.graph_method_contract import neighbours
from tests.contracts.local_facts import of

from dpadmm.core.release import PlannedNoise
from dpadmm.data import random_quadratics
from dpadmm.data.examples import logistic_table
from dpadmm.data.partition import by_sizes
from dpadmm.errors import InputError
from dpadmm.methods.base import BROADCAST, Agents, OneNoise, Setting, Silence
from dpadmm.methods.consensus import ConsensusADMM, StarState
from dpadmm.methods.consensus_dp import ConsensusDPADMM, FunctionsDiffer, LinearTermsDiffer, NoisePlace, RecordsDiffer
from dpadmm.noise.mechanisms import COORDINATOR, CaoOptimal, Family
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.accounting import PureTarget, Target, compose
from dpadmm.privacy.certificates.hidden_state import consensus_broadcast_records
from dpadmm.privacy.protection import Protection, Strength, Unit, View
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem, Weighting
from dpadmm.problems.quadratics import QuadraticAgents
from dpadmm.problems.regularisers import Box, ElasticNet, Quadratic
from dpadmm.solvers.solver import DEFAULT_TOLERANCE
from dpadmm.testing import LocalEngine, Recording, Stopping, plan_noise, run_private
from dpadmm_research.levels import at_levels
from dpadmm_research.papers.consensus import claims
from dpadmm_research.papers.consensus.planner import optimal_schedule, plan_consensus
from dpadmm_research.papers.consensus.theory import Star

PURE, MIXED = PureTarget(0.5), Target(0.5, 1e-6)
TARGETS = {Family.SPHERICAL: PURE, Family.GAUSSIAN: MIXED}
SILENT = Recording(every=0)
EXACT = LocalEngine(progress=False, threads=1, recording=SILENT, tolerance=1e-11)
VARIANTS = [(family, place) for family in TARGETS for place in NoisePlace]


def spent(target, releases):
    return compose(releases).epsilon(getattr(target, "delta", 0.0))


def logistic_problem(weighting=Weighting.POOLED, regulariser=None):
    table = logistic_table(200, 4, rng=np.random.default_rng(5)).data
    silos = table.silos(by_sizes(200, [100, 60, 30, 10], np.random.default_rng(6)))
    return table, Problem.of(EmpiricalRisk(silos, Logistic(), mu=0.05), weighting, regulariser)


def quadratic_problem(n_agents=40, dimension=4, regulariser=None, seed=0):
    agents = random_quadratics(n_agents, dimension, rng=np.random.default_rng(seed))
    return Problem.of(agents, Weighting.EQUAL, ElasticNet(l1=30.0) if regulariser is None else regulariser)


def ended(run):
    return StarState(*run.state), run.inbox


def relative_errors(method, problem, state, inbox, optimum):
    """Squared distances from the optimum relative to its squared norm, per replica.

    released: of the last broadcast. papers: of the agents' models after one more local step, never to be published.
    """
    size, target = np.sum(np.square(optimum)), optimum[:, None]
    last, _ = method.local_step(0, Agents.of(problem, None, DEFAULT_TOLERANCE, threads=1), state, inbox, Silence())
    released = np.square(inbox[0] - target).sum(axis=0) / size
    return released, np.square(last.x - target).sum(axis=1).mean(axis=0) / size


class TestWithoutNoise:
    @pytest.mark.parametrize("place", list(NoisePlace))
    def test_pooled_logistic_regression(self, place):
        table, problem = logistic_problem()
        model = LogisticRegression(C=1 / (200 * 0.05), fit_intercept=False, tol=1e-12, solver="newton-cholesky")
        run = EXACT.run(ConsensusDPADMM(0.05, place=place), problem, Stopping(rounds=150))
        np.testing.assert_allclose(run.estimate, model.fit(table.features, table.labels).coef_.T, atol=1e-6)

    @pytest.mark.parametrize(
        "regulariser", [ElasticNet(l1=30.0), Box([-9.0, -60.0, -60.0, -60.0], 5.0), ElasticNet(l2=10.0)], ids=repr
    )
    def test_quadratics_log_linearly(self, regulariser):
        problem = quadratic_problem(regulariser=regulariser)
        method = ConsensusDPADMM(2.0, FunctionsDiffer(1.0))
        errors = []
        optimum = EXACT.run(ConsensusADMM(1.5), problem, Stopping(rounds=400)).estimate[:, 0]
        assert problem.optimality(optimum[:, None])[0] < 1e-8
        for rounds in (5, 10, 15, 20, 25):
            run = EXACT.run(method, problem, Stopping(rounds=rounds))
            errors.append(np.linalg.norm(run.estimate[:, 0] - optimum))
        star = Star(n_agents=40, dimension=4, rho=2.0, strong_convexity=1.0, smoothness=2.0)
        assert (np.diff(np.log(errors)) <= 5 * np.log(star.contraction) + 0.2).all()
        assert np.linalg.norm(run.estimate[:, 0] - optimum) <= 1e-3

    def test_the_same_as_the_bare_method(self):
        problem = quadratic_problem()
        bare = EXACT.run(ConsensusADMM(2.0), problem, Stopping(rounds=7))
        for place in NoisePlace:
            run = EXACT.run(ConsensusDPADMM(2.0, place=place), problem, Stopping(rounds=7))
            np.testing.assert_array_equal(run.estimate, bare.estimate)
            np.testing.assert_array_equal(run.models, np.broadcast_to(bare.estimate, run.models.shape))


class TestBudget:
    @pytest.mark.parametrize(("family", "place"), VARIANTS)
    @pytest.mark.parametrize("neighbour", [FunctionsDiffer(0.7), LinearTermsDiffer(0.7)], ids=repr)
    def test_functions(self, family, place, neighbour):
        problem, target = quadratic_problem(), TARGETS[family]
        method = ConsensusDPADMM(2.0, neighbour, family, place)
        facts = Setting(problem, 9, 1e-9)
        for schedule in (None, CaoOptimal(0.4), optimal_schedule(method, 9, facts)):
            plan = plan_noise(method, problem, 9, target, schedule=schedule)
            releases = list(plan)
            assert [(r.agent, r.round) for r in releases] == [(COORDINATOR, k) for k in range(1, 10)]
            assert {(r.certificate.protection.unit, r.certificate.protection.view) for r in releases} == {
                (Unit.FUNCTION, View.PUBLIC)
            }
            assert target.epsilon * (1 - 1e-6) <= spent(target, releases) <= target.epsilon
            assert list(by_agent(plan)) == [COORDINATOR]
        texts = " ".join(plan.account().assumptions)
        assert ("not protected" in texts) == (neighbour == LinearTermsDiffer(0.7))

    @pytest.mark.parametrize(("family", "place"), VARIANTS)
    @pytest.mark.parametrize("weighting", list(Weighting))
    @pytest.mark.parametrize(("records", "silos"), [(1, 1), (3, 1), (2, 3)])
    def test_records(self, family, place, weighting, records, silos):
        _, problem = logistic_problem(weighting)
        target = TARGETS[family]
        method = ConsensusDPADMM(0.3, RecordsDiffer(), family, place)
        protection = Protection(view=View.PUBLIC, records_per_person=records, silos_per_person=silos)
        plan = plan_noise(method, problem, 6, target, protection=protection)
        assert target.epsilon * (1 - 1e-6) <= spent(target, plan) <= target.epsilon
        account = plan.account()
        assert account.curve.epsilon(getattr(target, "delta", 0.0)) == pytest.approx(target.epsilon, rel=1e-6)
        assert account.protection == protection
        strength = Strength.UP_TO_FLOATING_POINT if family is Family.SPHERICAL else Strength.FULL
        assert account.strength is strength

    def test_the_worst_silo_counts_and_silos_add_up(self):
        _, problem = logistic_problem(Weighting.EQUAL)
        mechanism = ConsensusDPADMM(0.3).mechanisms(Setting(problem, 4, 1e-9))[0]
        by_hand = of(consensus_broadcast_records,
            rounds=4, gradient_bound=1.0, n_records=10, n_agents=4, penalty=0.3, strong_convexity=0.05,
            smoothness=0.3, solver_tolerance=1e-9,
        )  # fmt: skip
        bounds = [c.bound for c in mechanism.rows[0].certificates]
        assert bounds == pytest.approx([c.bound for c in by_hand], rel=1e-12)
        thrice = ConsensusDPADMM(0.3).mechanisms(Setting(problem, 4, 1e-9, protection=Protection(silos_per_person=3)))[
            0
        ]
        assert [c.bound for c in thrice.rows[0].certificates] == pytest.approx([3 * b for b in bounds], rel=1e-12)


class Prescribed(OneNoise):
    """Overwrites every broadcast with a prescribed one, other in every replica, and keeps what came."""

    def __init__(self, transcript):
        self.transcript, self.came = transcript, {}

    def perturb(self, kind, k, agents, values):
        assert kind == BROADCAST
        assert agents.tolist() == [COORDINATOR]
        self.came[k] = values.copy()
        return self.transcript[k - 1]


def worst_ratios(method, pair, transcript):
    """Return the largest distance of values before noise over the bound, per round, on one transcript (K, 1, d, R)."""
    rounds, tries = transcript.shape[0], transcript.shape[-1]
    engine = LocalEngine(replicas=tries, progress=False, threads=1, recording=SILENT, tolerance=1e-10)
    hooks = [Prescribed(transcript) for _ in pair]
    for problem, hook in zip(pair, hooks, strict=True):
        engine.run(method, problem, Stopping(rounds=rounds), noise=hook)
    row = method.mechanisms(Setting(pair[0], rounds, engine.tolerance))[0].rows[0]
    assert list(hooks[0].came) == list(row.rounds)
    moved = [np.linalg.norm(hooks[0].came[k] - hooks[1].came[k], axis=1).max() for k in row.rounds]
    return np.array(moved) / [certificate.bound for certificate in row.certificates]


class TestSameTranscript:
    """Neighbouring data, the same broadcasts: what the coordinator is about to send stays within C3."""

    @pytest.mark.parametrize("place", list(NoisePlace))
    def test_records(self, place):
        worst, rng = 0.0, np.random.default_rng(1)
        for t in range(18):
            weighting = list(Weighting)[t % 3]
            pair = neighbours(rng, sizes=(1 + t % 3, 3, 4), weighting=weighting, mu=float(rng.choice([0.0, 0.01, 0.3])))
            pair = [Problem(p.functions, p.weights, [ElasticNet(l2=0.0), ElasticNet(l1=1e-3)][t % 2]) for p in pair]
            method = ConsensusDPADMM(pair[0].weights[0] * 10.0 ** rng.uniform(-1.5, 1), place=place)
            size = 10.0 ** rng.uniform(0, 3, 40)
            transcript = rng.standard_normal((5, 1, 3, 40)) - size * np.eye(3)[0][:, None]
            ratios = worst_ratios(method, pair, transcript)
            assert ratios.max() <= 1 + 1e-9
            worst = max(worst, ratios.max())
        assert worst >= 0.75  # else a bound half as large would pass as well

    @pytest.mark.parametrize("place", list(NoisePlace))
    @pytest.mark.parametrize("curvature", [0.3, 1.0, 3.0])
    def test_linear_terms_reach_their_bound(self, place, curvature):
        """No g: the prox is the identity. One agent's linear term moves along an eigenvector of the worst curvature."""
        rng = np.random.default_rng(2)
        matrices = np.stack([np.diag([curvature, 1.5]), np.eye(2), 2 * np.eye(2)])
        slopes, move = rng.standard_normal((3, 2)), np.zeros((3, 2))
        move[0, 0] = 0.8
        pair = [
            Problem.of(QuadraticAgents(matrices, own, (0.3, 3.0)), Weighting.EQUAL, ElasticNet(l2=0.0))
            for own in (slopes, slopes + move)
        ]
        transcript = 10 * rng.standard_normal((8, 1, 2, 5))
        exact = worst_ratios(ConsensusDPADMM(2.0, LinearTermsDiffer(0.8), place=place), pair, transcript)
        general = worst_ratios(ConsensusDPADMM(2.0, FunctionsDiffer(0.8), place=place), pair, transcript)
        assert exact.max() <= 1 + 1e-9
        assert (general <= exact * (1 + 1e-9)).all()
        if curvature == 0.3:  # the least curvature is the worst at first
            assert exact[0] == pytest.approx(1.0, rel=1e-6)
            assert general[0] == pytest.approx(1.0, rel=1e-6)
        assert exact[-1] >= 0.9

    def test_the_prox_does_not_expand(self):
        rng = np.random.default_rng(3)
        agents = random_quadratics(5, 3, rng=rng, slope_range=(-3.0, 3.0))
        moved = agents.slopes.copy()
        moved[2] += 0.8 * np.array([0.6, -0.8, 0.0])
        other = QuadraticAgents(agents.curvatures, moved, agents.bounds)
        for g in (ElasticNet(l1=1.0), Box(-0.5, 0.5), Quadratic(np.diag([0.0, 1.0, 5.0]), np.ones(3))):
            pair = [Problem.of(functions, Weighting.EQUAL, g) for functions in (agents, other)]
            ratios = worst_ratios(
                ConsensusDPADMM(2.0, LinearTermsDiffer(0.8)), pair, rng.standard_normal((8, 1, 3, 50))
            )
            assert ratios.max() <= 1 + 1e-9


class TestPlaces:
    def test_noise_before_the_prox_keeps_zeros_and_walls(self):
        rng = np.random.default_rng(0)
        slopes = np.c_[rng.uniform(5, 10, 40), rng.uniform(-0.5, 0.5, 40), rng.uniform(-9, -5, 40)]
        agents = QuadraticAgents(np.tile(np.eye(3), (40, 1, 1)), slopes)
        for g, keeps in (
            (ElasticNet(l1=60.0), lambda x: x[1] == 0),
            (Box(-1.0, 1.0), lambda x: np.abs(x).max(axis=0) <= 1),
        ):
            problem = Problem.of(agents, Weighting.EQUAL, g)
            for place in NoisePlace:
                method = ConsensusDPADMM(2.0, LinearTermsDiffer(1.0), place=place)
                engine = LocalEngine(replicas=30, progress=False, threads=1, recording=SILENT)
                done = run_private(method, problem, 10, PureTarget(2.0), SimulatedSampler(seed=1), engine=engine)
                share = np.mean(keeps(done.run.inbox[0]))  # as it was broadcast
                assert share > 0.9 if place is NoisePlace.BEFORE_PROX else share < 0.6


class TestRuns:
    def test_both_errors_by_hand(self):
        problem, optimum = quadratic_problem(), np.array([1.0, -2.0, 0.5, 3.0])
        method = ConsensusDPADMM(2.0)
        run = EXACT.run(method, problem, Stopping(rounds=3))
        after = EXACT.run(ConsensusADMM(2.0), problem, Stopping(rounds=4))
        released, papers = relative_errors(method, problem, *ended(run), optimum)
        assert released[0] == pytest.approx(np.sum((run.estimate[:, 0] - optimum) ** 2) / 14.25)
        by_hand = np.sum((after.models[:, :, 0] - optimum) ** 2) / (40 * 14.25)
        assert papers[0] == pytest.approx(by_hand, rel=1e-12)


@pytest.fixture(scope="module")
def lasso():
    problem = quadratic_problem(10_000, 5, ElasticNet(l1=100.0))
    engine = LocalEngine(progress=False, recording=SILENT)
    optimum = engine.run(ConsensusADMM(1.5), problem, Stopping(rounds=80)).estimate[:, 0]
    assert problem.optimality(optimum[:, None])[0] < 1e-5
    return problem, optimum


class TestPaper:
    """The multi-agent LASSO of the paper: 10^4 agents, d = 5, tau = 1, L = 2, rho = 5, l1 weight 100, delta = 1."""

    EPSILON, RHO, REPLICAS = 0.1, 5.0, 20
    STAR = Star(n_agents=10_000, dimension=5, rho=5.0, strong_convexity=1.0, smoothness=2.0)

    def errors(self, lasso, method, plan, rounds):
        engine = LocalEngine(replicas=self.REPLICAS, progress=False, recording=SILENT)
        noise = PlannedNoise(plan, SimulatedSampler(seed=3), self.REPLICAS)
        run = engine.run(method, lasso[0], Stopping(rounds=rounds), noise=noise)
        return relative_errors(method, lasso[0], *ended(run), lasso[1])

    @pytest.mark.parametrize(("neighbour", "reached"), [(FunctionsDiffer(1.0), 1e-6), (LinearTermsDiffer(1.0), 3e-7)])
    def test_certified_noise(self, lasso, neighbour, reached):
        method = ConsensusDPADMM(self.RHO, neighbour)
        schedule = optimal_schedule(method, 32, Setting(lasso[0], 32, 1e-9))
        plan = plan_noise(method, lasso[0], 32, PureTarget(self.EPSILON), schedule=schedule)
        assert spent(PureTarget(0.1), plan) == pytest.approx(0.1, rel=1e-6)
        released, _ = self.errors(lasso, method, plan, 32)
        assert released.max() <= 2e-6
        assert released.mean() <= reached

    def test_planned_penalty(self, lasso):
        facts = Setting(lasso[0], 1, 1e-9)
        plan = plan_consensus(facts, FunctionsDiffer(1.0), PureTarget(0.1), radius=45.0, gradient_radius=50.0)
        noise = plan_noise(plan.method, lasso[0], plan.rounds, PureTarget(0.1), schedule=plan.schedule)
        released = self.errors(lasso, plan.method, noise, plan.rounds)[0].mean()
        assert released <= 2e-7
        assert released * np.sum(lasso[1] ** 2) <= plan.bound.value

    def test_claimed_noise(self, lasso):
        """Schedule (21) with the paper's H: error of order 1e-2 near K = 9, and 200 times less epsilon than claimed."""
        sensitivity = claims.lemma_3_sensitivity(
            agents=10_000, rho=self.RHO, strong_convexity=1.0, smoothness=2.0, gradient_distance=1.0,
            subgradient_gap=claims.l1_subgradient_gap(100.0, 5),
        )  # fmt: skip
        method, found = ConsensusDPADMM(self.RHO, FunctionsDiffer(1.0)), {}
        for iterations in (4, 9, 20):
            beta = self.STAR.largest_beta
            claimed = claims.theorem_3_schedule(sensitivity, epsilon=self.EPSILON, rounds=iterations, beta=beta)
            plan = at_levels(method.mechanisms(Setting(lasso[0], iterations - 1, 1e-9)), [claimed.values])
            assert spent(PureTarget(0.1), plan) < 0.1 / 190
            found[iterations] = self.errors(lasso, method, plan, iterations - 1)[1].mean()
        assert 8e-3 <= found[9] <= 3e-2
        assert found[4] > 3 * found[9]
        assert found[20] > 1.2 * found[9]


class TestRefusals:
    def test_levels_that_do_not_fit(self):
        mechanisms = ConsensusDPADMM(1.0, FunctionsDiffer(1.0)).mechanisms(Setting(quadratic_problem(), 3, 1e-9))
        for levels, match in (([[1.0, 1.0]], "3 rounds"), ([[1.0, 0.0, 1.0]], "greater than 0"), ([], "as many")):
            with pytest.raises(InputError, match=match):
                at_levels(mechanisms, levels)
