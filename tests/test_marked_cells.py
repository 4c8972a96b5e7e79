"""Nobody's record is shown: tables full of marked cells go through every entry, and no mark may come out.

Every cell of these tables carries a mark, as text or as a number (`tests.marked_cells`). Whatever a command or a method
prints, warns, logs, raises (with everything it is chained to) or writes, apart from the tables themselves, is searched
for the marks.
"""

import io
import json
import logging
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.builders import instant_plans
from tests.grouped import grouped
from tests.marked_cells import (
    BROKEN,
    CELL,
    CSV_TABLES,
    LARGE,
    NAMES,
    NUMBER,
    ROWS,
    SCHEMA,
    N,
    T,
    X,
    Y,
    csv_of,
    frame,
    good_rows,
    groupings,
    marks_in,
    misplaced,
    output_of,
    parquet_tables,
    tables,
    targets,
    text_of,
)

import dpadmm
from dpadmm.data.columns import Numeric, RealLabel
from dpadmm.data.schema import Schema
from dpadmm.errors import InputError
from dpadmm.estimators import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression, ledger_data
from dpadmm.evaluation import private_score
from dpadmm.privacy.ledger import Budget, Ledger

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "'click", DeprecationWarning)
    from typer.main import get_command
    from typer.testing import CliRunner

    from dpadmm.cli.main import app

    COMMAND = get_command(app)  # made once: it takes longer than most commands


class Runner(CliRunner):
    """Runs a command that is made already; typer's own makes it anew each time."""

    def invoke(self, *args: Any, **options: Any) -> Any:
        return super(CliRunner, self).invoke(*args, **options)


@pytest.fixture(autouse=True, scope="module")
def instant_forecasts() -> Iterator[None]:
    """Skip the planner's simulations: no cell enters them."""
    with instant_plans():
        yield


# --- commands -------------------------------------------------------------------------------------------------------

SPEND = ("--epsilon", "2", "--delta", "1e-5")
RUN = ("--schema", "schema.json", *SPEND, "--anyway")
PUBLIC = ("--public", "made up", "--declare", "published")
COMMANDS = {
    "schema init": ("schema", "init", "TABLE", "--target", "sick"),
    "schema init --json": ("schema", "init", "TABLE", "--target", "sick", "--json"),
    "schema init --out": ("schema", "init", "TABLE", "--target", "sick", "--out", "draft.json"),
    "schema init --predict": ("schema", "init", "TABLE", "--target", "age", "--predict", "number"),
    "schema init of two": ("schema", "init", "good.csv", "TABLE", "--target", "sick"),
    "schema init --leave-out": ("schema", "init", "TABLE", "--target", "sick", "--leave-out", "name"),
    "schema check": ("schema", "check", "schema.json", "TABLE"),
    "schema check, lenient": (
        *("schema", "check", "schema.json", "TABLE"),
        *("--missing", "blank", "--unlisted", "zero", "--out-of-range", "error"),
    ),
    "schema check --split-by": ("schema", "check", "schema.json", "TABLE", "--split-by", "clinic"),
    "plan": ("plan", "TABLE", *RUN[:-1], "--no-curve"),
    "fit": ("fit", "TABLE", *RUN, "--out", "m.json", "--ledger", "l", "--budget", "9"),
    "predict": ("predict", "model.json", "TABLE"),
    "evaluate": ("evaluate", "model.json", "TABLE", *PUBLIC, "--no-record"),
    "evaluate privately": ("evaluate", "model.json", "TABLE", *SPEND, "--ledger", "l", "--budget", "9", "--no-record"),
    "silo init": (
        *("silo", "init", "silo", "--data", "TABLE", "--schema", "schema.json"),
        *("--budget-epsilon", "3", "--delta", "1e-5"),
    ),
}
NO_HEADER = ("headerless", "headerless text", "headerless dates", "good", "long row", "one record")
DRAFTS = {  # tables whose owner calls a column so: a draft must name it, a message need not
    ("csv", "marked name"): "schema init",
    ("csv", "marked names"): "schema init",
    ("parquet", "record as names"): "schema init --",
    ("no header", "*"): "schema init of two",
}
TABLES = [
    *(("csv", name) for name in CSV_TABLES),
    *(("no header", name) for name in NO_HEADER),
    *(("parquet", name) for name in parquet_tables()),
    *(("broken", name) for name in ("broken.parquet", "broken.csv.gz", "table.txt", "broken.tsv")),
]


