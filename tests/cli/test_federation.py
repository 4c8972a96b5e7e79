"""`dpadmm silo`, `coordinator` and `federate`: what they make, say and refuse."""

import json
import re
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")

from dpadmm.errors import InputError
from dpadmm.federation.agreement import (
    Agreement,
    CountedColumns,
    NoiseOrigin,
    Participant,
    read_federation,
    write_federation,
)
from dpadmm.federation.keys import fingerprint
from dpadmm.federation.policy import MOST_ROUNDS
from dpadmm.federation.silo import Silo
from dpadmm.federation.silo_directory import schema_digest
from dpadmm.privacy.protection import Protection, View
from dpadmm.settings import CellRules


def init(cli, name, *more):
    options = ("--data", f"{name}.csv", "--schema", "schema.json", "--budget-epsilon", "2", "--delta", "1e-5")
    return cli.run("silo", "init", name, *options, *more)


def terms(key, *people, **change):
    """Return the terms of a federation of these participants."""
    standard = {"method": "p-admm", "settings": (("eta", 0.05),), "rounds": 3, "epsilon": 1.0, "delta": 1e-5}
    return Agreement(
        run="trial",
        participants=people,
        coordinator=key,
        schema=schema_digest("schema.json"),
        dimension=3,
        edges=((0, 1),),
        mu=0.01,
        **(standard | change),
    )


def made(cli):
    """Make a coordinator and two silos; return the coordinator's key and the participants."""
    said = cli.run("coordinator", "init", "coordinator").stdout
    key = re.search(r'coordinator = "(\w{64})"', said)[1]
    people = []
    for name in ("north", "south"):
        result = init(cli, name)
        assert result.exit_code == 0, result.output
        found = re.search(r'name = "(\w+)"\nrecords = (\d+)\nkey = "(\w{64})"', result.stdout)
        people.append(Participant(found[1], int(found[2]), found[3]))
    return key, people


def test_init_approve_show(cli, place):
    key, people = made(cli)
    assert people[0].records == 40
    for secret in (
        "north/silo.key",
        "north/silo.db.key",
        "north/silo.db",
        "coordinator/coordinator.key",
    ):
        assert stat.S_IMODE((place / secret).stat().st_mode) == 0o600, secret
    assert not (place / "north" / "rehearsal.db").exists()
    write_federation(place / "federation.toml", terms(key, *people))
    approved = cli.run("silo", "approve", "north", "federation.toml", "--yes")
    assert approved.exit_code == 0, approved.output
    assert "Certified cost to a record here: epsilon 1 at delta 1e-05" in approved.stdout
    assert "Rows are encoded by public bounds alone" in approved.stdout
    shown = cli.run("silo", "show", "north", "--log")
    assert "# dimension = 3; with a [profile] also: n_numeric = 2, n_categorical = 0, size = 42" in shown.stdout
    assert "approved: run 'trial'" in shown.stdout
    assert "Spent      epsilon 0 of 2" in shown.stdout


def test_terms_are_shown_as_stated_before_anything_is_computed_from_them(cli, place, monkeypatch):
    key, people = made(cli)
    write_federation(place / "federation.toml", terms(key, *people, rounds=MOST_ROUNDS + 1))

    def computed(_):
        raise AssertionError("the noise was computed")

    monkeypatch.setattr("dpadmm.federation.terms.agreed_run", computed)
    monkeypatch.setattr("dpadmm.federation.silo.agreed_run", computed)
    refused = cli.run("silo", "approve", "north", "federation.toml", "--yes")
    assert refused.exit_code == 2
    assert f"Run 'trial': p-admm, {MOST_ROUNDS + 1} rounds" in refused.stdout
    assert "asks for epsilon 1 at delta 1e-05" in refused.stdout
    assert f"north allows at most {MOST_ROUNDS} rounds (most_rounds in policy.toml)" in " ".join(refused.stderr.split())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"clip_radius": 0.6}, "Rows are encoded by public bounds and categories alone"),
        (
            {"clip_radius": 0.6, "profile": CountedColumns(share=0.1, n_numeric=2, n_categorical=0, size=42)},
            "Round 0 releases a column profile (noisy counts), which alone costs epsilon 0.285;",
        ),
        ({"class_weights": (0.5, 1.0)}, "Records are weighted by their class (at most 0: 0.5, above 0: 1); these"),
    ],
)
def test_an_owner_is_told_how_rows_are_encoded(cli, place, change, words):
    key, people = made(cli)
    write_federation(place / "federation.toml", terms(key, *people, **change))
    approved = cli.run("silo", "approve", "north", "federation.toml", "--yes")
    assert approved.exit_code == 0, approved.output
    assert words in approved.stdout
    assert "Certified cost to a record here: epsilon 1 at delta 1e-05" in approved.stdout


