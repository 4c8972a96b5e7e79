"""The one loop: history, stopping, resuming, interrupting, tokens."""

import io
import json
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from rich.console import Console

from dpadmm.core.TODO import Checkpoint
from dpadmm.core.loop import progress_bar
from dpadmm.testing import Ending, LocalEngine, Recording, RunInterrupted, Stopping
from dpadmm.data import random_quadratics
from dpadmm.data.generators import logistic_table
from dpadmm.data.partition import iid
from dpadmm.errors import InputError, ResumeError, SolverError
from dpadmm.methods.anatomy import MESSAGE, Residuals, Silence, spread
from dpadmm.methods.consensus import ConsensusADMM
from dpadmm.methods.decentralised import DecentralisedADMM
from dpadmm.networks import ring, uniform_walk
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem, Weighting

QUIET = LocalEngine(progress=False, threads=1)
METHODS = [(ConsensusADMM(rho=0.05), None), (DecentralisedADMM(eta=0.02), ring(4))]


@pytest.fixture(scope="module")
def problem():
    table = logistic_table(120, 5, rng=np.random.default_rng(1)).data
    return Problem.of(EmpiricalRisk(table.silos(iid(120, 4, np.random.default_rng(2))), Logistic(), mu=0.05))


class KeyedNoise:
    """Noise that is a pure function of (slot, round, agent), as the counter-based samplers are."""

    def perturb(self, slot, k, agents, values):
        keys = [[len(slot.name), k, int(i) + 1] for i in agents]
        noise = [np.random.default_rng(key).standard_normal(values.shape[1:]) for key in keys]
        return values + 0.01 * np.stack(noise)


class StopsIn(KeyedNoise):
    """A user who presses Ctrl-C in the middle of a round."""

    def __init__(self, round_):
        self.round = round_

    def perturb(self, slot, k, agents, values):
        if k == self.round:
            raise KeyboardInterrupt
        return super().perturb(slot, k, agents, values)


class TestHistory:
    def test_chosen_rounds_and_shapes(self, problem):
        engine = LocalEngine(replicas=3, progress=False, recording=Recording(every=4))
        history = engine.run(METHODS[0][0], problem, Stopping(rounds=10)).history
        assert history.rounds.tolist() == [4, 8, 10]
        assert history.objective.shape == history.primal.shape == history.dual.shape == (3, 3)
        assert history.agent_loss.shape == (3, 4, 3)

    def test_none(self, problem):
        engine = LocalEngine(progress=False, recording=Recording(every=0))
        assert engine.run(METHODS[0][0], problem, Stopping(rounds=3)).history.snapshots == []

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

    def test_by_rounds(self, problem):
        assert QUIET.run(METHODS[0][0], problem, Stopping(rounds=3)).ending is Ending.ROUNDS

    def test_bad_numbers(self):
        for bad in (0, -1, 2.5, True):
            with pytest.raises(InputError, match="rounds"):
                Stopping(rounds=bad)
        with pytest.raises(InputError, match="residual"):
            Stopping(rounds=1, residual=0.0)
        with pytest.raises(InputError, match="replicas"):
            LocalEngine(replicas=0)
        with pytest.raises(InputError, match="tolerance"):
            LocalEngine(tolerance=-1e-9)
        with pytest.raises(InputError, match="threads"):
            LocalEngine(threads=0)
        with pytest.raises(InputError, match="every"):
            Recording(every=-1)


class TestTailAverage:
    @pytest.mark.parametrize(("method", "network"), METHODS)
    def test_mean_of_the_second_half(self, problem, method, network):
        seen = [
            QUIET.run(method, problem, Stopping(rounds=k), network, noise=KeyedNoise()).estimate for k in range(1, 8)
        ]
        run = QUIET.run(method, problem, Stopping(rounds=7), network, noise=KeyedNoise())
        np.testing.assert_allclose(run.tail_average, np.mean(seen[3:], axis=0), atol=1e-14)


class TestSolverErrorsAreSeen:
    def test_unreachable_tolerance(self, problem):
        with pytest.raises(SolverError, match="missed the gradient tolerance"):
            LocalEngine(tolerance=1e-30, progress=False).run(METHODS[0][0], problem, Stopping(rounds=1))


