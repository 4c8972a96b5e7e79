"""Schedules: what each order promises, counts, equality, refusals; and the registry's names."""

import numpy as np
import pytest

from dpadmm.errors import InputError
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
    with pytest.raises(InputError):
        Participation.of(3, [[0], [1, 2]])


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
