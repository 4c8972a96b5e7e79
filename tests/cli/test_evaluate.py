"""`dpadmm evaluate` reads settings and prints; tests/evaluation and test_settings test what is measured and refused."""

import shutil
from pathlib import Path

import pytest

from dpadmm.errors import InputError
from dpadmm.evaluation import evaluate as evaluation
from dpadmm.settings import CellRules, EvaluationSettings, Privacy, TableFormat

SPEND = ("--epsilon", "1", "--delta", "1e-5")


@pytest.fixture
def copy(trained, tmp_path):
    """A model and a ledger of one's own."""
    for file in trained.model.parent.iterdir():
        shutil.copy(file, tmp_path / file.name)
    return tmp_path / "model.json", tmp_path / "study.ledger"


def test_every_option_arrives(cli, copy, monkeypatch):
    seen = []

    def record(*asked, on_tables):
        seen.extend(asked)
        raise InputError("enough")

    monkeypatch.setattr(evaluation, "evaluate", record)
    options = "--ledger l --budget 2 --person who --view aggregate --split-by ward --by sex --plot p.svg --out e.json"
    people = "--records-per-person 3 --silos-per-person 2 --colluders 0 --missing blank --unlisted zero"
    args = (*SPEND, *options.split(), *people.split(), "--threshold", "0.3", "--no-record", "--force")
    assert cli.run("evaluate", str(copy[0]), "a.csv", "b.csv", *args).exit_code == 2
    asked = {"epsilon": 1.0, "delta": 1e-5, "ledger": Path("l"), "budget": 2.0, "person": "who", "view": "aggregate"}
    output = {"plot": Path("p.svg"), "out": Path("e.json"), "threshold": 0.3, "record": False, "force": True}
    assert seen == [
        copy[0],
        [Path("a.csv"), Path("b.csv")],
        EvaluationSettings(**asked, **output, split_by="ward", by="sex"),
        Privacy(records_per_person=3, silos_per_person=2, colluders=0),
        CellRules(missing="blank", unlisted="zero"),
        TableFormat(),
    ]


def test_public_figures_are_printed_and_the_report_shows_them(cli, study, copy):
    args = ("evaluate", str(copy[0]), *study.files, "--public", "made up for a test", "--declare", "published")
    said = cli.ask(*args)
    assert {"value", "baseline", "records", "recorded_in", "others"} <= set(said)
    assert (said["command"], said["basis"]) == ("evaluate", "data declared public")
    assert cli.run("report", str(copy[0])).exit_code == 0
    page = copy[0].with_suffix(".html").read_text()
    assert "made up for a test" in page


def test_private_figures_are_printed_kept_and_asked_again(cli, study, copy):
    model, ledger = copy
    plot, kept = model.with_name("curves.png"), model.with_name("model.evaluation.json")
    said = cli.ask("evaluate", str(model), *study.files, *SPEND, "--ledger", str(ledger), "--plot", str(plot))
    assert (said["evaluation"], said["plot"]) == (str(kept), str(plot))
    assert plot.read_bytes()[:4] == b"\x89PNG"
    assert {"roc_auc", "log_loss", "confusion", "calibration", "groups"} <= set(said["figures"])
    again = cli.ask("evaluate", str(model), "--from", str(kept), "--threshold", "0.3")
    assert (again["epsilon"], again["figures"]["confusion"]["threshold"]) == (0.0, 0.3)
    shown = cli.run("evaluate", str(model), *study.files, *SPEND)
    assert "--ledger FILE" in shown.stderr
    assert "model.evaluation-2.json" in shown.stdout
    assert cli.run("report", str(model)).exit_code == 0
    assert "Also: AUC" in model.with_suffix(".html").read_text()
