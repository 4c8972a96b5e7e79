"""C14: the curvature of the loss, summed over all records, released once after the last round.

Every record adds `kappa a a'`, a positive semidefinite matrix of Frobenius norm at most `B = kappa_max R^2`. Two such
matrices are at most `sqrt(2) B` apart, since their inner product is not negative. Proof: `docs/proofs/c14.md`.
"""

import math
from collections.abc import Sequence

from dpadmm.privacy.certificates.neighbours import TRUSTED_SUM, LocalFunction, adding_words, bounded, tolerance_of
from dpadmm.privacy.protection import Certificate, Relation, View

_PUBLIC_POINT = "the point at which the curvature is taken follows from noisy values released before"
_ISOMETRY = "the matrix leaves as its diagonal and sqrt(2) times the entries above it: distances are Frobenius norms"


def curvature_sum(silos: Sequence[LocalFunction], *, record_curvature: float) -> Certificate:
    """Bound the matrix `sum_i (w_i/n_i) sum_m kappa_m a_m a_m'` at a public point, in the Frobenius norm.

        D = sqrt(2) B (the s largest of w_i min(r, n_i)/n_i) + 2 s tol       records are replaced
        D =         B (the s largest of w_i r/n_i)           + 2 s tol       records are added or removed

    record_curvature: B, which bounds the norm of one record's part, for persons that of all their rows together.
    The tolerance is the error with which a silo's matrix is evaluated.

    >>> silos = [LocalFunction(gradient_bound=1, n_records=n, weight=n / 500) for n in (100, 400)]
    >>> round(500 * curvature_sum(silos, record_curvature=0.25).bound, 6)
    0.353553
    """
    exact = [each.evaluated() for each in silos]
    first, people = exact[0], silos[0].silos_per_person
    largest = bounded("record_curvature", record_curvature)
    moved = math.sqrt(2) if first.relation is Relation.REPLACE_ONE else 1.0
    parts = sorted((each.weight * largest * each.replaced / each.n_records for each in exact), reverse=True)[:people]
    errors = sorted((2 * tolerance_of(each.solver_tolerance) for each in exact), reverse=True)[:people]
    alone = len(silos) == 1
    return first.certify(
        moved * math.fsum(parts) + math.fsum(errors),
        "C14 (curvature)",
        f"every record adds a positive semidefinite matrix of Frobenius norm at most {largest:g}",
        _PUBLIC_POINT,
        _ISOMETRY,
        *(() if alone else (TRUSTED_SUM,)),
        *adding_words(people),
        view=View.EAVESDROPPER if alone else View.PUBLIC,
        is_for_additions=True,
    )
