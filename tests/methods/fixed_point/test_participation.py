"""Schedules: what each order promises, counts, equality, refusals; and the registry's names."""

import numpy as np
import pytest

from dpadmm.errors import InputError
from dpadmm.methods.base import Topology, by_name
from dpadmm.methods.fixed_point import Participation
from dpadmm.networks import path, uniform_walk


def rng(seed=0):
    return np.random.default_rng(seed)


def test_orders():
    assert Participation.in_turn(3, 7).table.ravel().tolist() == [0, 1, 2, 0, 1, 2, 0]
    sweeps = Participation.permuted(5, 20, rng()).table.reshape(4, 5)
    assert (np.sort(sweeps, axis=1) == np.arange(5)).all()
    assert len({tuple(sweep) for sweep in sweeps.tolist()}) > 1
    np.testing.assert_array_equal(Participation.one_at_random(6, 9, rng(1)).table[:, 0], uniform_walk(6, 9, rng(1)))
    walk = Participation.walk(path(5), 200, rng(2)).table[:, 0]
    assert np.abs(np.diff(walk)).max() == 1
    subsets = Participation.subsets(10, 4, 300, rng(3))
    assert subsets.table.shape == (300, 4)
    assert all(len(set(row)) == 4 for row in subsets.table.tolist())


def test_subsets_are_uniform():
    """Each of 10 users is in 4 of 10 subsets: 20000 draws, binomial, false alarm below 1e-6 (6 sigma of 10 counts)."""
    counts = Participation.subsets(10, 4, 20_000, rng(4)).counts(20_000)
    sigma = np.sqrt(20_000 * 0.4 * 0.6)
    assert np.abs(counts - 8000).max() <= 6 * sigma


def test_rounds_and_counts():
    schedule = Participation.of(4, [[2, 0], [0, 3], [3, 2]])
    assert schedule.rounds_of(3) == [(1, 2), (), (1, 3), (2, 3)]
    assert schedule.rounds_of(1) == [(1,), (), (1,), ()]
    assert schedule.counts(2).tolist() == [2, 0, 1, 1]
    assert schedule.agents(1).tolist() == [0, 2]
    with pytest.raises(ValueError, match="read-only"):
        schedule.table[0, 0] = 1


def test_equality_and_name():
    one, same, other = (Participation.subsets(9, 2, 50, rng(seed)) for seed in (0, 0, 1))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert repr(one) == repr(same) != repr(other)
    assert one != "schedule"


@pytest.mark.parametrize(
    ("build", "term"),
    [
        (lambda: Participation.of(3, [[0], [3]]), "agents 0 to 2"),
        (lambda: Participation.of(3, [[0, 0]]), "once per round"),
        (lambda: Participation.of(3, [[0], [1, 2]]), "same number"),
        (lambda: Participation.of(3, [[0.5]]), "whole numbers"),
        (lambda: Participation.of(3, []), "shape"),
        (lambda: Participation.subsets(3, 4, 2, rng()), "At most all 3"),
        (lambda: Participation.subsets(3, 2, 2, 0), "Generator"),
        (lambda: Participation.permuted(3, 2, None), "Generator"),
        (lambda: Participation.in_turn(0, 2), "n_agents"),
        (lambda: Participation.in_turn(3, 2).agents(3), "rounds 1 to 2"),
        (lambda: Participation.in_turn(3, 2).agents(0), "rounds 1 to 2"),
        (lambda: Participation.in_turn(3, 2).counts(3), "longer"),
    ],
)
def test_refusals(build, term):
    with pytest.raises(InputError, match=term):
        build()


def test_registry_knows_the_methods():
    names = ("fp-centralised", "fp-federated", "fp-walk", "fp-coordinator", "fp-general", "fp-lasso", "dp-cd")
    assert all(by_name()[name].about.certificate.startswith("C") for name in names)
    assert by_name()["fp-walk"].about.topology is Topology.WALK
