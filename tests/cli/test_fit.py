"""`dpadmm fit`: what it saves is certified and recorded, and whatever it refuses costs nothing."""

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
from dpadmm.errors import LedgerError
from dpadmm.models import files
from dpadmm.privacy.ledger import Ledger, open_for_reading
from dpadmm.privacy.protection import Protection, Strength


def outputs(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_a_model_is_certified_recorded_and_saved(trained, study):
    model = ReleasedModel.load(trained.model)
    said = model.guarantee
    assert (said.epsilon, said.delta) == (pytest.approx(1.0, rel=1e-6), 1e-5)
    assert said.epsilon <= 1.0 + 1e-9
    assert (said.protection, said.strength) == (Protection(), Strength.FULL)
    assert said.is_private_release
    assert [(silo.name, silo.records) for silo in model.silos] == [("north", 300), ("south", 200)]
    with Ledger.open(trained.ledger) as ledger:
        spent = ledger.statement()
    assert spent.spent_epsilon == pytest.approx(said.epsilon, rel=1e-9)
    assert model.spending.head == spent.head
    assert (model.spending.budget_epsilon, model.spending.runs[0][0]) == (3.0, model.run)
    assert trained.said["model"] == str(trained.model)
    assert trained.said["guarantee"]["epsilon"] == said.epsilon
    assert trained.said["command"] == "fit"


def test_the_terminal_and_the_file_say_what_is_true(cli, study, tmp_path):
    """Who is protected counts all records of a person, and one process is not several silos."""
    place, page = tmp_path / "m.json", tmp_path / "m.html"
    words = ("--records-per-person", "40", "--silos-per-person", "2", "--anyway", "--purpose", "a study")
    done = cli.run("fit", *study.words, *words, "--out", str(place), "--report", str(page))
    assert done.exit_code == 0, done.output
    said = " ".join(done.stdout.split())
    whom = "every person's up to 40 records in each of up to 2 silos (replace-one)"
    assert f"Protects {whom} from the eavesdropper" in said
    assert "Tables simulated in one place: all tables were on one machine" in said
    assert "Covers the model, starting from the rows as provided; not earlier steps fitted" in said
    assert "trivial" not in said
    assert "Warning: no ledger, so nothing records what is spent on these data" in done.stderr
    assert "for a moderate signal (0.8 without privacy)" in said
    kept = ReleasedModel.load(place).choice.expected
    assert [each.signal for each in kept.signals] == ["weak", "moderate", "strong"]
    shown = facts_of(page.read_text())
    assert (shown["protected"], shown["purpose"], len(shown["budget"])) == ([whom], ["a study"], 5)  # 0.1 to 10
    assert ReleasedModel.load(place).location is DataLocation.ONE_PLACE
    facts = cli.ask("report", str(place), "--contact", "an officer", "--out", str(tmp_path / "later.html"))
    assert facts["location"] == "simulated in one place"
    later = facts_of((tmp_path / "later.html").read_text())
    assert (later["purpose"], later["contact"], len(later["budget"])) == (["a study"], ["an officer"], 5)


def test_nothing_computed_from_records_is_kept_beside_the_release(trained):
    """Public rounds follow from noisy messages; no loss, residual or accuracy of the training is in the file."""
    model = ReleasedModel.load(trained.model)
    assert {name for each in model.history for name in vars(each)} == {
        *("round", "messages", "size", "noise", "bound", "movement", "average_movement"),
    }
    assert model.measurements == ()


def test_the_budget_stops_a_second_run_before_anything_is_drawn(cli, trained, study, tmp_path):
    with Ledger.open(trained.ledger) as ledger:
        before = ledger.statement()
    out = tmp_path / "second.json"
    words = [word if word != "1" else "2.9" for word in study.words]
    result = cli.run("fit", *words, "--out", str(out), "--ledger", str(trained.ledger))
    assert result.exit_code == 2
    assert "Refused: epsilon 1 of 3 is spent" in result.stderr
    assert not out.exists()
    with Ledger.open(trained.ledger) as ledger:
        assert ledger.statement().spent_epsilon == before.spent_epsilon


def test_other_data_are_refused_by_the_ledger(cli, trained, study, tmp_path):
    changed = tmp_path / "north.csv"
    frame = pd.read_csv(study.files[0])
    frame.loc[0, "age"] += 1
    frame.to_csv(changed, index=False)
    words = (str(changed), *study.words[1:], "--out", str(tmp_path / "m.json"), "--ledger", str(trained.ledger))
    result = cli.run("fit", *words)
    assert result.exit_code == 2
    assert "belongs to other data" in result.stderr
    assert outputs(tmp_path) == ["north.csv"]


def test_simulated_noise_is_no_release_and_says_so(cli, study, tmp_path):
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    first = cli.run("fit", *study.words, "--simulate", "7", "--out", str(one))
    assert first.exit_code == 0
    assert "NOT a private release" in first.stdout
    assert not ReleasedModel.load(one).guarantee.is_private_release
    split = pd.concat([pd.read_csv(f).assign(town=t) for f, t in zip(study.files, ("north", "south"), strict=True)])
    whole = tmp_path / "all.parquet"
    split.to_parquet(whole)
    words = ("--split-by", "town", *study.words[2:], "--simulate", "7", "--out", str(two))
    assert cli.run("fit", str(whole), *words).exit_code == 0
    # The same records with the same noise: files or one table, CSV or Parquet, the model is the same.
    np.testing.assert_allclose(ReleasedModel.load(one).coefficients, ReleasedModel.load(two).coefficients, rtol=1e-9)
    assert [silo.name for silo in ReleasedModel.load(two).silos] == ["north", "south"]
    recorded = cli.run("fit", *study.words, "--simulate", "7", "--ledger", str(tmp_path / "l"), "--budget", "1")
    assert recorded.exit_code == 2
    assert "nothing to record" in recorded.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("none.csv --epsilon -1", "--epsilon must be greater than 0"),  # before a table is read
        ("none.csv --method magic", "method must be 'auto' or one of"),
        ("--target age", "--target is 'age', but"),
        ("--out model.pkl", "ends in .json or .npz"),
        ("--out none/model.json", "does not exist"),
        ("--report none/page.html", "does not exist"),
        ("--ledger new.ledger", "at the same delta: --budget"),
        ("--budget 2", "--ledger FILE"),
        ("--ledger none/new.ledger --budget 2", "does not exist"),
        ("--loss huber", "Use logistic or svm"),
        ("--ledger new.ledger --budget 0.5", "--budget 0.5 is less than this run's --epsilon"),
        ("--method fp-lasso", "cannot be planned"),
        ("--silos-per-person 3", "silos_per_person must be at most the number of silos, 2"),
        ("--split-by town", "takes one file"),
        ("--schema none.json", "Cannot read the schema"),
    ],
)
def test_what_is_refused_costs_nothing(cli, study, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    result = cli.run("fit", *study.words, *words.split())
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""
    assert outputs(tmp_path) == []


@pytest.mark.parametrize(
    ("row", "column", "cell", "message", "remedy"),
    [
        (3, "sex", "X", "row 4, column 'sex': not one of the listed values", "--unlisted zero"),
        (6, "pressure", "", "row 7, column 'pressure': the cell is empty", "--missing fill"),
        (0, "pressure", "high", "row 1, column 'pressure': the cell is not a finite number", None),
        (1, "age", "999", "row 2, column 'age': outside the public bounds", ""),
    ],
)
def test_awkward_cells_say_where_and_what_to_do(cli, study, tmp_path, monkeypatch, row, column, cell, message, remedy):
    """Strict policies refuse with file, row and column; the remedy they name works (tried by `schema check`)."""
    monkeypatch.chdir(tmp_path)
    frame = pd.read_csv(study.files[0], dtype=str)
    frame.loc[row, column] = cell
    frame.to_csv("mine.csv", index=False)
    words = ("fit", "mine.csv", *study.words[1:], "--out-of-range", "error", "--ledger", "l", "--budget", "2")
    result = cli.run(*words)
    assert result.exit_code == 2
    assert f"mine.csv, {message}" in result.stderr
    assert cell not in result.stderr or not cell
    assert outputs(tmp_path) == ["mine.csv"]
    if remedy is not None:
        assert remedy in result.stderr
        checked = cli.run("schema", "check", study.schema, "mine.csv", *remedy.split())
        assert checked.exit_code == 0
        assert "mine: 300 rows can be used" in checked.stdout
        assert "1 cell " in checked.stderr


@pytest.mark.parametrize("is_json", [True, False], ids=["json", "text"])
def test_output_that_nobody_reads_is_no_fault(study, tmp_path, is_json):
    """As in `dpadmm fit ... | head -2`: what is written and paid for stays, and nothing is said about the program."""
    model, ledger = tmp_path / "model.json", tmp_path / "data.ledger"
    words = ["fit", *study.words, "--out", str(model), "--ledger", str(ledger), "--budget", "2", "--json"]
    reader, writer = os.pipe()
    os.close(reader)
    program = [sys.executable, "-c", "from dpadmm.cli.main import app; app()", *(words if is_json else words[:-1])]
    done = subprocess.run(program, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=600)
    os.close(writer)
    assert done.returncode == CLOSED, done.stderr
    assert "fault" not in done.stderr
    assert "BrokenPipeError" not in done.stderr
    if is_json:
        with open_for_reading(ledger) as book:
            assert book.runs()[0].run == ReleasedModel.load(model).run
    else:  # the plan is printed first: nobody read it, and nothing was spent
        assert outputs(tmp_path) == []


def test_a_full_disk_is_noticed_before_anything_is_spent(cli, study, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        result = cli.run("fit", *study.words, "--ledger", "l", "--budget", "1")
    assert result.exit_code == 2
    assert "No space left on device. Nothing was spent." in result.stderr
    assert outputs(tmp_path) == []


def test_a_disk_that_fills_up_during_the_run_does_not_lose_the_model(cli, study, tmp_path, monkeypatch):
    (tmp_path / "spare").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "spare"))

    def failing(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "write_file", failing)
    result = cli.run("fit", *study.words, "--simulate", "1", "--out", str(tmp_path / "m.json"), "--json")
    assert result.exit_code == ELSEWHERE
    place = Path(json.loads(result.stdout)["model"])
    assert place.parent == tmp_path / "spare"
    assert str(place) in result.stderr
    assert len(ReleasedModel.load(place).coefficients) == 5


