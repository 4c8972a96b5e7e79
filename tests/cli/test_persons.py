"""`--person`: persons are counted, protected and measured as one. Refusals are in tests/snapshots/terminal."""

import json

import numpy as np
import pandas as pd
import pytest

from dpadmm.core.dataset import Dataset
from dpadmm.core.model import ReleasedModel
from dpadmm.data.schema import Schema
from dpadmm.data.tables import read_silos
from dpadmm.estimators.tables import persons_of
from dpadmm.evaluation.evaluate import evaluate
from dpadmm.evaluation.private import ScoredRows
from dpadmm.privacy.ledger import open_for_reading
from dpadmm.settings import CellRules, EvaluationSettings, Privacy

pytestmark = pytest.mark.usefixtures("instant_forecasts")
SCHEMA = {
    "format": "dpadmm-schema",
    "version": 1,
    "row_norm": 1.0,
    "constant": 0.3,
    "label": {"kind": "binary", "name": "sick", "positive": ["yes"], "negative": ["no"]},
    "columns": [{"kind": "numeric", "name": "age", "lower": 0, "upper": 120}],
}


@pytest.fixture
def clinics(tmp_path):
    """Two files of 150 and 100 patients with one to four visits each; the second is Parquet with whole numbers."""
    rng = np.random.default_rng(1)
    for name, first, n in (("north.csv", 0, 150), ("south.parquet", 150, 100)):
        who = rng.permutation(np.repeat(np.arange(first, first + n), rng.integers(1, 5, n)))
        age = rng.integers(20, 90, n)[who - first]
        table = pd.DataFrame({"patient": who, "age": age, "sick": np.where(age > 55, "yes", "no")})
        path = tmp_path / name
        table.to_csv(path, index=False) if name.endswith("csv") else table.to_parquet(path)
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    return tmp_path


def args(folder, *more):
    public = ("--schema", str(folder / "schema.json"), "--epsilon", "2", "--delta", "1e-5", "--person", "patient")
    return (str(folder / "north.csv"), str(folder / "south.parquet"), *public, *more)


def tables_of(folder):
    return read_silos([folder / "north.csv", folder / "south.parquet"], None, protection=None)


def test_persons_are_counted_protected_and_recorded(cli, clinics):
    out, ledger = clinics / "m.json", clinics / "l"
    asked = args(clinics, "--ledger", str(ledger))
    said = cli.ask("fit", *asked, "--keep", "2", "--budget", "5", "--out", str(out))
    assert said["protects"] == "every person with all their rows (replace-one)"
    assert [silo["records"] for silo in said["silos"]] == [150, 100]
    assert ReleasedModel.load(out).guarantee.protection.unit.value == "person"
    with open_for_reading(ledger) as opened:
        assert opened.protection.unit.value == "person"
    planned = cli.ask("plan", *args(clinics, "--no-curve"))
    sizes = ("--sizes", "150,100", "--schema", str(clinics / "schema.json"), "--unit", "person", "--no-curve")
    assert planned["task"]["sizes"] == [150, 100]
    assert planned["noise_std"] == cli.ask("plan", *sizes, "--epsilon", "2", "--delta", "1e-5")["noise_std"]
    cost = ("--epsilon", "0.5", "--delta", "1e-5", "--ledger", str(ledger))
    measured = cli.ask("evaluate", str(out), *asked[:2], *cost, "--person", "patient")
    assert (measured["records"], ReleasedModel.load(out).measurements[0].is_recorded) == (250, True)
    # A figure that hides one visit is not paid by a budget about patients, nor bought in silence elsewhere.
    one, before, other = ("evaluate", str(out), asked[0], *cost[:4]), ledger.read_bytes(), clinics / "other"
    for place in (("--ledger", str(ledger)), ("--ledger", str(other), "--budget", "2")):
        assert cli.run(*one, *place).exit_code == 2
    assert (ledger.read_bytes(), other.exists()) == (before, False)
    cli.ask(*one, "--ledger", str(other), "--budget", "2", "--records-per-person", "4")
    with open_for_reading(other) as opened:
        assert opened.protection.records_per_person == 4


def test_the_rows_that_are_kept_are_those_that_are_weighed(clinics):
    """With --keep a person's own first rows: other rows under their weights would let somebody count several times."""
    tables = tables_of(clinics)
    persons = persons_of(tables, "patient", 2)
    made = Dataset.of_tables(Schema.load(clinics / "schema.json"), tables, CellRules(), persons=persons)
    for part, people, table in zip(made.rows, made.people, tables.values(), strict=True):
        kept = table.frame.groupby("patient", sort=False).head(2)
        np.testing.assert_array_equal(part.cells[0].values, kept["age"].astype(float))
        sums = pd.Series(people.weights).groupby(kept["patient"].to_numpy()).sum()
        assert (sums.to_numpy() == 1.0).all()


def test_the_rows_that_are_measured_are_the_first_of_each_person(cli, clinics):
    """The first rows of a table, as many as there are persons, would count some persons several times."""
    cli.ask("fit", *args(clinics), "--out", str(clinics / "m.json"))
    model, tables = ReleasedModel.load(clinics / "m.json"), tables_of(clinics)
    settings = EvaluationSettings(epsilon=1e5, delta=1e-5, person="patient")
    files = [clinics / "north.csv", clinics / "south.parquet"]
    found = evaluate(clinics / "m.json", files, settings, Privacy(), CellRules()).counts
    first = [(table.frame.groupby("patient", sort=False).head(1), table.where) for table in tables.values()]
    exact = ScoredRows.of(model, first, CellRules(), None).counts(np.arange(250))
    np.testing.assert_allclose(found.counts, exact, atol=0.5)


def test_a_patient_of_both_clinics_is_found_before_anything_is_spent(cli, clinics):
    table = pd.read_parquet(clinics / "south.parquet")
    table.loc[0, "patient"] = 3  # a text in the other file
    table.to_parquet(clinics / "south.parquet")
    out, ledger = clinics / "m.json", clinics / "l"
    asked = args(clinics, "--ledger", str(ledger), "--budget", "5", "--out", str(out))
    for refused in (("fit", *asked), ("plan", *args(clinics, "--no-curve"))):
        assert "Use --silos-per-person 2" in cli.run(*refused).stderr
    assert (out.exists(), ledger.exists()) == (False, False)
    said = cli.ask("fit", *asked, "--silos-per-person", "2")
    assert said["protects"] == "every person with all their rows in up to 2 silos (replace-one)"
    measure = ("evaluate", str(out), *asked[:2], "--epsilon", "1", "--delta", "1e-5", "--person", "patient")
    assert "Use --silos-per-person 2" in cli.run(*measure).stderr
    assert cli.ask(*measure, "--silos-per-person", "2")["records"] == 251
    assert [each.is_unrecorded for each in ReleasedModel.load(out).measurements] == [True]


def test_secret_numbers_of_persons(cli, clinics):
    """Persons may also be added or removed: sums of gradients, divided by a nominal number of persons."""
    more = ("--neighbours", "add-remove", "--nominal-records", "240", "--view", "public")
    said = cli.ask("fit", *args(clinics, *more), "--out", str(clinics / "m.json"))
    assert said["protects"] == "every person with all their rows (add-or-remove)"
    assert [silo["records"] for silo in said["silos"]] == [120, 120]
