"""Buying an evaluation: one record moves the counts by no more than C10 says, all is recorded first, noise is fresh."""

from copy import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

from dpadmm.data.columns import BinaryLabel, Categorical, Numeric
from dpadmm.data.schema import Schema
from dpadmm.errors import BudgetError, InputError
from dpadmm.estimators import (
    LargeDeltaWarning,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    ledger_data,
)
from dpadmm.estimators.owners import RowOwners
from dpadmm.evaluation import private_evaluation
from dpadmm.evaluation.metrics import WIDTH
from dpadmm.evaluation.private import NONE_LISTED, ScoredRows
from dpadmm.privacy.certificates.sums import cell_counts
from dpadmm.privacy.ledger import Budget, Ledger
from dpadmm.privacy.protection import Protection, Unit
from dpadmm.privacy.releases import Origin
from dpadmm.settings import CellRules, Privacy, TrainingOptions

pytestmark = pytest.mark.filterwarnings("ignore::dpadmm.estimators.SimulatedNoiseWarning")
SCHEMA = Schema(
    (Numeric("age", 0, 100), Categorical("sex", ("F", "M")), Categorical("ward", ("1", "2", "3"))),
    BinaryLabel("sick", ("yes",), ("no",)),
    constant=0.3,
)


def table(n=600, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(10, 90, n)
    sick = np.where(rng.random(n) < 1 / (1 + np.exp(-(age - 50) / 6)), "yes", "no")
    return pd.DataFrame(
        {"age": age, "sex": rng.choice(["F", "M"], n), "ward": rng.choice(["1", "2", "3"], n), "sick": sick}
    )


@pytest.fixture(scope="module")
def model():
    rows = table(seed=1)
    made = PrivateLogisticRegression(
        epsilon=5.0, delta=1e-5, schema=SCHEMA, random_state=0, training=TrainingOptions(profile="off")
    )
    with pytest.warns(UserWarning, match="simulated"):
        return made.fit(rows, rows["sick"])


def counted(model, rows, by=None, screening=None):
    """Return the counts before noise."""
    scored = ScoredRows.of(model.released_, [(rows, "X")], screening or CellRules(), by)
    return scored.counts(np.arange(len(rows)))


def test_a_large_budget_tells_the_exact_figures(model):
    rows = table(4000)
    found = private_evaluation(model, rows, rows["sick"], 1e4, delta=1e-6, by="sex", random_state=0)
    scores = model.decision_function(rows)
    assert found.roc_auc().value == pytest.approx(roc_auc_score(rows["sick"] == "yes", scores), abs=2e-3)
    hits = model.predict(rows) == rows["sick"]
    assert found.confusion().accuracy.value == pytest.approx(hits.mean(), abs=1e-3)
    for sex in ("F", "M"):
        assert found.confusion(group=sex).accuracy.value == pytest.approx(hits[rows["sex"] == sex].mean(), abs=2e-3)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_replacing_records_moves_the_counts_by_no_more_than_certified(model, seed, replaced):
    rows, other, rng = table(40, seed=3), table(40, seed=3), np.random.default_rng(seed)
    which = rng.choice(40, replaced, replace=False)
    other.loc[which, ["age", "sex", "ward", "sick"]] = table(replaced, seed=seed)[["age", "sex", "ward", "sick"]].values
    screening = CellRules(missing="blank")
    if seed % 2:
        other.loc[which[0], "age"] = None
    for by, histograms in ((None, 4), ("ward", 8)):
        bound = cell_counts(n_records=40, histograms=histograms, records_per_person=replaced).bound
        moved = counted(model, rows, by, screening) - counted(model, other, by, screening)
        assert np.linalg.norm(moved) <= bound + 1e-9


def test_the_bins_are_public_whatever_the_scores_are(model):
    """With probabilities and without: bins that follow the largest score would tell it, and move everybody's counts."""
    plain = PrivateLinearSVC(
        epsilon=5.0, delta=1e-5, schema=SCHEMA, random_state=0, training=TrainingOptions(profile="off")
    )
    rows = table(seed=1)
    for made in (model, plain.fit(rows, rows["sick"])):
        released = made.released_
        many, one = (ScoredRows.of(released, [(part, "X")], CellRules(), None) for part in (rows, rows[:1]))
        tiny, huge = (replace(many, scores=factor * many.scores) for factor in (1e-6, 1e6))
        assert len({each.bins.limit for each in (many, one, tiny, huge)}) == 1
        assert np.abs(many.scores).max() < many.bins.limit or released.has_probabilities


@pytest.mark.parametrize(("by", "histograms"), [(None, 4), ("sex", 8)])
def test_the_bound_is_attained_and_every_record_is_counted_once_a_resolution(model, by, histograms):
    old = pd.DataFrame({"age": [90] * 5, "sex": "F", "ward": "1", "sick": "yes"})
    new = old.assign(age=[10, *[90] * 4], sick=["no", *["yes"] * 4])
    moved = counted(model, old, by) - counted(model, new, by)
    assert np.linalg.norm(moved) == pytest.approx(cell_counts(n_records=5, histograms=histograms).bound)
    assert counted(model, old, by).sum() == 5 * histograms
    found = private_evaluation(model, old, old["sick"], 1.0, delta=1e-6, by=by)
    # mu of the Gaussian mechanism at epsilon 1, delta 1e-6 is 0.2367.
    assert np.sqrt(2 * histograms) / found.noise_std == pytest.approx(0.2367, abs=5e-4)


def test_the_noise_is_that_of_the_certificate_fresh_on_every_count(model):
    rows = table(300)
    exact = counted(model, rows)
    found = [private_evaluation(model, rows, rows["sick"], 1.0, delta=1e-6) for _ in range(4)]
    assert all(each.privacy.origin is Origin.SECURE for each in found)
    assert all(1.0 * (1 - 1e-5) <= each.privacy.epsilon <= 1.0 for each in found)
    assert found[0].privacy.theorems == ("C10 + C8",)
    noise = np.array([np.array(each.counts) - exact for each in found])
    std = found[0].noise_std
    assert stats.kstest(noise.ravel() / std, stats.norm.cdf).pvalue > 1e-6
    assert stats.kstest(noise.ravel() / std / 2, stats.norm.cdf).pvalue < 1e-6
    assert noise.size - len(np.unique(noise)) < 6  # no draw serves two counts; by chance six do once in 1e15


def test_no_count_is_stated_as_it_is(model):
    """Groups, those in none of them, and how many rows were blanked: all of it is counted, and all gets noise."""
    rows, screened = table(300).astype({"age": float}), copy(model)
    rows.loc[:9, "age"] = None
    screened.cells = CellRules(missing="blank")
    exact = counted(model, rows, "sex", CellRules(missing="blank"))
    assert exact[-1] == 10
    found = private_evaluation(screened, rows, rows["sick"], 1.0, delta=1e-6, by="sex")
    assert len(found.counts) == len(exact) == 2 * WIDTH * (1 + 3) + 1
    assert (np.array(found.counts) != exact).all()


def test_groups_cost_as_much_as_one_more_histogram(model):
    rows = table(300)
    plain, by = (private_evaluation(model, rows, rows["sick"], 1.0, delta=1e-6, by=each) for each in (None, "ward"))
    assert by.noise_std == pytest.approx(np.sqrt(2) * plain.noise_std, rel=1e-4)
    assert (by.by, by.groups) == ("ward", ("1", "2", "3"))


def first_rows(rows, persons):
    """Return the first row of each person."""
    return rows[~pd.Series(persons).duplicated().to_numpy()]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 6))
