"""Attacks on the ledger's terms: aggregates over people whose records are spread, and discrete noise."""

from dataclasses import replace

import pytest
from tests.contracts.certificates import changed

from dpadmm.errors import InputError
from dpadmm.privacy.ledger import Budget, Ledger, SiloColumns
from dpadmm.privacy.protection import Certificate, Protection, Unit, View
from dpadmm.privacy.releases import GaussianRelease, Origin

AGGREGATE = GaussianRelease(
    certificate=Certificate(
        bound=0.1,
        protection=Protection(unit=Unit.RECORD, view=View.PUBLIC, records_per_person=3),
        theorem="C3",
        assumptions=("-",),
    ),
    noise_std=1.0,
    agent=-1,
    round=1,
)


def test_an_aggregate_must_cover_a_person_whose_records_are_spread_over_the_agents_of_one_silo(path):
    data = [SiloColumns("pooled", {"x": [1.0, 2.0, 3.0]})]
    protection = Protection(view=View.PUBLIC, records_per_person=3)
    wide = replace(AGGREGATE, certificate=changed(AGGREGATE.certificate, silos_per_person=3))
    labels = {"run": "r", "algorithm": "a", "origin": Origin.SECURE}
    with Ledger.create(path, data, Budget(epsilon=9.0, delta=1e-5), protection=protection) as ledger:
        spread = ledger.confirm(data).for_run((2, 1))
        with pytest.raises(InputError, match="3 silos per person"):
            spread.reserve([AGGREGATE], **labels)
        spread.reserve([wide], **labels)
        spread.reserve([replace(AGGREGATE, agent=2)], **labels)
        ledger.confirm(data).reserve([replace(AGGREGATE, round=2)], **labels)  # nobody is spread in one silo
