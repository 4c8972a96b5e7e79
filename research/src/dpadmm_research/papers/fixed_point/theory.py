"""Utility of noisy fixed-point iterations: contraction factors, Theorem 1, Corollaries 5.1-5.3, Lemma C.1, network DP.

    u_b <- u_b + active_b lam ( R_b(u) + e_b + N(0, sigma^2 I) - u_b ),    P(active_b) = q,    E||e||^2 <= zeta^2

R has the fixed point u* and is tau-contractive around it. Printed formulas are those of Cyffers, Bellet, Basu (2023);
the corrected ones rest on `Iteration.mean_square`, whose proof is in its docstring. Privacy figures of the paper are
claims (`claims.py`).
"""

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.methods.fixed_point.participation import Participation
from dpadmm.problems.arrays import Floats, Ints
from dpadmm_research.claims.bounds import Bound, NotApplicable, Version


def relaxed_factor(tau: float, lam: float) -> float:
    """Return `1 - lam + lam tau`, the contraction factor of `(1 - lam) I + lam R`."""
    return 1 - checks.half_open_unit("lam", lam) * (1 - _factor(tau))


def gradient_step_factor(step: float, strong_convexity: float, smoothness: float) -> float:
    """Return `max(|1 - step mu|, |1 - step beta|)`, the factor of `u - step grad f(u)`; below 1 for step < 2/beta.

    At `step = 2/(beta + mu)` it is `(beta - mu)/(beta + mu)` (Remark 2).
    """
    mu, beta = _curvatures(strong_convexity, smoothness)
    size = checks.positive("step", step)
    return max(abs(1 - size * mu), abs(1 - size * beta))


def reflected_prox_factor(gamma: float, strong_convexity: float, smoothness: float) -> float:
    """Return the factor of `2 prox_{gamma f} - I`: `max( |1 - gamma mu|/(1 + gamma mu), |gamma L - 1|/(gamma L + 1) )`.

    It is 1 if mu = 0 or L is infinite (Giselsson & Boyd 2017).

    >>> round(reflected_prox_factor(0.5, 1.0, 4.0), 6)  # the best gamma, 1/sqrt(mu L)
    0.333333
    """
    step = checks.positive("gamma", gamma)
    low, high = _curvatures(strong_convexity, smoothness, may_be_infinite=True)
    top = 1.0 if math.isinf(high) else abs(step * high - 1) / (step * high + 1)
    return max(abs(1 - step * low) / (1 + step * low), top)


def best_gamma(strong_convexity: float, smoothness: float) -> float:
    """Return `1/sqrt(mu L)`, which minimises `reflected_prox_factor` (to `(sqrt k - 1)/(sqrt k + 1)`, k = L/mu)."""
    mu, top = _curvatures(strong_convexity, smoothness)
    return 1 / math.sqrt(checks.positive("strong_convexity", mu) * top)


def consensus_factor(gamma: float, strong_convexity: float, smoothness: float, weights: Floats) -> float:
    """Return tau of consensus ADMM on `sum w_i f_i + g`: the worst block's, whose function is `N w_i f_i`.

    g does not help: across the consensus subspace its reflection keeps distances, whatever its curvature.
    """
    scale = len(weights) * np.asarray(weights, dtype=np.float64)
    return max(reflected_prox_factor(gamma, s * strong_convexity, s * smoothness) for s in np.unique(scale))


def general_factor(gamma: float, strong_convexity: float, smoothness: float, a: Floats) -> Bound | NotApplicable:
    """Return tau of general ADMM: y -> f(A^-1 y) has curvature in `[mu/||A||^2, L/omega^2]` if A is square."""
    values = np.linalg.svd(a, compute_uv=False)
    if a.shape[0] != a.shape[1] or values[-1] == 0:
        return NotApplicable("contraction", "A is not invertible: off its range the reflection keeps distances")
    low, high = strong_convexity / values[0] ** 2, smoothness / values[-1] ** 2
    factor = reflected_prox_factor(gamma, float(low), float(high))
    return Bound(factor, Version.CORRECTED, "contraction of ADMM with invertible A", ("f smooth, strongly convex",))


