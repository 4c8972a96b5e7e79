"""The accuracy benchmark runs at toy size and goes on where it stopped; its statistics are right."""

import io
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "benchmarks" / "accuracy.py"


@pytest.fixture
def accuracy(monkeypatch):
    """Return the benchmark as a module."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import accuracy

    return accuracy


@pytest.fixture
def sets(accuracy):
    """Return its data sets as a module."""
    import accuracy_sets

    return accuracy_sets


def bench(folder: Path, runs: int) -> str:
    """Run the benchmark on the set that comes with scikit-learn; return what it prints."""
    trust = ["--trust", "nobody, no masks", "the coordinator"]
    arguments = [
        "--sets",
        "breast",
        *trust,
        "--epsilons",
        "5",
        "--runs",
        str(runs),
        "--workers",
        "1",
        "--only",
        "accuracy",
        "--results",
        str(folder),
    ]
    env = {**os.environ, "PYTHONWARNINGS": "error"}
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_runs_at_toy_size_and_goes_on(tmp_path, accuracy):
    first = bench(tmp_path, 1)
    (file,) = tmp_path.glob("*.jsonl")
    kept = file.read_text()
    second = bench(tmp_path, 2)
    assert file.read_text().startswith(kept), "the first run is not measured again"
    runs = [json.loads(line) for line in file.read_text().splitlines()]
    first_runs = [["breast", trust, 5.0, 0] for trust in ("nobody, no masks", "the coordinator")]
    assert [run[:4] for run in runs] == [*first_runs, *([*run[:3], 1] for run in first_runs)]
    assert all(run[4]["training accuracy"] > 0.75 for run in runs)
    for printed in (first, second):
        assert all(metric in printed for metric in accuracy.METRICS)
        assert "3edf231" in printed


def test_leaves_out_sets_whose_files_are_missing(accuracy, monkeypatch):
    monkeypatch.delenv("DPADMM_DATA", raising=False)
    said = io.StringIO()
    assert accuracy.at_hand(
        {name: accuracy.SETS[name] for name in ("adult", "breast")}, accuracy.Console(file=said)
    ) == ["breast"]
    assert "left out" in said.getvalue()


def test_standard_error_without_splits_is_the_usual_one(accuracy):
    scores = np.random.default_rng(0).normal(size=20)
    found = accuracy.figure(dict(enumerate(scores)), 1)
    assert found == pytest.approx((scores.mean(), scores.std(ddof=1) / math.sqrt(20), 20))


def test_standard_error_does_not_count_what_differs_between_splits(accuracy):
    rng, splits, runs = np.random.default_rng(0), 5, 20_000
    scores = rng.normal(size=runs) + 100.0 * np.arange(runs) % (100 * splits)
    assert accuracy.figure(dict(enumerate(scores)), splits).standard_error * math.sqrt(runs) == pytest.approx(
        1, abs=0.03
    )
    assert math.isnan(accuracy.figure({0: 0.5, 1: 0.7}, splits).standard_error), "one run a split tells no error"


def test_gain_is_positive_for_less_loss_and_more_accuracy(accuracy):
    low, high = accuracy.Figure(0.3, 0.03, 20), accuracy.Figure(0.4, 0.04, 20)
    assert accuracy.gain("training log-loss", high, low) == pytest.approx(2)
    assert accuracy.gain("training accuracy", high, low) == pytest.approx(-2)
    unknown = accuracy.Figure(0.4, math.nan, 1)
    assert math.isnan(accuracy.gain("training accuracy", unknown, low)), "one run alone tells nothing"


def test_splits_keep_silos_apart_and_do_not_overlap(sets):
    groups = np.repeat(["a", "b", "c"], [50, 23, 7])
    seen = set()
    for run in range(2 * sets.SPLITS):
        whole, part = sets.silo_fits(groups, run)
        assert len(whole.train) == len(groups)
        assert np.array_equal(np.sort(np.concatenate([part.train, part.scored[sets.HELD_OUT]])), np.arange(80))
        assert [int(np.sum(groups[part.train] == name)) for name in "abc"] == [40, 18, 5]
        seen.add(part.train.tobytes())
    assert len(seen) == sets.SPLITS


def test_schemas_type_no_typical_value_and_are_otherwise_drafts(sets):
    from dpadmm.data.draft import ColumnType, draft_schema

    draft = draft_schema({"x": ColumnType.NUMBER, "y": ColumnType.NUMBER}, "y")
    for chosen in sets.SETS.values():
        record = json.loads(sets.schema_of(chosen.known).to_json())
        assert {key: record[key] for key in record if key not in ("columns", "label")} == {
            key: draft[key] for key in draft if key not in ("columns", "label")
        }
        assert all(column.get("typical") is None for column in record["columns"])


def test_earlier_figures_cover_every_set_budget_and_score(accuracy):
    for name in accuracy.SETS:
        found = accuracy.earlier_figures(name)
        assert set(found) == {accuracy.BOUNDS, accuracy.TYPED}
        for by_epsilon in found.values():
            assert set(by_epsilon) == set(accuracy.EPSILONS)
            for figures in by_epsilon.values():
                assert set(figures) == set(accuracy.METRICS)
                assert all(each.runs >= 20 and each.standard_error > 0 for each in figures.values())


def test_forecasts_are_held_against_fits(accuracy, tmp_path):
    """One fit at toy size, and a table that counts what lies outside its range."""
    import forecast_sets

    assert len(forecast_sets.FORECAST_SETS) == 12
    cell = accuracy.Cell("diabetes", forecast_sets.FORECAST, 1.0, 0)
    found = accuracy.measured(cell)
    assert 0.7 < found["without privacy"] < 0.95
    assert found["low"] < found["high"]
    scores = accuracy.Scores(tmp_path)
    scores.add(cell, found | {"reached": found["high"] - 0.001})
    scores.add(cell._replace(run=1), found | {"reached": found["low"] - 0.001})
    table = accuracy.forecast_table(scores, 2)
    assert table.row_count == 1
    assert list(table.columns[5].cells) == ["1 of 2"]
    assert "0.500 of 2 fits" in table.caption
    assert "NOT MET" in table.caption


def test_a_child_tells_its_own_peak_memory(accuracy):
    """Not that of the process which started it, which by then had more."""
    held = np.ones(40_000_000)
    program = f"import sys; sys.path.insert(0, {str(SCRIPT.parent)!r}); import table; print(table.peak_memory())"
    alone = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert 5 < float(alone) < held.nbytes / 2e6
    import table

    assert table.peak_memory() >= held.nbytes / 1e6


def test_every_part_of_the_benchmark_can_be_imported(accuracy):
    import run

    assert all(callable(part.rows) for part in run.PARTS.values())


def test_numbers_are_scored_and_a_score_that_falls_with_epsilon_is_said(accuracy, tmp_path):
    scores = accuracy.Scores(tmp_path)
    for cell in accuracy.regression_cells(["diabetes", "weak"], [1.0, 5.0], 10):
        falls = cell.name == "weak" and cell.epsilon == 5.0
        scores.add(cell, {accuracy.R2: 0.3 - 0.1 * falls + 0.001 * (cell.run // 5)})
    said = io.StringIO()
    accuracy.Console(file=said, width=150).print(
        accuracy.regression_table(scores, ["diabetes", "weak"], [1.0, 5.0], 10)
    )
    rows = [line for line in said.getvalue().splitlines() if "Diabetes" in line or "Synthetic" in line]
    assert ["FALLS" in row for row in rows] == [False, True]


def test_sets_of_numbers_are_fitted(accuracy):
    found = accuracy.measured(accuracy.Cell("diabetes", accuracy.REGRESSION, 5.0, 0))
    assert 0.1 < found[accuracy.R2] < 0.6
