"""The interface that all methods share: start, local step, exchange, update.

An algorithm is a frozen set of hyper-parameters with pure functions over named states. Arrays carry a leading agent
axis and a trailing replica axis. A round is

    messages = local_step(...)      each participating agent, on its own data
    inbox    = exchange(...)        what the network or the coordinator makes of the messages
    state    = update(...)          each participating agent, without its data

The algorithm neither loops over rounds nor draws noise; `dpadmm.core.loop` does, and hands the noise in. A silo that
runs alone calls the same functions with `Agents` of length one.

`About` holds the facts that planner, federation, audit, command line and docs read; `Method` is the base class of all
methods, with defaults for what most of them share; `Setting` the public facts of a run, from which a method states
its releases before any noise is chosen.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import Enum
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar, cast, get_args, get_type_hints

import numpy as np

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import COORDINATOR, AgentReleases, Family, MechanismSpec, MessageKind
from dpadmm.noise.plan import NoisePlan
from dpadmm.privacy.certificates.local import MOST_PER_NOMINAL, LocalFunction, tolerance_of
from dpadmm.privacy.protection import ONE_RECORD, Certificate, NeighbouringRelation, Protection, Unit, View
from dpadmm.privacy.releases import FixedSizeSampling, PoissonSampling
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.problems.problem import LocalFunctions, Problem
from dpadmm.problems.regularisers import Regulariser, move_into_domain
from dpadmm.problems.silos import MOST_RIDGE, MOST_SHIFT, UNIT, most_additions, rounding_share
from dpadmm.solvers.composite import minimise_composite
from dpadmm.solvers.solver import (
    DEFAULT_TOLERANCE,
    Solution,
    Solver,
    Subproblem,
    WatchedSolver,
    prepare,
    prepare_release,
)

MESSAGE = MessageKind("message")
BROADCAST = MessageKind("broadcast")

State = TypeVar("State", bound=tuple[Floats, ...])


@dataclass(frozen=True)
class Agents:
    """What the agents that compute here know: their functions, and the public facts about the network.

    index: their numbers in the whole network. number: N, how many there are in all. degrees: neighbours of each
    (zeros where there is no graph). solver_index: which of the solver's agents they are. threads: for passes over many
    rows.
    """

    functions: LocalFunctions
    weights: Floats
    regulariser: Regulariser
    solver: Solver
    index: Ints
    degrees: Ints
    number: int
    solver_index: Ints | None = None
    threads: int = 1

    @classmethod
    def of(
        cls, problem: Problem, network: Network | None, tolerance: float, threads: int, *, is_release: bool = False
    ) -> "Agents":
        """Return all agents of a problem; in a release, whether a solve fails must not depend on the records."""
        prepared = prepare_release if is_release else prepare
        degrees = network.degrees if network is not None else np.zeros(problem.n_agents, dtype=np.int64)
        return cls(
            functions=problem.functions,
            weights=problem.weights,
            regulariser=problem.regulariser,
            solver=prepared(problem.functions, problem.weights, tolerance, threads),
            index=np.arange(problem.n_agents),
            degrees=np.asarray(degrees),
            number=problem.n_agents,
            threads=threads,
        )

    @property
    def dimension(self) -> int:
        """Dimension d."""
        return self.functions.dimension

    def take(self, positions: Ints | None) -> "Agents":
        """Return the agents at these positions only (None: all); the solver's preparation is shared."""
        if positions is None:
            return self
        return replace(
            self,
            functions=self.functions.take(positions),
            weights=self.weights[positions],
            index=self.index[positions],
            degrees=self.degrees[positions],
            solver_index=positions if self.solver_index is None else self.solver_index[positions],
        )

    def alone(self, agent: int, tolerance: float) -> "Agents":
        """Return one agent as it sits in its own silo: nothing of the others' data, a solver of its own."""
        here = self.take(np.array([agent]))
        return replace(here, solver=prepare(here.functions, here.weights, tolerance, 1), solver_index=None)

    def minimise(self, lin: Floats, centre: Floats, pull: Floats, start: Floats) -> Solution:
        """Return argmin w_i f_i(x) + lin'x + (pull/2) ||x - centre||^2 for all agents here."""
        return self.solver.solve(Subproblem(lin, centre, pull, start, self.solver_index))

    def minimise_with_regulariser(self, lin: Floats, centre: Floats, pull: Floats, start: Floats) -> Floats:
        """Return argmin w_i f_i(x) + g(x)/N + lin'x + (pull/2) ||x - centre||^2, a subgradient within the tolerance."""
        functions, weights, column = self.functions, self.weights[:, None, None], pull[:, None, None]
        least = column + weights * functions.constants.strong_convexity
        top = column + weights * functions.constants.smoothness
        inside = self.regulariser.prox(np.zeros((1, *lin.shape[1:])), 1.0)
        if isinstance(self.solver, WatchedSolver):  # around a point of the domain of g, which is public
            spare = 2 * float((top.max() + 1) * np.linalg.norm(inside, axis=1).max())
            self.solver.check(Subproblem(lin, centre, pull, start, self.solver_index), spare)
        return minimise_composite(
            lambda x: weights * functions.gradient(x) + lin + column * (x - centre),
            lambda v: self.regulariser.prox(v, 1 / (top * self.number)),
            least,
            top,
            start,
            self.solver.tolerance,
        )


