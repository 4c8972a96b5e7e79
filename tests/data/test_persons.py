"""Identifiers of persons: who is the same, in how many silos, and what is said about empty ones."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from dpadmm.data.persons import Persons
from dpadmm.data.reading import read_file
from dpadmm.errors import InputError


def numbers(*columns):
    return [part.tolist() for part in Persons.of(columns, ["a table"] * len(columns)).numbers]


def test_the_same_person_whatever_the_type_of_the_cell():
    text = pd.Series(["7", " 7 ", "007", "x", "X"])
    assert numbers(text) == [[0, 0, 1, 2, 3]]
    floats, whole = pd.Series([7.0, 8.5]), pd.Series([7, 9], dtype="Int64")
    assert numbers(text, floats, whole, np.array([7, 9], dtype=np.int32)) == [[0, 0, 1, 2, 3], [0, 4], [0, 5], [0, 5]]


def test_whole_numbers_that_were_written_as_fractions_are_the_same_person(tmp_path):
    (tmp_path / "a.csv").write_text("id\n7\n8\n")
    (tmp_path / "b.csv").write_text("id\n7.0\n8.\n7.00\n7.5\n")  # as pandas writes them after an empty cell
    read = [read_file(tmp_path / name).frame["id"] for name in ("a.csv", "b.csv")]
    assert numbers(*read, pd.Series([7.0, 8.0])) == [[0, 1], [0, 1, 0, 2], [0, 1]]
    assert numbers(np.asarray(["7", 7.0]), [Decimal("7.0"), 7]) == [[0, 0], [0, 0]]
    assert Persons.of(read, ["a.csv", "b.csv"]).most_silos == 2
    assert numbers(pd.Series(["x7.0", "x7", "1.7.0", "1.7", "007.0", "7"])) == [[0, 1, 2, 3, 4, 5]]


def test_numbers_that_floats_do_not_hold_are_no_identifiers():
    """12345678901234567 is another number as a float, and its person another one than where it is whole."""
    exact, lost = np.array([2**53 - 1, 12345678901234567]), pd.Series([1.0, 12345678901234567.0])
    assert numbers(exact, [2.0**53 - 1]) == [[0, 1], [0]]
    for column in (lost, lost.astype(object), np.array([float("inf")])):
        with pytest.raises(InputError, match="as whole numbers or as text") as found:
            numbers(exact, column)
        assert "1234" not in str(found.value)


def test_persons_in_too_many_silos_are_refused_with_the_number_that_is_needed():
    whose = Persons.of([["a", "b", "a"], ["b", "c"], ["b"]], ["1", "2", "3"])
    assert whose.most_silos == 3
    whose.check_silos(3)
    with pytest.raises(InputError, match="silos_per_person=3") as found:
        whose.check_silos(2)
    assert "'b'" not in str(found.value)
    Persons.of([["a", "a"], ["b"]], ["1", "2"]).check_silos(1)


@pytest.mark.parametrize("empty", [None, "", "  ", float("nan"), pd.NA])
def test_rows_of_nobody_are_refused_by_their_place(empty):
    with pytest.raises(InputError, match=r"visits.csv, row 13: the person is missing in 2 rows") as found:
        Persons.of([pd.Series(["secret", empty, empty], index=[4, 12, 20])], ["visits.csv"])
    assert "secret" not in str(found.value)


def test_rows_that_are_kept():
    whose = Persons.of([["a", "b", "a", "a"], ["c"]], ["1", "2"], keep=2)
    first, second = whose.rows()
    assert (first.kept.tolist(), first.people.weights.tolist(), first.people.persons) == ([0, 1, 2], [0.5, 1.0, 0.5], 2)
    assert (second.kept.tolist(), second.people.persons) == ([0], 1)
