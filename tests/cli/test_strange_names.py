"""Names that others chose reach files and the terminal as they are, or as nothing but text."""

import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

from dpadmm.core.model import ReleasedModel
from dpadmm.methods.p_admm import PADMM
from dpadmm.privacy.ledger import Budget, Ledger, SiloColumns
from dpadmm.privacy.releases import Origin
from dpadmm_research.accounting.public_facts import one_agent

pytestmark = pytest.mark.usefixtures("instant_forecasts")
BAD = os.fsdecode(b"\xff")


@pytest.mark.parametrize("what", ["title", "silo", "ledger", "out"])
def test_names_that_are_no_utf8_cost_nothing(cli, study, tmp_path, what):
    silo = tmp_path / (f"n{BAD}.csv" if what == "silo" else "n.csv")
    shutil.copy(study.files[0], silo)
    ledger = tmp_path / (f"l{BAD}" if what == "ledger" else "l")
    out = tmp_path / (f"m{BAD}.json" if what == "out" else "m.json")
    args = (*study.args[1:], "--out", str(out), "--ledger", str(ledger), "--budget", "3")
    title = ("--title", f"study {BAD}") if what == "title" else ()
    result = cli.run("fit", str(silo), *args, *title)
    assert result.exit_code == 2, result.output
    assert "not UTF-8" in result.stderr
    assert not ledger.exists()
    assert not out.exists()


def test_brackets_in_names_are_no_markup(cli, study, tmp_path, monkeypatch):
    """A closing tag that was never opened must not stop a run that is paid for, and no part of a name may vanish."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "a[" / "b]"
    folder.mkdir(parents=True)
    args = ("--simulate", "1", "--report", "r[x].html")
    result = cli.run("fit", *study.args, *args, "--out", "a[/b]/m[x].json")
    assert result.exit_code == 0, result.output
    assert "a[/b]/m[x].json" in result.stdout
    assert "r[x].html" in result.stdout
    assert ReleasedModel.load(folder / "m[x].json")


@pytest.fixture
def strange(tmp_path):
    """A ledger whose silos carry names that would move the cursor, with a run of a long name."""
    data = tuple(SiloColumns(name, {"x": np.arange(6.0) + k}) for k, name in enumerate(("a\x1b[2J\nSpent 0", "b[/x]")))
    releases = one_agent(PADMM, records=1000, degree=2, eta=0.05, mu=0.01, rounds=5).releases(1.0)
    both = [replace(release, agent=agent) for release in releases for agent in (0, 1)]
    place = tmp_path / "strange.ledger"
    with Ledger.create(place, data, Budget(epsilon=1.0, delta=1e-5)) as ledger:
        run = "p-admm-[/b]-a2580c1d-2580c1d-2580c1d-2580c1d"
        ledger.confirm(data).reserve(both, run=run, algorithm="p-admm", origin=Origin.SECURE)
    return place, run


def test_a_ledger_is_shown_whole_and_harmless(cli, strange):
    place, run = strange
    text = cli.run("ledger", "show", str(place)).stdout
    assert "\x1b" not in text
    assert "a\\x1b[2J\\nSpent 0: epsilon" in text
    assert run in text


def test_narrow_terminals_cut_nothing(strange):
    from typer.testing import CliRunner

    from dpadmm.cli.main import app

    place, run = strange
    shown = CliRunner().invoke(app, ["ledger", "show", str(place)], env={"COLUMNS": "80", "TERM": "dumb"}).stdout
    cells = [[part.strip() for part in line.strip("│").split("│")] for line in shown.splitlines() if "│" in line]
    assert "".join(row[0] for row in cells) == run
    assert "…" not in shown


def test_errors_write_controls_out(cli, tmp_path):
    result = cli.run("predict", str(tmp_path / "m\x1bc\x07.json"), "t.csv")
    assert result.exit_code == 2
    assert "m\\x1bc\\x07.json" in result.stderr
