"""C15: by how much each of several released models does better or worse than their mean, summed over records.

Proof: `docs/proofs/c15.md`.
"""

import math
from dataclasses import replace

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.errors import InputError
from dpadmm.privacy.certificates.masked import Shares, masked_sum
from dpadmm.privacy.certificates.neighbours import PERSON_WEIGHTS, TRUSTED_SUM, neighbour_words
from dpadmm.privacy.protection import Certificate, Protection, Relation, Unit, View, secure_grid

_THEOREM = "C15"


def score_differences(
    *, reach: float, n_records: int, protection: Protection, is_noise_shared: bool = False
) -> Certificate:
    """Bound `sum_m v(record_m)`, v in R^K with `||v|| <= C`: `2 C k`, or `C k` where records are added or removed.

    v is a function of one record and of what was released before. k is how many records of a person change in what one
    noise hides: `min(r, n)` of a silo, `min(r s, n)` of all silos where `is_noise_shared`; 1, or s, for persons, whose
    rows have weights that sum to at most 1. Where records are added, there is no minimum with n.

    reach: C > 0. n_records: of the silo, or of all silos together if `is_noise_shared`.

    >>> score_differences(reach=0.5, n_records=100, protection=Protection(records_per_person=3)).bound
    3.0
    """
    top, n = checks.positive("reach", reach), checks.count("n_records", n_records)
    unit, relation = protection.unit, protection.relation
    if unit not in (Unit.RECORD, Unit.PERSON):
        raise InputError(
            f"Candidates are compared on records or persons, got the unit {shown(unit.value)}, for which C15 is not "
            f"proved. Nothing was spent. Let simulations choose, {checks.setting('compared', 1)}, or use another unit."
        )
    is_replaced = relation is Relation.REPLACE_ONE
    changed = protection.records_per_person * (protection.silos_per_person if is_noise_shared else 1)
    if is_replaced and unit is Unit.RECORD:
        changed = min(changed, n)
    return Certificate(
        bound=changed * (2 * top if is_replaced else top),
        unit=unit,
        view=View.PUBLIC if is_noise_shared else View.EAVESDROPPER,
        relation=relation,
        theorem=_THEOREM,
        assumptions=(
            neighbour_words(protection.records_per_person, protection.silos_per_person, relation, unit),
            *((PERSON_WEIGHTS,) if unit is Unit.PERSON else ()),
            f"of every record, the losses of the compared models less their mean are shortened to norm {top:g}, cut to "
            "whole multiples of a public step and added up without rounding",
            "the compared models, and all by which rows are encoded, are made of accounted releases",
            *((TRUSTED_SUM,) if is_noise_shared else ()),
        ),
        records_per_person=protection.records_per_person,
        silos_per_person=protection.silos_per_person,
    )


def scores_on_grid(certificate: Certificate, *, grid: float, scores: int, shares: Shares | None = None) -> Certificate:
    """Return the certificate of the sums as they leave, with noise on a grid (C8), or in shares of it (C12).

    Where silos are added up behind one noise, each may be rounded first: the bound counts all silos of a person.

    >>> plain = score_differences(reach=0.5, n_records=100, protection=Protection())
    >>> scores_on_grid(plain, grid=0.25, scores=4).bound
    1.5
    """
    if certificate.theorem != _THEOREM:
        raise InputError(f"scores_on_grid is for the certificate of scores, got {certificate.theorem}.")
    if shares is not None:
        return masked_sum(certificate, shares=shares, grid=grid, dimension=scores)
    placed = secure_grid(certificate, grid=grid, dimension=scores)
    silos = certificate.silos_per_person if certificate.view is View.PUBLIC else 1
    return replace(placed, bound=certificate.bound + silos * grid * math.sqrt(scores))
