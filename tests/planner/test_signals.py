"""Forecasts for stated signals: worlds have the signal that they claim, and what is said of it is in order."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dpadmm.checks import use_option_names
from dpadmm.core.task import TableShape
from dpadmm.planner import Task, plan, planner
from dpadmm.planner.candidates import STANDARD
from dpadmm.planner.forecast import (
    SIGNAL_WORLDS,
    Forecast,
    ScoreKind,
    SignalForecast,
    SignalScores,
    _calibrate,
    _drawn,
    _labels_at,
    run_signal,
    signals_of,
)
from dpadmm.planner.simulations import Simulation, simulation_of
from dpadmm.privacy.accounting import Target
from dpadmm.problems.losses import Huber, LabelKind, Logistic, Softmax

TABLE = TableShape(6, (4, 3))
TASK = Task(sizes=(300, 250), dimension=14, loss=Logistic(), target=Target(1.0, 1e-5), table=TABLE)
AMPLE = replace(TASK, sizes=(20_000, 20_000))


def plain_simulation(task: Task) -> Simulation:
    made = plan(task)
    return replace(
        simulation_of(replace(made.candidate, task=task, form=STANDARD)), rounds=1, tau=0.0, time=1.0, mu=0.0
    )


def by_scikit_learn(plain: Simulation, world, strength: float) -> float:
    """Return what scikit-learn reaches on fresh records of the world, from the cells themselves."""
    table, labels = _drawn(plain, world), _labels_at(plain, world, strength)
    numbers = np.column_stack([cells.values for cells in table.cells if not cells.is_category])
    codes = np.column_stack([cells.codes for cells in table.cells if cells.is_category])
    rows = np.hstack([StandardScaler().fit_transform(numbers), OneHotEncoder(sparse_output=False).fit_transform(codes)])
    copies = labels.possible.shape[1]
    if plain.is_ample:
        train = test = np.arange(len(rows))
        fitted, known, weights = np.repeat(rows, copies, axis=0), labels.possible.ravel(), labels.chances.ravel()
    else:
        train, test = np.arange(plain.n_records), np.arange(plain.n_records, len(rows))
        fitted, known, weights = rows[train], labels.drawn[train], None
    scored = np.repeat(rows[test], copies, axis=0)
    truth, counted = labels.possible[test].ravel(), labels.chances[test].ravel()
    if plain.loss.target is LabelKind.REALS:
        model = LinearRegression().fit(fitted, known, sample_weight=weights)
        return r2_score(truth, model.predict(scored), sample_weight=counted)
    model = LogisticRegression(C=10.0, max_iter=2000).fit(fitted, known, sample_weight=weights)
    if plain.loss.target is LabelKind.CLASSES:
        return roc_auc_score(truth, model.predict_proba(scored), multi_class="ovr", sample_weight=counted)
    return roc_auc_score(truth > 0, model.decision_function(scored), sample_weight=counted)


@pytest.mark.parametrize(
    ("task", "stated"),
    [(TASK, 0.65), (TASK, 0.95), (AMPLE, 0.65), (AMPLE, 0.8), (replace(TASK, loss=Huber(0.5)), 0.4)],
    ids=["few-weak", "few-strong", "ample-weak", "ample-moderate", "numbers"],
)
def test_a_model_without_privacy_reaches_what_is_claimed(task, stated):
    plain = plain_simulation(task)
    for world in SIGNAL_WORLDS:
        found = _calibrate(plain, world, stated)
        assert found.score == pytest.approx(stated, abs=0.006)
        assert by_scikit_learn(plain, world, found.strength) == pytest.approx(stated, abs=0.03)


def test_several_classes_have_the_signal_that_is_claimed():
    plain = plain_simulation(replace(AMPLE, loss=Softmax(3)))
    world = SIGNAL_WORLDS[0]
    found = _calibrate(plain, world, 0.8)
    assert by_scikit_learn(plain, world, found.strength) == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("task", [TASK, replace(TASK, loss=Huber(0.5)), AMPLE], ids=["few", "numbers", "ample"])
def test_a_stronger_signal_leaves_more_and_none_leaves_more_than_there_is(task):
    weak, moderate, strong = plan(task).expected.signals
    for one, other in ((weak, moderate), (moderate, strong)):
        assert one.low < other.low
        assert one.high < other.high
        assert one.learned <= other.learned + 0.05
    for each in (weak, moderate, strong):
        assert each.low < each.high <= each.non_private + 0.05


def test_a_weak_signal_is_not_forecast_as_a_strong_one():
    """Hospitals reach an AUC of 0.65; nothing that is said for such a signal exceeds it by more than an error."""
    said = plan(replace(TASK, target=Target(20.0, 1e-5), expected_auc=0.65)).expected.judged
    assert 0.6 < said.high < 0.7


def test_forecasts_are_the_same_whenever_they_are_made():
    first = plan(TASK).expected
    run_signal.cache_clear()
    _calibrate.cache_clear()
    assert plan(TASK).expected == first


def test_the_stated_signal_is_the_one_that_is_forecast():
    made = plan(replace(TASK, expected_auc=0.7))
    (only,) = made.expected.signals
    assert (only.signal, only.non_private) == ("stated", 0.7)
    text = " ".join(made.describe().split())
    assert f"{only.low:.2f} to {only.high:.2f}" in text
    assert "expected_auc" not in text
    said = json.loads(json.dumps(made.as_json()))
    assert said["task"]["expected_auc"] == 0.7
    assert said["expected"]["signals"][0]["low"] == only.low
    assert said["expected"]["score"] == "AUC"
    usual = plan(TASK)
    assert replace(made.candidate, task=usual.task) == usual.candidate
    assert made.task.loss == usual.task.loss
    assert "with expected_auc" in " ".join(usual.describe().split())
    with use_option_names(lambda name, *value: f"--{name}"):
        assert "with --expected_auc" in " ".join(usual.describe().split())


def test_a_forecast_is_written_in_sentences(snapshot):
    signal = SignalForecast("moderate", 0.8, 0.8, 0.6, 0.7, 0.5)
    texts = [str(Forecast(ScoreKind.AUC, (signal,), 24, prevalence=rate)) for rate in (0.1, None)]
    snapshot("terminal/forecasts.txt", "\n\n".join([*texts, ""]))


def test_numbers_are_forecast_by_r2():
    task = replace(TASK, loss=Huber(0.5))
    assert signals_of(task) == {"weak": 0.1, "moderate": 0.4, "strong": 0.8}
    made = plan(replace(task, expected_r2=0.3))
    assert made.expected.score is ScoreKind.R2
    assert made.expected.judged.non_private == 0.3
    assert "R^2 on new records" in made.describe()


def test_hopeless_is_judged_on_the_stated_or_a_moderate_signal(monkeypatch):
    """The worlds by which plans are compared have stronger signals: they decide nothing about it."""

    def forecast(kept_at):
        monkeypatch.setattr(planner, "run_signal", lambda _, __, stated: SignalScores((0.6,), stated, kept_at[stated]))

    forecast({0.65: 0.0, 0.8: 0.05, 0.95: 0.9})
    made = plan(TASK)
    assert made.is_hopeless
    assert "expected_auc" in made.warnings[0]
    stated = plan(replace(TASK, expected_auc=0.95))
    assert not stated.is_hopeless
    assert stated.warnings == ()
    forecast({0.65: 0.0, 0.8: 0.2, 0.95: 0.9})
    assert not plan(TASK).is_hopeless
    weak = plan(replace(TASK, expected_auc=0.65))
    assert weak.is_hopeless
    assert "expected_auc" not in weak.warnings[0]


def test_too_few_records_for_a_signal_are_said_to_be():
    found = [SignalScores((0.6, 0.7), 0.85, kept=0.3), SignalScores((0.55, 0.65), 0.83, kept=-2.0)]
    made = SignalForecast.of("strong", 0.95, found)
    assert (made.low, made.high) == (0.54, 0.71)
    assert made.learned == pytest.approx(0.15)
    assert all(number in str(made) for number in ("0.54", "0.71", "0.95", "0.84"))


@given(st.lists(st.floats(-0.5, 1.0), min_size=1, max_size=30))
def test_ranges_hold_everything_that_was_simulated(scores):
    made = SignalForecast.of("weak", 0.65, [SignalScores(tuple(scores), 0.65, kept=0.5)])
    assert made.low <= min(scores) <= max(scores) <= made.high <= 1.0
