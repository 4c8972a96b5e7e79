"""The expected error of consensus DP-ADMM without drawing noise.

As long as no coordinate of z changes its sign, the l1 prox is a shift and a run is affine in its noises, which are
independent with mean 0 and `E vv' = (d + 1)/alpha^2 I`. With `Dx_i(j)` the change of x_i, j steps after a unit impulse
on the broadcast in direction e_m,

    E[error(K)] = error without noise(K) + sum_l (d + 1)/alpha(l)^2 g(K - l + 1),   g(j) = mean_i sum_m ||Dx_i(j)||^2

in units of ||x*||^2. One run with d + 1 replicas, d of them kicked once, gives both terms for every K and every budget.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpadmm.engines.local import LocalEngine, Recording, Stopping
from dpadmm.errors import InputError
from dpadmm.experiments.consensus.bench import TOLERANCE, Bench
from dpadmm.noise.draws import Slot
from dpadmm.noise.plan import NoisePlan
from dpadmm.privacy.records import SphericalLaplaceRelease
from dpadmm.problems.arrays import Floats, Ints

_KICK = 1e-3


class _OneKick:
    """Adds a small multiple of e_m to the first broadcast of replica m + 1; replica 0 goes without."""

    def perturb(self, slot: Slot, k: int, agents: Ints, values: Floats) -> Floats:
        """Return the values, kicked in round 1 only."""
        out = values.copy()
        if k == 1:
            out[0, :, 1:] += _KICK * np.eye(values.shape[1])
        return out


@dataclass(frozen=True)
class Response:
    """bare[K-1]: error without noise after K iterations. gain[j-1]: g(j); both relative to ||x*||^2."""

    dimension: int
    bare: Floats
    gain: Floats

    def error(self, plan: NoisePlan) -> float:
        """Return the expected error of x(K) for a plan of K - 1 spherical Laplace broadcasts."""
        rates = [release.rate for release in plan if isinstance(release, SphericalLaplaceRelease)]
        iterations = len(rates) + 1
        if iterations > len(self.bare):
            raise InputError(f"The response was measured for {len(self.bare)} iterations, got {iterations}.")
        noise = sum((self.dimension + 1) / rate**2 * self.gain[-1 - place] for place, rate in self._aged(rates))
        return float(self.bare[iterations - 1] + noise)

    def _aged(self, rates: Sequence[float]) -> list[tuple[int, float]]:
        """Pair each rate with the place of its age, counted from the end of `gain`: the last broadcast has age 2."""
        ages = range(len(rates) + 1, 1, -1)
        return [(len(self.gain) - age, rate) for age, rate in zip(ages, rates, strict=True)]


def response(bench: Bench, iterations: int) -> Response:
    """Measure the response of a bench for up to K = `iterations`."""
    engine = LocalEngine(
        replicas=bench.star.dimension + 1, tolerance=TOLERANCE, threads=1, recording=Recording(0), progress=False
    )
    bare, gain, saved, size = [], [], None, bench.radius**2
    for k in range(1, iterations + 1):
        run = engine.run(bench.method, bench.problem, Stopping(k), noise=_OneKick(), resume=saved)
        saved = run.checkpoint
        x = saved.state[0]
        bare.append(np.square(x[:, :, 0] - bench.optimum).sum(axis=1).mean() / size)
        gain.append(np.square((x[:, :, 1:] - x[:, :, :1]) / _KICK).sum(axis=(1, 2)).mean() / size)
    return Response(bench.star.dimension, np.array(bare), np.array(gain))
