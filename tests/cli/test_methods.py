"""`dpadmm methods` shows the registry."""

import json

from typer.testing import CliRunner

from dpadmm.cli.main import app
from dpadmm.methods.base import Method, by_name
from dpadmm.methods.registry import METHODS


def test_json_is_the_registry():
    result = CliRunner().invoke(app, ["methods", "--json"])
    assert result.exit_code == 0
    assert [row["name"] for row in json.loads(result.stdout)] == [method.about.name for method in METHODS]


def test_table_names_every_method():
    result = CliRunner().invoke(app, ["methods"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    for method in METHODS:
        assert method.about.name in result.stdout


def test_the_papers_are_all_there():
    expected = {
        *("p-admm", "r-admm", "m-admm", "dvp", "consensus", "ps-admm"),
        *("fp-centralised", "fp-federated", "fp-walk", "fp-coordinator", "dp-sgd"),
    }
    assert expected <= set(by_name())
    assert len(by_name()) == len(METHODS)


def test_every_private_method_declares_its_releases():
    for method in METHODS:
        assert method.about.is_private == (method.mechanisms is not Method.mechanisms), method
