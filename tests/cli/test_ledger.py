"""`dpadmm ledger`: what it shows is what is recorded, only `budget` writes, and bad files get clear messages."""

import json
import os
import re
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from dpadmm.methods.dvp import DVP
from dpadmm.methods.p_admm import PADMM
from dpadmm.privacy.certificates.sums import column_profile
from dpadmm.privacy.ledger import Budget, Ledger, ProfiledColumns, SiloColumns
from dpadmm.privacy.protection import ONE_RECORD
from dpadmm.privacy.releases import GaussianRelease, Origin
from dpadmm_research.accounting.public_facts import one_agent

DATA = (SiloColumns("clinic", {"x": np.arange(6.0).reshape(3, 2), "y": np.array([1, -1, 1])}),)
AGENT = one_agent(PADMM, records=1000, degree=2, eta=0.05, mu=0.01, rounds=5)


@pytest.fixture
def path(tmp_path):
    """A ledger with two runs, one refusal and room left, closed."""
    place = tmp_path / "clinic.ledger"
    with Ledger.create(place, DATA, Budget(epsilon=1.0, delta=1e-5)) as ledger:
        for run, std in (("pilot", 1.0), ("trial", 0.5)):
            ledger.confirm(DATA).reserve(AGENT.releases(std), run=run, algorithm="p-admm", origin=Origin.SECURE)
        with pytest.raises(Exception, match="Refused"):
            ledger.confirm(DATA).reserve(AGENT.releases(1e-3), run="greedy", algorithm="p-admm", origin=Origin.SECURE)
    return place


