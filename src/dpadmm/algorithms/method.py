"""What a method says about itself, once, for everybody: planner, federation, audit, command line and docs read it here.

`About` holds the facts; `Method` is the base class of all methods, with defaults for what most of them share.
"""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from dpadmm.algorithms.anatomy import Agents
from dpadmm.networks.graph import Network
from dpadmm.noise.promises import Family
from dpadmm.privacy.records import Unit, View
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.problems.problem import Problem


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
    trusts_coordinator: whether silos send bare messages and the only noise is the coordinator's.
    is_curator: whether all data lie with one party, and only the last model leaves.
    is_federated: whether silos can run it by themselves.
    units: whom it can hide. takes_any_regulariser: else a ridge only. needs_ridge: whether it fails without one.
    longest_step: of a planned round, in units of 1/L; explicit gradient steps have one, proximal ones do not.
    why: what speaks for it, where the planner chooses it.
    """

    name: str
    summary: str
    topology: Topology
    certificate: str = "none"
    noise: tuple[Family, ...] = (Family.GAUSSIAN,)
    trusts_coordinator: bool = False
    is_curator: bool = False
    is_federated: bool = True
    units: frozenset[Unit] = frozenset({Unit.RECORD})
    takes_any_regulariser: bool = False
    needs_ridge: bool = False
    longest_step: float = math.inf
    why: str = "the best method in simulations"

    @property
    def is_private(self) -> bool:
        """Whether anything protects it."""
        return self.certificate != "none"

    @property
    def is_pure(self) -> bool:
        """Whether its noise gives pure epsilon."""
        return not any(family in (Family.GAUSSIAN, Family.SAMPLED) for family in self.noise)

    @property
    def views(self) -> frozenset[View]:
        """Against whom it is certified."""
        return frozenset({View.PUBLIC}) if self.trusts_coordinator else frozenset(View)

    @property
    def least_silos(self) -> int:
        """How many silos it needs: on a graph somebody must be there to talk to."""
        return 2 if self.topology is Topology.GRAPH else 1


class Method:
    """The base of all methods: its description, and the parts of the anatomy that most of them leave empty."""

    about: ClassVar[About]

    @property
    def needs_network(self) -> bool:
        """Whether messages go to neighbours on a graph."""
        return self.about.topology is Topology.GRAPH

    def check(self, problem: Problem, network: Network | None) -> None:
        """Every problem will do."""

    def participants(self, k: int) -> Ints | None:
        """Everyone, every round."""
        return None

    def update(self, k: int, agents: Agents, state: Any, inbox: Floats) -> Any:
        """Nothing is left to do once the inbox is there."""
        return state