class NoiseHook(Protocol):
    """Where noise enters a step; the loop hands it in. plan: how much, by message kind and round: a public fact."""

    plan: NoisePlan

    def perturb(self, kind: MessageKind, k: int, agents: Ints, values: Floats) -> Floats:
        """Return `values` (agents, d, R) with the noise of round k for this message kind added."""

    def total(self, kind: MessageKind, k: int, messages: Floats) -> Floats:
        """Return the noisy sum (1, d, R) of all agents' messages, for methods that read them through it alone."""


class OneNoise:
    """Takes sums as a trusted coordinator does: all messages added up, one noise on the sum; no plan says how much."""

    plan = NoisePlan({})

    def perturb(self, kind: MessageKind, k: int, agents: Ints, values: Floats) -> Floats:
        """Subclasses say which noise."""
        raise NotImplementedError

    def total(self, kind: MessageKind, k: int, messages: Floats) -> Floats:
        """Return the sum with the coordinator's noise."""
        return self.perturb(kind, k, np.array([COORDINATOR]), messages.sum(axis=0, keepdims=True))


class Silence(OneNoise):
    """No noise: the non-private run."""

    def perturb(self, kind: MessageKind, k: int, agents: Ints, values: Floats) -> Floats:
        """Return the values unchanged."""
        return values


class Residuals(NamedTuple):
    """How far from consensus (primal) and from rest (dual) a round ended, per replica."""

    primal: Floats
    dual: Floats


def take(state: State, positions: Ints | None) -> State:
    """Return the rows of a state that belong to these agents."""
    return state if positions is None else type(state)(*[part[positions] for part in state])


def put(state: State, positions: Ints | None, part: State) -> State:
    """Return the state with the rows of these agents replaced."""
    if positions is None:
        return part
    merged = []
    for whole, rows in zip(state, part, strict=True):
        copy = whole.copy()
        copy[positions] = rows
        merged.append(copy)
    return type(state)(*merged)


def spread(models: Floats) -> Floats:
    """Return the consensus error: the largest distance of an agent's model from the mean, per replica."""
    return np.sqrt(((models - models.mean(axis=0)) ** 2).sum(axis=1)).max(axis=0)


_TERM = 2.0**-38
"""What a term may be longer than its bound: rows by 1e-12 (`ROW_NORM_SLACK`), slopes and products by a few ulps."""

