"""DP-SGD, DP-prox-SGD, DP-GD, DP-DGD, linearised ADMM, output perturbation: the same questions to each."""

from dataclasses import replace

import numpy as np
import pytest
from tests.contracts.certificates import by_agent
from tests.methods.silos import MU, SIZES, Transcript, check_log_linear, fitted, neighbours

from dpadmm.methods.base import MESSAGE, Setting
from dpadmm.methods.batches import Batches, BatchKind
from dpadmm.methods.dp_dgd import DPDGD
from dpadmm.methods.dp_gd import DPGD
from dpadmm.methods.dp_sgd import DPSGD, DPProxSGD
from dpadmm.methods.linearised import LinearisedADMM
from dpadmm.methods.output_perturbation import OutputPerturbation
from dpadmm.networks import complete, path, ring
from dpadmm.noise.mechanisms import Family
from dpadmm.privacy.accounting import PureTarget, Target
from dpadmm.privacy.protection import Norm
from dpadmm.privacy.releases import CoordinateLaplaceRelease, SampledGaussianRelease
from dpadmm.problems.losses import Huber, Logistic, Squared
from dpadmm.problems.problem import EmpiricalRisk, Problem, Weighting
from dpadmm.problems.regularisers import Box, ElasticNet
from dpadmm.problems.silos import Silos
from dpadmm.testing import LocalEngine, Recording, Stopping, plan_noise

DELTA = 1e-5
QUIET = LocalEngine(progress=False, threads=1, recording=Recording(every=0), replicas=2)
ALL = Batches(40, seed=1)

METHODS = {
    "dp-sgd": (DPSGD(step=2.0, batches=ALL), None),
    "dp-sgd-fixed-clipped": (DPSGD(step=2.0, batches=Batches(30, seed=1, kind=BatchKind.FIXED), clip=0.3), None),
    "dp-prox-sgd": (DPProxSGD(step=2.0, power=0.5, batches=ALL), None),
    "dp-gd": (DPGD(step=4.0), None),
    "linearised": (LinearisedADMM(rho=0.05, step=4.0, power=0.5), None),
    "dp-dgd": (DPDGD(step=4.0, decay=0.9, noise_decay=0.95, noise=Family.GAUSSIAN), ring(4)),
    "dp-dgd-spherical": (DPDGD(step=4.0, decay=0.9, noise=Family.SPHERICAL), ring(4)),
    "dp-dgd-coordinate": (DPDGD(step=4.0, decay=0.9, noise_decay=0.95), path(4)),
    "output": (OutputPerturbation(), None),
    "output-spherical": (OutputPerturbation(Family.SPHERICAL), None),
}
PURE = ("dp-dgd-spherical", "dp-dgd-coordinate", "output-spherical")


def rounds_of(name, many):
    return 1 if name.startswith("output") else many


def target_of(name, epsilon=1.0):
    return PureTarget(epsilon) if name in PURE else Target(epsilon, DELTA)