class TestResume:
    @pytest.mark.parametrize(("method", "network"), METHODS)
    def test_same_trajectory_bit_for_bit(self, problem, method, network, tmp_path):
        engine = LocalEngine(replicas=2, progress=False, threads=1)
        whole = engine.run(method, problem, Stopping(rounds=12), network, noise=KeyedNoise())
        file = tmp_path / "run.npz"
        engine.run(method, problem, Stopping(rounds=5), network, noise=KeyedNoise(), save_to=file)
        rest = engine.run(method, problem, Stopping(rounds=12), network, noise=KeyedNoise(), resume=file)
        assert rest.rounds == 12
        assert rest.history.rounds.tolist() == list(range(6, 13))
        np.testing.assert_array_equal(rest.models, whole.models)
        np.testing.assert_array_equal(rest.estimate, whole.estimate)
        np.testing.assert_array_equal(rest.tail_average, whole.tail_average)

    def test_a_tail_that_began_late_survives_another_stop(self, problem):
        method, noise = ConsensusADMM(rho=0.05), KeyedNoise()
        short = QUIET.run(method, problem, Stopping(rounds=8), noise=noise).checkpoint
        whole = QUIET.run(method, problem, Stopping(rounds=12), noise=noise, resume=short)
        with pytest.raises(RunInterrupted) as caught:
            QUIET.run(method, problem, Stopping(rounds=12), noise=StopsIn(11), resume=short)
        last = QUIET.run(method, problem, Stopping(rounds=12), noise=noise, resume=caught.value.run.checkpoint)
        np.testing.assert_array_equal(last.tail_average, whole.tail_average)

    def test_another_run_is_refused(self, problem, tmp_path):
        file = tmp_path / "run.npz"
        QUIET.run(ConsensusADMM(rho=0.05), problem, Stopping(rounds=2), save_to=file)
        with pytest.raises(ResumeError, match="another run"):
            QUIET.run(ConsensusADMM(rho=0.06), problem, Stopping(rounds=4), resume=file)
        other = LocalEngine(replicas=2, progress=False)
        with pytest.raises(ResumeError, match="another run"):
            other.run(ConsensusADMM(rho=0.05), problem, Stopping(rounds=4), resume=file)

    @pytest.mark.parametrize("content", [b"", b"not a zip file at all", b"PK\x03\x04 truncated"])
    def test_corrupt_file(self, problem, tmp_path, content):
        file = tmp_path / "run.npz"
        file.write_bytes(content)
        with pytest.raises(ResumeError, match="not a usable checkpoint"):
            QUIET.run(ConsensusADMM(rho=0.05), problem, Stopping(rounds=4), resume=file)
        assert file.read_bytes() == content

    def test_truncated_file(self, problem, tmp_path):
        file = tmp_path / "run.npz"
        QUIET.run(ConsensusADMM(rho=0.05), problem, Stopping(rounds=2), save_to=file)
        file.write_bytes(file.read_bytes()[:-200])
        with pytest.raises(ResumeError, match="not a usable checkpoint"):
            QUIET.run(ConsensusADMM(rho=0.05), problem, Stopping(rounds=4), resume=file)

    @pytest.mark.parametrize(
        "broken",
        [None, [1], {"format": 1}, {"format": 1, "passport": "x"}, {"format": 1, "passport": "x", "round": "y"}],
    )
    def test_foreign_header(self, problem, tmp_path, broken):
        file = tmp_path / "run.npz"
        header = np.frombuffer(json.dumps(broken).encode(), dtype=np.uint8)
        np.savez(file, header=header, inbox=np.zeros(1), tail=np.zeros(1))
        with pytest.raises(ResumeError, match="not a usable checkpoint"):
            QUIET.run(ConsensusADMM(rho=0.05), problem, Stopping(rounds=4), resume=file)

    def test_a_checkpoint_that_unpacks_to_more_than_its_length(self, problem, tmp_path):
        QUIET.run(METHODS[0][0], problem, Stopping(rounds=2)).checkpoint.save(tmp_path / "c.npz")
        with np.load(tmp_path / "c.npz") as file:
            np.savez_compressed(tmp_path / "d.npz", **file, more=np.zeros(10_000))
        with pytest.raises(ResumeError, match="unpacks to more"):
            Checkpoint.load(tmp_path / "d.npz", "any")

    @pytest.mark.slow
    def test_checkpoints_of_every_size_are_read_back(self, tmp_path):
        state = (np.ones((20, 1700, 1000)),)
        Checkpoint(1, state, np.zeros(1), np.zeros(1), 0, "own").save(tmp_path / "c.npz")
        assert Checkpoint.load(tmp_path / "c.npz", "own").state[0].shape == (20, 1700, 1000)

    def test_a_bare_array_is_no_checkpoint(self, problem, tmp_path):
        np.save(tmp_path / "run.npy", np.zeros(3))
        with pytest.raises(ResumeError, match="not a usable checkpoint"):
            QUIET.run(ConsensusADMM(rho=0.05), problem, Stopping(rounds=4), resume=tmp_path / "run.npy")

    def test_arrays_of_another_shape(self, problem):
        saved = QUIET.run(ConsensusADMM(rho=0.05), problem, Stopping(rounds=2)).checkpoint
        for broken in (replace(saved, state=saved.state[:1]), replace(saved, inbox=saved.inbox[:, :-1])):
            with pytest.raises(ResumeError, match="shapes"):
                QUIET.run(ConsensusADMM(rho=0.05), problem, Stopping(rounds=4), resume=broken)

    def test_a_path_may_be_a_string_but_not_a_folder(self, problem, tmp_path):
        file = str(tmp_path / "run.npz")
        QUIET.run(ConsensusADMM(rho=0.05), problem, Stopping(rounds=2), save_to=file)
        assert QUIET.run(ConsensusADMM(rho=0.05), problem, Stopping(rounds=3), resume=file).history.rounds.tolist() == [
            3
        ]
        with pytest.raises(InputError, match="is a folder"):
            QUIET.run(ConsensusADMM(rho=0.05), problem, Stopping(rounds=2), save_to=tmp_path)

    def test_missing_file_and_folder(self, problem, tmp_path):
        with pytest.raises(ResumeError, match="no checkpoint"):
            QUIET.run(ConsensusADMM(rho=0.05), problem, Stopping(rounds=4), resume=tmp_path / "none.npz")
        with pytest.raises(InputError, match="folder does not exist"):
            QUIET.run(ConsensusADMM(rho=0.05), problem, Stopping(rounds=4), save_to=tmp_path / "no" / "run.npz")

    def test_failed_write_keeps_the_older_file(self, problem, tmp_path, monkeypatch):
        file = tmp_path / "run.npz"
        QUIET.run(ConsensusADMM(rho=0.05), problem, Stopping(rounds=2), save_to=file)
        before = file.read_bytes()

        def full(*_args, **_kwargs):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("dpadmm.core.local.os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            QUIET.run(ConsensusADMM(rho=0.05), problem, Stopping(rounds=3), save_to=file)
        assert file.read_bytes() == before
        assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]