_CENTRED = 1 + 2 * MOST_SHIFT
"""How much longer than a row the numbers are that sums over centred sparse rows add up: `||s|| + ||a c||`."""


def with_rounding(
    local: LocalFunction, *, dimension: int, size: float, order: int = 1, ridge: float = 0.0
) -> LocalFunction:
    """Return the function with the rounding of `w/n` times a sum over its records as its tolerance.

    size: bound on the norm of one record's term. order: 1 for gradients, 2 for matrices, in which rows come twice.
    ridge: bound on the norm of what is added for a ridge.
    """
    most = MOST_PER_NOMINAL if not local.protection.relation.has_public_sizes else 1
    rows = float("inf") if local.is_of_persons else float(most * local.n_records)
    sums = rounding_share(most_additions(rows, dimension)) * _CENTRED**order * most * size
    error = sums + _TERM * size * local.replaced / local.n_records + 4 * UNIT * ridge
    return replace(local, solver_tolerance=local.weight * error)


def with_rounding_of_sum(silos: Sequence[LocalFunction], *, size: float, ridge: float = 0.0) -> list[LocalFunction]:
    """Return the functions, the rounding of their values' sum counted as well: in each, as any may be a person's."""
    if len(silos) == 1:
        return list(silos)
    most = MOST_PER_NOMINAL if not silos[0].protection.relation.has_public_sizes else 1
    error = rounding_share(len(silos) + 1) * sum(each.weight for each in silos) * (most * size + ridge)
    return [replace(each, solver_tolerance=tolerance_of(each.solver_tolerance) + error) for each in silos]


def longest_ridge(strong_convexity: float, gradient_bound: float) -> float:
    """Return the bound on a ridge's gradient where gradients are released, 0 without a ridge."""
    return MOST_RIDGE * gradient_bound if strong_convexity > 0 else 0.0


