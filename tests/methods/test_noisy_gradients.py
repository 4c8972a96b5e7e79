"""Noisy gradients of the sum: against the pseudo-code in plain NumPy, the optimum, and the certificates C9 and C12."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from tests.methods.silos import MU, check_log_linear, neighbours

import dpadmm
from dpadmm.core.release import PlannedNoise
from dpadmm.methods.base import BROADCAST, Agents, OneNoise, Setting
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.noise.masks import pairwise_masks
from dpadmm.noise.mechanisms import COORDINATOR
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.certificates.local import TRUSTED_SUM
from dpadmm.privacy.protection import Protection, Unit, View
from dpadmm.privacy.releases import GaussianRelease, SummedGaussianRelease
from dpadmm.problems.losses import Huber, Logistic, Quantile
from dpadmm.problems.problem import EmpiricalRisk, Problem, Weighting
from dpadmm.problems.regularisers import Box, ElasticNet
from dpadmm.problems.silos import Silos
from dpadmm.testing import LocalEngine, Recording, Stopping, plan_noise

ONE = Target(epsilon=1.0, delta=1e-5)
QUIET = LocalEngine(progress=False, threads=1, recording=Recording(every=0))
METHOD = NoisyGradients(step=2.0, momentum=0.5)
AGGREGATE = Protection(view=View.AGGREGATE)


class Pushed(OneNoise):
    """Adds known numbers to the sum, once a round."""

    def __init__(self, pushes):
        self.pushes, self.asked = pushes, []

    def perturb(self, kind, k, agents, values):
        assert (kind, agents.tolist(), len(values)) == (BROADCAST, [COORDINATOR], 1)
        self.asked.append(k)
        return values + self.pushes[k - 1][None, :, None]


def reference(problem, method, prox, pushes):
    """The pseudo-code, with sums over records written out; returns x of every round."""
    d = problem.dimension
    x = y = prox(np.zeros(d))
    path = []
    for push in pushes:
        total = push.copy()
        for i, weight in enumerate(problem.weights):
            features, labels = problem.functions.silos.part(i)
            slopes = -labels * expit(-labels * (features @ y))
            total += weight * (features.T @ slopes / len(labels) + MU * y)
        after = prox(y - method.step * total)
        x, y = after, after + method.momentum * (after - x)
        path.append(x)
    return path


PROXES = {
    "none": (None, lambda v, step: v),
    "l1": (ElasticNet(l1=0.05), lambda v, step: np.sign(v) * np.maximum(np.abs(v) - 0.05 * step, 0)),
    "ridge": (ElasticNet(l2=0.3), lambda v, step: v / (1 + 0.3 * step)),
    "positive": (Box(0.0, np.inf), lambda v, step: np.maximum(v, 0)),
}


class TestPseudoCode:
    @pytest.mark.parametrize("weighting", list(Weighting))
    @pytest.mark.parametrize("name", PROXES)
    def test_twenty_rounds_with_noise(self, problem, name, weighting):
        regulariser, prox = PROXES[name]
        task = Problem.of(problem.functions, weighting)
        task = task if regulariser is None else replace(task, regulariser=regulariser)
        method = NoisyGradients(step=1.0 / task.weights.sum(), momentum=0.9)
        pushes = 0.1 * np.random.default_rng(1).standard_normal((20, 6))
        hook = Pushed(pushes)
        run = QUIET.run(method, task, Stopping(rounds=20), noise=hook)
        path = reference(task, method, lambda v: prox(v, method.step), pushes)
        np.testing.assert_allclose(run.estimate[:, 0], path[-1], atol=1e-12)
        np.testing.assert_allclose(run.models[:, :, 0], np.tile(path[-1], (4, 1)), atol=1e-12)
        assert method.first_averaged_round(20) == 7  # the last 70 %
        np.testing.assert_allclose(run.tail_average[:, 0], np.mean(path[6:], axis=0), atol=1e-12)
        assert hook.asked == list(range(1, 21))

    def test_messages_are_the_silos_gradients(self, problem):
        agents = Agents.of(problem, None, 1e-12, 1)
        state, inbox = METHOD.start(agents, 2)
        inbox = np.random.default_rng(0).standard_normal(inbox.shape)
        _, messages = METHOD.local_step(1, agents, state, inbox, noise=None)
        at = np.repeat(inbox[1:], 4, axis=0)
        np.testing.assert_allclose(messages, problem.weights[:, None, None] * problem.functions.gradient(at))


class TestWithoutNoise:
    @pytest.mark.parametrize("momentum", [0.0, 0.6])
    def test_reaches_the_pooled_optimum(self, problem, optimum, momentum):
        run = QUIET.run(NoisyGradients(step=3.0, momentum=momentum), problem, Stopping(rounds=200))
        np.testing.assert_allclose(run.estimate, optimum, atol=1e-8)

    def test_with_l1(self, problem):
        sparse = replace(problem, regulariser=ElasticNet(l1=0.02))
        run = QUIET.run(NoisyGradients(step=3.0, momentum=0.6), sparse, Stopping(rounds=400))
        assert sparse.optimality(run.estimate).max() < 1e-8
        assert (run.estimate == 0).any()

    def test_log_linear(self, problem):
        engine = replace(QUIET, recording=Recording(every=2))
        run = engine.run(METHOD, problem, Stopping(rounds=40))
        best = QUIET.run(METHOD, problem, Stopping(rounds=300))
        gaps = run.history.objective[:, 0] - problem.objective(best.estimate)[0]
        check_log_linear(run.history.rounds, gaps)

    def test_a_ridge_outside_equals_one_inside(self, problem):
        silos = problem.functions.silos
        inside = Problem.of(EmpiricalRisk(silos, Logistic(), mu=MU), Weighting.AVERAGE)
        outside = Problem.of(EmpiricalRisk(silos, Logistic()), Weighting.AVERAGE, ElasticNet(l2=MU))
        ends = [QUIET.run(METHOD, task, Stopping(rounds=200)).estimate for task in (inside, outside)]
        np.testing.assert_allclose(*ends, atol=1e-9)


class Prescribed(OneNoise):
    """Keeps what would leave, before noise, and answers with prescribed sums: the same for both data sets."""

    def __init__(self, sums):
        self.sums, self.came = sums, []

    def perturb(self, kind, k, agents, values):
        self.came.append(values[0, :, 0].copy())
        return self.sums[k - 1][None, :, None]


class TestSameTranscript:
    """Fed the same noisy sums, two neighbouring data sets stay within the certificate, round by round."""

    @pytest.mark.parametrize(
        ("unit", "records", "people"), [("record", 1, 1), ("record", 2, 1), ("record", 2, 3), ("user", 1, 1)]
    )
    def test_the_sum_stays_within_the_certificate(self, unit, records, people):
        rng, method = np.random.default_rng(4), replace(METHOD, unit=Unit(unit))
        who = Protection(view=View.PUBLIC, records_per_person=records, silos_per_person=people)
        reached = 0.0
        for t in range(20):
            sizes = [4, 3, 5, 4]
            changed = [(n if unit == "user" else records) * (i < people) for i, n in enumerate(sizes)]
            loss = Logistic() if t % 2 else Huber(1.0)
            pair = neighbours(rng, loss, sizes, 0.05, list(Weighting)[t % 3], changed)
            (mechanism,) = method.mechanisms(Setting(pair[0], 4, 1e-12, protection=who))
            sums = rng.standard_normal((4, 3)) + 40 * np.eye(3)[0]
            hooks = [Prescribed(sums) for _ in pair]
            ends = [QUIET.run(method, p, Stopping(4), noise=h) for p, h in zip(pair, hooks, strict=True)]
            for k, certificate in enumerate(mechanism.rows[0].certificates):
                moved = np.linalg.norm(hooks[0].came[k] - hooks[1].came[k])
                assert moved <= certificate.bound
                reached = max(reached, moved / certificate.bound)
            # All else is made of the noisy sums.
            for one, two in zip(ends[0].state, ends[1].state, strict=True):
                np.testing.assert_array_equal(one, two)
            np.testing.assert_array_equal(ends[0].inbox, ends[1].inbox)
        assert reached > 0.9

    def test_saturated_records_attain_the_bound(self):
        """Slopes of -1 and +1 at every model: the sum moves by `2 G r s` in sum scale."""
        worlds = []
        for sign in (1.0, -1.0):
            labels = [np.array([sign * 1e4, sign * 1e4, 1e4]), np.array([sign * 1e4, sign * 1e4]), np.array([1e4])]
            silos = Silos.from_parts([np.ones((len(y), 1)) for y in labels], labels, row_norm=1.0)
            task = EmpiricalRisk(silos, Huber(1.0))
            worlds.append(Problem(task, task.sizes.astype(float), ElasticNet()))  # sums, not means
        hooks = [Prescribed(np.ones((2, 1))) for _ in worlds]
        for problem, hook in zip(worlds, hooks, strict=True):
            QUIET.run(NoisyGradients(step=0.1), problem, Stopping(2), noise=hook)
        who = Protection(view=View.PUBLIC, records_per_person=2, silos_per_person=2)
        (mechanism,) = METHOD.mechanisms(Setting(worlds[0], 2, 1e-12, protection=who))
        moved = abs(hooks[0].came[1] - hooks[1].came[1])[0]
        assert moved == pytest.approx(2 * 1 * 2 * 2, rel=1e-12)
        assert moved <= mechanism.rows[0].certificates[1].bound <= moved * (1 + 1e-8)


class TestPlans:
    def test_one_noise_a_round_against_the_public(self, problem):
        plan = plan_noise(METHOD, problem, 5, ONE)
        releases = list(plan)
        assert {(type(each), each.agent) for each in releases} == {(GaussianRelease, COORDINATOR)}
        assert [each.round for each in releases] == [1, 2, 3, 4, 5]
        said = plan.account()
        assert said.curve.epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)
        assert said.protection.view is View.PUBLIC
        assert TRUSTED_SUM in said.assumptions

    def test_a_silo_alone_hides_from_everybody(self, table):
        silos = Silos.from_parts([table.features], [table.labels], row_norm=1.0)
        alone = Problem.of(EmpiricalRisk(silos, Logistic(), mu=MU))
        said = plan_noise(METHOD, alone, 5, ONE).account()
        assert said.protection.view is View.EAVESDROPPER
        assert TRUSTED_SUM not in said.assumptions

    @pytest.mark.parametrize("colluders", [0, 1, 2])
    def test_masked(self, problem, colluders):
        who = replace(AGGREGATE, colluders=colluders)
        plan = plan_noise(METHOD, problem, 5, ONE, protection=who, is_secure=True)
        assert {type(each) for each in plan} == {SummedGaussianRelease}
        said = plan.account()
        assert said.protection == who
        assert said.theorems == ("C9 (sum of gradients) + C12",)
        assert said.curve.epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)
        plain = next(iter(plan_noise(METHOD, problem, 5, ONE)))
        first = next(iter(plan))
        assert first.noise_std == pytest.approx(plain.noise_std, rel=1e-5)
        assert first.share_std == pytest.approx(plain.noise_std / np.sqrt(4 - colluders), rel=1e-5)


class TestRuns:
    def test_masked_and_unmasked_runs_give_the_same_model(self, problem):
        plan = plan_noise(METHOD, problem, 10, ONE, protection=AGGREGATE)
        ends = []
        for masks in (None, pairwise_masks(4, b"run")):
            hook = PlannedNoise(plan, SimulatedSampler(3), masks=masks)
            ends.append(QUIET.run(METHOD, problem, Stopping(rounds=10), noise=hook))
            hook.check_drawn()
        np.testing.assert_array_equal(ends[0].estimate, ends[1].estimate)
        np.testing.assert_array_equal(ends[0].tail_average, ends[1].tail_average)


class TestNumbers:
    def test_a_planned_step_is_safe_for_every_data_set(self, problem):
        longest = 1 / problem.functions.constants.smoothness
        assert NoisyGradients.at_step(Setting(problem, 5, 0.0), 1e9).step == longest
        assert NoisyGradients.at_step(Setting(problem, 5, 0.0), 0.01).step == 0.01


LEVELS = np.random.default_rng(4).exponential(size=3000)


def test_a_quantile_is_fitted_by_noisy_gradients_with_or_without_its_corner_and_by_solves_without():
    """The constant that predicts best is the quantile of the labels."""
    budget, parts = {"epsilon": 20.0, "delta": 1e-5, "seed": 0}, [(np.ones((1000, 1)), y) for y in np.split(LEVELS, 3)]
    expected = np.quantile(LEVELS, 0.8)
    for width in (0.0, 0.05):
        loss = Quantile(0.8, width)
        found = dpadmm.run("dp-gd", parts, loss=loss, rounds=60, step=0.5, power=0.3, **budget).model[0]
        assert found == pytest.approx(expected, abs=0.15)
    solved = dpadmm.run("p-admm", parts, loss=loss, rounds=60, eta=0.05, **budget).model[0]
    assert solved == pytest.approx(expected, abs=0.15)


@pytest.mark.parametrize(("loss", "stated"), [("quantile", {}), ("epsilon-insensitive", {"rounds": 60, "step": 0.5})])
def test_losses_by_name_can_be_planned_and_run(loss, stated):
    parts = [(np.ones((1000, 1)), y) for y in np.split(LEVELS, 3)]
    done = dpadmm.run("dp-gd", parts, loss=loss, epsilon=5.0, delta=1e-5, seed=0, **stated)
    assert done.model[0] == pytest.approx(np.median(LEVELS), abs=0.3)
