"""Choose penalty, rounds and schedule of consensus DP-ADMM from public constants alone.

For given rho the certificates D_k (C3) and the weights `w_k` with which the noise of round k enters the bound of the
released model (`dpadmm_research.papers.consensus.theory.released_error`),

    E||zhat - x*||^2 <= k_R^2 c^(2(K-1)) Y_1 + sum_k w_k E||v_k||^2,    w_K = 1,  w_k = k_R^2 c^(2(K-1-k)) for k < K,

are known before any data are touched. At a fixed budget the sum is least for `alpha_k ~ (w_k/D_k)^(1/3)` (pure
epsilon) or `s_k^2 ~ D_k/sqrt(w_k)` (Gaussian), see C0. What is left is a search over rho and K.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.methods.base import Setting
from dpadmm.methods.consensus_dp import ConsensusDPADMM, Neighbours, NoisePlace
from dpadmm.noise.mechanisms import Custom, Family
from dpadmm.privacy.accounting import (
    PureTarget,
    Target,
    calibrate_gaussian,
)
from dpadmm.problems.arrays import Floats
from dpadmm_research.accounting.best_noise import optimal_gaussian_shape, optimal_pure_rates
from dpadmm_research.claims.bounds import Bound
from dpadmm_research.papers.consensus.theory import Star, gaussian_energy, laplace_energy, released_error

# Rounds whose noise the bound all but forgets still get a finite share of the budget.
_LEAST_WEIGHT = 1e-12


@dataclass(frozen=True)
class ConsensusPlan:
    """What to run: `method` for `rounds` rounds under `schedule`; `bound` is on E||zhat - x*||^2 at the end."""

    method: ConsensusDPADMM
    rounds: int
    schedule: Custom = field(repr=False)
    bound: Bound


def star_of(setting: Setting, rho: float) -> Star:
    """Return the constants of the weighted functions; `InputError` where they are not strongly convex and smooth."""
    problem, constants = setting.problem, setting.problem.functions.constants
    tau, smoothness = constants.strong_convexity * problem.weights.min(), constants.smoothness * problem.weights.max()
    if not (tau > 0 and np.isfinite(smoothness)):
        raise InputError(
            f"The bounds need strongly convex and smooth functions, got tau = {tau:g} and "
            f"L = {smoothness:g}. Add a ridge term to the functions, or choose rho and rounds by hand.",
            setting="strong_convexity",
        )
    return Star(
        n_agents=problem.n_agents,
        dimension=problem.dimension,
        rho=rho,
        strong_convexity=float(tau),
        smoothness=float(smoothness),
    )


def noise_weights(star: Star, rounds: int) -> Floats:
    """Return w_1..w_K, by which the squared noise of each private round enters the bound of the last broadcast."""
    k = np.arange(1, checks.count("rounds", rounds) + 1)
    weights = star.reflection**2 * star.contraction ** (2.0 * (rounds - 1 - k))
    weights[-1] = 1.0
    return np.maximum(weights, _LEAST_WEIGHT)


def optimal_levels(target: Target | PureTarget, bounds: Floats, weights: Floats) -> tuple[Family, Floats]:
    """Return the noise (rates, or stds for a target with a delta) that spends the target at the least weighted sum."""
    if isinstance(target, PureTarget):
        return Family.SPHERICAL, optimal_pure_rates(bounds, weights, target.epsilon)
    return Family.GAUSSIAN, calibrate_gaussian(target, bounds, optimal_gaussian_shape(bounds, weights))


def optimal_schedule(method: ConsensusDPADMM, rounds: int, setting: Setting) -> Custom:
    """Return the schedule for a given method and number of rounds: relative noise, fit for any budget.

    >>> from dpadmm.methods.consensus_dp import FunctionsDiffer
    >>> from dpadmm.data import random_quadratics
    >>> from dpadmm.problems.problem import Problem, Weighting
    >>> agents = random_quadratics(10_000, 5, rng=np.random.default_rng(0))
    >>> setting = Setting(Problem.of(agents, Weighting.EQUAL), rounds=1, tolerance=1e-9)
    >>> shape = optimal_schedule(ConsensusDPADMM(5.0, FunctionsDiffer(1.0)), 20, setting).shape(20)
    >>> bool((np.diff(shape[3:]) < 0).all()), round(float(shape[0] / shape[-1]), 2)
    (True, 10.43)
    """
    bounds = _bounds(method.neighbours, method.rho, rounds, setting)
    unit = PureTarget(1.0) if method.family is Family.SPHERICAL else Target(1.0, 1e-5)
    return _custom(*optimal_levels(unit, bounds, noise_weights(star_of(setting, method.rho), rounds)))


def plan_consensus(
    setting: Setting,
    neighbours: Neighbours,
    target: Target | PureTarget,
    *,
    radius: float,
    gradient_radius: float,
    place: NoisePlace = NoisePlace.AFTER_PROX,
    penalties: Sequence[float] | None = None,
    most_rounds: int = 150,
    slack: float = 0.05,
) -> ConsensusPlan:
    """Return penalty, rounds and schedule with the least bound on the released model's expected squared error.

    Parameters
    ----------
    setting: the public facts, whatever its rounds; tau > 0 and L finite.
    neighbours, target: whom to protect and at what price; a `PureTarget` means spherical Laplace noise, a `Target`
        Gaussian noise.
    radius: public estimate of ||x* - z_1||, z_1 the prox of 0. gradient_radius: of the root mean square of
        ||grad w_i f_i(x*)||. They decide how many rounds pay off, never how private the run is.
    penalties: candidates for rho (61 values around sqrt(tau L) if left out).
    slack: of all choices whose bound is within 1 + slack of the least one, the one with the fewest rounds is taken.

    >>> from dpadmm.methods.consensus_dp import FunctionsDiffer
    >>> from dpadmm.data import random_quadratics
    >>> from dpadmm.problems.problem import Problem, Weighting
    >>> agents = random_quadratics(10_000, 5, rng=np.random.default_rng(0))
    >>> setting = Setting(Problem.of(agents, Weighting.EQUAL), rounds=1, tolerance=1e-9)
    >>> plan = plan_consensus(setting, FunctionsDiffer(1.0), PureTarget(0.1), radius=45.0, gradient_radius=50.0)
    >>> round(plan.method.rho, 2), plan.rounds, f"{plan.bound.value / 45**2:.1e}"
    (1.41, 17, '1.2e-07')
    """
    checks.count("most_rounds", most_rounds)
    margin = 1 + checks.non_negative("slack", slack)
    candidates = _penalties(setting) if penalties is None else [checks.positive("rho", rho) for rho in penalties]
    if not candidates:
        raise InputError("penalties must hold at least one candidate for rho, got none.", setting="penalties")
    distance, slope = checks.non_negative("radius", radius), checks.non_negative("gradient_radius", gradient_radius)
    tables = [_bounds(neighbours, rho, most_rounds, setting) for rho in candidates]
    curves = np.array(
        [
            _error_curve(star_of(setting, rho), distance + slope / rho, target, bounds)
            for rho, bounds in zip(candidates, tables, strict=True)
        ]
    )
    good = curves <= margin * curves.min()
    rounds = int(np.argmax(good.any(axis=0))) + 1
    best = int(np.argmin(curves[:, rounds - 1]))
    rho, star = candidates[best], star_of(setting, candidates[best])
    family, levels = optimal_levels(target, tables[best][:rounds], noise_weights(star, rounds))
    bound = released_error(star, distance + slope / rho, _energies(family, levels, setting.problem.dimension), place)
    return ConsensusPlan(ConsensusDPADMM(rho, neighbours, family, place), rounds, _custom(family, levels), bound)


def _error_curve(star: Star, start: float, target: Target | PureTarget, bounds: Floats) -> list[float]:
    """Return the bound on the released model, noise after the prox, for 1..len(bounds) rounds."""
    level = _unit_energy(target, star.dimension)
    hidden = (star.reflection * star.contraction ** np.arange(len(bounds)) * start) ** 2
    sums = [_least_sum(target, bounds[:k], noise_weights(star, k)) for k in range(1, len(bounds) + 1)]
    return (hidden + level * np.array(sums)).tolist()


def _unit_energy(target: Target | PureTarget, dimension: int) -> float:
    """Return E||v||^2 of the one release of sensitivity 1 that spends the target."""
    family, levels = optimal_levels(target, np.ones(1), np.ones(1))
    return _energies(family, levels, dimension)[0]


def _least_sum(target: Target | PureTarget, bounds: Floats, weights: Floats) -> float:
    """Return the least weighted sum of squared noise, in units of `_unit_energy` (the optima of C0 inserted)."""
    if isinstance(target, PureTarget):
        return float(np.cbrt(weights * bounds**2).sum() ** 3)
    return float((np.sqrt(weights) * bounds).sum() ** 2)


def _bounds(neighbours: Neighbours, rho: float, rounds: int, setting: Setting) -> Floats:
    return np.array(
        [certificate.bound for certificate in neighbours.certificates(rho, replace(setting, rounds=rounds))]
    )


def _energies(family: Family, levels: Floats, dimension: int) -> list[float]:
    energy = laplace_energy if family is Family.SPHERICAL else gaussian_energy
    return [energy(float(level), dimension) for level in levels]


def _custom(family: Family, levels: Floats) -> Custom:
    stds = 1 / levels if family is Family.SPHERICAL else levels
    return Custom(tuple((stds / stds[-1]).tolist()))


def _penalties(setting: Setting) -> list[float]:
    """Candidates from sqrt(tau L)/10 to 100 sqrt(tau L)."""
    star = star_of(setting, 1.0)
    return (np.sqrt(star.strong_convexity * star.smoothness) * np.logspace(-1, 2, 61)).tolist()
