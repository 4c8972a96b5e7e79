"""What neighbouring data can do to one local gradient: the quantity every certificate starts from.

With local function `w f(x) = (w/n) sum_m loss(x; a_m) + (w mu/2)||x||^2`, per-record gradients of norm at most G, up to
r records of one person and a subproblem solved to a gradient of norm at most tol, two neighbouring runs behave
like exact solutions of subproblems whose gradients differ, at every point, by at most

    gap = w 2G min(r, n)/n + 2 tol        records are replaced by others
    gap = w G r/n + 2 tol                 records are added or removed; n is a nominal number

Where the unit is a person, n counts persons, and the weights of a person's rows sum to at most 1: all of them together
pull with a norm of at most G, as one record does, and r is 1 (`docs/proofs/c1.md`).

The last term is certificate C7: a residual *is* a perturbation of the gradient, so it passes through every
recursion in the same way as the data do. See `docs/proofs/c7.md`.

C1: P-ADMM, Gaussian noise on the broadcast minimiser (record level, view: eavesdropper).

    x_i^{k+1} = argmin f_i(x) + a_i'x + eta sum_j ||x - (xt_i + xt_j)/2||^2,     xt_i = x_i + noise.

Given everything broadcast so far this minimises an `s = 2 eta deg_i + w mu` strongly convex function, so
`D_i = gap/s` with `gap = w 2G r/n_i + 2 tol`. Proof: `docs/proofs/c1.md`.
"""

import math
from dataclasses import dataclass, replace

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.errors import InputError
from dpadmm.privacy.protection import ONE_RECORD, Certificate, NeighbouringRelation, Protection, Strength, Unit, View

PUBLIC_FACTS = (
    "the sizes n_i, the graph, the weights, the penalties and the schedule are public and fixed in advance",
    "the starting point does not depend on the data",
)

MOST_PER_NOMINAL = 1024
"""How many times its nominal number of records a silo may hold: up to here sums are exact enough (C9)."""

NOMINAL_FACTS = (
    "how many records a silo has is secret and decides nothing: the nominal numbers of records, the weights, the "
    "steps and the schedule are public and fixed in advance, and sums are divided by nominal numbers",
    f"no silo has more than {MOST_PER_NOMINAL} times its nominal number of records",
    "the starting point does not depend on the data",
)
"""What takes the place of `PUBLIC_FACTS` where records are added or removed."""


ORDER_OF_OTHERS = "the order of the others' rows does not depend on the person"
"""Of each person the first rows are kept: another order would keep other rows of the others."""

PERSON_WEIGHTS = (
    "sizes count persons, and it is known whose each row is; the weights of a person's rows sum to at most 1 and, like "
    f"the choice of the rows that are kept, depend on that person's rows alone; {ORDER_OF_OTHERS}"
)
"""What takes the place of one record per person where persons have several rows."""

TRUSTED_SUM = "whoever adds up the silos' values is trusted, and nobody else sees more than their noisy sum"
"""Where one noise is put on a sum; masks take the place of this trust (C12)."""


def check_bounded(name: str, value: float) -> float:
    """Return `value` if it is a finite, non-negative bound; an infinite one cannot be certified.

    >>> check_bounded("gradient_bound", 1)
    1.0
    """
    if isinstance(value, int | float) and math.isinf(value):
        raise InputError(
            f"{name} is infinite, so no amount of noise can hide a person. The squared loss with unbounded residuals "
            "is an example: use the Huber loss (threshold = the bound), or clip, and pass that bound."
        )
    return checks.non_negative(name, value)


def tolerance_of(solver_tolerance: float | None) -> float:
    """Return the residual to fold in (C7): zero when the caller leaves it unstated, see `strength_of`."""
    return 0.0 if solver_tolerance is None else checks.non_negative("solver_tolerance", solver_tolerance)


def strength_of(solver_tolerance: float | None) -> Strength:
    """Return FULL if the residual of the local solve is part of the bound, else UP_TO_SOLVER_ERROR."""
    return Strength.UP_TO_SOLVER_ERROR if solver_tolerance is None else Strength.FULL


