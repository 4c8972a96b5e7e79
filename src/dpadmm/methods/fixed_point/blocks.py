"""What the settings of fixed-point ADMM share: one block u_i per agent, and noise in the block.

    z   = prox_{gamma g}(mean u)                                             (8)
    x_i = prox_{gamma F_i}(2z - u_i),          F_i = N w_i f_i               (9)
    u_i <- u_i + 2 lam ( Clip(x_i - z) + noise/2 )                          (10)

The paper minimises `(1/N) sum F_i + r`; with `F_i = N w_i f_i` that is the library's `sum w_i f_i + g`, and F_i = f_i
for average weights. Dividing (9) by N, `x_i = argmin w_i f_i(x) + ||x - v||^2/(2 gamma N)`: the solvers see `w_i f_i`
and the pull `1/(gamma N)`, and a gradient solved there to `tol` is one of (9) solved to `N tol`.

Messages are changes of blocks; whoever adds them up keeps the mean of all blocks, and z is its prox. (Algorithms 3 and
4 add the changes to z instead, which is the mean only if g = 0; with l1 they settle at a wrong point.)
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.errors import InputError
from dpadmm.methods.base import MESSAGE, ROWS, About, Agents, Method, NoiseHook, Residuals, Setting, Topology, of_rows
from dpadmm.methods.fixed_point.participation import Participation
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import AgentReleases, Family, MechanismSpec
from dpadmm.privacy.certificates.hidden_state import fixed_point_block_record, fixed_point_block_user
from dpadmm.privacy.certificates.local import LocalFunction
from dpadmm.privacy.protection import Certificate, Protection, Unit
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.problems.problem import Problem
from dpadmm.problems.regularisers import Regulariser

# Scaling to a norm may overshoot it by a few ulps; the certificate may not.
_ROUND_DOWN = 1 - 1e-15


class BlockState(NamedTuple):
    """u: each agent's block. x: the last minimiser, where the next solve starts; it never leaves the agent."""

    u: Floats
    x: Floats


BLOCKS = About(
    name="",
    summary="",
    topology=Topology.STAR,
    certificate="C5",
    noised="a block, as printed: half of it on x_i - z",
    free=frozenset({"lam"}),
    units=ROWS | {Unit.USER},
    takes_any_regulariser=True,
)
"""What is true of all settings; each has its own name and summary."""


class BlockMethod(Method):
    """What all settings share, wherever the noise is."""

    gamma: float
    lam: float
    participation: Participation | None

    def check(self, problem: Problem, network: Network | None) -> None:
        """The schedule must be for these agents."""
        if self.participation is not None:
            self.participation.check(problem.n_agents)

    def residuals(
        self, agents: Agents, before: tuple[BlockState, Floats], after: tuple[BlockState, Floats]
    ) -> Residuals:
        """Primal: largest movement of a block over 2 lam, which is `||x_i - z||`. Dual: movement of z over gamma."""
        blocks = np.linalg.norm(after[0].u - before[0].u, axis=1) / (2 * self.lam)
        moved = np.linalg.norm(after[1][0] - before[1][0], axis=0) / self.gamma
        return Residuals(primal=blocks.max(axis=0), dual=moved)


class PlannedBlocks(BlockMethod):
    """Blocks that anyone may be drawn to update: the mean model is a proximal descent, and its step says all."""

    @classmethod
    def at_step(cls, setting: Setting, step: float) -> Self:
        """`u_i = z - gamma N w_i grad f_i`, and z is their mean."""
        return cls(gamma=step, unit=setting.protection.unit)  # type: ignore[call-arg]


