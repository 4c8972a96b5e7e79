"""What agents, coupling and protection make together: a method, its public problem, and what is proved of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpadmm import checks
from dpadmm.checks import nearest, safe_repr
from dpadmm.core.spec import FinalModel, RunSpec
from dpadmm.costs.agents import Allocations, CostAgents, Quadratics, numbers
from dpadmm.costs.couplings import Consensus, Coupling, General, Graph, Maps, Sharing
from dpadmm.costs.families import Prox
from dpadmm.costs.protection import Amount, Gap, Linear, Protect, Whole
from dpadmm.costs.sharing import CoupledCosts, LocalSharingADMM, SharingADMM
from dpadmm.costs.splitting import GraphADMM, SplittingADMM
from dpadmm.errors import InputError
from dpadmm.methods.base import Method, Setting
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import Schedule, schedule_of
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.certificates.sharing import (
    constraint_gap,
    constraint_linear,
    enforced,
    sharing_amount,
    sharing_gap,
)
from dpadmm.privacy.protection import Certificate, Protection, View
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem, PublicFunctions, is_own
from dpadmm.problems.regularisers import ElasticNet, Regulariser, check_regulariser
from dpadmm.problems.silos import as_numbers

_TOLERANCE = 1e-6  # of what is protected: what solvers leave costs as little
TRUST = ("sum", "masks", "nobody")


@dataclass(frozen=True, eq=False)
class Setup:
    """Everything about a run but rounds and numbers.

    g: as it is planned with. maps, b, c: of the constraint. sent: numbers of the sum that leaves.
    names: of the method's numbers, with what stands for them where nothing can be simulated. schedule: of the noise.
    """

    agents: CostAgents
    coupling: Coupling
    protect: Whole | Gap | Linear | Amount
    trust: str
    g: Regulariser
    maps: Maps
    b: Floats
    c: Floats
    sent: int
    names: Mapping[str, float]
    network: Network | None = None
    schedule: Schedule | None = None
    tolerance: float = field(init=False)
    protection: Protection = field(init=False)

    def __post_init__(self) -> None:
        """Derive who is protected from whom; refuse what nothing is proved for."""
        views = {"sum": View.PUBLIC, "masks": View.AGGREGATE, "nobody": View.EAVESDROPPER}
        distance = getattr(self.protect, "distance", 1.0)
        vars(self).update(
            tolerance=_TOLERANCE * distance, protection=Protection(unit=self.protect.unit, view=views[self.trust])
        )

    @classmethod
    def of(
        cls,
        agents: CostAgents,
        coupling: Coupling,
        protect: Protect,
        trust: str,
        schedule: str | Schedule | None = None,
    ) -> "Setup":
        """Check that the parts fit, and that something is proved for them."""
        checks.one_of("trust", trust, TRUST)
        if not isinstance(agents, CostAgents):
            raise InputError(
                f"agents must be Allocations, Quadratics, CostFamily, Prox or Rows, got {safe_repr(agents)}."
            )
        if agents.n_agents < 2:
            raise InputError(f"Own costs need at least 2 agents, got {agents.n_agents}.")
        if not isinstance(protect, Whole | Gap | Linear | Amount):
            raise InputError("protect must be Whole, Gap, Linear or Amount; Record and Person are for Rows.")
        why = "" if isinstance(protect, Whole) else agents.covers(protect)
        if not why and isinstance(protect, Amount) and not isinstance(coupling, Sharing):
            why = "Amount is proved for Sharing only (C17)"
        if not why and trust == "nobody" and isinstance(coupling, Consensus | General):
            why = "for consensus and general constraints noise goes on a sum; trust 'sum' or 'masks', or use a Graph"
        if not why and isinstance(coupling, Graph) and isinstance(protect, Whole):
            why = "on a graph Gap and Linear are proved (C1); use Consensus for Whole"
        if not why and isinstance(agents, Prox) and (isinstance(coupling, General) or _has_maps(coupling)):
            why = "black boxes take no maps or metric; let each function include its own"
        if why:
            raise InputError(f"Nothing is proved for this: {why}. Nothing was spent.")
        made = replace(_coupled(cls, agents, coupling, protect, trust), schedule=schedule_of(schedule))
        made.certificates(1, {})  # refuses infinite bounds
        return made

    @property
    def has_sums(self) -> bool:
        """Whether one noisy sum of linear terms tells everything."""
        is_free = isinstance(self.agents, Quadratics) and self.agents.box is None
        is_common = isinstance(self.coupling, Consensus) and isinstance(self.protect, Linear)
        return is_free and is_common and self.agents.curvature[0] > 0

    def functions(self) -> PublicFunctions:
        """Return what is public of the agents."""
        costs = CoupledCosts(self.agents, self.maps, self.sent)
        region = getattr(self.protect, "region", None)
        declared = (f"region {type(region).__name__}",) if region is not None and is_own(region) else ()
        return PublicFunctions(
            costs.sizes, costs.dimension, costs.constants, declared=(*self.agents.declared, *declared)
        )

    def problem(self, agents: CostAgents | None = None) -> Problem:
        """Return the problem of these agents; the public side without any."""
        if agents is None:
            return Problem(self.functions(), np.ones(self.agents.n_agents), self.g)
        return Problem(CoupledCosts(agents, self.maps, self.sent), np.ones(agents.n_agents), self.g)

    def method(self, rounds: int, given: Mapping[str, float]) -> Method:
        """Return the method with these numbers."""
        strange = [name for name in given if name not in self.names]
        if strange:
            raise InputError(
                f"{', '.join(strange)}: no setting of this problem. Its numbers are {', '.join(self.names)}."
                f"{nearest(strange[0], self.names)}"
            )
        chosen: dict[str, Any] = {**self.names, **given}
        if isinstance(self.coupling, Graph):
            distance: float = self.protect.distance  # type: ignore[union-attr]
            projected = _projected_distance(self.agents, self.protect)
            return GraphADMM(distance=distance, projected_distance=projected, **chosen)
        region = self.protect.region if isinstance(self.protect, Whole) else None
        shared: dict[str, Any] = {"region": region, "half": rounds // 2 + 1}
        if isinstance(self.coupling, Sharing):
            kind = LocalSharingADMM if self.trust == "nobody" else SharingADMM
            return kind(certify=_sharing(self.agents, self.protect, self.maps, chosen["rho"]), **shared, **chosen)
        certify = _constraint(self.agents, self.protect, self.maps, self.b, chosen)
        return SplittingADMM(certify=certify, b=self.b, c=self.c, **shared, **chosen)

    def run(self, rounds: int, given: Mapping[str, float], target: Target) -> RunSpec:
        """Return the run."""
        setting = Setting(self.problem(), rounds, self.tolerance, self.network, self.protection)
        method, keeps_sums = self.method(rounds, given), self.network is None
        return RunSpec(method, setting, target, self.schedule, FinalModel.TAIL_AVERAGE, keeps_sums=keeps_sums)

    def certificates(self, rounds: int, given: Mapping[str, float]) -> tuple[Certificate, ...]:
        """Return the bounds of all rounds, the same for every agent but on a graph."""
        method = self.method(rounds, given)
        setting = Setting(self.problem(), rounds, self.tolerance, self.network, self.protection)
        return tuple(each for mechanism in method.mechanisms(setting) for each in mechanism.rows[0].certificates)


def _has_maps(coupling: Coupling) -> bool:
    return getattr(coupling, "maps", None) is not None or getattr(coupling, "metric", None) is not None


def _coupled(cls: type[Setup], agents: CostAgents, coupling: Coupling, protect: Any, trust: str) -> Setup:
    """Return the set-up of a coupling: its maps, its g, and numbers that need no simulation."""
    d, (low, high) = agents.dimension, agents.curvature
    bend = np.sqrt(low * high) if low > 0 and np.isfinite(high) else max(low, 1.0)
    none = np.zeros((0, 0))
    if isinstance(coupling, Sharing | Consensus | General):
        check_regulariser("g", coupling.g)
    match coupling:
        case Graph(network=network):
            if network.n_agents != agents.n_agents:
                raise InputError(f"The network has {network.n_agents} agents, but {agents.n_agents} costs are given.")
            if trust == "masks":
                raise InputError("On a graph every message is seen, so masks hide nothing: leave out trust.")
            eta = float(bend / (2 * network.degrees.mean()))
            maps = Maps(None, d)
            return cls(agents, coupling, protect, "nobody", ElasticNet(), maps, none, none, d, {"eta": eta}, network)
        case Sharing():
            maps = Maps.of(agents, coupling.maps)
            if coupling.margin is not None:
                numbers("margin", coupling.margin, (), (1,), (maps.rows,))
            if isinstance(agents, Allocations) and maps.isometry is None:
                raise InputError("Allocations take maps with A_i'A_i = a_i^2 I (C17), such as the identity.")
            bend = agents.n_agents * coupling.g.smoothness
            rho = float(bend) if 0 < bend < np.inf else max(low, 1e-3)
            return cls(agents, coupling, protect, trust, coupling.planned, maps, none, none, maps.rows, {"rho": rho})
        case Consensus():
            metric = None if coupling.metric is None else numbers("metric", coupling.metric, (d, d))
            maps = Maps.of(agents, metric)
            if maps.sizes.least == 0:
                raise InputError("The metric of a consensus must be square and invertible.")
            b, c = -np.eye(d) if metric is None else -np.array(metric), np.zeros(d)
            gamma = float(maps.sizes.least * maps.sizes.largest / bend)
            return cls(agents, coupling, protect, trust, coupling.g, maps, b, c, d, {"gamma": gamma, "lam": 0.5})
        case General():
            maps = Maps.of(agents, coupling.A)
            n, p, b, c = agents.n_agents, maps.rows, as_numbers("B", coupling.B), as_numbers("c", coupling.c)
            q = b.shape[-1] if b.ndim else 1
            b = np.array(numbers("B", b, (p, q) if b.ndim == 2 else (n, p, q)))
            c = np.array(numbers("c", c, (p,) if c.ndim == 1 else (n, p)))
            if np.linalg.matrix_rank(b.reshape(-1, q)) < q:
                raise InputError("B must have full column rank over all agents: z is not determined otherwise.")
            gamma = float(maps.sizes.least_nonzero * maps.sizes.largest / bend)
            sent = p if b.ndim == 2 else q
            return cls(agents, coupling, protect, trust, coupling.g, maps, b, c, sent, {"gamma": gamma, "lam": 0.5})
    raise InputError(f"coupling must be Consensus, Graph, Sharing or General, got {safe_repr(coupling)}.")


def _projected_distance(agents: CostAgents, protect: Protect) -> float | None:
    """Return how far gradients may be apart after curvatures are projected; None where nothing is."""
    return agents.projected_distance(protect.distance) if isinstance(protect, Gap) else None


Certify = Callable[[Setting], tuple[Certificate, ...]]


def _sharing(agents: CostAgents, protect: Protect, maps: Maps, rho: float) -> Certify:
    def certify(setting: Setting) -> tuple[Certificate, ...]:
        match protect:
            case Whole(region=region):
                return (enforced(diameter=region.diameter(maps.rows)),) * setting.rounds
            case Amount(distance=distance):
                return sharing_amount(
                    rounds=setting.rounds,
                    distance=distance,
                    width=agents.width if isinstance(agents, Allocations) else np.inf,
                    scale=maps.isometry or 0.0,
                    solver_tolerance=setting.tolerance,
                )
        return sharing_gap(
            rounds=setting.rounds,
            gradient_distance=protect.distance,  # type: ignore[union-attr]
            projected_distance=_projected_distance(agents, protect),
            penalty=rho,
            strong_convexity=agents.curvature[0],
            maps=maps.sizes,
            solver_tolerance=setting.tolerance,
        )

    return certify


def _constraint(agents: CostAgents, protect: Protect, maps: Maps, b: Floats, given: Mapping[str, float]) -> Certify:
    sent = 1.0 if b.ndim == 2 else float(np.linalg.norm(b, ord=2, axis=(1, 2)).max())

    def certify(setting: Setting) -> tuple[Certificate, ...]:
        if isinstance(protect, Whole):
            return (enforced(diameter=protect.region.diameter(maps.rows), sent=sent),) * setting.rounds
        shared: dict[str, Any] = {
            "rounds": setting.rounds,
            "step": given["gamma"],
            "relaxation": given["lam"],
            "strong_convexity": agents.curvature[0],
            "smoothness": agents.curvature[1],
            "maps": maps.sizes,
            "solver_tolerance": setting.tolerance,
            "sent": sent,
        }
        distance: float = protect.distance  # type: ignore[union-attr]
        # In a box linear terms are gradients like others: their own bound fails there.
        is_free = isinstance(agents, Quadratics) and np.isfinite(agents.curvature[1]) and maps.sizes.least > 0
        if isinstance(protect, Linear) and is_free:
            return constraint_linear(distance=distance, **shared)
        projected = _projected_distance(agents, protect)
        return constraint_gap(gradient_distance=distance, projected_distance=projected, **shared)

    return certify