class TestWithoutNoise:
    @pytest.mark.parametrize(
        ("method", "network", "rounds"),
        [
            (DPGD(step=4.0), None, 150),
            (LinearisedADMM(rho=0.05, step=4.0), None, 250),
            (DPDGD(step=8.0, decay=0.985), complete(4), 1000),
            (DPSGD(step=4.0, batches=Batches(40, seed=0, kind=BatchKind.FIXED)), None, 0),
        ],
        ids=lambda v: type(v).__name__,
    )
    def test_reaches_the_pooled_optimum(self, problem, table, method, network, rounds):
        optimum = fitted(table.features, table.labels)
        if rounds == 0:  # a batch of all records is the full gradient; every silo cut to the smallest size
            silos = [problem.functions.silos.part(i) for i in range(4)]
            parts = Silos.from_parts([x[:40] for x, _ in silos], [y[:40] for _, y in silos], row_norm=1.0)
            problem, rounds = Problem.of(EmpiricalRisk(parts, Logistic(), mu=MU)), 150
            optimum = fitted(parts.features, parts.labels)
        run = QUIET.run(method, problem, Stopping(rounds=rounds), network)
        np.testing.assert_allclose(run.estimate, np.repeat(optimum, 2, axis=1), atol=1e-6)
        np.testing.assert_allclose(run.models, np.broadcast_to(run.estimate, run.models.shape), atol=1e-6)

    def test_gradient_descent_is_log_linear(self, problem, table):
        engine = replace(QUIET, recording=Recording(every=5), replicas=1)
        run = engine.run(DPGD(step=2.0), problem, Stopping(rounds=80))
        gaps = run.history.objective[:, 0] - problem.objective(fitted(table.features, table.labels))[0]
        check_log_linear(run.history.rounds, gaps)

    def test_sgd_settles_around_the_optimum(self, problem, table):
        optimum = fitted(table.features, table.labels)
        for method in (DPSGD(step=4.0, power=0.8, batches=ALL), DPProxSGD(step=4.0, power=0.8, batches=ALL)):
            run = replace(QUIET, replicas=200).run(method, problem, Stopping(rounds=300))
            assert np.abs(run.estimate - optimum).max() < 0.1
            np.testing.assert_allclose(run.estimate.mean(axis=1), optimum[:, 0], atol=0.005)

    def test_l1_by_the_proximal_methods(self, problem):
        sparse_problem = replace(problem, regulariser=ElasticNet(l1=0.02))
        for method in (DPGD(step=4.0), LinearisedADMM(rho=0.05, step=4.0)):
            run = QUIET.run(method, sparse_problem, Stopping(rounds=400))
            assert sparse_problem.optimality(run.estimate).max() < 1e-7
            assert (run.estimate == 0).any()

    def test_a_ridge_regulariser_equals_one_inside_the_functions(self, problem):
        silos = problem.functions.silos
        inside = Problem.of(EmpiricalRisk(silos, Logistic(), mu=MU), Weighting.AVERAGE)
        outside = Problem.of(EmpiricalRisk(silos, Logistic()), Weighting.AVERAGE, ElasticNet(l2=MU))
        cases = ((DPSGD(step=2.0, batches=ALL), None), (DPDGD(step=2.0, decay=0.99), complete(4)))
        for method, network in (*cases, (OutputPerturbation(), None)):
            one, two = (QUIET.run(method, task, Stopping(rounds=20), network).estimate for task in (inside, outside))
            np.testing.assert_allclose(one, two, atol=1e-8)

    def test_output_perturbation_averages_local_optima(self, problem):
        run = QUIET.run(OutputPerturbation(), problem, Stopping(rounds=1))
        locals_ = [fitted(*problem.functions.silos.part(i)) for i in range(4)]
        np.testing.assert_allclose(run.models[:, :, :1], np.array(locals_), atol=1e-7)
        expected = sum(w * x for w, x in zip(problem.weights, locals_, strict=True))
        np.testing.assert_allclose(run.estimate[:, :1], expected, atol=1e-7)
        again = QUIET.run(OutputPerturbation(), problem, Stopping(rounds=3))
        np.testing.assert_allclose(again.estimate, run.estimate, atol=1e-14)

    def test_geometric_steps_and_metropolis_mixing_by_hand(self, problem):
        method, network = DPDGD(step=2.0, decay=0.5, constraint=Box(-0.2, 0.1)), path(4)
        run = QUIET.run(method, problem, Stopping(rounds=3), network)
        y = np.zeros((4, 6, 1))
        for k in range(1, 4):
            mixed = np.einsum("ij,jdr->idr", network.metropolis_weights().toarray(), y)
            slope = problem.weights[:, None, None] * problem.functions.gradient(mixed)
            y = np.clip(mixed - 2.0 * 0.5 ** (k - 1) * slope, -0.2, 0.1)
        np.testing.assert_allclose(run.models[:, :, :1], y, atol=1e-12)


class TestBudget:
    def test_batches_differ_between_silos_in_the_account(self, problem):
        plan = plan_noise(DPSGD(step=1.0, batches=ALL), problem, 2, Target(1.0, DELTA))
        rates = {r.agent: r.sampling.rate for r in plan if isinstance(r, SampledGaussianRelease)}
        assert rates == {i: pytest.approx(40 / n) for i, n in enumerate(SIZES)}

    def test_silos_with_equal_terms_but_other_rates_get_other_noise(self, problem):
        """Under equal weights the certificates agree and only the sampling rate tells the silos apart."""
        plan = plan_noise(
            DPSGD(step=1.0, batches=ALL), Problem.of(problem.functions, Weighting.EQUAL), 4, Target(1.0, DELTA)
        )
        for curve in by_agent(plan).values():
            assert 1 - 1.001e-3 <= curve.epsilon(DELTA) <= 1.0

    def test_the_noise_of_dgd_decays_as_it_says(self, problem):
        plan = plan_noise(METHODS["dp-dgd-coordinate"][0], problem, 5, PureTarget(1.0), path(4))
        scales = [plan.of(MESSAGE, k, np.array([0]))[0].scale for k in range(1, 6)]
        np.testing.assert_allclose(np.array(scales[1:]) / scales[:-1], 0.95, rtol=1e-12)
        assert {type(r) for r in plan} == {CoordinateLaplaceRelease}
        assert {r.certificate.norm for r in plan} == {Norm.L1}

    def test_a_clip_makes_the_squared_loss_private(self, problem):
        squared = Problem.of(EmpiricalRisk(problem.functions.silos, Squared(), mu=MU))
        plan = plan_noise(DPSGD(step=0.1, batches=ALL, clip=0.5), squared, 2, Target(1.0, DELTA))
        assert next(iter(plan)).certificate.bound == pytest.approx(squared.weights[0] * 0.5 / 40, rel=1e-6)


