"""C14: matrices of neighbouring data, made by plain formulas, stay within the bound and reach it."""

import math

import numpy as np
import pytest
from tests.contracts.local_facts import local_function

from dpadmm.privacy.certificates.sums import curvature_sum
from dpadmm.privacy.protection import NeighbouringRelation, Unit, View

ADDED = NeighbouringRelation.ADD_OR_REMOVE


def local(n=10, weight=1.0, **more):
    return local_function(gradient_bound=1.0, n_records=n, weight=weight, solver_tolerance=0.0, **more)


def matrix(rows, bends):
    return (rows * bends[:, None]).T @ rows


def rows_within(rng, number, d, norm):
    rows = rng.standard_normal((number, d))
    return norm * rows / np.linalg.norm(rows, axis=1, keepdims=True) * rng.random((number, 1)) ** (1 / d)


@pytest.mark.parametrize("relation", list(NeighbouringRelation))
@pytest.mark.parametrize("records", [1, 3])
def test_no_neighbours_are_further_apart(relation, records):
    rng, n, norm = np.random.default_rng(1), 10, 1.5
    bound = curvature_sum(
        [local(n, records_per_person=records, relation=relation)], record_curvature=0.25 * norm**2
    ).bound
    most = 0.0
    for _ in range(3000):
        d = int(rng.integers(1, 5))
        mine, instead = (rows_within(rng, records, d, norm) for _ in range(2))
        if rng.random() < 0.5:  # all as long as they may be, in one direction, and in another
            mine, instead = (np.repeat(norm * np.eye(d)[[i % d]], records, axis=0) for i in (0, 1))
        moved = matrix(mine, rng.choice([0.25, 0.1], records))
        if relation is NeighbouringRelation.REPLACE_ONE:
            moved = moved - matrix(instead, rng.choice([0.25, 0.1], records))
        most = max(most, float(np.linalg.norm(moved) / n / bound))
    assert 0.999 <= most <= 1 + 1e-12


def test_a_person_in_several_silos_adds_up():
    silos = [local(n, weight=n / 600, silos_per_person=2) for n in (100, 200, 300)]
    assert curvature_sum(silos, record_curvature=0.25).bound == pytest.approx(2 * math.sqrt(2) / 4 / 600)
    added = [local(n, weight=n / 600, silos_per_person=2, relation=ADDED) for n in (100, 200, 300)]
    assert curvature_sum(added, record_curvature=0.25).bound == pytest.approx(2 / 4 / 600)
    uneven = [local(n, weight=1.0, silos_per_person=2) for n in (10, 20, 40)]
    assert curvature_sum(uneven, record_curvature=1.0).bound == pytest.approx(math.sqrt(2) * (1 / 10 + 1 / 20))


def test_more_records_than_there_are_do_not_count_where_they_are_replaced():
    few = curvature_sum([local(2, records_per_person=5)], record_curvature=1.0)
    assert few.bound == pytest.approx(math.sqrt(2))
    assert curvature_sum([local(2, records_per_person=5, relation=ADDED)], record_curvature=1.0).bound == 2.5


def test_what_is_said():
    alone = curvature_sum([local()], record_curvature=0.25)
    several = curvature_sum([local(), local()], record_curvature=0.25)
    assert (alone.protection.view, several.protection.view) == (View.EAVESDROPPER, View.PUBLIC)
    assert alone.theorem == "C14 (curvature)"
    assert any("trusted" in texts for texts in several.assumptions)
    assert curvature_sum([local(unit=Unit.PERSON)], record_curvature=0.25).protection.unit is Unit.PERSON


def test_errors_of_evaluation_are_counted():
    rough = [local_function(gradient_bound=1.0, n_records=10, solver_tolerance=0.01, silos_per_person=2)] * 3
    exact = [local(silos_per_person=2)] * 3
    gap = curvature_sum(rough, record_curvature=0.25).bound - curvature_sum(exact, record_curvature=0.25).bound
    assert gap == pytest.approx(2 * 2 * 0.01)
