"""What every private method on a graph must keep: the optimum, the budget, the certificate, one silo = the batch."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from tests.contracts.certificates import by_agent
from tests.contracts.random_network import random_network

from dpadmm.core.release import PlannedNoise
from dpadmm.data.examples import logistic_table
from dpadmm.data.partition import by_sizes
from dpadmm.errors import InputError
from dpadmm.methods.base import Agents, by_name
from dpadmm.networks import complete, ring, star
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.protection import Protection
from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge, Squared
from dpadmm.problems.problem import EmpiricalRisk, Problem, Weighting
from dpadmm.problems.regularisers import ElasticNet
from dpadmm.problems.silos import Silos
from dpadmm.testing import LocalEngine, Recording, Stopping, plan_noise, run_private

ENGINE = LocalEngine(progress=False, threads=1, recording=Recording(every=5), tolerance=1e-11)
GRAPHS = [ring(5), star(5), complete(5), random_network(5, 0.6, seed=1)]
MU = 0.05

_TABLE = logistic_table(300, 6, rng=np.random.default_rng(5)).data
_SILOS = _TABLE.silos(by_sizes(300, [150, 90, 40, 15, 5], np.random.default_rng(6)))


def risk(loss=None, mu=MU):
    return EmpiricalRisk(_SILOS, Logistic() if loss is None else loss, mu=mu)


def pooled_optimum(mu=MU):
    """scikit-learn's answer with all records in one place."""
    model = LogisticRegression(C=1 / (300 * mu), fit_intercept=False, tol=1e-12, solver="newton-cholesky")
    return model.fit(_TABLE.features, _TABLE.labels).coef_.T


class KeyedNoise:
    """Noise that depends on message kind, round and agent only: the same in every replica, and for a silo alone."""

    def __init__(self, scale):
        self.scale = scale

    def perturb(self, kind, k, agents, values):
        draws = [np.random.default_rng([len(kind.name), k, int(i)]).standard_normal(values.shape[1]) for i in agents]
        return values + self.scale * np.stack(draws)[:, :, None]


class Remembered:
    """A hook that keeps what came in and what went out of another one."""

    def __init__(self, inner):
        self.inner, self.seen = inner, {}

    def perturb(self, kind, k, agents, values):
        out = self.inner.perturb(kind, k, agents, values)
        self.seen[kind.name, k] = (values.copy(), out.copy())
        return out


def neighbours(rng, sizes=(2, 3, 4), weighting=Weighting.POOLED, mu=0.01, records=None, loss=None):
    """Two problems that differ in record 0 of agent 0: as given, or nearly opposite along the second axis."""
    theta = rng.uniform(1.2, 1.57)
    if records is None:
        records = [np.cos(theta), np.sin(theta), 0.0], [np.cos(theta), -np.sin(theta), 0.0]
    features = rng.standard_normal((sum(sizes), 3))
    features /= np.maximum(1, np.linalg.norm(features, axis=1))[:, None]
    labels = rng.choice([-1.0, 1.0], sum(sizes))
    labels[0] = 1.0
    pair, cuts = [], np.cumsum(sizes)[:-1]
    for record in records:
        own = features.copy()
        own[0] = record
        silos = Silos.from_parts(np.split(own, cuts), np.split(labels, cuts), row_norm=1.0)
        pair.append(Problem.of(EmpiricalRisk(silos, loss or Logistic(), mu=mu), weighting))
    return pair


class ConvergenceContract:
    """Without noise a method on a graph finds the pooled optimum. Subclasses set `method` and, if need be, `rounds`."""

    method = None
    rounds = 200

    @pytest.mark.parametrize("network", GRAPHS, ids=repr)
    def test_zero_noise_reaches_the_pooled_optimum(self, network):
        run = ENGINE.run(self.method, Problem.of(risk()), Stopping(rounds=self.rounds), network)
        optimum = pooled_optimum()
        np.testing.assert_allclose(run.models, np.broadcast_to(optimum, run.models.shape), atol=1e-6)
        gaps = run.history.objective[:, 0] - Problem.of(risk()).objective(optimum)[0]
        keep = gaps > 1e-11
        slope, _ = np.polyfit(run.history.rounds[keep].astype(float), np.log(gaps[keep]), 1)
        assert slope < -0.02

    @pytest.mark.parametrize("loss", [SmoothedHinge(), Huber(0.5)], ids=lambda v: type(v).__name__)
    def test_zero_noise_is_optimal_for_other_losses_weights_and_a_shared_ridge(self, loss):
        problem = Problem.of(risk(loss, mu=0.0), Weighting.AVERAGE, ElasticNet(l2=0.05))
        run = ENGINE.run(self.method, problem, Stopping(rounds=self.rounds), complete(5))
        assert problem.optimality(run.estimate)[0] <= 1e-6