def contents(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


def head_of(path: Path) -> str:
    with Ledger.open(path) as ledger:
        return ledger.head


def test_show_says_which_version_of_the_data_each_run_was_about(cli, path):
    assert "version" not in cli.run("ledger", "show", str(path)).stdout
    with Ledger.open(path) as ledger:
        ledger.add_version([SiloColumns("clinic", {"x": np.ones((4, 2))})])
        since = ledger.statement().version_since
    shown = cli.ask("ledger", "show", str(path))
    assert (shown["data_version"], shown["data_since"]) == (2, since)
    assert [run["version"] for run in shown["runs"]] == [1, 1]
    text = cli.run("ledger", "show", str(path)).stdout
    assert f"Data       version 2, since {since[:19]} UTC" in text
    assert len(re.findall(r"p-admm +│ +1 │", text)) == 2


def test_show_says_what_is_recorded(cli, path):
    with Ledger.open(path) as ledger:
        said = ledger.statement()
    shown = cli.ask("ledger", "show", str(path))
    assert shown["budget"] == {"epsilon": 1.0, "delta": 1e-5}
    assert shown["spent_epsilon"] == said.spent_epsilon
    assert shown["left_epsilon"] == pytest.approx(1 - said.spent_epsilon)
    assert shown["head"] == said.head
    assert (shown["releases"], shown["refusals"]) == (10, 1)
    assert shown["strength"] == "certified up to solver error"
    assert shown["holds_adaptively"] is True
    alone = {run["run"]: run["alone_epsilon"] for run in shown["runs"]}
    assert alone["pilot"] == pytest.approx(AGENT.account(1.0).curve.epsilon(1e-5), rel=1e-9)
    assert alone["trial"] == pytest.approx(AGENT.account(0.5).curve.epsilon(1e-5), rel=1e-9)
    assert [run["releases"] for run in shown["runs"]] == [5, 5]
    text = cli.run("ledger", "show", str(path)).stdout
    for figure in (shown["spent_epsilon"], shown["left_epsilon"], *alone.values()):
        assert f"{figure:.6g}" in text
    assert shown["head"] in text
    assert "however later noise was chosen" in text


def test_show_lists_the_profiles_that_are_kept(cli, path):
    assert cli.ask("ledger", "show", str(path))["profiles"] == []
    counts = column_profile(n_numeric=2, n_categorical=0, n_records=3, protection=ONE_RECORD)
    release = GaussianRelease(certificate=counts, noise_std=31.0, agent=0, round=0)
    subject = ProfiledColumns("form", ("x[0]", "x[1]"), 3, ONE_RECORD)
    with Ledger.open(path) as ledger:
        mine = ledger.confirm(DATA)
        mine.reserve([release], run="counted", algorithm="p-admm", origin=Origin.SECURE)
        mine.keep_profile(subject, "counted", (1.5, -2.0, 0.25), 31.0)
        mark = ledger.profiles()[0].data
    shown = cli.ask("ledger", "show", str(path))
    (kept,) = shown["profiles"]
    assert (kept["run"], kept["columns"], kept["records"], kept["noise_std"]) == ("counted", 2, 3, 31.0)
    assert kept["counts"] == [1.5, -2.0, 0.25]
    assert mark not in json.dumps(shown)
    run = shown["runs"][-1]
    assert run["profile_epsilon"] == pytest.approx(run["alone_epsilon"], rel=1e-9)
    assert shown["runs"][0]["profile_epsilon"] is None
    text = " ".join(cli.run("ledger", "show", str(path)).stdout.split())
    assert "Profiles 1 kept" in text
    assert "Profiles kept for later fits, at no cost" in text


def test_mixed_releases_do_not_hold_adaptively(cli, path):
    agent = one_agent(DVP, records=10_000, degree=2, eta=0.05, mu=0.01, rounds=2)
    with Ledger.open(path) as ledger:
        ledger.confirm(DATA).reserve(agent.releases(5.0), run="dual", algorithm="dvp", origin=Origin.SECURE)
    shown = cli.ask("ledger", "show", str(path))
    assert shown["holds_adaptively"] is False
    assert "for noise planned beforehand" in cli.run("ledger", "show", str(path)).stdout


@pytest.mark.parametrize("words", [["show"], ["show", "--json"], ["verify"]])
def test_reading_changes_nothing(cli, path, words):
    before = contents(path.parent)
    assert cli.run("ledger", *words, str(path)).exit_code == 0
    assert contents(path.parent) == before


def test_reading_needs_no_right_to_write(cli, path):
    head = head_of(path)
    path.parent.chmod(0o500)
    path.chmod(0o400)
    try:
        if os.access(path.parent, os.W_OK):
            pytest.skip("this account may write everywhere")
        assert head in cli.run("ledger", "verify", str(path)).stdout
    finally:
        path.parent.chmod(0o700)


def test_entries_of_a_process_that_has_the_ledger_open_are_seen(cli, path):
    with Ledger.open(path) as ledger:
        ledger.confirm(DATA).reserve(AGENT.releases(5.0), run="open", algorithm="p-admm", origin=Origin.SECURE)
        shown = cli.ask("ledger", "show", str(path))
        assert shown["releases"] == 15
        assert shown["head"] == ledger.head


def test_verify_and_expected_head(cli, path):
    head = head_of(path)
    assert f"Head {head}" in cli.run("ledger", "verify", str(path)).stdout
    assert cli.run("ledger", "verify", str(path), "--expected-head", head).exit_code == 0
    wrong = cli.run("ledger", "verify", str(path), "--expected-head", "0" * 64)
    assert wrong.exit_code == 2
    assert "does not contain the expected head" in wrong.stderr


def test_export(cli, path, tmp_path):
    out = tmp_path / "copy.json"
    assert cli.run("ledger", "export", str(path), str(out)).exit_code == 0
    document = json.loads(out.read_text())
    assert document["head"] == head_of(path)
    assert len(document["entries"]) == 12
    again = cli.run("ledger", "export", str(path), str(out))
    assert again.exit_code == 2
    assert "already" in again.stderr
    assert json.loads(out.read_text()) == document


def test_budget_is_changed_with_a_reason_and_never_below_what_is_spent(cli, path):
    words = ["ledger", "budget", str(path), "--delta", "1e-5", "--epsilon"]
    changed = cli.run(*words, "2", "--reason", "second study, approved")
    assert changed.exit_code == 0
    assert "from epsilon 1, delta 1e-05 to epsilon 2" in changed.stdout
    assert head_of(path) in changed.stdout
    assert cli.ask("ledger", "show", str(path))["budget"]["epsilon"] == 2.0
    below = cli.run(*words, "0.01", "--reason", "tighten")
    assert below.exit_code == 2
    assert "already spent" in below.stderr
    assert cli.ask("ledger", "show", str(path))["budget"]["epsilon"] == 2.0
    for epsilon, reason, message in (
        ("-1", "x", "epsilon must be greater"),
        ("3", " ", "reason must be non-empty"),
    ):
        refused = cli.run(*words, epsilon, "--reason", reason)
        assert refused.exit_code == 2
        assert message in refused.stderr


def _text(path):
    path.write_text("this is a diary, not a ledger\n" * 50)


def _foreign(path):
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE cooking (recipe TEXT)")
    connection.close()


def _cut(path):
    path.write_bytes(path.read_bytes()[:6000])


def _edited(path):
    connection = sqlite3.connect(path)
    connection.execute("DROP TRIGGER entries_no_update")
    connection.execute("UPDATE entries SET body = replace(body, 'pilot', 'pixel') WHERE seq = 2")
    connection.commit()
    connection.close()


def _no_anchor(path):
    path.with_name(path.name + ".head").unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (Path.unlink, "does not exist"),
        (_text, "not a ledger"),
        (_foreign, "is not a ledger"),
        (_cut, "damaged"),
        (_edited, "does not continue the chain"),
        (_no_anchor, "anchor file"),
    ],
)
@pytest.mark.parametrize("command", ["show", "verify", "export"])
def test_bad_files_get_one_clear_line_and_stay_as_they_are(cli, path, tmp_path, damage, message, command):
    damage(path)
    before = contents(path.parent)
    words = [command, str(path), *([str(tmp_path / "out.json")] if command == "export" else [])]
    result = cli.run("ledger", *words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert message in result.stderr
    assert contents(path.parent) == before


def test_an_older_copy_is_recognised(cli, path):
    old = path.read_bytes()
    with Ledger.open(path) as ledger:
        ledger.confirm(DATA).reserve(AGENT.releases(5.0), run="later", algorithm="p-admm", origin=Origin.SECURE)
    path.write_bytes(old)
    result = cli.run("ledger", "show", str(path))
    assert result.exit_code == 2
    assert "it is an older copy" in result.stderr
