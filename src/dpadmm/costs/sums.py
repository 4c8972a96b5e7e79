"""One noisy sum of the agents' linear terms, where that tells everything: quadratics with public curvatures."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from dpadmm.core.spec import ReleaseFacts, RunSpec, plan_sum
from dpadmm.costs.agents import Quadratics, accelerated, check_solved
from dpadmm.noise.mechanisms import MessageKind
from dpadmm.noise.plan import NoisePlan, vector_on_grid
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.certificates.sharing import linear_sum
from dpadmm.problems.arrays import Floats
from dpadmm.problems.regularisers import Regulariser


@dataclass(frozen=True)
class LinearTerms:
    """The sum of all q_i (d,), with one noise; distance: how far one of them may move."""

    target: Target
    distance: float
    dimension: int
    name: ClassVar[str] = "linear terms"
    kind: ClassVar[MessageKind] = MessageKind("linear terms")
    round: ClassVar[int] = 1
    reads: ClassVar[tuple[RunSpec, ...]] = ()

    def noise_plan(self, facts: ReleaseFacts, is_secure: bool) -> NoisePlan:
        """Return the release of the sum."""
        on_grid = partial(vector_on_grid, dimension=self.dimension, shares=facts.shares)
        certificate = linear_sum(distance=self.distance)
        return plan_sum(self.kind, 1, self.target, facts, lambda n_records: certificate, on_grid, is_secure=is_secure)

    def values(self, source: Any, released: Mapping[str, Any]) -> Floats:
        """Return every agent's q_i."""
        found: Floats = source.given[0].functions.agents.q
        return found

    def read(self, noisy: Floats, noise_std: float, released: Mapping[str, Any]) -> Floats:
        """Return the noisy sum."""
        return noisy


def minimise_total(agents: Quadratics, total: Floats, g: Regulariser) -> Floats:
    """Return argmin of `sum x'P_i x/2 + total'x + g(x)`, of public curvatures and the noisy sum alone."""
    hessian, top = agents.P.sum(axis=0), agents.n_agents * agents.curvature[1]
    least = agents.n_agents * agents.curvature[0]
    tolerance = 1e-9 * top * max(1.0, float(np.abs(total).max()) / max(least, 1e-9 * top))
    x = accelerated(
        lambda y: hessian @ y + total[None, :, None],
        lambda y: g.prox(y, 1 / top),
        np.zeros((1, len(total), 1)),
        top,
        least,
        tolerance,
    )
    return check_solved(x, tolerance)[0, :, 0]
