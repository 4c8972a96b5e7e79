"""Fits for inference through every way: what is asked, refused, warned about, spent, kept and covered."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from tests.grouped import grouped

import dpadmm
from dpadmm import PrivateLinearSVC, PrivateLogisticRegression
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
        with pytest.raises(InputError, match="logistic"):
            dpadmm.fit(table, "a", **grouped(schema=known | {"y": ["yes", "no"]}, loss="huber", **given))
        with pytest.raises(InputError, match="logistic"):
            dpadmm.fit(table, "y", **grouped(loss="svm", schema=known, **given))
    assert of_array.summary().has_intervals
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
    assert dpadmm.plan(table, "sick", **grouped(**options, prevalence=0.02)).lacks_intervals
    held = {"ledger": tmp_path / "rare.ledger", "budget": 3.0}
    with pytest.raises(InputError, match="anyway"):
        dpadmm.fit(table, "sick", **grouped(**options, **held, prevalence=0.02))
    assert not (tmp_path / "rare.ledger").exists()
    with pytest.raises(InputError, match="prevalence must"):
        dpadmm.fit(table, "sick", **grouped(**options, prevalence=1.5))
    with pytest.warns(NoIntervalsWarning):
        estimator(2.0, random_state=0, training=TrainingOptions(prevalence=0.02)).fit(X, y)


def test_models_of_other_kinds_have_none():
    X, y = rows(n=500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        svm = PrivateLinearSVC(2.0, 1e-5, feature_bounds=BOUNDS, classes=(0, 1), random_state=0).fit(X, y)
    assert not svm.summary().has_intervals


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
