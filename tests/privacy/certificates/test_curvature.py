"""C14: matrices of neighbouring data, made by plain formulas, stay within the bound and reach it."""

import math
from fractions import Fraction

import numpy as np
import pytest
from tests.contracts.local_facts import local_function

from dpadmm.privacy.certificates.sums import curvature_sum, score_products
from dpadmm.privacy.protection import NeighbouringRelation, Unit, View
from dpadmm.problems.losses import Huber, Logistic
from dpadmm.problems.problem import EmpiricalRisk
from dpadmm.problems.silos import PersonRows, Silos

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


def risk_of(rows, labels, loss, norm, people=None):
    """The functions of one silo whose long rows count less."""
    silos = Silos.from_parts([rows], [labels], norm, people=people, weighs_long_rows=True)
    return EmpiricalRisk(silos, loss)


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.5), Huber(3.0)])
def test_rows_of_any_length_move_sums_by_no_more_than_those_of_the_norm(loss):
    """Gradients, second derivatives and products of gradients of a record, at points near and far, by row and label."""
    rng, norm, most = np.random.default_rng(2), 1.5, np.zeros(3)
    gradient, bend = loss.slope_bound * norm, loss.curvature_bound * norm**2
    for _ in range(2000):
        d = int(rng.integers(1, 4))
        length = norm * (1.0 if rng.random() < 0.2 else 10.0 ** rng.uniform(-1, 8))
        row = rng.standard_normal((1, d))
        row *= length / np.linalg.norm(row)
        label = rng.choice([-1.0, 1.0], 1) * (1.0 if isinstance(loss, Logistic) else rng.choice([0.0, 1e6]))
        point = np.zeros(d) if rng.random() < 0.3 else rng.standard_normal(d) * 10 ** rng.uniform(-3, 2)
        risk = risk_of(row, label, loss, norm)
        own = risk.gradient(point[None, :, None])[0, :, 0], risk.hessian(0, point), risk.score_products(0, point)
        most = np.maximum(most, [np.linalg.norm(each) for each in own] / np.array([gradient, bend, gradient**2]))
    assert np.all(most <= 1 + 1e-12)
    assert np.all(most > 0.99)


@pytest.mark.parametrize("norm", [1.0, 1e-9])
def test_weights_of_rows_keep_their_digits_however_long_rows_are(norm):
    """In exact arithmetic: a weight near the least number that a float holds is rounded by a part of itself."""
    rows = 10.0 ** np.linspace(0, 153.9, 2000)[:, None]
    silos = Silos.from_parts([rows], [np.ones(2000)], norm, weighs_long_rows=True)
    most = max(Fraction(w) * Fraction(a) ** 2 for w, a in zip(silos.weights.tolist(), rows[:, 0].tolist(), strict=True))
    assert float(most / Fraction(norm) ** 2) == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("is_added", [False, True])
@pytest.mark.parametrize("rows_each", [1, 3])
def test_products_of_neighbours_stay_within_the_bound_and_reach_it(is_added, rows_each):
    """Of one record, or of all rows of a person, which count as one: the product of their sum."""
    rng, n, norm, loss = np.random.default_rng(3), 6, 1.2, Huber(2.0)
    facts = {"relation": ADDED} if is_added else {}
    unit = {"unit": Unit.PERSON} if rows_each > 1 else {}
    bound = score_products([local(n, **facts, **unit)], record_gradient=2.0 * norm).bound
    most = 0.0
    for number in range(400):
        d = 3
        others = rng.standard_normal((n - 1, d))
        mine, instead = (rng.standard_normal((rows_each, d)) * 3 for _ in range(2))
        if number % 2:  # as long as they may be, all of a person alike, and the others at a right angle
            mine, instead = (np.repeat(norm * np.eye(d)[[i]], rows_each, axis=0) for i in (0, 1))
        point, found = 0.1 * rng.standard_normal(d), []
        for own in (mine, instead[: 0 if is_added else rows_each]):
            rows = np.vstack([others, own])
            persons = np.append(np.arange(n - 1), np.full(len(own), n))
            people = [PersonRows.of(persons).people] if rows_each > 1 else None
            risk = risk_of(rows, np.full(len(rows), 50.0), loss, norm, people)
            found.append(risk.score_products(0, point) * risk.sizes[0])
        most = max(most, float(np.linalg.norm(found[0] - found[1]) / n / bound))
    assert 0.999 <= most <= 1 + 1e-12


def test_products_by_a_plain_formula():
    rng = np.random.default_rng(4)
    rows, labels, point = rng.standard_normal((40, 3)), rng.standard_normal(40) * 3, rng.standard_normal(3)
    weights = 1 / np.maximum(1.0, (rows**2).sum(axis=1))
    scores = rows * (weights * np.clip(rows @ point - labels, -1.5, 1.5))[:, None]
    np.testing.assert_allclose(risk_of(rows, labels, Huber(1.5), 1.0).score_products(0, point), scores.T @ scores / 40)
    persons = np.repeat(np.arange(10), 4)
    sums = np.add.reduceat(scores / 4, np.arange(0, 40, 4))
    risk = risk_of(rows, labels, Huber(1.5), 1.0, [PersonRows.of(persons).people])
    np.testing.assert_allclose(risk.score_products(0, point), sums.T @ sums / 10)
