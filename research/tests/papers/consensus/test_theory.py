"""The bounds of consensus DP-ADMM: closed forms by hand, brute force, and runs that must stay below them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from dpadmm.core.release import PlannedNoise
from dpadmm.data import random_quadratics
from dpadmm.methods.base import Setting
from dpadmm.methods.consensus import ConsensusADMM, StarState
from dpadmm.methods.consensus_dp import ConsensusDPADMM, FunctionsDiffer, LinearTermsDiffer, NoisePlace
from dpadmm.noise.mechanisms import Family
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.accounting import PureTarget, Target
from dpadmm.problems.problem import Problem, Weighting
from dpadmm.problems.quadratics import QuadraticAgents
from dpadmm.problems.regularisers import Box, ElasticNet
from dpadmm.testing import LocalEngine, Recording, Stopping, plan_noise
from dpadmm_research.claims.bounds import NotApplicable, Version
from dpadmm_research.levels import at_levels
from dpadmm_research.papers.consensus import claims
from dpadmm_research.papers.consensus.planner import noise_weights, optimal_schedule, plan_consensus
from dpadmm_research.papers.consensus.theory import (
    Star,
    gaussian_energy,
    laplace_energy,
    optimal_rounds,
    papers_relative_error,
    released_error,
    theorem_2,
    theorem_2_in_squares,
    theorem_3,
)

PAPER = Star(n_agents=10_000, dimension=5, rho=5.0, strong_convexity=1.0, smoothness=2.0)
H = 9.24427191e-3


def quadratic_setting(n_agents, dimension, low, high):
    curvatures = np.tile(high * np.eye(dimension), (n_agents, 1, 1))
    agents = QuadraticAgents(curvatures, np.zeros((n_agents, dimension)), bounds=(low, high))
    return Setting(Problem.of(agents, Weighting.EQUAL), 1, 0.0)


FACTS = quadratic_setting(10_000, 5, 1.0, 2.0)
moderate = settings(deadline=None, derandomize=True, max_examples=40)


class TestConstants:
    def test_largest_beta_by_hand_and_by_search(self):
        assert PAPER.largest_beta == pytest.approx(10 / 27, rel=1e-14)

        def least(theta):
            return -min(2 * theta * 1.0 / 5.0, 2 * 5.0 * (1 - theta) / 2.0)

        found = optimize.minimize_scalar(least, bounds=(0, 1), method="bounded", options={"xatol": 1e-12})
        assert PAPER.largest_beta == pytest.approx(-found.fun, rel=1e-6)
        assert found.x == pytest.approx(25 / 27, rel=1e-6)

    def test_contraction_by_hand(self):
        assert PAPER.reflection == pytest.approx(2 / 3)
        assert PAPER.contraction == pytest.approx(5 / 6)

    def test_initial_potential_by_hand(self):
        assert PAPER.initial_potential(2.0, 3.0) == pytest.approx(10_000 * (9 / 10 + 10))

    def test_energies(self):
        assert (laplace_energy(2.0, 5), gaussian_energy(2.0, 5)) == (7.5, 20.0)


class TestPrinted:
    def test_theorem_2_by_hand(self):
        # 1 + beta = 16, q = 2, K = 3, N rho d(d+1) = 4 * 9 * 2 = 72, sqrt(pi0) = 64, alpha = 1, 2:
        # 64/4^3 + 4 sqrt(72)/4^5 (4^2/1 + 4^3/2) = 1 + 4 * 8.485281374 * 48/1024
        star = Star(n_agents=4, dimension=1, rho=9.0, strong_convexity=1.0, smoothness=2.0)
        bound = theorem_2(star, 4096.0, [1.0, 2.0], beta=15.0)
        assert bound.value == pytest.approx(1 + 4 * math.sqrt(72) * 48 / 1024, rel=1e-12)
        assert bound.version is Version.PRINTED

    @pytest.mark.parametrize("rounds", [2, 5, 30])
    def test_only_the_corrected_equation_22_is_19_with_the_schedule_21(self, rounds):
        beta, potential, epsilon = PAPER.largest_beta, 1e7, 0.1
        sensitivity = claims.lemma_3_sensitivity(
            agents=10_000, rho=5.0, strong_convexity=1.0, smoothness=2.0, gradient_distance=1.0,
            subgradient_gap=claims.l1_subgradient_gap(100.0, 5),
        )  # fmt: skip
        rates = claims.theorem_3_schedule(sensitivity, epsilon=epsilon, rounds=rounds, beta=beta).values
        inserted = theorem_2(PAPER, potential, rates, beta).value
        start = math.sqrt(potential) / (1 + beta) ** (rounds / 2)
        values = {
            version: theorem_3(PAPER, potential, sensitivity.value, epsilon, rounds, beta, version).value
            for version in Version
        }
        assert values[Version.CORRECTED] == pytest.approx(inserted, rel=1e-10)
        q = (1 + beta) ** 0.25
        assert values[Version.PRINTED] - start == pytest.approx((q - 1) * (inserted - start), rel=1e-9)

    @moderate
    @given(st.floats(1e-2, 1e9), st.floats(1e-3, 10.0), st.floats(0.02, 3.0), st.sampled_from(Version))
    def test_optimal_rounds_by_brute_force(self, potential, epsilon, beta, version):
        def bound(rounds):
            return theorem_3(PAPER, potential, H, epsilon, rounds, beta, version).value

        found = optimal_rounds(PAPER, potential, H, epsilon, beta, version)
        assert bound(found) == pytest.approx(min(bound(k) for k in range(2, found + 40)), rel=1e-12)

    def test_optimal_rounds_in_the_papers_setting(self):
        """||x*|| = 56.2 and Lambda = 65 with the data of Fig. 2(a): 13 as printed."""
        potential = PAPER.initial_potential(56.2, 65.0)
        assert optimal_rounds(PAPER, potential, H, 0.1, PAPER.largest_beta, Version.PRINTED) == 13
        assert optimal_rounds(PAPER, potential, H, 0.1, PAPER.largest_beta, Version.CORRECTED) == 3

    def test_not_applicable_below_twice_the_smoothness(self):
        star = Star(n_agents=10, dimension=2, rho=4.0, strong_convexity=1.0, smoothness=2.0)
        for found in (theorem_2(star, 1.0, [1.0], 0.1), theorem_3(star, 1.0, 1.0, 1.0, 5, 0.1, Version.PRINTED)):
            assert isinstance(found, NotApplicable)
            assert "rho > 2L = 4" in str(found)

    def test_papers_relative_error_by_hand(self):
        assert papers_relative_error(PAPER, 100.0, 2.0) == pytest.approx(200 / (5 * 10_000 * 4))


class TestAgainstRuns:
    """Means over many noisy runs, against the bounds; their standard errors are about 3 %, so 20 % is six of them."""

    REPLICAS = 600

    def measured(self, problem, rho, levels, place, optimum):
        method = ConsensusDPADMM(rho, FunctionsDiffer(1.0), Family.GAUSSIAN, place)
        engine = LocalEngine(replicas=self.REPLICAS, progress=False, threads=1, recording=Recording(every=0))
        plan = at_levels(method.mechanisms(Setting(problem, len(levels), 1e-9)), [levels])
        run = engine.run(
            method,
            problem,
            Stopping(rounds=len(levels)),
            noise=PlannedNoise(plan, SimulatedSampler(seed=1), self.REPLICAS),
        )
        state, target = StarState(*run.state), optimum[:, None]
        duals = -problem.functions.gradient(target[None])
        potential = ((state.a - duals) ** 2).sum(axis=(0, 1)) / (2 * rho)
        potential += rho / 2 * ((state.x - target) ** 2).sum(axis=(0, 1))
        return potential.mean(), ((run.estimate - target) ** 2).sum(axis=0).mean()

    @pytest.mark.parametrize("regulariser", [ElasticNet(), ElasticNet(l1=8.0), Box(-0.7, 0.6)], ids=repr)
    @pytest.mark.parametrize("place", list(NoisePlace))
    @pytest.mark.parametrize("rho", [0.6, 1.5, 6.0])
    def test_bounds_hold(self, regulariser, place, rho):
        agents = random_quadratics(12, 3, rng=np.random.default_rng(0), slope_range=(-4.0, 4.0))
        problem = Problem.of(agents, Weighting.EQUAL, regulariser)
        quiet = LocalEngine(progress=False, threads=1, recording=Recording(every=0))
        optimum = quiet.run(ConsensusADMM(1.5), problem, Stopping(rounds=300)).estimate[:, 0]
        star = Star(n_agents=12, dimension=3, rho=rho, strong_convexity=1.0, smoothness=2.0)
        slope = float(np.sqrt((agents.gradient(optimum[None, :, None]) ** 2).sum(axis=1).mean()))
        radius = float(np.linalg.norm(optimum))
        levels = np.linspace(0.6, 0.2, 9)
        potential, released = self.measured(problem, rho, levels, place, optimum)
        energies = [gaussian_energy(float(s), 3) for s in levels]
        # The state after K rounds has heard K - 1 noisy broadcasts: the paper's K iterations.
        start = star.initial_potential(radius, slope)
        squares = theorem_2_in_squares(star, start, energies[:-1], star.largest_beta, place)
        assert potential <= squares.value * 1.2
        assert released <= released_error(star, radius + slope / rho, energies, place).value * 1.2
        if place is NoisePlace.AFTER_PROX and rho > 4:
            rates = [math.sqrt(12 / e) for e in energies[:-1]]  # the spherical rates with the same energy
            printed = theorem_2(star, start, rates, star.largest_beta)
            assert squares.value < printed.value**2

    def test_bounds_are_nearly_reached(self):
        """Equal curvature and no regulariser: a bound half as large would fail."""
        agents = QuadraticAgents(np.tile(np.eye(2), (6, 1, 1)), np.zeros((6, 2)))
        problem = Problem.of(agents, Weighting.EQUAL)
        levels = np.full(25, 0.5)
        energies = [gaussian_energy(0.5, 2)] * 25
        star = Star(n_agents=6, dimension=2, rho=1.0, strong_convexity=1.0, smoothness=1.0)
        potential, released = self.measured(problem, 1.0, levels, NoisePlace.AFTER_PROX, np.zeros(2))
        squares = theorem_2_in_squares(star, 0.0, energies[:-1], star.largest_beta).value
        assert 0.55 * squares <= potential <= squares
        assert released_error(star, 0.0, energies).value == pytest.approx(released, rel=0.15)
        star = Star(n_agents=6, dimension=2, rho=8.0, strong_convexity=1.0, smoothness=1.0)
        _, released = self.measured(problem, 8.0, levels, NoisePlace.AFTER_PROX, np.zeros(2))
        bound = released_error(star, 0.0, energies).value
        assert 0.6 * bound <= released <= bound * 1.2


class TestPlanner:
    def test_the_schedule_is_the_best_one(self):
        """Random schedules at the same budget never have a smaller bound."""
        rng = np.random.default_rng(0)
        for family, target in ((Family.SPHERICAL, PureTarget(0.5)), (Family.GAUSSIAN, Target(0.5, 1e-6))):
            method = ConsensusDPADMM(3.0, FunctionsDiffer(1.0), family)
            star = Star(n_agents=10_000, dimension=5, rho=3.0, strong_convexity=1.0, smoothness=2.0)
            problem = Problem.of(random_quadratics(20, 5, rng=rng), Weighting.EQUAL)
            small = Setting(problem, 12, 1e-9)
            shape = optimal_schedule(method, 12, small)

            def bound(schedule, method=method, problem=problem, target=target, star=star):
                plan = list(plan_noise(method, problem, 12, target, schedule=schedule))
                energy = [
                    laplace_energy(r.rate, 5) if hasattr(r, "rate") else gaussian_energy(r.noise_std, 5) for r in plan
                ]
                return released_error(star, 0.0, energy).value

            best = bound(shape)
            for _ in range(20):
                other = type(shape)(tuple(np.array(shape.values) * rng.uniform(0.8, 1.25, 12)))
                assert bound(other) >= best * (1 - 1e-12)

    def test_weights_are_those_of_the_bound(self):
        weights = noise_weights(PAPER, 7)
        for k in range(7):
            energies = [float(j == k) for j in range(7)]
            assert released_error(PAPER, 0.0, energies).value == pytest.approx(weights[k], rel=1e-12)

    @pytest.mark.parametrize("target", [PureTarget(0.1), Target(0.1, 1e-6)], ids=repr)
    def test_no_penalty_or_number_of_rounds_does_better(self, target):
        known = {"radius": 45.0, "gradient_radius": 50.0}
        plan = plan_consensus(FACTS, LinearTermsDiffer(1.0), target, slack=0.0, **known)
        for rho in (0.5, 1.0, 2.0, 5.0, 20.0):
            for most in (5, 15, 40):
                other = plan_consensus(
                    FACTS, LinearTermsDiffer(1.0), target, penalties=[rho], most_rounds=most, **known
                )
                assert other.bound.value >= plan.bound.value * (1 - 1e-3)
        few = plan_consensus(FACTS, LinearTermsDiffer(1.0), target, slack=0.3, **known)
        assert few.rounds < plan.rounds
        assert few.bound.value <= 1.3 * plan.bound.value

    def test_more_budget_never_hurts(self):
        values = [
            plan_consensus(FACTS, FunctionsDiffer(1.0), PureTarget(e), radius=45.0, gradient_radius=50.0).bound.value
            for e in (0.01, 0.1, 1.0)
        ]
        assert values[0] > values[1] > values[2]

    def test_the_bound_is_that_of_the_planned_noise(self):
        problem = Problem.of(random_quadratics(200, 5, rng=np.random.default_rng(0)), Weighting.EQUAL)
        facts = Setting(problem, 1, 1e-9)
        plan = plan_consensus(facts, FunctionsDiffer(1.0), PureTarget(1.0), radius=45.0, gradient_radius=50.0)
        star = Star(n_agents=200, dimension=5, rho=plan.method.rho, strong_convexity=1.0, smoothness=2.0)
        noise = plan_noise(plan.method, problem, plan.rounds, PureTarget(1.0), schedule=plan.schedule)
        energies = [laplace_energy(release.rate, 5) for release in noise]
        expected = released_error(star, 45.0 + 50.0 / plan.method.rho, energies).value
        assert plan.bound.value == pytest.approx(expected, rel=1e-9)
