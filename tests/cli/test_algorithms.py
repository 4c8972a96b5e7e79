"""`dpadmm algorithms` shows the registry."""

import json

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
