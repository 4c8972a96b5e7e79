"""`dpadmm fit`: what it saves is certified and recorded, whatever ends it costs no more than was drawn.

What it refuses is in tests/snapshots/terminal/refusals.txt; budgets and fingerprints are those of tests/estimators and
tests/privacy/ledger.
"""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.page_facts import facts_of

from dpadmm.cli.terminal import CLOSED, ELSEWHERE
from dpadmm.core.model import DataLocation, ReleasedModel
from dpadmm.errors import InputError, LedgerError
from dpadmm.estimators import tables
from dpadmm.models import files
from dpadmm.privacy.ledger import Ledger, open_for_reading
from dpadmm.settings import CellRules, FitSettings, OutputFiles, Privacy, TableOptions, TrainingOptions

pytestmark = pytest.mark.usefixtures("instant_forecasts")


def outputs(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_every_option_arrives(cli, study, monkeypatch):
    """Each option of the help, once, in the record that it belongs to."""
    found = []

    def record(given, files, *, has_progress):
        found.extend([given, files, has_progress])
        raise InputError("enough")

    monkeypatch.setattr(tables.TableFit, "of", record)
    flat = (
        "--epsilon 2 --delta 1e-6 --target sick --split-by ward --person who --view peer --aim inference --method dvp"
    )
    more = "--alpha 0.5 --class-weight yes=2 --ledger l --budget 3 --simulate 4 --schema s.json"
    privacy = "--unit person --neighbours replace-one --nominal-records 9 --silos-per-person 2 --keep 3 --colluders 0"
    table = "--sep tab --decimal , --encoding latin-1 --na-values ? --na-values x --no-header --stream"
    cells = "--missing fill --unlisted zero --out-of-range error --l1-ratio 0.5 --no-intercept --loss svm"
    training = "--slope-cap 0.7 --multi-class softmax --topology ring --profile off --profile-share 0.1 --anyway"
    known = "--prevalence 0.2 --expected-auc 0.7 --out m.json --report r.html --title T --purpose P --controller C"
    args = " ".join((flat, more, privacy, table, cells, training, known, "--contact X --force --records-per-person 7"))
    args += " --wanted dose --wanted ward=A --exposure years --scratch fast"
    assert cli.run("fit", "a.csv", "b.csv", *args.split()).exit_code == 2
    kept = FitSettings(
        epsilon=2.0,
        delta=1e-6,
        schema=Path("s.json"),
        target="sick",
        split_by="ward",
        person="who",
        view="peer",
        aim="inference",
        method="dvp",
        alpha=0.5,
        class_weight={"yes": 2.0},
        ledger=Path("l"),
        budget=3.0,
        seed=4,
        out=OutputFiles(
            model="m.json", report="r.html", title="T", purpose="P", controller="C", contact="X", force=True
        ),
        privacy=Privacy(
            unit="person",
            neighbours="replace-one",
            nominal_records=9,
            silos_per_person=2,
            records_per_person=7,
            keep=3,
            colluders=0,
        ),
        table=TableOptions(
            sep="\t",
            decimal=",",
            encoding="latin-1",
            na_values=("?", "x"),
            header=False,
            stream=True,
            scratch="fast",
        ),
        cells=CellRules(missing="fill", unlisted="zero", out_of_range="error"),
        training=TrainingOptions(
            l1_ratio=0.5,
            fit_intercept=False,
            loss="svm",
            slope_cap=0.7,
            multi_class="softmax",
            topology="ring",
            profile="off",
            profile_share=0.1,
            prevalence=0.2,
            expected_auc=0.7,
            exposure="years",
            wanted=("dose", "ward=A"),
            anyway=True,
        ),
    )
    assert found == [kept, [Path("a.csv"), Path("b.csv")], True]


def test_a_model_is_certified_recorded_and_saved(trained):
    """And nothing that was computed from records is kept beside the release."""
    model = ReleasedModel.load(trained.model)
    assert (model.guarantee.epsilon, model.guarantee.delta) == (pytest.approx(1.0, rel=1e-6), 1e-5)
    assert model.guarantee.is_private_release
    assert [(silo.name, silo.records) for silo in model.silos] == [("north", 300), ("south", 200)]
    with Ledger.open(trained.ledger) as ledger:
        assert ledger.statement().spent_epsilon == pytest.approx(model.guarantee.epsilon, rel=1e-9)
    assert (model.spending.budget_epsilon, model.spending.runs[0][0]) == (3.0, model.run)
    assert (trained.said["command"], trained.said["model"]) == ("fit", str(trained.model))
    assert trained.said["guarantee"]["epsilon"] == model.guarantee.epsilon
    public = {"round", "messages", "size", "noise", "bound", "movement", "average_movement"}
    assert {name for each in model.history for name in vars(each)} == public
    assert model.measurements == ()


def test_what_the_terminal_says(cli, study, tmp_path, monkeypatch, snapshot, real_plans):
    """Who is protected counts all records of a person; one process is not several silos; simulations are marked."""
    monkeypatch.chdir(tmp_path)
    whole = pd.concat([pd.read_csv(f).assign(ward=w) for f, w in zip(study.files, ("north", "south"), strict=True)])
    whole.to_parquet("all.parquet")
    args = "--split-by ward --simulate 7 --records-per-person 4 --silos-per-person 2 --anyway --report m.html"
    done = cli.run("fit", "all.parquet", *study.args[2:], *args.split(), "--purpose", "a study", "--out", "m[x].json")
    assert done.exit_code == 0, done.output
    snapshot("terminal/fit.txt", f"{done.stderr}\n{done.stdout}")
    model, facts = ReleasedModel.load("m[x].json"), facts_of(Path("m.html").read_text())
    assert (model.location, model.guarantee.is_private_release) == (DataLocation.ONE_PLACE, False)
    assert (facts["purpose"], len(facts["budget"])) == (["a study"], 5)  # 0.1 to 10
    # The same records with the same noise: files or one table, CSV or Parquet, the model is the same.
    cli.ask("fit", *study.args, *args.split()[2:-2], "--out", "files.json")
    np.testing.assert_allclose(model.coefficients, ReleasedModel.load("files.json").coefficients, rtol=1e-9)


@pytest.mark.parametrize("is_json", [True, False], ids=["json", "text"])
def test_output_that_nobody_reads_is_no_fault(study, tmp_path, is_json):
    """As in `dpadmm fit ... | head -2`: what is written and paid for stays, and nothing is said about the program."""
    model, ledger = tmp_path / "model.json", tmp_path / "data.ledger"
    args = ["fit", *study.args, "--out", str(model), "--ledger", str(ledger), "--budget", "2", "--json"]
    reader, writer = os.pipe()
    os.close(reader)
    program = [sys.executable, "-m", "dpadmm", *(args if is_json else args[:-1])]
    done = subprocess.run(program, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=600)
    os.close(writer)
    assert done.returncode == CLOSED, done.stderr
    assert "fault" not in done.stderr
    assert "BrokenPipeError" not in done.stderr
    if is_json:
        with open_for_reading(ledger) as opened:
            assert opened.runs()[0].run == ReleasedModel.load(model).run
    else:  # the plan is printed first: nobody read it, and nothing was spent
        assert outputs(tmp_path) == []


def refuse_to_write(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_noticed_before_anything_is_spent(cli, study, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse_to_write)
        result = cli.run("fit", *study.args, "--ledger", "l", "--budget", "1")
    assert result.exit_code == 2
    assert outputs(tmp_path) == []


def test_a_disk_that_fills_up_during_the_run_does_not_lose_the_model(cli, study, tmp_path, monkeypatch):
    (tmp_path / "spare").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "spare"))
    monkeypatch.setattr(files, "write_file", refuse_to_write)
    result = cli.run("fit", *study.args, "--simulate", "1", "--out", str(tmp_path / "m.json"), "--json")
    assert result.exit_code == ELSEWHERE
    place = Path(json.loads(result.stdout)["model"])
    assert place.parent == tmp_path / "spare"
    assert str(place) in result.stderr
    assert len(ReleasedModel.load(place).coefficients) == 5