@dataclass(frozen=True, kw_only=True)
class LocalFunction:
    """The public side of one agent's function `w f_i`, its records and the people behind them.

    gradient_bound: G >= 0 of one record's loss. n_records: n_i. weight: w > 0, the factor in front of f_i.
    strong_convexity: mu >= 0 of f_i, from a ridge that does not depend on the data (`mu = 2 Lambda` if the regulariser
    is written `Lambda ||x||^2`). solver_tolerance: norm of the gradient left by the local solve, None if unstated (C7).
    is_evaluated: its gradient is taken, and the tolerance is an evaluation error.
    protection: who may differ between neighbours; certificates name their own view. Its unit is RECORD, or PERSON:
    n_records then counts persons, each of whom has any number of rows with weights. Where records are added or removed,
    n_records is nominal, and the number there is does not count.
    scores: how many linear scores of a record its loss reads; the bound for several is C13.

    >>> two = Protection(records_per_person=2)
    >>> LocalFunction(gradient_bound=1, n_records=100, protection=two, solver_tolerance=0.005).gap
    0.05
    >>> added = Protection(relation=NeighbouringRelation.ADD_OR_REMOVE)
    >>> LocalFunction(gradient_bound=1, n_records=100, protection=added).gap
    0.01
    """

    gradient_bound: float
    n_records: int
    weight: float = 1.0
    strong_convexity: float = 0.0
    solver_tolerance: float | None = None
    is_evaluated: bool = False
    protection: Protection = ONE_RECORD
    scores: int = 1

    def __post_init__(self) -> None:
        """Check every number but the bound on the gradient, which only some certificates need (`gap`)."""
        checks.count("n_records", self.n_records)
        if self.protection.unit not in (Unit.RECORD, Unit.PERSON):
            raise InputError(f"unit must be Unit.RECORD or Unit.PERSON, got {safe_repr(self.protection.unit)}.")
        checks.positive("weight", self.weight)
        checks.non_negative("strong_convexity", self.strong_convexity)
        tolerance_of(self.solver_tolerance)

    @property
    def is_of_persons(self) -> bool:
        """Whether a person with all their rows is what differs between neighbours."""
        return self.protection.unit is Unit.PERSON

    def check_single_rows(self, theorem: str) -> None:
        """Refuse a theorem whose proof needs that one row differs between neighbours."""
        if self.is_of_persons:
            raise InputError(
                f"{theorem} is proved for single records, not for a person with several rows. Use noisy-gradients, "
                "p-admm or another method certified for persons, or keep one row per person."
            )

    @property
    def replaced(self) -> int:
        """How many of the agent's records can differ between neighbours: `min(r, n)`, r where they may be added."""
        if self.protection.relation is NeighbouringRelation.REPLACE_ONE:
            return min(self.protection.records_per_person, self.n_records)
        return self.protection.records_per_person

    @property
    def gap(self) -> float:
        """Bound the gradient distance between two neighbouring functions: `w 2G min(r, n)/n + 2 tol`.

        A record that is added or removed leaves no other in its place: `w G r/n + 2 tol`.
        """
        twice = 2 if self.protection.relation is NeighbouringRelation.REPLACE_ONE else 1
        moved = twice * check_bounded("gradient_bound", self.gradient_bound)
        return self.weight * moved * self.replaced / self.n_records + 2 * tolerance_of(self.solver_tolerance)

    @property
    def curvature(self) -> float:
        """`w mu`."""
        return self.weight * self.strong_convexity

    def for_gradients(self) -> "LocalFunction":
        """Return the same where a gradient is taken, not a subproblem solved: exact unless a tolerance is given."""
        return replace(self, is_evaluated=True, solver_tolerance=tolerance_of(self.solver_tolerance))

    def certify(
        self,
        bound: float,
        theorem: str,
        *assumptions: str,
        view: View = View.EAVESDROPPER,
        is_for_additions: bool = False,
    ) -> Certificate:
        """Wrap a record-level L2 bound, adding the assumptions common to all of them.

        `is_for_additions`: the theorem is proved for records that are added or removed as well.
        """
        relation = self.protection.relation
        if not (relation.has_public_sizes or is_for_additions):
            raise InputError(
                f"{theorem} is proved for replaced records, not for {relation.value}. Use noisy-gradients, or "
                "replace-one neighbours."
            )
        return Certificate(
            bound=bound,
            protection=replace(self.protection, view=view, colluders=None),
            theorem=theorem if self.scores == 1 else f"{theorem} + C13",
            assumptions=(
                neighbour_text(self.protection),
                *((PERSON_WEIGHTS,) if self.is_of_persons else ()),
                *assumptions,
                gradient_text(self.solver_tolerance) if self.is_evaluated else solver_text(self.solver_tolerance),
                *(PUBLIC_FACTS if relation.has_public_sizes else NOMINAL_FACTS),
            ),
            strength=strength_of(self.solver_tolerance),
        )

    @property
    def bound_text(self) -> str:
        """State the bound on a record's gradient."""
        return f"every record's loss is convex with gradient norm at most {self.gradient_bound:g} everywhere"


