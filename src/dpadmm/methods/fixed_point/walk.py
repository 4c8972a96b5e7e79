"""Fully decentralised private ADMM (Algorithm 4): a token walks from user to user.

the holder i:  z = prox_{gamma g}(zhat),   x_i = prox_{gamma F_i}(2z - u_i),
               du_i = 2 lam ( Clip(x_i - z) + N(0, sigma^2 I)/2 ),   u_i <- u_i + du_i,   zhat <- zhat + du_i/N
               sends zhat to the next holder

The token is `zhat`, the mean of all blocks; as printed it is z, from which the mean cannot be kept (see `blocks`). The
paper walks on the complete graph; any connected graph will do, since the fixed point does not depend on the order.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from dpadmm.errors import InputError
from dpadmm.methods.base import About, Common, Setting, Topology
from dpadmm.methods.fixed_point.blocks import BLOCKS, BlockADMM
from dpadmm.methods.fixed_point.participation import Participation
from dpadmm.networks.graph import Network
from dpadmm.problems.problem import Problem


@dataclass(frozen=True)
class RandomWalkADMM(BlockADMM):
    """Fixed-point ADMM without a server: one user computes in a round, whoever holds the token.

    Parameters: see `BlockADMM`; `Participation.one_at_random` and `.walk` draw the walk, which is mandatory.

    Guarantees: C5, for an eavesdropper on all messages, times the number of visits; noise is calibrated to the user
    visited most. Network DP, which counts only what reaches a peer, is claimed by the paper (see `claimed`), not
    certified.
    """

    about: ClassVar[About] = replace(
        BLOCKS,
        name="fp-walk",
        summary="fixed-point ADMM by a token that walks from user to user",
        topology=Topology.WALK,
    )

    def __post_init__(self) -> None:
        """A walk must have been drawn, with one holder a round."""
        super().__post_init__()
        if self.participation is None or self.participation.table.shape[1] != 1:
            raise InputError(
                "A walk needs one token holder per round, drawn beforehand: give participation=Participation.walk(...)."
            )

    @classmethod
    def at_step(cls, setting: Setting, step: float) -> Self:
        """One block of N moves in a round. On a complete graph the token goes round, so that all are visited alike."""
        n, rng = setting.problem.n_agents, np.random.default_rng(0)
        network = setting.network
        if network is None:
            walk = Participation.permuted(n, setting.rounds, rng)
        else:
            walk = Participation.walk(network, setting.rounds, rng)
        return cls(gamma=n * step, unit=setting.protection.unit, participation=walk)

    @classmethod
    def agreed(cls, common: Common, **numbers: Any) -> Self:
        """The common seed draws the walk, on the agreed graph or among all."""
        rng = np.random.default_rng(common.seed)
        if common.network is None:
            walk = Participation.one_at_random(common.n_silos, common.rounds, rng)
        else:
            walk = Participation.walk(common.network, common.rounds, rng)
        return cls(**numbers, participation=walk)

    def check(self, problem: Problem, network: Network | None) -> None:
        """Where a network is given, the walk must keep to its edges."""
        super().check(problem, network)
        if network is None or self.participation is None:
            return
        holders = self.participation.table[:, 0]
        here, there = holders[:-1], holders[1:]
        moves = here != there
        adjacent = np.asarray(network.adjacency[here[moves], there[moves]]).ravel() != 0
        if not adjacent.all():
            i, j = here[moves][~adjacent][0], there[moves][~adjacent][0]
            raise InputError(
                f"The walk steps from {i} to {j}, which the network does not connect. Draw the walk on this network."
            )
