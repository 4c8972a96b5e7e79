"""`dpadmm methods` shows the registry."""

import json

from dpadmm.methods.base import Method, by_name
from dpadmm.methods.registry import METHODS


def test_both_outputs_name_every_method_of_the_registry(cli):
    names = [method.about.name for method in METHODS]
    assert [row["name"] for row in json.loads(cli.run("methods", "--json").stdout)] == names
    shown = cli.run("methods").stdout
    assert [name for name in names if name not in shown] == []


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
