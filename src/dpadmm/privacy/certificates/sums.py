"""Sums over records that are released once, and sums under masks: C10, C11, C12, C14 and C15.

C12: sums of the silos' values, seen by nobody but as sums, with shares of one noise.

Silo i sends `round(v_i/grid) + e_i + masks_i mod 2^64`. The masks of a pair cancel in the sum; the shares e_i, discrete
Gaussians of variance `sigma^2/(N - t)`, add up. The coordinator and t silos together learn the sum and the t silos' own
parts, hence the honest silos' sum with noise of variance `sigma^2` at least. Proof: `docs/proofs/c12.md`.

C10: a sum over records of values between 0 and a public bound - counts, clipped errors, histograms.

Proof: `docs/proofs/c10.md`.

C11: the column profile - one-way histograms of all columns, released once, before the first round.

A record is one count in every column: 1 for a numeric column, beta for a categorical one, on disjoint public bins, with
a bin of its own for a missing cell. All rows of a person, or of a user, count one together.
Proof: `docs/proofs/c11.md`.

C14: the curvature of the loss, summed over all records, released once after the last round.

Every record adds `kappa a a'`, a positive semidefinite matrix of Frobenius norm at most `B = kappa_max R^2`. Two such
matrices are at most `sqrt(2) B` apart, since their inner product is not negative. So are the products `g g'`
of records' gradients, with `B = G^2`. Proof: `docs/proofs/c14.md`.

C15: by how much each of several released models does better or worse than their mean, summed over records.

Proof: `docs/proofs/c15.md`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.errors import InputError
from dpadmm.privacy.certificates.local import (
    ORDER_OF_OTHERS,
    PERSON_WEIGHTS,
    TRUSTED_SUM,
    LocalFunction,
    adding_text,
    check_bounded,
    neighbour_text,
    tolerance_of,
)
from dpadmm.privacy.protection import (
    Certificate,
    NeighbouringRelation,
    Norm,
    Protection,
    Unit,
    View,
    power_of_two,
    secure_grid,
)


@dataclass(frozen=True)
class Shares:
    """How many silos the noise is split among, and how many of them may collude with the coordinator.

    >>> Shares(silos=5, colluders=1).honest
    4
    """

    silos: int
    colluders: int = 1

    def __post_init__(self) -> None:
        """Refuse sums that would hide nobody."""
        checks.count("silos", self.silos)
        checks.count("colluders", self.colluders, least=0)
        if self.honest < 2:
            raise InputError(
                f"{self.silos} silos of which {self.colluders} may collude leave {self.honest} honest, but a sum hides "
                "a silo only among at least two honest ones. Use more silos, or fewer colluders."
            )

    @property
    def honest(self) -> int:
        """N - t, whose shares of the noise must suffice."""
        return self.silos - self.colluders


def masked_sum(
    certificate: Certificate, *, shares: Shares, grid: float, dimension: int, is_on_grid: bool = False
) -> Certificate:
    """Return the certificate of a sum of the silos' values as one of the same sum under masks (C12).

    The bound is that of the plain sum, plus the rounding of as many silos as a person may be in, `s grid sqrt(d)`; not
    where values lie on the grid already (`is_on_grid`). It holds with noise of variance `sigma^2` from the shares
    `sigma^2/(N - t)` of all N silos.

    certificate: of the sum, in the L2 norm, against those who see it with noise (the view PUBLIC).

    >>> seen = Protection(view=View.PUBLIC)
    >>> plain = Certificate(bound=2.0, protection=seen, theorem="C9", assumptions=("bounded",))
    >>> masked = masked_sum(plain, shares=Shares(5, 1), grid=2.0**-20, dimension=4)
    >>> masked.bound == 2.0 + 2 * 2.0**-20, masked.protection.view.value, masked.theorem
    (True, 'aggregate', 'C9 + C12')
    """
    d, width = checks.count("dimension", dimension), power_of_two(grid)
    seen = certificate.protection
    if seen.view is not View.PUBLIC or certificate.norm is not Norm.L2 or certificate.grid is not None:
        raise InputError(
            "masked_sum takes the certificate of a plain sum of all silos' values, in the L2 norm, not yet on a grid; "
            f"got one against the {seen.view.value}, in the {certificate.norm.value} norm."
        )
    kept = (text for text in certificate.assumptions if text != TRUSTED_SUM)
    rounding = 0.0 if is_on_grid else seen.silos_per_person * width * math.sqrt(d)
    return replace(
        certificate,
        bound=certificate.bound + rounding,
        protection=replace(seen, view=View.AGGREGATE, colluders=shares.colluders),
        theorem=f"{certificate.theorem} + C12",
        assumptions=(*kept, *mask_text(shares, is_on_grid=is_on_grid)),
        grid=width,
        grid_dimension=d,
    )


def mask_text(shares: Shares, *, is_on_grid: bool) -> tuple[str, ...]:
    """Say what the certificate rests on beyond that of the plain sum."""
    n, t = shares.silos, shares.colluders
    looks = (
        "no silo looks: only the coordinator and outsiders are counted, and a silo that looked would know its own "
        f"share of the noise, so that its m would be {math.sqrt(n / (n - 1)):.3g} times the certified one"
        if t == 0
        else f"at most {t} of the {n} silos look, alone or together with the coordinator and outsiders"
    )
    grid = (
        "counts are whole multiples of the noise's grid"
        if is_on_grid
        else "each silo rounds its values to multiples of the noise's grid, which the bound counts"
    )
    return (
        looks,
        f"each silo adds its own share of the noise, 1/{n - t} of the variance that is counted, and sends nothing else "
        "about its values",
        f"{grid} (C8)",
        "sums are taken modulo 2^64 and do not wrap: no silo sends a value that is too large for that",
        "observers are computationally bounded: masks come from X25519, HKDF-SHA256 and ChaCha20, with fresh keys for "
        "every run, and serve one vector each",
        "the owners of the silos have compared the fingerprints of their identity keys over another channel, so that "
        "nobody stands between them or invents silos",
    )


def bounded_sum(
    *,
    n_records: int,
    largest: float = 1.0,
    norm: Norm = Norm.L1,
    records_per_person: int = 1,
    silos_per_person: int = 1,
) -> Certificate:
    """Bound `sum_m v(record_m)` with `0 <= v <= B` for every conceivable record: `B min(r s, n)`.

    v is a function of one record: a model that looks at several rows at once (centres or ranks them) is not such a v.
    `largest` B > 0; r records of a person in each of s silos are replaced; one noise hides all silos. The sum is one
    number, so the bound is the same in both norms. A count (B = 1) is exact in integers; other values must be whole
    multiples of a public step, added as integers.

    >>> bounded_sum(n_records=100, records_per_person=3).bound
    3.0
    """
    top = checks.positive("largest", largest)
    if not isinstance(norm, Norm):
        raise InputError(f"norm must be a Norm, got {safe_repr(norm)}.")
    what = f"every record adds a value between 0 and {top:g}, summed without rounding"
    return _certify_sum(top, what, norm, n_records, Unit.RECORD, records_per_person, silos_per_person)


def cell_counts(
    *,
    n_records: int,
    histograms: int = 1,
    unit: Unit = Unit.RECORD,
    records_per_person: int = 1,
    silos_per_person: int = 1,
) -> Certificate:
    """Bound the vector of all counts of H histograms, `min(r s, n) sqrt(2 H)` in the L2 norm.

    A record is one count in at most one cell of every histogram; replacing it takes one away and adds one elsewhere.
    How many cells a histogram has does not matter: classes, or groups, are cells and no histograms of their own.
    Unit `person`: one of a person's rows in a silo is counted, which of them depends on that person's alone; so n is a
    number of persons, and replacing all rows of a person replaces that one.

    >>> cell_counts(n_records=100, histograms=2, records_per_person=3).bound
    6.0
    """
    many = checks.count("histograms", histograms)
    if unit not in (Unit.RECORD, Unit.PERSON):
        raise InputError(f"unit must be Unit.RECORD or Unit.PERSON, got {safe_repr(unit)}.")
    what = (
        f"every record is one count in at most one cell of each of {many} histogram(s), whose cells are public, "
        "disjoint and fixed in advance"
    )
    return _certify_sum(math.sqrt(2 * many), what, Norm.L2, n_records, unit, records_per_person, silos_per_person)


_ONE_ROW = "of every person one row in a silo is counted, which of them depends on that person's rows alone"


def _certify_sum(
    each: float, what: str, norm: Norm, n_records: int, unit: Unit, records_per_person: int, silos_per_person: int
) -> Certificate:
    """Certify a sum that every record that changes moves by at most `each`."""
    n, records = checks.count("n_records", n_records), checks.count("records_per_person", records_per_person)
    silos, is_persons = checks.count("silos_per_person", silos_per_person), unit is Unit.PERSON
    return Certificate(
        bound=each * min(records * silos, n),
        norm=norm,
        protection=Protection(unit=unit, records_per_person=records, silos_per_person=silos),
        theorem="C10",
        assumptions=(
            f"neighbours differ in {'all rows' if is_persons else f'at most {records} record(s)'} of one person in "
            f"each of at most {silos} silo(s), replaced by others",
            *((_ONE_ROW,) if is_persons else ()),
            what,
            "what a record adds depends on that record alone: a model scores each row by itself",
            "what is counted was chosen before looking at these records, or is made of accounted releases",
            f"the number of {'persons' if is_persons else 'records'} is public",
        ),
    )


def _changing(protection: Protection, n_records: int, *, is_noise_shared: bool) -> int:
    """Return how many records of a person can differ in what one noise hides; of persons and users, one a silo."""
    n = checks.count("n_records", n_records)
    records = protection.records_per_person if protection.unit is Unit.RECORD else 1
    changed = records * (protection.silos_per_person if is_noise_shared else 1)
    is_replaced = protection.relation is NeighbouringRelation.REPLACE_ONE
    return min(changed, n) if is_replaced and protection.unit is Unit.RECORD else changed


CATEGORY_WEIGHT = 0.5
"""beta: what a record counts in a categorical column. A power of two, so that counts lie on every finer grid."""

_PROFILE = "C11"
_ONE_BIN = (
    "the bins of every column are public, disjoint and fixed in advance, and every cell, a missing one included, is "
    f"counted in exactly one of them: as 1 in a numeric column, as {CATEGORY_WEIGHT:g} in a categorical one"
)
_PERSON_SHARES = (
    "sizes count persons; a row counts its weight, the weights of a person's rows sum to at most 1, and sums of "
    f"weights are exact; {ORDER_OF_OTHERS}"
)
_SHARES = "a user's counts in a silo are divided by the number of the user's rows there, before users are added up"
_POOLED = (TRUSTED_SUM, "the changes of a person's silos add up")
_EXACT = "counts are whole multiples of the noise's grid {grid!r}, so that nothing is rounded (C8)"
_ROUNDED = "each silo's counts are rounded to the nearest multiple of {grid!r} before they are added up (C8)"


def column_profile(
    *,
    n_numeric: int,
    n_categorical: int,
    n_records: int,
    protection: Protection,
    is_noise_shared: bool = False,
) -> Certificate:
    """Bound the vector of all counts, `k sqrt(2 C_num + 2 beta^2 C_cat)`; add-or-remove: without the factors 2.

    k is how many records change: `min(r, n)`, or `min(r s, n)` where one noise hides the pooled counts of all silos;
    under add-or-remove r and r s, since a neighbour may have more records. For persons and users k is 1 (s where noise
    is shared), however many rows they have.

    n_records: n, of the silo, or of all silos together if `is_noise_shared`. protection: its unit, relation, records
    and silos per person. The view follows from the noise: silos that add their own are protected from whoever sees
    every message, a noise that is added to the pooled counts protects from those who see the result.

    >>> column_profile(n_numeric=1, n_categorical=4, n_records=100, protection=Protection()).bound
    2.0
    >>> twice = Protection(records_per_person=3, silos_per_person=2)
    >>> facts = {"n_numeric": 1, "n_categorical": 4, "n_records": 100, "protection": twice}
    >>> column_profile(**facts).bound, column_profile(**facts, is_noise_shared=True).bound
    (6.0, 12.0)
    """
    numeric = checks.count("n_numeric", n_numeric, least=0)
    categorical = checks.count("n_categorical", n_categorical, least=0)
    if numeric + categorical == 0:
        raise InputError("A profile needs at least one column, got none. Leave the profile out.")
    if protection.unit is Unit.FUNCTION:
        raise InputError(f"A profile protects records or users, got {safe_repr(protection.unit)}.")
    is_replaced = protection.relation is NeighbouringRelation.REPLACE_ONE
    changed = _changing(protection, n_records, is_noise_shared=is_noise_shared)
    squared = numeric + CATEGORY_WEIGHT**2 * categorical
    return Certificate(
        bound=changed * math.sqrt(2 * squared if is_replaced else squared),
        protection=replace(
            protection,
            view=View.PUBLIC if is_noise_shared else View.EAVESDROPPER,
            records_per_person=protection.records_per_person if protection.unit is Unit.RECORD else 1,
            colluders=None,
        ),
        theorem=_PROFILE,
        assumptions=(
            _neighbours(protection),
            _ONE_BIN,
            *_WHOSE[protection.unit],
            *(_POOLED if is_noise_shared else ()),
            *((f"the number of {protection.unit.value}s is public",) if is_replaced else ()),
        ),
    )


def profile_on_grid(certificate: Certificate, grid: float, *, n_bins: int, shares: Shares | None = None) -> Certificate:
    """Return the certificate of the counts of all `n_bins` bins as they leave, with noise on a grid (C8).

    The counts of records are whole multiples of beta, hence of every power of two up to it, and nothing is rounded.
    The shares of persons and users, and counts on a coarser grid, are rounded silo by silo before they are added up:
    sums of multiples of the grid are exact, and a person moves the rounding of every silo behind the noise.
    shares: among whom the noise is shared out, where the counts leave under masks (C12).

    >>> counts = column_profile(n_numeric=1, n_categorical=4, n_records=100, protection=Protection())
    >>> profile_on_grid(counts, grid=2.0**-24, n_bins=64).bound, profile_on_grid(counts, grid=1.0, n_bins=64).bound
    (2.0, 10.0)
    """
    if certificate.theorem != _PROFILE:
        raise InputError(f"profile_on_grid is for the certificate of a column profile, got {certificate.theorem}.")
    is_exact = certificate.protection.unit is Unit.RECORD and grid <= CATEGORY_WEIGHT
    if shares is not None:
        return masked_sum(certificate, shares=shares, grid=grid, dimension=n_bins, is_on_grid=is_exact)
    placed = secure_grid(certificate, grid=grid, dimension=n_bins)
    text = (_EXACT if is_exact else _ROUNDED).format(grid=grid)
    return replace(
        placed, bound=certificate.bound if is_exact else placed.bound, assumptions=(*certificate.assumptions, text)
    )


_WHOSE = {Unit.RECORD: (), Unit.PERSON: (_PERSON_SHARES,), Unit.USER: (_SHARES,)}


def _neighbours(protection: Protection) -> str:
    """Describe which data are neighbours."""
    change = "replaced by others" if protection.relation is NeighbouringRelation.REPLACE_ONE else "added or removed"
    silos = f"in each of at most {protection.silos_per_person} silo(s)"
    if protection.unit is not Unit.RECORD:
        return f"neighbours differ in all rows of one {protection.unit.value} {silos}, {change}"
    return f"neighbours differ in at most {protection.records_per_person} record(s) of one person {silos}, {change}"


_PUBLIC_POINT = "the point at which the curvature is taken follows from noisy values released before"
_PUBLIC_POINT_OF_SCORES = "the point at which gradients are taken follows from noisy values released before"
_SAME_FACTOR = "the factor of a record's matrix is public and the same for all records"
_ISOMETRY = "the matrix leaves as its diagonal and sqrt(2) times the entries above it: distances are Frobenius norms"


def curvature_sum(silos: Sequence[LocalFunction], *, record_curvature: float, is_constant: bool = False) -> Certificate:
    """Bound the matrix `sum_i (w_i/n_i) sum_m kappa_m a_m a_m'` at a public point, in the Frobenius norm.

        D = sqrt(2) B (the s largest of w_i min(r, n_i)/n_i) + 2 s tol       records are replaced
        D =         B (the s largest of w_i r/n_i)           + 2 s tol       records are added or removed

    record_curvature: B, which bounds the norm of one record's part, for persons that of all their rows together.
    The tolerance is the error with which a silo's matrix is evaluated. is_constant: kappa is the same for all records,
    which makes the matrix one of second moments, and of no point.

    >>> silos = [LocalFunction(gradient_bound=1, n_records=n, weight=n / 500) for n in (100, 400)]
    >>> round(500 * curvature_sum(silos, record_curvature=0.25).bound, 6)
    0.353553
    """
    largest = check_bounded("record_curvature", record_curvature)
    theorem, at = ("C14 (second moments)", _SAME_FACTOR) if is_constant else ("C14 (curvature)", _PUBLIC_POINT)
    return _certify_matrices(silos, largest, theorem, at)


def score_products(silos: Sequence[LocalFunction], *, record_gradient: float) -> Certificate:
    """Bound the matrix `sum_i (w_i/n_i) sum_m g_m g_m'` of the gradients g_m at a public point, in the Frobenius norm.

    As `curvature_sum`, with `B = G^2`. Of a person, g is the sum over all their rows, whose weights sum to at most 1.

    record_gradient: G, which bounds the norm of one record's gradient, for persons that of all their rows together.

    >>> silos = [LocalFunction(gradient_bound=3, n_records=500)]
    >>> round(500 * score_products(silos, record_gradient=3.0).bound, 6)
    12.727922
    """
    largest = check_bounded("record_gradient", record_gradient) ** 2
    return _certify_matrices(silos, largest, "C14 (products of scores)", _PUBLIC_POINT_OF_SCORES)


def _certify_matrices(silos: Sequence[LocalFunction], largest: float, theorem: str, at: str) -> Certificate:
    """Certify a sum of positive semidefinite matrices, one a record, of Frobenius norm at most `largest`."""
    exact = [each.for_gradients() for each in silos]
    first, people = exact[0], silos[0].protection.silos_per_person
    moved = math.sqrt(2) if first.protection.relation is NeighbouringRelation.REPLACE_ONE else 1.0
    parts = sorted((each.weight * largest * each.replaced / each.n_records for each in exact), reverse=True)[:people]
    errors = sorted((2 * tolerance_of(each.solver_tolerance) for each in exact), reverse=True)[:people]
    alone = len(silos) == 1
    return first.certify(
        moved * math.fsum(parts) + math.fsum(errors),
        theorem,
        f"every record adds a positive semidefinite matrix of Frobenius norm at most {largest:g}",
        at,
        _ISOMETRY,
        *(() if alone else (TRUSTED_SUM, *adding_text(people))),
        view=View.EAVESDROPPER if alone else View.PUBLIC,
        is_for_additions=True,
    )


def score_differences(
    *, score_bound: float, n_records: int, protection: Protection, is_noise_shared: bool = False
) -> Certificate:
    """Bound `sum_m v(record_m)`, v in R^K with `||v|| <= C`: `2 C k`, or `C k` where records are added or removed.

    v is a function of one record and of what was released before. k is how many records of a person change in what one
    noise hides: `min(r, n)` of a silo, `min(r s, n)` of all silos where `is_noise_shared`; 1, or s, for persons, whose
    rows have weights that sum to at most 1. Where records are added, there is no minimum with n.

    score_bound: C > 0. n_records: of the silo, or of all silos together if `is_noise_shared`.

    >>> score_differences(score_bound=0.5, n_records=100, protection=Protection(records_per_person=3)).bound
    3.0
    """
    top, unit = checks.positive("score_bound", score_bound), protection.unit
    if unit not in (Unit.RECORD, Unit.PERSON):
        raise InputError(
            f"Candidates are compared on records or persons, got the unit {safe_repr(unit.value)}, for which C15 "
            "is not "
            f"proved. Nothing was spent. Let simulations choose, {checks.option_name('compared', 1)}, or use "
            "another unit."
        )
    is_replaced = protection.relation is NeighbouringRelation.REPLACE_ONE
    changed = _changing(protection, n_records, is_noise_shared=is_noise_shared)
    return Certificate(
        bound=changed * (2 * top if is_replaced else top),
        protection=replace(protection, view=View.PUBLIC if is_noise_shared else View.EAVESDROPPER, colluders=None),
        theorem="C15",
        assumptions=(
            neighbour_text(protection),
            *((PERSON_WEIGHTS,) if unit is Unit.PERSON else ()),
            f"of every record, the losses of the compared models less their mean are shortened to norm {top:g}, cut to "
            "whole multiples of a public step and added up without rounding",
            "the compared models, and all by which rows are encoded, are made of accounted releases",
            *((TRUSTED_SUM,) if is_noise_shared else ()),
        ),
    )
