"""`dpadmm fit --person`: persons are counted and protected as one, and whatever does not fit is refused at no cost."""

import json

import numpy as np
import pandas as pd
import pytest

from dpadmm.core.dataset import Dataset
from dpadmm.core.model import ReleasedModel
from dpadmm.data.schema import Schema, Screening
from dpadmm.data.tables import read_silos
from dpadmm.errors import InputError
from dpadmm.estimators.tables import persons_of
from dpadmm.evaluation import private_evaluation
from dpadmm.evaluation.evaluate import TableEvaluation
from dpadmm.evaluation.scored_rows import ScoredRows
from dpadmm.privacy.ledger import open_for_reading
from dpadmm.settings import CellRules, EvaluationSettings, Privacy

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


def words(folder, *more, files=("north.csv", "south.parquet")):
    public = ("--schema", str(folder / "schema.json"), "--epsilon", "2", "--delta", "1e-5")
    return (*(str(folder / file) for file in files), *public, *more)


def test_persons_are_counted_protected_and_recorded(cli, clinics):
    out, ledger = clinics / "m.json", clinics / "l"
    asked = words(clinics, "--person", "patient", "--ledger", str(ledger))
    said = cli.ask("fit", *asked, "--keep", "2", "--budget", "5", "--out", str(out))
    assert said["protects"] == "every person with all their rows (replace-one)"
    model = ReleasedModel.load(out)
    assert [(silo.name, silo.records) for silo in model.silos] == [("north", 150), ("south", 100)]
    assert model.guarantee.protection.unit.value == "person"
    with open_for_reading(ledger) as book:
        assert book.protection.unit.value == "person"
    planned = cli.ask("plan", *words(clinics, "--person", "patient", "--no-curve"))
    assert planned["task"]["sizes"] == [150, 100]
    sizes = ("--sizes", "150,100", "--schema", str(clinics / "schema.json"), "--unit", "person", "--no-curve")
    assert planned["noise_std"] == cli.ask("plan", *sizes, "--epsilon", "2", "--delta", "1e-5")["noise_std"]
    again = cli.run("fit", *asked, "--out", str(clinics / "again.json"))
    assert again.exit_code == 0, again.output
    files = [str(clinics / file) for file in ("north.csv", "south.parquet")]
    cost = ("--epsilon", "0.5", "--delta", "1e-5", "--ledger", str(ledger))
    measured = cli.ask("evaluate", str(out), *files, *cost, "--person", "patient")
    assert measured["records"] == 250
    assert "persons, the first row of each" in measured["on"]
    assert [each.is_recorded for each in ReleasedModel.load(out).measurements] == [True]
    public = cli.run("evaluate", str(out), *files, "--public", "why", "--declare", "published", "--person", "patient")
    assert public.exit_code == 2
    assert "--person does not go with --public" in public.output
    check_that_no_record_is_measured_for_a_person(cli, clinics, out, ledger)


def check_that_no_record_is_measured_for_a_person(cli, clinics, model, ledger):
    """A figure that hides one visit is not paid by a budget about patients, nor bought in silence elsewhere."""
    asked = ("evaluate", str(model), str(clinics / "north.csv"), "--epsilon", "1", "--delta", "1e-5")
    before, other = ledger.read_bytes(), clinics / "other"
    paid = cli.run(*asked, "--ledger", str(ledger))
    assert paid.exit_code == 2
    assert "an evaluation with --person" in paid.stderr
    assert ledger.read_bytes() == before
    silent = cli.run(*asked, "--ledger", str(other), "--budget", "2")
    assert silent.exit_code == 2
    assert "with --records-per-person." in silent.stderr
    assert not other.exists()
    released, rows = ReleasedModel.load(model), pd.read_csv(clinics / "north.csv")
    with pytest.raises(InputError, match="with records_per_person"):
        private_evaluation(released, rows, rows["sick"], epsilon=1.0, delta=1e-5)
    said = cli.run(*asked, "--ledger", str(other), "--budget", "2", "--records-per-person", "4")
    assert said.exit_code == 0, said.output
    with open_for_reading(other) as book:
        assert book.protection.records_per_person == 4


def test_the_rows_that_are_kept_are_those_that_are_weighed(clinics):
    """With --keep a person's own first rows: other rows under their weights would let somebody count several times."""
    tables = read_silos([clinics / "north.csv", clinics / "south.parquet"], None, protection=None)
    whose = persons_of(tables, "patient", 2)
    made = Dataset.of_tables(Schema.load(clinics / "schema.json"), tables, Screening(), persons=whose)
    for part, people, table in zip(made.rows, made.people, tables.values(), strict=True):
        kept = table.frame.groupby("patient", sort=False).head(2)
        np.testing.assert_array_equal(part.cells[0].values, kept["age"].astype(float))
        sums = pd.Series(people.weights).groupby(kept["patient"].to_numpy()).sum()
        assert (sums.to_numpy() == 1.0).all()