class Recorder:
    """Runs commands in a folder and records all that comes out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tables: set[Path] = set()
        self.exit_code = 0

    def put(self, name: str, content: bytes) -> str:
        path = self.folder / name
        path.write_bytes(content)
        self.tables.add(path)
        return name

    def run(self, *command: str) -> str:
        """Return all that a command prints, warns, logs, raises and writes."""
        records: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record: records.append(record.getMessage() + str(record.exc_info))  # type: ignore[method-assign]
        logging.getLogger().addHandler(handler)
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                result = Runner().invoke(COMMAND, list(command), env={"COLUMNS": "300", "TERM": "dumb"})
        finally:
            logging.getLogger().removeHandler(handler)
        self.exit_code = result.exit_code
        warned = [str(each.message) for each in caught]
        return "\n".join([result.stdout, result.stderr, text_of(result.exception), *warned, *records, *self.written()])

    def run_well(self, *command: str) -> str:
        output = self.run(*command)
        assert self.exit_code == 0, (command, output[:2000])
        return output

    def written(self) -> Iterator[str]:
        """What is in files that are nobody's tables; text as it is, and the bytes of the rest."""
        for path in sorted(self.folder.rglob("*")):
            if path.is_file() and path not in self.tables:
                content = path.read_bytes()
                yield content.decode("latin-1")
                if path.suffix == ".npz":
                    with np.load(path, allow_pickle=False) as file:
                        yield from (str(file[name].tobytes()) + str(file[name]) for name in file.files)

    def clean(self) -> None:
        """Remove what commands have written."""
        shutil.rmtree(self.folder / "silo", ignore_errors=True)
        for path in self.folder.iterdir():
            if path not in self.tables and path.name not in ("schema.json", "model.json"):
                path.unlink()

    def leaks(self, commands: Callable[[], Iterator[tuple[str, str]]]) -> dict[str, list[str]]:
        """Return the marks in each output; all is run again if there are some, as drawn digits show one by chance."""
        found = {name: set(marks_in(output)) for name, output in commands()}
        if any(found.values()):
            found = {name: found[name] & set(marks_in(output)) for name, output in commands()}
        return {name: sorted(marks) for name, marks in found.items() if marks}


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model that was trained on other people."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    rows = [[str(i), str(1e4 * i), str(1e15 * i), "FM"[i % 2], ("yes", "no")[i % 2]] for i in range(60)]
    (folder / "public.csv").write_bytes(csv_of(rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            done = Runner().invoke(COMMAND, ["fit", "public.csv", *RUN, "--out", "model.json"])
        assert done.exit_code == 0, done.output
        return (folder / "model.json").read_text()


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model_file: str) -> Recorder:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "model.json").write_text(model_file)
    made = Recorder(tmp_path)
    made.put("good.csv", csv_of(good_rows()))
    return made


def content_of(kind: str, name: str) -> tuple[str, bytes]:
    """Return the name and the bytes of a table's file."""
    if kind == "parquet":
        buffer = io.BytesIO()
        parquet_tables()[name].to_parquet(buffer)
        return "table.parquet", buffer.getvalue()
    return (name, BROKEN) if kind == "broken" else ("table.csv", CSV_TABLES[name])


@pytest.mark.parametrize(("kind", "name"), TABLES)
def test_no_command_shows_a_cell(recorder: Recorder, kind: str, name: str) -> None:
    table, more = recorder.put(*content_of(kind, name)), ("--no-header",) if kind == "no header" else ()
    drafts = DRAFTS.get((kind, name), DRAFTS.get((kind, "*"), "none"))
    chosen = {each: command for each, command in COMMANDS.items() if not each.startswith(drafts)}
    assert len(chosen) >= len(COMMANDS) - 6

    def outputs() -> Iterator[tuple[str, str]]:
        for each, command in chosen.items():
            yield each, recorder.run(*(table if part == "TABLE" else part for part in command), *more)
            recorder.clean()

    assert recorder.leaks(outputs) == {}


