"""`dpadmm.fit` and `dpadmm.plan` are the commands of these names: the same checks, figures, records and files."""

import json
import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.grouped import grouped
from tests.page_facts import facts_of

import dpadmm
from dpadmm import api
from dpadmm.codec import encode
from dpadmm.core.model import ReleasedModel
from dpadmm.errors import BudgetError, LedgerError
from dpadmm.estimators import tables
from dpadmm.estimators.notices import AwkwardCellsWarning, SimulatedNoiseWarning
from dpadmm.privacy.ledger import open_for_reading
from dpadmm.privacy.protection import NeighbouringRelation, Protection, View
from dpadmm.settings import OutputFiles, TrainingOptions

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "'click", DeprecationWarning)
    from typer.testing import CliRunner

    from dpadmm.cli.main import app

KNOWN = {"age": (0, 120), "dose": (0, 10), "ward": ["01", "02"], "sick": ("yes", "no")}
COST = {"epsilon": 3.0, "delta": 1e-5}


def table(n: int, seed: int) -> pd.DataFrame:
    drawn = np.random.default_rng(seed)
    age = drawn.uniform(20, 100, n).round(1)
    return pd.DataFrame(
        {
            "sick": np.where(age > 60, "yes", "no"),
            "age": age,
            "ward": drawn.choice(["01", "02"], n),
            "dose": drawn.uniform(0, 10, n).round(2),
        }
    )


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two hospitals as files, the same in one file, and their schema."""
    monkeypatch.chdir(tmp_path)
    north, south = table(300, 0), table(200, 1)
    north.to_csv("north.csv", index=False)
    south.to_parquet("south.parquet")
    pd.concat([north.assign(town="north"), south.assign(town="south")]).to_csv("all.csv", index=False)
    columns = [dpadmm.data.Numeric("age", 0, 120), dpadmm.data.Numeric("dose", 0, 10)]
    label = dpadmm.data.BinaryLabel("sick", positive=("yes",), negative=("no",))
    wards = dpadmm.data.Categorical("ward", ("01", "02"))
    dpadmm.Schema((*columns, wards), label, constant=dpadmm.data.encoding.CONSTANT).save("schema.json")
    return tmp_path


def shell(settings_given: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, settings_given.split())
    assert done.exit_code == code, done.output
    return done.output if code else done.stdout


def facts(model: ReleasedModel) -> str:
    """Return all of a model but its run's name and time."""
    plain = {name: value for name, value in encode(model).items() if name not in ("created", "title")}
    return json.dumps(plain, sort_keys=True).replace(model.run, "RUN")


def test_fit_and_the_command_make_the_same_model_files_and_page(place: Path) -> None:
    asked = "--schema schema.json --epsilon 3 --delta 1e-5 --simulate 4 --out shell.json --report shell.html"
    shell(f"fit north.csv south.parquet {asked}")
    with pytest.warns(SimulatedNoiseWarning):
        model = dpadmm.fit(
            ["north.csv", "south.parquet"],
            **grouped(schema="schema.json", seed=4, out="python.json", report="page.html", **COST),
        )
    saved = dpadmm.load("shell.json")
    assert facts(dpadmm.load("python.json")) == facts(model) == facts(saved)
    assert model.statement.splitlines()[0] in saved.statement
    pages = [Path(name).read_text() for name in ("shell.html", "page.html")]
    plain = [
        re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC|(shell|python)\.json", "", page.replace(each.run, "RUN"))
        for page, each in zip(pages, (saved, model), strict=True)
    ]
    assert plain[0] == plain[1]
    assert str(model) == model.statement
    assert repr(model).startswith("<ReleasedModel 'sick from 2 silos': p-admm, epsilon 3 at")
    assert "budget" in facts_of(pages[1])
    rows = pd.read_csv("north.csv", dtype=str)
    np.testing.assert_array_equal(model.predict(rows), saved.predict(rows))


def test_files_frames_names_a_split_and_public_facts_are_the_same_silos(place: Path) -> None:
    frames = {"north": pd.read_csv("north.csv", dtype={"ward": str}), "south": pd.read_parquet("south.parquet")}
    whole = pd.concat([frame.assign(town=name) for name, frame in frames.items()], ignore_index=True)
    by_town = {"split_by": "town"}
    given = [(frames, {}), (whole, by_town), ("all.csv", by_town)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimulatedNoiseWarning)
        first = dpadmm.fit(
            {"north": "north.csv", "south": "south.parquet"}, **grouped(schema="schema.json", seed=1, **COST)
        )
        for data, more in given:
            found = dpadmm.fit(data, "sick", **grouped(schema=KNOWN, seed=1, **COST, **more))
            assert facts(found) == facts(first)


def test_what_is_spent_is_recorded_by_both_in_one_ledger(place: Path) -> None:
    files = ["north.csv", "south.parquet"]
    model = dpadmm.fit(files, **grouped(schema="schema.json", ledger="data.ledger", budget=7.0, **COST))
    assert model.spending is not None
    assert model.guarantee.is_private_release
    asked = "fit north.csv south.parquet --schema schema.json --epsilon 3 --delta 1e-5"
    shell(f"{asked} --ledger data.ledger --out two.json")
    with open_for_reading("data.ledger") as opened:
        assert [run.run for run in opened.runs()] == [model.run, dpadmm.load("two.json").run]
        assert opened.budget.epsilon == 7.0
        spent = opened.statement().spent_epsilon
    with pytest.raises(BudgetError):
        dpadmm.fit(files, schema="schema.json", ledger="data.ledger", out="three.json", epsilon=6.0, delta=1e-5)
    with pytest.raises(LedgerError):
        dpadmm.fit(["north.csv"], **grouped(schema="schema.json", ledger="data.ledger", **COST))
    with open_for_reading("data.ledger") as opened:
        assert opened.statement().spent_epsilon == spent
    assert not Path("three.json").exists()