CASES = {
    "dp-sgd": (DPSGD(step=0.5, batches=Batches(2, seed=3)), None),
    "dp-sgd-clip": (DPSGD(step=0.5, batches=Batches(3, seed=3, kind=BatchKind.FIXED), clip=0.4), None),
    "dp-gd": (DPGD(step=0.5), None),
    "linearised": (LinearisedADMM(rho=0.5, step=0.7), None),
    "dp-dgd": (DPDGD(step=0.5, decay=0.8, noise=Family.SPHERICAL), ring(4)),
    "dp-dgd-coordinate": (DPDGD(step=0.5, decay=0.8), ring(4)),
    "output": (OutputPerturbation(), None),
}


class TestSameTranscript:
    @pytest.mark.parametrize("name", CASES)
    def test_what_leaves_stays_within_the_certificate(self, name):
        method, network = CASES[name]
        rng, rounds = np.random.default_rng(4), rounds_of(name, 4)
        reached = np.zeros(rounds)
        engine = replace(QUIET, replicas=1, tolerance=1e-12)
        for _ in range(25):
            pair = neighbours(rng, Logistic() if rng.random() < 0.5 else Huber(1.0))
            (mechanism,) = method.mechanisms(Setting(pair[0], rounds, 1e-12, network))
            prescribed, seen = {}, []
            for problem in pair:
                hook = Transcript(prescribed, rng, scale=50.0)
                engine.run(method, problem, Stopping(rounds=rounds), network, noise=hook)
                seen.append(hook.seen)
            for k in range(1, rounds + 1):
                bound = mechanism.rows[0].certificates[k - 1]
                order = 1 if bound.norm is Norm.L1 else 2
                apart = np.linalg.norm(seen[0][MESSAGE, k] - seen[1][MESSAGE, k], ord=order, axis=1)[:, 0]
                allowed = bound.bound * (2 if mechanism.family is Family.SAMPLED else 1)
                assert apart[0] <= allowed
                assert np.all(apart[1:] == 0)
                reached[k - 1] = max(reached[k - 1], apart[0] / allowed)
        # The transcript has no say in round 1, nor in a minimiser; l1 norms reach sqrt(d) times l2 at corners only.
        least = {"output": 0.2, "dp-dgd-coordinate": 0.7}.get(name, 0.9)
        later = reached[min(1, rounds - 1) :]
        # A record is in some of the batches only.
        assert (later.max() if name.startswith("dp-sgd") else later.min()) > least

    def test_a_saturated_record_attains_the_bound_of_output_perturbation(self):
        """Slopes stay at -1 and +1 whatever the model: the optimum moves by exactly 2 G/(n mu)."""
        features, models = np.ones((5, 1)), []
        for label in (-1e4, 1e4):
            silos = Silos.from_parts([features], [np.array([label, 1e4, -1e4, 1e4, -1e4])], row_norm=1.0)
            task = Problem.of(EmpiricalRisk(silos, Huber(1.0), mu=0.01))
            models.append(QUIET.run(OutputPerturbation(), task, Stopping(rounds=1)).estimate)
            (mechanism,) = OutputPerturbation().mechanisms(Setting(task, 1, QUIET.tolerance))
        bound = mechanism.rows[0].certificates[0].bound
        assert bound * (1 - 1e-6) <= abs(models[0] - models[1]).max() <= bound

    @pytest.mark.parametrize(
        ("name", "sizes"),
        [(name, (4, 3, 3, 3)) for name in CASES] + [(name, (4,)) for name, (_, graph) in CASES.items() if not graph],
    )
    def test_everything_else_is_a_function_of_what_was_sent(self, name, sizes):
        """Between silos, and in a silo alone, where there is nobody to add up."""
        method, network = CASES[name]
        rng, prescribed, ends, rounds = np.random.default_rng(5), {}, [], rounds_of(name, 3)
        for problem in neighbours(rng, Logistic(), sizes):
            hook = Transcript(prescribed, rng, scale=3.0)
            run = replace(QUIET, replicas=1).run(method, problem, Stopping(rounds=rounds), network, noise=hook)
            ends.append((*run.state, run.inbox))
        for one, two in zip(*ends, strict=True):
            np.testing.assert_array_equal(one, two)