@dataclass(frozen=True)
class Setting:
    """The public facts a certificate rests on: sizes, weights, constants, the graph, the number of rounds.

    `tolerance` is the gradient norm to which subproblems are solved (C7); 0 leaves it out of the bounds, which then
    hold up to solver error. `protection` says who is protected from whom; its unit and view are a method's own to
    certify.
    `rounding` takes the tolerance's place where gradients are computed and nothing is solved; None is what is proved
    of the package's sums (C7).
    """

    problem: Problem
    rounds: int
    tolerance: float = DEFAULT_TOLERANCE
    network: Network | None = None
    protection: Protection = ONE_RECORD
    rounding: float | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        checks.count("rounds", self.rounds)
        checks.non_negative("tolerance", self.tolerance)
        self.protection.check_silos(self.problem.n_agents)

    @property
    def gradient_bound(self) -> float:
        """`G`, or an error that says what to do where no bound exists."""
        bound = self.problem.functions.constants.record_gradient
        if not np.isfinite(bound):
            raise InputError(
                "A record's gradient has no bound for this loss, so no guarantee exists. Use a loss with a bounded "
                "slope (Huber instead of squared; logistic; smoothed hinge)."
            )
        return bound

    @property
    def solver_tolerance(self) -> float | None:
        """What certificates count of the solver's error, None for nothing; an error where no solver gets that close."""
        loss = getattr(self.problem.functions, "linear_loss", None)
        if loss is not None and not np.isfinite(loss.curvature_bound):
            raise InputError(
                f"{loss} has corners, and no local problem with it is solved to a tolerance. Give it a width above 0, "
                "or use a method that takes gradients, such as noisy-gradients or dp-gd. Nothing was spent."
            )
        return self.tolerance or None

    @property
    def degrees(self) -> Ints:
        """How many neighbours each agent has, or an error where there is no network."""
        if self.network is None:
            raise InputError(
                "The certificate needs the network, because what an agent sends depends on its neighbours. Pass one."
            )
        return self.network.degrees

    def rows(
        self, certificate: Callable[[int], Certificate], rounds: Sequence[int] | None = None
    ) -> tuple[AgentReleases, ...]:
        """Return a row for each agent, with the same certificate in all these rounds (None: in every round)."""
        when = tuple(range(1, self.rounds + 1) if rounds is None else rounds)
        return tuple(AgentReleases(i, when, (certificate(i),) * len(when)) for i in range(self.problem.n_agents))

    def row(
        self, agent: int, certificate: Certificate, sampling: PoissonSampling | FixedSizeSampling | None = None
    ) -> AgentReleases:
        """Return the row of one agent with the same certificate in every round."""
        return AgentReleases(agent, tuple(range(1, self.rounds + 1)), (certificate,) * self.rounds, sampling)

    def local(self, agent: int, tolerance: float | None = None, is_clipped: bool = False) -> LocalFunction:
        """Return the public side of one agent's function, with its share g/N of a ridge regulariser.

        `tolerance` is the error of what it computes, that of the solver if left out. Where gradients are clipped, the
        loss need not bound them.
        """
        problem, weight = self.problem, float(self.problem.weights[agent])
        share = problem.regulariser.strong_convexity / problem.n_agents
        return LocalFunction(
            gradient_bound=problem.functions.constants.record_gradient if is_clipped else self.gradient_bound,
            n_records=int(problem.functions.sizes[agent]),
            weight=weight,
            strong_convexity=problem.functions.constants.strong_convexity + share / weight,
            solver_tolerance=self.solver_tolerance if tolerance is None else tolerance,
            protection=of_rows(self.protection),
            scores=problem.functions.constants.scores,
        )

    def local_gradient(self, agent: int, clip: float = math.inf) -> LocalFunction:
        """Return the public side of one agent's function where its gradient is taken, with what rounding costs (C7).

        clip: what a record's gradient is shortened to. Only where there is one, the loss need not bound gradients.
        """
        local = self.local(agent, tolerance=self.rounding or 0.0, is_clipped=clip < math.inf)
        if self.rounding is not None:
            return local
        size = min(local.gradient_bound, clip)
        constants = self.problem.functions.constants
        return with_rounding(
            local, dimension=self.problem.dimension, size=size, ridge=longest_ridge(constants.strong_convexity, size)
        )

    def local_curvature(self, agent: int) -> LocalFunction:
        """Return the public side of one agent's function where matrices are released, with what rounding costs (C7)."""
        size = self.problem.functions.constants.record_curvature
        return with_rounding(self.local(agent), dimension=self.problem.dimension, size=size, order=2)

    def local_gradients(self) -> list[LocalFunction]:
        """Return those of all agents, where their gradients are added up before the noise."""
        silos = [self.local_gradient(i) for i in range(self.problem.n_agents)]
        size = silos[0].gradient_bound
        if self.rounding is not None:
            return silos
        ridge = longest_ridge(self.problem.functions.constants.strong_convexity, size)
        return with_rounding_of_sum(silos, size=size, ridge=ridge)


ROWS = frozenset({Unit.RECORD, Unit.PERSON})
"""The units of methods that read rows through sums of gradients, whose bound a person with several rows keeps (C1)."""


def of_rows(protection: Protection) -> Protection:
    """Return what the bounds on rows are about: persons, where these are protected, else records."""
    return protection if protection.unit is Unit.PERSON else replace(protection, unit=Unit.RECORD)


class Topology(Enum):
    """Who talks to whom."""

    GRAPH = "graph of peers"
    STAR = "coordinator"
    WALK = "walking token"
    ALONE = "each silo once"


