"""Requests for noise: what is checked before anything is drawn."""

import numpy as np
import pytest
from tests.contracts.noise_contract import gaussian, message

from dpadmm.noise.mechanisms import COORDINATOR, MessageKind
from dpadmm.noise.sampler import Draw, SimulatedSampler


def test_batches_count_from_zero_or_take_indices():
    for agents, expected in ((3, [0, 1, 2]), ([7, 5], [7, 5]), ([COORDINATOR], [COORDINATOR])):
        draw = Draw(MessageKind("message"), 1, agents, [4])
        assert (draw.agents.tolist(), draw.replicas.tolist()) == (expected, [4])


def test_a_batch_does_not_change_with_the_array_it_came_from():
    indices = np.array([1, 2])
    batch = Draw(MessageKind("message"), 1, indices)
    indices[0] = 9
    assert batch.agents[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        batch.agents[0] = 9


def test_lists_and_fortran_order_are_taken():
    draw = message(agents=2, replicas=3)
    values = np.arange(24.0).reshape(2, 4, 3)
    plain = SimulatedSampler(1).perturb(values, gaussian(), draw)
    np.testing.assert_array_equal(SimulatedSampler(1).perturb(np.asfortranarray(values), gaussian(), draw), plain)
    np.testing.assert_array_equal(SimulatedSampler(1).perturb(values.tolist(), gaussian(), draw), plain)
