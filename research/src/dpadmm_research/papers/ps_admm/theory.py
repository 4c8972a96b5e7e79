"""PS-ADMM's utility theorems (3 and 4), as printed and as they can be proved.

Both bound criterion (9) of the averages over the rounds,
`E{ P(xhat, zhat) - P* + sum_i tau ||xhat_i - zhat|| }`, for `f_i` with constants mu_f <= v_f (weights included).

What is wrong in print:

* The proof of Lemma 7 needs `zeta = 2 eta - 4 eta/(1 - 2 eta v_L)` to be positive, twice (convexity and Jensen's
  inequality with the weights zeta and xi); it is negative for every step size. So (10) is unproved for the
  extrapolated average.
* (10) lacks G^2 (the appendix has it), and N: its noise term stands outside the sum over the agents.
* `||lambda^0||^2 + tau^2` lacks the cross term `2 tau ||lambda^0||`; nothing is lost where lambda^0 = 0.
* Theorem 4 takes `S = O(v_f/mu_f)` inner steps, but Theorem 3's conditions force `S >= 64 (v_L/mu_f)^2`, about.

Corrected Theorem 3, for plain averages (c = 1) with noise of std at most sigma in every inner step, drawn afresh:

    E{...} <= (1/K) sum_i A_i + N eta d sigma^2,
    A_i = (mu_f/4) ||x^0 - x*||^2 + (rho/2) ||z^0 - x*||^2 + (||a^0|| + tau)^2/(2 rho),

if `eta v_L <= 1` and `(1 - eta rho - eta mu_f/2)/(2 eta S) + 2 eta kappa^2/l <= mu_f/4`, kappa the curvature of one
record's loss, l the batch size. Proof: for `v+ = P_C(v - eta g)`, `g = grad L + e`, E e = 0, smoothness and the
projection's three-point inequality give

    2 eta E[L(v+) - L(x)] <= (1 - eta mu_L) ||v - x||^2 - E ||v+ - x||^2 + 2 eta^2 E ||e||^2,
    E ||e||^2 <= (2 kappa^2/l)(||v - x||^2 + ||vt - x||^2) + d sigma^2.

Add `eta (rho + mu_f/2) ||v+ - x||^2` to both sides, sum over the S steps (the condition makes it telescope), and use
Jensen for the plain mean; then the paper's Lemmas 5 and 6 as they stand. Clipping must not bite, and the full
gradient's noise must be fresh in every step.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem
from dpadmm_research.claims.bounds import Bound, NotApplicable, Version

_PRINTED_3 = "Theorem 3, eq. (10)"
_PRINTED_4 = "Theorem 4"
_CORRECTED_3 = "Theorem 3, plain averages"
_CORRECTED_4 = "Theorem 4, plain averages"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The public constants and the distances at the start; all agents alike.

    rounds K, inner_steps S, step eta, rho, agents N, dimension d: as in the run.
    strong_convexity, smoothness: mu_f > 0 and v_f of `w_i f_i`. record_curvature: kappa of one weighted record's loss.
    batch_size: l. start_distance: `||x^0 - x*||` (and of z^0). start_dual: `||a^0||`. tau: the criterion's weight, > 0.
    """

    rounds: int
    inner_steps: int
    step: float
    rho: float
    agents: int
    dimension: int
    strong_convexity: float
    smoothness: float
    record_curvature: float
    batch_size: int = 1
    start_distance: float = 0.0
    start_dual: float = 0.0
    tau: float = 1.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("rounds", "inner_steps", "agents", "dimension", "batch_size"):
            checks.count(name, getattr(self, name))
        for name in ("step", "rho", "strong_convexity", "smoothness", "record_curvature", "tau"):
            checks.positive(name, getattr(self, name))
        checks.non_negative("start_distance", self.start_distance)
        checks.non_negative("start_dual", self.start_dual)
        if self.smoothness < self.strong_convexity:
            raise InputError(
                f"smoothness must be at least the strong convexity {self.strong_convexity:g}, got {self.smoothness:g}.",
                setting="smoothness",
            )

    @property
    def v_l(self) -> float:
        """`v_L = v_f + rho`."""
        return self.smoothness + self.rho


def least_inner_steps_printed(facts: Facts) -> float:
    """Return the least S that Theorem 3's third condition allows at this step size; infinite if there is none.

    With `mu_L = mu_f + rho`, the best choice, the second condition reads `eta <= mu_f/(8 v_L^2 + 2 mu_f v_L)`, which is
    just where the third one's coefficient of S vanishes.
    """
    eta, mu, v = facts.step, facts.strong_convexity, facts.v_l
    if 2 * eta * v >= 1:
        return math.inf
    xi = 4 * eta / (1 - 2 * eta * v)
    gain = eta * mu / 2 - 4 * eta**2 * v**2 / (1 - 2 * eta * v)
    if gain <= 0:
        return math.inf
    return max(1.0, (1 - facts.rho * xi / 2 - mu * xi / 4) / gain)


def least_inner_steps(facts: Facts) -> float:
    """Return the least S of the corrected Theorem 3 at this step size and batch size; infinite if there is none."""
    eta, mu = facts.step, facts.strong_convexity
    if eta * facts.v_l > 1:
        return math.inf
    gain = mu / 4 - 2 * eta * facts.record_curvature**2 / facts.batch_size
    if gain <= 0:
        return math.inf
    return max(1.0, (1 - eta * facts.rho - eta * mu / 2) / (2 * eta * gain))


