"""`dpadmm evaluate`: exact on data declared public, noisy and recorded on private data, and nothing in between."""

import shutil

import numpy as np
import pandas as pd
import pytest

from dpadmm.datasets.schema import Schema
from dpadmm.privacy.ledger import Ledger
from dpadmm.reporting.facts import Basis
from dpadmm.reporting.model_file import load_model


@pytest.fixture
def copy(trained, tmp_path):
    """A model and a ledger of one's own."""
    for file in trained.model.parent.iterdir():
        shutil.copy(file, tmp_path / file.name)
    return tmp_path / "model.json", tmp_path / "study.ledger"


def true_accuracy(study, model) -> tuple[float, float]:
    encoded = Schema.load(study.schema).encode(pd.concat([pd.read_csv(file) for file in study.files]))
    hits = np.sign(encoded.features @ np.array(load_model(model).coefficients)) == encoded.labels
    share = (encoded.labels > 0).mean()
    return float(hits.mean()), float(max(share, 1 - share))


def test_public_data_are_measured_exactly_and_the_report_shows_it(cli, study, copy):
    model, _ = copy
    said = cli.ask("evaluate", str(model), *study.files, "--public", "made up for a test")
    accuracy, baseline = true_accuracy(study, model)
    assert (said["value"], said["baseline"]) == (pytest.approx(accuracy), pytest.approx(baseline))
    assert said["basis"] == "data declared public"
    (kept,) = load_model(model).measurements
    assert (kept.on, kept.basis, kept.epsilon) == ("made up for a test", Basis.PUBLIC, 0.0)
    assert cli.run("report", str(model)).exit_code == 0
    assert "made up for a test" in model.with_suffix(".html").read_text()


def test_private_data_are_measured_with_noise_and_recorded(cli, study, copy):
    model, ledger = copy
    words = ("evaluate", str(model), *study.files, "--epsilon", "1", "--delta", "1e-5", "--ledger", str(ledger))
    said = cli.ask(*words)
    accuracy, _ = true_accuracy(study, model)
    assert said["epsilon"] == pytest.approx(1.0, rel=1e-6)
    assert said["uncertainty"] > 0
    # Gaussian noise: 6 standard deviations fail once in 5e8.
    assert abs(said["value"] - accuracy) <= 6 * said["uncertainty"]
    assert said["value"] != accuracy
    with Ledger.open(ledger) as book:
        assert book.statement().spent_epsilon > 1.2  # Gaussian epsilons grow slower than they add: sqrt(2) ratios
        assert book.statement().spent_epsilon < 2.0
    costly = cli.run(*words[:-5], "3", *words[-4:])
    assert costly.exit_code == 2
    assert "Refused" in costly.stderr
    assert len(load_model(model).measurements) == 1


def test_no_record_leaves_the_model_as_it_is(cli, study, copy):
    model, _ = copy
    before = model.read_bytes()
    assert cli.run("evaluate", str(model), *study.files, "--public", "test", "--no-record").exit_code == 0
    assert model.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "Say what allows the figure"),
        ("--public test --epsilon 1 --delta 1e-5", "Say what allows the figure"),
        ("--epsilon 1", "--epsilon needs --delta"),
        ("--epsilon 0 --delta 1e-5", "epsilon must be greater than 0"),
        ("--public test --ledger x", "public data spend nothing"),
        ("--epsilon 1 --delta 1e-5 --ledger new", "--budget EPSILON"),
        ("--public test --split-by age", "takes one file"),
    ],
)
def test_what_is_refused_changes_nothing(cli, study, copy, monkeypatch, words, message):
    model, _ = copy
    before = {each.name: each.read_bytes() for each in model.parent.iterdir()}
    monkeypatch.chdir(model.parent)
    result = cli.run("evaluate", str(model), *study.files, *words.split())
    assert result.exit_code == 2
    assert message in result.stderr
    assert {each.name: each.read_bytes() for each in model.parent.iterdir()} == before
    blank = cli.run("evaluate", str(model), *study.files, "--public", " ")
    assert "needs a reason" in blank.stderr


def test_people_in_several_silos_cost_more_noise(cli, study, copy):
    model, _ = copy
    words = ("evaluate", str(model), *study.files, "--epsilon", "1", "--delta", "1e-5", "--no-record")
    one, two = (cli.ask(*words, "--silos-per-person", silos)["uncertainty"] for silos in ("1", "2"))
    assert two == pytest.approx(2 * one, rel=1e-5)
