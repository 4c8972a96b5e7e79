"""Requests for noise: what is checked before anything is drawn."""

import math

import numpy as np
import pytest
from tests.contracts.noise_contract import certificate, gaussian, laplace, message, spherical

from dpadmm.errors import InputError
from dpadmm.noise.mechanisms import COORDINATOR, MessageKind
from dpadmm.noise.sampler import Draw, SecureSampler, SimulatedSampler, family_of
from dpadmm.privacy.releases import BareRelease, CoordinateLaplaceRelease

SAMPLERS = [SimulatedSampler(1), SecureSampler()]


def test_batches_count_from_zero_or_take_indices():
    for agents, expected in ((3, [0, 1, 2]), ([7, 5], [7, 5]), ([COORDINATOR], [COORDINATOR])):
        draw = Draw(MessageKind("message"), 1, agents, [4])
        assert (draw.agents.tolist(), draw.replicas.tolist()) == (expected, [4])


@pytest.mark.parametrize(
    ("agents", "replicas"),
    [
        (0, 1),
        (1, 0),
        ([1, 1], 1),
        ([2, 1, 2], 1),
        (1, [3, 3]),
        ([-2], 1),
        (1, [-1]),
        ([2**32 - 1], 1),
        ([0.5], 1),
        ([], 1),
    ],
)
def test_bad_batches_are_refused(agents, replicas):
    with pytest.raises(InputError):
        Draw(MessageKind("message"), 1, agents, replicas)


def test_a_batch_does_not_change_with_the_array_it_came_from():
    indices = np.array([1, 2])
    batch = Draw(MessageKind("message"), 1, indices)
    indices[0] = 9
    assert batch.agents[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        batch.agents[0] = 9


@pytest.mark.parametrize("round", [-1, 2**32, 1.5, math.nan])
def test_bad_rounds_are_refused(round):
    with pytest.raises((InputError, ValueError)):
        Draw(MessageKind("message"), round, 1)


def test_bad_slots_are_refused():
    with pytest.raises(InputError):
        MessageKind("")
    with pytest.raises(InputError):
        MessageKind("inner", -1)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize(
    ("releases", "texts"),
    [
        (gaussian(round=2), "round 2"),
        (gaussian(agent=9), "agent 9"),
        ([gaussian(agent=0)], "in order"),
        ([gaussian(agent=1), gaussian(agent=0)], "in order"),
        ([gaussian(agent=0), gaussian(agent=1, round=3)], "round 3"),
        ([gaussian(agent=0), laplace(agent=1)], "CoordinateLaplace, Gaussian"),
        (BareRelease(reason="test", agent=0, round=1), "BareRelease"),
    ],
)
def test_releases_of_another_draw_are_refused(sampler, releases, texts):
    with pytest.raises(InputError, match=texts):
        sampler.perturb(np.zeros((2, 3, 1)), releases, message(agents=2))


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("shape", [(2, 3), (1, 3, 1), (2, 3, 2), (2, 0, 1), (3, 2, 1)])
def test_values_of_another_shape_are_refused(sampler, shape):
    with pytest.raises(InputError, match="shape"):
        sampler.perturb(np.zeros(shape), gaussian(), message(agents=2))


@pytest.mark.parametrize("make", [gaussian, laplace])
@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_noise_that_is_none_is_refused(make, scale):
    release = make()
    field = "noise_std" if make is gaussian else "scale"
    object.__setattr__(release, field, scale)
    with pytest.raises(InputError, match=r"std|scale"):
        SimulatedSampler(1).perturb(np.zeros((1, 3, 1)), release, message(agents=1))


def test_spherical_noise_needs_a_rate():
    release = spherical()
    object.__setattr__(release, "rate", 0.0)
    with pytest.raises(InputError, match="rate"):
        family_of(release)


def test_laplace_on_coordinates_needs_an_l1_certificate():
    release = CoordinateLaplaceRelease(certificate=certificate(), scale=1.0, agent=0, round=1)
    with pytest.raises(InputError, match="L1"):
        family_of(release)


def test_lists_and_fortran_order_are_taken():
    draw = message(agents=2, replicas=3)
    values = np.arange(24.0).reshape(2, 4, 3)
    plain = SimulatedSampler(1).perturb(values, gaussian(), draw)
    np.testing.assert_array_equal(SimulatedSampler(1).perturb(np.asfortranarray(values), gaussian(), draw), plain)
    np.testing.assert_array_equal(SimulatedSampler(1).perturb(values.tolist(), gaussian(), draw), plain)
