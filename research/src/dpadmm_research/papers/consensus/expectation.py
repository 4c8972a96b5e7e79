"""The expected error of consensus DP-ADMM without drawing noise.

As long as no coordinate of z changes its sign, the l1 prox is a shift and a run is affine in its noises, which are
independent with mean 0 and `E vv' = (d + 1)/alpha^2 I` (with a quadratic regulariser it always is). With `Dx_i(j)` the
change of x_i, j iterations after a unit impulse on the broadcast in direction e_m (the iteration that sends it is the
first), and alpha_l the rate of the l-th broadcast,

    E[error(K)] = error without noise(K) + sum_l (d + 1)/alpha_l^2 g(K - l + 1),   g(j) = mean_i sum_m ||Dx_i(j)||^2

in units of ||x*||^2, and the same with the broadcasts themselves in place of x_i. One run with d + 1 replicas, d of
them kicked once, gives all terms for every K and every budget.
"""

from dataclasses import dataclass

import numpy as np

from dpadmm.errors import InputError
from dpadmm.methods.base import Agents, OneNoise
from dpadmm.noise.mechanisms import MessageKind
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.solvers.solver import one_blas_thread
from dpadmm_research.papers.consensus.bench import TOLERANCE, Bench

_KICK = 1e-3


class _OneKick(OneNoise):
    """Adds a small multiple of e_m to the first broadcast of replica m + 1; replica 0 goes without."""

    def perturb(self, kind: MessageKind, k: int, agents: Ints, values: Floats) -> Floats:
        """Return the values, kicked in round 1 only."""
        out = values.copy()
        if k == 1:
            out[0, :, 1:] += _KICK * np.eye(values.shape[1])
        return out


@dataclass(frozen=True)
class Response:
    """bare[K-1]: error of x(K) without noise. gain[j-1]: g(j). sent_bare, sent_gain: the same of the K-th broadcast.

    All relative to ||x*||^2.
    """

    dimension: int
    bare: Floats
    gain: Floats
    sent_bare: Floats
    sent_gain: Floats

    def error(self, rates: Floats) -> float:
        """Return the expected error of x(K) after K - 1 spherical Laplace broadcasts with these rates."""
        iterations = self._checked(rates) + 1
        ages = np.arange(iterations, 1, -1)  # x(K) answers the broadcast of iteration K - 1
        return float(self.bare[iterations - 1] + (self.dimension + 1) * np.sum(self.gain[ages - 1] / rates**2))

    def released(self, rates: Floats) -> float:
        """Return the expected error of the last of these broadcasts, which may be published."""
        sent = self._checked(rates)
        ages = np.arange(sent, 0, -1)
        return float(self.sent_bare[sent - 1] + (self.dimension + 1) * np.sum(self.sent_gain[ages - 1] / rates**2))

    def _checked(self, rates: Floats) -> int:
        if len(rates) >= len(self.bare):
            raise InputError(
                f"The response was measured for {len(self.bare)} iterations, got {len(rates) + 1}.", setting="rates"
            )
        return len(rates)


def response(bench: Bench, iterations: int) -> Response:
    """Measure the response of a bench for up to K = `iterations`.

    The rounds are the engine's, written out since the agents' models are wanted after each of them.
    """
    method, problem, noise, size = bench.method, bench.problem, _OneKick(), bench.radius**2
    bare, gain, sent_bare, sent_gain = np.zeros((4, iterations))
    with one_blas_thread():
        agents = Agents.of(problem, None, TOLERANCE, threads=1)
        state, inbox = method.start(agents, bench.star.dimension + 1)
        for k in range(iterations):
            state, messages = method.local_step(k + 1, agents, state, inbox, noise)
            inbox = method.exchange(k + 1, problem, None, inbox, messages, noise)
            bare[k], gain[k] = _errors(state.x, bench.optimum, size)
            sent_bare[k], sent_gain[k] = _errors(inbox, bench.optimum, size)
    return Response(bench.star.dimension, bare, gain, sent_bare, sent_gain)


def _errors(points: Floats, optimum: Floats, size: float) -> tuple[float, float]:
    """Return the mean over the agents of the bare error and of the summed squared impulse responses."""
    moved = (points[:, :, 1:] - points[:, :, :1]) / _KICK
    bare = np.square(points[:, :, 0] - optimum).sum(axis=1).mean()
    return float(bare / size), float(np.square(moved, out=moved).sum(axis=(1, 2)).mean() / size)
