"""`dpadmm ledger`: what it shows is what is recorded, and only `budget` writes. tests/privacy/ledger tests damage."""

import json
import os
import re
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


def test_show_says_what_is_recorded(cli, path, snapshot):
    with Ledger.open(path) as ledger:
        said = ledger.statement()
    shown = cli.ask("ledger", "show", str(path))
    assert shown["budget"] == {"epsilon": 1.0, "delta": 1e-5}
    assert (shown["spent_epsilon"], shown["head"]) == (said.spent_epsilon, said.head)
    assert shown["left_epsilon"] == pytest.approx(1 - said.spent_epsilon)
    assert (shown["releases"], shown["refusals"]) == (10, 1)
    assert (shown["strength"], shown["holds_adaptively"]) == ("certified up to solver error", True)
    alone = [run["alone_epsilon"] for run in shown["runs"]]
    assert alone == pytest.approx([AGENT.account(std).curve.epsilon(1e-5) for std in (1.0, 0.5)], rel=1e-9)
    assert [(run["run"], run["releases"]) for run in shown["runs"]] == [("pilot", 5), ("trial", 5)]
    text = cli.run("ledger", "show", str(path)).stdout.replace(shown["head"], "HEAD")
    text = re.sub(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d", "TIME", text)
    snapshot("terminal/ledger.txt", text)


def test_show_says_which_version_of_the_data_each_run_was_about(cli, path):
    with Ledger.open(path) as ledger:
        ledger.add_version([SiloColumns("clinic", {"x": np.ones((4, 2))})])
        since = ledger.statement().version_since
    shown = cli.ask("ledger", "show", str(path))
    assert (shown["data_version"], shown["data_since"]) == (2, since)
    assert f"Data       version 2, since {since[:19]} UTC" in cli.run("ledger", "show", str(path)).stdout


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
    assert "Profiles   1 kept" in cli.run("ledger", "show", str(path)).stdout


def test_mixed_releases_do_not_hold_adaptively(cli, path):
    agent = one_agent(DVP, records=10_000, degree=2, eta=0.05, mu=0.01, rounds=2)
    with Ledger.open(path) as ledger:
        ledger.confirm(DATA).reserve(agent.releases(1e-3), run="dual", algorithm="dvp", origin=Origin.SECURE)
    assert cli.ask("ledger", "show", str(path))["holds_adaptively"] is False


@pytest.mark.parametrize("args", [["show"], ["show", "--json"], ["verify"]])
def test_reading_changes_nothing(cli, path, args):
    before = contents(path.parent)
    assert cli.run("ledger", *args, str(path)).exit_code == 0
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
        assert (shown["releases"], shown["head"]) == (15, ledger.head)


def test_verify_and_export(cli, path, tmp_path):
    head, out = head_of(path), tmp_path / "copy.json"
    assert f"Head {head}" in cli.run("ledger", "verify", str(path), "--expected-head", head).stdout
    assert cli.run("ledger", "export", str(path), str(out)).exit_code == 0
    document = json.loads(out.read_text())
    assert (document["head"], len(document["entries"])) == (head, 12)


def test_budget_is_changed_with_a_reason_and_never_below_what_is_spent(cli, path):
    args = ["ledger", "budget", str(path), "--delta", "1e-5", "--epsilon"]
    changed = cli.run(*args, "2", "--reason", "second study, approved")
    assert (changed.exit_code, head_of(path) in changed.stdout) == (0, True)
    assert cli.ask("ledger", "show", str(path))["budget"]["epsilon"] == 2.0
    assert cli.run(*args, "0.01", "--reason", "tighten").exit_code == 2
    assert cli.ask("ledger", "show", str(path))["budget"]["epsilon"] == 2.0


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:6000])])
@pytest.mark.parametrize("command", ["show", "verify"])
def test_bad_files_get_one_clear_line_and_stay_as_they_are(cli, path, damage, command):
    damage(path)
    before = contents(path.parent)
    result = cli.run("ledger", command, str(path))
    assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (2, "", 1)
    assert contents(path.parent) == before
