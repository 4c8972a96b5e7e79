"""How far consensus DP-ADMM ends from the optimum: the paper's bounds (19)-(22), printed, corrected and sharpened.

Cao, Zhang, Poor, Tian 2021. With `pi(k) = E[ sum_i ||a_i - a_i*||^2/(2 rho) + (rho/2) ||x_i - x*||^2 ]`, rates
alpha(l), l = 2..K, `q = (1 + beta)^(1/4)` and `F = sqrt(N rho d (d+1))`:

    (19)  sqrt(pi(K)) <= sqrt(pi(0))/q^(2K) + (4 F/q^(2K+4)) sum_l q^(2l)/alpha(l)
    (20)  sum_i E||x_i(K) - x*||^2 <= (2/rho) pi(K)
    (22)  with the schedule (21):  noise term  (4 H F/eps) (1 - q^-(K-1))^2 / (q^2 (q - 1))        printed
                                                                           / (q^2 (q - 1)^2)      corrected

(19) is true; its noise can be added in squares. Let a step start from (x, a) and read `zhat = z + v`, with
`Dx_i = x_i - x*`, `Da_i = a_i - a_i*`. Adding the optimality of both updates gives

    pi >= (1 + beta) pi+ + (rho/2) sum_i ||Dx_i - (z - x*)||^2 - sum_i (rho Dx_i+ - Da_i+)'v + (rho N/2) ||v||^2.

The agents' step has `rho x_i+ - a_i+ = rho zhat - a_i`, so its part that moves with v is just rho v. As v is fresh and
has mean 0, the expectation of the third term is `-rho N E||v||^2`, and together

    (1 + beta) pi(k+1) <= pi(k) + (rho N/2) E||v(k+1)||^2                              (`theorem_2_in_squares`)

with no cross terms, no Assumption 2 and no Assumption 3. Noise w on the mean, before the prox, enters as
`-rho N w'(zhat - x*)` instead, and costs at most twice as much since the prox does not expand: `rho N E||w||^2`.

A second way (`released_error`). Put `y_i = zhat - a_i/rho`; then `y+ = (y + R_g R_f y)/2 + v` with reflections: R_g
does not expand, R_f contracts by `k_R = max(|rho - L|/(rho + L), |rho - tau|/(rho + tau))`. With `c = (1 + k_R)/2` and
`Y = E mean_i ||y_i - y_i*||^2`:  `Y+ <= c^2 Y + E||v||^2`, and the next z obeys `E||z - x*||^2 <= k_R^2 Y`. Before the
prox the noise is not centred any more and norms add: `sqrt(Y+) <= c sqrt(Y) + sqrt(E||w||^2)`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.methods.consensus_dp import NoisePlace
from dpadmm_research.claims.bounds import Bound, NotApplicable, Version

_CONVEXITY = "every f_i is tau-strongly convex and L-smooth, g is convex"
_FRESH = "fresh noise of mean 0 in every private round"


@dataclass(frozen=True, kw_only=True)
class Star:
    """The constants of a run: N agents, dimension d, penalty rho, tau and L of the weighted functions w_i f_i.

    All > 0, tau <= L.
    """

    n_agents: int
    dimension: int
    rho: float
    strong_convexity: float
    smoothness: float

    def __post_init__(self) -> None:
        """Check the numbers."""
        checks.count("n_agents", self.n_agents)
        checks.count("dimension", self.dimension)
        checks.positive("rho", self.rho)
        checks.positive("strong_convexity", self.strong_convexity)
        if checks.positive("smoothness", self.smoothness) < self.strong_convexity:
            raise InputError(
                f"smoothness must be at least the strong convexity {self.strong_convexity:g}, got {self.smoothness:g}.",
                setting="smoothness",
            )

    @property
    def largest_beta(self) -> float:
        """`2 tau rho/(rho^2 + tau L)`: the paper's beta at its best theta, `rho^2/(rho^2 + tau L)`."""
        return 2 * self.strong_convexity * self.rho / (self.rho**2 + self.strong_convexity * self.smoothness)

    @property
    def reflection(self) -> float:
        """`k_R`, by which the reflection of the agents' prox contracts."""
        ends = (self.strong_convexity, self.smoothness)
        return max(abs(self.rho - curvature) / (self.rho + curvature) for curvature in ends)

    @property
    def contraction(self) -> float:
        """`c = (1 + k_R)/2`, by which a noise-free round contracts."""
        return (1 + self.reflection) / 2

    def initial_potential(self, radius: float, gradient_radius: float) -> float:
        """`pi(0) = N (Lambda^2/(2 rho) + rho R^2/2)` for a start at 0.

        radius R: ||x*||. gradient_radius Lambda: root of the mean of ||grad w_i f_i(x*)||^2. Public estimates of both.
        """
        distance, slope = checks.non_negative("radius", radius), checks.non_negative("gradient_radius", gradient_radius)
        return self.n_agents * (slope**2 / (2 * self.rho) + self.rho * distance**2 / 2)

    @property
    def _spread(self) -> float:
        """F: sqrt(N rho) times the root of rate^2 E||v||^2 = d (d+1)."""
        return math.sqrt(self.n_agents * self.rho * self.dimension * (self.dimension + 1))


