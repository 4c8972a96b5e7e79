"""A ledger about persons knows which rows are the same person's, and takes no others."""

import numpy as np
import pytest

from dpadmm.codec import decode, encode
from dpadmm.errors import InputError, LedgerError
from dpadmm.privacy.ledger import Budget, Ledger, SiloColumns
from dpadmm.privacy.protection import ONE_RECORD, Protection, Unit

PERSON = Protection(unit=Unit.PERSON)
WHOSE = np.array([5, 2, 5, 5])
COLUMNS = {"age": [30, 40, 31, 32], "sick": [0, 1, 1, 0]}


def silo(persons=WHOSE, columns=None):
    return [SiloColumns("clinic", COLUMNS if columns is None else columns, persons)]


@pytest.fixture
def opened(tmp_path):
    with Ledger.create(tmp_path / "l", silo(), Budget(epsilon=1.0, delta=1e-6), protection=PERSON) as ledger:
        yield ledger


def test_sizes_count_persons_however_they_are_numbered(opened):
    assert opened.confirm(silo()).sizes == (2,)
    assert opened.confirm(silo(np.array([0, 9, 0, 0]))).sizes == (2,)
    assert opened.confirm(silo(columns={"age": COLUMNS["age"]})).sizes == (2,)  # columns may be left out


def test_other_persons_are_refused_and_said_so(opened):
    for other in ([5, 2, 5, 2], [1, 2, 3, 4], [5, 5, 5, 5], [2, 5, 5, 5]):
        with pytest.raises(LedgerError, match="different persons"):
            opened.confirm(silo(np.array(other)))
    with pytest.raises(LedgerError, match="other data"):
        opened.confirm(silo(columns={"age": [30, 40, 31, 33]}))


def test_rows_of_nobody_in_particular_are_refused(opened, tmp_path):
    for do in (opened.confirm, opened.add_version):
        with pytest.raises(InputError, match="per person"):
            do(silo(None))
    with pytest.raises(InputError, match="per person"):
        Ledger.create(tmp_path / "m", silo(None), Budget(epsilon=1.0, delta=1e-6), protection=PERSON)
    both = [*silo(), SiloColumns("other", COLUMNS)]  # one silo told, the other not
    with pytest.raises(InputError, match="per person"):
        Ledger.create(tmp_path / "m", both, Budget(epsilon=1.0, delta=1e-6), protection=PERSON)
    assert not (tmp_path / "m").exists()


def test_a_ledger_of_records_takes_no_persons(tmp_path):
    budget = Budget(epsilon=1.0, delta=1e-6)
    with pytest.raises(InputError, match="per record"):
        Ledger.create(tmp_path / "m", silo(), budget)
    with Ledger.create(tmp_path / "m", silo(None), budget) as ledger:
        with pytest.raises(InputError, match="per record"):
            ledger.confirm(silo())
        assert ledger.confirm(silo(None)).sizes == (4,)


def test_who_is_covered_by_whom_and_that_every_row_needs_a_person():
    assert not PERSON.is_covered_by(ONE_RECORD)
    assert not ONE_RECORD.is_covered_by(PERSON)
    assert PERSON.is_covered_by(Protection(unit=Unit.PERSON, silos_per_person=2))
    assert decode(Protection, encode(PERSON)) == PERSON

    with pytest.raises(InputError, match="same number"):  # every row needs a person
        silo(WHOSE[:3])
