"""Names of silos, runs and studies: readable on every system, and not to be mistaken for another's."""

from dataclasses import replace

import pytest

from dpadmm.errors import InputError
from dpadmm.federation.names import check_distinct, check_name
from dpadmm.federation.silo_directory import SiloDirectory

REFUSED = {
    "mixed scripts": ("n\u043erth", "look alike, of Cyrillic and Latin"),
    "Greek omicron": ("n\u03bfrth", "look alike, of Greek and Latin"),
    "a device": ("CON", "Windows reserves"),
    "a device with an ending": ("nul.txt", "Windows reserves"),
    "a device, raised digit": ("com\u00b9", "Windows reserves"),
    "a device, full width": ("\uff43\uff4f\uff4e", "Windows reserves"),
    "an option": ("-rf", "begin with a dash"),
    "a path": ("a/b", "usable for a file"),
    "a path elsewhere": ("a\\b", "usable for a file"),
    "a drive": ("c:", "usable for a file"),
    "above": ("..", "begin or end with a space or a dot"),
    "hidden": (".north", "begin or end with a space or a dot"),
    "trailing dot": ("north.", "begin or end with a space or a dot"),
    "trailing space": ("north ", "begin or end with a space or a dot"),
    "no-break space": ("north\u00a0", "printable"),
    "control": ("north\x1b[2J", "control or invisible"),
    "new line": ("north\n", "control or invisible"),
    "nothing wide": ("no\u200brth", "control or invisible"),
    "right to left": ("no\u202erth", "control or invisible"),
    "a filler": ("north\u3164", "control or invisible"),
    "a dash": ("\u2010rf", "begin with a dash"),
    "a minus": ("\u2212rf", "begin with a dash"),
    "an en dash": ("\u2013rf", "begin with a dash"),
    "a selector": ("north\ufe0f", "control or invisible"),
    "a joiner": ("no\u034frth", "control or invisible"),
    "a rare selector": ("north\U000e0100", "control or invisible"),
    "a Khmer vowel that is not drawn": ("north\u17b4", "control or invisible"),
    "a Mongolian selector": ("north\u180b", "control or invisible"),
    "half a character": ("\ud800", "control or invisible"),
    "empty": ("", "not empty"),
    "too long": ("\u00e9" * 51, "at most 100 bytes"),
    "a number": (7, "is not text"),
    "none": (None, "is not text"),
}
ACCEPTED = [
    "north",
    "North clinic",
    "St. Mary's",
    "s-0",
    "caf\u00e9",
    "\u043c\u043e\u0441\u043a\u0432\u0430",
    "console",
    "1",
]
ACCEPTED += [
    "\u6771\u4eac\u90fd\u3072\u308d\u304a clinic",
    "\N{GRINNING FACE}",
    "\u4f50\u3005\u6728\u75c5\u9662",
    "\u3006\u5207 clinic",
    "O\u02bbahu",
    "\u0391\u03b8\u03ae\u03bd\u03b1",
    "x" * 100,
]


@pytest.mark.parametrize(("name", "args"), REFUSED.values(), ids=REFUSED)
def test_names_that_mislead_or_are_no_files_are_refused(name, args):
    with pytest.raises(InputError, match=args):
        check_name("silo", name)


@pytest.mark.parametrize("name", ACCEPTED)
def test_names_in_one_script_are_accepted(name):
    check_name("silo", name)


def test_names_that_look_the_same_are_shown_apart_by_nobody():
    check_distinct(["north", "south", "\u043c\u043e\u0441\u043a\u0432\u0430"])
    for other in ("North", "\uff4eorth", "north"):
        with pytest.raises(InputError, match="confused"):
            check_distinct(["north", "south", other])
    with pytest.raises(InputError, match="confused"):
        check_distinct(["O\u02bbahu", "O'ahu"])
    with pytest.raises(InputError, match="confused"):  # all Cyrillic, drawn as the Latin ones
        check_distinct(["pacxa", "\u0440\u0430\u0441\u0445\u0430"])


@pytest.mark.parametrize("name", ["CON", "-rf", "s\u043e", "a/b", "s1."])
def test_all_names_are_checked(world, tmp_path, name):
    terms = world.terms
    with pytest.raises(InputError, match="The name of a run"):
        replace(terms, run=name)
    with pytest.raises(InputError, match="The name of a silo"):
        replace(terms.participants[0], name=name)
    with pytest.raises(InputError, match="The name of a silo"):
        SiloDirectory(tmp_path / "new").create(replace(world.first.policy, name=name), 1.0, 1e-5)
    assert not (tmp_path / "new").exists()


def test_terms_with_names_that_look_alike_are_refused(world):
    people = (replace(world.terms.participants[0], name="S1"), *world.terms.participants[1:])
    with pytest.raises(InputError, match="confused"):
        replace(world.terms, participants=people)
