"""`dpadmm evaluate`: exact on data declared public, noisy and recorded on private data, and nothing in between."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.contracts.centred_rows import as_array, centred

from dpadmm.data.schema import Schema
from dpadmm.data.tables import encode_table, read_silos
from dpadmm.evaluation import evaluate
from dpadmm.privacy.ledger import Ledger
from dpadmm.reporting.measurement import Basis
from dpadmm.reporting.model import ReleasedModel
from dpadmm.reporting.rows import ModelRows
from dpadmm.settings import CellRules, EvaluationSettings, Privacy

SPEND = ("--epsilon", "1", "--delta", "1e-5")


@pytest.fixture
def copy(trained, tmp_path):
    """A model and a ledger of one's own."""
    for file in trained.model.parent.iterdir():
        shutil.copy(file, tmp_path / file.name)
    return tmp_path / "model.json", tmp_path / "study.ledger"


def true_accuracy(study, model) -> tuple[float, float]:
    made, table = ReleasedModel.load(model), pd.concat([pd.read_csv(file) for file in study.files])
    encoded = encode_table(Schema.load(study.schema), table, encoding=made.encoding)
    hits = np.sign(encoded.features @ np.array(made.coefficients)) == encoded.labels
    share = (encoded.labels > 0).mean()
    return float(hits.mean()), float(max(share, 1 - share))


def test_public_data_are_measured_exactly_and_the_report_shows_it(cli, study, copy):
    model, _ = copy
    said = cli.ask("evaluate", str(model), *study.files, "--public", "made up for a test", "--declare", "published")
    accuracy, baseline = true_accuracy(study, model)
    assert (said["value"], said["baseline"]) == (pytest.approx(accuracy), pytest.approx(baseline))
    assert said["basis"] == "data declared public"
    (kept,) = ReleasedModel.load(model).measurements
    assert (kept.on, kept.basis, kept.epsilon) == ("made up for a test", Basis.PUBLIC, 0.0)
    assert cli.run("report", str(model)).exit_code == 0
    page = model.with_suffix(".html").read_text()
    assert "made up for a test" in page
    assert "Declared by the evaluator: all of these rows are published" in page


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
    assert len(ReleasedModel.load(model).measurements) == 1


def test_no_record_leaves_the_model_as_it_is(cli, study, copy):
    model, _ = copy
    before = model.read_bytes()
    assert (
        cli.run(
            "evaluate", str(model), *study.files, "--public", "test", "--declare", "published", "--no-record"
        ).exit_code
        == 0
    )
    assert model.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "Add --public WHY"),
        ("--public test --epsilon 1 --delta 1e-5", "--epsilon does not go with --public"),
        ("--epsilon 1", "--epsilon needs --delta"),
        ("--epsilon 0 --delta 1e-5", "epsilon must be greater than 0"),
        ("--public test --declare held-out --budget 1", "--budget does not go with --public"),
        ("--public test", "--declare held-out"),
        ("--public test --declare published --ledger study.ledger", "need no ledger"),
        ("--public test --ledger study.ledger", "--declare held-out"),
        ("--public test --declare held-out --ledger study.ledger", "These are training records"),
        ("--epsilon 1 --delta 1e-5 --declare held-out", "--declare does not go with --epsilon"),
        ("--epsilon 1 --delta 1e-5 --ledger new", "at the same delta: --budget"),
        ("--public test --declare published --split-by clinic", "takes one file"),
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


def test_rows_that_are_stored_centred(cli, study, copy, monkeypatch):
    """Both kinds of figures, of the rows of several tables."""
    model, _ = copy
    read = ModelRows.read

    def read_centred(*arguments, **words):
        found = read(*arguments, **words)
        return replace(found, features=centred(as_array(found.features)))

    monkeypatch.setattr(ModelRows, "read", read_centred)
    words = ("evaluate", str(model), *study.files, "--no-record")
    accuracy, _ = true_accuracy(study, model)
    assert cli.ask(*words, "--public", "test", "--declare", "published")["value"] == pytest.approx(accuracy)
    said = cli.ask(*words, "--epsilon", "1", "--delta", "1e-5")
    assert abs(said["value"] - accuracy) <= 6 * said["uncertainty"]  # fails once in 5e8


def test_people_in_several_silos_cost_more_noise(cli, study, copy):
    model, _ = copy
    words = ("evaluate", str(model), *study.files, "--epsilon", "1", "--delta", "1e-5", "--no-record")
    one, two = (cli.ask(*words, "--silos-per-person", silos)["uncertainty"] for silos in ("1", "2"))
    assert two == pytest.approx(2 * one, rel=1e-5)