def test_files_are_not_replaced_unless_told(cli, study, trained, tmp_path):
    result = cli.run("fit", *study.words, "--out", str(trained.model))
    assert result.exit_code == 2
    assert "exists already" in result.stderr


def test_a_hopeless_target_is_refused_unless_told(cli, study, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file, name in zip(study.files, ("a.csv", "b.csv"), strict=True):
        pd.read_csv(file).head(12).to_csv(name, index=False)
    words = ("a.csv", "b.csv", *study.words[2:], "--epsilon", "0.05")
    result = cli.run("fit", *words, "--ledger", "l", "--budget", "1")
    assert result.exit_code == 2
    assert "Nothing was spent. To train anyway, add --anyway." in result.stderr
    assert outputs(tmp_path) == ["a.csv", "b.csv"]


def test_a_model_keeps_the_forecast_for_the_signal_that_was_stated(cli, study, tmp_path):
    model, page = tmp_path / "m.json", tmp_path / "m.html"
    refused = cli.run("fit", *study.words, "--expected-auc", "1.0", "--ledger", str(tmp_path / "l"), "--budget", "1")
    assert refused.exit_code == 2
    assert outputs(tmp_path) == []
    words = ("--expected-auc", "0.9", "--simulate", "1", "--out", str(model), "--report", str(page))
    assert cli.run("fit", *study.words, *words).exit_code == 0
    (kept,) = ReleasedModel.load(model).choice.expected.signals
    assert (kept.signal, kept.non_private) == ("stated", 0.9)
    assert f"{kept.low:.2f} to {kept.high:.2f}" in facts_of(page.read_text())["expected"][0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"age;sex,pressure;sick\n1;F,2;yes\n", "cells between commas or semicolons. Say which with --sep"),
        (b"age;sex;pressure;sick\n1;F;1.234;yes\n", "Say --decimal ,"),
        (b"age,sex,pressure,sick\n", "has a header but no rows"),
        (b"age,sex,pressure,sick\n1,F,2,yes,9,9\n", "cannot be read as text"),
        (b"age,age,pressure,sick\n1,1,2,yes\n", "has 4 columns but 3 different names"),
        (
            "age,sex,pressure,sick\n1,F,2,\u00e9\n".encode("latin-1"),
            "is not text in the encoding used to read it (UTF-8 unless stated)",
        ),
        (b"\x00\xff\x00", "mine.csv"),
    ],
)
@pytest.mark.filterwarnings("default")  # as for users: a mere warning of pandas must not pass
def test_files_that_are_no_tables(cli, study, tmp_path, monkeypatch, content, message):
    monkeypatch.chdir(tmp_path)
    Path("mine.csv").write_bytes(content)
    result = cli.run("fit", "mine.csv", *study.words[1:])
    assert result.exit_code == 2
    assert message in result.stderr
    Path("mine.parquet").write_bytes(content)
    result = cli.run("fit", "mine.parquet", *study.words[1:])
    assert result.exit_code == 2
    assert "cannot be read as Parquet" in result.stderr


