"""Federated private ADMM (Algorithm 3): in each round m sampled users send the change of their block.

server:  zhat <- zhat + (1/N) sum_{i in S} du_i,      z = prox_{gamma g}(zhat)
user i:  x_i = prox_{gamma F_i}(2z - u_i)
         du_i = 2 lam ( Clip(x_i - z) + N(0, sigma^2 I)/2 ),      u_i <- u_i + du_i

`zhat` is the mean of all blocks. (As printed, the server adds the changes to z: see `blocks`.)
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from dpadmm.methods.base import About, Common
from dpadmm.methods.fixed_point.blocks import BLOCKS, BlockADMM, PlannedBlocks
from dpadmm.methods.fixed_point.participation import Participation


@dataclass(frozen=True)
class FederatedADMM(PlannedBlocks, BlockADMM):
    """Fixed-point ADMM with users and a server that need not be trusted.

    Parameters: see `BlockADMM`; `Participation.subsets` draws the participation.

    Guarantees: C5 for every viewer, the server included, times the number of participations of the user at hand; noise
    is calibrated to the largest number. The paper's central figures (see dpadmm-research) are not certified.
    """

    about: ClassVar[About] = replace(
        BLOCKS,
        name="fp-federated",
        takes_softmax=True,
        summary="fixed-point ADMM with sampled users and a server",
        why="the coordinator need not be trusted: each silo adds its noise before it sends anything (C5)",
    )

    @classmethod
    def numbers(cls) -> dict[str, float | None]:
        """Add the number of silos that are drawn for a round (0: all)."""
        return super().numbers() | {"sampled": 0}

    @classmethod
    def agreed(cls, common: Common, **numbers: Any) -> Self:
        """Return the method with the silos of each round drawn from the common seed."""
        sampled = int(numbers.pop("sampled", 0))
        if not sampled:
            return cls(**numbers)
        rng = np.random.default_rng(common.seed)
        return cls(**numbers, participation=Participation.subsets(common.n_silos, sampled, common.rounds, rng))