class PrivateContract:
    """Subclasses set `method`, `name`, `target`, and `unplanned_rounds` that need no noise."""

    method = None
    name = ""
    target = None
    unplanned_rounds = ()

    @pytest.mark.parametrize(("records", "silos"), [(1, 1), (2, 1), (1, 2), (3, 5)])
    def test_the_plan_spends_the_target_and_never_more(self, records, silos):
        problem = Problem.of(risk())
        asked = Protection(records_per_person=records, silos_per_person=silos)
        plan = plan_noise(self.method, problem, 7, self.target, star(5), engine=ENGINE, protection=asked)
        stated = plan.account()
        delta = getattr(self.target, "delta", 0.0)
        assert stated.protection == asked
        spent = stated.curve.epsilon(delta)
        assert self.target.epsilon * (1 - 1e-6) <= spent <= self.target.epsilon * (1 + 1e-12)
        if silos == 1:
            for curve in by_agent(plan).values():
                assert curve.epsilon(delta) == pytest.approx(self.target.epsilon, rel=1e-6)
        assert {release.round for release in plan} == set(range(1, 8)) - set(self.unplanned_rounds)

    def test_alone_equals_batch(self):
        problem, network, hook = Problem.of(risk()), star(5), KeyedNoise(0.01)
        agents = Agents.of(problem, network, tolerance=1e-12, threads=1)
        state, inbox = self.method.start(agents, replicas=2)
        rng = np.random.default_rng(0)
        for k in range(1, 5):
            together, messages = self.method.local_step(k, agents, state, inbox, hook)
            heard = self.method.exchange(k, problem, network, inbox, messages, hook)
            heard = heard + 0.1 * rng.standard_normal(heard.shape)
            after = self.method.update(k, agents, together, heard)
            for i in range(5):
                here = agents.alone(i, tolerance=1e-12)
                for r in range(2):
                    mine = type(state)(*(part[i : i + 1, :, r : r + 1] for part in state))
                    mine, message = self.method.local_step(k, here, mine, inbox[i : i + 1, :, r : r + 1], hook)
                    mine = self.method.update(k, here, mine, heard[i : i + 1, :, r : r + 1])
                    np.testing.assert_allclose(message[0, :, 0], messages[i, :, r], atol=1e-10)
                    for part, whole in zip(mine, after, strict=True):
                        np.testing.assert_allclose(part[0, :, 0], whole[i, :, r], atol=1e-10)
            state, inbox = after, heard

    def test_runs_privately_and_repeats_by_seed(self):
        problem, network = Problem.of(risk()), ring(5)

        def run(seed):
            return run_private(
                self.method, problem, 6, self.target, SimulatedSampler(seed=seed), network, engine=ENGINE
            )

        one, again, other = run(1), run(1), run(2)
        np.testing.assert_array_equal(one.run.models, again.run.models)
        assert np.abs(one.run.models - other.run.models).max() > 1e-4
        assert one.account.curve.epsilon(getattr(self.target, "delta", 0.0)) <= self.target.epsilon * (1 + 1e-12)

    def test_resumes_bit_for_bit(self):
        problem, network = Problem.of(risk()), ring(5)
        plan = plan_noise(self.method, problem, 9, self.target, network, engine=ENGINE)
        noise = PlannedNoise(plan, SimulatedSampler(seed=3))
        whole = ENGINE.run(self.method, problem, Stopping(rounds=9), network, noise)
        for stop in (3, 4):
            half = ENGINE.run(self.method, problem, Stopping(rounds=stop), network, noise)
            rest = ENGINE.run(self.method, problem, Stopping(rounds=9), network, noise, after=half)
            np.testing.assert_array_equal(rest.models, whole.models)

    def test_noise_is_drawn_for_every_planned_release_and_nothing_else(self):
        problem, network = Problem.of(risk()), ring(5)
        plan = plan_noise(self.method, problem, 6, self.target, network, engine=ENGINE)
        hook = Remembered(PlannedNoise(plan, SimulatedSampler(seed=3)))
        ENGINE.run(self.method, problem, Stopping(rounds=6), network, hook)
        assert set(hook.seen) == {(kind.name, k) for kind, k in plan.releases}
        for before, after in hook.seen.values():
            assert (np.abs(after - before).max(axis=(1, 2)) > 0).all()

    def test_it_is_in_the_registry(self):
        assert by_name()[self.name] is type(self.method)

    def test_what_cannot_be_protected_is_refused(self):
        with pytest.raises(InputError, match="no bound"):
            plan_noise(self.method, Problem.of(risk(Squared())), 3, self.target, ring(5))
        if not self.method.about.takes_any_regulariser:
            with pytest.raises(InputError, match=r"l1=0\.1"):
                plan_noise(self.method, Problem.of(risk(), regulariser=ElasticNet(l1=0.1)), 3, self.target, ring(5))
        with pytest.raises(InputError, match="a network"):
            plan_noise(self.method, Problem.of(risk()), 3, self.target)