def test_without_a_schema_the_next_step_is_said(cli, study):
    result = cli.run("fit", *study.files, "--target", "sick", "--epsilon", "1", "--delta", "1e-5")
    assert result.exit_code == 2
    assert f"dpadmm schema init {' '.join(study.files)} --target sick --out schema.json" in result.stderr
    same = cli.run("fit", study.files[0], study.files[0], *study.words[2:])
    assert "given twice" in same.stderr


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.one_of(
        st.binary(max_size=200),
        st.lists(
            st.lists(st.sampled_from(["age", "sex", "5", "F", "yes", "", '"', "é", "1e999", "-", "nan"]), max_size=5),
            max_size=6,
        ).map(lambda rows: "\n".join(",".join(row) for row in [["age", "sex", "pressure", "sick"], *rows]).encode()),
    )
)
def test_whatever_a_file_holds_there_is_a_message_and_nothing_is_spent(cli, study, tmp_path, content):
    mine, ledger, out = tmp_path / "mine.csv", tmp_path / "l", tmp_path / "m.json"
    mine.write_bytes(content)
    words = ("--ledger", str(ledger), "--budget", "1", "--out", str(out), "--missing", "blank", "--unlisted", "blank")
    # Two rows at most are usable: the planner calls such a task hopeless if it is ever reached.
    result = cli.run("fit", str(mine), "--schema", study.schema, "--epsilon", "0.1", "--delta", "1e-5", *words)
    assert result.exit_code == 2, result.output
    heard = [line for line in result.stderr.splitlines() if not line.startswith(f"{mine} read as: ")]
    assert heard[0].startswith(("Error: ", "Note "))
    assert not ledger.exists()
    assert not out.exists()


