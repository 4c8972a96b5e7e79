"""What neighbouring data can do to one local gradient: the quantity every certificate starts from.

With local function `w f(x) = (w/n) sum_m loss(x; a_m) + (w mu/2)||x||^2`, per-record gradients of norm at most G, up to
r records of one person and a subproblem solved to a gradient of norm at most tol, two neighbouring runs behave
like exact solutions of subproblems whose gradients differ, at every point, by at most

    gap = w 2G min(r, n)/n + 2 tol.

The last term is certificate C7: a residual *is* a perturbation of the gradient, so it passes through every
recursion in the same way as the data do. See `docs/proofs/c7.md`.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.privacy.records import Certificate, Strength, Unit, View

PUBLIC_FACTS = (
    "the sizes n_i, the graph, the weights, the penalties and the schedule are public and fixed in advance",
    "the starting point does not depend on the data",
)


def bounded(name: str, value: float) -> float:
    """Return `value` if it is a finite, non-negative bound; an infinite one cannot be certified.

    >>> bounded("gradient_bound", 1)
    1.0
    """
    if isinstance(value, int | float) and math.isinf(value):
        raise InputError(
            f"{name} is infinite, so no noise hides a person: the squared loss on unbounded residuals is of this "
            "kind. Use its Huber version (threshold = the bound), or clip, and pass that bound."
        )
    return checks.non_negative(name, value)


def tolerance_of(solver_tolerance: float | None) -> float:
    """Return the residual to fold in (C7): zero when the caller leaves it unstated, see `strength_of`."""
    return 0.0 if solver_tolerance is None else checks.non_negative("solver_tolerance", solver_tolerance)


def strength_of(solver_tolerance: float | None) -> Strength:
    """Return FULL if the residual of the local solve is part of the bound, else UP_TO_SOLVER_ERROR."""
    return Strength.UP_TO_SOLVER_ERROR if solver_tolerance is None else Strength.FULL


def record_gap(
    *,
    gradient_bound: float,
    n_records: int,
    weight: float,
    records_per_person: int,
    solver_tolerance: float | None,
) -> float:
    """Bound the gradient distance between two neighbouring local functions: `w 2G min(r, n)/n + 2 tol`.

    >>> record_gap(gradient_bound=1, n_records=100, weight=1, records_per_person=2, solver_tolerance=0.005)
    0.05
    """
    n = checks.count("n_records", n_records)
    replaced = min(checks.count("records_per_person", records_per_person), n)
    data = checks.positive("weight", weight) * 2 * bounded("gradient_bound", gradient_bound) * replaced / n
    return data + 2 * tolerance_of(solver_tolerance)


def edge_curvature(*, edge_penalty: float, degree: int) -> float:
    """Curvature `2 eta deg` of the quadratic that ties an agent to its neighbours."""
    return 2 * checks.positive("edge_penalty", edge_penalty) * checks.count("degree", degree)


def certify_record(
    bound: float,
    *,
    view: View,
    theorem: str,
    assumptions: Sequence[str],
    solver_tolerance: float | None,
    records_per_person: int,
    silos_per_person: int,
) -> Certificate:
    """Wrap a record-level L2 bound, adding the assumptions common to all of them."""
    return Certificate(
        bound=bound,
        unit=Unit.RECORD,
        view=view,
        theorem=theorem,
        assumptions=(
            neighbour_words(records_per_person, silos_per_person),
            *assumptions,
            solver_words(solver_tolerance),
            *PUBLIC_FACTS,
        ),
        strength=strength_of(solver_tolerance),
        records_per_person=records_per_person,
        silos_per_person=silos_per_person,
    )


def neighbour_words(records_per_person: int, silos_per_person: int) -> str:
    """Say in words which data are neighbours.

    >>> neighbour_words(3, 2)
    'neighbours differ in at most 3 record(s) in each of at most 2 silos, replaced by others'
    """
    where = "of one silo" if silos_per_person == 1 else f"in each of at most {silos_per_person} silos"
    return f"neighbours differ in at most {records_per_person} record(s) {where}, replaced by others"


def for_silos(certificate: Certificate, *, bound: float, silos: int) -> Certificate:
    """Return a certificate that was made for one silo as one, of another bound, for people with records in several."""
    records = certificate.records_per_person
    said = neighbour_words(records, certificate.silos_per_person)
    words = tuple(neighbour_words(records, silos) if each == said else each for each in certificate.assumptions)
    return replace(certificate, bound=bound, silos_per_person=silos, assumptions=words)


def solver_words(solver_tolerance: float | None) -> str:
    """Say in words what was assumed about the local solver."""
    if solver_tolerance is None:
        return "local subproblems are solved exactly (their residual is not part of the bound)"
    return f"local subproblems are solved to a gradient norm of at most {solver_tolerance:g}, rounding included (C7)"


def gradient_words(gradient_bound: float) -> str:
    """State the per-record gradient bound."""
    return f"every record's loss is convex with gradient norm at most {gradient_bound:g} everywhere"


def adding_words(silos_per_person: int) -> tuple[str, ...]:
    """State what was assumed about a person's silos where one noise hides them all (C3, C6)."""
    if silos_per_person == 1:
        return ()
    return (f"a person has records in at most {silos_per_person} silos; their changes of the mean add up",)
