"""C16 to C19: agents with costs of their own, who share a resource or are tied by a linear constraint.

C16 and C17, sharing `sum f_i(x_i) + g(sum A_i x_i)`: given the broadcasts b, agent i minimises
`f_i(x) + (rho/2)||A_i x - c_i + b||^2` and keeps `c_i = A_i x`, of which only the noisy sum leaves. Proofs:
`docs/proofs/c16.md`, `docs/proofs/c17.md`.

C18, `A_i x_i + B_i z = c_i`: given z, agent i minimises `f_i(x) + ||A_i x + 2 B_i z + u_i - c_i||^2/(2 gamma)` and adds
`2 lam (A_i x + B_i z - c_i)` to u_i, of which only a noisy sum leaves. Proof: `docs/proofs/c18.md`.

C19: what leaves an agent is projected onto a public set, whatever the agent's function is: `docs/proofs/c19.md`.

In the tuples below the entry k-1 belongs to round k.
"""

import math
from dataclasses import dataclass, replace

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.privacy.certificates.hidden_state import hidden_drift, prox_spectrum, relaxation_of
from dpadmm.privacy.certificates.local import (
    READS_BROADCASTS,
    TRUSTED_SUM,
    check_bounded,
    edge_curvature,
    solver_text,
)
from dpadmm.privacy.protection import Certificate, Protection, Unit, View

_PUBLIC = (
    "the maps, sets, right-hand sides, penalties, rounds and the schedule are public, fixed in advance and equal in "
    "neighbouring worlds; one agent is one person's",
    "the starting point does not depend on the data",
)


def _neighbours(distance: float, projected: float | None) -> str:
    widened = "" if projected in (None, distance) else f"; that is {projected:.4g} after curvatures are projected (C16)"
    return f"neighbours differ in one agent's cost, its gradient by at most {distance:g} everywhere{widened}"


def _gap(distance: float, projected: float | None, tolerance: float) -> float:
    """Return e: how far gradients may be apart, projected or not, and what solvers leave of both (C7)."""
    apart = max(
        check_bounded("gradient_distance", distance), checks.non_negative("projected_distance", projected or 0.0)
    )
    return apart + 2 * checks.non_negative("solver_tolerance", tolerance)


def _certify(bound: float, unit: Unit, theorem: str, *conditions: str) -> Certificate:
    return Certificate(
        bound=bound,
        protection=Protection(unit=unit, view=View.PUBLIC),
        theorem=theorem,
        assumptions=(*conditions, TRUSTED_SUM, *_PUBLIC),
    )


def without_trust(certificate: Certificate) -> Certificate:
    """Return the certificate of one agent's message that leaves with noise of its own, and is kept as it left.

    Only for a bound that holds given equal earlier messages: that of the first round (C16, C17), or of C19.
    """
    kept = tuple(conditions for conditions in certificate.assumptions if conditions != TRUSTED_SUM)
    conditions = "agents keep the noisy values that they have sent, and compute with these"
    protection = replace(certificate.protection, view=View.EAVESDROPPER)
    return replace(certificate, protection=protection, assumptions=(*kept, conditions))


@dataclass(frozen=True)
class SingularValues:
    """Bounds on the singular values of all agents' maps A_i.

    least: the smallest one, 0 unless every A_i has full column rank. least_nonzero: o, the smallest one that is not 0.
    largest: a.
    """

    least: float = 1.0
    least_nonzero: float = 1.0
    largest: float = 1.0

    def __post_init__(self) -> None:
        """Refuse values in the wrong order."""
        if not 0 <= self.least <= self.largest < math.inf or not 0 < self.least_nonzero <= self.largest:
            raise InputError(f"singular values must be ordered numbers from 0 on, got {self}.")


def sharing_gap(
    *,
    rounds: int,
    gradient_distance: float,
    projected_distance: float | None = None,
    penalty: float,
    strong_convexity: float,
    maps: SingularValues | None = None,
    solver_tolerance: float = 0.0,
) -> tuple[Certificate, ...]:
    """C16: bound `sum c_i` where one agent's gradient moves by at most d everywhere, rising to `a e/tau`.

        D_0 = 0,   D_k = max over s in [w, a] of (rho s^2 D_{k-1} + s e)/(rho s^2 + tau),   e = d + 2 tol

    projected_distance: d after curvatures are projected, where that makes it larger.

    >>> [round(c.bound, 4) for c in sharing_gap(rounds=3, gradient_distance=1, penalty=1, strong_convexity=1)]
    [0.5, 0.75, 0.875]
    """
    sizes, rho = maps or SingularValues(), checks.positive("penalty", penalty)
    if checks.non_negative("strong_convexity", strong_convexity) == 0:
        raise InputError(
            "Sharing with costs that are not strongly convex has no bound that stays below every level (C16): it "
            "grows with every round. Protect Whole(region), or add a public strongly convex term to every cost. "
            "Nothing was spent."
        )
    tau, gap = strong_convexity, _gap(gradient_distance, projected_distance, solver_tolerance)
    bounds, last = list[float](), 0.0
    for _ in range(checks.count("rounds", rounds)):
        steepest = (last * tau + math.sqrt((last * tau) ** 2 + gap**2 * tau / rho)) / gap if gap > 0 else 0.0
        s = min(max(steepest, sizes.least), sizes.largest)
        last = (rho * s * s * last + s * gap) / (rho * s * s + tau)
        bounds.append(last)
    conditions = (
        _neighbours(gradient_distance, projected_distance),
        f"costs are {tau:g}-strongly convex on a closed convex set that neighbours have in common",
        solver_text(solver_tolerance),
    )
    return tuple(_certify(bound, Unit.FUNCTION, "C16", *conditions) for bound in bounds)


