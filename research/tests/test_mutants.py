"""The list of broken builds fits the sources, and the page shows all of it."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from mutants import MUTANTS, ROOT, Caught, rows_of
from mutants import test_file as place_of

sys.path.pop(0)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_has_a_place_and_tests(mutant):
    source = (ROOT / "src" / "dpadmm" / mutant.path).read_text(encoding="utf-8")
    assert source.count(mutant.old) == 1
    assert mutant.new != mutant.old
    compile(source.replace(mutant.old, mutant.new), mutant.path, "exec")
    files = [ROOT / place_of(name) for name in mutant.tests if name.endswith(".py")]
    tests = "".join(file.read_text(encoding="utf-8") for file in files).lower()
    chosen = mutant.tests[mutant.tests.index("-k") + 1] if "-k" in mutant.tests else ""
    assert [part for part in re.findall(r"[\w-]+", chosen) if part.lower() not in f"{tests} and or not"] == []


def test_every_part_is_broken():
    areas = {mutant.area for mutant in MUTANTS}
    assert areas == {
        "certificates", "noise", "algorithms", "ledger", "search", "estimators", "profile", "masks", "federation"
    }  # fmt: skip
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_the_page_shows_all_of_them_caught():
    rows = rows_of((ROOT / "research" / "docs" / "audit.md").read_text(encoding="utf-8"))
    assert list(rows) == [mutant.name for mutant in MUTANTS]
    assert not [row for row in rows.values() if "missed" in row]


def test_a_mutant_that_gets_through_shows():
    caught = Caught(MUTANTS[0], None, "attack", 1.0)
    assert not caught.is_complete
    assert "**missed**" in caught.row()