def edge_curvature(*, edge_penalty: float, degree: int) -> float:
    """Curvature `2 eta deg` of the quadratic that ties an agent to its neighbours."""
    return 2 * checks.positive("edge_penalty", edge_penalty) * checks.count("degree", degree)


def neighbour_text(who: Protection) -> str:
    """Describe which data are neighbours.

    >>> neighbour_text(Protection(records_per_person=3, silos_per_person=2))
    'neighbours differ in at most 3 record(s) in each of at most 2 silos, replaced by others'
    """
    where = "of one silo" if who.silos_per_person == 1 else f"in each of at most {who.silos_per_person} silos"
    change = "replaced by others" if who.relation is NeighbouringRelation.REPLACE_ONE else "added or removed"
    what = "all rows of one person" if who.unit is Unit.PERSON else f"at most {who.records_per_person} record(s)"
    return f"neighbours differ in {what} {where}, {change}"


def for_silos(certificate: Certificate, *, bound: float, silos: int) -> Certificate:
    """Return a certificate that was made for one silo as one, of another bound, for people with records in several."""
    protection = replace(certificate.protection, silos_per_person=silos)
    stated, reported = neighbour_text(certificate.protection), neighbour_text(protection)
    bound_text = tuple(reported if each == stated else each for each in certificate.assumptions)
    return replace(certificate, bound=bound, protection=protection, assumptions=bound_text)


def solver_text(solver_tolerance: float | None) -> str:
    """Describe what was assumed about the local solver."""
    if solver_tolerance is None:
        return "local subproblems are solved exactly (their residual is not part of the bound)"
    return f"local subproblems are solved to a gradient norm of at most {solver_tolerance:g}, rounding included (C7)"


def gradient_text(tolerance: float | None) -> str:
    """Describe what was assumed about a gradient that is taken."""
    error = tolerance_of(tolerance)
    if error == 0:
        return "gradients are evaluated without error"
    return (
        "a record's part of a sum is computed from that record and the public point alone, and the sum with an error "
        f"of norm at most {error:g}, rounding included (C7)"
    )


def adding_text(silos_per_person: int) -> tuple[str, ...]:
    """State what was assumed about a person's silos where one noise hides them all (C3, C6)."""
    if silos_per_person == 1:
        return ()
    return (f"a person has records in at most {silos_per_person} silos; their changes of the mean add up",)


READS_BROADCASTS = "every update, the agent's own included, reads only the noisy broadcasts xt"


def p_admm(local: LocalFunction, *, edge_penalty: float, degree: int) -> Certificate:
    """Bound one agent's minimiser: `D = (w 2G r/n + 2 tol)/(2 eta deg + w mu)`, the same in every round.

    Parameters: `edge_penalty` eta > 0, `degree` >= 1.

    >>> own = LocalFunction(gradient_bound=1, n_records=6331, strong_convexity=2e-4)
    >>> p_admm(own, edge_penalty=1e-3, degree=2).bound
    0.0752...
    """
    modulus = edge_curvature(edge_penalty=edge_penalty, degree=degree) + local.curvature
    return local.certify(local.gap / modulus, "C1", local.bound_text, READS_BROADCASTS)
