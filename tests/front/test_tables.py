"""`dpadmm.fit` and `dpadmm.plan` are the commands of these names: the same checks, figures, records and files."""

import inspect
import json
import re
import warnings
from dataclasses import MISSING, replace
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
from dpadmm.core import train
from dpadmm.core.model import ReleasedModel
from dpadmm.errors import BudgetError, InputError, LedgerError
from dpadmm.estimators import tables
from dpadmm.estimators.notices import AwkwardCellsWarning, SimulatedNoiseWarning
from dpadmm.privacy.ledger import open_for_reading
from dpadmm.privacy.protection import NeighbouringRelation, Protection, View
from dpadmm.settings import FitSettings, OutputFiles, TrainingOptions, by_name

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
    with pytest.warns(SimulatedNoiseWarning, match="NOT a private release"):
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


def test_a_ledger_that_another_fit_makes_meanwhile_records_both(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned, asked = train.make_plan, {"schema": "schema.json", "ledger": "new.ledger", **COST}

    def plan(*arguments: Any, **settings_given: Any) -> Any:
        monkeypatch.setattr(train, "make_plan", planned)  # once
        dpadmm.fit(["north.csv"], **grouped(budget=7.0, **asked))
        return planned(*arguments, **settings_given)

    monkeypatch.setattr(train, "make_plan", plan)
    model = dpadmm.fit(["north.csv"], **grouped(budget=7.0, **asked))
    with open_for_reading("new.ledger") as opened:
        assert len(opened.runs()) == 2
        assert model.run in {each.run for each in opened.runs()}


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
    with pytest.raises(LedgerError, match="created for 2 silo"):
        dpadmm.fit(["north.csv"], **grouped(schema="schema.json", ledger="data.ledger", **COST))
    with open_for_reading("data.ledger") as opened:
        assert opened.statement().spent_epsilon == spent
    assert not Path("three.json").exists()


def test_an_array_is_for_the_estimators() -> None:
    with pytest.raises(InputError, match=r"name of a column.*estimators: PrivateLogisticRegression\("):
        dpadmm.fit(np.zeros((4, 1)), np.ones(4), **COST)  # type: ignore[arg-type]


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


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"sizes": 300, "dimension": 4}, "sizes must list the records of each silo, got 300"),
        ({"sizes": [300]}, r"\(dimension\) or schema; got neither"),
        ({"dimension": 4}, r"\(sizes\) or the tables; got neither"),
        ({"sizes": [9, 9], "dimension": 4, "method": "consensus"}, "but for the view 'public'"),
    ],
)
def test_a_plan_says_which_public_fact_is_wrong(facts: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        dpadmm.plan(**facts, **COST)


@pytest.mark.parametrize("entry_point", [dpadmm.fit, dpadmm.plan])
def test_parameters_are_those_of_the_table_of_settings(entry_point: Any) -> None:
    """Same defaults, and at most twenty."""
    listed = inspect.signature(entry_point).parameters
    assert len(listed) <= 20
    for name, field in by_name(FitSettings).items():
        if name in listed:
            assert listed[name].default == (inspect.Parameter.empty if field.default is MISSING else field.default)
    assert entry_point is dpadmm.plan or {*by_name(FitSettings)} == {*listed} - {"data"}


def test_an_estimator_makes_its_ledger_and_is_saved_reported_and_loaded(place: Path) -> None:
    frame = pd.read_csv("north.csv", dtype={"ward": str})
    settings_given = {"schema": "schema.json", "ledger": "e.ledger", "budget": 4.0}
    model = dpadmm.PrivateLogisticRegression(3.0, 1e-5, **grouped(**settings_given)).fit(frame, frame["sick"])
    assert model.save("model.npz") == Path("model.npz")
    assert "e.ledger" in model.report("page.html") == Path("page.html").read_text()
    np.testing.assert_array_equal(dpadmm.load("model.npz").predict(frame), model.predict(frame))
    with pytest.raises(BudgetError):
        model.fit(frame, frame["sick"])  # the same budget, of which too little is left
    with pytest.raises(InputError, match="already has a budget, epsilon 4"):
        model.set_params(budget=9.0).fit(frame, frame["sick"])
    with pytest.raises(InputError, match="less than this run"):
        model.set_params(budget=1.0, ledger="new").fit(frame, frame["sick"])
    with pytest.raises(InputError, match="for a new ledger"):
        model.set_params(ledger=None).fit(frame, frame["sick"])
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
    with pytest.warns(AwkwardCellsWarning, match="not for publication.*1 cell") as caught:
        dpadmm.fit(frame, "sick", **grouped(schema=KNOWN, ledger="l", budget=3.0, **COST))
    assert not any("500" in str(each.message) for each in caught)


def refused(python: dict[str, object], options: str, in_python: str, in_shell: str) -> None:
    """See both doors refuse, each in its own words, and nothing written."""
    before = sorted(Path.cwd().iterdir())
    with pytest.raises(InputError, match=f"(?s){in_python}"):
        dpadmm.fit("north.csv", **grouped(schema="schema.json", **{**COST, **python}))  # type: ignore[arg-type]
    said = shell(f"fit north.csv --schema schema.json --epsilon 3 --delta 1e-5 {options}", code=2)
    said = " ".join(said.replace("│", " ").split())
    assert re.search(in_shell, said), said
    assert not re.search(r"\w='|\w_\w", said), said  # no Python
    assert sorted(Path.cwd().iterdir()) == before


@pytest.mark.parametrize(
    ("setting", "given", "meant"),
    [
        ("method", "p-adm", "p-admm"),
        ("loss", "logistc", "logistic"),
        ("view", "publik", "public"),
        ("unit", "persn", "person"),
        ("topology", "rng", "ring"),
        ("missing", "filll", "fill"),
        ("profile", "of", "off"),
        ("neighbours", "add-remov", "add-remove"),
    ],
)
def test_a_misspelt_term_is_answered_with_the_nearest_one(place: Path, setting: str, given: str, meant: str) -> None:
    reported = f"{setting}.*Did you mean '{meant}'"
    refused({setting: given}, f"--{setting} {given}", reported, f"--{reported}")


@pytest.mark.parametrize(
    ("python", "options", "in_python", "in_shell"),
    [
        ({"epsilon": -1.0}, "--epsilon -1", "^epsilon must be greater", "--epsilon must be greater"),
        ({"l1_ratio": 2.0}, "--l1-ratio 2", "^l1_ratio must lie", "--l1-ratio must lie"),
        ({"person": "sick"}, "--person sick", "person='sick' is a column", "--person sick is a column"),
        ({"keep": 2}, "--keep 2", "keep limits the rows.*person=", "--keep limits the rows.*--person"),
        ({"neighbours": "add-remove"}, "--neighbours add-remove", "so nominal_records", "so --nominal-records"),
        ({"budget": 2.0}, "--budget 2", "budget is for a new.*ledger=", "--budget is for a new.*--ledger"),
        ({"ledger": "new"}, "--ledger new", "same delta: budget", "same delta: --budget"),
        (
            {"split_by": "dose"},
            "--split-by dose",
            "split_by='dose' is also a column",
            "--split-by dose is also a column",
        ),
        ({"split_by": "nowhere"}, "--split-by nowhere", "lacks the column", "lacks the column"),
        ({"header": False}, "--no-header", "leave out header=False", "leave out --no-header"),
        ({"sep": ";"}, "--sep ;", "give it with sep", "give it with --sep"),
        (
            {"seed": 1, "ledger": "n", "budget": 4.0},
            "--simulate 1 --ledger n --budget 4",
            "With seed",
            "With --simulate",
        ),
        ({"out": "north.csv"}, "--out north.csv", "^out north.csv is a file", "--out north.csv is a file"),
        ({"epsilon": 1e-4}, "--epsilon 0.0001", "add anyway=True", "add --anyway"),
        ({"unit": "user", "view": "aggregate"}, "--unit user --view aggregate", "with split_by", "with --split-by"),
    ],
)
def test_errors_use_the_texts_of_where_one_stands(
    place: Path, python: dict[str, object], options: str, in_python: str, in_shell: str
) -> None:
    refused(python, options, in_python, in_shell)


@pytest.mark.parametrize(
    ("data", "more", "settings_given"),
    [
        (3, {}, "data must be a path"),
        ([pd.DataFrame(), "a.csv"], {}, "data must be a path"),
        ("north.csv", {"schema": None}, "schema is needed"),
        ("north.csv", {"schema": KNOWN}, "target must name a column"),
        ("north.csv", {"schema": KNOWN, "target": "sik"}, "Did you mean 'sick'"),
        ("north.csv", {"schema": {**KNOWN, "age": 3}, "target": "sick"}, "pair \\(low, high\\) or a list"),
        ("north.csv", {"schema": {**KNOWN, "sick": "yes"}, "target": "sick"}, "pair \\(yes, no\\)"),
        ("north.csv", {"target": "dose"}, "the schema predicts 'sick'"),
    ],
)
def test_what_is_no_table_is_shown(place: Path, data: object, more: dict[str, object], settings_given: str) -> None:
    asked = {"schema": "schema.json", **COST, **more}
    with pytest.raises(InputError, match=settings_given):
        dpadmm.fit(data, asked.pop("target", None), **grouped(**asked))  # type: ignore[arg-type]


def test_a_delta_that_is_too_large_is_named(place):
    """A part of the budget has no epsilon at such a delta; the epsilon that was given is not at fault."""
    for ask in (dpadmm.fit, dpadmm.plan):
        with pytest.raises(InputError, match=r"delta 0\.1 is too large.* well below 1 / records, for instance 1e-6"):
            ask("north.csv", "sick", schema=KNOWN, epsilon=0.05, delta=0.1)
    reported = CliRunner().invoke(
        app, ["plan", "north.csv", "--schema", "schema.json", "--epsilon", "0.05", "--delta", "0.1"]
    )
    assert reported.exit_code == 2
    assert "--delta 0.1 is too large" in reported.stderr
    assert "--epsilon must be" not in reported.stderr


@pytest.mark.filterwarnings("ignore")
def test_who_answers_for_it_is_kept_with_the_model(place):
    """As `dpadmm fit --purpose ...` does, whether or not a report is written."""
    settings_given = {"purpose": "asthma", "controller": "the clinic", "contact": "the officer"}
    out = OutputFiles(model=Path("m.json"), force=True, **settings_given)
    dpadmm.fit("north.csv", "sick", schema=KNOWN, **COST, out=out, training=TrainingOptions(anyway=True), seed=0)
    facts = facts_of(dpadmm.load("m.json").report())
    assert all(facts[name] == [text] for name, text in settings_given.items())
    with pytest.raises(InputError, match="purpose contains characters that are not UTF-8"):
        dpadmm.fit("north.csv", "sick", **grouped(schema=KNOWN, **COST, purpose="\ud800"))


@pytest.mark.filterwarnings("ignore::dpadmm.estimators.notices.SimulatedNoiseWarning")
def test_a_stated_signal_is_forecast_for_tables_and_arrays_and_refused_where_it_does_not_fit() -> None:
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
    number = dpadmm.PrivateLinearRegression(2.0, 1e-5, feature_bounds=(-1, 1), target_bounds=(-1, 1))
    with pytest.raises(InputError, match="expected_auc is for classes"):
        number.set_params(training__expected_auc=0.9).fit(rows, rows[:, 0])
    for wrong in (0.5, 1.0, float("nan")):
        with pytest.raises(InputError, match="expected_auc must"):
            dpadmm.plan(frame, "y", **grouped(schema=known, **asked | {"expected_auc": wrong}))