def test_single_figures_count_people_too_and_tell_what_they_cost(study, copy, monkeypatch):
    """Numbers and more than two classes have no counts of scores: what is released counts people as they are said."""
    monkeypatch.setattr(evaluate, "has_counts", lambda model: False)
    files = [Path(file) for file in study.files]
    tables = read_silos(files, None, protection=None)

    def error(**people):
        settings = EvaluationSettings(epsilon=1.0, delta=1e-5)
        asked = evaluate.TableEvaluation.of(copy[0], files, settings, Privacy(**people), CellRules())
        done = asked.run(tables)
        found, matrix = done.measurement, done.matrix
        assert abs(matrix.counts.sum() - found.records) < 6 * 2 * matrix.noise_std
        assert (found.epsilon, found.delta) == (pytest.approx(1.0, rel=1e-5), 1e-5)
        return found.uncertainty

    assert error(silos_per_person=2) == pytest.approx(2 * error(), rel=1e-5)
    assert error(records_per_person=3) == pytest.approx(3 * error(), rel=1e-5)


def test_training_records_are_recognised_in_parts_of_their_table(cli, study, tmp_path):
    whole = pd.concat([pd.read_csv(file).assign(clinic=Path(file).stem) for file in study.files])
    whole.sample(frac=1, random_state=0).to_csv(tmp_path / "whole.csv", index=False)
    model, ledger = tmp_path / "m.json", tmp_path / "l"
    asked = ("--schema", study.schema, "--profile", "off", *SPEND, "--ledger", str(ledger), "--budget", "3", "--anyway")
    assert cli.run("fit", str(tmp_path / "whole.csv"), *asked, "--out", str(model)).exit_code == 0
    public = ("--public", "hi", "--declare", "held-out", "--ledger", str(ledger), "--split-by", "clinic")
    refused = cli.run("evaluate", str(model), str(tmp_path / "whole.csv"), *public)
    assert "These are training records" in refused.stderr


def test_the_training_ledger_tells_training_records_from_others(cli, study, copy, tmp_path):
    """`--public hi` on training records gave their exact figure, whatever the help said."""
    model, ledger = copy
    renamed = []
    for file in study.files:
        frame = pd.read_csv(file)
        renamed.append(str(tmp_path / f"new-{len(renamed)}.csv"))
        frame.to_csv(renamed[-1], index=False)
    held_out = ("--public", "hi", "--declare", "held-out", "--ledger")
    refused = cli.run("evaluate", str(model), *renamed[::-1], *held_out, str(ledger))
    assert refused.exit_code == 2
    assert "These are training records" in refused.stderr
    silos = [silo.name for silo in ReleasedModel.load(model).silos]
    whole = pd.concat([pd.read_csv(file).assign(clinic=name) for file, name in zip(study.files, silos, strict=True)])
    whole.to_csv(tmp_path / "whole.csv", index=False)
    for more in ((), ("--split-by", "clinic")):
        refused = cli.run("evaluate", str(model), str(tmp_path / "whole.csv"), *held_out, str(ledger), *more)
        assert "These are training records" in refused.stderr, more
    other = pd.concat([pd.read_csv(file) for file in study.files]).sample(frac=0.5, random_state=0)
    other.to_csv(tmp_path / "other.csv", index=False)
    words = ("evaluate", str(model), str(tmp_path / "other.csv"), *held_out)
    said = cli.ask(*words, str(ledger))
    assert said["declaration"] == "Declared by the evaluator: none of these rows was used to train the model."
    foreign = tmp_path / "foreign.ledger"
    fitted = cli.run(
        "evaluate",
        str(model),
        str(tmp_path / "other.csv"),
        "--epsilon",
        "1",
        "--delta",
        "1e-5",
        "--ledger",
        str(foreign),
        "--budget",
        "2",
    )
    assert fitted.exit_code == 0
    mistaken = cli.run(*words, str(foreign))
    assert mistaken.exit_code == 2
    assert "is not the ledger that the model was trained with" in mistaken.stderr


