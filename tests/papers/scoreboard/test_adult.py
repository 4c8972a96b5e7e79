"""The scoreboard's panels."""

from dpadmm.papers.scoreboard.adult import GROUPS
from dpadmm.papers.scoreboard.entries import ENTRIES


def test_every_method_has_one_panel_of_its_view():
    placed = [(name, sight) for _, sight, names in GROUPS for name in names]
    assert sorted(placed, key=str) == sorted(((entry.name, entry.sight) for entry in ENTRIES), key=str)
    assert max(len(names) for _, _, names in GROUPS) <= 5