def laplace_energy(rate: float, dimension: int) -> float:
    """`E||v||^2 = d (d+1)/rate^2` of spherical Laplace noise."""
    return dimension * (dimension + 1) / checks.positive("rate", rate) ** 2


def gaussian_energy(noise_std: float, dimension: int) -> float:
    """`E||v||^2 = d std^2` of Gaussian noise."""
    return dimension * checks.positive("noise_std", noise_std) ** 2


def theorem_2(star: Star, initial_potential: float, rates: Sequence[float], beta: float) -> Bound | NotApplicable:
    """Return (19) as printed: a bound of sqrt(pi(K)) for rates alpha(2)..alpha(K); true wherever it applies."""
    if (reason := _outside_assumption_3(star)) is not None:
        return NotApplicable("Theorem 2, eq. (19)", reason)
    log_q = _log_q(beta)
    last = len(rates) + 1
    # The sum with q^(2(l - K)) in place of q^(2l), so that long runs do not overflow.
    total = math.fsum(
        math.exp(2 * log_q * (level - last)) / checks.positive("rate", rate)
        for level, rate in enumerate(rates, start=2)
    )
    start = math.sqrt(checks.non_negative("initial_potential", initial_potential)) * math.exp(-2 * log_q * last)
    value = start + 4 * star._spread * math.exp(-4 * log_q) * total
    return Bound(value, Version.PRINTED, "Theorem 2, eq. (19)", (_CONVEXITY, "rho > 2L (Assumption 3)"))


def theorem_2_in_squares(
    star: Star,
    initial_potential: float,
    energies: Sequence[float],
    beta: float,
    place: NoisePlace = NoisePlace.AFTER_PROX,
) -> Bound:
    """Return the bound of pi(K) with the noise added in squares; `energies` holds E||v(l)||^2, l = 2..K.

    pi(K) <= pi(0)/(1+beta)^K + (rho N/2) sum_l E||v(l)||^2/(1+beta)^(K-l+1)         (twice the sum before the prox)
    """
    factor = {NoisePlace.AFTER_PROX: 0.5, NoisePlace.BEFORE_PROX: 1.0}[place] * star.rho * star.n_agents
    shrink = 1 / (1 + checks.positive("beta", beta))
    value = shrink * checks.non_negative("initial_potential", initial_potential)  # iteration 1 hears no noise
    for energy in energies:
        value = shrink * (value + factor * checks.non_negative("energy", energy))
    return Bound(value, Version.CORRECTED, "Theorem 2, noise in squares", (_CONVEXITY, _FRESH))


def theorem_3(
    star: Star, initial_potential: float, sensitivity: float, epsilon: float, rounds: int, beta: float, version: Version
) -> Bound | NotApplicable:
    """Return (22): the bound of sqrt(pi(K)) under the schedule (21) for sensitivity H and K = `rounds` >= 2 iterations.

    As printed one factor q - 1 is missing under the noise term, so that the printed value is no bound.
    """
    if (reason := _outside_assumption_3(star)) is not None:
        return NotApplicable("Theorem 3, eq. (22)", reason)
    log_q, iterations = _log_q(beta), checks.count("rounds", rounds, least=2)
    level = _noise_level(star, sensitivity, epsilon, beta, version)
    start = math.sqrt(checks.non_negative("initial_potential", initial_potential)) * math.exp(-2 * log_q * iterations)
    value = start + level * math.expm1(-log_q * (iterations - 1)) ** 2
    return Bound(value, version, "Theorem 3, eq. (22)", (_CONVEXITY, "rho > 2L (Assumption 3)", "schedule (21)"))


