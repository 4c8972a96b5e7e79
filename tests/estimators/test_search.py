"""The search as users meet it: what it returns, refuses, records and keeps to itself."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dpadmm.data import BinaryLabel, Categorical, Numeric, Schema
from dpadmm.estimators import (
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateSearchCV,
    SimulatedNoiseWarning,
    check_pipeline,
)
from dpadmm.evaluation import private_evaluation, private_score
from dpadmm.privacy.curves import m_of
from dpadmm.privacy.ledger import Ledger
from dpadmm.queries import candidate_scores
from dpadmm.settings import Privacy, TrainingOptions

pytestmark = pytest.mark.filterwarnings("ignore::dpadmm.estimators.NoLedgerWarning")
ALPHAS = [1e-3, 1e-2, 3.0]
GRID = {"alpha": ALPHAS}
BUDGET = 4.0, 1e-5
COLUMNS = (Numeric("age", 0, 120), Categorical("sex", ("F", "M")))
SCHEMA = Schema(COLUMNS, BinaryLabel("sick", positive=("yes",), negative=("no",)), constant=0.5)


def search(model=None, grid=GRID, **options):
    model = PrivateLogisticRegression(*BUDGET, feature_bounds=(-1, 1), classes=(0, 1)) if model is None else model
    compared = options.pop("compared", 2)
    return PrivateSearchCV(model.set_params(**options), grid, compared=compared)


@pytest.fixture
def rows(table):
    return table[0], table[1]


def test_it_fits_predicts_and_says_what_it_cost(rows):
    found = search().fit(*rows)
    assert found.best_params_ == found.cv_results_["params"][found.best_index_]
    assert found.best_estimator_.alpha == found.best_params_["alpha"]
    assert np.array_equal(found.predict(rows[0]), found.best_estimator_.predict(rows[0]))
    assert found.predict_proba(rows[0]).shape == (300, 2)
    assert found.score(*rows) == found.best_estimator_.score(*rows)
    assert found.classes_.tolist() == [0, 1]
    assert found.privacy_.is_private_release
    assert 3.99 < found.privacy_.epsilon <= 4.0
    assert "C15" in "".join(found.privacy_.theorems)
    assert "2 were trained" in found.released_.statement
    assert "2 were trained" in found.report()


def test_results_show_released_numbers_alone(rows):
    results = search().fit(*rows).cv_results_
    assert results["is_trained"].sum() == 2
    assert np.array_equal(np.isnan(results["mean_test_score"]), ~results["is_trained"])
    assert np.array_equal(np.isnan(results["noise_std"]), ~results["is_trained"])
    assert sorted(results["rank_test_score"]) == [1, 2, 3]
    best = int(np.nanargmax(results["mean_test_score"]))
    assert results["rank_test_score"][best] == 1
    assert results["param_alpha"].tolist() == ALPHAS
    assert np.nansum(results["mean_test_score"]) != 0.0  # sums of exact differences would be


def test_one_candidate_compared_is_the_free_choice(rows):
    found = search(compared=1).fit(*rows)
    assert np.isnan(found.best_score_)
    assert 3.99 < found.privacy_.epsilon <= 4.0
    assert "C15" not in "".join(found.privacy_.theorems)


@pytest.mark.parametrize(
    ("model", "grid", "target"),
    [
        (PrivateLinearSVC(*BUDGET, feature_bounds=(-1, 1), classes=(0, 1)), {"hinge_width": [0.2, 1.0]}, 1),
        (
            PrivateLinearRegression(*BUDGET, feature_bounds=(-1, 1), target_bounds=(-4, 4)),
            [{"alpha": [1e-3], "training__l1_ratio": [0.0, 1.0]}, {"huber_threshold": [0.2]}],
            2,
        ),
        (
            PrivateLogisticRegression(*BUDGET, feature_bounds=(-1, 1), classes=(0, 1)),
            {"training__slope_cap": [None, 0.5]},
            1,
        ),
    ],
)
def test_all_estimators_and_grids(model, grid, target, table):
    found = search(model, grid).fit(table[0], table[target])
    assert found.predict(table[0]).shape == (300,)
    assert found.privacy_.epsilon <= 4.0
    assert set(found.best_params_) <= set(found.best_estimator_.get_params())


@pytest.mark.parametrize("kind", ["softmax", "one-vs-rest"])
def test_more_than_two_classes(kind, table):
    three = np.digitize(table[2], [-0.5, 0.8])
    model = PrivateLogisticRegression(
        *BUDGET, feature_bounds=(-1, 1), classes=(0, 1, 2), training=TrainingOptions(multi_class=kind)
    )
    found = search(model).fit(table[0], three)
    assert found.predict_proba(table[0]).shape == (300, 3)
    assert found.privacy_.epsilon <= 4.0


@pytest.mark.parametrize("view", ["eavesdropper", "public", "aggregate"])
def test_silos(view, table):
    X, y, _, groups = table
    model = PrivateLogisticRegression(*BUDGET, feature_bounds=(-1, 1), classes=(0, 1), view=view)
    found = search(model).fit(X, y, groups=groups)
    assert found.privacy_.protection.view.value == view
    assert 3.99 < found.privacy_.epsilon <= 4.0


def test_persons_and_secret_sizes(rows):
    X, y = rows
    model = PrivateLogisticRegression(*BUDGET, feature_bounds=(-1, 1), classes=(0, 1))
    found = search(model).fit(X, y, persons=np.arange(300) // 2)
    assert found.privacy_.protection.unit.value == "person"
    hidden = clone(model).set_params(privacy=Privacy(neighbours="add-remove", nominal_records=250))
    again = search(hidden).fit(X, y)
    assert again.privacy_.protection.relation.value == "add-or-remove"
    assert again.privacy_.epsilon <= 4.0


def test_tables_share_one_profile_which_the_ledger_keeps(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.integers(20, 90, 4000), "sex": rng.choice(["F", "M"], 4000)})
    y = np.where(table["age"] > 55, "yes", "no")
    place = tmp_path / "data.ledger"
    found = search(PrivateLogisticRegression(*BUDGET, schema=SCHEMA), ledger=place, budget=9.0).fit(table, y)
    assert found.released_.profile is not None
    assert found.privacy_.profile.earlier_run is None
    with Ledger.open(place) as ledger:
        (run,) = ledger.runs()
        assert run.run == found.released_.run
        assert ledger.statement().spent_epsilon == pytest.approx(found.privacy_.epsilon, rel=1e-6)
        assert len(ledger.profiles()) == 1
    again = search(PrivateLogisticRegression(*BUDGET, schema=SCHEMA), ledger=place).fit(table, y)
    assert again.privacy_.profile.earlier_run == found.released_.run
    assert again.privacy_.epsilon <= 4.0
    with Ledger.open(place) as ledger:
        assert len(ledger.profiles()) == 1
        assert ledger.statement().spent_epsilon < 2 * found.privacy_.epsilon


@pytest.mark.filterwarnings("ignore")
def test_a_search_counts_the_profile_that_it_rests_on_whoever_paid_for_it(rows, tmp_path):
    """The figure of a search is about its model, which tells what an earlier run's counts told; the ledger adds up."""
    model = PrivateLogisticRegression(
        *BUDGET, feature_bounds=(-1, 1), classes=(0, 1), training=TrainingOptions(profile_share=0.3)
    )
    held = tmp_path / "held"
    first = clone(model).set_params(epsilon=2.0, delta=1e-5, ledger=held, budget=9.0).fit(*rows)
    second = search(model, epsilon=2.0, ledger=held).fit(*rows)
    assert second.privacy_.profile.earlier_run == first.released_.run
    with Ledger.open(held) as kept:
        spent = kept.statement().spent_epsilon
    found = (first.privacy_.profile.epsilon, first.privacy_.epsilon, second.privacy_.epsilon, spent)
    profile, one, other, both = (m_of(epsilon, 1e-5) ** 2 for epsilon in found)
    assert other == pytest.approx(both - one + profile, rel=1e-6)
    assert profile > 0.25 * other