def test_replacing_a_person_with_all_their_rows_moves_the_counts_by_no_more_than_certified(model, seed, had, has):
    """Whatever somebody's rows were, and wherever they stand among the others', nobody else's first row is another."""
    rng = np.random.default_rng(seed)
    rest, whose = table(30, seed=3), np.repeat(np.arange(10), 3)
    sums = []
    for number in (had, has):
        rows, persons = pd.concat([rest, table(number, seed=rng.integers(99))]), np.append(whose, [10] * number)
        order = np.argsort(np.append(np.arange(30.0), rng.uniform(0, 30, number)), kind="stable")
        scored = ScoredRows.of(model.released_, [(rows.iloc[order].reset_index(drop=True), "X")], CellRules(), "ward")
        kept = RowOwners(None, persons[order], 1).layout(len(rows)).rows[0]
        sums.append(scored.take(kept).counts(np.arange(len(kept))))
        assert len(kept) == 11
    bound = cell_counts(n_records=11, histograms=8, unit=Unit.PERSON).bound
    assert np.linalg.norm(sums[0] - sums[1]) <= bound + 1e-9


def test_persons_are_counted_once_and_paid_for_as_persons(model, tmp_path):
    rows, persons = table(300), np.arange(300) // 3
    clinics = np.where(persons < 40, "a", "b")
    place, asked = tmp_path / "l", {"delta": 1e-6, "groups": clinics, "persons": persons}
    data = ledger_data(rows, rows["sick"], clinics, persons=persons)
    Ledger.create(place, data, Budget(epsilon=1.0, delta=1e-6), protection=Protection(unit=Unit.PERSON)).close()
    found = private_evaluation(model, rows, rows["sick"], 0.8, by="sex", ledger=place, **asked)
    assert found.records == 100
    assert found.privacy.protection.unit is Unit.PERSON
    assert found.noise_std == pytest.approx(
        private_evaluation(model, rows, rows["sick"], 0.8, delta=1e-6, by="sex").noise_std, rel=1e-6
    )
    exact = private_evaluation(model, rows, rows["sick"], 1e4, random_state=0, **asked)
    np.testing.assert_allclose(exact.counts, counted(model, first_rows(rows, persons)), atol=0.5)
    with pytest.raises(BudgetError):
        private_evaluation(model, rows, rows["sick"], 0.8, ledger=place, **asked)
    with pytest.raises(InputError):  # a record is less than a person
        private_evaluation(model, rows, rows["sick"], 0.1, delta=1e-6, groups=clinics, ledger=place)
    with pytest.warns(LargeDeltaWarning) as said:  # 300 rows are secret, 100 persons are not
        private_evaluation(model, rows, rows["sick"], 0.1, **asked | {"delta": 0.02})
    assert "1/n = 0.01:" in str(said[-1].message)


