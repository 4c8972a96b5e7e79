"""C9 for records that are added or removed: the bound against exact neighbours, attained, and broken by mutants."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.local_facts import local_function

from dpadmm.methods.base import Setting
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.certificates.gradients import gradient_sum
from dpadmm.privacy.certificates.local import MOST_PER_NOMINAL
from dpadmm.privacy.curves import m_of
from dpadmm.privacy.protection import NeighbouringRelation, Protection, View
from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.silos import Silos
from dpadmm.testing import plan_noise
from dpadmm_research.audit import neighbours

ADDED = NeighbouringRelation.ADD_OR_REMOVE
LOSSES = (Logistic(), Logistic(0.7), Huber(0.5), SmoothedHinge(0.5))


def problem(tables, nominal, loss):
    """Return the problem of these silos, (rows, labels) each, with these nominal sizes."""
    rows, labels = zip(*tables, strict=True)
    silos = Silos.from_parts(rows, labels, row_norm=1.0, nominal=nominal)
    return Problem.of(EmpiricalRisk(silos, loss, mu=0.1))


def drawn(rng, number, is_long=False):
    """Return so many records of norm 1 at most, with labels -1 or +1."""
    rows = rng.standard_normal((number, 2))
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return rows * (1.0 if is_long else rng.uniform(0, 1, (number, 1))), rng.choice([-1.0, 1.0], number)


def bound(one, people):
    """Return what the sum of the gradients is certified to move."""
    setting = Setting(one, 1, 0.0, protection=people)
    return gradient_sum([setting.local(i, tolerance=0.0) for i in range(one.n_agents)]).bound


def moved(one, other, x):
    """Return how far the sum of the gradients is apart."""
    return float(np.linalg.norm(one.gradient(x) - other.gradient(x)))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_the_sum_of_gradients_moves_by_no_more_than_the_bound(data):
    """Any sizes, none included; up to r records more in each of s silos."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    sizes = data.draw(st.lists(st.integers(0, 5), min_size=2, max_size=4))
    nominal = data.draw(st.lists(st.integers(1, 9), min_size=len(sizes), max_size=len(sizes)))
    r, s = data.draw(st.integers(1, 3)), data.draw(st.integers(1, len(sizes)))
    loss = data.draw(st.sampled_from(LOSSES))
    before = [drawn(rng, n) for n in sizes]
    more = [drawn(rng, int(rng.integers(0, r + 1)) if i < s else 0, is_long=True) for i in range(len(sizes))]
    after = [tuple(np.concatenate(both) for both in zip(a, b, strict=True)) for a, b in zip(before, more, strict=True)]
    one, other = problem(before, nominal, loss), problem(after, nominal, loss)
    people = Protection(relation=ADDED, view=View.PUBLIC, records_per_person=r, silos_per_person=s)
    x = rng.standard_normal((2, 1)) * 10.0 ** rng.uniform(-2, 3)
    assert moved(one, other, x) <= bound(one, people) * (1 + 1e-12)
    assert bound(one, people) == bound(other, people)  # it knows nothing of the sizes there are


@pytest.mark.parametrize(("r", "s"), [(1, 1), (3, 1), (2, 2)])
def test_the_bound_is_attained_also_where_a_person_has_more_records_than_the_nominal_number(r, s):
    pull, nothing = (np.tile([1.0, 0.0], (r, 1)), np.full(r, 1e4)), (np.zeros((0, 2)), np.zeros(0))
    people = Protection(relation=ADDED, view=View.PUBLIC, records_per_person=r, silos_per_person=s)
    one = problem([pull if i < s else nothing for i in range(3)], (2, 2, 2), Huber(0.5))
    empty = problem([nothing] * 3, (2, 2, 2), Huber(0.5))
    assert moved(one, empty, np.zeros((2, 1))) == pytest.approx(bound(one, people), rel=1e-12)
    assert bound(one, people) == pytest.approx(0.5 * r * s / 6)


def test_dividing_by_the_true_number_of_records_breaks_the_bound():
    """A mutant: with true sizes in the functions one record more changes the weight of all others."""
    people = Protection(relation=ADDED, view=View.PUBLIC)
    pull, push = (np.array([[1.0, 0.0]]), np.array([1e4])), (np.array([[1.0, 0.0]] * 2), np.array([1e4, -1e4]))
    worlds = [problem([table, pull], (4, 4), Huber(0.5)) for table in (pull, push)]
    x = np.zeros((2, 1))
    assert moved(*worlds, x) <= bound(worlds[0], people) * (1 + 1e-12)
    for world in worlds:
        vars(world.functions)["sizes"] = np.diff(world.functions.silos.offsets)
    assert moved(*worlds, x) > 2 * 0.5 / 8


def test_the_bound_is_half_of_that_for_replaced_records_and_is_not_capped_by_the_size():
    facts = {"gradient_bound": 1.0, "n_records": 2, "weight": 0.5, "records_per_person": 3}
    assert local_function(**facts).gap == 1.0  # 2 G min(3, 2)/2
    assert local_function(**facts, relation=ADDED).gap == 0.75  # G 3/2
    spread = [local_function(**facts, relation=ADDED, silos_per_person=2, solver_tolerance=0.1)] * 3
    assert gradient_sum(spread).bound == pytest.approx(2 * (0.75 + 2 * 0.1))  # rounding counts in both worlds


def test_the_certificate_claims_no_public_sizes():
    own = local_function(gradient_bound=1.0, n_records=5, relation=ADDED)
    certificate = gradient_sum([own, own])
    said = " ".join(certificate.assumptions)
    assert certificate.protection.relation is ADDED
    assert "added or removed" in said
    assert "secret" in said
    assert f"{MOST_PER_NOMINAL} times its nominal" in said
    assert "sizes n_i" not in said
    assert "replaced" not in said


def test_the_planned_noise_leaves_exactly_the_budget_of_a_record_that_is_there_or_not():
    """Every round of the worst pair is a Gaussian shift of D/sigma: together they are m-GDP with the target's m."""
    worlds, rounds, target = neighbours.added(), 7, Target(1.0, 1e-5)
    people = Protection(relation=ADDED, view=View.PUBLIC)
    plan = plan_noise(NoisyGradients(step=0.1), worlds[0], rounds, target, protection=people)
    x = np.linspace(-2, 2, rounds)
    shifts = [moved(*worlds, np.array([[each]])) for each in x]
    stds = [release.level for release in plan]
    assert len(stds) == rounds
    m = float(np.sqrt(np.sum((np.array(shifts) / stds) ** 2)))
    assert m == pytest.approx(m_of(1.0, 1e-5), rel=1e-6)
    assert plan.account().curve.epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)