class TestInterrupt:
    @pytest.mark.parametrize(("method", "network"), METHODS)
    def test_nothing_finished_is_lost(self, problem, method, network, tmp_path):
        file = tmp_path / "run.npz"
        with pytest.raises(RunInterrupted) as caught:
            QUIET.run(method, problem, Stopping(rounds=9), network, noise=StopsIn(5), save_to=file)
        run = caught.value.run
        assert run.ending is Ending.INTERRUPTED
        assert run.rounds == 4
        assert run.history.rounds.tolist() == [1, 2, 3, 4]
        finished = QUIET.run(method, problem, Stopping(rounds=9), network, noise=KeyedNoise(), resume=file)
        whole = QUIET.run(method, problem, Stopping(rounds=9), network, noise=KeyedNoise())
        np.testing.assert_array_equal(finished.models, whole.models)

    def test_it_is_a_keyboard_interrupt(self):
        assert issubclass(RunInterrupted, KeyboardInterrupt)


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


class TokenMean:
    """A token that walks over agents: the inbox is the token, one agent computes per round."""

    needs_network = False

    def __init__(self, walk):
        self.walk = walk

    def check(self, problem, network):
        pass

    def drawn(self):
        return self

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

    def tail_from(self, rounds):
        return rounds

    def update(self, k, agents, state, inbox):
        return state

    def models(self, state, inbox):
        return state.u

    def estimate(self, state, inbox):
        return inbox[0]

    def residuals(self, agents, before, after):
        zero = np.zeros(after[1].shape[2])
        return Residuals(zero, zero)


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

    def test_silence_returns_values_unchanged(self):
        values = np.ones((2, 3, 1))
        assert Silence().perturb(MESSAGE, 1, np.arange(2), values) is values