def test_an_interrupted_run_says_what_it_cost(cli, study, tmp_path, monkeypatch):
    from dpadmm.noise.sampler import SecureSampler

    def stop(*_args, **_more):
        raise KeyboardInterrupt

    monkeypatch.setattr(SecureSampler, "perturb", stop)
    place = tmp_path / "m.json"
    args = ("--ledger", str(tmp_path / "l"), "--budget", "50", "--out", str(place))
    result = cli.run("fit", *study.args, *args)
    assert result.exit_code != 0
    assert "stays spent" in result.stderr
    assert not place.exists()
    with Ledger.open(tmp_path / "l") as ledger:
        assert ledger.statement().spent_epsilon > 0


def test_a_paid_model_is_saved_even_if_its_ledger_cannot_be_read_afterwards(cli, study, tmp_path, monkeypatch):
    def fail(*_args):
        raise LedgerError("it was moved")

    monkeypatch.setattr("dpadmm.core.train.spending_of", fail)
    out = tmp_path / "m.json"
    result = cli.run("fit", *study.args, "--out", str(out), "--ledger", str(tmp_path / "l"), "--budget", "3")
    assert result.exit_code == 0, result.output
    assert "it was moved" in result.stderr
    assert ReleasedModel.load(out).spending is None


CELL = st.sampled_from(["age", "sex", "5", "F", "yes", "", '"', "é", "1e999", "-", "nan"])
ROWS = st.lists(st.lists(CELL, max_size=5), max_size=6)
HEADER = ["age", "sex", "pressure", "sick"]


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200) | ROWS.map(lambda rows: "\n".join(map(",".join, [HEADER, *rows])).encode()))
def test_whatever_a_file_holds_there_is_a_message_and_nothing_is_spent(cli, study, tmp_path, real_plans, content):
    mine, ledger, out = tmp_path / "mine.csv", tmp_path / "l", tmp_path / "m.json"
    mine.write_bytes(content)
    args = ("--ledger", str(ledger), "--budget", "1", "--out", str(out), "--missing", "blank", "--unlisted", "blank")
    # Two rows at most are usable: the planner calls such a task hopeless if it is ever reached.
    result = cli.run("fit", str(mine), "--schema", study.schema, "--epsilon", "0.1", "--delta", "1e-5", *args)
    assert result.exit_code == 2, result.output
    lines = [line for line in result.stderr.splitlines() if not line.startswith(f"{mine} read as: ")]
    assert lines[0].startswith(("Error: ", "Note "))
    assert outputs(tmp_path) == ["mine.csv"]


@pytest.mark.parametrize("method", ["dvp", "r-admm"])
def test_noise_inside_objectives_is_not_in_the_file(cli, study, tmp_path, method):
    place, page = tmp_path / "m.json", tmp_path / "m.html"
    args = ("--method", method, "--anyway", "--out", str(place), "--report", str(page))
    assert cli.run("fit", *study.args, *args).exit_code == 0
    assert ReleasedModel.load(place).history == ()
    assert "Noise against signal" not in page.read_text()
