"""Private coordinate descent, DP-CD (Mangold et al. 2022), as a noisy fixed-point iteration (Proposition 2).

    agent i:      m_i = w_i grad_b f_i(u) + N(0, s_i^2 I)          b: the round's block of coordinates
    coordinator:  u_b <- prox_{step g}( u_b - step sum_i m_i )_b

With g = 0, one agent and `R_b(u) = u_b - (2/beta) grad_b f(u)` this is Algorithm 1 with `lam = step beta/2`.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.methods.base import MESSAGE, ROWS, About, Agents, NoiseHook, Setting, Topology
from dpadmm.methods.batches import shrink_far_points
from dpadmm.methods.fixed_point.participation import Participation
from dpadmm.methods.gradient_method import BroadcastMethod, GradientState, copy_to_agents
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import Family, MechanismSpec
from dpadmm.privacy.certificates.gradients import coordinate_gradient
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.problems.problem import Problem
from dpadmm.problems.regularisers import SEPARABLE


@dataclass(frozen=True)
class CoordinateDescent(BroadcastMethod):
    """DP-CD: one block of coordinates a round, with noise on that block of every silo's gradient.

    Parameters
    ----------
    step: gradient step, in (0, 2/beta) with beta = sum_i w_i L.
    blocks: which block is active in which round, drawn in advance over `ceil(d/block_size)` blocks; None: in turn.
    block_size: coordinates of a block, consecutive, >= 1.

    Guarantees: C9 (coordinate gradient), record level, eavesdropper: a release moves by at most `w_i 2G/n_i`. (G
    bounds the whole gradient of a record, hence any block of it.) With one silo this is the central model.

    Reference: Mangold, Bellet, Salmon, Tommasi, "Differentially private coordinate descent for composite empirical
    risk minimization" (2022).
    """

    about: ClassVar[About] = About(
        name="dp-cd",
        summary="private coordinate descent",
        topology=Topology.STAR,
        certificate="C9",
        noised="a block of a silo's gradient",
        free=frozenset({"step", "block_size", "mu"}),
        units=ROWS,
        longest_step=0.9,
        is_federated=False,
    )

    step: float
    blocks: Participation | None = None
    block_size: int = 1

    def __post_init__(self) -> None:
        """Check the numbers."""
        checks.positive("step", self.step)
        checks.count("block_size", self.block_size)

    @classmethod
    def at_step(cls, setting: Setting, step: float) -> Self:
        """Two blocks: each moves in every other round, twice as far."""
        beta = float(setting.problem.weights.sum()) * setting.problem.functions.constants.smoothness
        return cls(step=min(2 * step, 1.9 / beta), block_size=-(-setting.problem.dimension // 2))

    def check(self, problem: Problem, network: Network | None) -> None:
        """The blocks must tile the coordinates, the step be short enough, the regulariser act on each coordinate."""
        needed = self.number(problem.dimension)
        if self.blocks is not None and self.blocks.n_agents != needed:
            raise InputError(
                f"{problem.dimension} coordinates in blocks of {self.block_size} are {needed} blocks, but the schedule "
                f"is for {self.blocks.n_agents}. Draw it for {needed}."
            )
        beta = float(problem.weights.sum()) * problem.functions.constants.smoothness
        if not self.step < 2 / beta:
            raise InputError(f"step must be below 2/beta = {2 / beta:g} (beta = sum w_i L), got {self.step:g}.")
        if not isinstance(problem.regulariser, SEPARABLE):
            name = type(problem.regulariser).__name__
            raise InputError(
                f"Coordinate descent needs a regulariser that acts on each coordinate separately; {name} does not."
            )

    def start(self, agents: Agents, replicas: int) -> tuple[GradientState, Floats]:
        """u = 0."""
        u = np.zeros((1, agents.dimension, replicas))
        return GradientState(copy_to_agents(agents, u)), u

    def number(self, dimension: int) -> int:
        """Return how many blocks there are."""
        return -(-dimension // self.block_size)

    def coordinates(self, k: int, dimension: int) -> Ints:
        """Return the coordinates of round k's block."""
        active = np.array([(k - 1) % self.number(dimension)]) if self.blocks is None else self.blocks.agents(k)
        first = active * self.block_size
        span = first[:, None] + np.arange(self.block_size)
        return span[span < dimension]

    def local_step(
        self, k: int, agents: Agents, state: GradientState, inbox: Floats, noise: NoiseHook
    ) -> tuple[GradientState, Floats]:
        """The noisy block of the gradient at the public point u."""
        point, active = shrink_far_points(agents.functions, inbox), self.coordinates(k, agents.dimension)
        gradient = agents.functions.gradient(point)[:, active]
        return state, noise.perturb(MESSAGE, k, agents.index, agents.weights[:, None, None] * gradient)

    def exchange(
        self, k: int, problem: Problem, network: Network | None, inbox: Floats, messages: Floats, noise: NoiseHook
    ) -> Floats:
        """The step on the block, then the prox of its coordinates."""
        active = self.coordinates(k, problem.dimension)
        moved = inbox.copy()
        moved[:, active] -= self.step * messages.sum(axis=0, keepdims=True)
        after = inbox.copy()
        after[:, active] = problem.regulariser.prox(moved, self.step)[:, active]
        return after

    def mechanisms(self, setting: Setting) -> tuple[MechanismSpec, ...]:
        """C9: one Gaussian release per silo and round."""
        if self.blocks is not None:
            self.blocks.covers(setting.rounds)
        rows = setting.rows(lambda i: coordinate_gradient(setting.local_gradient(i)))
        return (MechanismSpec(MESSAGE, Family.GAUSSIAN, rows),)
