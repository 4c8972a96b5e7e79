"""PS-ADMM: optimum without noise, budgets, neighbours on the same transcript, batches of agents, bad input."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.contracts.certificates import by_agent
from tests.methods.silos import MU, Transcript, check_log_linear, neighbours

from dpadmm.methods.base import Agents, Setting, Silence
from dpadmm.methods.batches import Batches, BatchKind
from dpadmm.methods.ps_admm import (
    CORRECTION,
    FULL,
    PSADMM,
    Averaging,
    FullNoise,
    Output,
    PSState,
)
from dpadmm.noise.mechanisms import MessageKind
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import Strength
from dpadmm.privacy.releases import GaussianRelease, SampledGaussianRelease
from dpadmm.problems.losses import Huber, Logistic
from dpadmm.problems.problem import Problem
from dpadmm.problems.regularisers import Box, ElasticNet
from dpadmm.testing import LocalEngine, Recording, Stopping, plan_noise
from dpadmm_research.papers.ps_admm.theory import criterion

DELTA = 1e-5
QUIET = LocalEngine(progress=False, threads=1, recording=Recording(every=0))


def method(**changes):
    chosen = {"rho": 0.05, "step": 2.0, "inner_steps": 8, "batches": Batches(10, seed=1), **changes}
    return PSADMM(**chosen)


class TestWithoutNoise:
    @pytest.mark.parametrize("averaging", list(Averaging))
    @pytest.mark.parametrize("kind", list(BatchKind))
    @pytest.mark.parametrize("full_noise", list(FullNoise))
    def test_reaches_the_pooled_optimum(self, problem, optimum, averaging, kind, full_noise):
        chosen = method(averaging=averaging, full_noise=full_noise, batches=Batches(10, seed=1, kind=kind))
        run = replace(QUIET, replicas=2).run(chosen, problem, Stopping(rounds=80))
        np.testing.assert_allclose(run.estimate, np.repeat(optimum, 2, axis=1), atol=1e-6)
        np.testing.assert_allclose(run.models, np.broadcast_to(run.estimate, run.models.shape), atol=1e-6)

    def test_single_records_as_in_the_paper(self, problem, optimum):
        run = QUIET.run(method(step=1.0, batches=Batches(1, seed=2), inner_steps=20), problem, Stopping(rounds=150))
        np.testing.assert_allclose(run.estimate, optimum, atol=1e-6)

    def test_error_falls_log_linearly(self, problem):
        best = QUIET.run(method(), problem, Stopping(rounds=300)).estimate
        engine = replace(QUIET, recording=Recording(every=5))
        run = engine.run(method(), problem, Stopping(rounds=80))
        gaps = run.history.objective[:, 0] - problem.objective(best)[0]
        check_log_linear(run.history.rounds, gaps, 0.9)

    def test_l1_and_a_constraint(self, problem):
        sparse_problem = replace(problem, regulariser=ElasticNet(l1=0.02))
        run = QUIET.run(method(), sparse_problem, Stopping(rounds=200))
        assert sparse_problem.optimality(run.estimate)[0] < 1e-7
        walls = (-0.05, 0.1)
        inside = QUIET.run(method(constraint=Box(*walls)), sparse_problem, Stopping(rounds=300))

        def objective(parts):  # x = p - q with 0 <= p <= 0.1, 0 <= q <= 0.05
            x = (parts[:6] - parts[6:])[:, None]
            slope = problem.gradient(x)[:, 0]
            return problem.objective(x)[0] + 0.02 * parts.sum(), np.concatenate([slope, -slope]) + 0.02

        bounds = [(0, walls[1])] * 6 + [(0, -walls[0])] * 6
        options = {"ftol": 1e-16, "gtol": 1e-12, "maxiter": 1000}
        found = minimize(objective, np.zeros(12), jac=True, bounds=bounds, method="L-BFGS-B", options=options)
        np.testing.assert_allclose(inside.estimate[:, 0], found.x[:6] - found.x[6:], atol=1e-6)
        assert np.abs(run.estimate).max() > walls[1]

    def test_averages_of_the_rounds(self, problem):
        history, chosen = [], method()
        agents, noise = Agents.of(problem, None, 1e-9, 1), Silence()
        state, inbox = chosen.start(agents, 2)
        for k in range(1, 6):
            state, messages = chosen.local_step(k, agents, state, inbox, noise)
            inbox = chosen.exchange(k, problem, None, inbox, messages, noise)
            state = chosen.update(k, agents, state, inbox)
            history.append((state.x, inbox[0]))
        averaged = replace(chosen, output=Output.AVERAGE)
        run = replace(QUIET, replicas=2).run(averaged, problem, Stopping(rounds=5))
        np.testing.assert_allclose(run.models, np.mean([x for x, _ in history], axis=0), atol=1e-14)
        np.testing.assert_allclose(run.estimate, np.mean([z for _, z in history], axis=0), atol=1e-14)

    def test_one_round_by_hand(self, problem):
        """Algorithm 2, agent 0, batches of everyone: the correction is then the exact change of the gradient."""
        n, S, step, rho = 120, 3, 1.0, 0.2
        chosen = method(rho=rho, step=step, inner_steps=S, batches=Batches(n, seed=0))
        agents = Agents.of(problem, None, 1e-9, 1).alone(0, 1e-9)
        rng = np.random.default_rng(0)
        x, a, z = (rng.standard_normal((1, 6, 1)) for _ in range(3))
        state, message = chosen.local_step(1, agents, PSState(x, a, x, x), z, Silence())
        w = problem.weights[0]
        c = 2 / (1 - 2 * step * (w * (0.25 + MU) + rho))
        v, hats = x, []
        for _ in range(S):
            new = v - step * (w * agents.functions.gradient(v) + a + rho * (v - z))
            hats.append((1 - c) * v + c * new)
            v = new
        np.testing.assert_allclose(state.x, np.mean(hats, axis=0), atol=1e-12)
        np.testing.assert_allclose(message, state.x + a / rho, atol=1e-14)

    def test_criterion_nine(self, problem, optimum):
        best = float(problem.objective(optimum)[0])
        models = np.repeat(optimum[None], 4, axis=0)
        assert abs(criterion(problem, models, optimum, best, tau=2.0)[0]) < 1e-12
        away = models + np.array([3.0, 0, 0, 0, 0, 4.0])[None, :, None]
        value = criterion(problem, away, optimum, best, tau=2.0)[0]
        assert value == pytest.approx(problem.weights @ problem.functions.value(away)[:, 0] - best + 2.0 * 4 * 5.0)


class TestBudget:
    @pytest.mark.parametrize("kind", list(BatchKind))
    @pytest.mark.parametrize("full_noise", list(FullNoise))
    def test_plan_spends_the_target_for_every_agent(self, problem, kind, full_noise):
        target = Target(1.0, DELTA)
        chosen = method(batches=Batches(10, seed=1, kind=kind), full_noise=full_noise)
        plan = plan_noise(chosen, problem, 5, target)
        for curve in by_agent(plan).values():
            assert target.epsilon * (1 - 1.001e-3) <= curve.epsilon(DELTA) <= target.epsilon
        assert plan.account().curve.epsilon(DELTA) <= target.epsilon
        assert plan.account().strength is Strength.UP_TO_FLOATING_POINT
        assert plan.account().theorems == ("C4 (full gradient)", "C4 (sampled correction)")
        kinds = {type(release) for release in plan}
        assert kinds == {GaussianRelease, SampledGaussianRelease}
        counts = {type(release): release.count for release in plan}
        assert counts == {GaussianRelease: 8 if full_noise is FullNoise.EVERY_STEP else 1, SampledGaussianRelease: 7}

    def test_a_single_inner_step_releases_the_full_gradient_only(self, problem):
        plan = plan_noise(method(inner_steps=1), problem, 5, Target(1.0, DELTA))
        assert {type(release) for release in plan} == {GaussianRelease}
        assert plan.account().curve.epsilon(DELTA) == pytest.approx(1.0, rel=1e-6)

    def test_noise_once_a_round_is_equal_for_the_average(self, problem):
        """S^2 s1^2 once against S s1^2 in every step: the same variance of the sum over the steps."""
        levels, alone = [], Problem.of(problem.functions.take(np.array([0])))
        for full_noise in FullNoise:
            plan = plan_noise(method(step=1.0, full_noise=full_noise), alone, 5, Target(1.0, DELTA))
            first, second = (plan.of(MessageKind(name), 1, np.array([0]))[0].noise_std for name in (FULL, CORRECTION))
            levels.append((first, second))
        every, once = levels
        assert once[0] * math.sqrt(8) == pytest.approx(every[0], rel=0.02)
        assert once[1] == pytest.approx(every[1], rel=0.02)


class TestSameTranscript:
    @pytest.mark.parametrize("loss", [Logistic(), Huber(1.0)], ids=lambda v: type(v).__name__)
    @pytest.mark.parametrize("kind", list(BatchKind))
    @pytest.mark.parametrize(("full_noise", "clip"), [(FullNoise.EVERY_STEP, None), (FullNoise.ONCE, 0.3)])
    def test_inner_gradients_stay_within_the_certificates(self, loss, kind, full_noise, clip):
        rng, reached = np.random.default_rng(8), {FULL: 0.0, CORRECTION: 0.0}
        for attempt in range(30):
            chosen = method(
                step=0.2, inner_steps=4, batches=Batches(2, seed=attempt, kind=kind), full_noise=full_noise, clip=clip
            )
            pair = neighbours(rng, loss, (7, 5), MU)
            certified = chosen.mechanisms(Setting(pair[0], 3, 1e-9))
            bounds = {mechanism.kind.name: mechanism.rows[0].certificates[0].bound for mechanism in certified}
            prescribed, seen = {}, []
            for problem in pair:
                hook = Transcript(prescribed, rng, scale=400.0)
                QUIET.run(chosen, problem, Stopping(rounds=3), noise=hook)
                seen.append(hook.seen)
            assert seen[0].keys() == seen[1].keys()
            assert (MessageKind(CORRECTION, 0), 1) not in seen[0]
            for sent, k in seen[0]:
                apart = np.linalg.norm(seen[0][sent, k] - seen[1][sent, k], axis=1)
                allowed = bounds[sent.name] * (2 if sent.name == CORRECTION else 1)
                assert apart[0, 0] <= allowed
                assert apart[1, 0] == 0
                reached[sent.name] = max(reached[sent.name], apart[0, 0] / allowed)
        assert reached[FULL] > 0.9
        assert reached[CORRECTION] > 0.9

    def test_a_record_outside_the_batch_leaves_no_trace(self):
        rng = np.random.default_rng(1)
        chosen = method(step=0.2, inner_steps=12, batches=Batches(1, seed=4, kind=BatchKind.FIXED))
        pair, prescribed, seen = neighbours(rng, Logistic(), (7, 5), MU), {}, []
        for problem in pair:
            hook = Transcript(prescribed, rng, scale=400.0)
            QUIET.run(chosen, problem, Stopping(rounds=4), noise=hook)
            seen.append(hook.seen)
        moved = [np.any(seen[0][key] != seen[1][key]) for key in seen[0] if key[0].name == CORRECTION]
        assert 0 < sum(moved) < len(moved) / 2

    def test_everything_sent_is_a_function_of_the_noisy_values(self):
        rng = np.random.default_rng(2)
        pair, prescribed, states = neighbours(rng, Logistic(), (7, 5), MU), {}, []
        for problem in pair:
            run = QUIET.run(
                method(step=0.2, batches=Batches(3, seed=0)),
                problem,
                Stopping(rounds=3),
                noise=Transcript(prescribed, rng, 5.0),
            )
            states.append((*run.state, run.inbox))
        for one, two in zip(*states, strict=True):
            np.testing.assert_array_equal(one[0], two[0])
