"""P-ADMM's convergence theorems: Theorem 4 with Lemma 5 (linear rate) and Theorem 5 (O(1/K)).

Symbols: every `w_i f_i` is m-strongly convex (as `(m/2)||x||^2` is) and v-smooth; `L- = D - A`, `L+ = D + A` with
extreme eigenvalues `lam2 = min+(L-)`, `lam+ = min(L+)`, `Lam = max(L+)`; `Q^2 = L-/2`; y are the broadcasts, x the
minimisers before noise, `s_{i,k}^2 = s_{i,1}^2 R^(k-1)` the variances; the run starts from 0.

*Corrected.* Let `r^k = Q sum_{s<=k} y^s`, `q = (r, y)`, `||q||_G^2 = eta ||r||^2 + (eta/2) ||y||_{L+}^2`, and
q' = (r', x) the next q before its noise. The optimality condition (13), `grad f(x) + 2 eta Q r' + eta L+ (x - y) = 0`,
gives

    ||q' - q*||_G^2 = ||q - q*||_G^2 - ||q' - q||_G^2 - <grad f(x) - grad f(x*), x - x*>.                       (a)

So `||q' - q*||_G^2 <= ||q - q*||_G^2/(1 + zeta)` once zeta times the left side is at most what (a) takes away. With
`||2 eta Q (r' - r*)||^2 <= (1 + 1/c) v^2 ||x - x*||^2 + (1 + c) eta^2 Lam ||x - y||_{L+}^2`, any c > 0, that is so for

    zeta = max_c min( lam2/((1 + c) Lam),  2 m eta lam2/((1 + 1/c) v^2 + eta^2 Lam lam2) ).                     (b)

Fresh noise has mean zero and adds exactly `||(Q xi, xi)||_G^2 = eta sum_i deg_i ||xi_i||^2`. With `W = 1/(1 + zeta)`,
`E_k = W^k E_0 + eta d sum_i deg_i s_{i,1}^2 sum_{s<=k} W^(k-s) R^(s-1)` bounds `E||q^k - q*||_G^2`, and by (a)

    E||y^k - x*||^2 <= E_{k-1}/(m + eta lam+/2) + d sum_i s_{i,k}^2           (Theorem 4; every graph, eta and R)
    E[f(mean_k x^k)] - f(x*) <= (eta/K) ( ||x*||_{L+/2}^2 + d sum_i deg_i sum_{k<K} s_{i,k}^2 )      (Theorem 5)

the second by convexity in (a) with 0 in place of r*, summed over the rounds. The printed Theorem 4 is in
`printed_theory.py`.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.networks.graph import Network
from dpadmm.problems.arrays import Floats, Ints
from dpadmm_research.claims.bounds import Bound, NotApplicable, Version
from dpadmm_research.spectrum import laplacian, spectral_facts

THEOREM_4, THEOREM_5 = "P-ADMM, Theorem 4", "P-ADMM, Theorem 5"


@dataclass(frozen=True)
class Landscape:
    """What the theorems know: the graph, and m >= 0 and v >= m of every `w_i f_i`, its share g/N included."""

    network: Network
    strong_convexity: float
    smoothness: float

    def __post_init__(self) -> None:
        """Check the constants."""
        checks.non_negative("strong_convexity", self.strong_convexity)
        checks.positive("smoothness", self.smoothness)
        if self.smoothness < self.strong_convexity:
            raise InputError(
                f"smoothness must be at least strong_convexity {self.strong_convexity!r}, got {self.smoothness!r}.",
                setting="smoothness",
            )


@dataclass(frozen=True)
class Start:
    """How far a run from 0 has to go. Read off the data and the optimum: for analysis, not for release.

    agents: `||x^0 - x*||^2` over all agents, `N ||x*||^2`. edges: `||x^0 - x*||_{L+/2}^2 = 2 E ||x*||^2`.
    pull: `sum g' (D-A)^+ g` with g_i the gradients of `w_i f_i` at x*; `||r^0 - r*||^2 = pull/(2 eta^2)`.
    """

    agents: float
    edges: float
    pull: float

    @classmethod
    def of(cls, network: Network, optimum: Floats, gradients: Floats) -> "Start":
        """Return the distances for the optimum (d,) and the agents' weighted gradients there (N, d)."""
        if gradients.shape != (network.n_agents, len(optimum)):
            raise InputError(
                f"gradients must be ({network.n_agents}, {len(optimum)}), got {gradients.shape}.", setting="gradients"
            )
        size = float(optimum @ optimum)
        inverse = np.linalg.pinv(laplacian(network).toarray())
        pull = float(np.einsum("id,ij,jd->", gradients, inverse, gradients))
        return cls(network.n_agents * size, 2 * network.n_edges * size, pull)

    def dual(self, eta: float) -> float:
        """Return `||r^0 - r*||^2`."""
        return self.pull / (2 * eta**2)


@dataclass(frozen=True)
class NoiseCurve:
    """Gaussian noise as the theorems see it: the first variance of each agent, decay R in (0, 1], dimension d."""

    first_variances: tuple[float, ...]
    decay: float
    dimension: int

    def __post_init__(self) -> None:
        """Check the numbers."""
        for variance in self.first_variances:
            checks.non_negative("first_variances", variance)
        checks.half_open_unit("decay", self.decay)
        checks.count("dimension", self.dimension)

    def first_energy(self, weights: Floats | Ints | float = 1.0) -> float:
        """Return `d sum_i weight_i s_{i,1}^2`."""
        return self.dimension * float(np.sum(np.asarray(weights) * np.array(self.first_variances)))


