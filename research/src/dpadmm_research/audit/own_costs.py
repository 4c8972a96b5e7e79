"""CostAgents with costs of their own as something to attack: a shared resource, a consensus, a graph (C16 to C19).

Methods, certificates and projections are those of `dpadmm.minimise`. Every pair reaches its bound: an amount that goes
into one period, quadratics of one curvature, agents that pull beyond their region in opposite directions.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from dpadmm.costs import (
    Allocations,
    Amount,
    Consensus,
    CostAgents,
    Gap,
    Graph,
    Limits,
    Linear,
    Quadratics,
    Sharing,
    Whole,
)
from dpadmm.costs.setup import Setup
from dpadmm.networks import path
from dpadmm.privacy.protection import View
from dpadmm.problems.regularisers import Quadratic
from dpadmm_research.audit.attacks import Attack, LikelihoodRatio
from dpadmm_research.audit.insider import SILOS, Insider, among
from dpadmm_research.audit.subjects import MethodSubject
from dpadmm_research.audit.transcripts import Wire

OWN_COSTS = "own-costs"
SUMMARY, CERTIFICATE = "own costs: a shared resource, a consensus, a graph", "C16 to C19"

_ROUNDS, _AGENTS = 4, 3
_LOAD = Quadratic(np.eye(2), [0.0, 0.0])


def own_cost_subjects() -> tuple[MethodSubject, ...]:
    """Return the subjects, the headline pair first."""
    sharing, consensus, line = Sharing(_LOAD), Consensus(), Graph(path(_AGENTS))
    return (
        _subject("an amount that goes into one period", _needs, sharing, Amount(3.0)),
        _subject("a gradient that is moved everywhere", _pulls, sharing, Gap(1.0)),
        _subject("a linear term", _pulls, consensus, Linear(1.0)),
        _subject("agents that pull to opposite ends of their region", _far, consensus, Whole(Limits(-1.0, 1.0))),
        _subject("an amount, every agent with noise of its own", _needs, sharing, Amount(3.0), trust="nobody"),
        _subject("a linear term, on a path of agents", _pulls, line, Linear(1.0)),
        *(
            _subject(among("an amount", colluders), _needs, sharing, Amount(3.0), trust="masks", colluders=colluders)
            for colluders in (1, 0)
        ),
    )


def _subject(
    pair: str, make: Any, coupling: Any, protect: Any, trust: str = "sum", colluders: int = 0
) -> MethodSubject:
    n = SILOS if trust == "masks" else _AGENTS
    agents: list[CostAgents] = [make(n, side) for side in (0.0, 1.0)]
    setup = Setup.of(agents[0], coupling, protect, trust)
    views: dict[View, Attack] = {
        View.PUBLIC: LikelihoodRatio(Wire.BROADCASTS),
        View.EAVESDROPPER: LikelihoodRatio(),
        View.AGGREGATE: Insider(colluders),
    }
    protection = setup.protection
    if trust == "masks":
        protection = replace(protection, colluders=colluders)
    return MethodSubject(
        method=OWN_COSTS,
        pair=pair,
        worlds=(setup.problem(agents[0]), setup.problem(agents[1])),
        views={protection.view: views[protection.view]},
        algorithm=setup.method(_ROUNDS, {}),
        rounds=_ROUNDS,
        network=setup.network,
        protection=protection,
    )


def _needs(n: int, side: float) -> Allocations:
    """One agent needs 3 more; the first period is so much cheaper that all of it goes there."""
    return Allocations([2.0 + 3.0 * side, *[4.0] * (n - 1)], 0.0, 8.0, costs=(0.0, [-1000.0, 1000.0]))


def _pulls(n: int, side: float) -> Quadratics:
    return Quadratics(np.eye(2), [[side, 0.0], *[[0.3, -0.4]] * (n - 1)], (1.0, 1.0))


def _far(n: int, side: float) -> Quadratics:
    return Quadratics(np.eye(2), [[1e4 * (2 * side - 1)] * 2, *[[0.3, -0.4]] * (n - 1)], (1.0, 1.0))
