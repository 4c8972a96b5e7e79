"""Algorithm 1: the noisy fixed-point iteration of any operator, of which the package's methods are instances."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpadmm import checks
from dpadmm.methods.base import MESSAGE, NoiseHook
from dpadmm.methods.fixed_point import Participation
from dpadmm.problems.arrays import Floats, Ints

Operator = Callable[[Floats], Floats]
"""Maps all blocks (B, d, R) to all blocks."""

Error = Callable[[int, Floats], Floats]
"""Maps the round and all blocks to the errors of all blocks."""


@dataclass(frozen=True)
class FixedPointIteration:
    """Algorithm 1 for any operator.

    Parameters
    ----------
    operator: R, on arrays of blocks (B, d, R). lam: relaxation in (0, 1]. error: e_k(u), none if left out.
    participation: which blocks are active in which round, all of them if left out.

    >>> halve = FixedPointIteration(operator=lambda u: 0.5 * u, lam=1.0)
    >>> from dpadmm.methods.base import Silence
    >>> halve.step(1, np.full((2, 1, 1), 8.0), Silence()).ravel()
    array([4., 4.])
    """

    operator: Operator
    lam: float
    error: Error | None = None
    participation: Participation | None = None

    def __post_init__(self) -> None:
        """Refuse relaxations outside (0, 1]."""
        checks.half_open_unit("lam", self.lam)

    def step(self, k: int, u: Floats, noise: NoiseHook) -> Floats:
        """Return all blocks after round k; the noise of a block is that of the agent of its number."""
        blocks: Ints = np.arange(len(u))
        if self.participation is not None:
            self.participation.check(len(u))
            blocks = self.participation.agents(k)
        image = self.operator(u)
        if self.error is not None:
            image = image + self.error(k, u)
        after = u.copy()
        after[blocks] = u[blocks] + self.lam * (noise.perturb(MESSAGE, k, blocks, image[blocks]) - u[blocks])
        return after
