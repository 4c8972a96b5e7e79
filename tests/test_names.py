"""One word per concept: no two classes of the package have the same name, not even in another case."""

import ast
from collections import defaultdict
from pathlib import Path

import dpadmm

HOME = Path(dpadmm.__file__).parent


def test_a_class_name_is_defined_once():
    places = defaultdict(list)
    for file in HOME.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name.lower()].append(f"{file.relative_to(HOME)}: {node.name}")
    assert len(places) > 300
    assert [found for found in places.values() if len(found) > 1] == []