def test_a_rehearsal_encodes_as_the_planner_would(cli, place, monkeypatch):
    """By public knowledge where counts would drown in noise, else by a profile."""
    built = []

    def stop(_place, tables, _schema, build, _policy, _budget):
        people = [Participant(name, len(table), f"{i}" * 64) for i, (name, table) in enumerate(tables.items())]
        built.append(build(people, "a" * 64, "b" * 64))
        raise InputError("Enough.")

    monkeypatch.setattr("dpadmm.federation.admin.rehearsal.prepare_rehearsal", stop)
    many = "age,dose,result\n" + "".join(f"{20 + i % 60},{i % 7},{(-1) ** i}\n" for i in range(4000))
    (place / "many.csv").write_text(many)
    for table in ("north.csv", "many.csv"):
        cli.run("federate", "--local", "2", "--data", table, "--schema", "schema.json")
    weighted = ("--class-weight", "above 0=4", "--class-weight", "at most 0=2")
    cli.run("federate", "--local", "2", "--data", "north.csv", "--schema", "schema.json", *weighted)
    assert built.pop().class_weights == (0.5, 1.0)
    assert built[0].class_weights == ()
    small, large = built
    assert small.clip_radius == large.clip_radius > 0
    counted = large.profile
    assert small.profile is None
    assert 0 < counted.share <= 0.1
    assert (counted.n_numeric, counted.n_categorical, counted.size) == (2, 0, 42)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "fp-coordinator", "settings": (("gamma", 1.0),), "edges": ()}, "does not allow the method"),
        ({"noise": NoiseOrigin.TEST}, "secure noise only"),
        ({"rounds": 3, "dimension": 2}, "a different schema"),
    ],
)
def test_terms_against_the_policy_are_not_approved(cli, place, change, words):
    key, people = made(cli)
    standard = {"dimension": 3, "edges": ((0, 1),)}
    write_federation(place / "federation.toml", replace(terms(key, *people), **(standard | change)))
    result = cli.run("silo", "approve", "north", "federation.toml", "--yes")
    assert result.exit_code == 2
    assert words in result.stderr
    assert all(entry.event != "approved" for entry in Silo(place / "north").store.log())