def test_whoever_has_rows_in_two_silos_is_counted_and_paid_for_in_both(model):
    rows, persons = table(300), np.arange(300) // 3
    spread = {"groups": np.arange(300) % 2, "privacy": Privacy(silos_per_person=2)}
    found = private_evaluation(model, rows, rows["sick"], 0.8, delta=1e-6, persons=persons, **spread)
    alone = private_evaluation(model, rows, rows["sick"], 0.8, delta=1e-6, persons=persons)
    assert (found.records, alone.records) == (200, 100)
    assert found.noise_std == pytest.approx(2 * alone.noise_std, rel=1e-4)
    assert found.privacy.protection == Protection(unit=Unit.PERSON, silos_per_person=2)


def test_what_is_stated_has_the_shape_that_was_asked_for_whoever_the_records_are(model):
    """Blanked rows, cells of no listed group and groups nobody is in: none of them is told by leaving its count out."""
    screening = CellRules(missing="blank", unlisted="zero")
    full, odd = table(60).astype({"age": float}), table(60).astype({"age": float})
    odd.loc[0, "age"], odd.loc[1, "ward"] = None, "9"
    found = set()
    for rows in (full, odd, full.assign(ward="1"), full[:1]):
        scored = ScoredRows.of(model.released_, [(rows, "X")], screening, "ward")
        found.add((scored.groups, scored.is_screened, len(scored.counts(np.arange(len(rows)))), scored.histograms))
    assert found == {(("1", "2", "3", NONE_LISTED), True, 2 * WIDTH * 5 + 1, 8)}
    plain = ScoredRows.of(model.released_, [(full.assign(ward="1"), "X")], CellRules(), "ward")
    assert (plain.groups, plain.is_screened) == (("1", "2", "3"), False)


def test_blanked_rows_count_for_nothing_and_odd_groups_stand_apart(model):
    rows = table(500)
    rows.loc[:49, "age"] = None
    rows.loc[50:69, "sex"] = "other"
    awkward = PrivateLogisticRegression(
        epsilon=5.0, delta=1e-5, schema=SCHEMA, cells=CellRules(missing="blank", unlisted="zero")
    )
    awkward.released_ = model.released_
    found = private_evaluation(awkward, rows, rows["sick"], 1e5, delta=1e-6, by="sex", random_state=0)
    assert found.has_blank
    assert found.groups == ("F", "M", NONE_LISTED)
    assert len(found.counts) == 8 * WIDTH + 1
    assert found.counts[-1] == pytest.approx(50, abs=0.1)
    kept = rows.iloc[70:]
    hits = model.predict(kept) == kept["sick"]
    for sex in ("F", "M"):
        assert found.confusion(group=sex).accuracy.value == pytest.approx(hits[kept["sex"] == sex].mean(), abs=1e-3)


def test_arrays_and_machines_without_probabilities(model):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2000, 2))
    y = (X[:, 0] + 0.5 * rng.standard_normal(2000) > 0).astype(int)
    made = PrivateLinearSVC(epsilon=5.0, delta=1e-5, feature_bounds=(-1, 1), classes=(0, 1), random_state=0).fit(X, y)
    found = private_evaluation(made, X, y, 1e4, delta=1e-6, random_state=0)
    assert found.roc_auc().value == pytest.approx(roc_auc_score(y, made.decision_function(X)), abs=2e-3)
    assert found.confusion().accuracy.value == pytest.approx(made.score(X, y), abs=1e-3)
    assert private_evaluation(made.released_, X, y, 1.0, delta=1e-6, random_state=0).label == "label"
