"""Accounting: what a list of releases costs together.

A release of `dpadmm.privacy.releases` knows what it costs by itself:

* Gaussian releases compose in closed form, `m^2 = sum count (bound/noise_std)^2` (C0);
* pure releases add up (C2);
* sampled Gaussians, and any mixture, go through one privacy loss distribution (C4, `dpadmm.privacy.sampled`);
* a bare release is infinite, what is no release is refused.

Releases of different agents touch different records: a record of one silo is hurt by its own agent's releases
alone, and a person present in `s` silos by those of `s` agents (`worst_person`). An agent below zero
stands for a release that reaches everybody's data, such as a coordinator's aggregate: it hurts every person, once.

Calibration is the inverse: the noise that spends a budget, never more and hardly less. The relative noise of each round
is given (`shape`, any positive scale); calibration finds the common factor. Gaussian and pure budgets are closed form
and leave at most 1e-6 of epsilon unspent; sampled and mixed ones search over `compose` and leave at most 1e-3. Bounds
are arrays of shape (rounds,) or (agents, rounds): each agent spends the whole budget on its own records, or its part of
it when a person may be in several silos.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from operator import mul

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.privacy.curves import Curve, GaussianCurve, InfiniteCurve, PureCurve, WorstCurve, m_of
from dpadmm.privacy.protection import FROM_STRONG_TO_WEAK, Certificate, Protection, Strength, standing
from dpadmm.privacy.releases import (
    KINDS,
    NoisyRelease,
    ObjectiveRelease,
    Release,
    SampledStep,
    SummedGaussianRelease,
    objective_epsilon,
)

_MOST_COALITIONS = 1000


@dataclass
class Tally:
    """Costs counted by kind; identical ones are merged, so that k releases equal one release of count k."""

    gaussian: Counter[float] = field(default_factory=Counter)  # (bound/noise_std)^2 -> count
    pure: Counter[float] = field(default_factory=Counter)  # epsilon -> count
    sampled: Counter[SampledStep] = field(default_factory=Counter)
    infinite: bool = False

    @property
    def m_squared(self) -> float:
        return math.fsum(map(mul, self.gaussian.values(), self.gaussian))

    @property
    def epsilon(self) -> float:
        return math.fsum(map(mul, self.pure.values(), self.pure))

    @classmethod
    def of(cls, releases: Iterable[object]) -> "Tally":
        """Count releases."""
        tally = cls()
        for release in releases:
            tally.add(release)
        return tally

    def add(self, release: object) -> None:
        """Count a release; what is none is refused, whatever it looks like."""
        if not isinstance(release, Release):
            known = ", ".join(sorted(kind.__name__ for kind in KINDS))
            raise InputError(f"no accounting rule for {type(release).__name__}; use one of {known}.")
        cost, count = release.cost, checks.count("count", release.count)
        if cost.m_squared is not None:
            self.gaussian[cost.m_squared] += count
        if cost.epsilon is not None:
            self.pure[cost.epsilon] += count
        if cost.step is not None:
            self.sampled[cost.step] += count
        self.infinite |= cost.is_infinite

    def key(self) -> Hashable:
        """Equal for tallies that cost the same."""
        pure, sampled = frozenset(self.pure.items()), frozenset(self.sampled.items())
        return self.m_squared, pure, sampled, self.infinite

    def plus(self, other: "Tally") -> "Tally":
        return Tally(
            self.gaussian + other.gaussian,
            self.pure + other.pure,
            self.sampled + other.sampled,
            self.infinite or other.infinite,
        )

    def curve(self) -> Curve:
        m = math.sqrt(self.m_squared)
        if self.infinite or math.isinf(m) or math.isinf(self.epsilon):
            return InfiniteCurve()
        if self.sampled or (m > 0 and self.epsilon > 0):
            from dpadmm.privacy.sampled import compose_losses  # heavy; Gaussian and pure releases do without

            return compose_losses(m, self.pure, self.sampled)
        return GaussianCurve(m) if m > 0 else PureCurve(self.epsilon)


def _agreed(releases: Sequence[Release]) -> tuple[Protection | None, list[Certificate]]:
    """All certificates, and the protection they agree on (None without any); only then may their costs be added."""
    certificates = dict[Certificate, None]()
    for release in releases:
        if isinstance(release, NoisyRelease):
            certificates[release.certificate] = None
    agreed: Protection | None = None
    for certificate in certificates:
        own = certificate.protection
        if agreed is not None and own != agreed:
            name = next(n for n in own.__dataclass_fields__ if getattr(own, n) != getattr(agreed, n))
            raise InputError(
                f"releases disagree on {name}: {getattr(agreed, name)!r} and {getattr(own, name)!r}; account for them "
                "separately, or certify all of them under the same terms."
            )
        agreed = own
    return agreed, list(certificates)


def _tallies(releases: Sequence[Release]) -> tuple[Tally, dict[int, Tally]]:
    """What reaches everybody (agents below zero), and what each agent's own releases cost."""
    tallies: dict[int, Tally] = {}
    for release in releases:
        tallies.setdefault(max(release.agent, -1), Tally()).add(release)
    return tallies.pop(-1, Tally()), tallies