def test_a_graph_by_name(cli, place):
    key, people = made(cli)
    write_federation(place / "federation.toml", terms(key, *people))
    text = (place / "federation.toml").read_text()
    (place / "federation.toml").write_text(re.sub(r"edges = .*", 'graph = "path"', text))
    assert cli.run("silo", "approve", "south", "federation.toml", "--yes").exit_code == 0
    (place / "federation.toml").write_text(re.sub(r"edges = .*", 'graph = "web"', text))
    assert "graph must be one of" in cli.run("silo", "approve", "south", "federation.toml", "--yes").stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["federate"], "Give a FEDERATION.toml, a --study, or --local N"),
        (["federate", "--local", "1"], "at least 2"),
        (["federate", "any.toml", "--class-weight", "a=2"], "Leave out --class-weight, or draft other terms"),
        (["federate", "--local", "2", "--class-weight", "ill=2"], "which is no class of the schema"),
        (["federate", "--local", "2", "--class-weight", "ill"], "takes CLASS=NUMBER"),
        (["federate", "federation.toml"], "--coordinator DIR"),
        (["federate", "--local", "2", "--data", "north.csv"], "public schema"),
        (["federate", "federation.toml", "--coordinator", "c", "--page", "p.html"], "Add --schema FILE"),
        (["federate", "federation.toml", "--coordinator", "c", "--out", "o.json"], "Add --schema FILE"),
        (
            ["federate", "federation.toml", "--coordinator", "c", "--out", "none/o.json", "--schema", "schema.json"],
            "does not exist",
        ),
        (
            ["federate", "federation.toml", "--coordinator", "c", "--page", "p", "--schema", "none"],
            "Cannot read the schema",
        ),
        (["federate", "--local", "2", "--page", "north.csv"], "exists already"),
        (["federate", "--local", "2", "--out", "o"], "ends in .json or .npz"),
        (["federate", "--local", "2", "--out", "o.json", "--page", "./o.json"], "are the same file"),
        (["silo", "show", "nowhere"], "nowhere is no silo's directory: it has no policy.toml"),
        (["federate", "federation.toml", "--coordinator", "c"], "Cannot read the federation file"),
    ],
)
def test_clear_refusals(cli, place, words, said):
    result = cli.run(*words)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_silos_directory_is_no_coordinators_and_the_other_way_round(cli, place):
    key, people = made(cli)
    write_federation(place / "federation.toml", terms(key, *people))
    for words, said in (
        (("silo", "show", "coordinator"), "coordinator is a coordinator's directory"),
        (("silo", "approve", "coordinator", "federation.toml"), "coordinator is a coordinator's directory"),
        (("federate", "federation.toml", "--coordinator", "north"), "north is a silo's directory"),
        (("federate", "federation.toml", "--coordinator", "."), ". is no coordinator's directory"),
    ):
        result = cli.run(*words)
        assert result.exit_code == 2
        assert said in result.stderr


def test_silos_and_coordinators_are_never_overwritten(cli, place):
    made(cli)
    assert "not empty" in init(cli, "north").stderr
    assert "not empty" in cli.run("coordinator", "init", "coordinator").stderr


def test_a_rehearsal_refuses_awkward_cells_unless_told_otherwise(cli, place, monkeypatch):
    """Before anything is started, by the user's own file and row; the silos' policies then say the same."""
    policies = []

    def stop(_place, _tables, _schema, _build, policy, _budget):
        policies.append(policy("north", Path("north.csv"), Path("schema.json")))
        raise InputError("Enough.")

    monkeypatch.setattr("dpadmm.federation.admin.rehearsal.prepare_rehearsal", stop)
    (place / "north.csv").write_text((place / "north.csv").read_text().replace("23,3,", "23,,"))
    words = ("federate", "--local", "2", "--data", "north.csv", "--schema", "schema.json")
    assert "north.csv, row 4, column 'dose': the cell is empty." in cli.run(*words).stderr
    assert not policies
    assert "Enough." in cli.run(*words, "--missing", "blank").stderr
    assert policies[0].screening == CellRules(missing="blank")


