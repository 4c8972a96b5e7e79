"""C15: records and persons that try to move the sums of score differences further than the certificate."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpadmm.noise.plan import vector_on_grid
from dpadmm.privacy.certificates.sums import Shares, score_differences
from dpadmm.privacy.protection import NeighbouringRelation, Protection, Unit, View
from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge, Softmax
from dpadmm.problems.silos import PersonWeights, Silos
from dpadmm.queries.candidate_scores import STEP, score_sums, shorten

quick = settings(deadline=None, derandomize=True, max_examples=120)
ADDED = Protection(relation=NeighbouringRelation.ADD_OR_REMOVE, view=View.PUBLIC)


class Candidate:
    """As much of a plan as scoring reads."""

    def __init__(self, loss) -> None:
        self.task = type("Task", (), {"loss": loss})


def sums(loss, rows, labels, models, score_bound=0.5, people=None, nominal=None):
    silos = Silos.from_parts([rows], [labels], 1.0, people=people, nominal=nominal)
    return score_sums([loss] * len(models), [silos], models, score_bound)[0]


def unit_rows(rng, n, d):
    rows = rng.standard_normal((n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@quick
@given(st.integers(0, 2**32), st.integers(2, 6), st.sampled_from(["log", "error", "number", "classes"]), st.booleans())
def test_no_record_moves_the_sums_further(seed, number, kind, is_wild):
    """Replaced, and removed; models may be as wild as they like."""
    rng = np.random.default_rng(seed)
    loss = {"log": Logistic(), "error": SmoothedHinge(0.5), "number": Huber(0.3), "classes": Softmax(3)}[kind]
    rows, width = unit_rows(rng, 7, 3), 9 if kind == "classes" else 3
    labels = {"number": rng.uniform(-1, 1, 7), "classes": rng.integers(3, size=7) * 1.0}.get(
        kind, rng.choice([-1.0, 1.0], 7)
    )
    models = [rng.standard_normal((1, width)) * (1e6 if is_wild else 2.0) for _ in range(number)]
    other = unit_rows(rng, 1, 3)
    there, label = np.vstack([rows[:-1], other]), labels.copy()
    label[-1] = labels[0]
    here, moved = sums(loss, rows, labels, models), sums(loss, there, label, models)
    fewer = sums(loss, rows[:-1], labels[:-1], models, nominal=[7])
    assert (
        np.linalg.norm(here - moved) <= score_differences(score_bound=0.5, n_records=7, protection=Protection()).bound
    )
    assert np.linalg.norm(here - fewer) <= score_differences(score_bound=0.5, n_records=7, protection=ADDED).bound
    assert np.array_equal(here / STEP, np.rint(here / STEP))


def test_the_bound_is_reached():
    """A record on which one of two models fails badly, against its opposite."""
    models = [np.array([[9.0]]), np.array([[-9.0]])]
    ends = [sums(Logistic(), np.ones((1, 1)), np.array([sign]), models) for sign in (1.0, -1.0)]
    bound = score_differences(score_bound=0.5, n_records=1, protection=Protection()).bound
    assert bound * (1 - 1e-5) < np.linalg.norm(ends[0] - ends[1]) <= bound == 1.0


@quick
@given(st.integers(0, 2**32), st.integers(1, 9))
def test_all_rows_of_a_person_count_as_one_record_does(seed, rows_each):
    rng = np.random.default_rng(seed)
    models = [rng.standard_normal((1, 3)) * 5 for _ in range(3)]
    weight = math.floor(2**26 / rows_each) / 2**26
    people = [PersonWeights(np.full(2 * rows_each, weight), 2)]
    rows, labels = unit_rows(rng, 2 * rows_each, 3), rng.choice([-1.0, 1.0], 2 * rows_each)
    other, label = rows.copy(), labels.copy()
    other[rows_each:], label[rows_each:] = unit_rows(rng, rows_each, 3), rng.choice([-1.0, 1.0], rows_each)
    here, there = (sums(Logistic(), *each, models, people=people) for each in ((rows, labels), (other, label)))
    bound = score_differences(score_bound=0.5, n_records=2, protection=Protection(unit=Unit.PERSON)).bound
    assert np.linalg.norm(here - there) <= bound == 1.0


def test_shortening_keeps_directions_and_lengths_within_reach():
    vectors = shorten(np.array([[0.0, 0.2, 0.1], [0.0, 30.0, 0.0], [1.0, 1.0, 1.0], [math.inf, 0.0, 0.0]]), 0.5)
    assert np.allclose(vectors[0], [-0.1, 0.1, 0.0])
    assert 0.5 * (1 - 1e-5) < np.linalg.norm(vectors[1]) <= 0.5
    assert not vectors[2].any()
    assert np.linalg.norm(vectors[3]) <= 0.5


@pytest.mark.parametrize(
    ("protection", "n", "is_shared", "bound"),
    [
        (Protection(records_per_person=4), 100, False, 4.0),
        (Protection(records_per_person=4), 3, False, 3.0),
        (Protection(records_per_person=4, silos_per_person=2), 100, True, 8.0),
        (Protection(records_per_person=4, silos_per_person=2), 100, False, 4.0),
        (Protection(records_per_person=4, relation=NeighbouringRelation.ADD_OR_REMOVE, view=View.PUBLIC), 3, True, 2.0),
        (Protection(unit=Unit.PERSON, silos_per_person=3), 100, True, 3.0),
    ],
)
def test_persons_with_several_records_and_silos(protection, n, is_shared, bound):
    found = score_differences(score_bound=0.5, n_records=n, protection=protection, is_noise_shared=is_shared)
    assert found.bound == bound
    assert found.protection.view is (View.PUBLIC if is_shared else View.EAVESDROPPER)


def test_rounding_to_a_grid_is_counted():
    twice = Protection(silos_per_person=2, view=View.PUBLIC)
    shared = score_differences(score_bound=0.5, n_records=9, protection=twice, is_noise_shared=True)
    assert vector_on_grid(shared, 0.25, dimension=4).bound == 2.0 + 2 * 0.25 * 2
    masked = vector_on_grid(shared, 0.25, dimension=4, shares=Shares(5, 1))
    assert (masked.bound, masked.protection.view, masked.theorem) == (3.0, View.AGGREGATE, "C15 + C12")
    alone = score_differences(score_bound=0.5, n_records=9, protection=Protection(silos_per_person=2))
    assert vector_on_grid(alone, 0.25, dimension=4).bound == 1.0 + 2 * 0.25 * 2
