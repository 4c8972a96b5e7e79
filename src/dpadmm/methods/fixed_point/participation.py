"""Who takes part in which round: drawn in full before anything is computed, and public.

Noise is calibrated to the largest number of participations, so the schedule has to be known first. The orders of the
fixed-point paper (its Section B.3): all blocks in every round is `None` wherever a participation is asked for (z is
computed once a round, so the order of the blocks in it does not matter); here are the others.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.networks.graph import Network
from dpadmm.networks.walks import WalkKind, check_generator, participations, random_walk, uniform_walk
from dpadmm.problems.arrays import Ints


@dataclass(frozen=True, eq=False, repr=False)
class Participation:
    """The agents of each round: `table[k-1]` holds those of round k, without repetition, all rounds equally many.

    Parameters
    ----------
    n_agents: N, at least 1. table: (rounds, m) integers from 0 to N - 1.

    >>> Participation.in_turn(3, rounds=4).table.tolist()
    [[0], [1], [2], [0]]
    """

    n_agents: int
    table: Ints

    def __post_init__(self) -> None:
        """Refuse foreign agents, repetitions within a round, and empty schedules."""
        table = np.array(self.table)
        if table.ndim != 2 or table.size == 0 or table.dtype.kind not in "iu":
            raise InputError(f"table must be (rounds, m) whole numbers, got shape {table.shape} of {table.dtype}.")
        participations(table.ravel(), checks.count("n_agents", self.n_agents))
        table = np.sort(table.astype(np.int64), axis=1)
        if np.any(table[:, 1:] == table[:, :-1]):
            raise InputError("An agent may take part only once per round; some round names an agent twice.")
        table.flags.writeable = False
        object.__setattr__(self, "table", table)

    @classmethod
    def in_turn(cls, n_agents: int, rounds: int) -> "Participation":
        """One block a round, in the fixed order 0, 1, ..., N-1, 0, ..."""
        n = checks.count("n_agents", n_agents)
        return cls(n, np.arange(checks.count("rounds", rounds))[:, None] % n)

    @classmethod
    def permuted(cls, n_agents: int, rounds: int, rng: np.random.Generator) -> "Participation":
        """One block a round; every N rounds go through a fresh random permutation."""
        n, k = checks.count("n_agents", n_agents), checks.count("rounds", rounds)
        sweeps = [check_generator(rng).permutation(n) for _ in range(-(-k // n))]
        return cls(n, np.concatenate(sweeps)[:k, None])

    @classmethod
    def one_at_random(cls, n_agents: int, rounds: int, rng: np.random.Generator) -> "Participation":
        """One block a round, uniform and independent: the token on the complete graph (Algorithm 4)."""
        return cls(n_agents, uniform_walk(n_agents, rounds, rng)[:, None])

    @classmethod
    def subsets(cls, n_agents: int, m: int, rounds: int, rng: np.random.Generator) -> "Participation":
        """m blocks a round, a uniformly random subset drawn afresh (Algorithm 3)."""
        n = checks.count("n_agents", n_agents)
        if checks.count("m", m) > n:
            raise InputError(f"At most all {n} agents can take part in a round, got m = {m}.")
        draw = check_generator(rng).choice
        return cls(n, np.stack([draw(n, size=m, replace=False) for _ in range(checks.count("rounds", rounds))]))

    @classmethod
    def walk(
        cls,
        network: Network,
        rounds: int,
        rng: np.random.Generator,
        start: int | None = None,
        kind: WalkKind = WalkKind.METROPOLIS_HASTINGS,
    ) -> "Participation":
        """The holder of a token that walks along the edges of a connected network; see `networks.random_walk`."""
        return cls(network.n_agents, random_walk(network, rounds, rng, start, kind)[:, None])

    @classmethod
    def of(cls, n_agents: int, rounds: Sequence[Sequence[int]]) -> "Participation":
        """Give the agents round by round, equally many in each."""
        try:
            return cls(n_agents, np.array(rounds))
        except ValueError as problem:
            raise InputError(f"Every round must name the same number of agents ({problem}).") from problem

    @property
    def rounds(self) -> int:
        """How many rounds were drawn."""
        return len(self.table)

    def agents(self, k: int) -> Ints:
        """Return who takes part in round k = 1, 2, ..."""
        if not 1 <= k <= self.rounds:
            raise InputError(f"The schedule was drawn for rounds 1 to {self.rounds}, got {k}. Draw a longer one.")
        return self.table[k - 1]

    def check(self, n_agents: int) -> None:
        """Refuse a schedule that was drawn for another number of agents."""
        if self.n_agents != n_agents:
            raise InputError(
                f"The schedule is for {self.n_agents} agents, but the problem has {n_agents}. Draw it for {n_agents}."
            )

    def covers(self, rounds: int) -> None:
        """Refuse a run that is longer than the schedule."""
        if rounds > self.rounds:
            raise InputError(f"The schedule was drawn for {self.rounds} rounds, got {rounds}. Draw a longer one.")

    def rounds_of(self, rounds: int) -> list[tuple[int, ...]]:
        """Return, agent by agent, the rounds up to `rounds` in which it takes part."""
        self.covers(rounds)
        who, when = self.table[:rounds].ravel(), np.repeat(np.arange(1, rounds + 1), self.table.shape[1])
        order = np.argsort(who, kind="stable")
        edges = np.searchsorted(who[order], np.arange(1, self.n_agents))
        return [tuple(part.tolist()) for part in np.split(when[order], edges)]

    def counts(self, rounds: int) -> Ints:
        """Return how often each agent takes part in the first `rounds` rounds."""
        self.covers(rounds)
        return participations(self.table[:rounds].ravel(), self.n_agents)

    def __repr__(self) -> str:
        """Name the schedule by its fingerprint: runs with different schedules are different runs."""
        mark = hashlib.sha256(self.table.tobytes()).hexdigest()[:16]
        return f"Participation({self.n_agents} agents, {self.rounds} rounds of {self.table.shape[1]}, {mark})"

    def __eq__(self, other: Any) -> bool:
        """Compare the schedules themselves."""
        return (
            isinstance(other, Participation)
            and self.n_agents == other.n_agents
            and np.array_equal(self.table, other.table)
        )

    def __hash__(self) -> int:
        """Return the hash of the fingerprint."""
        return hash(repr(self))
