"""`dpadmm silo`, `coordinator` and `federate`: what they make, show and pass on.

What they refuse is in tests/snapshots/terminal/refusals-federation.txt; rules and terms are those of tests/federation.
"""

import re
import stat
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")

from tests.cli.conftest import approve, init, participant, without_keys

from dpadmm.cli.approval import show_terms
from dpadmm.errors import InputError
from dpadmm.federation.keys import fingerprint
from dpadmm.federation.policy import MOST_ROUNDS, Policy
from dpadmm.federation.silo import Silo
from dpadmm.federation.terms import (
    CountedColumns,
    NoiseOrigin,
    Participant,
    Terms,
    read_federation,
    write_federation,
)
from dpadmm.privacy.protection import Protection, View
from dpadmm.settings import CellRules, TableFormat


def test_every_option_of_a_silo_arrives_in_its_policy(cli, place):
    args = "--allow noisy-gradients --coordinator " + "a" * 64 + " --least-noise 0.5 --missing fill --unlisted zero"
    more = "--out-of-range error --records-per-person 3 --view aggregate --colluders 2 --neighbours add-remove --sep ,"
    assert init(cli, "north", "--name", "clinic", *args.split(), *more.split()).exit_code == 0
    policy = Policy.load(place / "north" / "policy.toml")
    assert (policy.name, policy.methods, policy.coordinators) == ("clinic", ("noisy-gradients",), ("a" * 64,))
    assert (policy.least_noise, policy.written.sep) == (0.5, ",")
    assert policy.screening == CellRules(missing="fill", unlisted="zero", out_of_range="error")
    kept = policy.protection
    assert (kept.view, kept.colluders, kept.records_per_person) == (View.AGGREGATE, 2, 3)
    assert kept.relation.value == "add-or-remove"
    secret = [file for end in ("*.key", "*.db") for file in (place / "north").glob(end)]
    assert len(secret) >= 3
    assert {stat.S_IMODE(file.stat().st_mode) for file in secret} == {0o600}


def test_what_owners_are_shown(cli, terms, snapshot):
    weighted, profiled = {"class_weights": (0.5, 1.0)}, CountedColumns(share=0.1, n_numeric=2, n_categorical=0, size=42)
    first = approve(cli, replace(terms, **weighted))
    second = approve(cli, replace(terms, run="second", epsilon=0.5, clip_radius=0.6, profile=profiled))
    assert first.exit_code == second.exit_code == 0
    shown = cli.run("silo", "show", "north", "--log").stdout
    snapshot("terminal/approve.txt", without_keys(f"{first.stdout}\n{second.stdout}\n{shown}"))


def test_terms_are_shown_as_stated_before_anything_is_computed_from_them(cli, terms, monkeypatch):
    def compute(_):
        raise AssertionError("the noise was computed")

    monkeypatch.setattr(Terms, "spec", property(compute))
    refused = approve(cli, replace(terms, rounds=MOST_ROUNDS + 1))
    assert (refused.exit_code, f"{MOST_ROUNDS + 1} rounds" in refused.stdout) == (2, True)


def masked(terms, *more):
    sums = {"edges": (), "protection": Protection(view=View.AGGREGATE), "settings": (("step", 0.5),)}
    return replace(terms, method="noisy-gradients", participants=(*terms.participants, *more), **sums)


@pytest.mark.parametrize(
    "change",
    [
        {"method": "fp-coordinator", "settings": (("gamma", 1.0),), "edges": ()},
        {"noise": NoiseOrigin.TEST},
        {"dimension": 2},
        {"epsilon": 2.5},
    ],
    ids=["method", "noise", "schema", "budget"],
)
def test_terms_against_the_policy_or_the_budget_are_not_approved(cli, terms, change):
    refused = approve(cli, replace(terms, **change), "--peer", f"south={fingerprint(terms.participants[1].key)}")
    assert (refused.exit_code, "Approve these terms?" in refused.output) == (2, False)
    assert not Silo(Path("north")).store.all_terms()


def test_a_silo_with_a_budget_against_others_approves_no_sums(cli, place, terms):
    (place / "east.csv").write_text((place / "north.csv").read_text())
    init(cli, "east", "--allow", "noisy-gradients")
    peers = [term for each in terms.participants for term in ("--peer", f"{each.name}={fingerprint(each.key)}")]
    refused = approve(cli, masked(terms, participant("east")), "--yes", *peers, silo="east")
    assert refused.exit_code == 2
    assert "--view aggregate" in refused.stderr


def test_fingerprints_are_not_shown_to_who_has_to_compare_them(cli, terms):
    """Who reads one here and types it in has confirmed nothing."""
    north, south = (fingerprint(each.key) for each in terms.participants)
    init(cli, "patients", "--view", "aggregate", "--allow", "noisy-gradients")
    wanted = masked(terms, participant("patients"))
    bare = approve(cli, wanted, silo="patients")
    assert (bare.exit_code, north in bare.output) == (2, False)
    mixed = approve(cli, wanted, "--peer", f"north={north}", "--peer", f"south={north}", "--yes", silo="patients")
    assert (mixed.exit_code, south in mixed.output) == (2, False)
    right = approve(cli, wanted, "--peer", f"south={south}", "--yes", silo="patients")
    assert right.exit_code == 0, right.output
    assert f"{north}  confirmed" in right.stdout


