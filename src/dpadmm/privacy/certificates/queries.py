"""C10: a sum over records of values between 0 and a public bound - counts, clipped errors, histograms.

Proof: `docs/proofs/c10.md`.
"""

import math

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.errors import InputError
from dpadmm.privacy.protection import Certificate, Norm, Unit, View


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
    n = checks.count("n_records", n_records)
    records = checks.count("records_per_person", records_per_person)
    silos = checks.count("silos_per_person", silos_per_person)
    top = checks.positive("largest", largest)
    if not isinstance(norm, Norm):
        raise InputError(f"norm must be a Norm, got {shown(norm)}.")
    return Certificate(
        bound=top * min(records * silos, n),
        norm=norm,
        unit=Unit.RECORD,
        view=View.EAVESDROPPER,
        theorem="C10",
        assumptions=_assumptions(
            records, silos, f"every record adds a value between 0 and {top:g}, summed without rounding"
        ),
        records_per_person=records,
        silos_per_person=silos,
    )


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
    n = checks.count("n_records", n_records)
    many = checks.count("histograms", histograms)
    if unit not in (Unit.RECORD, Unit.PERSON):
        raise InputError(f"unit must be Unit.RECORD or Unit.PERSON, got {shown(unit)}.")
    records = checks.count("records_per_person", records_per_person)
    silos = checks.count("silos_per_person", silos_per_person)
    return Certificate(
        bound=min(records * silos, n) * math.sqrt(2 * many),
        norm=Norm.L2,
        unit=unit,
        view=View.EAVESDROPPER,
        theorem="C10",
        assumptions=_assumptions(
            records,
            silos,
            f"every record is one count in at most one cell of each of {many} histogram(s), whose cells are public, "
            "disjoint and fixed in advance",
            unit,
        ),
        records_per_person=records,
        silos_per_person=silos,
    )


_ONE_ROW = "of every person one row in a silo is counted, which of them depends on that person's rows alone"


def _assumptions(records: int, silos: int, what: str, unit: Unit = Unit.RECORD) -> tuple[str, ...]:
    replaced = "all rows" if unit is Unit.PERSON else f"at most {records} record(s)"
    return (
        f"neighbours differ in {replaced} of one person in each of at most {silos} silo(s), replaced by others",
        *((_ONE_ROW,) if unit is Unit.PERSON else ()),
        what,
        "what a record adds depends on that record alone: a model scores each row by itself",
        "what is counted was chosen before looking at these records, or is made of accounted releases",
        f"the number of {'persons' if unit is Unit.PERSON else 'records'} is public",
    )