def test_a_headerless_file_is_described_by_counts_and_the_remedy_works(recorder: Recorder) -> None:
    """What a message may say: how many names matched, of how many columns, and what to do."""
    recorder.put("table.csv", csv_of(good_rows(), None))
    output = recorder.run("schema", "check", "schema.json", "table.csv")
    assert "none of the 4 wanted names is among its 5 columns" in output
    assert "--no-header" in output
    draft = ("--target", "column5", "--leave-out", "column1", "--no-header", "--out", "draft.json")
    recorder.run_well("schema", "init", "table.csv", *draft)
    drafted = json.loads((recorder.folder / "draft.json").read_text())
    assert [column["name"] for column in drafted["columns"]] == ["column2", "column3", "column4"]
    numbered = json.dumps(SCHEMA)
    for number, name in enumerate(NAMES, start=1):
        numbered = numbered.replace(f'"name": "{name}"', f'"name": "column{number}"')
    (recorder.folder / "schema.json").write_text(numbered)
    for command in (
        ("schema", "check", "schema.json", "table.csv"),
        ("plan", "table.csv", *RUN[:-1], "--no-curve"),
        ("fit", "table.csv", *RUN, "--out", "m.json"),
        ("predict", "m.json", "table.csv"),
        ("evaluate", "m.json", "table.csv", *PUBLIC),
    ):
        assert marks_in(recorder.run_well(*command, "--no-header")) == []


@pytest.mark.parametrize("suffix", ["json", pytest.param("npz", marks=pytest.mark.slow)])
def test_a_training_and_all_that_follows_leaves_no_cell_behind(recorder: Recorder, suffix: str) -> None:
    """Patients are the users: their names are cells too, wherever silos are named."""
    model, _ = f"m.{suffix}", recorder.put("good.csv", csv_of(ROWS))
    train = ("fit", "good.csv", *RUN, "--split-by", "patient", "--unit", "user", "--out", model, "--report", "r.html")
    steps = (
        (*train, "--ledger", "l", "--budget", "9"),
        (*train, "--force", "--json", "--ledger", "l"),
        ("predict", model, "good.csv"),
        ("predict", model, "good.csv", "--json"),
        ("evaluate", model, "good.csv", *PUBLIC),
        ("report", model, "--out", "again.html"),
        ("ledger", "show", "l"),
        ("ledger", "show", "l", "--json"),
        ("ledger", "export", "l", "export.json"),
        ("ledger", "verify", "l"),
    )

    def outputs() -> Iterator[tuple[str, str]]:
        recorder.clean()
        return ((" ".join(step), recorder.run_well(*step)) for step in steps)

    assert recorder.leaks(outputs) == {}
    assert recorder.folder.joinpath("r.html").stat().st_size > 1000
    if suffix == "json":
        silos = json.loads(Path(model).read_text())["model"]["silos"]
        assert [silo["name"] for silo in silos][:2] == ["user 1", "user 2"]


def test_a_silo_whose_table_is_changed_shows_nothing(recorder: Recorder) -> None:
    pytest.importorskip("cryptography")
    recorder.run_well(*("good.csv" if part == "TABLE" else part for part in COMMANDS["silo init"]))
    for name in ("headerless", "text for a number", "long row", "latin-1", "unlisted"):
        recorder.put("good.csv", CSV_TABLES[name])
        assert marks_in(recorder.run("silo", "show", "silo", "--log")) == [], name
        assert recorder.exit_code == 2


def test_a_silo_shows_nothing_of_a_step_that_failed() -> None:
    pytest.importorskip("cryptography")
    from dpadmm.federation.errors import reason_of

    assert "ValueError" in reason_of(ValueError(CELL))
    assert marks_in(reason_of(ValueError(CELL))) == []


