"""C3, C5 and C6: consensus DP-ADMM and fixed-point ADMM, some of them with a hidden state.

The hidden-state recursion shared by C3 and C6.

A hidden difference obeys `d+ = M d + (I - M) b` where `||b|| <= B` and M is some symmetric matrix with spectrum in
[low, high], another one in every step. With `c = (low + high)/2`, `r = (high - low)/2`:

    V_0 = 0,    V_{k+1} = (1 + r^2/(c (1 - c))) (c V_k + (1 - c) B^2)    bounds ||d_k||^2.

Proof: `docs/proofs/c3.md`, lemmas 2 and 3.

C3: consensus DP-ADMM, noise on the coordinator's broadcast (view: whoever sees the broadcasts).

    z = prox_{g/(rho N)}(mean_i (x_i + a_i/rho)),  zhat = z + noise
    x_i = prox_{w f_i/rho}(zhat - a_i/rho),        a_i += rho (x_i - zhat)

Neighbours differ in one agent's function, its gradient by at most delta everywhere; f_i is tau-strongly convex and
L-smooth. With `B = w delta/rho`, `m in [m0, kap]` the spectrum of `gam H (I + gam H)^-1`, gam = w/rho:

    ||dz_{k+1}|| <= (1/N) ( max|1 - 2m| sqrt(V_{k-1}) + 2 B (1 - m0) ),     k >= 1,

V the recursion above. Holds for every convex g. Proof: `docs/proofs/c3.md`. In every tuple below the entry
k-1 is the k-th *private* broadcast `z_{k+1}`; the first broadcast z_1 does not touch the data and carries no noise.

C5 and C6: fixed-point ADMM with noise in the blocks, and with noise at the coordinator.

    z = prox_{gamma r}(mean u),    x_i = prox_{gamma w f_i}(2z - u_i),    u_i += lam (2 (x_i - z) + noise)

`weight` w is the factor in front of f_i inside the prox (1 when the objective is `(1/N) sum f_i + r`, as in the
algorithm's usual form). `solver_tolerance` bounds the gradient of `w f_i(x) + ||x - v||^2/(2 gamma)` at the point
returned for x_i.
Proofs: `docs/proofs/c5.md`, `docs/proofs/c6.md`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.privacy.certificates.local import (
    PUBLIC_FACTS,
    TRUSTED_SUM,
    LocalFunction,
    adding_text,
    check_bounded,
    solver_text,
    strength_of,
    tolerance_of,
)
from dpadmm.privacy.protection import Certificate, Protection, Unit, View


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

    def relax(self, relaxation: float) -> "SpectralInterval":
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


_TRUST = (
    TRUSTED_SUM,
    "the functions are tau-strongly convex and L-smooth, both bounds valid for every admissible function",
    "the regulariser g is convex and does not depend on the data",
)


_FUNCTION = Protection(unit=Unit.FUNCTION, view=View.PUBLIC)


def _spectrum(penalty: float, weight: float, strong_convexity: float, smoothness: float) -> SpectralInterval:
    step = checks.positive("weight", weight) / checks.positive("penalty", penalty)
    return prox_spectrum(
        step=step, strong_convexity=strong_convexity, smoothness=check_bounded("smoothness", smoothness)
    )


def _certify(
    bound: float, who: Protection, theorem: str, text: Sequence[str], solver_tolerance: float | None
) -> Certificate:
    return Certificate(
        bound=bound,
        protection=who,
        theorem=theorem,
        assumptions=(*text, solver_text(solver_tolerance), *PUBLIC_FACTS),
        strength=strength_of(solver_tolerance),
    )


def _sent(spectrum: SpectralInterval, drift: float, push: float) -> float:
    """Bound `||(I - 2M) dy - 2 (I - M) b||` for `||dy|| <= drift`, `||b|| <= push`."""
    reflect = max(abs(1 - 2 * spectrum.low), abs(1 - 2 * spectrum.high))
    return reflect * drift + 2 * push * (1 - spectrum.low)


def consensus_broadcast(
    *,
    rounds: int,
    gradient_distance: float,
    n_agents: int,
    penalty: float,
    strong_convexity: float,
    smoothness: float,
    weight: float = 1.0,
    solver_tolerance: float | None = None,
) -> tuple[Certificate, ...]:
    """Bound the coordinator's `z_{k+1}` for private broadcasts k = 1..rounds (entry k-1), unit: one function.

    Parameters: `gradient_distance` delta >= 0, `n_agents` N, `penalty` rho > 0, `strong_convexity` tau >= 0,
    `smoothness` L >= tau, finite. `solver_tolerance` adds 2 tol to (weighted) delta.

    >>> first, *_, late = consensus_broadcast(rounds=60, gradient_distance=1, n_agents=10_000, penalty=5,
    ...     strong_convexity=1, smoothness=2)
    >>> f"{first.bound:.4g} {late.bound:.4g}"
    '3.333e-05 4.684e-05'
    """
    spectrum = _spectrum(penalty, weight, strong_convexity, smoothness)
    gap = weight * check_bounded("gradient_distance", gradient_distance) + 2 * tolerance_of(solver_tolerance)
    n, k = checks.count("n_agents", n_agents), checks.count("rounds", rounds)
    text = f"neighbours differ in one agent's function, its gradient by at most {gradient_distance:g} everywhere"
    return tuple(
        _certify(_sent(spectrum, drift, gap / penalty) / n, _FUNCTION, "C3", (text, *_TRUST), solver_tolerance)
        for drift in hidden_drift(spectrum, gap / penalty, k)[:k]
    )


def consensus_broadcast_quadratic(
    *,
    rounds: int,
    gradient_distance: float,
    n_agents: int,
    penalty: float,
    strong_convexity: float,
    smoothness: float,
    weight: float = 1.0,
    solver_tolerance: float | None = None,
) -> tuple[Certificate, ...]:
    """Bound `z_{k+1}` when every admissible function is quadratic: `(B/N) max_m (1 + (1 - 2m) m^(k-1))`.

    A bounded gradient distance then forces equal Hessians: only the linear term is protected, and the certificate
    says so. Residuals vary from round to round, so they are charged through the general recursion.

    >>> consensus_broadcast_quadratic(rounds=60, gradient_distance=1, n_agents=10_000, penalty=5,
    ...     strong_convexity=1, smoothness=2)[-1].bound
    2...e-05
    """
    spectrum = _spectrum(penalty, weight, strong_convexity, smoothness)
    push = weight * check_bounded("gradient_distance", gradient_distance) / penalty
    residual = 2 * tolerance_of(solver_tolerance) / penalty
    n, last = checks.count("n_agents", n_agents), checks.count("rounds", rounds)
    text = (
        f"neighbours differ in the linear term of one agent's quadratic, by at most {gradient_distance:g}; its Hessian "
        "is the same in both and is not protected",
        *_TRUST,
    )
    drifts = hidden_drift(spectrum, residual, last)
    certificates = []
    for k in range(1, last + 1):
        # (1 - 2m) m^(k-1) rises up to (k-1)/(2k) and falls after it.
        m = min(max((k - 1) / (2 * k), spectrum.low), spectrum.high)
        bound = push * (1 + (1 - 2 * m) * m ** (k - 1)) + _sent(spectrum, drifts[k - 1], residual)
        certificates.append(_certify(bound / n, _FUNCTION, "C3 (quadratic functions)", text, solver_tolerance))
    return tuple(certificates)


def consensus_broadcast_records(
    local: LocalFunction, *, rounds: int, n_agents: int, penalty: float, smoothness: float
) -> tuple[Certificate, ...]:
    """C3 at record level: the gradient distance of one agent is `2G r/n_i`; `smoothness` includes the ridge.

    One noise hides all silos of a person, so their changes of the mean add up: the bound is `silos_per_person` times
    that of one silo, `n_records` being the smallest of them.
    """
    spectrum = _spectrum(penalty, local.weight, local.strong_convexity, smoothness)
    push, silos = local.gap / penalty, local.protection.silos_per_person
    n, k = checks.count("n_agents", n_agents), checks.count("rounds", rounds)
    text = (local.bound_text, *_TRUST, *adding_text(silos))
    return tuple(
        local.certify(silos * _sent(spectrum, drift, push) / n, "C3 (record level)", *text, view=View.PUBLIC)
        for drift in hidden_drift(spectrum, push, k)[:k]
    )


_SEES_BLOCKS = "the viewer may know every earlier message of this user, hence u_i and z"
_COORDINATOR = (
    "blocks are noise-free; of their mean, nothing is seen without fresh noise",
    TRUSTED_SUM,
    "the regulariser r is convex and does not depend on the data",
    "who takes part in which round does not depend on the data; users may skip rounds",
)


_ONE_USER = "neighbours differ in all data of one user"


def _lipschitz_text(lipschitz: float) -> str:
    return f"every user's loss is convex with (sub)gradients of norm at most {lipschitz:g}; a common ridge may be added"


def _clip_text(clip: float) -> str:
    return "x_i - z is not clipped" if math.isinf(clip) else f"x_i - z is clipped to norm {clip:g}"


def _clip(clip: float) -> float:
    return clip if math.isinf(clip) and clip > 0 else checks.positive("clip", clip)


def fixed_point_block_user(
    *,
    step: float,
    lipschitz: float = math.inf,
    clip: float = math.inf,
    strong_convexity: float = 0.0,
    weight: float = 1.0,
    solver_tolerance: float | None = None,
) -> Certificate:
    """C5 at user level: bound `2 (x_i - z)`, the value that receives N(0, sigma^2 I) in each participation.

        D = 2 D_x,    D_x = min( 2 gamma (w L_lip + tol)/(1 + gamma w mu), 2 clip ).

    Mind the factor: the printed algorithm adds *half* the noise to x_i - z, so the certificate is about twice that
    value and is released with the printed sigma; zCDP is then `D^2/(2 sigma^2) = 2 D_x^2/sigma^2`. `lipschitz` is
    that of the loss part, `strong_convexity` mu that of a ridge common to both neighbours.

    >>> fixed_point_block_user(step=0.5, lipschitz=1.0).bound
    2.0
    """
    gam = checks.positive("step", step)
    pull = gam * (checks.positive("weight", weight) * lipschitz + tolerance_of(solver_tolerance))
    pull /= 1 + gam * weight * checks.non_negative("strong_convexity", strong_convexity)
    moved = check_bounded("min(2 gamma L_lip, 2 clip)", min(2 * pull, 2 * _clip(clip)))
    text = (_ONE_USER, _lipschitz_text(lipschitz), _clip_text(clip), _SEES_BLOCKS)
    return _certify(2 * moved, Protection(unit=Unit.USER), "C5 (user level)", text, solver_tolerance)


def fixed_point_block_record(local: LocalFunction, *, step: float, clip: float = math.inf) -> Certificate:
    """C5 at record level: `D = 2 min( gamma (w 2G r/n + 2 tol)/(1 + gamma w mu), 2 clip )` on `2 (x_i - z)`.

    Released with the printed sigma, like `fixed_point_block_user`.

    >>> fixed_point_block_record(LocalFunction(gradient_bound=1.0, n_records=100), step=0.5).bound
    0.02
    """
    gam = checks.positive("step", step)
    moved = gam * local.gap / (1 + gam * local.weight * local.strong_convexity)
    return local.certify(
        2 * min(moved, 2 * _clip(clip)), "C5 (record level)", local.bound_text, _clip_text(clip), _SEES_BLOCKS
    )


def relaxation_of(relaxation: float) -> float:
    """Return lam if it lies in (0, 1/2]; beyond 1/2 the bounds of C6 fail in the first round."""
    lam = checks.positive("relaxation", relaxation)
    if lam > 0.5:
        raise InputError(
            f"relaxation must be at most 1/2 for noise at the coordinator (C6), got {lam:g}: above it a block "
            "leaves the convex hull that bounds it. Use lam <= 1/2, or put the noise in the blocks (C5)."
        )
    return lam


def _user_drift(reach: float, mixing: float, updates: int) -> tuple[float, ...]:
    """Return `reach (1 - mixing^k)` for k = 1..updates: a convex average that forgets the common start."""
    return tuple(reach * -math.expm1(k * math.log(mixing)) if mixing > 0 else reach for k in range(1, updates + 1))


def fixed_point_mean_user(
    *,
    updates: int,
    step: float,
    lipschitz: float,
    n_users: int,
    relaxation: float = 0.5,
    strong_convexity: float = 0.0,
    weight: float = 1.0,
    solver_tolerance: float | None = None,
) -> tuple[Certificate, ...]:
    """C6 at user level: bound `mean u` after k = 1..updates local updates (entry k-1).

        D_k = (2 gamma (w L_lip + tol)/N) (1 - (1 - 2 lam (1 - m0))^k),   m0 = gamma w mu/(1 + gamma w mu),

    never more than `2 gamma (w L_lip + tol)/N`. The release before any update does not touch the data. `lipschitz` is
    that of the loss part; `strong_convexity` mu >= 0 that of a ridge common to both neighbours; `relaxation` lam in
    (0, 1/2]. A user who skipped rounds has made fewer updates and is covered.

    >>> tuple(c.bound for c in fixed_point_mean_user(updates=2, step=0.5, lipschitz=1.0, n_users=100))
    (0.01, 0.01)
    """
    gam, lam = checks.positive("step", step), relaxation_of(relaxation)
    pull = gam * checks.positive("weight", weight) * checks.non_negative("strong_convexity", strong_convexity)
    mixing = 1 - 2 * lam / (1 + pull)
    reach = 2 * gam * (weight * check_bounded("lipschitz", lipschitz) + tolerance_of(solver_tolerance))
    reach /= checks.count("n_users", n_users)
    text = (_ONE_USER, _lipschitz_text(lipschitz), *_COORDINATOR)
    return tuple(
        _certify(bound, Protection(unit=Unit.USER, view=View.PUBLIC), "C6 (user level)", text, solver_tolerance)
        for bound in _user_drift(reach, mixing, checks.count("updates", updates))
    )


def fixed_point_mean_record(
    local: LocalFunction, *, updates: int, step: float, smoothness: float, n_users: int, relaxation: float = 0.5
) -> tuple[Certificate, ...]:
    """C6 at record level: bound `mean u` after k = 1..updates local updates (entry k-1), `sqrt(V_k)/N`.

    V is the recursion of `hidden_drift` with `B = gamma (w 2G r/n + 2 tol)` and the spectrum of
    `(1 - 2 lam) I + 2 lam M`; the user-level bound is taken where it is smaller. `smoothness` L and
    `strong_convexity` mu are those of f_i with its (data-free) ridge and hold for every data set. One noise hides all
    silos of a person, so their changes of the mean add up: the bound is `silos_per_person` times that of one user.

    >>> own = LocalFunction(gradient_bound=1.0, n_records=100)
    >>> fixed_point_mean_record(own, updates=50, step=1.0, smoothness=1.0, n_users=10)[-1].bound
    0.002449...
    >>> (2 / 1000) * math.sqrt(1 + 1.0 / 2)  # gamma L = 1
    0.002449...
    """
    gam, lam = checks.positive("step", step), relaxation_of(relaxation)
    count, weight, silos = checks.count("updates", updates), local.weight, local.protection.silos_per_person
    spectrum = prox_spectrum(
        step=gam * weight, strong_convexity=local.strong_convexity, smoothness=check_bounded("smoothness", smoothness)
    ).relax(lam)
    drift = hidden_drift(spectrum, gam * local.gap, count)[1:]
    # Replacing records replaces part of a user's data, and G bounds the gradient of the mean loss.
    reach = 2 * gam * (weight * local.gradient_bound + tolerance_of(local.solver_tolerance))
    n, text = checks.count("n_users", n_users), (local.bound_text, *_COORDINATOR, *adding_text(silos))
    return tuple(
        local.certify(silos * min(record, reach) / n, "C6 (record level)", *text, view=View.PUBLIC) for record in drift
    )