@dataclass(frozen=True)
class BlockADMM(BlockMethod):
    """Fixed-point ADMM with noise in the blocks; the settings differ in who takes part and who looks.

    Parameters
    ----------
    gamma: step of the proximal maps, > 0. lam: relaxation in (0, 1]; 1/2 is Douglas-Rachford.
    clip: largest norm of `x_i - z`, > 0 (infinite: no clipping); the fixed point stays, since x_i = z there.
    unit: whom the noise is calibrated for: record (or person, if the setting protects persons) or user.
    participation: who computes in which round, drawn in advance (None: everyone).

    The inbox holds z and the mean of all blocks, both made of messages. The model is z: x_i has touched the data after
    the last noise and is nobody's to see.
    """

    inbox_rows: ClassVar[int] = 2

    gamma: float
    lam: float = 0.5
    clip: float = math.inf
    unit: Unit = Unit.RECORD
    participation: Participation | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        checks.positive("gamma", self.gamma)
        checks.half_open_unit("lam", self.lam)
        if self.clip != math.inf:
            checks.positive("clip", self.clip)
        check_unit(self.unit)

    def start(self, agents: Agents, replicas: int) -> tuple[BlockState, Floats]:
        """u = 0 and z = prox(0)."""
        zero = np.zeros((len(agents.index), agents.dimension, replicas))
        mean = np.zeros((1, agents.dimension, replicas))
        return BlockState(u=zero, x=zero.copy()), with_prox(agents.regulariser, self.gamma, mean)

    def participants(self, k: int) -> Ints | None:
        """Return the agents that the schedule names; None stands for all."""
        return None if self.participation is None else self.participation.agents(k)

    def local_step(
        self, k: int, agents: Agents, state: BlockState, inbox: Floats, noise: NoiseHook
    ) -> tuple[BlockState, Floats]:
        """(9) and (10). What leaves is the change of the block; the block itself is known to whoever saw them all."""
        z = inbox[:1]
        x = self.minimiser(agents, 2 * z - state.u, state.x)
        change = self.lam * noise.perturb(MESSAGE, k, agents.index, 2 * clip_norms(x - z, self.clip))
        return BlockState(u=state.u + change, x=x), change

    def minimiser(self, agents: Agents, v: Floats, start: Floats) -> Floats:
        """Return prox_{gamma F_i}(v)."""
        return solve_block(self.gamma, agents, v, start)

    def exchange(
        self, k: int, problem: Problem, network: Network | None, inbox: Floats, messages: Floats, noise: NoiseHook
    ) -> Floats:
        """(8), with the mean of the blocks tracked by their changes."""
        mean = inbox[1:] + messages.sum(axis=0, keepdims=True) / problem.n_agents
        return with_prox(problem.regulariser, self.gamma, mean)

    def mechanisms(self, setting: Setting) -> tuple[MechanismSpec, ...]:
        """C5: `2 (x_i - z)` leaves with Gaussian noise, once per participation, enough for whoever takes part most.

        Agents that take part in every round under the same certificate share one row.
        """
        kinds, kind_of = group_agents(setting)
        certificates = [self._certificate(setting, size, weight) for size, weight in kinds]
        every = tuple(range(1, setting.rounds + 1))
        if self.participation is not None:
            taken = self.participation.rounds_of(setting.rounds)
        elif len(kinds) == 1 and setting.protection.silos_per_person == 1:
            common = AgentReleases(0, every, (certificates[0],) * len(every))
            return (MechanismSpec(MESSAGE, Family.GAUSSIAN, (common,), is_common=True),)
        else:
            taken = [every] * setting.problem.n_agents
        rows = [AgentReleases(i, when, (certificates[kind_of[i]],) * len(when)) for i, when in enumerate(taken) if when]
        return (MechanismSpec(MESSAGE, Family.GAUSSIAN, tuple(rows), is_noise_shared=True),)

    def _certificate(self, setting: Setting, size: int, weight: float) -> Certificate:
        """C5 for an agent with `size` records and weight w_i: how far `2 (x_i - z)` can move."""
        constants, protection = setting.problem.functions.constants, setting.protection
        slope = constants.record_gradient if math.isfinite(self.clip) else setting.gradient_bound
        local = local_in_prox(setting, slope, size, weight, protection.silos_per_person)
        if self.unit is not Unit.USER and math.isfinite(slope):
            return fixed_point_block_record(local, step=self.gamma, clip=self.clip)
        user = fixed_point_block_user(
            step=self.gamma,
            lipschitz=slope,
            clip=self.clip,
            strong_convexity=constants.strong_convexity,
            weight=local.weight,
            solver_tolerance=local.solver_tolerance,
        )
        if self.unit is Unit.USER:
            return replace(user, protection=replace(user.protection, silos_per_person=protection.silos_per_person))
        # Clipping alone: what holds for all of a user's data holds for some of them.
        return replace(
            user,
            protection=replace(
                user.protection,
                unit=of_rows(protection).unit,
                records_per_person=protection.records_per_person,
                silos_per_person=protection.silos_per_person,
            ),
            theorem="C5 (record level)",
        )


