"""The hidden-state recursion shared by C3 and C6.

A hidden difference obeys `d+ = M d + (I - M) b` where `||b|| <= B` and M is some symmetric matrix with spectrum in
[low, high], another one in every step. With `c = (low + high)/2`, `r = (high - low)/2`:

    V_0 = 0,    V_{k+1} = (1 + r^2/(c (1 - c))) (c V_k + (1 - c) B^2)    bounds ||d_k||^2.

Proof: `docs/proofs/c3.md`, lemmas 2 and 3.
"""

import math
from dataclasses import dataclass

from dpadmm import checks
from dpadmm.errors import InputError


@dataclass(frozen=True)
class SpectralInterval:
    """Interval [low, high] of the eigenvalues of M, with 0 <= low <= high < 1."""

    low: float
    high: float

    @property
    def centre(self) -> float:
        """Midpoint c."""
        return (self.low + self.high) / 2

    @property
    def radius(self) -> float:
        """Half-length r."""
        return (self.high - self.low) / 2

    def relaxed(self, relaxation: float) -> "SpectralInterval":
        """Eigenvalues of `(1 - 2 lam) I + 2 lam M`, the map of a step relaxed by `lam` in (0, 1/2]."""
        keep = 1 - 2 * relaxation
        return SpectralInterval(keep + 2 * relaxation * self.low, keep + 2 * relaxation * self.high)


def prox_spectrum(*, step: float, strong_convexity: float, smoothness: float) -> SpectralInterval:
    """Eigenvalues of `M = step H (I + step H)^-1` for `strong_convexity <= H <= smoothness`."""
    gam = checks.positive("step", step)
    tau = checks.non_negative("strong_convexity", strong_convexity)
    top = checks.non_negative("smoothness", smoothness)
    if top < tau:
        raise InputError(
            f"smoothness must be at least the strong convexity {tau:g}, got {top:g}. Swap or correct them."
        )
    return SpectralInterval(gam * tau / (1 + gam * tau), gam * top / (1 + gam * top))


def hidden_drift(spectrum: SpectralInterval, push: float, steps: int) -> tuple[float, ...]:
    """Return `sqrt(V_0), ..., sqrt(V_steps)` for pushes of norm at most `push`; never decreasing.

    >>> [round(v, 4) for v in hidden_drift(SpectralInterval(0.0, 0.5), 1.0, 3)]
    [0.0, 1.0, 1.1547, 1.2019]
    """
    c, r = spectrum.centre, spectrum.radius
    # r = 0: M = c I, which also covers c = 0 (linear functions) and a c that rounds to 1.
    stretch = 1.0 if r == 0 else 1 + r * r / (c * (1 - c))
    values = [0.0]
    for _ in range(steps):
        # On the scale push = 1, so that neither tiny nor huge bounds lose digits in the square.
        values.append(stretch * (c * values[-1] + (1 - c)))
    return tuple(push * math.sqrt(v) for v in values)
