"""C10: sums of bounded values."""

import itertools
import math

import pytest

from dpadmm.privacy.certificates.sums import bounded_sum, cell_counts
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
    assert (certificate.protection.unit, certificate.protection.view, certificate.norm) == (
        Unit.RECORD,
        View.EAVESDROPPER,
        Norm.L2,
    )
    assert certificate.strength is Strength.FULL


@pytest.mark.parametrize(("records", "silos", "histograms"), [(1, 1, 1), (2, 1, 2), (1, 2, 1), (3, 2, 2)])
def test_no_replaced_cells_pass_the_bound_and_some_attain_it(records, silos, histograms):
    """All replacements of up to r s of two records, each in one of two cells, or none, of every histogram."""
    units, n = [(0, 0), (1, 0), (0, 1)], 2
    record = [sum(cells, ()) for cells in itertools.product(units, repeat=histograms)]
    bound = cell_counts(n_records=n, histograms=histograms, records_per_person=records, silos_per_person=silos).bound
    replaced = min(records * silos, n)
    totals = [
        [sum(column) for column in zip(*rows, strict=True)] for rows in itertools.product(record, repeat=replaced)
    ]
    worst = max(math.dist(a, b) for a in totals for b in totals)
    assert worst == pytest.approx(bound)