def compose(releases: Iterable[Release]) -> Curve:
    """The privacy curve of all given releases about the same records, whoever made them.

    Raises `InputError` for unknown kinds and for certificates with different units, relations, views or people.
    No release at all costs nothing.
    """
    listed = list(releases)
    tally = Tally.of(listed)
    _agreed(listed)
    return tally.curve()


def worst_person(releases: Iterable[Release]) -> Curve:
    """The curve of the person hurt most, with records in as many silos as the certificates allow for.

    With `s = silos_per_person`: the s largest m^2 add for Gaussians, the s largest epsilons for pure releases; for
    sampled or mixed ones the upper envelope over all choices of s agents. What reaches everybody adds to each choice
    once (its certificate bounds the change by all of a person's silos together).
    """
    listed = list(releases)
    everyone, own = _tallies(listed)
    tallies, (agreed, _) = list(own.values()), _agreed(listed)
    silos = agreed.silos_per_person if agreed else 1
    if any(tally.infinite for tally in (everyone, *tallies)):
        return InfiniteCurve()
    if not any(tally.pure or tally.sampled for tally in (everyone, *tallies)):
        worst = sorted((tally.m_squared for tally in tallies), reverse=True)[:silos]
        return Tally(gaussian=Counter(worst)).plus(everyone).curve()
    if not any(tally.gaussian or tally.sampled for tally in (everyone, *tallies)):
        worst = sorted((tally.epsilon for tally in tallies), reverse=True)[:silos]
        return Tally(pure=Counter(worst)).plus(everyone).curve()
    return _envelope(tallies, everyone, silos)


def _envelope(tallies: Sequence[Tally], everyone: Tally, silos: int) -> Curve:
    """The upper envelope over all coalitions of `silos` agents, each different coalition once."""
    by_key = {tally.key(): tally for tally in tallies}
    present = Counter(tally.key() for tally in tallies)
    candidates = [key for key, n in present.items() for _ in range(min(n, silos))]
    size = min(silos, len(candidates))
    if size > 1 and math.comb(len(candidates), size) > _MOST_COALITIONS:
        raise InputError(
            f"{len(by_key)} agents with different sampled or mixed costs and {silos} silos per person give too many "
            "coalitions to compare; give all agents the same noise, or assume one silo per person."
        )
    curves = []
    for keys in dict.fromkeys(combinations(candidates, size)):
        total = everyone
        for key in keys:
            total = total.plus(by_key[key])
        curves.append(total.curve())
    return curves[0] if len(curves) == 1 else WorstCurve(tuple(curves))


def curve_if_silos_collude(releases: Iterable[Release], silos: int | None = None) -> Curve:
    """The worst person's curve if so many silos collude with the coordinator, whatever is certified (C12).

    Of a sum with shares of one noise they know their own; the noise that hides the sum from them is that of the others'
    shares. None: all silos but the person's own, whose share alone is left, so that m is `sqrt(N - t)` times the
    certified one.
    """

    def seen(release: Release) -> Release:
        if not isinstance(release, SummedGaussianRelease):
            return release
        return release.hidden_by(1 if silos is None else max(1, release.silos - silos))

    return worst_person(map(seen, releases))