def sharing_amount(
    *, rounds: int, distance: float, width: float = math.inf, scale: float = 1.0, solver_tolerance: float = 0.0
) -> tuple[Certificate, ...]:
    """C17: bound `sum c_i` where one agent's amount moves by at most d: `||a|| sqrt(min(d, width) d)`, without growth.

    width: the largest upper limit less the lower one. scale: the largest `||a_i||` where `A_i = I kron a_i`.
    solver_tolerance: distance of the computed allocation from the exact one, which adds 2 k times that.

    >>> [c.bound for c in sharing_amount(rounds=2, distance=9.0, width=4.0)]
    [6.0, 6.0]
    """
    d, error = check_bounded("distance", distance), checks.non_negative("solver_tolerance", solver_tolerance)
    if math.isnan(width) or width < 0:
        raise InputError("width must be a number from 0 on, or infinity.")
    once, size = math.sqrt(min(d, width) * d), checks.non_negative("scale", scale)
    conditions = (
        f"neighbours differ in one agent's amount, by at most {distance:g}; its limits and costs are the same in both, "
        "and are not protected",
        "costs are sums over the periods of convex functions of one period each",
        f"allocations are computed to a distance of at most {error:g} (C7)",
    )
    each = checks.count("rounds", rounds)
    return tuple(_certify(size * (once + 2 * k * error), Unit.FUNCTION, "C17", *conditions) for k in range(1, each + 1))


def constraint_gap(
    *,
    rounds: int,
    gradient_distance: float,
    projected_distance: float | None = None,
    step: float,
    strong_convexity: float,
    smoothness: float = math.inf,
    maps: SingularValues | None = None,
    relaxation: float = 0.5,
    solver_tolerance: float = 0.0,
    sent: float = 1.0,
) -> tuple[Certificate, ...]:
    """C18: bound `sum B_i'u_i` where one agent's gradient moves by at most d everywhere; the least of three bounds.

    smoothness: L of the costs where no set constrains the agents, else infinite. sent: the largest `||B_i||`, or 1
    where all `B_i` are equal and `sum u_i` leaves.

    >>> [round(c.bound, 4) for c in constraint_gap(rounds=2, gradient_distance=1, step=1, strong_convexity=1)]
    [0.5, 0.7638]
    """
    sizes, gamma, lam = maps or SingularValues(), checks.positive("step", step), relaxation_of(relaxation)
    mu, gap = (
        checks.non_negative("strong_convexity", strong_convexity),
        _gap(gradient_distance, projected_distance, solver_tolerance),
    )
    smooth = _smooth_drift(sizes, gamma, lam, mu, smoothness, gap, checks.count("rounds", rounds))
    bounds, v = list[float](), 0.0
    for k in range(1, rounds + 1):
        strength = (1 - lam) * sizes.least**2 + gamma * mu
        ways = [v + lam * (gamma * gap) ** 2 / strength] if strength > 0 else []
        if lam == 0.5 and mu > 0:
            ways.append(((math.sqrt(v) + math.sqrt(v + gamma * gap**2 / mu)) / 2) ** 2)
        if smooth is not None:
            ways.append(smooth[k] ** 2)
        if not ways:
            raise InputError(
                "Nothing is proved for costs that are neither strongly convex nor smooth behind maps without full "
                "column rank (C18). Protect Whole(region), or add a strongly convex term. Nothing was spent."
            )
        v = min(ways)
        bounds.append(math.sqrt(v))
    size = checks.non_negative("sent", sent)
    conditions = (
        _neighbours(gradient_distance, projected_distance),
        f"costs are {mu:g}-strongly convex"
        + (f" and {smoothness:g}-smooth, without sets" if math.isfinite(smoothness) else " on a common closed set"),
        solver_text(solver_tolerance),
    )
    return tuple(_certify(size * bound, Unit.FUNCTION, "C18", *conditions) for bound in bounds)