@dataclass(frozen=True, kw_only=True)
class Iteration:
    """The constants of a noisy fixed-point iteration.

    Parameters
    ----------
    tau: contraction factor of R, in [0, 1). activity: q, in (0, 1]. noise_std: sigma >= 0.
    dimension: of u, *all* blocks together (N d for consensus ADMM). error: zeta >= 0. distance_squared: ||u_0 - u*||^2.
    """

    tau: float
    noise_std: float
    dimension: int
    distance_squared: float
    activity: float = 1.0
    error: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        _factor(self.tau)
        checks.non_negative("noise_std", self.noise_std)
        checks.count("dimension", self.dimension)
        checks.non_negative("distance_squared", self.distance_squared)
        checks.half_open_unit("activity", self.activity)
        checks.non_negative("error", self.error)

    @property
    def _gap(self) -> float:
        return 1 - self.tau

    def theorem_1(self, k: int) -> Bound | NotApplicable:
        """Return the printed bound on `E||u_{k+1} - u*||^2` (Theorem 1, with the condition of Remark 1)."""
        q, spread = self.activity, self.noise_std * math.sqrt(self.dimension)
        if not spread + self.error > math.sqrt(q) * self._gap:
            return NotApplicable("Theorem 1", "it needs sigma sqrt(p) + zeta > sqrt(q) (1 - tau)")
        rate = (1 - q**2 * self._gap / 8) ** checks.count("k", k, least=0)
        noise = (spread + self.error) / (math.sqrt(q) * self._gap)
        noise += (spread**2 + self.error**2) / (q * self._gap) ** 3
        value = rate * self.distance_squared + 8 * noise
        conditions = ("sigma sqrt(p) + zeta > sqrt(q) (1 - tau)", "at lam = 1, not at the step size of the proof")
        return Bound(value, Version.PRINTED, "Theorem 1", conditions)

    def theorem_1_step(self) -> Bound | NotApplicable:
        """Return the step size of the proof of Theorem 1, `lam = (1 - q/(2(1+c)))/(1 - b)`, where it is a step size.

        `b = sqrt(1 - q(1 - tau))` and `(1 + c)(1 - tau) = sqrt((p sigma^2 + zeta^2)/q)`. The iteration and the result
        that the proof builds on need lam <= 1, that is `b <= q/(2(1+c))`, hence tau < 1/4 at q = 1: nearly always the
        proof's lam is far above 1. The printed bound is true all the same: `mean_square` at lam = 1 is below it.
        """
        q = self.activity
        b = math.sqrt(1 - q * self._gap)
        stretch = math.sqrt((self.dimension * self.noise_std**2 + self.error**2) / q) / self._gap
        if stretch <= 1:
            return NotApplicable("Theorem 1, step size", "it needs sqrt((p sigma^2 + zeta^2)/q) > 1 - tau")
        lam = (1 - q / (2 * stretch)) / (1 - b)
        if lam > 1:
            return NotApplicable("Theorem 1, step size", f"the proof's lam = {lam:.4g} is above 1")
        return Bound(lam, Version.PRINTED, "Theorem 1, step size", ("lam <= 1",))

    def mean_square(self, k: int, lam: float) -> Bound:
        """Return a bound on `E||u_k - u*||^2` for every lam in (0, 1].

        With `a = 1 - lam (1 - tau)`, `s^2 = p sigma^2` and `V_k = E||u_k - u*||^2`:

            zeta = 0:  V+ <= (1 - q (1 - a^2)) V + q lam^2 s^2                limit  lam^2 s^2/(1 - a^2)
            zeta > 0:  V+ <= (1 - q (1 - a)) V + q ( (1-a) zeta^2/(1-tau)^2 + lam^2 s^2 )

        Proof. Given u, a block keeps its distance with probability 1 - q and takes the step with probability q, so
        `V+ = (1-q) V + q E||(1-lam)(u-u*) + lam (R(u)-u*) + lam e||^2 + q lam^2 s^2`, the noise being independent. The
        first two terms have norm at most `a||u-u*||`; for zeta > 0, `(a v + lam e)^2 <= a v^2 + (1-a) (e/(1-tau))^2` by
        convexity, as `lam = (1-a)/(1-tau)`. Uniformly random subsets and the token on the complete graph are covered; a
        token on another graph is not, its holders depend on each other.
        """
        a = relaxed_factor(self.tau, lam)
        rounds, q, spread = checks.count("k", k, least=0), self.activity, lam**2 * self.dimension * self.noise_std**2
        if self.error == 0:
            rate, push = 1 - q * (1 - a * a), q * spread
        else:
            rate, push = 1 - q * (1 - a), q * ((1 - a) * (self.error / self._gap) ** 2 + spread)
        left = rate**rounds
        value = left * self.distance_squared + push * (1 - left) / (1 - rate)
        return Bound(value, Version.CORRECTED, "Theorem 1", ("each block active with probability q, independently",))


