"""A private confusion matrix: counts that noise alone changes, intervals that cover, and what one record can move."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import confusion_matrix, recall_score
from tests.grouped import grouped

from dpadmm.data import Schema
from dpadmm.estimators import PrivateLogisticRegression, SimulatedNoiseWarning
from dpadmm.evaluation import private, private_confusion, private_score
from dpadmm.evaluation.private import CountedRows, FigureRequest
from dpadmm.privacy.accounting import Target, calibrate_gaussian

MU = float(1 / calibrate_gaussian(Target(1.0, 1e-6), [1.0], [1.0])[0])  # what epsilon 1 allows one release
NAMES = np.array(["low", "middle", "high", "top"])


@pytest.fixture(scope="module")
def trained():
    """A model of four classes with its rows, and others of which some have labels at odds with it."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (2000, 3))
    y = NAMES[np.digitize(X[:, 0] + 0.2 * rng.standard_normal(2000), (-0.4, 0.1, 0.5))]
    options = {"feature_bounds": (-1, 1), "classes": NAMES, "multi_class": "softmax", "random_state": 0}
    with pytest.warns(SimulatedNoiseWarning):
        model = PrivateLogisticRegression(9.0, 1e-5, **grouped(**options)).fit(X, y)
    return model, X, y


def bare_counts(monkeypatch):
    """Return a list that fills with what is counted before noise, one vector a release, and their certificates."""
    seen, usual = [], private.release_counts

    def wrapped(counts, histograms, request, rows, subject):
        found = usual(counts, histograms, request, rows, subject)
        seen.append((counts(np.arange(rows.n)), found.noise_std))
        return found

    monkeypatch.setattr(private, "release_counts", wrapped)
    return seen


@pytest.mark.filterwarnings("ignore::dpadmm.estimators.SimulatedNoiseWarning")
def test_counts_and_intervals(trained):
    """Of 300 matrices, 95 % intervals of noise cover the exact figures as often as they say, at odds of 1e-6."""
    model, X, y = trained
    exact = confusion_matrix(y, model.predict(X), labels=sorted(NAMES))
    right = recall_score(y, model.predict(X), labels=["middle"], average=None)[0]
    hits = np.zeros(3, dtype=int)
    for seed in range(300):
        found = private_confusion(model, X, y, 1.0, delta=1e-6, random_state=seed)
        assert found.classes == tuple(sorted(NAMES))
        figures = (found.accuracy(), found.count("low", "low"), found.recall("middle"))
        truths = (np.trace(exact) / 2000, exact[1, 1], right)
        inside = [low <= t <= high for t, (low, high) in zip(truths, (f.noise_interval for f in figures), strict=True)]
        hits += inside
    low, high = stats.binom.ppf((3e-7, 1 - 3e-7), 300, 0.95)
    assert (hits >= low).all()
    assert (hits <= high).all()
    dedicated = private_score(model, X, y, 1.0, delta=1e-6, random_state=0)
    assert found.accuracy().noise_error == pytest.approx(np.sqrt(2) * dedicated.standard_error, rel=1e-3)


@pytest.mark.filterwarnings("ignore")
def test_one_record_moves_no_more_than_the_certificate_allows(trained, monkeypatch):
    model, X, y = trained
    seen, moved = bare_counts(monkeypatch), []
    private_confusion(model, X, y, 1.0, delta=1e-6, random_state=0)
    whole, noise_std = seen[0]
    assert whole[:2].sum() == whole[2:].sum() == 2000
    assert np.array_equal(whole[2:].reshape(4, 4), confusion_matrix(y, model.predict(X), labels=sorted(NAMES)))
    for place in range(12):
        for row, label in ((X[0], NAMES[place % 4]), (X[-1 - place], y[place])):
            other, labels = X.copy(), y.copy()
            other[place], labels[place] = row, label
            private_confusion(model, other, labels, 1.0, delta=1e-6, random_state=0)
            moved.append(np.linalg.norm(seen[-1][0] - whole))
    assert max(moved) == pytest.approx(2.0)
    assert noise_std == pytest.approx(2.0 / MU, rel=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_persons_are_counted_once_in_a_silo(trained, monkeypatch):
    """By their first rows; replacing all rows of a person moves no more than replacing one record."""
    model, X, y = trained
    seen, persons = bare_counts(monkeypatch), np.arange(2000) // 4
    found = private_confusion(model, X, y, 1.0, delta=1e-6, persons=persons, random_state=0)
    exact = confusion_matrix(y[::4], model.predict(X[::4]), labels=sorted(NAMES))
    assert np.array_equal(seen[0][0][2:].reshape(4, 4), exact)
    assert (found.records, found.privacy.protection.unit.value) == (500, "person")
    assert seen[0][1] == pytest.approx(2.0 / MU, rel=1e-4)
    other, labels = X.copy(), y.copy()
    other[:4], labels[:4] = X[4:8], np.where(y[:4] == "low", "top", "low")
    private_confusion(model, other, labels, 1.0, delta=1e-6, persons=persons, random_state=0)
    assert np.linalg.norm(seen[1][0] - seen[0][0]) <= 2.0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("names", [("early", "middle", "late"), (3, 1, 2), ("no", "yes")])
def test_a_table_with_a_schema(monkeypatch, names):
    """Classes are found whatever they are called: labels of a table are encoded, and its classes may be numbers."""
    rng = np.random.default_rng(4)
    X = pd.DataFrame({"age": rng.uniform(20, 90, 600), "pressure": rng.uniform(80, 200, 600)})
    y = np.array(names, dtype=object)[np.digitize(X["age"], np.linspace(20, 90, len(names) + 1)[1:-1])]
    schema = Schema.draft(X.assign(stage=y), "stage", has_several_classes=len(names) > 2)
    schema = schema.filled({"age": (0, 120), "pressure": (50, 250), "stage": names[::-1] if len(names) == 2 else names})
    model = PrivateLogisticRegression(9.0, 1e-5, schema=schema, random_state=0).fit(X, y)
    seen = bare_counts(monkeypatch)
    for each in (model, model.released_):
        found = private_confusion(each, X, y, 1.0, delta=1e-6, random_state=0)
        exact = confusion_matrix(y.astype(str), model.predict(X).astype(str), labels=list(map(str, names)))
        assert found.classes == names
        assert np.array_equal(seen[-1][0], [np.trace(exact), 600 - np.trace(exact), *exact.ravel()])


@pytest.mark.filterwarnings("ignore")
def test_what_is_hidden(trained):
    model, X, y = trained
    few = np.flatnonzero(y != "top")[:40]
    small = private_confusion(model, X[few], y[few], 0.1, delta=1e-6, random_state=0)
    assert not small.recall("top").is_visible
    bare = replace(small, counts=np.diag([1e6, 5.0, 5.0, 5.0]), noise_std=1.0)
    assert bare.recall(small.classes[0]).value == 1.0
    blanked = np.where(np.arange(40) < 10, None, y[few])
    request = FigureRequest.of(model, Target(500.0, 1e-6), "eavesdropper", None, None, 0)
    rows = CountedRows(40, None, lambda _: ())
    found = private.release_confusion(blanked, y[few], small.classes, small.classes, request, rows)
    assert found.accuracy().value == pytest.approx(0.75, abs=0.02)
    assert found.counts.sum() == pytest.approx(30, abs=2)