def _smooth_drift(
    sizes: SingularValues, gamma: float, lam: float, mu: float, smoothness: float, gap: float, rounds: int
) -> tuple[float, ...] | None:
    """Return C6's recursion for `F(w) = min {f: Ax = w}`, None where it does not apply.

    F is mu/a^2-strongly convex and L/o^2-smooth, and its gradient moves by X d/o: X = 1 where A has full column rank,
    else `(r + 1)/(2 sqrt r)`, r = L/mu, since x may differ in the kernel of A.
    """
    if math.isinf(smoothness) or (sizes.least == 0 and mu == 0):
        return None
    ratio = smoothness / mu if sizes.least == 0 else 1.0
    turned = (ratio + 1) / (2 * math.sqrt(ratio)) * gap / sizes.least_nonzero
    spectrum = prox_spectrum(
        step=gamma, strong_convexity=mu / sizes.largest**2, smoothness=smoothness / sizes.least_nonzero**2
    )
    return hidden_drift(spectrum.relax(lam), gamma * turned, rounds)


def constraint_linear(
    *,
    rounds: int,
    distance: float,
    step: float,
    strong_convexity: float,
    smoothness: float,
    maps: SingularValues | None = None,
    relaxation: float = 0.5,
    solver_tolerance: float = 0.0,
    sent: float = 1.0,
) -> tuple[Certificate, ...]:
    """C18 for quadratics without sets, of which the linear term moves by at most d: `B (1 - m0^k)` and the residuals.

    Every A_i has full column rank. Residuals turn from round to round and go through the general recursion.

    >>> [round(c.bound, 4) for c in constraint_linear(rounds=2, distance=1, step=1, strong_convexity=1, smoothness=2)]
    [0.5, 0.75]
    """
    sizes, gamma, lam = maps or SingularValues(), checks.positive("step", step), relaxation_of(relaxation)
    if sizes.least == 0:
        raise InputError("Linear terms are certified behind maps with full column rank (C18). Protect Gap instead.")
    push = gamma * check_bounded("distance", distance) / sizes.least
    low = (
        prox_spectrum(
            step=gamma, strong_convexity=strong_convexity / sizes.largest**2, smoothness=smoothness / sizes.least**2
        )
        .relax(lam)
        .low
    )
    residuals = constraint_gap(
        rounds=rounds, gradient_distance=0.0, step=gamma, strong_convexity=strong_convexity, smoothness=smoothness,
        maps=sizes, relaxation=lam, solver_tolerance=solver_tolerance,
    )  # fmt: skip
    conditions = (
        f"neighbours differ in the linear term of one agent's quadratic, by at most {distance:g}; its curvature is the "
        "same in both and is not protected",
        "quadratics without sets, and a fixed step",
        solver_text(solver_tolerance),
    )
    size = checks.non_negative("sent", sent)
    return tuple(
        _certify(size * (push * (1 - low**k) + each.bound), Unit.FUNCTION, "C18 (linear terms)", *conditions)
        for k, each in enumerate(residuals, start=1)
    )


def enforced(*, diameter: float, sent: float = 1.0) -> Certificate:
    """C19: bound a sum of which every agent's part is projected onto a public set of this diameter.

    Nothing is assumed of functions, convexity or solvers. The diameter is computed from the set that is projected on.

    >>> enforced(diameter=2.0).bound
    2.0
    """
    conditions = (
        "neighbours differ in anything about one agent",
        "what every agent adds to the sum is projected onto a public convex set; what is not finite is replaced by a "
        "fixed point of it",
        "an agent's part is computed from its own data and the broadcasts alone",
    )
    bound = checks.non_negative("sent", sent) * check_bounded("diameter", diameter)
    return _certify(bound, Unit.USER, "C19", *conditions)


def linear_sum(*, distance: float) -> Certificate:
    """C18 (one sum): bound `sum q_i`, of linear terms of which one moves by at most d; released once.

    >>> linear_sum(distance=2.0).bound
    2.0
    """
    conditions = (
        f"neighbours differ in the linear term of one agent's quadratic, by at most {distance:g}; curvatures are "
        "public, and are not protected",
    )
    return _certify(check_bounded("distance", distance), Unit.FUNCTION, "C18 (one sum)", *conditions)


def graph_gap(
    *,
    gradient_distance: float,
    projected_distance: float | None = None,
    edge_penalty: float,
    degree: int,
    strong_convexity: float,
    solver_tolerance: float = 0.0,
) -> Certificate:
    """C1 for one agent's cost: bound what it broadcasts by `(d + 2 tol)/(2 eta deg + tau)`, the same in every round.

    >>> graph_gap(gradient_distance=1, edge_penalty=0.25, degree=2, strong_convexity=1).bound
    0.5
    """
    gap = _gap(gradient_distance, projected_distance, solver_tolerance)
    modulus = edge_curvature(edge_penalty=edge_penalty, degree=degree)
    modulus += checks.non_negative("strong_convexity", strong_convexity)
    return Certificate(
        bound=gap / modulus,
        protection=Protection(unit=Unit.FUNCTION),
        theorem="C1 (functions)",
        assumptions=(
            _neighbours(gradient_distance, projected_distance),
            READS_BROADCASTS,
            solver_text(solver_tolerance),
            *_PUBLIC,
        ),
    )
