"""C3: consensus DP-ADMM, noise on the coordinator's broadcast (view: whoever sees the broadcasts).

    z = prox_{g/(rho N)}(mean_i (x_i + a_i/rho)),  zhat = z + noise
    x_i = prox_{w f_i/rho}(zhat - a_i/rho),        a_i += rho (x_i - zhat)

Neighbours differ in one agent's function, its gradient by at most delta everywhere; f_i is tau-strongly convex and
L-smooth. With `B = w delta/rho`, `m in [m0, kap]` the spectrum of `gam H (I + gam H)^-1`, gam = w/rho:

    ||dz_{k+1}|| <= (1/N) ( max|1 - 2m| sqrt(V_{k-1}) + 2 B (1 - m0) ),     k >= 1,

V the recursion of `recursion.py`. Holds for every convex g. Proof: `docs/proofs/c3.md`. In every tuple below the entry
k-1 is the k-th *private* broadcast `z_{k+1}`; the first broadcast z_1 does not touch the data and carries no noise.
"""

from dpadmm import checks
from dpadmm.privacy.certificates.neighbours import (
    PUBLIC_FACTS,
    TRUSTED_SUM,
    LocalFunction,
    adding_words,
    bounded,
    solver_words,
    strength_of,
    tolerance_of,
)
from dpadmm.privacy.certificates.recursion import (
    SpectralInterval,
    hidden_drift,
    prox_spectrum,
)
from dpadmm.privacy.protection import Certificate, Unit, View

_TRUST = (
    TRUSTED_SUM,
    "the functions are tau-strongly convex and L-smooth, both bounds valid for every admissible function",
    "the regulariser g is convex and does not depend on the data",
)


def _spectrum(penalty: float, weight: float, strong_convexity: float, smoothness: float) -> SpectralInterval:
    step = checks.positive("weight", weight) / checks.positive("penalty", penalty)
    return prox_spectrum(step=step, strong_convexity=strong_convexity, smoothness=bounded("smoothness", smoothness))


def _certify_function(bound: float, theorem: str, words: str, solver_tolerance: float | None) -> Certificate:
    return Certificate(
        bound=bound,
        unit=Unit.FUNCTION,
        view=View.PUBLIC,
        theorem=theorem,
        assumptions=(words, *_TRUST, solver_words(solver_tolerance), *PUBLIC_FACTS),
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
    gap = weight * bounded("gradient_distance", gradient_distance) + 2 * tolerance_of(solver_tolerance)
    n, k = checks.count("n_agents", n_agents), checks.count("rounds", rounds)
    words = f"neighbours differ in one agent's function, its gradient by at most {gradient_distance:g} everywhere"
    return tuple(
        _certify_function(_sent(spectrum, drift, gap / penalty) / n, "C3", words, solver_tolerance)
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
    push = weight * bounded("gradient_distance", gradient_distance) / penalty
    residual = 2 * tolerance_of(solver_tolerance) / penalty
    n, last = checks.count("n_agents", n_agents), checks.count("rounds", rounds)
    words = (
        f"neighbours differ in the linear term of one agent's quadratic, by at most {gradient_distance:g}; its Hessian "
        "is the same in both and is not protected"
    )
    drifts = hidden_drift(spectrum, residual, last)
    certificates = []
    for k in range(1, last + 1):
        # (1 - 2m) m^(k-1) rises up to (k-1)/(2k) and falls after it.
        m = min(max((k - 1) / (2 * k), spectrum.low), spectrum.high)
        bound = push * (1 + (1 - 2 * m) * m ** (k - 1)) + _sent(spectrum, drifts[k - 1], residual)
        certificates.append(_certify_function(bound / n, "C3 (quadratic functions)", words, solver_tolerance))
    return tuple(certificates)


def consensus_broadcast_records(
    local: LocalFunction, *, rounds: int, n_agents: int, penalty: float, smoothness: float
) -> tuple[Certificate, ...]:
    """C3 at record level: the gradient distance of one agent is `2G r/n_i`; `smoothness` includes the ridge.

    One noise hides all silos of a person, so their changes of the mean add up: the bound is `silos_per_person` times
    that of one silo, `n_records` being the smallest of them.
    """
    spectrum = _spectrum(penalty, local.weight, local.strong_convexity, smoothness)
    push, silos = local.gap / penalty, local.silos_per_person
    n, k = checks.count("n_agents", n_agents), checks.count("rounds", rounds)
    words = (local.words, *_TRUST, *adding_words(silos))
    return tuple(
        local.certify(silos * _sent(spectrum, drift, push) / n, "C3 (record level)", *words, view=View.PUBLIC)
        for drift in hidden_drift(spectrum, push, k)[:k]
    )
