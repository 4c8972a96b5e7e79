"""`dpadmm silo new-data`, `silo rotate-key`, `coordinator rotate-key`, and what `approve` says of the budget."""

import re
from dataclasses import replace

import pytest

pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")

from dpadmm.data.reading import read_file
from dpadmm.federation.agreement import Agreement, Participant, write_federation
from dpadmm.federation.coordinator import open_run
from dpadmm.federation.coordinator_store import CoordinatorFiles
from dpadmm.federation.keys import SigningKey, fingerprint
from dpadmm.federation.messages import Join
from dpadmm.federation.policy import Policy, SiloEntry
from dpadmm.federation.process_lock import sole
from dpadmm.federation.silo import Silo
from dpadmm.federation.silo_directory import SiloDirectory, schema_digest
from dpadmm.settings import TableFormat


@pytest.fixture
def terms(cli, place):
    """A coordinator and the silos north and south; the terms of a run of theirs, in federation.toml."""
    assert cli.run("coordinator", "init", "coordinator").exit_code == 0
    people = []
    for name in ("north", "south"):
        options = ("--data", f"{name}.csv", "--schema", "schema.json", "--budget-epsilon", "2", "--delta", "1e-5")
        assert cli.run("silo", "init", name, *options).exit_code == 0
        entry = SiloEntry.load(place / name / "silo.entry")
        people.append(Participant(entry.name, entry.records, entry.key))
    agreement = Agreement(
        run="trial",
        method="p-admm",
        settings=(("eta", 0.05),),
        rounds=3,
        epsilon=1.0,
        delta=1e-5,
        participants=tuple(people),
        coordinator=CoordinatorFiles(place / "coordinator").key().public,
        schema=schema_digest(place / "schema.json"),
        dimension=3,
        edges=((0, 1),),
        mu=0.01,
    )
    write_federation(place / "federation.toml", agreement)
    return agreement


def approve(cli, *more):
    return cli.run("silo", "approve", "north", "federation.toml", *(more or ("--yes",)))


def joined(place, terms):
    """Let north join the run."""
    silo = Silo(place / "north")
    silo.answer(CoordinatorFiles(place / "coordinator").key().seal(Join(terms).encode()))
    silo.close()


def later_table(place, *lines):
    """Write the table of north with further lines; return its name."""
    (place / "later.csv").write_text((place / "north.csv").read_text() + "".join(f"{line}\n" for line in lines))
    return "later.csv"


def test_new_data(cli, place, terms):
    assert approve(cli).exit_code == 0
    done = cli.run("silo", "new-data", "north", "--data", later_table(place, "40,3,1"))
    assert done.exit_code == 0, done.output
    assert f"north now uses version 2 of its data, {place / 'later.csv'}: 41 records." in done.stdout
    assert "Spent on all versions: epsilon 0 of 2; left 2." in done.stdout
    void = "can no longer be joined, because their terms state another number of records: 'trial'."
    assert void in done.stdout
    assert SiloEntry.load(place / "north" / "silo.entry").records == 41
    assert Policy.load(place / "north" / "policy.toml").data == str(place / "later.csv")
    shown = cli.run("silo", "show", "north").stdout
    assert "records = 41" in shown
    assert "Data       version 2, since" in shown
    assert "already uses version 2" in cli.run("silo", "new-data", "north", "--data", "later.csv").stdout


def test_cells_are_read_as_before_unless_something_else_is_said(cli, place, terms):
    gaps = later_table(place, ",3,1")
    refused = cli.run("silo", "new-data", "north", "--data", gaps)
    assert refused.exit_code == 2
    assert "the cell is empty" in refused.stderr
    filled = cli.run("silo", "new-data", "north", "--data", gaps, "--missing", "fill")
    assert filled.exit_code == 0
    assert "Notes for the data holder" in filled.stderr
    policy = Policy.load(place / "north" / "policy.toml")
    assert (policy.screening.missing, policy.screening.unlisted) == ("fill", "error")
    (place / "bare.csv").write_text((place / gaps).read_text().split("\n", 1)[1])
    assert cli.run("silo", "new-data", "north", "--data", "bare.csv", "--no-header").exit_code == 2  # other names


def test_a_run_under_way_must_be_given_up_by_name(cli, place, terms):
    approve(cli)
    joined(place, terms)
    words = ("silo", "new-data", "north", "--data", later_table(place, "40,3,1"))
    refused = cli.run(*words)
    assert refused.exit_code == 2
    assert "Unfinished runs: 'trial'" in refused.stderr
    assert "Ended for good: 'trial'." in cli.run(*words, "--abandon").stdout


@pytest.mark.parametrize(
    "words", [("new-data", "north", "--data", "north.csv"), ("rotate-key", "north")], ids=["data", "key"]
)
def test_a_silo_that_serves_is_left_alone(cli, place, terms, words):
    before = (place / "north" / "silo.key").read_bytes()
    with sole(SiloDirectory(place / "north").lock, "test"):
        refused = cli.run("silo", *words)
    assert refused.exit_code == 2
    assert "This silo is already running" in refused.stderr
    assert (place / "north" / "silo.key").read_bytes() == before
    for other in ("coordinator", "nowhere"):
        refused = cli.run("silo", words[0], other, *words[2:])
        assert (refused.exit_code, "Give a directory made by `dpadmm silo init`" in refused.stderr) == (2, True)
    assert not (place / "nowhere").exists()