def test_what_the_ledger_assumes_is_not_asked_again(cli, study, tmp_path):
    """`evaluate` without the option recorded 1.0 where a person in both silos pays 2.155."""
    model, ledger = tmp_path / "m.json", tmp_path / "two.ledger"
    words = ("--schema", study.schema, "--delta", "1e-5", "--ledger", str(ledger), "--anyway")
    fit = ("fit", *study.files, "--epsilon", "1", *words, "--out", str(model))
    assert cli.run(*fit, "--budget", "9", "--silos-per-person", "2", "--records-per-person", "3").exit_code == 0
    measure = ("evaluate", str(model), *study.files, "--epsilon", "1", "--delta", "1e-5", "--no-record")
    kept, free = cli.ask(*measure, "--ledger", str(ledger)), cli.ask(*measure)
    assert kept["uncertainty"] == pytest.approx(6 * free["uncertainty"], rel=1e-4)
    for less in (("--silos-per-person", "1"), ("--records-per-person", "2")):
        for command in ((*measure, "--ledger", str(ledger)), (*fit, "--force")):
            refused = cli.run(*command, *less)
            assert refused.exit_code == 2
            assert "does not cover" in refused.stderr
    with Ledger.open(ledger) as book:
        assert (book.protection.silos_per_person, book.protection.records_per_person) == (2, 3)
        assert len(book.statement().silos) == 2


def test_an_evaluation_is_bought_once_and_asked_again_for_nothing(cli, study, copy):
    model, ledger = copy
    plot, kept = model.with_name("curves.png"), model.with_name("model.evaluation.json")
    said = cli.ask("evaluate", str(model), *study.files, *SPEND, "--ledger", str(ledger), "--plot", str(plot))
    assert said["evaluation"] == str(kept)
    assert plot.read_bytes()[:4] == b"\x89PNG"
    figures = said["figures"]
    low, high = figures["roc_auc"]["noise_interval"]
    assert low <= figures["roc_auc"]["value"] <= high
    assert figures["confusion"]["accuracy"]["value"] == said["value"]
    assert {each["score"] for each in said["others"]} == {"AUC", "log-loss"}
    assert figures["calibration"][0]["low"] == 0.0
    books = ledger.read_bytes()
    again = cli.ask("evaluate", str(model), "--from", str(kept), "--threshold", "0.3")
    assert ledger.read_bytes() == books
    assert again["epsilon"] == 0.0
    assert again["figures"]["roc_auc"] == figures["roc_auc"]
    assert again["figures"]["confusion"]["threshold"] == 0.3
    assert again["figures"]["confusion"]["accuracy"] != figures["confusion"]["accuracy"]
    assert cli.run("report", str(model)).exit_code == 0
    assert "Also: AUC" in model.with_suffix(".html").read_text()


def test_groups_are_paid_for_together_and_the_table_fits_80_columns(cli, study, copy, monkeypatch):
    model, _ = copy
    monkeypatch.chdir(model.parent)
    words = ("evaluate", "model.json", *study.files, "--epsilon", "9", "--delta", "1e-5", "--by", "sex")
    said = cli.ask(*words)
    assert said["epsilon"] <= 9.0
    assert set(said["figures"]["groups"]) == {"F", "M"}
    shown = cli.run(*words).stdout
    assert "Saved in model.evaluation-2.json" in shown
    for part in ("sex = F", "sex = M", "AUC", "log-loss", "precision at 0.5", "true positives", "mean 0."):
        assert part in shown
    assert max(map(len, shown.splitlines()[:-1])) <= 80  # the last line tells where a ledger is to be had


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (f"{' '.join(SPEND)} --by age", "whose categories the schema lists (sex)"),
        (f"{' '.join(SPEND)} --plot curves.gif", ".svg or .png"),
        (f"{' '.join(SPEND)} --out model.json --no-record", "is a file that this command reads"),
        (f"{' '.join(SPEND)} --out new.txt", "must end in .json"),
        (f"{' '.join(SPEND)} --threshold 1", "--threshold"),
        ("--public test --declare published --by sex", "--by does not go with --public"),
        ("--from other.json", "reads no data"),
    ],
)
def test_questions_that_have_no_answer_are_refused_before_anything_is_spent(
    cli, study, copy, monkeypatch, words, message
):
    model, _ = copy
    monkeypatch.chdir(model.parent)
    before = {each.name: each.read_bytes() for each in model.parent.iterdir()}
    result = cli.run("evaluate", "model.json", *study.files, *words.split())
    assert result.exit_code == 2
    assert message in result.stderr
    assert {each.name: each.read_bytes() for each in model.parent.iterdir()} == before


def test_an_evaluation_of_another_model_is_refused(cli, study, copy):
    model, _ = copy
    said = cli.ask("evaluate", str(model), *study.files, *SPEND)
    made = ReleasedModel.load(model)
    replace(made, run="another").save(model)
    refused = cli.run("evaluate", str(model), "--from", said["evaluation"])
    assert refused.exit_code == 2
    assert "another model" in refused.stderr
