"""R-ADMM's sufficient condition for convergence, Theorem III.1, eqs. (24)-(27): yes or no, and by how much.

With D the degrees, A the adjacency, `Dt = 2 eta D + gamma I`, `s = min(Dt)`, `DM = diag(M_i^2)`, M_i the smoothness of
`w_i f_i`, the condition asks for some L > 0 and mu > 1 with

    I + eta (D+A) Dt^-1  >  (L mu/(2 s eta)) DM (D-A)^+                                                             (24)
    eta (D+A)  >  eta (D+A) Dt^-1 eta (D-A) + (2/L) eta (D+A) Dt^-1 eta (D+A) + L mu/(2 s (mu-1)) DM                (25)

(26)-(27) are the case L = mu = 2. The matrices are not symmetric unless all degrees are equal; `>` is read as positive
definiteness of the quadratic form, which only the symmetric part decides (for (25) that is all the proof uses).

On a bipartite graph (star, path, grid, even ring) D + A is singular: with x alternating in sign over the two sides,
x'(D+A) = 0 and (25) reads `0 > c x' DM x`. It fails for every L, mu, eta and gamma; the iteration may still converge.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import brentq, minimize_scalar

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.networks.graph import Network
from dpadmm.problems.arrays import Floats
from dpadmm_research.claims.bounds import NotApplicable
from dpadmm_research.spectrum import is_bipartite, laplacian, signless_laplacian, spectral_facts

THEOREM = "R-ADMM, Theorem III.1"
ROUNDING = 1e-12


@dataclass(frozen=True)
class Convergence:
    """Whether (24) and (25) hold at this L and mu, and with how much to spare.

    slack_24: `1 - L mu/p`, p the largest product (24) allows (-inf: it allows none). slack_25: smallest eigenvalue of
    left minus right, relative to the largest of `eta (D+A)`. Both positive: the iteration converges.
    """

    L: float
    mu: float
    slack_24: float
    slack_25: float
    remark: str = ""

    @property
    def holds(self) -> bool:
        """Whether both are met, beyond what rounding could do."""
        return self.slack > ROUNDING

    @property
    def slack(self) -> float:
        """The smaller of the two."""
        return min(self.slack_24, self.slack_25)

    def __str__(self) -> str:
        """Show the answer."""
        texts = f"{'holds' if self.holds else 'fails'} by {abs(self.slack):.3g} at L = {self.L:.3g}, mu = {self.mu:.3g}"
        return f"[{THEOREM}] {texts}" + (f"; {self.remark}" if self.remark else "")


@dataclass(frozen=True)
class ConvergenceCondition:
    """Eqs. (24)-(25) for a graph, the smoothness M_i > 0 of every `w_i f_i`, eta > 0 and gamma >= 0.

    >>> from dpadmm.networks import complete, star
    >>> ConvergenceCondition(complete(5), 0.25, eta=0.5, gamma=4.0).best().holds
    True
    >>> print(ConvergenceCondition(star(5), 0.25, eta=0.5, gamma=4.0).best().remark)
    the graph is bipartite, so (25) can never hold; the iteration may still converge
    """

    network: Network
    smoothness: float | tuple[float, ...]
    eta: float
    gamma: float

    def __post_init__(self) -> None:
        """Check the numbers."""
        checks.positive("eta", self.eta)
        checks.non_negative("gamma", self.gamma)
        given = self.smoothness if isinstance(self.smoothness, tuple) else (self.smoothness,)
        for value in given:
            checks.positive("smoothness", value)
        if len(given) not in (1, self.network.n_agents):
            raise InputError(
                f"smoothness must be one number or {self.network.n_agents}, got {len(given)}.", setting="smoothness"
            )

    def at(self, L: float, mu: float) -> Convergence:
        """Judge one pair L > 0, mu > 1; `at(2, 2)` is (26)-(27)."""
        checks.positive("L", L)
        if checks.finite("mu", mu) <= 1:
            raise InputError(f"mu must be greater than 1, got {mu!r}.", setting="mu")
        matrices = _Matrices.of(self)
        slack_24 = 1 - L * mu / matrices.largest_product if matrices.largest_product > 0 else -math.inf
        return Convergence(L, mu, slack_24, matrices.slack_25(L, L * mu), self._remark)

    def best(self) -> Convergence:
        """Search L and mu for the most to spare, or the least to miss; the two slacks are then equal.

        At a fixed product `L mu` the smallest eigenvalue in (25) is concave in L, and grows with the product.
        """
        matrices = _Matrices.of(self)
        p = matrices.largest_product
        if p <= 0:
            remark = "(24) fails for every L and mu: the symmetric part of I + eta (D+A) Dt^-1 is not positive"
            return Convergence(1.0, 2.0, -math.inf, matrices.slack_25(1.0, 2.0), remark)
        # The slack of (25) falls in that of (24): where they are equal, the smaller of the two is largest.
        low, high = min(matrices.best_at(p)[1], 0.0), 1 - 1e-9
        spare = brentq(lambda s: matrices.best_at((1 - s) * p)[1] - s, low - ROUNDING, high, xtol=1e-13)
        product = (1 - spare) * p
        L, slack_25 = matrices.best_at(product)
        return Convergence(L, product / L, spare, slack_25, self._remark)

    @property
    def _remark(self) -> str:
        if is_bipartite(self.network):
            return "the graph is bipartite, so (25) can never hold; the iteration may still converge"
        return ""


def least_gamma(network: Network, smoothness: float | tuple[float, ...], eta: float) -> float | NotApplicable:
    """Return a gamma at which the condition holds and 1 % below which it does not (0 if none is needed)."""
    if is_bipartite(network):
        return NotApplicable(THEOREM, "the graph is bipartite: (25) fails for every gamma")

    def holds(gamma: float) -> bool:
        return ConvergenceCondition(network, smoothness, eta, gamma).best().holds

    if holds(0.0):
        return 0.0
    low, high = 0.0, eta
    while not holds(high):
        low, high = high, 2 * high
    while high - low > 0.01 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@dataclass(frozen=True, eq=False)
class _Matrices:
    """Symmetric parts of what (24) and (25) are made of."""

    free: Floats  # eta (D+A) - eta (D+A) Dt^-1 eta (D-A)
    young: Floats  # eta (D+A) Dt^-1 eta (D+A), divided by L/2
    curvature: Floats  # DM/(2 s), times L mu/(mu - 1)
    scale: float
    largest_product: float

    @classmethod
    def of(cls, condition: ConvergenceCondition) -> "_Matrices":
        network, eta = condition.network, condition.eta
        minus, plus = laplacian(network).toarray(), signless_laplacian(network).toarray()
        damped = 2 * eta * network.degrees + condition.gamma
        inverse = np.diag(1 / damped)
        least = float(damped.min())
        bound = np.diag(np.broadcast_to(np.array(condition.smoothness), (network.n_agents,)) ** 2)
        left = _symmetric(np.eye(network.n_agents) + eta * plus @ inverse)
        right = _symmetric(bound @ np.linalg.pinv(minus, hermitian=True)) / (2 * least * eta)
        return cls(
            free=_symmetric(eta * plus - eta**2 * plus @ inverse @ minus),
            young=eta**2 * plus @ inverse @ plus,
            curvature=bound / (2 * least),
            scale=eta * spectral_facts(network).largest_signless,
            largest_product=_largest_multiple(left, right),
        )

    def slack_25(self, L: float, product: float) -> float:
        """Smallest eigenvalue of left minus right of (25), relative to the scale; mu = product/L."""
        stretch = L * product / (product - L)  # L mu/(mu - 1)
        gap = self.free - (2 / L) * self.young - stretch * self.curvature
        return float(np.linalg.eigvalsh(gap)[0]) / self.scale

    def best_at(self, product: float) -> tuple[float, float]:
        """Return the L in (0, product) with the largest slack of (25) at this product, and that slack."""
        found = minimize_scalar(
            lambda u: -self.slack_25(u * product, product),
            bounds=(0.0, 1.0),
            method="bounded",
            options={"xatol": 1e-10},
        )
        return float(found.x) * product, -float(found.fun)


def _symmetric(matrix: Floats) -> Floats:
    return (matrix + matrix.T) / 2


def _largest_multiple(left: Floats, right: Floats) -> float:
    """Return the largest p for which `left - p right` is positive semi-definite; 0 if left is not positive definite."""
    if np.linalg.eigvalsh(left)[0] <= 0:
        return 0.0
    # right has a positive trace, so its largest eigenvalue relative to left is positive.
    return 1 / float(eigh(right, left, eigvals_only=True)[-1])