class Setup(Enum):
    """Which trade-off between privacy and utility."""

    CENTRALISED = "Corollary 5.1"
    FEDERATED = "Corollary 5.2"
    DECENTRALISED = "Corollary 5.3"


@dataclass(frozen=True, kw_only=True)
class TradeOff:
    """Corollaries 5.1-5.3: the utility of private ADMM when sigma is chosen for a Renyi budget.

    Parameters
    ----------
    users: n. sampled: m users a round (n for the centralised setup, 1 for the token). model_dimension: p of the model.
    lipschitz, gamma: L of the blocks' functions, and the step. tau, distance_squared: as in `Iteration`.
    """

    setup: Setup
    users: int
    sampled: int
    model_dimension: int
    lipschitz: float
    gamma: float
    tau: float
    distance_squared: float

    def __post_init__(self) -> None:
        """Check the numbers, and that as many take part as the setup says."""
        if checks.count("sampled", self.sampled) > checks.count("users", self.users):
            raise InputError(f"sampled must be at most users {self.users}, got {self.sampled}.", setting="sampled")
        expected = {Setup.CENTRALISED: self.users, Setup.DECENTRALISED: 1}.get(self.setup, self.sampled)
        if self.sampled != expected:
            raise InputError(
                f"{self.setup.value} has {expected} users a round, got sampled = {self.sampled}.", setting="sampled"
            )
        checks.positive("lipschitz", self.lipschitz)
        checks.positive("gamma", self.gamma)

    def claimed_variance(self, rounds: int, order: float, rdp: float) -> float:
        """Return the sigma^2 the proofs insert, from Theorems 2, 3 and 4 (with K_i = K/n): claimed, not certified."""
        per_round = 8 * order * (self.lipschitz * self.gamma / self.users) ** 2 / checks.positive("rdp", rdp)
        extra = {Setup.FEDERATED: 2.0, Setup.DECENTRALISED: math.log(self.users)}.get(self.setup, 1.0)
        return checks.count("rounds", rounds) * per_round * extra

    def printed_rate(self, order: float, rdp: float) -> Bound:
        """Return the two terms of the corollary as printed; an order of magnitude, without constants and logarithms.

        5.2 has r^2 = (m/n)^2 in its second term where Theorem 1 gives r^3; 5.3 has 1/n where it gives n.
        """
        power = {Setup.FEDERATED: 2, Setup.DECENTRALISED: 1}.get(self.setup, 0)
        return Bound(self._rate(order, rdp, power), Version.PRINTED, self.setup.value, ("order of magnitude only",))

    def derived_rate(self, order: float, rdp: float) -> Bound:
        """Return the same two terms as they follow from Theorem 1 and the claimed sigma, per round K.

        Theorem 1 divides the second term by `q^3` with q = m/n, and sigma^2 holds 1/n^2. Still with the *model's*
        dimension, as in the proofs, although the noise is in all n blocks. K is what makes `(1 - q^2 (1-tau)/8)^K`
        small: of order `8/(q^2 (1-tau))` for each factor e, not a mere logarithm.
        """
        conditions = ("order of magnitude only", "sigma as claimed, not as certified", "the model's dimension")
        return Bound(self._rate(order, rdp, 3), Version.CORRECTED, f"{self.setup.value}, its algebra", conditions)

    def _rate(self, order: float, rdp: float, power: int) -> float:
        n, gap, share = self.users, 1 - self.tau, self.sampled / self.users
        pull = self.model_dimension * order * (self.lipschitz * self.gamma) ** 2 / checks.positive("rdp", rdp)
        return math.sqrt(pull / share) / (n * gap) + pull / (share**power * n**2 * gap**3)

    def printed_proof(self, rounds: int, order: float, rdp: float) -> Bound | NotApplicable:
        """Return the first line of the corollary's proof: Theorem 1, the claimed sigma, the *model's* dimension."""
        std = math.sqrt(self.claimed_variance(rounds, order, rdp))
        found = self._iteration(std, self.model_dimension).theorem_1(rounds)
        if isinstance(found, NotApplicable):
            return found
        return Bound(found.value, Version.PRINTED, f"{self.setup.value}, proof", found.conditions)

    def corrected(self, rounds: int, order: float, rdp: float, participations: int, lam: float = 1.0) -> Bound:
        """Return what holds: `mean_square` with all N p coordinates, at the sigma that C5 certifies.

        `sigma^2 = 8 order K_i L^2 gamma^2/rdp`, K_i the largest number of participations, gives every user the Renyi
        epsilon `rdp` at `order` against whoever sees all messages.
        """
        reach = (self.lipschitz * self.gamma) ** 2 / checks.positive("rdp", rdp)
        std = math.sqrt(8 * order * checks.count("participations", participations) * reach)
        found = self._iteration(std, self.users * self.model_dimension).mean_square(rounds, lam)
        return Bound(found.value, Version.CORRECTED, self.setup.value, (*found.conditions, "sigma by C5"))

    def _iteration(self, std: float, dimension: int) -> Iteration:
        return Iteration(
            tau=self.tau,
            noise_std=std,
            dimension=dimension,
            distance_squared=self.distance_squared,
            activity=self.sampled / self.users,
        )


