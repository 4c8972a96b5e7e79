"""Attacks on the ledger's terms: aggregates over people whose records are spread, and discrete noise."""

from dataclasses import replace
from fractions import Fraction

import pytest

from dpadmm.errors import InputError
from dpadmm.privacy.ledger.tally import Holding, Terms, gaussian_square
from dpadmm.privacy.records import Certificate, GaussianRelease, Unit, View

AGGREGATE = GaussianRelease(
    certificate=Certificate(
        bound=0.1, unit=Unit.RECORD, view=View.PUBLIC, theorem="C3", assumptions=("-",), records_per_person=3
    ),
    noise_std=1.0,
    agent=-1,
    round=1,
)


def test_an_aggregate_must_cover_all_silos_of_a_person_whose_records_are_spread():
    spread = Terms(view=View.PUBLIC, records_per_person=3)
    with pytest.raises(InputError, match="silos_per_person=3"):
        spread.admit(AGGREGATE)
    wide = replace(AGGREGATE, certificate=replace(AGGREGATE.certificate, silos_per_person=3))
    assert spread.admit(wide) is wide


def test_it_need_not_if_nobody_is_spread():
    for terms in (Terms(view=View.PUBLIC), Terms(view=View.PUBLIC, records_per_person=3, holding=Holding.APART)):
        assert terms.admit(AGGREGATE) is AGGREGATE
    own = replace(AGGREGATE, agent=2)
    assert Terms(view=View.PUBLIC, records_per_person=3).admit(own) is own


def test_discrete_noise_counts_with_its_excess():
    gridded = replace(AGGREGATE, certificate=replace(AGGREGATE.certificate, grid=2.0**-2, grid_dimension=1))
    plain, discrete = gaussian_square(AGGREGATE), gaussian_square(gridded)
    assert discrete >= plain * (1 + Fraction(1, 64)) ** 2
    assert discrete == pytest.approx(float(plain) * (1 + 1 / 64) ** 2, rel=1e-14)
