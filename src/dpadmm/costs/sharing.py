"""Agents that share a resource: private sharing ADMM, and the functions and solver that all couplings use.

    x_i = argmin f_i(x) + (rho/2)||A_i x - c_i + b||^2,  c_i <- A_i x_i;   s = (sum c_i + N(0, S^2 I))/N
    z = argmin g(Nz) + (N rho/2)||z - s - v||^2,  v <- v + s - z,  b = s - z + v

Of a round the noisy sum leaves, of which b is made; c_i and x_i stay with agent i.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dpadmm import checks
from dpadmm.costs.agents import CostAgents, check_solved
from dpadmm.costs.couplings import Maps
from dpadmm.costs.protection import Region
from dpadmm.errors import InputError
from dpadmm.methods.base import BROADCAST, MESSAGE, About, Agents, Method, NoiseHook, Setting, Topology
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import COORDINATOR, AgentReleases, Family, MechanismSpec
from dpadmm.privacy.certificates.sharing import without_trust
from dpadmm.privacy.protection import Certificate, Unit
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.problems.losses import Constants
from dpadmm.problems.problem import Problem
from dpadmm.solvers.solver import Solution, Subproblem, prepare


@dataclass(frozen=True, eq=False)
class CoupledCosts:
    """The agents' costs as functions of what they add to the coupling, `min {f_i(x): A_i x = w}` in R^p.

    sent: numbers of the sum that leaves; p if left out.
    """

    agents: CostAgents
    maps: Maps
    sent: int | None = None
    n_agents: int = field(init=False)
    dimension: int = field(init=False)
    sizes: Ints = field(init=False)
    constants: Constants = field(init=False)
    declared: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Read off what is public."""
        low, high = self.agents.curvature
        vars(self).update(
            n_agents=self.agents.n_agents,
            dimension=self.sent or self.maps.rows,
            sizes=np.ones(self.agents.n_agents, dtype=np.int64),
            constants=Constants(
                record_gradient=np.inf,
                record_curvature=high,
                smoothness=high,
                strong_convexity=low,
                assumption="costs of the agents' own",
            ),
            declared=self.agents.declared,
        )

    def value(self, w: Floats) -> Floats:
        """Refuse: costs are evaluated at the agents' own x."""
        raise InputError("Costs are evaluated at the agents' own x, not at what they add up to.")

    gradient = value

    def take(self, agents: Any) -> "CoupledCosts":
        """Return those of these agents."""
        return CoupledCosts(self.agents.take(agents), self.maps.take(agents), self.sent)


@dataclass(frozen=True, eq=False)
class CostSolver:
    """Solves for the agents' x, to a tolerance of the gradient (of allocations, of the distance)."""

    costs: CoupledCosts
    tolerance: float

    def find(self, pull: Floats, target: Floats, start: Floats, *, is_kept: bool = False) -> Floats:
        """Return `argmin f_i(x) + (pull_i/2)||A_i x - target_i||^2`, (N, d, R).

        is_kept: an agent whose solve fails keeps its start, and the run does not show it; else the run stops.
        """
        maps = self.costs.maps.given
        x = self.costs.agents.solve(maps, pull, np.ascontiguousarray(target), start, self.tolerance)
        if is_kept:
            return np.where(np.isfinite(x).all(axis=1, keepdims=True), x, start)
        return check_solved(x, self.tolerance)

    def solve(self, subproblem: Subproblem) -> Solution:
        """Solve for one x of all agents, where every A_i is the identity."""
        pull = subproblem.pull[:, None, None]
        x = self.find(subproblem.pull, subproblem.centre - subproblem.lin / pull, subproblem.start)
        shape = len(x), x.shape[2]
        return Solution(x, np.full(shape, self.tolerance), np.zeros(shape))


@prepare.register
def _(functions: CoupledCosts, weights: Floats, tolerance: float = 1e-9, threads: int = 1) -> CostSolver:
    return CostSolver(functions, tolerance)


class OwnState(NamedTuple):
    """own: c_i or u_i (N, p, R). x: the agents' x (N, d, R). total: of the x of the second half of the rounds."""

    own: Floats
    x: Floats
    total: Floats


