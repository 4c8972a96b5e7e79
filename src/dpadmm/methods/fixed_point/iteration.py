"""The noisy fixed-point iteration (Algorithm 1 of Cyffers, Bellet, Basu 2023) and its gradient instances.

    u_b <- u_b + active_b lam ( R_b(u) + e_b + N(0, sigma^2 I) - u_b )

R is non-expansive, e the error of evaluating it. DP-SGD is `R(u) = u - (2/beta) grad f(u)`, `lam = step beta/2`, with e
the error of the sampled gradient (Proposition 1); DP-CD is the same block by block, without error (Proposition 2).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.methods.anatomy import MESSAGE, NoiseHook
from dpadmm.methods.fixed_point.participation import Participation
from dpadmm.problems.arrays import Floats, Ints

Operator = Callable[[Floats], Floats]
"""Maps all blocks (B, d, R) to all blocks."""

Error = Callable[[int, Floats], Floats]
"""Maps the round and all blocks to the errors of all blocks."""


def relaxed(u: Floats, lam: float, image: Floats) -> Floats:
    """Return `u + lam (image - u)`: the one line all methods of this package share."""
    return u + lam * (image - u)


@dataclass(frozen=True)
class FixedPointIteration:
    """Algorithm 1 for any operator.

    Parameters
    ----------
    operator: R, on arrays of blocks (B, d, R). lam: relaxation in (0, 1]. error: e_k(u), none if left out.
    participation: which blocks are active in which round, all of them if left out.

    >>> halve = FixedPointIteration(operator=lambda u: 0.5 * u, lam=1.0)
    >>> from dpadmm.methods.anatomy import Silence
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
        after[blocks] = relaxed(u[blocks], self.lam, noise.perturb(MESSAGE, k, blocks, image[blocks]))
        return after


def gradient_operator(gradient: Operator, smoothness: float) -> Operator:
    """Return `R(u) = u - (2/beta) grad f(u)`, non-expansive if f is convex and beta-smooth."""
    beta = checks.positive("smoothness", smoothness)
    return lambda u: u - (2 / beta) * gradient(u)


def dp_sgd(gradient: Operator, sampled_gradient: Error | None, smoothness: float, step: float) -> FixedPointIteration:
    """Return DP-SGD as an instance (Proposition 1): `u <- u - step (grad f(u; batch_k) + (beta/2) noise)`.

    `sampled_gradient(k, u)` is the gradient on round k's batch (None: the full one); step lies in (0, 2/beta].
    """
    beta = checks.positive("smoothness", smoothness)
    lam = checks.positive("step", step) * beta / 2
    if lam > 1:
        raise InputError(f"step must be at most 2/smoothness = {2 / beta:g}, got {step:g}: larger steps diverge.")
    if sampled_gradient is None:
        return FixedPointIteration(gradient_operator(gradient, beta), lam)

    def error(k: int, u: Floats) -> Floats:
        return (2 / beta) * (gradient(u) - sampled_gradient(k, u))

    return FixedPointIteration(gradient_operator(gradient, beta), lam, error)