def theorem_3_printed(
    facts: Facts, *, epsilon: float, delta: float, records: int, lipschitz: float
) -> Bound | NotApplicable:
    """Return the right side of (10) with the appendix's G^2, for the noise of the paper's Theorem 2 with c = 1.

    Unproved: see the module's text. M = records of each agent, G = lipschitz.
    """
    least = least_inner_steps_printed(facts)
    if facts.inner_steps < least:
        return NotApplicable(_PRINTED_3, _too_few(facts, least))
    eps = checks.positive("epsilon", epsilon)
    log = math.log(1 / checks.open_unit("delta", delta))
    product = checks.positive("lipschitz", lipschitz) / (checks.count("records", records) * eps)
    sigma_squared = product**2 * facts.rounds * facts.inner_steps * log
    start = facts.agents * _start(facts, facts.start_dual**2 + facts.tau**2) / facts.rounds
    noise = 2 * facts.step / (1 - 2 * facts.step * facts.v_l) * facts.dimension * sigma_squared
    return Bound(start + noise, Version.PRINTED, _PRINTED_3, ("the proof has a gap: zeta < 0",))


def theorem_3_corrected(facts: Facts, *, noise_std: float) -> Bound | NotApplicable:
    """Return the corrected bound for plain averages.

    noise_std: of the whole noise of an inner step, at most, for every agent.

    >>> facts = Facts(rounds=10, inner_steps=100, step=0.5, rho=0.1, agents=2, dimension=3, strong_convexity=0.5,
    ...     smoothness=0.75, record_curvature=0.25, start_distance=1.0)
    >>> print(theorem_3_corrected(facts, noise_std=0.0))
    1.035 [corrected: Theorem 3, plain averages]
    """
    least = least_inner_steps(facts)
    if facts.inner_steps < least:
        return NotApplicable(_CORRECTED_3, _too_few(facts, least))
    start = facts.agents * _start(facts, (facts.start_dual + facts.tau) ** 2) / facts.rounds
    noise = facts.agents * facts.step * facts.dimension * checks.non_negative("noise_std", noise_std) ** 2
    texts = ("averaging is plain", "noise is fresh in every inner step", "no correction is clipped")
    return Bound(start + noise, Version.CORRECTED, _CORRECTED_3, texts)


def theorem_4_printed(
    facts: Facts, *, epsilon: float, delta: float, records: int, lipschitz: float
) -> Bound | NotApplicable:
    """Return `N G/(M eps) sqrt(d ln(1/delta) v_f/mu_f)`, the printed order with its open constant set to 1.

    Applicable only if `S = ceil(v_f/mu_f)` inner steps are enough for Theorem 3, as the theorem takes for granted.
    """
    reserved = math.ceil(facts.smoothness / facts.strong_convexity)
    least = least_inner_steps_printed(facts)
    if reserved < least:
        why = f"it takes S = O(v_f/mu_f), {reserved} here, but Theorem 3 needs {_steps(least)} at this step size"
        return NotApplicable(_PRINTED_4, why)
    log = math.log(1 / checks.open_unit("delta", delta))
    scale = facts.agents * checks.positive("lipschitz", lipschitz)
    scale /= checks.count("records", records) * checks.positive("epsilon", epsilon)
    value = scale * math.sqrt(facts.dimension * log * facts.smoothness / facts.strong_convexity)
    return Bound(value, Version.PRINTED, _PRINTED_4, ("the order only: its constant is open, set to 1",))


@dataclass(frozen=True)
class BestRounds:
    """The number of rounds that minimises the corrected bound, and the bound there."""

    rounds: int
    bound: Bound


def theorem_4_corrected(facts: Facts, *, noise_std_one_round: float) -> BestRounds | NotApplicable:
    """Return the best K for a noise variance that grows with K, `sigma^2 = K noise_std_one_round^2` (zCDP; C0).

    `A/K + B K` is least at `sqrt(A/B)`: A the start's part, `B = N eta d noise_std_one_round^2`. `facts.rounds` is
    not used.
    """
    checks.positive("noise_std_one_round", noise_std_one_round)
    least = least_inner_steps(facts)
    if facts.inner_steps < least:
        return NotApplicable(_CORRECTED_4, _too_few(facts, least))
    start = facts.agents * _start(facts, (facts.start_dual + facts.tau) ** 2)
    growth = facts.agents * facts.step * facts.dimension * noise_std_one_round**2
    best = math.sqrt(start / growth)
    around = {max(1, math.floor(best)), max(1, math.ceil(best))}
    rounds = min(around, key=lambda k: start / k + growth * k)
    texts = ("averaging is plain", "noise is fresh in every inner step", "the variance grows linearly with K")
    return BestRounds(rounds, Bound(start / rounds + growth * rounds, Version.CORRECTED, _CORRECTED_4, texts))


def _start(facts: Facts, dual: float) -> float:
    """One agent's part at K = 1; `dual` stands in place of the square of the dual's distance."""
    distance = facts.start_distance**2
    return facts.strong_convexity / 4 * distance + facts.rho / 2 * distance + dual / (2 * facts.rho)


def _steps(least: float) -> str:
    return "a shorter step" if math.isinf(least) else f"S >= {math.ceil(least)}"


def _too_few(facts: Facts, least: float) -> str:
    return f"its conditions need {_steps(least)} at step {facts.step:g}; there are {facts.inner_steps} inner steps"


def criterion(problem: Problem, models: Floats, z: Floats, optimum: float, tau: float) -> Floats:
    """Return criterion (9), `sum_i w_i f_i(x_i) + g(z) - P* + tau sum_i ||x_i - z||`, per replica.

    models: (N, d, R); z: (d, R); optimum: P*, the least objective; tau > 0. It reads the data: for study only.
    """
    checks.positive("tau", tau)
    losses = problem.weights @ problem.functions.value(models)
    apart = np.linalg.norm(models - z[None], axis=1).sum(axis=0)
    return np.asarray(losses + problem.regulariser.value(z) - optimum + tau * apart)