@dataclass(frozen=True, kw_only=True)
class About:
    """The facts about a method; none depends on a problem.

    name: what users call it. summary: one line. topology: who talks to whom.
    certificate: which theorem of docs/proofs protects it, "none" if nothing does.
    noise: the families of its noise, as it comes by default.
    trusts_coordinator: whether silos send messages without noise and only the coordinator adds noise.
    most_silos: how many it takes.
    is_sum: whether the coordinator reads the silos' messages through their sum alone, so that masks can hide the rest.
    hides_alone: whether one silo by itself adds the coordinator's noise, before anything leaves.
    is_curator: whether all data lie with one party, and only the last model leaves.
    is_federated: whether silos can run it by themselves.
    units: whom it can hide. relations: between which neighbours it is certified.
    takes_softmax: whether it takes losses of several scores (C13), asking functions for gradients or minimisers alone.
    takes_any_regulariser: else a ridge only. needs_ridge: whether it fails without one.
    longest_step: of a planned round, in units of 1/L; explicit gradient steps have one, proximal ones do not.
    why: what speaks for it, where the planner chooses it.
    noised: what the noise is added to. free: its numbers, and facts of its setting, that no certificate depends on.

    Derived: is_private: whether anything protects it. is_pure: whether its noise gives pure epsilon.
    has_gaussian_noise: whether its noise is Gaussian, on samples or not, so that a profile can be composed with it.
    is_one_shot: whether every silo speaks once, in the only round. is_one_descent: whether its mean model is a proximal
    descent with the sum of the silos' Gaussian noises, as of one silo. least_silos: how many silos it needs; on a graph
    somebody must be there to talk to.
    """

    name: str
    summary: str
    topology: Topology
    certificate: str = "none"
    noise: tuple[Family, ...] = (Family.GAUSSIAN,)
    trusts_coordinator: bool = False
    is_sum: bool = False
    hides_alone: bool = False
    is_curator: bool = False
    is_federated: bool = True
    units: frozenset[Unit] = frozenset({Unit.RECORD})
    relations: frozenset[NeighbouringRelation] = frozenset({NeighbouringRelation.REPLACE_ONE})
    takes_softmax: bool = False
    takes_any_regulariser: bool = False
    needs_ridge: bool = False
    most_silos: float = math.inf
    longest_step: float = math.inf
    why: str = "the best method in simulations"
    noised: str = "what is sent"
    free: frozenset[str] = frozenset()

    is_private: bool = field(init=False)
    is_pure: bool = field(init=False)
    has_gaussian_noise: bool = field(init=False)
    is_one_shot: bool = field(init=False)
    is_one_descent: bool = field(init=False)
    least_silos: int = field(init=False)

    def __post_init__(self) -> None:
        """Derive what is asked for often."""
        pure = [family.is_pure for family in self.noise]
        is_one_shot = self.topology is Topology.ALONE
        has_gaussian_descent = not (all(pure) or self.trusts_coordinator or is_one_shot)
        vars(self).update(
            is_private=self.certificate != "none",
            is_pure=all(pure),
            has_gaussian_noise=not any(pure),
            is_one_shot=is_one_shot,
            is_one_descent=has_gaussian_descent and self.longest_step == math.inf,
            least_silos=2 if self.topology is Topology.GRAPH else 1,
        )

    def views(self, n_silos: int) -> frozenset[View]:
        """Against whom it is certified among so many silos."""
        if n_silos == 1 and self.hides_alone:
            return frozenset(View) - {View.AGGREGATE}
        if not self.trusts_coordinator:
            return frozenset(View)
        return frozenset({View.PUBLIC, View.AGGREGATE} if self.is_sum else {View.PUBLIC})

    def why_not(self, protection: Protection) -> str | None:
        """Return why it is not certified for these neighbours and units, None if it is."""
        if protection.relation not in self.relations:
            return f"{self.name} is not certified for {protection.relation.value} neighbours"
        if protection.unit not in self.units:
            proved = " and ".join(sorted(unit.value for unit in self.units))
            return f"{self.name} is not certified for the unit {protection.unit.value} ({self.certificate}: {proved})"
        if protection.unit is Unit.USER and not protection.relation.has_public_sizes:
            return f"{self.name} is not certified for adding or removing users"
        return None


