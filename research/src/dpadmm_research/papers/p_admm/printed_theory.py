"""P-ADMM's Theorem 4 and Lemma 5 as printed: constants, conditions, and "not applicable" where the latter are empty.

With `phi` the singular values (the smallest non-zero one, as the paper has it), mu and v as the paper writes them:

    kappa_1 = 1 + 2 mu phi_max^2(L+)/(v^2 phi_min^2(L+)),   kappa_3 = theta^(-1/2)
    zeta    = 2 (kappa_2 - 1) mu phi_min^2(Q) phi_min^2(L+) / (kappa_2 v^2 phi_min^2(L+) + 2 mu phi_max^2(L+))
    eta     = sqrt( kappa_1 kappa_2 (kappa_3 - 1) v^2 / (kappa_3 (kappa_2 - 1) phi_min^2(Q) phi_min^2(L+)) )
    W       = (1 + 4 theta) phi_max^2(L+) / ((1 - b)(1 + zeta - 4 theta) phi_min^2(L+))

    E||x~^k - x*||^2 <= W^k ( ||x~^0 - x*||^2 + S2 ||r^0 - r*||^2 + d S3 sum_i s_{i,1}^2 W/(W - R) ),    0 < R < W < 1.

Not a bound to rely on. The last factor should be 1/(W - R), and strong convexity is written without its 1/2. zeta
must exceed `phi_max^2/phi_min^2 - 1`, 108.7 on a ring of five, and tends to `2 mu phi_min^2(Q)/v^2` as kappa_2 grows,
0.2 there for a logistic loss with mu = 0.01. That limit has a unit, the inverse of a curvature, so the conditions can
be met by writing the functions in small units, but then the bound is false: on the same ring with mu = 1e-5,
v = 2.6e-4 it claims W = 0.87, while 400 noise-free rounds take a squared error from 18 to 14 only.
`theory.py` has the rate that holds.
"""

import math
from dataclasses import dataclass

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm_research.claims.bounds import Bound, NotApplicable, Version
from dpadmm_research.papers.p_admm.theory import THEOREM_4, Landscape, NoiseCurve, Start
from dpadmm_research.spectrum import spectral_facts

CONDITIONS = ("strongly convex and smooth functions", "(1-b)(1+zeta) phi_min^2(L+) > phi_max^2(L+)", "0 < R < W < 1")


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What Theorem 4 leaves to choose: b in (0, 1), kappa_2 > 1, kappa_4 > 1, theta in (0, 1)."""

    b: float
    kappa_2: float
    kappa_4: float
    theta: float

    def __post_init__(self) -> None:
        """Check the ranges that do not depend on the problem."""
        checks.open_unit("b", self.b)
        checks.open_unit("theta", self.theta)
        for name, value in (("kappa_2", self.kappa_2), ("kappa_4", self.kappa_4)):
            if checks.finite(name, value) <= 1:
                raise InputError(f"{name} must be greater than 1, got {value!r}.", setting=name)


@dataclass(frozen=True, kw_only=True)
class PrintedConstants:
    """The constants of Lemma 5 and Theorem 4 for given choices."""

    kappa_1: float
    zeta: float
    eta: float
    rate: float
    s_2: float
    s_3: float


@dataclass(frozen=True)
class _Spectrum:
    """Squared singular values of L+, Q and M, and the functions' constants as printed."""

    low: float
    high: float
    q: float
    m: float
    mu: float
    v: float

    @classmethod
    def of(cls, landscape: Landscape) -> "_Spectrum":
        facts = spectral_facts(landscape.network)
        # The non-zero spectra of L+ and L- agree on bipartite graphs.
        low = facts.algebraic_connectivity if facts.is_bipartite else facts.smallest_signless
        degree = float(landscape.network.degrees.max())
        q = facts.algebraic_connectivity / 2
        constants = landscape.strong_convexity, landscape.smoothness
        return cls(low**2, facts.largest_signless**2, q, degree**2, *constants)

    @property
    def needed(self) -> float:
        """What zeta must exceed."""
        return self.high / self.low - 1

    @property
    def available(self) -> float:
        """What zeta tends to as kappa_2 grows."""
        return 2 * self.mu * self.q / self.v**2

    def zeta(self, kappa_2: float) -> float:
        """Lemma 5's zeta."""
        below = kappa_2 * self.v**2 * self.low + 2 * self.mu * self.high
        return 2 * (kappa_2 - 1) * self.mu * self.q * self.low / below

    def theta_limit(self, b: float, zeta: float, kappa_4: float) -> float:
        """min(H1, H2)."""
        hold = b * self.low * (1 - 1 / kappa_4)
        first = (1 + zeta) * hold / (4 * hold + 16 * self.m)
        second = ((1 - b) * (1 + zeta) * self.low - self.high) / (4 * self.high + 4 * (1 - b) * self.low)
        return min(first, second)


