"""The one loop: history, stopping, tokens."""

import io
from typing import NamedTuple

import numpy as np
import pytest
from rich.console import Console

from dpadmm.core.loop import progress_bar
from dpadmm.data import random_quadratics
from dpadmm.data.examples import logistic_table
from dpadmm.data.partition import iid
from dpadmm.methods.base import Method, spread
from dpadmm.methods.consensus import ConsensusADMM
from dpadmm.methods.decentralised import DecentralisedADMM
from dpadmm.networks import ring, uniform_walk
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem, Weighting
from dpadmm.testing import Ending, LocalEngine, Recording, Stopping

QUIET = LocalEngine(progress=False, threads=1)
METHODS = [(ConsensusADMM(rho=0.05), None), (DecentralisedADMM(eta=0.02), ring(4))]


@pytest.fixture(scope="module")
def problem():
    table = logistic_table(120, 5, rng=np.random.default_rng(1)).data
    return Problem.of(EmpiricalRisk(table.silos(iid(120, 4, np.random.default_rng(2))), Logistic(), mu=0.05))


class KeyedNoise:
    """Noise that is a pure function of (message kind, round, agent), as the counter-based samplers are."""

    def perturb(self, kind, k, agents, values):
        keys = [[len(kind.name), k, int(i) + 1] for i in agents]
        noise = [np.random.default_rng(key).standard_normal(values.shape[1:]) for key in keys]
        return values + 0.01 * np.stack(noise)


class TestHistory:
    def test_chosen_rounds_and_shapes(self, problem):
        engine = LocalEngine(replicas=3, progress=False, recording=Recording(every=4))
        history = engine.run(METHODS[0][0], problem, Stopping(rounds=10)).history
        assert history.rounds.tolist() == [4, 8, 10]
        assert history.objective.shape == history.primal.shape == history.dual.shape == (3, 3)
        assert history.agent_loss.shape == (3, 4, 3)

    @pytest.mark.parametrize(("method", "network"), METHODS)
    def test_figures_are_what_they_say(self, problem, method, network):
        run = QUIET.run(method, problem, Stopping(rounds=7), network, noise=KeyedNoise())
        last = run.history.snapshots[-1]
        x = run.estimate
        losses = problem.functions.value(run.models)
        np.testing.assert_allclose(last.objective, problem.objective(x))
        np.testing.assert_allclose(last.agent_loss, losses)
        mean = run.models.mean(axis=0)
        worst = max(np.linalg.norm(run.models[i, :, 0] - mean[:, 0]) for i in range(4))
        np.testing.assert_allclose(last.consensus_error, [worst])
        np.testing.assert_allclose(spread(run.models), [worst])


class TestStopping:
    @pytest.mark.parametrize(("method", "network"), METHODS)
    def test_by_residual(self, problem, method, network):
        run = QUIET.run(method, problem, Stopping(rounds=5000, residual=1e-6), network)
        assert run.ending is Ending.RESIDUAL
        assert run.rounds == run.history.rounds[-1] < 5000
        assert run.history.primal[-1].max() <= 1e-6
        assert run.history.dual[-1].max() <= 1e-6
        assert (run.history.primal[-2].max() > 1e-6) or (run.history.dual[-2].max() > 1e-6)


class TestTailAverage:
    @pytest.mark.parametrize(("method", "network"), METHODS)
    def test_mean_of_the_second_half(self, problem, method, network):
        seen = [
            QUIET.run(method, problem, Stopping(rounds=k), network, noise=KeyedNoise()).estimate for k in range(1, 8)
        ]
        run = QUIET.run(method, problem, Stopping(rounds=7), network, noise=KeyedNoise())
        np.testing.assert_allclose(run.tail_average, np.mean(seen[3:], axis=0), atol=1e-14)


class TestIndependence:
    """Results depend neither on threads nor on how many replicas share the batch (1e-10)."""

    @pytest.mark.parametrize(("method", "network"), METHODS)
    def test_threads_and_replicas(self, problem, method, network):
        def run(replicas, threads):
            engine = LocalEngine(replicas=replicas, threads=threads, progress=False, tolerance=1e-12)
            return engine.run(method, problem, Stopping(rounds=15), network).models

        one = run(1, 1)
        np.testing.assert_allclose(run(1, 3), one, atol=1e-10)
        for column in run(7, 2).transpose(2, 0, 1):
            np.testing.assert_allclose(column, one[:, :, 0], atol=1e-10)


class TokenState(NamedTuple):
    u: np.ndarray


class TokenMean(Method):
    """A token that walks over agents: the inbox is the token, one agent computes per round."""

    needs_network = False

    def __init__(self, walk):
        self.walk = walk

    def start(self, agents, replicas):
        zero = np.zeros((len(agents.index), agents.dimension, replicas))
        return TokenState(zero), np.zeros((1, agents.dimension, replicas))

    def participants(self, k):
        return self.walk[k - 1 : k]

    def local_step(self, k, agents, state, inbox, noise):
        assert len(agents.index) == len(state.u) == agents.functions.n_agents == 1
        centre = 2 * inbox - state.u
        x = agents.minimise(np.zeros_like(centre), centre, np.array([1.0]), centre).point
        return TokenState(state.u + x - inbox), x - inbox

    def exchange(self, k, problem, network, inbox, messages, noise):
        return inbox + messages.sum(axis=0, keepdims=True) / problem.n_agents

    def first_averaged_round(self, rounds):
        return rounds

    def models(self, state, inbox):
        return state.u


class TestToken:
    def test_a_walking_token_reaches_the_optimum(self):
        agents = random_quadratics(8, 3, rng=np.random.default_rng(3))
        walk = uniform_walk(8, 3000, np.random.default_rng(4))
        problem = Problem.of(agents, Weighting.EQUAL)
        run = LocalEngine(progress=False, recording=Recording(every=0)).run(
            TokenMean(walk), problem, Stopping(rounds=3000)
        )
        expected = np.linalg.solve(agents.curvatures.sum(axis=0), -agents.slopes.sum(axis=0))
        np.testing.assert_allclose(run.estimate[:, 0], expected, atol=1e-8)


class TestProgress:
    def test_vanishes_where_there_is_no_terminal(self):
        out = io.StringIO()
        with progress_bar("title", 3, console=Console(file=out)) as tick:
            tick()
        assert out.getvalue() == ""

    def test_shows_on_a_terminal_if_wanted(self):
        shown = {}
        for wanted in (True, False):
            out = io.StringIO()
            with progress_bar("title", 3, is_wanted=wanted, console=Console(file=out, force_terminal=True)) as tick:
                tick()
            shown[wanted] = out.getvalue()
        assert "title" in shown[True]
        assert "title" not in shown[False]
