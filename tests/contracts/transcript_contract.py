"""Fed the same transcript of broadcasts, two neighbouring data sets stay within the certificate, round by round.

Additive noise: the values before noise are compared. Noise inside the objective: the noise that explains the same
broadcast, and the Jacobians of the map from noise to broadcast.
"""

from dataclasses import replace

import numpy as np
import pytest
from tests.contracts.graph_method_contract import neighbours

from dpadmm.methods.base import Agents, Setting, Silence
from dpadmm.networks import path, ring
from dpadmm.problems.problem import Weighting
from dpadmm.problems.regularisers import ElasticNet
from dpadmm.testing import LocalEngine, Recording, Stopping

TOLERANCE = 1e-12
EXACT = LocalEngine(progress=False, threads=1, recording=Recording(every=0), tolerance=TOLERANCE)


class Prescribed:
    """Overwrites what leaves with a prescribed transcript (round -> (N, d)), and keeps what came."""

    def __init__(self, transcript):
        self.transcript, self.came = transcript, {}

    def perturb(self, kind, k, agents, values):
        self.came[k] = values.copy()
        return self.transcript[k][agents][:, :, None]


def far_transcript(rng, rounds):
    """Broadcasts far out along the first axis, where both records are badly misclassified, and almost in agreement."""
    size, shake = 10.0 ** rng.uniform(0, 4), 10.0 ** rng.uniform(-6, 0)
    return {k: shake * rng.standard_normal((3, 3)) - size * np.eye(3)[0] for k in range(1, rounds + 1)}


def worst_c1_ratio(method, tries=30, rounds=4, loss=None, regulariser=None):
    """Return the largest distance of values before noise over the certificate's bound; it must not pass 1.

    Agent 0, whose record differs, is the end of a path: it has fewer neighbours than others, and moves further.
    """
    worst, rng, network = 0.0, np.random.default_rng(1), path(3)
    for t in range(tries):
        weighting = list(Weighting)[t % 3]
        mu = float(rng.choice([0.0, 0.01, 0.3]))
        pair = neighbours(rng, sizes=(1 + t % 3, 3, 4), weighting=weighting, mu=mu, loss=loss)
        if t % 2:  # of which a third belongs to every agent
            pair = [replace(problem, regulariser=regulariser or ElasticNet(l2=3.0)) for problem in pair]
        (mechanism,) = method.mechanisms(Setting(pair[0], rounds, TOLERANCE, network))
        hooks = [Prescribed(far_transcript(np.random.default_rng(t), rounds)) for _ in pair]
        ends = [EXACT.run(method, p, Stopping(rounds), network, h) for p, h in zip(pair, hooks, strict=True)]
        assert set(hooks[0].came) == set(mechanism.rows[0].rounds)
        for k, certificate in zip(mechanism.rows[0].rounds, mechanism.rows[0].certificates, strict=True):
            moved = np.linalg.norm(hooks[0].came[k] - hooks[1].came[k], axis=1)
            assert moved[1:].max() <= 1e-6 * certificate.bound
            assert moved[0, 0] <= certificate.bound * (1 + 1e-9)
            worst = max(worst, moved[0, 0] / certificate.bound)
        # All that leaves in other rounds is made of broadcasts.
        np.testing.assert_array_equal(ends[0].models, ends[1].models)
        np.testing.assert_array_equal(ends[0].estimate, ends[1].estimate)
        np.testing.assert_array_equal(ends[0].tail_average, ends[1].tail_average)
        for name, *values in zip(ends[0].state._fields, ends[0].state, ends[1].state, strict=True):
            if name != "guess":  # where the next solve starts; all else that agents remember is made of broadcasts
                np.testing.assert_array_equal(*values)
    return worst


class Tilt(Silence):
    """Linear noise as given, (N, d, R); whatever else is asked for stays as it is."""

    def __init__(self, b):
        self.b = b

    def perturb(self, kind, k, agents, values):
        return values + self.b[agents] if kind.name == "objective" else values


def weighted_gradient(problem, x):
    share = problem.regulariser.strong_convexity / problem.n_agents
    return problem.weights[:, None, None] * problem.functions.gradient(x) + share * x