def check_unit(unit: Unit) -> None:
    """Fixed-point ADMM protects records, persons or users."""
    if unit not in ROWS | {Unit.USER}:
        raise InputError(f"unit must be Unit.RECORD, Unit.PERSON or Unit.USER, got {safe_repr(unit)}.")


def local_in_prox(setting: Setting, slope: float, size: int, weight: float, silos: int) -> LocalFunction:
    """Return the public side of an agent's function inside its prox, where its weight is `N w_i`.

    The gradient there is N times the one that the solvers bring below their tolerance.
    """
    constants, n = setting.problem.functions.constants, setting.problem.n_agents
    return LocalFunction(
        gradient_bound=slope,
        n_records=size,
        weight=n * weight,
        strong_convexity=constants.strong_convexity,
        solver_tolerance=n * (setting.solver_tolerance or 0.0) or None,
        protection=Protection(
            unit=of_rows(setting.protection).unit,
            records_per_person=setting.protection.records_per_person,
            silos_per_person=silos,
        ),
    )


def group_agents(setting: Setting) -> tuple[list[tuple[int, float]], Ints]:
    """Return the different (n_i, w_i), and which of them each agent is."""
    pairs = list(zip(setting.problem.functions.sizes.tolist(), setting.problem.weights.tolist(), strict=True))
    kinds = list(dict.fromkeys(pairs))
    place = {kind: position for position, kind in enumerate(kinds)}
    return kinds, np.array([place[pair] for pair in pairs])


def solve_block(gamma: float, agents: Agents, v: Floats, start: Floats) -> Floats:
    """Return `argmin N w_i f_i(x) + ||x - v||^2/(2 gamma)` for all agents here."""
    pull = np.full(len(agents.index), 1 / (gamma * agents.number))
    return agents.minimise(np.zeros_like(v), v, pull, start).point


def clip_norms(values: Floats, clip: float) -> Floats:
    """Return the values, each agent's and replica's vector shortened to norm `clip`."""
    if math.isinf(clip):
        return values
    norms = np.linalg.norm(values, axis=1, keepdims=True)
    return values * np.where(norms > clip, _ROUND_DOWN * clip / np.maximum(norms, clip), 1.0)


def with_prox(regulariser: Regulariser, gamma: float, mean: Floats) -> Floats:
    """Return z = prox_{gamma g}(mean) above the mean itself, as (2, d, R)."""
    return np.concatenate([regulariser.prox(mean, gamma), mean])


@dataclass(frozen=True)
class CentralisedADMM(PlannedBlocks, BlockADMM):
    """Fixed-point ADMM at a curator; a block is a silo, or a single record (`Silos.one_record_each`).

    Parameters: see `BlockADMM`. `participation` is the order of the blocks: None updates all of them against one z, as
    printed; `Participation.in_turn`, `.permuted`, `.one_at_random` and `.subsets` are the paper's other orders.

    Guarantees: C5, for a viewer who would see every block; the public, who sees the last z only, learns no more. The
    paper's smaller figure for that view (see dpadmm-research) counts 1/N twice and is never used to calibrate.

    >>> import numpy as np
    >>> from dpadmm.testing import LocalEngine, Stopping
    >>> from dpadmm.problems.problem import Problem, Weighting
    >>> from dpadmm.problems.quadratics import QuadraticAgents
    >>> agents = QuadraticAgents(np.ones((3, 1, 1)), np.array([[1.0], [2.0], [6.0]]))
    >>> problem = Problem.of(agents, Weighting.AVERAGE)
    >>> LocalEngine(progress=False).run(CentralisedADMM(gamma=1.0), problem, Stopping(rounds=60)).estimate.round(6)
    array([[-3.]])
    """

    about: ClassVar[About] = replace(
        BLOCKS,
        name="fp-centralised",
        takes_softmax=True,
        summary="fixed-point ADMM at a curator, noise in the blocks",
        is_curator=True,
        is_federated=False,
        why="one silo: the iterations stay inside, and only the final model is released (C5)",
    )