@dataclass(frozen=True)
class Common:
    """What all parties of a federation know beside the agreed numbers; `seed` draws what is drawn in public."""

    rounds: int
    n_silos: int
    network: Network | None
    seed: int


class Method(ABC):
    """The base of all methods: its description, its steps, and defaults for what most of them leave empty."""

    about: ClassVar[About]
    inbox_rows: ClassVar[int] = 1  # vectors in a coordinator's broadcast

    @classmethod
    def at_step(cls, setting: Setting, step: float) -> Self:
        """Return the method in this setting whose mean model moves by `step` times its gradient in a round.

        This is all the planner needs. Methods that do not say it take choices that no public fact settles.
        """
        raise InputError(f"No plan can be made for {cls.about.name}: choose its settings yourself.")

    @classmethod
    def numbers(cls) -> dict[str, float | None]:
        """Return the numbers that the terms of a federation may set, with their defaults (None: they must be set).

        These are the fields that hold a number, unless their default is None.
        """
        hints, found = get_type_hints(cls), {}
        for each in fields(cast(Any, cls)):
            is_number = bool({int, float} & {hints[each.name], *get_args(hints[each.name])})
            if is_number and each.default is not None:
                found[each.name] = None if each.default is MISSING else each.default
        return found

    @classmethod
    def typed(cls, numbers: Mapping[str, float]) -> dict[str, float]:
        """Return agreed numbers as the fields' types: files and messages know floats only; refuse parts of a count."""
        hints = get_type_hints(cls)
        counts = {name for name in numbers if hints.get(name) is int}
        broken = [name for name in counts if not float(numbers[name]).is_integer()]
        if broken:
            raise InputError(f"{cls.about.name} needs whole numbers for {', '.join(sorted(broken))}.")
        return {name: int(value) if name in counts else value for name, value in numbers.items()}

    @classmethod
    def agreed(cls, common: Common, **numbers: Any) -> Self:
        """Return the method that the terms of a federation describe."""
        return cls(**numbers)

    def with_drawn_batches(self) -> Self:
        """Return the method for one run: what every run draws for itself, such as secret batches, is drawn."""
        return self

    def with_secret(self, secret: int) -> Self:
        """Return the method as a silo runs it: what it draws for itself comes from its own secret."""
        return self

    def with_noise_in_sum(self) -> Self:
        """Return the method as it runs where nobody sees more of the messages than their sum."""
        if not self.about.is_sum:
            raise InputError(
                f"{self.about.name} reads messages one by one, so masks cannot hide them (C12). Use the view "
                "'eavesdropper', or a method that reads only their sum: leave topology and algorithm to the planner."
            )
        return self

    @abstractmethod
    def start(self, agents: Agents, replicas: int) -> tuple[Any, Floats]:
        """Return the agents' first state and first inbox; neither depends on the data."""

    @abstractmethod
    def local_step(self, k: int, agents: Agents, state: Any, inbox: Floats, noise: NoiseHook) -> tuple[Any, Floats]:
        """Touch the data: return the new state and the messages that leave the agents."""

    @abstractmethod
    def exchange(
        self, k: int, problem: Problem, network: Network | None, inbox: Floats, messages: Floats, noise: NoiseHook
    ) -> Floats:
        """Return the next inbox: neighbour sums on a graph, the broadcast of a coordinator."""

    def mechanisms(self, setting: Setting) -> tuple[MechanismSpec, ...]:
        """Return the private releases of a run, message kind by message kind; none, and nothing protects anybody."""
        return ()

    def message_size(self, dimension: int) -> int:
        """Return how many numbers its longest message has: as many as a model."""
        return dimension

    @property
    def needs_network(self) -> bool:
        """Whether messages go to neighbours on a graph."""
        return self.about.topology is Topology.GRAPH

    def check(self, problem: Problem, network: Network | None) -> None:  # noqa: B027 - there is nothing to refuse
        """Every problem is accepted."""

    def first_averaged_round(self, rounds: int) -> int:
        """The second half of the rounds."""
        return rounds // 2 + 1

    def participants(self, k: int) -> Ints | None:
        """Everyone, every round."""
        return None

    def update(self, k: int, agents: Agents, state: Any, inbox: Floats) -> Any:
        """Nothing is left to do once the inbox is there."""
        return state

    def models(self, state: Any, inbox: Floats) -> Floats:
        """The last broadcast, for every agent."""
        return np.broadcast_to(inbox[:1], (len(state[0]), *inbox.shape[1:]))

    def estimate(self, state: Any, inbox: Floats) -> Floats:
        """The last broadcast."""
        return inbox[0]

    def kept(self, state: Any, rounds: int) -> Floats | None:
        """What every agent keeps for itself, beside the models; it touches the data, and never leaves."""
        return None

    def project_model(self, problem: Problem, model: Floats) -> Floats:
        """Return models (d, R) moved into the domain of the regulariser: post-processing of what is released."""
        return move_into_domain(problem.regulariser, model)

    def residuals(self, agents: Agents, before: tuple[Any, Floats], after: tuple[Any, Floats]) -> Residuals:
        """Primal: distance from consensus. Dual: how far the estimate moved."""
        moved = np.linalg.norm(self.estimate(*after) - self.estimate(*before), axis=0)
        return Residuals(primal=spread(self.models(*after)), dual=moved)


