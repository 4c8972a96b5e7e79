"""The errata page names tests that exist and gives every entry one of its verdicts."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "errata.md").read_text()
VERDICTS = ("true but loose", "right under another reading", "unproved", "wrong", "holds as printed")


def test_named_tests_exist() -> None:
    names = re.findall(r"`([\w/]*test_\w+\.py)::(\w+)`", PAGE)
    assert len(names) > 25
    here = Path(__file__).parent
    for file, function in names:
        place = here.parents[2] / "tests" if file.startswith("methods/") else here
        assert f"def {function}(" in (place / file).read_text(), f"{file}::{function}"


def test_every_entry_has_a_verdict_and_a_test() -> None:
    entries = re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]
    assert len(entries) > 15
    for entry in entries:
        title, body = entry.split("\n", 1)
        assert any(verdict in title for verdict in VERDICTS), title
        assert "*Test:*" in body or "*Tests:*" in body, title
