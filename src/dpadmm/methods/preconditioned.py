"""Preconditioned noisy gradients: few rounds, shaped by one noisy matrix of second moments (C14, C9, C12).

M_i <- w_i (kappa/n_i) sum_m a_m a_m'                 each silo, in the first round; kappa bounds a loss's curvature
P   <- max(sum_i M_i + E, 0) + (f + mu) I             E: its noise, symmetric, s on the diagonal; f = s sqrt(2 d)

m_i <- w_i grad f_i(y)                                each silo, in every later round
x+  <- y - P^-1 (sum_i m_i + noise)
y+  <- x+ + momentum (x+ - x)

No second derivative of a record's loss exceeds kappa a a', and f is the norm that E hardly ever exceeds: P is at least
the curvature of the objective, and steps are as long as is safe along every direction, not along the steepest alone.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Self, cast

import numpy as np

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.errors import InputError
from dpadmm.methods.base import BROADCAST, ROWS, About, Agents, NoiseHook, Setting, Topology, with_rounding_of_sum
from dpadmm.methods.batches import whole_gradients
from dpadmm.methods.decentralised import check_ridge
from dpadmm.methods.gradient_method import BroadcastMethod, GradientState, copy_to_agents
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import COORDINATOR, AgentReleases, Family, MechanismSpec, MessageKind
from dpadmm.privacy.certificates.gradients import full_gradient, gradient_sum
from dpadmm.privacy.certificates.sums import curvature_sum
from dpadmm.privacy.protection import Certificate, NeighbouringRelation
from dpadmm.problems.arrays import Floats, pack, packed_size, unpack
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.silos import gram_sum, row_block, row_bounds
from dpadmm.problems.streams import MomentSum, StreamedRisk
from dpadmm.solvers.solver import sum_blocks

SECOND_MOMENTS = MessageKind("second moments")
MOST_FEATURES = 1000
"""Beyond as many, the matrix costs more than the rounds that it saves."""

_LEAST = 1e-12  # of the largest curvature, along directions in which nothing else bends


@dataclass(frozen=True)
class PreconditionedGradients(BroadcastMethod):
    """Descent on the noisy sum of the silos' gradients, preconditioned by their noisy second moments.

    Parameters
    ----------
    step: part of the preconditioned step that is taken, in (0, 1].
    momentum: part of the last movement that is repeated, in [0, 1).
    share: part of the squared budget m^2 that pays for the second moments, in (0, 1).
    averaged: part of the later rounds the mean of whose models is released, in (0, 1].

    Guarantees: C14 for the second moments, whose factor kappa is the same for all records, C9 for the gradients, and C0
    for all together; steps are post-processing. Against the public where the coordinator adds the noise, against
    everybody where there is one silo, and with masks against coordinator, outsiders and colluding silos (C12).
    """

    about: ClassVar[About] = About(
        name="noisy-gradients-preconditioned",
        summary="noisy sums of gradients in few rounds, shaped by noisy second moments",
        topology=Topology.STAR,
        certificate="C14",
        noised="the sum of the silos' second moments, then of their gradients",
        trusts_coordinator=True,
        is_sum=True,
        hides_alone=True,
        is_federated=False,
        units=ROWS,
        relations=frozenset(NeighbouringRelation),
        longest_step=1.0,
        free=frozenset({"step", "momentum", "averaged", "mu"}),
        why="one noisy matrix of second moments saves most of the rounds (C14)",
    )
    inbox_rows: ClassVar[int] = 2  # x and y; then the rows of P^-1

    step: float = 1.0
    momentum: float = 0.7
    share: float = 0.1
    averaged: float = 0.5

    def __post_init__(self) -> None:
        """Check the numbers."""
        checks.half_open_unit("step", self.step)
        checks.open_unit("share", self.share)
        checks.half_open_unit("averaged", self.averaged)
        if not 0 <= checks.finite("momentum", self.momentum) < 1:
            raise InputError(f"momentum must be at least 0 and below 1, got {safe_repr(self.momentum)}.")

    @classmethod
    def at_step(cls, setting: Setting, step: float) -> Self:
        """The matrix decides how long steps are."""
        return cls()

    def check(self, problem: Problem, network: Network | None) -> None:
        """Refuse what has no matrix, or too large a one, and penalties that are no ridge."""
        check_ridge(self, problem, "Use noisy-gradients, or a ridge.")
        if getattr(problem.functions, "linear_loss", None) is None:
            raise InputError(f"{self.about.name} needs records of a linear model with one score (C14). Use dp-gd.")
        if problem.dimension > MOST_FEATURES:
            raise InputError(
                f"{self.about.name} takes up to {MOST_FEATURES} features, got {problem.dimension}. Use noisy-gradients."
            )

    def message_size(self, dimension: int) -> int:
        """The matrix is the longest."""
        return max(dimension, packed_size(dimension))

    def first_averaged_round(self, rounds: int) -> int:
        """The mean of the last models."""
        return rounds + 1 - max(1, round(self.averaged * (rounds - 1)))

    def start(self, agents: Agents, replicas: int) -> tuple[GradientState, Floats]:
        """x = y = 0."""
        inbox = np.zeros((self.inbox_rows + agents.dimension, agents.dimension, replicas))
        return GradientState(copy_to_agents(agents, inbox[:1])), inbox

    def local_step(
        self, k: int, agents: Agents, state: GradientState, inbox: Floats, noise: NoiseHook
    ) -> tuple[GradientState, Floats]:
        """The second moments, then the gradient at y."""
        if k == 1:
            return state, self.outgoing(k, agents, np.repeat(second_moments(agents), inbox.shape[2], axis=2), noise)
        return state, self.outgoing(k, agents, whole_gradients(agents, copy_to_agents(agents, inbox[1:2])), noise)

    def outgoing(self, k: int, agents: Agents, messages: Floats, noise: NoiseHook) -> Floats:
        """Messages are bare, since only their sum is read."""
        return messages

    def add_up(self, k: int, messages: Floats, noise: NoiseHook) -> Floats:
        """Return the noisy sum."""
        return noise.total(_kind(k), k, messages)

    def exchange(
        self, k: int, problem: Problem, network: Network | None, inbox: Floats, messages: Floats, noise: NoiseHook
    ) -> Floats:
        """Round 1: P^-1. Later: a step from y along the preconditioned sum, and on by a part of the movement."""
        penalty, (total,) = problem.regulariser.strong_convexity, self.add_up(k, messages, noise)
        if k == 1:
            bend = penalty + problem.weights.sum() * problem.functions.constants.strong_convexity
            s = noise.plan.noise_in_sum(_kind(k), k, len(messages))
            floor = max(s * math.sqrt(2 * problem.dimension) + bend, _LEAST * problem.functions.constants.smoothness)
            inverses = [_inverse(unpack(each, problem.dimension), floor) for each in total.T]
            return np.concatenate([inbox[:2], np.stack(inverses, axis=2)])
        x, y, inverse = inbox[0], inbox[1], inbox[2:]
        after = y - self.step * np.einsum("ijr,jr->ir", inverse, total + penalty * y)
        return np.concatenate([np.stack([after, after + self.momentum * (after - x)]), inverse])

    def mechanisms(self, setting: Setting) -> tuple[MechanismSpec, ...]:
        """The second moments in the first round, for their share; gradients in every later one."""
        later = tuple(range(2, setting.rounds + 1))
        if not later:
            raise InputError(f"{self.about.name} needs at least 2 rounds: the first one releases no gradient.")
        pairs = self.certificates(setting)
        (_, matrix, gradient), *_ = pairs
        level = matrix.bound / gradient.bound * math.sqrt((1 - self.share) / (self.share * len(later)))
        first = tuple(AgentReleases(agent, (1,), (bound,)) for agent, bound, _ in pairs)
        rest = tuple(AgentReleases(agent, later, (bound,) * len(later)) for agent, _, bound in pairs)
        return (
            MechanismSpec(SECOND_MOMENTS, Family.GAUSSIAN, first, relative=level),
            MechanismSpec(BROADCAST, Family.GAUSSIAN, rest),
        )

    def certificates(self, setting: Setting) -> list[tuple[int, Certificate, Certificate]]:
        """Return who adds noise, with what bounds its matrix, and its gradient."""
        size = setting.problem.functions.constants.record_curvature
        silos = with_rounding_of_sum([setting.local_curvature(i) for i in range(setting.problem.n_agents)], size=size)
        matrix = curvature_sum(silos, record_curvature=size, is_constant=True)
        return [(COORDINATOR, matrix, gradient_sum(setting.local_gradients()))]


@dataclass(frozen=True)
class PreconditionedSilos(PreconditionedGradients):
    """The same where nobody is trusted: every silo adds noise of its own to its matrix and its gradients.

    Parameters
    ----------
    step, momentum, share, averaged: see `PreconditionedGradients`.

    Guarantees: C14 and C9 silo by silo, for records and replace-one, against whoever sees every message.
    """

    about: ClassVar[About] = About(
        name="dp-gd-preconditioned",
        summary="noisy full gradients in few rounds, shaped by noisy second moments",
        topology=Topology.STAR,
        certificate="C14",
        noised="a silo's second moments, then its gradients",
        is_federated=False,
        units=ROWS,
        longest_step=1.0,
        free=frozenset({"step", "momentum", "averaged", "mu"}),
        why=PreconditionedGradients.about.why,
    )

    def outgoing(self, k: int, agents: Agents, messages: Floats, noise: NoiseHook) -> Floats:
        """Every message has its own noise."""
        return noise.perturb(_kind(k), k, agents.index, messages)

    def add_up(self, k: int, messages: Floats, noise: NoiseHook) -> Floats:
        """Return the sum of noisy messages."""
        return messages.sum(axis=0, keepdims=True)

    def certificates(self, setting: Setting) -> list[tuple[int, Certificate, Certificate]]:
        """Return of every silo what bounds its matrix, and its gradient."""
        size = setting.problem.functions.constants.record_curvature
        return [
            (
                i,
                curvature_sum([setting.local_curvature(i)], record_curvature=size, is_constant=True),
                full_gradient(setting.local_gradient(i)),
            )
            for i in range(setting.problem.n_agents)
        ]


def second_moments(agents: Agents) -> Floats:
    """Return `w_i (kappa/n_i) sum_m a_m a_m'` of all agents here, packed, (agents, d(d + 1)/2, 1); no ridge in it.

    Streamed rows are cut where rows in memory are, so that both give the same bits.
    """
    risk = cast(EmpiricalRisk | StreamedRisk, agents.functions)
    if isinstance(risk, StreamedRisk):
        sums = risk.totals([MomentSum()] * risk.n_agents)
    else:
        sums = [_moments(risk, i, agents.threads) for i in range(risk.n_agents)]
    scales, nothing = agents.weights * risk.loss.curvature_bound / risk.sizes, np.zeros((risk.dimension,) * 2)
    return np.stack([scale * pack(nothing + each) for scale, each in zip(scales, sums, strict=True)])[:, :, None]


def _moments(risk: EmpiricalRisk, agent: int, threads: int) -> Floats:
    part, silos = risk.part(agent), risk.silos
    bounds = np.array([part.start, part.stop])
    if not silos.is_small:
        bounds = row_bounds(part, risk.dimension, silos.is_sparse)

    def one(block: slice) -> Floats:
        return gram_sum(row_block(silos.features, block), None if silos.weights is None else silos.weights[block])

    return sum_blocks(one, bounds, threads)


def _kind(k: int) -> MessageKind:
    return SECOND_MOMENTS if k == 1 else BROADCAST


def _inverse(matrix: Floats, floor: float) -> Floats:
    """Return the inverse of `max(matrix, 0) + floor`."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors / (np.maximum(values, 0.0) + floor)) @ vectors.T)
