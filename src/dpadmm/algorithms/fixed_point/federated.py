"""Federated private ADMM (Algorithm 3): in each round m sampled users send the change of their block.

server:  zhat <- zhat + (1/N) sum_{i in S} du_i,      z = prox_{gamma g}(zhat)
user i:  x_i = prox_{gamma F_i}(2z - u_i)
         du_i = 2 lam ( Clip(x_i - z) + N(0, sigma^2 I)/2 ),      u_i <- u_i + du_i

`zhat` is the mean of all blocks. (As printed, the server adds the changes to z: see `blocks`.)
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dpadmm.algorithms.fixed_point.blocks import BLOCKS, BlockADMM
from dpadmm.algorithms.fixed_point.centralised import lipschitz_of_blocks
from dpadmm.algorithms.fixed_point.participation import Participation
from dpadmm.algorithms.method import About
from dpadmm.algorithms.setting import Setting
from dpadmm.errors import InputError
from dpadmm.privacy.claims.fixed_point import FederatedTheorem3, LocalTheorem3
from dpadmm.privacy.records import Unit


@dataclass(frozen=True)
class FederatedADMM(BlockADMM):
    """Fixed-point ADMM with users and a server that need not be trusted.

    Parameters: see `BlockADMM`; `sampled` draws the participation.

    Guarantees: C5 for every viewer, the server included, times the number of participations of the user at hand; noise
    is calibrated to the largest number. The paper's central figures (`claim`) are not certified.
    """

    about: ClassVar[About] = replace(
        BLOCKS,
        name="fp-federated",
        summary="fixed-point ADMM with sampled users and a server",
        why="a coordinator that need not be trusted: each silo adds its noise before it sends (C5)",
    )

    @classmethod
    def sampled(
        cls,
        gamma: float,
        n_users: int,
        m: int,
        rounds: int,
        rng: np.random.Generator,
        lam: float = 0.5,
        clip: float = math.inf,
        unit: Unit = Unit.RECORD,
    ) -> "FederatedADMM":
        """Return the method with m of N users drawn for each of `rounds` rounds.

        >>> FederatedADMM.sampled(1.0, n_users=5, m=2, rounds=3, rng=np.random.default_rng(0)).participants(1)
        array([3, 4])
        """
        return cls(gamma, lam, clip, unit, Participation.subsets(n_users, m, rounds, rng))

    def local_claim(self, setting: Setting) -> LocalTheorem3:
        """Return the paper's claim against the server (Theorem 3, local), for whoever takes part most often."""
        counts = [setting.rounds] if self.participation is None else self.participation.counts(setting.rounds)
        return LocalTheorem3(
            participations=int(np.max(counts)), lipschitz=lipschitz_of_blocks(setting), gamma=self.gamma
        )

    def claim(self, setting: Setting) -> FederatedTheorem3:
        """Return the paper's claim for the final model (Theorem 3, central)."""
        if self.participation is None:
            raise InputError("The claim is about sampled users; draw a participation first.")
        return FederatedTheorem3(
            rounds=setting.rounds,
            users=setting.problem.n_agents,
            sampled=self.participation.table.shape[1],
            lipschitz=lipschitz_of_blocks(setting),
            gamma=self.gamma,
        )