def test_simulated_noise_repeats_and_says_so(rows):
    with pytest.warns(SimulatedNoiseWarning):
        one, two = (search(random_state=3).fit(*rows) for _ in range(2))
    assert np.array_equal(one.best_estimator_.coef_, two.best_estimator_.coef_)
    assert np.array_equal(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"], equal_nan=True)
    assert not one.privacy_.is_private_release


def arrays_within(value, seen):
    """Yield all arrays that can be reached from an object by its attributes."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        yield value
        if value.dtype == object:
            for each in value.ravel().tolist():
                yield from arrays_within(each, seen)
    elif isinstance(value, dict):
        for each in value.values():
            yield from arrays_within(each, seen)
    elif isinstance(value, list | tuple | set):
        for each in value:
            yield from arrays_within(each, seen)
    elif hasattr(value, "__dict__"):
        yield from arrays_within(vars(value), seen)


def test_what_was_not_chosen_and_no_exact_score_can_be_reached(rows, monkeypatch):
    secrets = []
    real = candidate_scores.score_sums

    def spy(losses, silos, models, score_bound):
        sums = real(losses, silos, models, score_bound)
        secrets.append((models, sums))
        return sums

    monkeypatch.setattr(candidate_scores, "score_sums", spy)
    found = search().fit(*rows)
    ((models, sums),) = secrets
    kept = next(i for i, own in enumerate(models) if np.allclose(own[0], found.released_.weights[0]))
    dropped = models[1 - kept][0]
    copy = pickle.loads(pickle.dumps(found))
    for whole in (found, copy):
        reached = list(arrays_within(whole, set()))
        assert len(reached) > 3
        for array in reached:
            if array.dtype.kind == "f":
                assert not np.isin(dropped, array).any()
                assert not np.isin(sums, array).any()
                assert not np.isin(-sums / 300, array).any()


def test_a_private_search_is_clean_but_scikit_learns_is_not():
    within = make_pipeline(FunctionTransformer(), search())
    assert check_pipeline(within).is_clean
    theirs = GridSearchCV(PrivateLogisticRegression(1.0, 1e-5, feature_bounds=(-1, 1)), GRID, cv=2)
    assert "PrivateSearchCV" in check_pipeline(theirs).findings[0].instead


def test_figures_are_about_the_chosen_model(rows):
    found = search().fit(*rows)
    assert 0 <= private_score(found, *rows, epsilon=1.0).value <= 1
    assert private_evaluation(found, *rows, epsilon=1.0, delta=1e-6).model == found.released_.run