def optimal_rounds(
    star: Star, initial_potential: float, sensitivity: float, epsilon: float, beta: float, version: Version
) -> int:
    """Return the K >= 2 that minimises (22): the floor or the ceiling of

    1 + 4 log_{1+beta}( 1 + sqrt(pi(0)) (q - 1)^j eps/(4 H F) ),     j = 1 as printed, 2 corrected.
    """
    log_q = _log_q(beta)
    level = _noise_level(star, sensitivity, epsilon, beta, version)
    root = math.sqrt(checks.positive("initial_potential", initial_potential))
    # d/dt of  A q^-2 t^2 + C (1 - t)^2  vanishes at 1/t = 1 + A/(C q^2),  t = q^-(K-1), A = sqrt(pi(0)).
    best = 1 + math.log1p(root / (level * math.exp(2 * log_q))) / log_q

    def bound(iterations: int) -> float:
        return root * math.exp(-2 * log_q * iterations) + level * math.expm1(-log_q * (iterations - 1)) ** 2

    return min((max(2, math.floor(best)), max(2, math.ceil(best))), key=bound)


def papers_relative_error(star: Star, potential: float, radius: float) -> float:
    """Return (20) as the paper plots it: `sum_i E||x_i(K) - x*||^2/(N ||x*||^2) <= 2 pi(K)/(rho N R^2)`."""
    return 2 * potential / (star.rho * star.n_agents * checks.positive("radius", radius) ** 2)


def released_error(
    star: Star, start_distance: float, energies: Sequence[float], place: NoisePlace = NoisePlace.AFTER_PROX
) -> Bound:
    """Bound `E||zhat - x*||^2` of the last broadcast after K rounds of the engine; `energies` holds their E||v_k||^2.

        k_R^2 ( c^(2(K-1)) Y_1 + sum_{k<K} c^(2(K-1-k)) E||v_k||^2 ) + E||v_K||^2            (noise after the prox)

    start_distance: `sqrt(Y_1)`, at most `||x* - z_1|| + Lambda/rho` with z_1 the first, data-free broadcast. Before the
    prox the roots of the hidden terms add instead of the terms.

    >>> star = Star(n_agents=100, dimension=2, rho=1.0, strong_convexity=0.5, smoothness=2.0)
    >>> print(released_error(star, 3.0, [0.01] * 12))
    0.0121334 [corrected: contraction of the reflections]
    """
    if not energies:
        raise InputError("energies must hold one value per private broadcast, got none.", setting="energies")
    noise = [checks.non_negative("energy", energy) for energy in energies]
    state = checks.non_negative("start_distance", start_distance) ** 2
    for energy in noise[:-1]:
        if place is NoisePlace.AFTER_PROX:
            state = star.contraction**2 * state + energy
        else:
            state = (star.contraction * math.sqrt(state) + math.sqrt(energy)) ** 2
    # The prox does not expand, so the last noise adds in squares in either place.
    value = star.reflection**2 * state + noise[-1]
    return Bound(value, Version.CORRECTED, "contraction of the reflections", (_CONVEXITY, _FRESH))


def _log_q(beta: float) -> float:
    return math.log1p(checks.positive("beta", beta)) / 4


def _noise_level(star: Star, sensitivity: float, epsilon: float, beta: float, version: Version) -> float:
    """The factor of (1 - q^-(K-1))^2 in (22)."""
    log_q = _log_q(beta)
    scale = 4 * checks.positive("sensitivity", sensitivity) * star._spread / checks.positive("epsilon", epsilon)
    power = {Version.PRINTED: 1, Version.CORRECTED: 2}[version]
    return scale * math.exp(-2 * log_q) / math.expm1(log_q) ** power


def _outside_assumption_3(star: Star) -> str | None:
    if star.rho > 2 * star.smoothness:
        return None
    return f"Assumption 3 asks for rho > 2L = {2 * star.smoothness:g}, got rho = {star.rho:g}"
