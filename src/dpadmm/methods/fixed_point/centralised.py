"""Centralised private ADMM (Algorithm 2): a trusted curator holds all blocks and publishes the last z.

for every block of the round:
    x_i = prox_{gamma F_i}(2z - u_i),    u_i <- u_i + 2 lam ( Clip(x_i - z) + N(0, sigma^2 I)/2 )
z = prox_{gamma g}(mean u)

The x_i never leave: their last update touched the data without noise after it.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from dpadmm.methods.fixed_point.blocks import BLOCKS, BlockADMM, PlannedBlocks
from dpadmm.methods.method import About


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
