"""C11: the column profile - one-way histograms of all columns, released once, before the first round.

A record is one count in every column: 1 for a numeric column, beta for a categorical one, on disjoint public bins, with
a bin of its own for a missing cell. All rows of a person, or of a user, count one together.
Proof: `docs/proofs/c11.md`.
"""

import math
from dataclasses import replace

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.errors import InputError
from dpadmm.privacy.certificates.masked import Shares, masked_sum
from dpadmm.privacy.certificates.neighbours import ORDER_OF_OTHERS, TRUSTED_SUM
from dpadmm.privacy.protection import Certificate, Protection, Relation, Unit, View, secure_grid

CATEGORY_WEIGHT = 0.5
"""beta: what a record counts in a categorical column. A power of two, so that counts lie on every finer grid."""

_THEOREM = "C11"
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
    n = checks.count("n_records", n_records)
    if numeric + categorical == 0:
        raise InputError("A profile needs at least one column, got none. Leave the profile out.")
    if protection.unit is Unit.FUNCTION:
        raise InputError(f"A profile protects records or users, got {shown(protection.unit)}.")
    is_replaced = protection.relation is Relation.REPLACE_ONE
    records = protection.records_per_person if protection.unit is Unit.RECORD else 1
    silos = protection.silos_per_person
    changed = records * (silos if is_noise_shared else 1)
    if protection.unit is Unit.RECORD and is_replaced:
        changed = min(changed, n)
    squared = numeric + CATEGORY_WEIGHT**2 * categorical
    return Certificate(
        bound=changed * math.sqrt(2 * squared if is_replaced else squared),
        unit=protection.unit,
        view=View.PUBLIC if is_noise_shared else View.EAVESDROPPER,
        relation=protection.relation,
        theorem=_THEOREM,
        assumptions=(
            _neighbours(protection),
            _ONE_BIN,
            *_WHOSE[protection.unit],
            *(_POOLED if is_noise_shared else ()),
            *((f"the number of {protection.unit.value}s is public",) if is_replaced else ()),
        ),
        records_per_person=records,
        silos_per_person=silos,
    )


def profile_on_grid(certificate: Certificate, *, grid: float, n_bins: int, shares: Shares | None = None) -> Certificate:
    """Return the certificate of the counts of all `n_bins` bins as they leave, with noise on a grid (C8).

    The counts of records are whole multiples of beta, hence of every power of two up to it, and nothing is rounded.
    The shares of persons and users, and counts on a coarser grid, are rounded silo by silo before they are added up:
    sums of multiples of the grid are exact, and a person moves the rounding of every silo behind the noise.
    shares: among whom the noise is shared out, where the counts leave under masks (C12).

    >>> counts = column_profile(n_numeric=1, n_categorical=4, n_records=100, protection=Protection())
    >>> profile_on_grid(counts, grid=2.0**-24, n_bins=64).bound, profile_on_grid(counts, grid=1.0, n_bins=64).bound
    (2.0, 10.0)
    """
    if certificate.theorem != _THEOREM:
        raise InputError(f"profile_on_grid is for the certificate of a column profile, got {certificate.theorem}.")
    is_exact = certificate.unit is Unit.RECORD and grid <= CATEGORY_WEIGHT
    if shares is not None:
        return masked_sum(certificate, shares=shares, grid=grid, dimension=n_bins, is_on_grid=is_exact)
    placed = secure_grid(certificate, grid=grid, dimension=n_bins)
    rounding = 0.0 if is_exact else certificate.silos_per_person * grid * math.sqrt(n_bins)
    words = (_EXACT if is_exact else _ROUNDED).format(grid=grid)
    return replace(placed, bound=certificate.bound + rounding, assumptions=(*certificate.assumptions, words))


_WHOSE = {Unit.RECORD: (), Unit.PERSON: (_PERSON_SHARES,), Unit.USER: (_SHARES,)}


def _neighbours(protection: Protection) -> str:
    """Say in words which data are neighbours."""
    change = "replaced by others" if protection.relation is Relation.REPLACE_ONE else "added or removed"
    silos = f"in each of at most {protection.silos_per_person} silo(s)"
    if protection.unit is not Unit.RECORD:
        return f"neighbours differ in all rows of one {protection.unit.value} {silos}, {change}"
    return f"neighbours differ in at most {protection.records_per_person} record(s) of one person {silos}, {change}"