def test_every_term_about_people_reaches_what_is_trained_or_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tables and plans; a word that is lost on the way would protect people less than was asked for."""
    seen: list[Any] = []
    monkeypatch.setattr(api, "_fit_tables", lambda training, read: seen.append(training.settings.protection))
    monkeypatch.setattr(tables, "make_plan", lambda task, **settings_given: seen.append(task.protection))
    people = {"unit": "record", "view": "aggregate", "colluders": 2, "records_per_person": 3, "silos_per_person": 4}
    settings_given = people | {"neighbours": "add-remove", "nominal_records": 70}
    dpadmm.fit(table(9, 0), "sick", **grouped(schema=KNOWN, **settings_given, **COST))
    dpadmm.plan(sizes=(14,) * 5, dimension=3, **grouped(**settings_given, **COST))
    hidden = Protection(view=View.AGGREGATE, colluders=2, records_per_person=3, silos_per_person=4)
    assert seen == [replace(hidden, relation=NeighbouringRelation.ADD_OR_REMOVE)] * 2


def test_an_estimator_makes_its_ledger_and_is_saved_reported_and_loaded(place: Path) -> None:
    frame = pd.read_csv("north.csv", dtype={"ward": str})
    settings_given = {"schema": "schema.json", "ledger": "e.ledger", "budget": 4.0}
    model = dpadmm.PrivateLogisticRegression(3.0, 1e-5, **grouped(**settings_given)).fit(frame, frame["sick"])
    assert model.save("model.npz") == Path("model.npz")
    assert "e.ledger" in model.report("page.html") == Path("page.html").read_text()
    np.testing.assert_array_equal(dpadmm.load("model.npz").predict(frame), model.predict(frame))
    with pytest.raises(BudgetError):
        model.fit(frame, frame["sick"])  # the same budget, of which too little is left
    # The command reads the same table as the same data.
    with open_for_reading("e.ledger") as opened:
        assert opened.budget.epsilon == 4.0
    shell("fit north.csv --schema schema.json --epsilon 0.5 --delta 1e-5 --ledger e.ledger --out m.json --anyway")


def test_a_plan_is_that_of_the_command(place: Path) -> None:
    asked = "plan north.csv south.parquet --schema schema.json --epsilon 1 --delta 1e-5"
    said = json.loads(shell(f"{asked} --no-curve --json"))
    made = dpadmm.plan(["north.csv", "south.parquet"], schema="schema.json", epsilon=1.0, delta=1e-5)
    assert json.loads(json.dumps(made.as_json())) == {name: said[name] for name in made.as_json()}
    by_sizes = dpadmm.plan(sizes=(300, 200), target="sick", schema=KNOWN, epsilon=1.0, delta=1e-5)
    assert by_sizes.as_json() == made.as_json()


def test_notes_about_cells_are_for_their_holder(place: Path) -> None:
    frame = table(300, 0)
    frame.loc[5, "age"] = 500.0
    with pytest.warns(AwkwardCellsWarning) as caught:
        dpadmm.fit(frame, "sick", **grouped(schema=KNOWN, ledger="l", budget=3.0, **COST))
    assert not any("500" in str(each.message) for each in caught)


@pytest.mark.filterwarnings("ignore")
def test_who_answers_for_it_is_kept_with_the_model(place):
    """As `dpadmm fit --purpose ...` does, whether or not a report is written."""
    settings_given = {"purpose": "asthma", "controller": "the clinic", "contact": "the officer"}
    out = OutputFiles(model=Path("m.json"), force=True, **settings_given)
    dpadmm.fit("north.csv", "sick", schema=KNOWN, **COST, out=out, training=TrainingOptions(anyway=True), seed=0)
    facts = facts_of(dpadmm.load("m.json").report())
    assert all(facts[name] == [text] for name, text in settings_given.items())


@pytest.mark.filterwarnings("ignore::dpadmm.estimators.notices.SimulatedNoiseWarning")
def test_a_stated_signal_is_forecast_for_tables_and_arrays_() -> None:
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (400, 2))
    labels = np.where(rows[:, 0] + 0.5 * rng.standard_normal(400) > 0, "yes", "no")
    frame, known = (
        pd.DataFrame(rows, columns=["a", "b"]).assign(y=labels),
        {"a": (-1, 1), "b": (-1, 1), "y": ("yes", "no")},
    )
    asked: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-5, "expected_auc": 0.9}
    planned = dpadmm.plan(frame, "y", **grouped(schema=known, **asked))
    assert [each.non_private for each in planned.expected.signals] == [0.9]
    model = dpadmm.fit(frame, "y", **grouped(schema=known, seed=1, anyway=True, **asked))
    assert [each.non_private for each in model.choice.expected.signals] == [0.9]
    array = dpadmm.PrivateLogisticRegression(2.0, 1e-5, feature_bounds=(-1, 1), classes=("no", "yes"), random_state=1)
    array.set_params(training__expected_auc=0.9).fit(rows, labels)
    assert [each.non_private for each in array.released_.choice.expected.signals] == [0.9]
