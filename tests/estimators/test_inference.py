"""Fits for inference through every way: what is asked, refused, warned about, spent, kept and covered."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from tests.grouped import grouped

import dpadmm
from dpadmm import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression
from dpadmm.core.model import ReleasedModel
from dpadmm.errors import InputError
from dpadmm.estimators import NoIntervalsWarning
from dpadmm.estimators.data import ledger_data
from dpadmm.privacy.ledger import Budget, Ledger
from dpadmm.settings import TrainingOptions

N, SLOPES = 8000, np.array([1.0, -0.7, 0.0])
BOUNDS = (-4.0, 4.0)


def rows(seed=0, n=N):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)).clip(*BOUNDS)
    return X, (rng.random(n) < 1 / (1 + np.exp(-(X @ SLOPES - 0.3)))).astype(int)


def estimator(epsilon=2.0, **more):
    known = {"feature_bounds": BOUNDS, "classes": (0, 1), "aim": "inference"}
    return PrivateLogisticRegression(epsilon, 1e-5, **grouped(**(known | more)))


def fitted(seed=0, n=N, groups=None, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator(**more).fit(*rows(seed, n), groups)


def test_a_secure_fit_tells_intervals_and_pays_for_all(tmp_path):
    X, y = rows()
    Ledger.create(tmp_path / "l.ledger", ledger_data(X, y), Budget(epsilon=3.0, delta=1e-5)).close()
    model = estimator(ledger=tmp_path / "l.ledger").fit(X, y)
    found = model.summary()
    assert found.has_intervals
    assert model.privacy_.is_private_release
    assert "C14" in "".join(model.privacy_.theorems)
    with Ledger.open(tmp_path / "l.ledger") as held:
        assert held.statement().spent_epsilon == pytest.approx(2.0, rel=1e-5)
    for row, slope in zip(found.rows, [*SLOPES, -0.3], strict=True):
        assert abs(row.coef - slope) < 6 * row.std_err


def test_masked_and_public_sums():
    groups = np.arange(N) % 4
    for more in ({"view": "aggregate", "colluders": 1}, {"view": "public"}):
        model = fitted(groups=groups, random_state=1, epsilon=3.0, **more)
        assert model.summary().has_intervals
        assert model.plan_.method == "noisy-gradients"


def test_another_profile_is_used_again(tmp_path):
    X, y = rows()
    Ledger.create(tmp_path / "l.ledger", ledger_data(X, y), Budget(epsilon=6.0, delta=1e-5)).close()
    estimator(aim="prediction", ledger=tmp_path / "l.ledger").fit(X, y)
    model = estimator(ledger=tmp_path / "l.ledger").fit(X, y)
    assert model.plan_.task.profile.earlier_run is not None
    assert model.summary().has_intervals
    assert model.privacy_.epsilon == pytest.approx(2.0, rel=1e-5)


@pytest.mark.filterwarnings("ignore::dpadmm.estimators.SimulatedNoiseWarning")
@pytest.mark.filterwarnings("ignore::dpadmm.estimators.HopelessPlanWarning")
def test_too_few_records_warn_before_and_say_why_after():
    X, y = rows(n=600)
    with pytest.warns(NoIntervalsWarning):
        model = estimator(0.5, random_state=0).fit(X, y)
    assert "too few records" in model.summary().why_not
    table = pd.DataFrame(X, columns=list("abc")).assign(y=y)
    known = dict.fromkeys("abc", BOUNDS) | {"y": (1, 0)}
    with pytest.raises(InputError, match="anyway"):
        dpadmm.fit(table, "y", epsilon=0.5, delta=1e-5, schema=known, aim="inference", seed=1)


def test_tables_and_arrays():
    X, y = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = {"epsilon": 2.0, "delta": 1e-5, "aim": "inference", "seed": 3}
        of_array = estimator(2.0, random_state=3).fit(X, y)
        table = pd.DataFrame(X, columns=list("abc")).assign(y=np.where(y == 1, "yes", "no"))
        known = dict.fromkeys("abc", BOUNDS) | {"y": ("yes", "no")}
        of_table = dpadmm.fit(table, "y", **grouped(schema=known, **given))
        few = {"epsilon": 0.2, "delta": 1e-5, "aim": "inference", "seed": 3}
        with pytest.raises(InputError, match="anyway"):
            dpadmm.fit(table.head(500), "y", **grouped(schema=known, **few))
        of_number = dpadmm.fit(table, "a", **grouped(schema=known | {"y": ["yes", "no"]}, loss="huber", **given))
        with pytest.raises(InputError, match="logistic"):
            dpadmm.fit(table, "y", **grouped(loss="svm", schema=known, **given))
    assert of_array.summary().has_intervals
    assert [row.title for row in of_number.summary().rows] == ["b", "c", "y=yes (against no)", "(intercept)"]
    assert [row.name for row in of_table.summary().rows] == ["a", "b", "c", "(intercept)"]
    made = dpadmm.plan(sizes=(N,), dimension=4, epsilon=2.0, delta=1e-5, aim="inference")
    assert made.curvature is not None


@pytest.mark.filterwarnings("ignore::dpadmm.estimators.SimulatedNoiseWarning")
@pytest.mark.filterwarnings("ignore::dpadmm.estimators.HopelessPlanWarning")
def test_a_rare_outcome_that_is_stated_is_refused_before_anything_is_spent(tmp_path):
    X, y = rows()
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(sick=np.where(y == 1, "yes", "no"))
    known = dict.fromkeys("abc", BOUNDS) | {"sick": ("yes", "no")}
    options = {"epsilon": 2.0, "delta": 1e-5, "schema": known, "aim": "inference"}
    assert not dpadmm.plan(table, "sick", **grouped(**options)).lacks_intervals
    assert dpadmm.plan(table, "sick", **grouped(**options, prevalence=0.002)).lacks_intervals
    held = {"ledger": tmp_path / "rare.ledger", "budget": 3.0}
    with pytest.raises(InputError, match="anyway"):
        dpadmm.fit(table, "sick", **grouped(**options, **held, prevalence=0.002))
    assert not (tmp_path / "rare.ledger").exists()
    with pytest.raises(InputError, match="prevalence must"):
        dpadmm.fit(table, "sick", **grouped(**options, prevalence=1.5))
    with pytest.warns(NoIntervalsWarning):
        estimator(2.0, random_state=0, training=TrainingOptions(prevalence=0.002)).fit(X, y)


def test_models_of_other_kinds_have_none():
    X, y = rows(n=500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        svm = PrivateLinearSVC(2.0, 1e-5, feature_bounds=BOUNDS, classes=(0, 1), random_state=0).fit(X, y)
    assert not svm.summary().has_intervals


def numbers(seed=0, n=N, deviation=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)).clip(*BOUNDS)
    return X, 4 + 3 * (X @ SLOPES) + deviation * rng.standard_normal(n)


def regression(epsilon=2.0, **more):
    known = {"feature_bounds": BOUNDS, "target_bounds": (-30.0, 30.0), "aim": "inference"}
    return PrivateLinearRegression(epsilon, 1e-5, **grouped(**(known | more)))


def test_linear_regressions_have_intervals(tmp_path):
    X, y = numbers()
    held = {"ledger": tmp_path / "l.ledger", "budget": 3.0}
    model = regression(**held).fit(X, y)
    found = model.summary()
    assert model.privacy_.is_private_release
    assert "C14 (products of scores) + C8" in model.privacy_.theorems
    assert {"curvature", "score products"} <= {step.name for step in model.plan_.spec.steps}
    with Ledger.open(held["ledger"]) as ledger:
        assert ledger.statement().spent_epsilon == pytest.approx(2.0, rel=1e-5)
    assert found.has_intervals
    assert not found.ratio
    assert "odds ratio" not in found.frame().columns
    for row, value in zip(found.rows, [*3 * SLOPES, 4.0], strict=True):
        assert abs(row.coef - value) < 6 * row.std_err < 3
    again = ReleasedModel.load(model.save(tmp_path / "m.json"))
    assert again.summary().rows == found.rows
    np.testing.assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_, atol=1e-9, rtol=0)
    np.testing.assert_allclose(again.predict(X), model.predict(X))
    assert [row.coef for row in found.rows] == pytest.approx([*model.coef_, model.intercept_])


@pytest.mark.parametrize("deviation", [1.0, 8.0])
def test_with_hardly_any_noise_they_are_weighted_least_squares_with_robust_errors(deviation):
    """By plain algebra, with the weights of the fit's own encoding; residuals vary with the first column."""
    X, y = numbers(n=4000, deviation=0)
    y = y + deviation * np.random.default_rng(5).standard_normal(len(y)) * (0.3 + np.abs(X[:, 0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = regression(300.0, random_state=1).fit(X, y)
    encoded = model.released_.encoding.encode(X)
    assert (encoded**2).sum(axis=1).max() > 2
    w, design = 1 / np.maximum(1.0, (encoded**2).sum(axis=1)), np.column_stack([X, np.ones(len(X))])
    inverse = np.linalg.inv((design * w[:, None]).T @ design)
    best = inverse @ (design.T @ (w * y))
    scores = design * (w * (y - design @ best))[:, None]
    errors = np.sqrt(np.diag(inverse @ (scores.T @ scores) @ inverse))
    for row, value, error in zip(model.summary().rows, best, errors, strict=True):
        assert abs(row.coef - value) < 0.5 * error
        assert row.std_err == pytest.approx(error, rel=0.15)


def test_predictions_are_linear_where_coefficients_are_estimated():
    X, _ = rows()
    model = fitted(random_state=1)
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_[0] + model.intercept_[0], atol=1e-9, rtol=0)
    known = dict.fromkeys("abc", BOUNDS) | {"y": (-30.0, 30.0)}
    far, (_, target) = np.array([[4.0, -4.0, 0.0], [-4.0, 4.0, 0.0]]), numbers()
    table = pd.DataFrame(X, columns=list("abc")).assign(y=target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asked = {"epsilon": 2.0, "delta": 1e-5, "schema": known, "loss": "huber", "aim": "inference", "seed": 1}
        of_table = dpadmm.fit(table, "y", **grouped(**asked))
    named = {row.name: row.coef for row in of_table.summary().rows}
    by_hand = far @ [named[name] for name in "abc"] + named["(intercept)"]
    np.testing.assert_allclose(of_table.predict(pd.DataFrame(far, columns=list("abc"))), by_hand, atol=1e-9, rtol=0)


@pytest.mark.filterwarnings("ignore::dpadmm.estimators.SimulatedNoiseWarning")
def test_coefficients_of_predictions_agree_on_rows_that_are_not_shortened():
    """On rows within the radius of the encoding, to rounding; on longer ones not."""
    classes, (X, target) = fitted(aim="prediction", random_state=1), numbers()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        real = regression(aim="prediction", random_state=1).fit(X, target)
    for model, found in ((classes, classes.decision_function(X)), (real, real.predict(X))):
        encoding = model.released_.encoding
        inside = np.linalg.norm((X - np.array(encoding.centre)) / np.array(encoding.scale), axis=1) < encoding.radius
        assert 0.02 < inside.mean() < 0.98
        off = np.abs(found - (X @ np.ravel(model.coef_) + np.ravel(model.intercept_)))
        assert off[inside].max() < 1e-9 < 1e-3 < np.median(off[~inside])


def test_persons_get_cluster_robust_errors():
    """Five rows of a person that say the same count as one: errors are as long as of one row each, not as of five."""
    X, y = rows(n=3000)
    persons = np.repeat(np.arange(3000), 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = estimator(200.0, random_state=1).fit(X, y).summary()
        many = estimator(200.0, random_state=1).fit(np.repeat(X, 5, axis=0), np.repeat(y, 5), persons=persons)
    assert "C14 (products of scores)" in many.privacy_.theorems
    for row, other in zip(one.rows, many.summary().rows, strict=True):
        assert other.std_err == pytest.approx(row.std_err, rel=0.2)
        assert other.coef == pytest.approx(row.coef, abs=row.std_err)


def test_class_weights_move_the_intercept_alone():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = estimator(50.0, random_state=1, class_weight={0: 0.5}).fit(*rows()).summary()
    for row, value in zip(found.rows, [*SLOPES, -0.3 + math.log(2)], strict=True):
        assert abs(row.coef - value) < 5 * row.std_err


def test_the_category_to_compare_with_can_be_chosen():
    X, y = rows()
    table = pd.DataFrame(X, columns=list("abc")).assign(y=np.where(y == 1, "yes", "no"))
    table["town"] = np.where(X[:, 2] > 0.5, "P", np.where(X[:, 2] > -0.5, "Q", "R"))
    known = dict.fromkeys("ab", BOUNDS) | {"town": ["P", "Q", "R"], "y": ("yes", "no")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = dpadmm.fit(
            table.drop(columns="c"), "y", epsilon=20.0, delta=1e-5, schema=known, aim="inference", seed=1
        )
    usual = {row.title: row for row in model.summary().rows}
    chosen = {row.title: row for row in model.summary(reference={"town": "P"}).rows}
    assert {"town=P (against Q)", "town=R (against Q)"} < usual.keys()
    assert chosen["town=Q (against P)"].coef == pytest.approx(-usual["town=P (against Q)"].coef)
    assert chosen["town=Q (against P)"].std_err == pytest.approx(usual["town=P (against Q)"].std_err)
    assert chosen["(intercept)"].coef == pytest.approx(
        usual["(intercept)"].coef + usual["town=P (against Q)"].coef, abs=1e-9
    )
    for wrong in ({"town": "S"}, {"a": "P"}, {"city": "P"}):
        with pytest.raises(InputError, match="reference"):
            model.summary(reference=wrong)


class TestWanted:
    def table(self, rare=0.004, n=N):
        X, y = rows(n=n)
        town = np.random.default_rng(9).choice(["P", "Q", "R"], n, p=[0.6, 0.4 - rare, rare])
        table = pd.DataFrame(X, columns=list("abc")).assign(town=town, y=np.where(y == 1, "yes", "no"))
        return table, dict.fromkeys("abc", BOUNDS) | {"town": ["P", "Q", "R"], "y": ("yes", "no")}

    def fit(self, table, known, wanted, **more):
        asked = {"epsilon": 2.0, "delta": 1e-5, "schema": known, "aim": "inference", "wanted": wanted} | more
        return dpadmm.fit(table, "y", **grouped(**asked))

    def test_without_hope_only_the_profile_is_spent_and_the_next_fit_reads_it(self, tmp_path):
        table, known = self.table(n=3000)
        held = {"ledger": tmp_path / "l.ledger", "budget": 6.0}
        with pytest.raises(InputError, match="town=R"):
            self.fit(table, known, ("a", "town=R"), epsilon=1.0, **held)
        with Ledger.open(held["ledger"]) as ledger:
            spent = ledger.statement().spent_epsilon
            assert len(ledger.runs()) == 1
        assert 0 < spent < 0.4
        model = self.fit(table, known, ("a", "town=Q"), epsilon=1.0, ledger=held["ledger"])
        assert model.guarantee.epsilon == pytest.approx(1.0, rel=1e-4)
        with Ledger.open(held["ledger"]) as ledger:
            assert ledger.statement().spent_epsilon == pytest.approx(1.0, rel=1e-3)

    def test_with_hope_the_fit_costs_what_it_would_have(self, tmp_path):
        table, known = self.table(rare=0.2)
        model = self.fit(table, known, ("town", "b"), ledger=tmp_path / "l.ledger", budget=2.5)
        assert model.guarantee.epsilon == pytest.approx(2.0, rel=1e-4)
        assert model.profile is not None
        assert model.guarantee.is_private_release
        with Ledger.open(tmp_path / "l.ledger") as ledger:
            assert ledger.statement().spent_epsilon == pytest.approx(2.0, rel=1e-3)

    def test_what_is_known_beforehand_is_refused_before_anything_is_spent(self, tmp_path):
        table, known = self.table(n=600)
        held = {"ledger": tmp_path / "l.ledger", "budget": 6.0}
        for wanted, more, message in (
            (("a",), {"epsilon": 0.3}, "Nothing was spent"),
            (("town=S",), {}, "town=S"),
            (("d",), {}, "names the coefficient"),
            (("a",), {"aim": "prediction"}, "wanted"),
        ):
            asked = {"epsilon": 2.0, "delta": 1e-5, "schema": known, "aim": "inference", "wanted": wanted} | more
            with pytest.raises(InputError, match=message):
                dpadmm.fit(table, "y", **grouped(**asked, **held))
            assert not held["ledger"].exists()


@pytest.mark.slow
def test_intervals_cover_as_often_as_they_say():
    """200 fits of 4 coefficients: the share of 95 % intervals that cover is between 92 and 98 %."""
    covered = []
    for seed in range(200):
        found = fitted(seed, epsilon=1.5, random_state=seed).summary()
        if found.has_intervals:
            truth = [*SLOPES, -0.3]
            covered.append([row.low <= value <= row.high for row, value in zip(found.rows, truth, strict=True)])
    assert len(covered) > 150
    share = np.mean(covered)
    error = math.sqrt(0.05 * 0.95 / (4 * len(covered)))
    assert 0.95 - 5 * error < share < 0.95 + 5 * error