def test_an_interrupted_run_says_what_it_cost(cli, study, tmp_path, monkeypatch):
    from dpadmm.noise.sampler import SecureSampler

    def stop(*_args, **_more):
        raise KeyboardInterrupt

    monkeypatch.setattr(SecureSampler, "perturb", stop)
    place = tmp_path / "m.json"
    words = ("--ledger", str(tmp_path / "l"), "--budget", "50", "--out", str(place))
    result = cli.run("fit", *study.words, *words)
    assert result.exit_code != 0
    assert "stays spent" in result.stderr
    assert not place.exists()
    with Ledger.open(tmp_path / "l") as book:
        assert book.statement().spent_epsilon > 0


@pytest.mark.parametrize("method", ["dvp", "r-admm"])
def test_noise_inside_objectives_is_not_in_the_file(cli, study, tmp_path, method):
    place, page = tmp_path / "m.json", tmp_path / "m.html"
    words = ("--method", method, "--anyway", "--out", str(place), "--report", str(page))
    assert cli.run("fit", *study.words, *words).exit_code == 0
    saved = ReleasedModel.load(place)
    assert saved.history == ()
    assert "Noise against signal" not in page.read_text()


def test_people_are_numbered_before_anything_can_name_them(study):
    from dpadmm.data.tables import SiloTable
    from dpadmm.estimators.tables import TableFit
    from dpadmm.settings import FitSettings, Privacy

    said = FitSettings(epsilon=1.0, delta=1e-5, schema=study.schema, privacy=Privacy(unit="user"))
    tables = {n: SiloTable(pd.read_csv(f), "t.csv") for n, f in zip(("Roth", "Meier"), study.files, strict=True)}
    prepared = TableFit.of(said).read(tables)
    assert tuple(prepared.names) == ("user 1", "user 2")


def test_who_splits_by_a_column_is_told_that_its_values_become_public(cli, study, tmp_path):
    whole = pd.concat([pd.read_csv(f).assign(who=w) for f, w in zip(study.files, ("Roth", "Meier"), strict=True)])
    whole.iloc[3, 0] = None  # refused after the notice
    whole.to_csv(tmp_path / "t.csv", index=False)
    words = (str(tmp_path / "t.csv"), *study.words[2:], "--split-by", "who", "--out", str(tmp_path / "m.json"))
    assert cli.run("fit", *words).stderr.count("the 2 values of 'who' become the public names") == 1
    assert "public names" not in cli.run("fit", *words, "--unit", "user").stderr


def test_a_paid_model_is_saved_even_if_its_ledger_cannot_be_read_afterwards(cli, study, tmp_path, monkeypatch):
    def gone(*_args):
        raise LedgerError("it was moved")

    monkeypatch.setattr("dpadmm.core.train.spending_of", gone)
    out = tmp_path / "m.json"
    result = cli.run(
        "fit", *study.words, "--out", str(out), "--ledger", str(tmp_path / "l"), "--budget", "3", "--anyway"
    )
    assert result.exit_code == 0, result.output
    assert "paid for and saved, but its ledger cannot be read: it was moved" in " ".join(result.stderr.split())
    assert ReleasedModel.load(out).spending is None