def test_a_silo_with_a_budget_against_others_approves_no_sums(cli, place):
    key, people = made(cli)
    shutil.copy("north.csv", "east.csv")
    result = init(cli, "east", "--allow", "noisy-gradients")
    found = re.search(r'name = "(\w+)"\nrecords = (\d+)\nkey = "(\w{64})"', result.stdout)
    people.append(Participant(found[1], int(found[2]), found[3]))
    sums = {"edges": (), "protection": Protection(view=View.AGGREGATE)}
    masked = {"method": "noisy-gradients", "settings": (("step", 0.5),)} | sums
    write_federation(place / "federation.toml", replace(terms(key, *people), **masked))
    peers = [word for each in people[:2] for word in ("--peer", f"{each.name}={fingerprint(each.key)}")]
    approved = cli.run("silo", "approve", "east", "federation.toml", "--yes", *peers)
    assert approved.exit_code == 2
    assert "against the eavesdropper" in approved.stderr
    assert "create the silo with --view aggregate" in approved.stderr


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--view", "public"), "is not one of"),
        (("--colluders", "1"), "is for --view aggregate"),
        (("--view", "aggregate", "--trust-coordinator"), "choose either --trust-coordinator or the view aggregate"),
        (("--view", "aggregate", "--colluders", "-1"), "colluders"),
    ],
)
def test_views_that_a_silo_cannot_have(cli, place, more, words):
    result = init(cli, "north", *more)
    assert result.exit_code == 2
    assert words in result.stderr
    assert not (place / "north").exists()


def drafted(cli, *more):
    return cli.run(
        *("federate", "draft", "north/silo.entry", "south/silo.entry", "--schema", "schema.json"),
        *("--epsilon", "1", "--delta", "1e-5", *more),
    )


def test_terms_are_drafted_from_entries_and_approved_by_their_silos(cli, place):
    """Without a coordinator one is made; with one, its key is in the terms."""
    for name in ("north", "south"):
        assert f"Send {name}/silo.entry" in init(cli, name).stdout
    done = drafted(cli)
    assert done.exit_code == 0, done.output
    assert "Wrote the terms to federation.toml, digest " in done.stdout
    assert "dpadmm silo approve DIR federation.toml" in done.stdout
    terms = read_federation(place / "federation.toml")
    assert [(each.name, each.records) for each in terms.participants] == [("north", 40), ("south", 40)]
    assert (terms.run, terms.epsilon, terms.delta) == ("federation", 1.0, 1e-5)
    for name in ("north", "south"):
        assert cli.run("silo", "approve", name, "federation.toml", "--yes").exit_code == 0
    again = drafted(cli, "--name", "second", "--out", "second.toml", "--class-weight", "above 0=2")
    assert again.exit_code == 0, again.output
    assert "Weights   0.5, 1, in the order of the schema's classes; no forecast knows of them" in again.stdout
    assert "Weights" not in done.stdout
    assert read_federation(place / "second.toml").class_weights == (0.5, 1.0)
    assert read_federation(place / "second.toml").coordinator == terms.coordinator


def test_drafts_that_cannot_be_made_leave_nothing(cli, place):
    init(cli, "north")
    assert "silo.entry is not a silo's entry" in drafted(cli).stderr
    init(cli, "south")
    assert "--out" in drafted(cli, "--out", "schema.json").stderr
    assert "epsilon" in drafted(cli, "--epsilon", "-1").stderr
    entry = place / "south" / "silo.entry"
    told = entry.read_text()
    entry.write_text(re.sub("methods = .*", 'methods = ["dvp"]', told))
    assert "which south does not allow" in drafted(cli).stderr
    entry.write_text(told)
    assert not (place / "coordinator").exists()
    (place / "federation.toml").write_text("mine")
    assert "exists already" in drafted(cli).stderr
    assert (place / "federation.toml").read_text() == "mine"


def test_an_owner_reads_the_classes_as_the_schema_writes_them(cli, place):
    from dpadmm.cli.approval import _weight_words

    key, people = made(cli)
    said = json.loads((place / "schema.json").read_text(encoding="utf-8"))
    said["label"] = {"kind": "binary", "name": said["label"]["name"], "positive": [">50K"], "negative": ["No"]}
    (place / "schema.json").write_text(json.dumps(said), encoding="utf-8")
    silo = type("Owner", (), {"files": type("Files", (), {"schema": place / "schema.json"})})
    words = _weight_words(silo, terms(key, *people, class_weights=(0.5, 1.0)))
    assert words.startswith("  Records are weighted by their class (No: 0.5, >50K: 1)")