def test_a_new_key_and_what_to_do_next(cli, place, terms):
    approve(cli)
    done = cli.run("silo", "rotate-key", "north")
    assert done.exit_code == 0, done.output
    key = SigningKey.load(place / "north" / "silo.key").public
    assert key != terms.participants[0].key
    assert f'key = "{key}"' in done.stdout
    assert f"but not through the coordinator: {fingerprint(key)}" in done.stdout
    kept = re.search(r"The old key is kept in (\S+),", done.stdout)[1]
    assert SigningKey.load(place / kept).public == terms.participants[0].key
    assert re.fullmatch(r"silo-\d{4}-\d\d-\d\d-[0-9a-f]{8}\.key", kept.rsplit("/", 1)[1])
    assert "because their terms name the old key: 'trial'" in done.stdout
    assert "--peer" in done.stdout
    assert SiloEntry.load(place / "north" / "silo.entry").key == key
    refused = approve(cli)
    assert refused.exit_code == 2
    assert "The terms name a different key for north" in refused.stderr


def test_a_key_may_be_forgotten_and_runs_given_up(cli, place, terms):
    approve(cli)
    joined(place, terms)
    assert "Unfinished runs" in cli.run("silo", "rotate-key", "north").stderr
    done = cli.run("silo", "rotate-key", "north", "--forget", "--abandon")
    assert "The old key is destroyed here" in done.stdout
    assert "Ended for good: 'trial'." in done.stdout
    assert not list((place / "north").glob("silo-*.key"))


def test_a_coordinators_new_key(cli, place, terms):
    files = CoordinatorFiles(place / "coordinator")
    with sole(files.lock, "test"):
        assert "already running" in cli.run("coordinator", "rotate-key", "coordinator").stderr
    open_run(files, terms).close()
    assert "Unfinished runs: 'trial'" in cli.run("coordinator", "rotate-key", "coordinator").stderr
    done = cli.run("coordinator", "rotate-key", "coordinator", "--abandon")
    assert f'coordinator = "{files.key().public}"' in done.stdout
    assert files.key().public != terms.coordinator
    assert "Where policy.toml lists `coordinators`" in done.stdout
    stopped = cli.run("federate", "federation.toml", "--coordinator", "coordinator", "--schema", "schema.json")
    assert stopped.exit_code == 2
    assert "The coordinator's key has changed" in stopped.stderr
    assert "Give a directory made by `dpadmm coordinator init`" in cli.run("coordinator", "rotate-key", "north").stderr


def test_approve_tells_what_other_approved_runs_would_still_cost(cli, place, terms):
    first = approve(cli)
    assert "Left in this silo's ledger: epsilon 2 at delta 1e-05" in first.stdout
    assert "Other runs that are approved" not in first.stdout
    write_federation(place / "federation.toml", replace(terms, run="second", epsilon=0.5))
    second = approve(cli)
    assert second.exit_code == 0
    assert "None of it is reserved. Other runs that are approved and not finished" in second.stdout
    assert "\n  'trial': epsilon 1\n" in second.stdout
    again = approve(cli)
    assert "'second': epsilon" not in again.stdout  # it is the one that is asked about


def test_approve_refuses_at_once_what_the_budget_does_not_allow(cli, place, terms):
    write_federation(place / "federation.toml", replace(terms, epsilon=2.5))
    refused = approve(cli, "--peer", "south=" + fingerprint(terms.participants[1].key))  # it would ask, without --yes
    assert refused.exit_code == 2
    assert "2 is left; the 3 requested releases would cost 2.5 alone" in refused.stderr
    assert "Approve these terms?" not in refused.output
    assert not Silo(place / "north").store.agreements()


def test_a_silo_keeps_how_its_table_is_written(cli, place, terms):
    """Said once, and kept: also for its next table, unless that is of another kind."""
    names, *rows = (place / "north.csv").read_text().replace(",", ";").split()
    german = "".join(f"{line}\n" for line in (f"{names};weight", *(f"{row};1,5" for row in rows)))
    (place / "german.csv").write_text(german)
    words = ("--schema", "schema.json", "--budget-epsilon", "2", "--delta", "1e-5")
    made = cli.run("silo", "init", "west", "--data", "german.csv", *words, "--na-values", "?")
    assert made.exit_code == 0, made.output
    said = "german.csv read as: semicolons, decimal comma or point, utf-8, header, '?' for a missing value"
    assert said in made.stderr
    policy = Policy.load(place / "west" / "policy.toml")
    assert policy.written == TableFormat(sep=";", encoding="utf-8", na_values=("?",))  # and no mark that nobody stated
    (place / "next.csv").write_text(german + "40;?;1;1.234\n")  # the last cell fits both marks
    words = ("silo", "new-data", "west", "--data", "next.csv", "--missing", "fill")
    assert "Say --decimal ," in cli.run(*words).stderr
    done = cli.run(*words, "--decimal", ",")
    assert done.exit_code == 0, done.output
    policy = Policy.load(place / "west" / "policy.toml")
    assert policy.written == TableFormat(sep=";", decimal=",", encoding="utf-8", na_values=("?",))
    assert 'decimal = ","' in (place / "west" / "policy.toml").read_text()
    read_file(place / "next.csv", policy.written).frame.to_parquet(place / "next.parquet")
    done = cli.run("silo", "new-data", "west", "--data", "next.parquet")
    assert done.exit_code == 0, done.output
    assert "already uses version 2" in done.stdout  # the same data, whatever the file
    assert Policy.load(place / "west" / "policy.toml").written == TableFormat(na_values=("?",))
