"""Identifiers of persons: who is the same, in how many silos, and what is said about empty ones."""

from decimal import Decimal

import numpy as np
import pandas as pd

from dpadmm.data.persons import Persons
from dpadmm.data.reading import read_file


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


def test_rows_that_are_kept():
    whose = Persons.of([["a", "b", "a", "a"], ["c"]], ["1", "2"], keep=2)
    first, second = whose.rows()
    assert (first.kept.tolist(), first.people.weights.tolist(), first.people.persons) == ([0, 1, 2], [0.5, 1.0, 0.5], 2)
    assert (second.kept.tolist(), second.people.persons) == ([0], 1)