@dataclass(frozen=True)
class LinearRate:
    """Contraction of `||q - q*||_G^2` by `rate = 1/(1 + zeta)` a round (Lemma 5, corrected), from eq. (b) at this c."""

    zeta: float
    split: float

    @property
    def rate(self) -> float:
        """W."""
        return 1 / (1 + self.zeta)


def linear_rate(landscape: Landscape, eta: float) -> LinearRate | NotApplicable:
    """Return the rate (b) of decentralised ADMM at the penalty eta > 0; for every connected graph.

    >>> from dpadmm.networks import ring
    >>> round(linear_rate(Landscape(ring(5), 0.5, 1.0), eta=0.4).zeta, 4)
    0.1833
    """
    checks.positive("eta", eta)
    if landscape.strong_convexity == 0:
        return NotApplicable(THEOREM_4, "the functions are not strongly convex; Theorem 5 covers them")
    facts, m, v = spectral_facts(landscape.network), landscape.strong_convexity, landscape.smoothness
    low, high = facts.algebraic_connectivity, facts.largest_signless

    def graph(c: float) -> float:
        return low / ((1 + c) * high)

    def functions(c: float) -> float:
        return 2 * m * eta * low / ((1 + 1 / c) * v**2 + eta**2 * high * low)

    # The first falls in c, the second rises from 0: they cross once.
    c = math.exp(brentq(lambda u: math.log(graph(math.exp(u)) / functions(math.exp(u))), -80.0, 80.0, xtol=1e-13))
    return LinearRate(min(graph(c), functions(c)), c)


def fastest_penalty(landscape: Landscape) -> float | NotApplicable:
    """Return the eta with the largest zeta of (b): `v sqrt((1 + 1/c)/(Lam lam2))` at the c where both terms meet."""
    if landscape.strong_convexity == 0:
        return NotApplicable(THEOREM_4, "the functions are not strongly convex; every penalty has the rate 1/K")
    facts = spectral_facts(landscape.network)
    low, high = facts.algebraic_connectivity, facts.largest_signless
    ratio = landscape.strong_convexity / landscape.smoothness * math.sqrt(high / low)
    # lam2/((1+c) Lam) = (m/v) sqrt(lam2/Lam) sqrt(c/(1+c)), i.e. c (1+c) = 1/ratio^2.
    c = (math.sqrt(1 + 4 / ratio**2) - 1) / 2
    return landscape.smoothness * math.sqrt((1 + 1 / c) / (high * low))


def theorem_4_corrected(
    landscape: Landscape, eta: float, start: Start, noise: NoiseCurve, rounds: int
) -> Bound | NotApplicable:
    """Bound `E sum_i ||y_i^K - x*||^2` after K >= 1 rounds; no condition on the graph, eta or the decay."""
    k = checks.count("rounds", rounds)
    _same_agents(landscape.network, noise)
    found = linear_rate(landscape, eta)
    if isinstance(found, NotApplicable):
        return found
    w, decay = found.rate, noise.decay
    lyapunov = w ** (k - 1) * (eta * start.dual(eta) + eta * start.edges)
    steps = np.arange(1, k)
    added = eta * noise.first_energy(landscape.network.degrees)
    lyapunov += added * float(np.sum(w ** (k - 1 - steps) * decay ** (steps - 1)))
    grip = landscape.strong_convexity + eta * spectral_facts(landscape.network).smallest_signless / 2
    value = lyapunov / grip + noise.first_energy() * decay ** (k - 1)
    return Bound(value, Version.CORRECTED, THEOREM_4, ("strongly convex and smooth functions", "start at 0"))


def theorem_5_corrected(landscape: Landscape, eta: float, start: Start, noise: NoiseCurve, rounds: int) -> Bound:
    """Bound `E[sum_i w_i f_i(mean_k x_i^k)] - f(x*)`, x_i^k the minimisers before noise (the paper's metric).

    Smaller than the printed bound on every graph. The averages are neither equal among agents nor releasable.
    """
    total, _ = checks.count("rounds", rounds), checks.positive("eta", eta)
    _same_agents(landscape.network, noise)
    energy = noise.first_energy(landscape.network.degrees) * float(np.sum(noise.decay ** np.arange(total - 1)))
    return Bound(eta * (start.edges + energy) / total, Version.CORRECTED, THEOREM_5, ("convex functions", "start at 0"))


def theorem_5_printed(
    landscape: Landscape, eta: float, start: Start, noise: NoiseCurve, rounds: int
) -> Bound | NotApplicable:
    """Return the printed bound, `(eta/K)(edges + d Lam^2 sum s_{i,1}^2/(2 lam2 (1 - R)))`.

    Its proof drops a positive cross term, yet the statement holds: it is never below `theorem_5_corrected`, since
    `2 deg_i lam2 <= 2 min(deg) (max(deg) + 1) <= Lam^2`.
    """
    total, _ = checks.count("rounds", rounds), checks.positive("eta", eta)
    _same_agents(landscape.network, noise)
    if noise.decay >= 1:
        return NotApplicable(THEOREM_5, "the printed theorem needs noise that decays, R < 1")
    facts = spectral_facts(landscape.network)
    factor = facts.largest_signless**2 / (2 * facts.algebraic_connectivity * (1 - noise.decay))
    value = eta * (start.edges + factor * noise.first_energy()) / total
    return Bound(value, Version.PRINTED, THEOREM_5, ("convex functions", "0 < R < 1", "start at 0"))


def _same_agents(network: Network, noise: NoiseCurve) -> None:
    if len(noise.first_variances) != network.n_agents:
        raise InputError(
            f"give one variance per agent ({network.n_agents}), got {len(noise.first_variances)}.",
            setting="first_variances",
        )
