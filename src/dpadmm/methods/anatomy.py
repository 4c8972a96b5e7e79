"""The anatomy that all methods share: start, local step, exchange, update.

An algorithm is a frozen set of hyper-parameters with pure functions over named states. Arrays carry a leading agent
axis and a trailing replica axis. A round is

    messages = local_step(...)      each participating agent, on its own data
    inbox    = exchange(...)        what the network or the coordinator makes of the messages
    state    = update(...)          each participating agent, without its data

The algorithm neither loops over rounds nor draws noise; `dpadmm.core.loop` does, and hands the noise in. A silo that
runs alone calls the same functions with `Agents` of length one.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import COORDINATOR, Slot
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.problems.functions import LocalFunctions
from dpadmm.problems.problem import Problem
from dpadmm.problems.regularisers import Regulariser
from dpadmm.solvers.solution import Solution, Solver, Subproblem, prepare, prepare_release

MESSAGE = Slot("message")
BROADCAST = Slot("broadcast")

State = TypeVar("State", bound=tuple[Floats, ...])


@dataclass(frozen=True)
class Agents:
    """What the agents that compute here know: their functions, and the public facts about the network.

    index: their numbers in the whole network. number: N, how many there are in all. degrees: neighbours of each
    (zeros where there is no graph). seats: which of the solver's agents they are. threads: for passes over many rows.
    """

    functions: LocalFunctions
    weights: Floats
    regulariser: Regulariser
    solver: Solver
    index: Ints
    degrees: Ints
    number: int
    seats: Ints | None = None
    threads: int = 1

    @classmethod
    def of(
        cls, problem: Problem, network: Network | None, tolerance: float, threads: int, *, is_release: bool = False
    ) -> "Agents":
        """Seat all agents of a problem; in a release, whether a solve fails must not depend on the records."""
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
            seats=positions if self.seats is None else self.seats[positions],
        )

    def alone(self, agent: int, tolerance: float) -> "Agents":
        """Return one agent as it sits in its own silo: nothing of the others' data, a solver of its own."""
        here = self.take(np.array([agent]))
        return replace(here, solver=prepare(here.functions, here.weights, tolerance, 1), seats=None)

    def minimise(self, lin: Floats, centre: Floats, pull: Floats, start: Floats) -> Solution:
        """Return argmin w_i f_i(x) + lin'x + (pull/2) ||x - centre||^2 for all agents here."""
        return self.solver.solve(Subproblem(lin, centre, pull, start, self.seats))

    def minimise_with_share(self, lin: Floats, centre: Floats, pull: Floats, start: Floats) -> Solution:
        """As `minimise`, with the agent's share g/N of a ridge regulariser added (graph methods have no prox)."""
        total = pull + self.regulariser.strong_convexity / self.number
        return self.minimise(lin, centre * (pull / total)[:, None, None], total, start)


class NoiseHook(Protocol):
    """Where noise enters a step; the loop hands it in."""

    def perturb(self, slot: Slot, k: int, agents: Ints, values: Floats) -> Floats:
        """Return `values` (agents, d, R) with the noise of round k for this slot added."""

    def total(self, slot: Slot, k: int, messages: Floats) -> Floats:
        """Return the noisy sum (1, d, R) of all agents' messages, for methods that read them through it alone."""


class OneNoise:
    """Takes sums as a trusted coordinator does: all messages added up, one noise on the sum."""

    def perturb(self, slot: Slot, k: int, agents: Ints, values: Floats) -> Floats:
        """Subclasses say which noise."""
        raise NotImplementedError

    def total(self, slot: Slot, k: int, messages: Floats) -> Floats:
        """Return the sum with the coordinator's noise."""
        return self.perturb(slot, k, np.array([COORDINATOR]), messages.sum(axis=0, keepdims=True))


class Silence(OneNoise):
    """No noise: the non-private run."""

    def perturb(self, slot: Slot, k: int, agents: Ints, values: Floats) -> Floats:
        """Return the values unchanged."""
        return values


class Residuals(NamedTuple):
    """How far from consensus (primal) and from rest (dual) a round ended, per replica."""

    primal: Floats
    dual: Floats


def take(state: State, positions: Ints | None) -> State:
    """Return the rows of a state that belong to these agents."""
    return state if positions is None else _rebuilt(state, [part[positions] for part in state])


def put(state: State, positions: Ints | None, part: State) -> State:
    """Return the state with the rows of these agents replaced."""
    if positions is None:
        return part
    merged = []
    for whole, rows in zip(state, part, strict=True):
        copy = whole.copy()
        copy[positions] = rows
        merged.append(copy)
    return _rebuilt(state, merged)


def _rebuilt(state: Any, parts: list[Floats]) -> Any:
    return type(state)(*parts)


def spread(models: Floats) -> Floats:
    """Return the consensus error: the largest distance of an agent's model from the mean, per replica."""
    return np.sqrt(((models - models.mean(axis=0)) ** 2).sum(axis=1)).max(axis=0)
