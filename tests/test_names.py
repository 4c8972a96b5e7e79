"""Names are the field's own words, and one word per concept: no metaphors, no two classes of one name."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import dpadmm

HOME = Path(dpadmm.__file__).parent
ROOT = Path(__file__).parents[1]
PLACES = ("src", "research", "contrib", "tests", "benchmarks", "examples", "docs")

METAPHOR = re.compile(
    "(anatomy|arena|book|bout|course|door|doubt|errand|guest|house|letter|pile|promise|racer|room|trip|witness|word)s?"
    "|bought|custody|dial(s|led|ling)?|louder|mail|promised|reception|settled|told|trouble|vouch(es|ed|ing)?|wish(es)?"
)
"""What stands for something else. A ledger is no book, a package no room, a message no letter, a setting no word."""

TECHNICAL = frozenset({"round_trip"})
"""What holds such a part and means what it says."""


def parts_of(name: str) -> list[str]:
    """Return the words of an identifier, in lower case."""
    for each in TECHNICAL:
        name = name.replace(each, "")
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def identifiers_of(file: Path) -> set[str]:
    """Return what a file defines: classes, functions, parameters, variables, attributes; and how its path is called."""
    found = {part.split(".")[0] for part in file.relative_to(ROOT).parts}
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
        elif isinstance(node, ast.alias) and node.asname:
            found.add(node.asname)
    return found


def package_of(file: Path) -> str:
    """Return the package that a file belongs to, as src/dpadmm/data."""
    *folders, _ = file.relative_to(ROOT).parts
    return "/".join(folders[: {"src": 3, "research": 4, "contrib": 2, "tests": 2}.get(folders[0], 1)])


def metaphors() -> Iterator[tuple[str, str]]:
    """Yield the package and the identifier of every metaphor."""
    for place in PLACES:
        for file in (ROOT / place).rglob("*.py"):
            if not any(part.startswith(".") for part in file.relative_to(ROOT).parts):
                for name in identifiers_of(file):
                    if any(map(METAPHOR.fullmatch, parts_of(name))):
                        yield package_of(file), name


def test_no_identifier_and_no_file_is_called_by_a_metaphor():
    assert sorted(set(metaphors())) == []


def test_nothing_speaks_of_formats_that_were_never_released():
    ends = ("py", "md", "toml", "ipynb", "html", "txt")
    files = [file for place in PLACES for end in ends for file in (ROOT / place).rglob(f"*.{end}")]
    refused = re.compile("migr" + "at|earlier" + " version", re.IGNORECASE)  # in two parts: not in this file either
    assert len(files) > 500
    assert [str(file) for file in [*files, *ROOT.glob("*.md")] if refused.search(file.read_text())] == []


def test_a_class_name_is_defined_once():
    places = defaultdict(list)
    for file in HOME.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name.lower()].append(f"{file.relative_to(HOME)}: {node.name}")
    assert len(places) > 300
    assert [found for found in places.values() if len(found) > 1] == []
