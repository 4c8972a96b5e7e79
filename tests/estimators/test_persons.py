"""Fits that protect a person with all their rows: exact where they must be, recorded, and refused before any cost."""

import re

import numpy as np
import pandas as pd
import pytest
from tests.grouped import grouped

from dpadmm.core.model import ReleasedModel
from dpadmm.data import BinaryLabel, Categorical, Numeric, Schema
from dpadmm.errors import InputError
from dpadmm.estimators import PrivateLogisticRegression, ledger_data
from dpadmm.evaluation import private_evaluation, private_score
from dpadmm.privacy.ledger import Budget, Ledger
from dpadmm.privacy.protection import Protection, Unit

pytestmark = [
    pytest.mark.filterwarnings("ignore::dpadmm.estimators.SimulatedNoiseWarning"),
    pytest.mark.filterwarnings("ignore::dpadmm.estimators.NoLedgerWarning"),
]
PERSONS, SCHEMA = (
    400,
    Schema(
        (Numeric("age", 0, 120), Categorical("sex", ("F", "M"))),
        BinaryLabel("sick", positive=("yes",), negative=("no",)),
        constant=0.3,
    ),
)


def build(**options):
    return PrivateLogisticRegression(
        **grouped(epsilon=4.0, delta=1e-5, **{"random_state": 1, "schema": SCHEMA, **options})
    )


def visits(rows_of):
    """One table: a row for each visit of each person, visits mixed; the second has another age and answer."""
    rng = np.random.default_rng(2)
    whose = rng.permutation(np.repeat(np.arange(PERSONS), rows_of))
    age = rng.integers(20, 90, PERSONS)[whose]
    table = pd.DataFrame({"age": age, "sex": np.where(whose % 3, "F", "M")})
    return table, np.where(age + 10 * rng.standard_normal(len(age)) > 55, "yes", "no"), whose


def test_one_row_each_is_the_fit_of_records_to_the_last_bit():
    X, y, whose = visits(np.ones(PERSONS, dtype=int))
    plain, ours = build().fit(X, y, groups=whose % 2), build().fit(X, y, groups=whose % 2, persons=whose)
    np.testing.assert_array_equal(ours.coef_, plain.coef_)
    np.testing.assert_array_equal(ours.intercept_, plain.intercept_)
    assert ours.profile_ is not None
    assert [each.counts for each in ours.profile_.columns] == [each.counts for each in plain.profile_.columns]
    assert ours.plan_.task.sizes == plain.plan_.task.sizes
    assert ours.privacy_.epsilon == plain.privacy_.epsilon


def test_a_person_who_repeats_themselves_changes_nothing():
    """Four equal rows count as one, in the profile to the last bit, in the loss up to the solver's tolerance."""
    X, y, whose = visits(np.ones(PERSONS, dtype=int))
    places = np.random.default_rng(3).permutation(np.repeat(np.arange(PERSONS), np.where(np.arange(PERSONS) % 2, 4, 1)))
    plain = build().fit(X, y)
    often = build().fit(X.iloc[places], y[places], persons=whose[places])
    assert [each.counts for each in often.profile_.columns] == [each.counts for each in plain.profile_.columns]
    np.testing.assert_allclose(often.coef_, plain.coef_, rtol=1e-5)
    assert often.plan_.task.sizes == (PERSONS,)


def test_keep_takes_the_first_rows_of_each_person():
    X, y, whose = visits(np.arange(PERSONS) % 4 + 1)
    first = np.sort(np.unique(whose, return_index=True)[1])
    kept = build(keep=1).fit(X, y, persons=whose)
    alone = build().fit(X.iloc[first], y[first])
    # A person may have any number of rows, so that more is allowed for the rounding of their sum.
    np.testing.assert_allclose(kept.coef_, alone.coef_, rtol=1e-6)
    assert np.abs(build().fit(X, y, persons=whose).coef_ - alone.coef_).max() > 1e-3


def test_what_is_released_does_not_tell_how_many_rows_there_are(tmp_path):
    X, y, whose = visits(np.arange(PERSONS) % 7 + 1)
    model = build(random_state=None).fit(X, y, groups=whose % 2, persons=whose)
    saved = model.released_.save(tmp_path / "m.json")
    assert [silo.records for silo in ReleasedModel.load(saved).silos] == [PERSONS // 2] * 2
    assert not re.search(rf"(?<![\d.]){len(X)}(?![\d.])", saved.read_text() + str(model.privacy_))
    assert ReleasedModel.load(saved).guarantee.protection == Protection(unit=Unit.PERSON)
    assert "400 persons" in model.released_.statement
    for measure in (private_score, private_evaluation):  # a figure must not hide less than the model does, unasked
        for asked in (model, model.released_):
            with pytest.raises(InputError):
                measure(asked, X, y, epsilon=1.0, delta=1e-5)


class TestLedger:
    def create(self, path, persons, X, y, groups=None):
        budget, protection = Budget(epsilon=20.0, delta=1e-4), Protection(unit=Unit.PERSON)
        Ledger.create(path, ledger_data(X, y, groups, persons), budget, protection=protection).close()
        return path

    @pytest.mark.parametrize("is_whole", [True, False])
    def test_fits_are_recorded(self, tmp_path, is_whole):
        """Silos told apart, or a ledger of one silo that takes groups as a whole."""
        X, y, whose = visits(np.arange(PERSONS) % 3 + 1)
        path = self.create(tmp_path / "l", whose, X.assign(sick=y), None, None if is_whole else whose % 2)
        model = build(random_state=None, ledger=path).fit(X, y, groups=whose % 2, persons=whose)
        with Ledger.open(path) as held:
            assert 0 < held.statement().spent_epsilon <= 10.0
            assert held.profiles()[0].records == PERSONS
        named = [f"p{i}" for i in whose]  # whose rows are together counts, not how persons are called
        again = build(random_state=None, ledger=path, keep=2).fit(X, y, groups=whose % 2, persons=named)
        assert again.plan_.task.profile.earlier_run is not None
        assert model.privacy_.epsilon <= 4.0 + 1e-9


def test_a_person_may_be_counted_in_two_silos():
    X, y, whose = visits(np.full(PERSONS, 2))
    counted = build(silos_per_person=2).fit(X, y, groups=np.arange(len(X)) % 2, persons=whose)
    assert counted.privacy_.protection == Protection(unit=Unit.PERSON, silos_per_person=2)
    assert sum(counted.plan_.task.sizes) > PERSONS  # whoever is in both counts in both