def test_a_graph_by_name(cli, terms):
    write_federation(Path("federation.toml"), terms)
    text = Path("federation.toml").read_text()
    for name, code in (("web", 2), ("path", 0)):
        Path("federation.toml").write_text(re.sub(r"edges = .*", f'graph = "{name}"', text))
        assert cli.run("silo", "approve", "south", "federation.toml", "--yes").exit_code == code


def test_an_owner_reads_the_classes_as_the_schema_writes_them(cli, place, terms, capsys):
    text = (place / "schema.json").read_text(encoding="utf-8")
    label = '"label": {"kind": "binary", "name": "result", "positive": [">50K"], "negative": ["No"]}'
    changed = re.sub(r'"label": \{[^}]*\}', label, text)
    silo = Silo(place / "north")
    silo.files.schema.write_text(changed, encoding="utf-8")
    show_terms(silo, replace(terms, class_weights=(0.5, 1.0)))
    assert "(No: 0.5, >50K: 1)" in capsys.readouterr().out


def test_a_rehearsal_passes_on_its_settings_and_encodes_as_the_planner_would(cli, place, monkeypatch):
    """By public knowledge where counts would drown in noise, else by a profile; cells are refused before it starts."""
    built = []

    def stop(_place, tables, _schema, build, policy, _budget):
        people = [Participant(name, len(table), f"{i}" * 64) for i, (name, table) in enumerate(tables.items())]
        built.append((build(people, "a" * 64, "b" * 64), policy("north", Path("north.csv"), Path("schema.json"))))
        raise InputError("Enough.")

    def rehearse(table, *more):
        return cli.run("federate", "rehearse", "--data", table, "--schema", "schema.json", *more).stderr

    monkeypatch.setattr("dpadmm.federation.admin.rehearsal.prepare_rehearsal", stop)
    many = "age,dose,result\n" + "".join(f"{20 + i % 60},{i % 7},{(-1) ** i}\n" for i in range(4000))
    (place / "many.csv").write_text(many)
    (place / "gap.csv").write_text((place / "north.csv").read_text().replace("23,3,", "23,,"))
    assert "row 4, column 'dose'" in rehearse("gap.csv")
    assert not built
    rehearse("gap.csv", "--missing", "blank")
    rehearse("many.csv", "--silos", "4", "--rounds", "7", "--epsilon", "0.5", "--class-weight", "above 0=4")
    (small, policy), (large, _) = built
    assert (policy.screening, small.profile) == (CellRules(missing="blank"), None)
    assert small.clip_radius == large.clip_radius > 0
    assert (large.rounds, large.epsilon, large.class_weights) == (7, 0.5, (0.25, 1.0))
    assert [each.records for each in large.participants] == [1000] * 4
    counted = large.profile
    assert 0 < counted.share <= 0.1
    assert (counted.n_numeric, counted.n_categorical, counted.size) == (2, 0, 42)


def test_terms_are_drafted_from_entries_and_approved_by_their_silos(cli, place):
    """Without a coordinator one is made; with one, its key is in the terms. What cannot be made leaves nothing."""
    draft = ("federate", "draft", "north/silo.entry", "south/silo.entry", "--schema", "schema.json")
    draft = (*draft, "--epsilon", "1", "--delta", "1e-5")
    init(cli, "north")
    assert cli.run(*draft).exit_code == 2
    init(cli, "south")
    entry = place / "south" / "silo.entry"
    written = entry.read_text()
    entry.write_text(re.sub("methods = .*", 'methods = ["dvp"]', written))
    assert "south does" in cli.run(*draft).stderr
    entry.write_text(written)
    assert not (place / "coordinator").exists()
    done = cli.run(*draft)
    assert done.exit_code == 0, done.output
    terms = read_federation(place / "federation.toml")
    assert terms.participants == (participant("north"), participant("south"))
    assert (terms.run, terms.epsilon, terms.delta) == ("federation", 1.0, 1e-5)
    for name in ("north", "south"):
        assert cli.run("silo", "approve", name, "federation.toml", "--yes").exit_code == 0
    again = cli.run(*draft, "--name", "second", "--out", "second.toml", "--class-weight", "above 0=2")
    assert again.exit_code == 0, again.output
    second = read_federation(place / "second.toml")
    assert (second.class_weights, second.coordinator) == ((0.5, 1.0), terms.coordinator)


def test_a_silo_keeps_how_its_table_is_written(cli, place):
    """Said once, and kept: also for its next table, unless that is of another kind."""
    names, *rows = (place / "north.csv").read_text().replace(",", ";").split()
    german = "".join(f"{line}\n" for line in (f"{names};weight", *(f"{row};1,5" for row in rows)))
    (place / "west.csv").write_text(german)
    made = init(cli, "west", "--na-values", "?")
    assert "semicolons" in made.stderr

    def written():
        return Policy.load(place / "west" / "policy.toml").written

    assert written() == TableFormat(sep=";", encoding="utf-8", na_values=("?",))  # and no mark that nobody stated
    (place / "next.csv").write_text(german + "40;?;1;1.234\n")  # the last cell fits both marks
    args = ("silo", "new-data", "west", "--missing", "fill", "--data")
    assert "Say --decimal ," in cli.run(*args, "next.csv").stderr
    assert cli.run(*args, "next.csv", "--decimal", ",").exit_code == 0
    assert written() == TableFormat(sep=";", decimal=",", encoding="utf-8", na_values=("?",))
    from dpadmm.data.reading import read_file

    read_file(place / "next.csv", written()).frame.to_parquet(place / "next.parquet")
    assert "version 2" in cli.run(*args[:3], "--data", "next.parquet").stdout  # whatever the file
    assert written() == TableFormat(na_values=("?",))