def dynamic_zcdp(releases: Iterable[Release]) -> dict[int, NDArray[np.float64]]:
    """Return what each agent has spent after rounds 1, 2, ..., as the running sum of the rho of its releases (zCDP).

    P-ADMM's measure of privacy: the rounds up to k are together `rho_i^k`-zCDP for whoever's records agent i holds, and
    so `(rho + 2 sqrt(rho ln(1/delta)), delta)`-DP, which is never below the epsilon of an `Account`. Agent -1 is a
    coordinator, whose releases reach everybody. A round 0 counts in all.

    >>> from dpadmm.privacy.protection import ONE_RECORD
    >>> from dpadmm.privacy.releases import GaussianRelease
    >>> moved = Certificate(bound=1.0, protection=ONE_RECORD, theorem="C1", assumptions=("an example",))
    >>> sent = [GaussianRelease(certificate=moved, noise_std=2.0, agent=0, round=k) for k in (1, 3)]
    >>> dynamic_zcdp(sent)[0].tolist()
    [0.125, 0.125, 0.25]
    """
    listed = list(releases)
    last = max((release.round for release in listed), default=0)
    spent: dict[int, NDArray[np.float64]] = {}
    for release in listed:
        row = spent.setdefault(max(release.agent, -1), np.zeros(last + 1))
        row[release.round] += release.count * release.cost.rho
    return {agent: np.cumsum(row)[1:] for agent, row in sorted(spent.items())}


@dataclass(frozen=True, kw_only=True)
class Account:
    """A certified figure with everything it must state: who is protected, from whom, under which assumptions, how far.

    `declared`: the user's own parts on whose declared constants it rests; it is certified if these hold.
    Where sums with shares of one noise are released (C12), also what is *not* certified: the curves if one colludes,
    though none is counted, and if all silos but the person's own collude; None elsewhere.
    """

    curve: Curve
    protection: Protection
    strength: Strength
    theorems: tuple[str, ...]
    assumptions: tuple[str, ...]
    declared: tuple[str, ...] = ()
    if_one_colludes: Curve | None = None
    if_all_collude: Curve | None = None

    @property
    def standing(self) -> str:
        """Whether the figure is certified, up to what, and whether only if declared constants hold."""
        return standing(self.strength, self.declared)


@dataclass(frozen=True, kw_only=True)
class CollusionEpsilon:
    """What is *not* certified where only sums are seen (C12): the epsilon, at the same delta, if more silos collude.

    if_all: of all silos but a person's own. if_one: of one, where the certified figure counts none; else None.
    """

    if_all: float
    if_one: float | None = None

    @classmethod
    def of(cls, account: Account, delta: float) -> "CollusionEpsilon | None":
        """Return what an account says about it; None where no sums of shares were released."""
        if account.if_all_collude is None:
            return None
        one = account.if_one_colludes
        return cls(if_all=account.if_all_collude.epsilon(delta), if_one=None if one is None else one.epsilon(delta))


@dataclass(frozen=True, kw_only=True)
class SiloCost:
    """What a run cost the records of one silo that accounts for itself, in its own ledger.

    epsilon: certified, at `delta`. least_noise: least ratio of noise to sensitivity. noise_level, sensitivity: of its
    first release.
    """

    releases: int
    epsilon: float
    delta: float
    least_noise: float
    noise_level: float
    sensitivity: float
    certificate: str
    strength: str
    view: str


def account_for(releases: Iterable[Release]) -> Account:
    """What may be said about these releases: the worst person's curve with the terms of the certificates."""
    listed = list(releases)
    agreed, certificates = _agreed(listed)
    if agreed is None:
        raise InputError("no release has a certificate, so no guarantee can be stated; add noise to the releases.")
    has_shares = any(isinstance(release, SummedGaussianRelease) for release in listed)
    return Account(
        curve=worst_person(listed),
        protection=agreed,
        strength=FROM_STRONG_TO_WEAK[max(FROM_STRONG_TO_WEAK.index(c.strength) for c in certificates)],
        theorems=tuple(dict.fromkeys(c.theorem for c in certificates)),
        assumptions=tuple(dict.fromkeys(text for c in certificates for text in c.assumptions)),
        declared=tuple(dict.fromkeys(part for c in certificates for part in c.declared)),
        if_one_colludes=curve_if_silos_collude(listed, 1) if has_shares and agreed.n_colluders == 0 else None,
        if_all_collude=curve_if_silos_collude(listed) if has_shares else None,
    )


# Keeps sums of many rounded terms below the budget.
_ROUND_DOWN = 1.0 - 1e-12
_SEARCH_TOLERANCE = 1e-3
_MOST_EVALUATIONS = 100


@dataclass(frozen=True)
class Target:
    """A budget (epsilon, delta): epsilon > 0, 0 < delta < 1."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        """Refuse what is no budget."""
        checks.positive("epsilon", self.epsilon)
        checks.open_unit("delta", self.delta)


@dataclass(frozen=True)
class PureTarget:
    """A budget of pure epsilon > 0."""

    epsilon: float

    def __post_init__(self) -> None:
        """Refuse what is no budget."""
        checks.positive("epsilon", self.epsilon)


def _rounds(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """An array over (rounds,) or (agents, rounds) of finite numbers >= 0."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim > 2 or array.size == 0:
        raise InputError(f"{name} must have shape (rounds,) or (agents, rounds), got {array.shape}.")
    if not np.all(np.isfinite(array)) or np.any(array < 0):
        raise InputError(f"{name} must hold finite numbers of 0 or greater, got a value that is not.")
    return array