def test_the_rows_that_are_measured_are_the_first_of_each_person(cli, clinics):
    """The first rows of a table, as many as there are persons, would count some persons several times."""
    cli.ask("fit", *words(clinics, "--person", "patient"), "--out", str(clinics / "m.json"))
    model, files = ReleasedModel.load(clinics / "m.json"), [clinics / "north.csv", clinics / "south.parquet"]
    tables = read_silos(files, None, protection=None)
    settings = EvaluationSettings(epsilon=1e5, delta=1e-5, person="patient")
    asked = TableEvaluation.of(clinics / "m.json", files, settings, Privacy(), CellRules())
    found = asked.run(tables).counts
    first = [(table.frame.groupby("patient", sort=False).head(1), table.where) for table in tables.values()]
    exact = ScoredRows.of(model, first, Screening(), None).counts(np.arange(250))
    np.testing.assert_allclose(found.counts, exact, atol=0.5)


def test_a_patient_of_both_clinics_is_found_before_anything_is_spent(cli, clinics):
    table = pd.read_parquet(clinics / "south.parquet")
    table.loc[0, "patient"] = 3  # a text in the other file
    table.to_parquet(clinics / "south.parquet")
    out, ledger = clinics / "m.json", clinics / "l"
    asked = words(clinics, "--person", "patient", "--ledger", str(ledger), "--budget", "5", "--out", str(out))
    refused = cli.run("fit", *asked)
    assert refused.exit_code == 2
    assert "One person has rows in 2 silos" in refused.output
    assert not out.exists()
    assert not ledger.exists()
    planned = cli.run("plan", *words(clinics, "--person", "patient", "--no-curve"))
    assert planned.exit_code == 2
    assert "Use --silos-per-person 2" in planned.stderr
    said = cli.ask("fit", *asked, "--silos-per-person", "2")
    assert said["protects"] == "every person with all their rows in up to 2 silos (replace-one)"
    files = (str(clinics / "north.csv"), str(clinics / "south.parquet"))
    measure = ("evaluate", str(out), *files, "--epsilon", "1", "--delta", "1e-5", "--person", "patient")
    unsaid = cli.run(*measure)
    assert unsaid.exit_code == 2
    assert "Use --silos-per-person 2" in unsaid.stderr
    assert cli.ask(*measure, "--silos-per-person", "2")["records"] == 251
    assert [each.is_unrecorded for each in ReleasedModel.load(out).measurements] == [True]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--keep", "2"), "--person COLUMN"),
        (("--unit", "person"), "--person COLUMN"),
        (("--person", "patient", "--unit", "user"), "Leave one out"),
        (("--person", "patient", "--records-per-person", "3"), "Leave out --records-per-person"),
        (("--person", "patient", "--keep", "0"), "--keep"),
        (("--person", "nobody"), "lacks the column 'nobody'"),
        (("--person", "sick"), "is a column of the schema"),
        (("--person", "patient", "--split-by", "patient"), "--unit user"),
        (("--person", "patient", "--method", "r-admm"), "not certified for the unit person"),
        (("--person", "patient", "--neighbours", "add-remove"), "--nominal-records must be given"),
    ],
)
def test_refusals(cli, clinics, more, told):
    result = cli.run("fit", *words(clinics, *more), "--out", str(clinics / "m.json"))
    assert result.exit_code == 2, result.output
    assert told in result.output
    assert not (clinics / "m.json").exists()


def test_rows_of_nobody(cli, clinics):
    table = pd.read_csv(clinics / "north.csv", dtype=str)
    table.loc[6, "patient"] = None
    table.to_csv(clinics / "north.csv", index=False)
    result = cli.run("fit", *words(clinics, "--person", "patient"))
    assert result.exit_code == 2
    assert "north.csv, row 7: the person is missing in 1 row." in result.output


def test_secret_numbers_of_persons(cli, clinics):
    """Persons may also be added or removed: sums of gradients, divided by a nominal number of persons."""
    more = ("--neighbours", "add-remove", "--nominal-records", "240", "--view", "public")
    said = cli.ask("fit", *words(clinics, "--person", "patient", *more), "--out", str(clinics / "m.json"))
    assert said["protects"] == "every person with all their rows (add-or-remove)"
    assert [silo["records"] for silo in said["silos"]] == [120, 120]