def project(region: Region | None, values: Floats) -> Floats:
    """Return values in the region, if there is one; what is not finite becomes the projection of 0 (C19)."""
    if region is None:
        return values
    finite = np.isfinite(values).all(axis=1, keepdims=True)
    return region.project(np.where(finite, values, 0.0))


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnCosts(Method):
    """What methods on agents' own costs share: who keeps what, and how certificates become releases.

    certify: returns the certificates of all rounds, of the sum that leaves. region: what messages are projected on.
    half: the round from which agents average their x.
    """

    certify: Callable[[Setting], tuple[Certificate, ...]]
    region: Region | None = None
    half: int = 1

    def certificates(self, setting: Setting) -> tuple[Certificate, ...]:
        """Return those of all rounds, of the sum or of one agent's message."""
        found = self.certify(setting)
        return found if self.about.trusts_coordinator else (without_trust(found[0]),) * setting.rounds

    def mechanisms(self, setting: Setting) -> tuple[MechanismSpec, ...]:
        """One noisy sum a round, or every agent's message with noise of its own."""
        certificates, rounds = self.certificates(setting), tuple(range(1, setting.rounds + 1))
        if self.about.trusts_coordinator:
            return (MechanismSpec(BROADCAST, Family.GAUSSIAN, (AgentReleases(COORDINATOR, rounds, certificates),)),)
        row = AgentReleases(0, rounds, certificates)
        return (MechanismSpec(MESSAGE, Family.GAUSSIAN, (row,), is_common=True),)

    def own_start(self, agents: Agents, replicas: int) -> OwnState:
        """Zeros."""
        costs: Any = agents.functions
        own = np.zeros((costs.n_agents, costs.maps.rows, replicas))
        x = np.zeros((costs.n_agents, costs.agents.dimension, replicas))
        return OwnState(own, x, x.copy())

    def kept(self, state: OwnState, rounds: int) -> Floats:
        """Return the agents' own mean x of the second half of the rounds."""
        return state.total / (rounds + 1 - self.half)

    def models(self, state: OwnState, inbox: Floats) -> Floats:
        """What was broadcast, for everybody."""
        return np.broadcast_to(self.estimate(state, inbox), (len(state.x), *inbox.shape[1:]))


_ABOUT = About(
    name="sharing",
    summary="sharing ADMM, noise on the sum of the agents' parts",
    topology=Topology.STAR,
    certificate="C16, C17 or C19",
    noised="the sum of the agents' parts",
    trusts_coordinator=True,
    is_sum=True,
    is_federated=False,
    units=frozenset({Unit.FUNCTION, Unit.USER}),
    takes_any_regulariser=True,
)


@dataclass(frozen=True, eq=False, kw_only=True)
class SharingADMM(OwnCosts):
    """Sharing ADMM; the inbox holds b, v and the planned share z of the total (3, p, R).

    rho: penalty, > 0.
    """

    about: ClassVar[About] = _ABOUT
    inbox_rows: ClassVar[int] = 3

    rho: float

    def __post_init__(self) -> None:
        """Check the penalty."""
        checks.positive("rho", self.rho)

    def start(self, agents: Agents, replicas: int) -> tuple[OwnState, Floats]:
        """c = 0, s = 0 and its z."""
        state = self.own_start(agents, replicas)
        nothing = np.zeros((3, agents.dimension, replicas))
        return state, self._broadcast(agents.regulariser, agents.number, nothing, nothing[:1])

    def _broadcast(self, g: Any, n: int, inbox: Floats, s: Floats) -> Floats:
        v = inbox[1:2]
        z = g.prox(n * (s + v), n / self.rho) / n
        v = v + s - z
        return np.concatenate([s - z + v, v, z])

    def local_step(
        self, k: int, agents: Agents, state: OwnState, inbox: Floats, noise: NoiseHook
    ) -> tuple[OwnState, Floats]:
        """Every agent's x against the last broadcast; c_i is its part of the sum."""
        solver: Any = agents.solver
        pull = np.full(len(agents.index), self.rho)
        x = solver.find(pull, state.own - inbox[:1], state.x, is_kept=self.region is not None)
        c = project(self.region, solver.costs.maps.add_up(x))
        if not self.about.trusts_coordinator:
            c = noise.perturb(MESSAGE, k, agents.index, c)
        return OwnState(c, x, state.total + x if k >= self.half else state.total), c

    def exchange(
        self, k: int, problem: Problem, network: Network | None, inbox: Floats, messages: Floats, noise: NoiseHook
    ) -> Floats:
        """The noisy sum, then z and b: post-processing."""
        is_trusted = self.about.trusts_coordinator
        total = noise.total(BROADCAST, k, messages) if is_trusted else messages.sum(axis=0, keepdims=True)
        return self._broadcast(problem.regulariser, problem.n_agents, inbox, total / problem.n_agents)

    def estimate(self, state: OwnState, inbox: Floats) -> Floats:
        """The price of the resource, `rho v`, at which `g` and the agents agree."""
        return self.rho * inbox[1]

    def project_model(self, problem: Problem, model: Floats) -> Floats:
        """A price has no domain: g is a function of the total."""
        return model


@dataclass(frozen=True, eq=False, kw_only=True)
class LocalSharingADMM(SharingADMM):
    """The same where nobody is trusted: every agent adds noise to c_i and keeps the noisy c_i."""

    about: ClassVar[About] = replace(
        _ABOUT, name="sharing-local", noised="every agent's part", trusts_coordinator=False, is_sum=False
    )
