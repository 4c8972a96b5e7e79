"""Seeded noise: the contract, an independent generator, and that a number depends on its name alone."""

import hashlib
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.noise_contract import (
    RELEASES,
    NoiseContract,
    gaussian,
    is_independent,
    laplace,
    message,
    spherical,
)

from dpadmm.noise import kernels
from dpadmm.noise.mechanisms import COORDINATOR, MessageKind
from dpadmm.noise.sampler import Draw, SimulatedSampler

LARGEST = 2**32 - 2


class TestSimulatedSampler(NoiseContract):
    @pytest.fixture
    def sampler(self):
        return SimulatedSampler(seed=20_240)


def philox(counter, key):
    """Philox4x32-10 in plain Python."""
    c, k = list(counter), list(key)
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(q >> 32) ^ c[1] ^ k[0], q & 0xFFFFFFFF, (p >> 32) ^ c[3] ^ k[1], p & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c[0] | c[1] << 32, c[2] | c[3] << 32


def plain_uint64(seed, kind, round, agent, replica, pair, purpose=0):
    text = f"dpadmm noise 1|{seed}|{purpose}|{kind.step}|{kind.name}"
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    key = int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")
    return philox((pair, replica, agent % 2**32, round), key)


def plain_exponential(term):
    return -math.log(((term >> 12) + 0.5) / 2**52)


