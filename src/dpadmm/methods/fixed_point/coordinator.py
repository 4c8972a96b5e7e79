"""Fixed-point ADMM with noise at the coordinator: the central model done right (certificate C6).

    user i, if the round is its:  x_i = prox_{gamma F_i}(2z - u_i),   u_i <- u_i + 2 lam (x_i - z)
    coordinator:                  z = prox_{gamma g}( sum u_i/N + N(0, s_k^2 I) ),  fresh noise every round

Blocks are noise-free and go to a trusted coordinator, or into a masked sum with shares of the noise (C12). For
lam <= 1/2 a block is a convex combination of points `z - gamma grad F_i(x)`, so one user moves the mean by
`2 gamma L/N` at most, for ever: no clipping, no growth with the rounds.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpadmm import checks
from dpadmm.methods.base import BROADCAST, ROWS, About, Agents, NoiseHook, Setting, Topology
from dpadmm.methods.fixed_point.blocks import (
    BlockState,
    PlannedBlocks,
    check_unit,
    group_agents,
    local_in_prox,
    solve_block,
)
from dpadmm.methods.fixed_point.participation import Participation
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import COORDINATOR, AgentReleases, Family, MechanismSpec
from dpadmm.privacy.certificates.hidden_state import fixed_point_mean_record, fixed_point_mean_user, relaxation_of
from dpadmm.privacy.certificates.local import for_silos
from dpadmm.privacy.protection import Certificate, Unit
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem


@dataclass(frozen=True)
class CoordinatorADMM(PlannedBlocks):
    """Fixed-point ADMM whose only noise is the coordinator's.

    Parameters
    ----------
    gamma: step of the proximal maps, > 0. lam: relaxation in (0, 1/2]; beyond 1/2 the certificate fails in round 1.
    unit: whom the noise is calibrated for: record (or person, if the setting protects persons) or user.
    participation: who computes in which round (None: everyone). Everyone's block is in every mean: who does not
        compute sends the block it has, or the coordinator remembers it.

    Guarantees: C6, for the public and the peers; for the coordinator too if the noise is added inside a secure
    aggregation. The sensitivity starts smaller than its limit: noise
    in proportion to the square root of the bounds spends the same and adds less.

    >>> import numpy as np
    >>> from dpadmm.testing import LocalEngine, Stopping
    >>> from dpadmm.problems.problem import Problem, Weighting
    >>> from dpadmm.problems.quadratics import QuadraticAgents
    >>> agents = QuadraticAgents(np.ones((3, 1, 1)), np.array([[1.0], [2.0], [6.0]]))
    >>> problem = Problem.of(agents, Weighting.AVERAGE)
    >>> LocalEngine(progress=False).run(CoordinatorADMM(gamma=1.0), problem, Stopping(rounds=60)).estimate.round(6)
    array([[-3.]])
    """

    about: ClassVar[About] = About(
        name="fp-coordinator",
        takes_softmax=True,
        summary="fixed-point ADMM, noise at the coordinator only",
        topology=Topology.STAR,
        certificate="C6",
        noised="the mean of the blocks",
        trusts_coordinator=True,
        is_sum=True,
        units=ROWS | {Unit.USER},
        takes_any_regulariser=True,
        why="one noise vector on the mean of the silos' blocks hides all of them at once (C6)",
    )

    gamma: float
    lam: float = 0.5
    unit: Unit = Unit.RECORD
    participation: Participation | None = None

    def __post_init__(self) -> None:
        """Check the numbers; lam <= 1/2 is enforced."""
        checks.positive("gamma", self.gamma)
        relaxation_of(self.lam)
        check_unit(self.unit)

    def start(self, agents: Agents, replicas: int) -> tuple[BlockState, Floats]:
        """u = 0 and z = prox(0)."""
        zero = np.zeros((len(agents.index), agents.dimension, replicas))
        z = agents.regulariser.prox(np.zeros((1, agents.dimension, replicas)), self.gamma)
        return BlockState(u=zero, x=zero.copy()), z

    def local_step(
        self, k: int, agents: Agents, state: BlockState, inbox: Floats, noise: NoiseHook
    ) -> tuple[BlockState, Floats]:
        """Update the blocks of this round's participants; every agent's part u_i/N of the mean is the message."""
        if self.participation is None:
            u, x = self._update_blocks(agents, state, inbox)
            return BlockState(u, x), u / agents.number
        here = np.flatnonzero(np.isin(agents.index, self.participation.agents(k)))
        u, x = state.u.copy(), state.x.copy()
        if here.size:
            u[here], x[here] = self._update_blocks(agents.take(here), BlockState(u[here], x[here]), inbox)
        return BlockState(u, x), u / agents.number

    def _update_blocks(self, agents: Agents, state: BlockState, z: Floats) -> tuple[Floats, Floats]:
        x = solve_block(self.gamma, agents, 2 * z - state.u, state.x)
        return state.u + 2 * self.lam * (x - z), x

    def exchange(
        self, k: int, problem: Problem, network: Network | None, inbox: Floats, messages: Floats, noise: NoiseHook
    ) -> Floats:
        """The noisy mean, then the prox: post-processing that keeps sparsity and feasibility."""
        return problem.regulariser.prox(noise.total(BROADCAST, k, messages), self.gamma)

    def mechanisms(self, setting: Setting) -> tuple[MechanismSpec, ...]:
        """C6: `mean u` leaves with Gaussian noise, once a round, under the certificate of the agent that moves it most.

        Agent i has made as many updates as it took part so far. A person in s silos moves one released value with all
        of them, so the s largest bounds add up.
        """
        kinds, kind_of = group_agents(setting)
        by_kind = [self._certificates(setting, size, weight) for size, weight in kinds]
        # By kind and number of updates; before its first update nobody moves anything.
        bounds = np.array([[0.0, *(certificate.bound for certificate in row)] for row in by_kind])
        rounds, silos = range(1, setting.rounds + 1), setting.protection.silos_per_person
        updates = np.zeros(setting.problem.n_agents, dtype=np.int64)
        certificates = []
        for k in rounds:
            updates[slice(None) if self.participation is None else self.participation.agents(k)] += 1
            reach = bounds[kind_of, updates]
            worst = float(reach.max() if silos == 1 else np.partition(reach, -silos)[-silos:].sum())
            certificates.append(for_silos(by_kind[0][0], bound=worst, silos=silos))
        return (
            MechanismSpec(
                BROADCAST, Family.GAUSSIAN, (AgentReleases(COORDINATOR, tuple(rounds), tuple(certificates)),)
            ),
        )

    def _certificates(self, setting: Setting, size: int, weight: float) -> tuple[Certificate, ...]:
        """C6 for an agent: how far the mean of all blocks can move after its 1st, 2nd, ... update."""
        # For one silo: `mechanisms` adds up those of a person.
        local = local_in_prox(setting, setting.gradient_bound, size, weight, silos=1)
        constants, n = setting.problem.functions.constants, setting.problem.n_agents
        if self.unit is Unit.USER:
            return fixed_point_mean_user(
                updates=setting.rounds,
                step=self.gamma,
                lipschitz=setting.gradient_bound,
                n_users=n,
                relaxation=self.lam,
                strong_convexity=constants.strong_convexity,
                weight=local.weight,
                solver_tolerance=local.solver_tolerance,
            )
        return fixed_point_mean_record(
            local,
            updates=setting.rounds,
            step=self.gamma,
            smoothness=constants.smoothness,
            n_users=n,
            relaxation=self.lam,
        )