def lemma_c1(
    rate: float, order: float, noise_std: float, sensitivity: float = 1.0, version: Version = Version.CORRECTED
) -> Bound | NotApplicable:
    """Return the Renyi epsilon `2 order q^2 (sensitivity/sigma)^2` of a Gaussian on a Poisson sample, add-or-remove.

    Needs q < 1/5, sigma >= 4 and `order <= (M^2 sigma^2/2 - log(5 sigma^2))/(M + log(q order) + 1/(2 sigma^2))` with
    `M = log(1 + 1/(q (order - 1)))`. As printed sigma is the noise itself; it must be the noise over the sensitivity.
    The library's own figures for samples come from loss distributions (`privacy.sampled`), not from here.
    """
    q = checks.open_unit("rate", rate)
    if checks.finite("order", order) <= 1:
        raise InputError(f"order must be greater than 1, got {order!r}.", setting="order")
    ratio = checks.positive("noise_std", noise_std) / checks.positive("sensitivity", sensitivity)
    sigma = ratio if version is Version.CORRECTED else noise_std
    big = math.log1p(1 / (q * (order - 1)))
    limit = (big**2 * sigma**2 / 2 - math.log(5 * sigma**2)) / (big + math.log(q * order) + 1 / (2 * sigma**2))
    wanted = ((f"q = {q:g} < 1/5", q < 0.2), (f"sigma = {sigma:g} >= 4", sigma >= 4))
    failed = [text for text, holds in (*wanted, (f"order = {order:g} <= {limit:.4g}", order <= limit)) if not holds]
    if failed:
        return NotApplicable("Lemma C.1", "it needs " + ", ".join(failed))
    return Bound(2 * order * (q / ratio) ** 2, version, "Lemma C.1", ("Poisson sampling, add-or-remove neighbours",))


def network_view(walk: Participation, user: int) -> Ints:
    """Return the rounds whose token user j receives: its view O_j in Definition 3 (network DP).

    (alpha, eps)-network RDP asks, for all i != j and all neighbours in user i's data, that the tokens of these rounds
    have Renyi divergence at most eps. Nothing is certified for this view beyond C5, which covers every view; the
    paper's smaller figure is `claims.NetworkTheorem4`.

    >>> network_view(Participation.of(3, [[0], [2], [1], [2]]), user=2)
    array([2, 4])
    """
    if not 0 <= user < walk.n_agents:
        raise InputError(f"user must be from 0 to {walk.n_agents - 1}, got {user!r}.", setting="user")
    return np.flatnonzero((walk.table == user).any(axis=1)) + 1


def _factor(tau: float) -> float:
    if not 0 <= checks.finite("tau", tau) < 1:
        raise InputError(f"tau must be in [0, 1), got {tau!r}: without contraction there is no rate.", setting="tau")
    return float(tau)


def _curvatures(low: float, high: float, may_be_infinite: bool = False) -> tuple[float, float]:
    checks.non_negative("strong_convexity", low)
    if not (may_be_infinite and math.isinf(high)):
        checks.positive("smoothness", high)
    if high < low:
        raise InputError(f"smoothness must be at least strong_convexity {low:g}, got {high:g}.", setting="smoothness")
    return low, high