@pytest.mark.parametrize("name", ["headerless", "headerless text", "long row", "open quote", "latin-1", "semicolons"])
def test_a_rehearsal_shows_no_cell(recorder: Recorder, name: str) -> None:
    pytest.importorskip("uvicorn")
    from dpadmm.federation.admin.rehearsal import rehearsal_tables

    recorder.put("table.csv", CSV_TABLES[name])
    output = output_of(lambda: rehearsal_tables(2, Path("table.csv"), Path("schema.json"), "clinic"))
    assert "InputError" in output
    assert marks_in(output) == []


def test_a_fault_of_the_program_is_shown_by_its_place(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a package may say tomorrow: the text of errors that are not ours stays inside."""
    import dpadmm.data.tables as tables

    def stumble(*_args: Any, **_kwargs: Any) -> None:
        raise RuntimeError("".join(["SEC", "RET17"]))

    monkeypatch.setattr(tables, "with_names", stumble)
    output = recorder.run("schema", "check", "schema.json", "good.csv")
    assert recorder.exit_code == 1
    assert "RuntimeError" in output
    assert "stumble" in output
    assert marks_in(output) == []


@pytest.mark.parametrize(
    "command",
    [
        ("schema", "init", "table.csv", "--target", "sick"),
        pytest.param(("predict", "model.json", "table.csv"), marks=pytest.mark.slow),
    ],
)
def test_a_process_shows_no_cell(recorder: Recorder, command: tuple[str, ...]) -> None:
    recorder.put("table.csv", CSV_TABLES["headerless"])
    source = str(Path(dpadmm.__file__).parents[1])
    line = [sys.executable, "-c", "from dpadmm.cli.main import app; app()", *command]
    done = subprocess.run(line, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": source}, check=False)
    assert done.returncode == 2
    assert marks_in(done.stdout + done.stderr) == []


# --- calls in Python ------------------------------------------------------------------------------------------------

KINDS = (PrivateLogisticRegression, PrivateLinearSVC, PrivateLinearRegression)
SETTINGS = (
    *("epsilon", "delta", "alpha", "l1_ratio", "fit_intercept", "feature_bounds", "row_norm", "unit", "view"),
    *("method", "topology", "records_per_person", "silos_per_person", "keep", "random_state"),
)
OWN_SETTINGS = (
    (PrivateLogisticRegression, "classes"),
    (PrivateLinearSVC, "classes"),
    (PrivateLinearSVC, "hinge_width"),
    (PrivateLinearRegression, "target_bounds"),
    (PrivateLinearRegression, "huber_threshold"),
)
METRIC_SETTINGS = (
    *("epsilon", "largest", "delta", "groups", "privacy"),
    *("ledger", "random_state", "scores_rows_alone"),
)
Calls = Iterator[tuple[Any, Callable[[], Any]]]


def target_of(kind: Any) -> Any:
    return T if kind is PrivateLinearRegression else Y


def build(kind: Any, **options: Any) -> Any:
    public = {"target_bounds": (0, 1e7)} if kind is PrivateLinearRegression else {}
    bounds = {"feature_bounds": ((0, 0), (2e6, 1e18))}
    return kind(**grouped(**{"epsilon": 5.0, "delta": 1e-5, **bounds, **public, **options}))


def fit(kind: Any, given: dict[str, Any], **options: Any) -> Any:
    return build(kind, **options).fit(**given)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    """A ledger with next to no budget: whatever gets as far as a release is refused, which is quick."""
    path = tmp_path_factory.mktemp("ledger") / "l"
    with Ledger.create(path, ledger_data(X, Y), Budget(epsilon=1e-9, delta=1e-12)) as made:
        yield made
    assert marks_in(path.read_bytes().decode("latin-1")) == []


@pytest.fixture(scope="module")
def models() -> list[Any]:
    """Models of named columns, one of every kind."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [build(kind).fit(frame(), target_of(kind)) for kind in KINDS]


def fits(part: str, ledger: Any, value: Any) -> Calls:
    given, units = {"X": X, "y": Y} | {part: value}, ("record", "user") if part == "groups" else (None,)
    for kind in KINDS[:1] if part == "groups" else KINDS:
        for unit in units:
            yield (kind, unit), partial(fit, kind, given, ledger=ledger, **({"unit": unit} if unit else {}))


def uses(models: list[Any], table: Any, labels: Any = None) -> Calls:
    """Yield what is done with fitted models: predictions, unless labels are given, and scores."""
    for model in models:
        for method in ("predict", "predict_proba", "decision_function") if labels is None else ():
            if hasattr(model, method):
                yield (model, method), partial(getattr(model, method), table)
        own, numbers = (Y, T) if labels is None else (labels, labels)
        yield (model, "score"), partial(model.score, table, own)
        yield (model, "private_score"), partial(private_score, model, table, own, 1.0)
        yield (model, "largest"), partial(private_score, model, table, numbers, 1.0, largest=9.0)


def misplaced_in_fits(ledger: Any, value: Any) -> Calls:
    """Yield calls whose arguments are in the wrong order: a table is where a setting belongs."""
    for kind, name in (*((PrivateLogisticRegression, each) for each in SETTINGS), *OWN_SETTINGS):
        spend = {} if name == "random_state" else {"ledger": ledger}
        yield name, partial(fit, kind, {"X": X, "y": target_of(kind)}, **spend, **{name: value})
    for name, spend in (("groups", {"ledger": ledger}), ("persons", {"ledger": ledger}), ("persons", {})):
        yield name, partial(fit, PrivateLogisticRegression, {"X": X, "y": Y, name: value}, **spend)
    for name in ("epsilon", "delta", "silo_epsilon"):
        yield name, partial(Budget, **{"epsilon": 1.0, "delta": 1e-6, name: value})


def misplaced_in_metrics(models: list[Any], value: Any) -> Calls:
    for name in METRIC_SETTINGS:
        if name != "ledger" or not isinstance(value, str):  # a ledger's path may be shown
            options = {"epsilon": 1.0, "largest": 9.0} | {name: value}
            yield name, partial(private_score, models[0], frame(), Y, **options)


PLACES: dict[str, tuple[Callable[[], dict[str, Any]], Callable[..., Calls]]] = {
    "X of a fit": (tables, lambda ledger, _, value: fits("X", ledger, value)),
    "y of a fit": (targets, lambda ledger, _, value: fits("y", ledger, value)),
    "groups of a fit": (groupings, lambda ledger, _, value: fits("groups", ledger, value)),
    "X of a model": (tables, lambda _, models, value: uses(models, value)),
    "y of a model": (targets, lambda _, models, value: uses(models, frame(), value)),
    "data of a ledger": (tables, lambda _, __, value: iter([("", lambda: ledger_data(value, Y))])),
    "a setting of a fit": (misplaced, lambda ledger, _, value: misplaced_in_fits(ledger, value)),
    "a setting of a metric": (misplaced, lambda _, models, value: misplaced_in_metrics(models, value)),
}


@pytest.mark.parametrize(("place", "name"), [(place, name) for place, (make, _) in PLACES.items() for name in make()])
def test_no_call_shows_a_cell(ledger: Ledger, models: list[Any], place: str, name: str) -> None:
    make, calls = PLACES[place]
    value = make()[name]
    found = [(context, marks_in(output_of(call))) for context, call in calls(ledger, models, value)]
    assert found
    assert [each for each in found if each[1]] == []
    if place == "a setting of a metric":
        with pytest.raises(InputError):
            private_score(models[0], frame(), Y, value)


cells = st.one_of(
    st.sampled_from([CELL, NUMBER, LARGE, -LARGE, NUMBER * 1j, None, float("nan"), float("inf"), [NUMBER], {CELL: 1}]),
    st.sampled_from([str(NUMBER), CELL.encode(), pd.Timestamp("2017-08-17"), pd.NA, True, 10**400, np.float32(NUMBER)]),
)
rows = st.lists(st.lists(cells, min_size=1, max_size=3), min_size=1, max_size=4)
wrappings = st.sampled_from([lambda x: x, lambda x: np.array(x, dtype=object), pd.DataFrame, lambda x: x * 6, tuple])


@pytest.mark.parametrize("examples", [60, pytest.param(2000, marks=pytest.mark.slow)])
def test_awkward_cells_are_not_shown(ledger: Ledger, models: list[Any], examples: int) -> None:
    """Tables of awkward cells are tried on everything."""

    @settings(
        max_examples=examples, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(rows, wrappings, st.lists(cells, min_size=1, max_size=4), st.sampled_from(range(len(KINDS))))
    def attack(table: Any, wrap: Any, other: Any, which: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                given_x = wrap(table)
            except (ValueError, TypeError):
                given_x = table
        kind, model = KINDS[which], models[which]
        for call in (
            partial(fit, kind, {"X": given_x, "y": other}, ledger=ledger),
            partial(fit, kind, {"X": X, "y": other * 6, "groups": other * 6}, ledger=ledger),
            partial(fit, kind, {"X": X, "y": Y, "groups": table}, ledger=ledger),
            lambda: model.predict(given_x),
            lambda: model.score(given_x, other),
            lambda: model.score(frame(), other * 6),
            lambda: private_score(model, given_x, other, 1.0),
            lambda: private_score(model, given_x, other, 1.0, largest=9.0),
        ):
            assert marks_in(output_of(call)) == []

    attack()


# --- objects and values ---------------------------------------------------------------------------------------------


def test_objects_that_hold_records_do_not_print_them() -> None:
    from dpadmm.data.partition import EncodedTable
    from dpadmm.data.tables import encode_table
    from dpadmm.estimators.data import RowsBySilo
    from dpadmm.problems.silos import Silos
    from dpadmm.settings import CellRules

    schema = Schema((Numeric("age", 0, 2e6),), RealLabel("dose", 0, 1e18), row_norm=3.0)
    encoded = encode_table(schema, frame(), "t.csv", CellRules())
    facts = {"name": "d", "row_norm": 1e19, "description": "", "origin": ""}
    held = (
        Silos.from_parts([X[:, :1] / 1e6], [X[:, 0]], row_norm=1e7, names=[CELL]),
        EncodedTable(features=X, labels=T, groups=np.array([CELL] * N), **facts),
        encoded,
        RowsBySilo.of([CELL] * N, N),
    )
    for each in held:
        assert marks_in(repr(each) + str(each)) == [], type(each).__name__
    assert "1.0" not in repr(encoded)


def test_values_without_noise_are_not_in_messages() -> None:
    """A row above the norm, a value beyond the grid, a table of text: the refusals do not quote the value."""
    from dpadmm.noise.mechanisms import MessageKind
    from dpadmm.noise.sampler import Draw, SecureSampler, grid_for
    from dpadmm.privacy.protection import Certificate, Protection, Unit, View
    from dpadmm.privacy.releases import GaussianRelease
    from dpadmm.problems.losses import Logistic
    from dpadmm.problems.problem import EmpiricalRisk
    from dpadmm.problems.silos import Silos
    from dpadmm.solvers.solver import Solution, Subproblem, require_converged

    certificate = Certificate(
        bound=1.0,
        protection=Protection(unit=Unit.RECORD, view=View.EAVESDROPPER),
        theorem="C1",
        assumptions=("a",),
        grid=grid_for(1e-9),
        grid_dimension=2,
    )
    release = GaussianRelease(certificate=certificate, noise_std=1e-9, agent=0, round=1)
    value, column = np.full((1, 2, 1), LARGE), np.full((1, 2, 1), NUMBER)
    sub = Subproblem(column, column, np.ones(1), column)
    for call in (
        lambda: SecureSampler().perturb(value, release, Draw(MessageKind("message"), 1, [0])),
        lambda: Silos.from_parts([X], [T], row_norm=1.0),
        lambda: Silos.from_parts([[[CELL]]], [[1.0]], row_norm=1.0),
        lambda: EmpiricalRisk(Silos.from_parts([np.zeros((N, 2))], [T], row_norm=1.0), Logistic()),
        lambda: Silos.from_parts([[[1.0]]], [[CELL]], row_norm=1.0),
        lambda: require_converged(Solution(column, np.full((1, 1), NUMBER), np.zeros(1)), 1e-9, sub),
    ):
        output = output_of(call)
        assert "Error" in output
        assert marks_in(output) == []