def _bounds_and_shape(bounds: ArrayLike, shape: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Broadcast and check; a round may have no noise only if it has nothing to hide."""
    try:
        both = np.broadcast_arrays(np.atleast_1d(_rounds("bounds", bounds)), _rounds("shape", shape))
    except ValueError as error:
        raise InputError(
            f"bounds of shape {np.shape(bounds)} and a noise shape of {np.shape(shape)} do not match; give one value "
            "per round, or one row per agent."
        ) from error
    if np.any((both[1] == 0) & (both[0] > 0)):
        raise InputError("shape must be greater than 0 in every round whose bound is greater than 0; got 0.")
    if not np.all(np.any(both[0] > 0, axis=-1)):
        raise InputError("all bounds of an agent are 0, so there is nothing to hide and no noise to calibrate.")
    return both[0], both[1]


def calibrate_gaussian(
    target: Target, bounds: ArrayLike, shape: ArrayLike = 1.0, *, silos_per_person: int = 1
) -> NDArray[np.float64]:
    """Noise stds, proportional to `shape` for each agent, that spend exactly the target (C0).

        std_k = shape_k sqrt(sum_j (bound_j/shape_j)^2) / m(eps, delta)

    The composed epsilon is never above the target and at most 1e-6 relative below it.

    >>> calibrate_gaussian(Target(1.0, 1e-5), bounds=[1.0, 1.0]).round(4)
    array([5.2759, 5.2759])
    """
    bound, relative = _bounds_and_shape(bounds, shape)
    m = m_of(target.epsilon, target.delta)
    m /= math.sqrt(checks.count("silos_per_person", silos_per_person))
    ratios = np.divide(bound, relative, out=np.zeros_like(bound), where=bound > 0)  # zero where nothing is hidden
    largest = ratios.max(axis=-1, keepdims=True)  # squares of tiny or huge ratios would leave the range of floats
    if not np.all(np.isfinite(largest) & (largest > 0)):
        raise InputError(
            "bounds divided by the noise shape exceed the range of floating-point numbers; rescale the problem."
        )
    factor = largest * np.linalg.norm(ratios / largest, axis=-1, keepdims=True) / m
    return np.asarray(factor * relative, dtype=np.float64)


def calibrate_laplace(
    target: PureTarget, bounds: ArrayLike, shape: ArrayLike = 1.0, *, silos_per_person: int = 1
) -> NDArray[np.float64]:
    """Rates of spherical Laplace noise, inverse to `shape`, with `sum rate_k bound_k <= epsilon` for each agent.

    For coordinate Laplace noise give l1 bounds and take 1/rate as the scales.

    >>> calibrate_laplace(PureTarget(1.0), bounds=[1.0, 1.0], shape=[1.0, 3.0]).round(6)
    array([0.75, 0.25])
    """
    bound, relative = _bounds_and_shape(bounds, shape)
    if np.any(relative == 0):
        raise InputError("shape must be greater than 0 in every round, got 0.")
    share = target.epsilon * _ROUND_DOWN / checks.count("silos_per_person", silos_per_person)
    total = (bound / relative).sum(axis=-1, keepdims=True)
    return np.asarray(share / (relative * total), dtype=np.float64)


def objective_rate(certificate: Certificate, epsilon: float) -> float:
    """The largest noise rate of an objective perturbation that costs at most `epsilon` (C2).

    The larger admissible one of `epsilon/bound`, if that is at least the certificate's `jacobian_free_rate`, and
    `(epsilon - log_jacobian)/bound`.
    """
    checks.positive("epsilon", epsilon)
    bound, free = checks.positive("bound", certificate.bound), certificate.jacobian_free_rate
    candidates = [epsilon * _ROUND_DOWN / bound, (epsilon * _ROUND_DOWN - certificate.log_jacobian) / bound]
    if free is not None and free > 0:
        candidates.append(free)  # rounding down must not lose a branch that is reached exactly
    fitting = [rate for rate in candidates if rate > 0 and objective_epsilon(certificate, rate) <= epsilon]
    if not fitting:
        raise InputError(
            f"an epsilon of {epsilon:.6g} per round does not cover the objective's Jacobian ratio; it must be above "
            f"{least_objective_epsilon(certificate):.6g}: raise epsilon, use fewer rounds, or raise the penalty."
        )
    return max(fitting)


def least_objective_epsilon(certificate: Certificate) -> float:
    """Return what a round of objective perturbation costs at least, however much noise it has (C2)."""
    free = certificate.jacobian_free_rate
    return min(certificate.log_jacobian, math.inf if free is None else free * certificate.bound)


def calibrate_objective(
    target: PureTarget,
    certificates: Sequence[Certificate],
    shares: ArrayLike = 1.0,
    *,
    silos_per_person: int = 1,
) -> NDArray[np.float64]:
    """Rates for rounds of objective perturbation; round k gets the part `shares_k / sum(shares)` of epsilon."""
    part = np.broadcast_to(_rounds("shares", shares), (len(certificates),))
    if not len(certificates) or not np.all(part > 0):
        raise InputError("give at least one certificate, and only shares greater than 0.")
    silos = checks.count("silos_per_person", silos_per_person)
    spend = target.epsilon * _ROUND_DOWN / silos * (part / part.sum())
    return np.array([objective_rate(c, float(e)) for c, e in zip(certificates, spend, strict=True)])


def _scalable(release: Release) -> NoisyRelease:
    if isinstance(release, NoisyRelease) and not isinstance(release, ObjectiveRelease):
        return release
    raise InputError(
        f"the noise of {type(release).__name__} cannot be scaled here; objective perturbation has its own calibration, "
        "and a release without noise has none."
    )


def _closed_form_factor(target: Target, releases: Sequence[NoisyRelease]) -> float:
    """A factor near or above the answer: every sampled step taken as if everyone took part."""
    tally = Tally.of(releases)
    whole = math.fsum(count * step.shift**2 for step, count in tally.sampled.items())
    m = math.sqrt(tally.m_squared + whole)
    if tally.infinite or m + tally.epsilon == 0:
        raise InputError("the releases must have a sensitivity above 0 and some noise at factor 1.")
    return m / m_of(target.epsilon, target.delta) + tally.epsilon / target.epsilon


def calibrate_scale(target: Target, releases: Sequence[Release]) -> float:
    """The factor by which to multiply the noise of all these releases so that together they meet the target.

    For sampled Gaussians and mixtures (C4); all Gaussian, spherical or coordinate Laplace. Never exceeds the target; at
    most 1e-3 relative of epsilon stays unspent. The search comes down from the noise that would do without sampling, so
    that no distribution is ever built at a tiny noise.
    """

    from dpadmm.privacy.sampled import fft_slack  # heavy; closed forms do without

    scalable = [_scalable(release) for release in releases]

    def spent(factor: float) -> float:
        return compose(release.scale_noise(factor) for release in scalable).epsilon(target.delta)

    high = _closed_form_factor(target, scalable)
    if target.delta <= fft_slack(sum(release.count for release in releases)):
        raise InputError(
            f"no noise reaches epsilon {target.epsilon} at delta {target.delta}: delta is below what composition can "
            "resolve (about 1e-14, plus 2e-16 per sampled step); choose a larger delta."
        )
    at_high = spent(high)
    for _ in range(30):
        if at_high <= target.epsilon:
            break
        high, at_high = 2.0 * high, spent(2.0 * high)
    else:
        raise InputError(
            f"no noise within the search range reaches epsilon {target.epsilon} at delta {target.delta}; "
            "choose a larger epsilon or delta."
        )
    return _descend(spent, target.epsilon, high, at_high)


def _descend(spent: Callable[[float], float], epsilon: float, high: float, at_high: float) -> float:
    """Search the smallest admissible factor below `high`: log-linear steps, bracketed, at most 4 times down."""
    low, at_low = 0.0, math.inf
    for _ in range(_MOST_EVALUATIONS):
        if at_high >= epsilon * (1.0 - _SEARCH_TOLERANCE):
            break
        if low == 0.0:
            trial = high * max(0.25, at_high / epsilon)
        elif math.isinf(at_low) or at_high == 0.0:
            trial = math.sqrt(low * high)
        else:
            slope = math.log(high / low) / math.log(at_low / at_high)
            aim = epsilon * (1.0 - 0.5 * _SEARCH_TOLERANCE)
            trial = high * (at_high / aim) ** slope
            trial = min(max(trial, low * (high / low) ** 0.02), high * (low / high) ** 0.02)
        value = spent(trial)
        if value <= epsilon:
            high, at_high = trial, value
        else:
            low, at_low = trial, value
    return high