def plain_normal(seed, kind, round, agent, replica, coordinate):
    first, second = plain_uint64(seed, kind, round, agent, replica, coordinate // 2)
    angle = (((second << 2) % 2**64 >> 12) + 0.5) / 2**52 - 0.5 + (0, -1, 2, 1)[second >> 62]
    turn = math.sin if coordinate % 2 else math.cos
    return math.sqrt(2 * plain_exponential(first)) * turn(angle * math.pi / 2)


AGENTS = [COORDINATOR, 0, 3, LARGEST]
REPLICAS = [0, 5, LARGEST]
DRAW = Draw(MessageKind("inner", 17), 2**32 - 1, AGENTS, REPLICAS)


def plain_normals(d):
    names = itertools.product(AGENTS, range(d), REPLICAS)
    numbers = [plain_normal(9, DRAW.kind, DRAW.round, a, r, j) for a, j, r in names]
    return np.reshape(numbers, (len(AGENTS), d, len(REPLICAS)))


def test_normals_are_those_of_a_plain_generator():
    values = np.zeros((4, 5, 3))
    result = SimulatedSampler(9).perturb(values, gaussian(2.0, round=DRAW.round), DRAW)
    np.testing.assert_allclose(result, 2.0 * plain_normals(5), rtol=0, atol=1e-13)


def test_spherical_noise_is_that_of_a_plain_generator():
    d = 3
    result = SimulatedSampler(9).perturb(np.zeros((4, d, 3)), spherical(2.0, round=DRAW.round), DRAW)
    normals = plain_normals(d)
    for (i, agent), (r, replica) in itertools.product(enumerate(AGENTS), enumerate(REPLICAS)):
        texts = [plain_uint64(9, DRAW.kind, DRAW.round, agent, replica, j // 2, 1)[j % 2] for j in range(d)]
        norm = 2.0 * sum(plain_exponential(term) for term in texts)
        direction = normals[i, :, r] / np.linalg.norm(normals[i, :, r])
        np.testing.assert_allclose(result[i, :, r], norm * direction, rtol=1e-12)


def test_laplace_noise_is_that_of_a_plain_generator():
    result = SimulatedSampler(9).perturb(np.zeros((4, 3, 3)), laplace(2.0, round=DRAW.round), DRAW)
    for (i, agent), j, (r, replica) in itertools.product(enumerate(AGENTS), range(3), enumerate(REPLICAS)):
        term = plain_uint64(9, DRAW.kind, DRAW.round, agent, replica, j // 2)[j % 2]
        assert result[i, j, r] == pytest.approx(2.0 * plain_exponential(term) * (-1) ** (term & 1), rel=1e-14)


@pytest.mark.parametrize("make", RELEASES)
@pytest.mark.parametrize("d", [1, 2, 7, 300])
@settings(deadline=None, derandomize=True, max_examples=15)
@given(data=st.data())
def test_a_number_does_not_depend_on_its_batch(make, d, data):
    values = np.random.default_rng(1).standard_normal((6, d, 5))
    release = make(dimension=d)
    whole = SimulatedSampler(3).perturb(values, release, message(agents=6, replicas=5))
    agents = np.array(data.draw(st.permutations(range(6))))[: data.draw(st.integers(1, 6))]
    replicas = np.array(data.draw(st.permutations(range(5))))[: data.draw(st.integers(1, 5))]
    draw = message(agents=agents, replicas=replicas)
    releases = [make(dimension=d, agent=int(a)) for a in agents]
    part = SimulatedSampler(3).perturb(values[np.ix_(agents, np.arange(d), replicas)], releases, draw)
    np.testing.assert_array_equal(part, whole[np.ix_(agents, np.arange(d), replicas)])


@pytest.mark.parametrize("make", [gaussian, laplace, spherical])
def test_a_number_does_not_depend_on_the_dimension(make):
    values = np.zeros((400, 101, 4))
    draw = message(agents=400, replicas=4)
    one = SimulatedSampler(3).perturb(values, make(dimension=101), draw)
    if make is not spherical:  # whose direction is of the whole vector
        short = SimulatedSampler(3).perturb(values[:, :7], make(dimension=7), draw)
        np.testing.assert_array_equal(short, one[:, :7])


def test_no_two_names_share_a_stream():
    indices = [0, 1, 2, 255, 256, 2**16, 2**31 - 1, 2**31, LARGEST]
    kinds = [
        MessageKind("message"),
        MessageKind("message", 1),
        MessageKind("message", 11),
        MessageKind("message|1"),
        MessageKind("1|message"),
        MessageKind("m", 1),
    ]
    seen = []
    for kind, round in itertools.product(kinds, [*indices, 2**32 - 1]):
        draw = Draw(kind, round, [COORDINATOR, *indices], indices)
        values = np.zeros((1 + len(indices), 2, len(indices)))
        seen.append(SimulatedSampler(0).perturb(values, gaussian(round=round), draw))
    numbers = np.abs(np.ravel(seen))
    assert np.unique(numbers).size == numbers.size == 6 * 10 * 10 * 2 * 9


def test_seeds_differ():
    seeds = [0, 1, 2**32, 2**64, 2**64 + 1, 10**30]
    draws = [SimulatedSampler(s).perturb(np.zeros((1, 4, 1)), gaussian(), message(agents=1)) for s in seeds]
    assert np.unique(np.ravel(draws)).size == 4 * len(seeds)


@pytest.mark.parametrize("make", [gaussian, laplace, spherical])
def test_replicas_and_seeds_are_independent(make):
    values = np.zeros((20, 50, 100))
    x = SimulatedSampler(1).perturb(values, make(), message(agents=20, replicas=100))
    y = SimulatedSampler(2).perturb(values, make(), message(agents=20, replicas=100))
    assert is_independent(x[:, :, 1:], x[:, :, :-1])
    assert is_independent(x, y)
    transposed = np.swapaxes(x[:, :, :20], 0, 2)  # agent a, replica b against agent b, replica a
    off = ~np.eye(20, dtype=bool)
    assert is_independent(np.swapaxes(x[:, :, :20], 1, 2)[off], np.swapaxes(transposed, 1, 2)[off])


def test_the_kernels_are_compiled_once(monkeypatch):
    """A second compilation, for read-only arrays say, would cost seconds."""
    monkeypatch.setattr("dpadmm.noise.sampler._FEW", 0)
    values = np.zeros((2, 3, 2))
    values.flags.writeable = False
    for make in (gaussian, laplace, spherical):
        for releases in (make(), [make(agent=0), make(agent=1)]):
            SimulatedSampler(1).perturb(values, releases, message(agents=2, replicas=2))
    assert len(kernels.add_noise.signatures) == 1