def check_fit(method: Method, problem: Problem, network: Network | None) -> None:
    """Raise `InputError` if method, problem and network do not fit together; nothing has been computed yet."""
    if network is None:
        if method.needs_network:
            raise InputError(f"{type(method).__name__} needs a network; pass one, for example ring(n_agents).")
    elif not isinstance(network, Network):
        raise InputError(f"network must be a Network, got {type(network).__name__}; make one with Network(n, edges).")
    elif network.n_agents != problem.n_agents:
        raise InputError(
            f"The network has {network.n_agents} agents but the problem has {problem.n_agents}; the numbers must agree."
        )
    method.check(problem, network)


@lru_cache(maxsize=1)
def by_name() -> dict[str, type[Method]]:
    """Return all methods by name, those of this package first."""
    from dpadmm.methods import registry  # here, since the methods listed there import this file

    found: dict[str, type[Method]] = {}
    for method in (*registry.METHODS, *map(_loaded, entry_points(group="dpadmm.methods"))):
        origin = f"{method.__module__}.{method.__qualname__}" if isinstance(method, type) else repr(method)
        if not (isinstance(method, type) and issubclass(method, Method) and hasattr(method, "about")):
            raise InputError(f"{origin} is not a method: it must inherit from Method and have an `about`.")
        if method.about.name in found:
            raise InputError(f"Two methods are called {method.about.name!r}; rename {origin}.")
        if "__dataclass_fields__" not in vars(method):
            raise InputError(f"{origin} must be a frozen dataclass: write @dataclass(frozen=True) above it.")
        found[method.about.name] = method
    return found


def _loaded(point: EntryPoint) -> Any:
    """Return what another package announces; errors name the package."""
    try:
        return point.load()
    except Exception as problem:
        package = point.dist.name if point.dist is not None else "a package"
        raise InputError(
            f"The method {point.name!r} of {package} cannot be loaded from {point.value} ({type(problem).__name__}). "
            "Correct or remove that package."
        ) from problem


def federated() -> dict[str, type[Method]]:
    """Return the methods that silos can run by themselves."""
    return {name: method for name, method in by_name().items() if method.about.is_private and method.about.is_federated}


def plannable() -> dict[str, type[Method]]:
    """Return the methods that can be planned; the others need choices that no public fact settles."""
    return {
        name: method
        for name, method in sorted(by_name().items())
        if method.about.is_private and method.at_step.__func__ is not Method.at_step.__func__  # type: ignore[attr-defined]
    }