def theorem_4_choices(landscape: Landscape) -> Choices | NotApplicable:
    """Return choices in the middle of what the conditions allow, or say that they allow nothing."""
    spectrum = _Spectrum.of(landscape)
    if spectrum.available <= spectrum.needed:
        return NotApplicable(
            THEOREM_4,
            f"its conditions are empty here: zeta > {spectrum.needed:.4g} is needed, "
            f"less than {spectrum.available:.2g} available",
        )
    zeta = (spectrum.needed + spectrum.available) / 2
    # zeta(kappa_2) = zeta solved for kappa_2, with gain = 2 mu q.
    gain = 2 * spectrum.mu * spectrum.q
    kappa_2 = (gain * spectrum.low + 2 * zeta * spectrum.mu * spectrum.high) / (
        spectrum.low * (gain - zeta * spectrum.v**2)
    )
    b = (1 - spectrum.high / ((1 + zeta) * spectrum.low)) / 2
    theta = min(spectrum.theta_limit(b, zeta, 2.0), 1.0) / 2
    return Choices(b=b, kappa_2=kappa_2, kappa_4=2.0, theta=theta)


def theorem_4_constants(landscape: Landscape, choices: Choices | None = None) -> PrintedConstants | NotApplicable:
    """Return the printed constants, by default for `theorem_4_choices`.

    >>> from dpadmm.networks import ring
    >>> print(theorem_4_constants(Landscape(ring(5), strong_convexity=0.01, smoothness=0.26)))
    not applicable [P-ADMM, Theorem 4]: its conditions are empty here: zeta > 108.7 is needed, less than 0.2 available
    """
    found = choices if choices is not None else theorem_4_choices(landscape)
    if isinstance(found, NotApplicable):
        return found
    s, b, kappa_2, theta = _Spectrum.of(landscape), found.b, found.kappa_2, found.theta
    zeta = s.zeta(kappa_2)
    if (1 - b) * (1 + zeta) * s.low <= s.high:
        return NotApplicable(
            THEOREM_4, f"with these choices (1-b)(1+zeta) is {(1 - b) * (1 + zeta):.4g}, not above {1 + s.needed:.4g}"
        )
    limit = s.theta_limit(b, zeta, found.kappa_4)
    if theta >= limit:
        return NotApplicable(THEOREM_4, f"theta must be below min(H1, H2) = {limit:.4g}, got {theta:.4g}")
    kappa_1 = 1 + 2 * s.mu * s.high / (s.v**2 * s.low)
    kappa_3 = theta**-0.5
    squared = kappa_1 * kappa_2 * (kappa_3 - 1) * s.v**2 / (kappa_3 * (kappa_2 - 1) * s.q * s.low)
    root = math.sqrt(zeta) + math.sqrt(2 * (kappa_2 - 1) * s.q / (theta * kappa_1 * kappa_2))
    top = 4 * zeta * kappa_2 * s.m / s.q + s.high * root**2
    below = (1 - b) * (1 + zeta) * (1 + zeta - 4 * theta) * s.low
    return PrintedConstants(
        kappa_1=kappa_1,
        zeta=zeta,
        eta=math.sqrt(squared),
        rate=(1 + 4 * theta) * s.high / ((1 - b) * (1 + zeta - 4 * theta) * s.low),
        s_2=4 / ((1 + 4 * theta) * s.high),
        s_3=top / below + b * (found.kappa_4 - 1) / (1 - b),
    )


def theorem_4_printed(
    landscape: Landscape, start: Start, noise: NoiseCurve, rounds: int, choices: Choices | None = None
) -> Bound | NotApplicable:
    """Return the printed bound on `E sum_i ||x~_i^K - x*||^2`; the penalty must be the one of `theorem_4_constants`."""
    total = checks.count("rounds", rounds)
    constants = theorem_4_constants(landscape, choices)
    if isinstance(constants, NotApplicable):
        return constants
    w = constants.rate
    if not noise.decay < w < 1:
        return NotApplicable(THEOREM_4, f"R < W < 1 is needed, got R = {noise.decay:g} and W = {w:.4g}")
    value = start.agents + constants.s_2 * start.dual(constants.eta)
    value += constants.s_3 * noise.first_energy() * w / (w - noise.decay)
    return Bound(w**total * value, Version.PRINTED, THEOREM_4, CONDITIONS)
