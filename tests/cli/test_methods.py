"""`dpadmm methods` shows the registry."""

import json

from dpadmm.methods.base import Method
from dpadmm.methods.registry import METHODS


def test_both_outputs_name_every_method_of_the_registry(cli):
    names = [method.about.name for method in METHODS]
    assert [row["name"] for row in json.loads(cli.run("methods", "--json").stdout)] == names
    shown = cli.run("methods").stdout
    assert [name for name in names if name not in shown] == []


def test_every_private_method_declares_its_releases():
    for method in METHODS:
        assert method.about.is_private == (method.mechanisms is not Method.mechanisms), method
