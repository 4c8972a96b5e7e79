"""C10: sums of bounded values."""

import itertools

import pytest

from dpadmm.errors import InputError
from dpadmm.privacy.certificates import bounded_sum
from dpadmm.privacy.protection import Norm, Strength, Unit, View


@pytest.mark.parametrize(("records", "silos"), [(1, 1), (2, 1), (1, 2), (3, 2)])
def test_no_neighbour_passes_the_bound_and_one_attains_it(records, silos):
    """All sums of four values in {0, 1/2, 1}, all replacements of up to r s of them."""
    values, n = (0.0, 0.5, 1.0), 4
    bound = bounded_sum(n_records=n, records_per_person=records, silos_per_person=silos).bound
    replaced = min(records * silos, n)
    worst = max(abs(sum(a) - sum(b)) for a in itertools.product(values, repeat=replaced)
                for b in itertools.product(values, repeat=replaced))  # fmt: skip
    assert worst == bound


def test_the_bound_scales_with_the_largest_value():
    assert bounded_sum(n_records=10, largest=2.5).bound == 2.5
    certificate = bounded_sum(n_records=10, norm=Norm.L2)
    assert (certificate.unit, certificate.view, certificate.norm) == (Unit.RECORD, View.EAVESDROPPER, Norm.L2)
    assert certificate.strength is Strength.FULL


@pytest.mark.parametrize(
    "facts",
    [
        {"n_records": 0},
        {"n_records": 5, "largest": 0.0},
        {"n_records": 5, "largest": float("inf")},
        {"n_records": 5, "records_per_person": 0},
        {"n_records": 5, "norm": "l1"},
    ],
)
def test_bad_facts_are_refused(facts):
    with pytest.raises(InputError):
        bounded_sum(**facts)
