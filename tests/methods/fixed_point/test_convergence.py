"""Without noise every setting reaches the reference optimum; the printed tracking does not."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from dpadmm.data import random_quadratics
from dpadmm.errors import InputError
from dpadmm.methods.base import Agents, Silence
from dpadmm.methods.fixed_point import CentralisedADMM, CoordinatorADMM, FederatedADMM, Participation, RandomWalkADMM
from dpadmm.methods.fixed_point.blocks import clip_norms, with_prox
from dpadmm.networks import complete, path, ring
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem, Weighting
from dpadmm.problems.regularisers import Box
from dpadmm.problems.silos import Silos
from dpadmm.testing import LocalEngine, Recording, Stopping
from dpadmm_research.papers.fixed_point.theory import best_gamma, consensus_factor, relaxed_factor


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def optimum(logistic):
    objective = lambda w: (logistic.objective(w[:, None])[0], logistic.gradient(w[:, None])[:, 0])  # noqa: E731
    found = minimize(objective, np.zeros(4), jac=True, method="BFGS", options={"gtol": 1e-10})
    return found.x[:, None]


class TestLogistic:
    @pytest.mark.parametrize("lam", [0.5, 1.0])
    @pytest.mark.parametrize(
        ("order", "rounds"),
        [
            (None, 80),
            (Participation.in_turn(4, 250), 250),
            (Participation.permuted(4, 250, rng()), 250),
            (Participation.one_at_random(4, 300, rng()), 300),
            (Participation.subsets(4, 2, 150, rng()), 150),
        ],
        ids=["all", "fixed", "permuted", "one", "subset"],
    )
    def test_every_block_order(self, logistic, optimum, quiet, order, rounds, lam):
        run = quiet.run(CentralisedADMM(gamma=10.0, lam=lam, participation=order), logistic, Stopping(rounds=rounds))
        np.testing.assert_allclose(run.estimate, optimum, atol=1e-6)

    @pytest.mark.parametrize("lam", [0.5, 0.2])
    @pytest.mark.parametrize("m", [4, 2])
    def test_coordinator(self, logistic, optimum, quiet, lam, m):
        order = None if m == 4 else Participation.subsets(4, m, 300, rng())
        run = quiet.run(CoordinatorADMM(10.0, lam, participation=order), logistic, Stopping(rounds=300))
        np.testing.assert_allclose(run.estimate, optimum, atol=1e-6)

    @pytest.mark.parametrize("weighting", list(Weighting))
    def test_gamma_does_not_move_the_solution_under_any_weights(self, logistic, quiet, weighting):
        problem = Problem.of(logistic.functions, weighting, Box(-1.0, 0.5))
        scale = problem.weights.sum()
        for gamma in (3 / scale, 10 / scale):
            run = quiet.run(CentralisedADMM(gamma), problem, Stopping(rounds=200))
            assert problem.optimality(run.estimate)[0] <= 1e-6 * scale

    def test_clipping_keeps_the_fixed_point(self, logistic, optimum, quiet):
        run = quiet.run(CentralisedADMM(10.0, clip=0.1), logistic, Stopping(rounds=400))
        np.testing.assert_allclose(run.estimate, optimum, atol=1e-6)

    def test_blocks_are_what_the_identity_says(self, logistic, quiet):
        """lam = 1/2: after a step u_i = z - gamma grad F_i(x_i), z the one the step started from."""
        method = CentralisedADMM(gamma=2.0)
        before = quiet.run(method, logistic, Stopping(rounds=3))
        after = quiet.run(method, logistic, Stopping(rounds=4))
        u, x = after.state
        np.testing.assert_allclose(u, before.estimate[None] - 2.0 * logistic.functions.gradient(x), atol=1e-9)


class PrintedTracking(FederatedADMM):
    """Algorithms 3 and 4 as printed: the changes are added to z, not to the mean."""

    def exchange(self, k, problem, network, inbox, messages, noise):
        return with_prox(
            problem.regulariser, self.gamma, inbox[:1] + messages.sum(axis=0, keepdims=True) / problem.n_agents
        )


class TestLasso:
    """Federated and walking methods on l1: scikit-learn's solution to 1e-5, zeros included."""

    @pytest.fixture(scope="class")
    @classmethod
    def runs(cls, lasso, quiet):
        problem, _ = lasso
        methods = {
            "all": (FederatedADMM(gamma=8.0), 600),
            "federated": (FederatedADMM(8.0, participation=Participation.subsets(6, 2, 1500, rng(1))), 1500),
            "walk": (RandomWalkADMM(8.0, participation=Participation.one_at_random(6, 3000, rng(2))), 3000),
            "walk on a path": (RandomWalkADMM(8.0, participation=Participation.walk(path(6), 4000, rng(3))), 4000),
            "coordinator": (CoordinatorADMM(8.0), 600),
        }
        return {name: quiet.run(method, problem, Stopping(rounds=k)) for name, (method, k) in methods.items()}

    @pytest.mark.parametrize("name", ["all", "federated", "walk", "walk on a path", "coordinator"])
    def test_reaches_scikit_learn(self, lasso, runs, name):
        _, expected = lasso
        assert np.linalg.norm(expected) > 1
        np.testing.assert_allclose(runs[name].estimate, expected, atol=1e-5)
        assert ((runs[name].estimate == 0) == (expected == 0)).all()

    def test_printed_tracking_does_not(self, lasso, quiet):
        problem, expected = lasso
        method = PrintedTracking(8.0, participation=Participation.subsets(6, 2, 1500, rng(1)))
        run = quiet.run(method, problem, Stopping(rounds=1500))
        assert np.linalg.norm(run.estimate - expected) > 0.5 * np.linalg.norm(expected)

    def test_printed_tracking_is_right_without_a_regulariser(self, logistic, optimum, quiet):
        run = quiet.run(PrintedTracking(10.0), logistic, Stopping(rounds=80))
        np.testing.assert_allclose(run.estimate, optimum, atol=1e-6)

    def test_inbox_is_the_mean_of_the_blocks(self, lasso, runs, keyed, quiet):
        problem, _ = lasso
        method = FederatedADMM(8.0, participation=Participation.subsets(6, 2, 50, rng(1)), lam=0.9)
        saved = quiet.run(method, problem, Stopping(rounds=50), noise=keyed())
        np.testing.assert_allclose(saved.inbox[1], saved.state[0].mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(saved.inbox[0], problem.regulariser.prox(saved.inbox[1], 8.0), atol=1e-15)


def test_quadratics_contract_as_fast_as_the_theory_says():
    """At the best gamma, distance to the fixed point falls by 1 - lam + lam tau a round, log-linearly."""
    agents = random_quadratics(8, 3, rng=rng(7))
    problem = Problem.of(agents, Weighting.AVERAGE)
    mu, top = agents.constants.strong_convexity, agents.constants.smoothness
    gamma = best_gamma(mu, top)
    method = CentralisedADMM(gamma, lam=0.5)
    engine = LocalEngine(progress=False, threads=1, tolerance=1e-11, recording=Recording(every=0))
    expected = np.linalg.solve(agents.curvatures.mean(axis=0), -agents.slopes.mean(axis=0))[:, None]
    fixed = expected[None] - gamma * agents.gradient(expected[None])
    distances = []
    for k in range(1, 25):
        run = engine.run(method, problem, Stopping(rounds=k))
        distances.append(np.linalg.norm(run.state[0] - fixed))
    factor = relaxed_factor(consensus_factor(gamma, mu, top, problem.weights), 0.5)
    ratios = np.array(distances[1:]) / np.array(distances[:-1])
    assert ratios.max() <= factor + 1e-9
    slope = np.polyfit(np.arange(24), np.log(distances), 1)[0]
    assert slope < np.log(factor) + 1e-9


class TestAlone:
    def test_a_silo_that_skips_sends_its_old_block(self, logistic):
        method = CoordinatorADMM(2.0, participation=Participation.of(4, [[0], [2]]))
        here = Agents.of(logistic, None, 1e-12, 1).alone(1, 1e-12)
        state, inbox = method.start(here, 1)
        after, message = method.local_step(1, here, state, inbox + 1.0, Silence())
        np.testing.assert_array_equal(message, state.u)
        np.testing.assert_array_equal(after.u, state.u)


class TestRuns:
    def test_x_is_never_shown(self, logistic, quiet):
        for method in (FederatedADMM(2.0), CoordinatorADMM(2.0)):
            run = quiet.run(method, logistic, Stopping(rounds=2))
            np.testing.assert_array_equal(run.models, np.broadcast_to(run.estimate, run.models.shape))


class TestRefusals:
    def test_a_walk_keeps_to_the_network(self, logistic, quiet):
        method = RandomWalkADMM(1.0, participation=Participation.walk(ring(4), 30, rng()))
        quiet.run(method, logistic, Stopping(rounds=2), ring(4))
        jump = RandomWalkADMM(1.0, participation=Participation.of(4, [[0], [2]]))
        with pytest.raises(InputError, match="not connect"):
            quiet.run(jump, logistic, Stopping(rounds=1), ring(4))
        quiet.run(jump, logistic, Stopping(rounds=1), complete(4))


def test_clipping_shortens_each_vector():
    values = rng().standard_normal((5, 3, 2)) * np.array([0.01, 1, 1, 5, 100])[:, None, None]
    norms = np.linalg.norm(clip_norms(values, 1.0), axis=1)
    np.testing.assert_allclose(norms, np.minimum(np.linalg.norm(values, axis=1), 1.0), rtol=1e-12)
    assert norms.max() <= 1.0
    assert clip_norms(values, np.inf) is values


def test_one_record_each_evaluates_as_the_loop_does():
    """The evaluation without a loop over users against silos whose last one has two records (the loop)."""
    rows = rng().standard_normal((7, 3)) * 0.3
    labels = np.where(rng(1).random(7) < 0.5, 1.0, -1.0)
    w = rng(2).standard_normal((7, 3, 2))
    for table in (rows, sparse.csr_array(rows)):
        users = EmpiricalRisk(Silos.one_record_each(table, labels, 2.0), Logistic(), mu=0.2)
        parts = [*(rows[i : i + 1] for i in range(6)), np.stack([rows[6], rows[6]])]
        loop = EmpiricalRisk(
            Silos.from_parts(parts, [*(labels[i : i + 1] for i in range(6)), labels[[6, 6]]], 2.0), Logistic(), mu=0.2
        )
        for points in (w, w[:1], np.broadcast_to(w[:1], w.shape)):
            np.testing.assert_allclose(users.value(points), loop.value(points), rtol=1e-13)
            np.testing.assert_allclose(users.gradient(points), loop.gradient(points), rtol=1e-13, atol=1e-15)
