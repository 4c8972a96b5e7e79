"""`dpadmm algorithms` shows the registry, and `dpadmm demo` does the main job."""

import json
import re

import pytest
from typer.testing import CliRunner

from dpadmm.algorithms.registry import BY_NAME, ENTRIES
from dpadmm.cli.main import app


def test_json_is_the_registry():
    result = CliRunner().invoke(app, ["algorithms", "--json"])
    assert result.exit_code == 0
    assert [row["name"] for row in json.loads(result.stdout)] == [entry.name for entry in ENTRIES]


def test_table_names_every_method():
    result = CliRunner().invoke(app, ["algorithms"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    for entry in ENTRIES:
        assert entry.name in result.stdout


def test_the_papers_are_all_there():
    expected = {
        *("p-admm", "r-admm", "m-admm", "dvp", "consensus", "ps-admm"),
        *("fp-centralised", "fp-federated", "fp-walk", "fp-coordinator", "dp-sgd"),
    }
    assert expected <= set(BY_NAME)
    assert len(BY_NAME) == len(ENTRIES)


def test_every_private_method_declares_its_releases():
    for entry in ENTRIES:
        if entry.certificate != "none":
            kind = getattr(entry.build, "func", entry.build)
            assert callable(getattr(kind, "promises", None)), entry.name


def test_demo_reaches_the_pooled_optimum():
    result = CliRunner().invoke(app, ["demo"], env={"COLUMNS": "120"})
    assert result.exit_code == 0
    gaps = [float(gap) for gap in re.findall(r"-?\d\.\de-\d\d", result.stdout)]
    assert len(gaps) >= 4
    assert all(abs(gap) < 1e-6 for gap in gaps)
    assert "not private" in result.stdout


@pytest.mark.parametrize(("words", "message"), [("--mu 0", "mu must be greater"), ("--rounds 0", "rounds must be")])
def test_demo_says_what_is_wrong_in_one_line(words, message):
    result = CliRunner().invoke(app, ["demo", *words.split()])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"Error: {message}")