class TiltContract:
    """C2 for methods whose local step is an objective perturbation in the rounds `tilted`."""

    method = None
    tilted = (1, 2, 3)

    def step(self, problem, k, x, a, inbox, b):
        """Return the broadcast of round k from these values, for linear noise b."""
        agents = Agents.of(problem, ring(3), tolerance=TOLERANCE, threads=1)
        state, _ = self.method.start(agents, x.shape[2])
        state = state._replace(x=x, a=a, guess=x)
        return self.method.local_step(k, agents, state, inbox, Tilt(b))[1]

    def certificate(self, problem, k):
        mechanism = self.method.mechanisms(Setting(problem, max(self.tilted), TOLERANCE, ring(3)))[0]
        row = mechanism.rows[0]
        assert set(self.tilted) <= set(row.rounds)
        return row.certificates[row.rounds.index(k)]

    def test_noise_that_explains_the_same_broadcast(self):
        worst, rng = 0.0, np.random.default_rng(2)
        for t in range(30):
            pair = neighbours(rng, sizes=(1 + t % 3, 3, 4), weighting=list(Weighting)[t % 3])
            k = self.tilted[t % len(self.tilted)]
            x = far_transcript(rng, 1)[1][:, :, None]
            a, b = (0.1 * rng.standard_normal((3, 3, 1)) for _ in range(2))
            inbox = ring(3).neighbour_sum(x)
            seen = self.step(pair[0], k, x, a, inbox, b)
            gap = weighted_gradient(pair[0], seen) - weighted_gradient(pair[1], seen)
            explained = self.step(pair[1], k, x, a, inbox, b + gap)
            np.testing.assert_allclose(explained, seen, rtol=1e-9, atol=1e-7)
            certificate, moved = self.certificate(pair[0], k), np.linalg.norm(gap, axis=1)
            assert moved[1:].max() == 0
            assert moved[0, 0] <= certificate.bound * (1 + 1e-9)
            worst = max(worst, moved[0, 0] / certificate.bound)
        assert worst >= 0.95  # else a bound half as large would pass as well

    def log_jacobian(self, problem, k, x, a, inbox, b):
        """Return log |det dx/db| of agent 0 by central differences: the columns are replicas."""
        h = 1e-4
        moves = np.zeros((3, 3, 6))
        moves[0, :, :3], moves[0, :, 3:] = h * np.eye(3), -h * np.eye(3)
        same = [np.repeat(part, 6, axis=2) for part in (x, a, inbox)]
        out = self.step(problem, k, *same, b + moves)[0]
        return np.linalg.slogdet((out[:, :3] - out[:, 3:]) / (2 * h))[1]

    def test_jacobians_of_the_map_from_noise_to_broadcast(self):
        worst, rng = 0.0, np.random.default_rng(3)
        for t in range(12):
            # The worst pair: a record at margin 0, where the loss curves most, against one far out, where it is flat.
            pair = neighbours(rng, sizes=(1, 3, 4), records=None if t % 2 else ([0.0, 1.0, 0.0], [1.0, 0.0, 0.0]))
            k = self.tilted[t // 2 % len(self.tilted)]
            x = np.repeat(-40.0 * np.eye(3)[:1], 3, axis=0)[:, :, None]
            a, inbox = np.zeros((3, 3, 1)), ring(3).neighbour_sum(x)
            b = -weighted_gradient(pair[0], x)  # the minimiser is then the centre x itself
            seen = self.step(pair[0], k, x, a, inbox, b)
            np.testing.assert_allclose(seen, x, atol=1e-6)
            other = b + weighted_gradient(pair[0], seen) - weighted_gradient(pair[1], seen)
            logs = [self.log_jacobian(p, k, x, a, inbox, n) for p, n in zip(pair, (b, other), strict=True)]
            certificate = self.certificate(pair[0], k)
            assert abs(logs[0] - logs[1]) <= certificate.log_jacobian + 1e-6
            worst = max(worst, abs(logs[0] - logs[1]) / certificate.log_jacobian)
        assert worst >= 0.9

    def test_the_planned_noise_is_the_noise_in_the_broadcast(self):
        """Given the broadcast, the optimality condition gives the linear noise back."""
        problem = neighbours(np.random.default_rng(0), sizes=(5, 6, 7), mu=0.1)[0]
        rng = np.random.default_rng(1)
        x, a, b = (rng.standard_normal((3, 3, 2)) for _ in range(3))
        inbox = ring(3).neighbour_sum(x)
        for k in self.tilted:
            seen = self.step(problem, k, x, a, inbox, b)
            eta = self.certified_penalty(k)[:, None, None]
            found = -(a + 4 * eta * seen - eta * (2 * x + inbox)) - weighted_gradient(problem, seen)
            np.testing.assert_allclose(found, b, atol=1e-9)

    def certified_penalty(self, k):
        """Return the penalty of round k for the three agents, written out by hand."""
        raise NotImplementedError

    def test_certificates_use_the_penalty_of_the_round(self):
        problem = neighbours(np.random.default_rng(0), sizes=(5, 6, 7), mu=0.1)[0]
        for k in self.tilted:
            modulus = 4 * self.certified_penalty(k)[0] + problem.weights[0] * 0.1
            certificate = self.certificate(problem, k)
            assert certificate.bound == pytest.approx(2 * problem.weights[0] / 5, rel=1e-12)
            assert certificate.log_jacobian == pytest.approx(np.log1p(problem.weights[0] * 0.25 / (5 * modulus)))
            assert certificate.jacobian_free_rate == pytest.approx(1 / modulus)
