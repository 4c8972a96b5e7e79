"""Random batches: their law, and the sums of gradients against a plain loop over records."""

import math
import pickle

import numpy as np
import pytest
from scipy import sparse, stats
from tests.contracts.centred_rows import as_array, centred

from dpadmm.methods.base import Agents
from dpadmm.methods.batches import (
    Batches,
    BatchKind,
    Moment,
    batch_gradients,
    correction_bound,
    whole_gradients,
)
from dpadmm.privacy.releases import FixedSizeSampling, PoissonSampling
from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge, Squared
from dpadmm.problems.problem import EmpiricalRisk, Problem, Weighting
from dpadmm.problems.silos import Silos
from dpadmm.solvers.batch_kernels import fixed_batch, poisson_batch

SIZES = (30, 17, 9)
STORES = (np.asarray, sparse.csr_array, centred)


def silos_of(rng, sizes=SIZES, d=5, store=np.asarray):
    tables = [rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6) for n in sizes]
    tables = [t / np.maximum(1.0, np.linalg.norm(t, axis=1, keepdims=True)) for t in tables]
    labels = [rng.choice([-1.0, 1.0], n) for n in sizes]
    return Silos.from_parts([store(t) for t in tables], labels, row_norm=1.0)


def seated(functions):
    return Agents.of(Problem.of(functions, Weighting.POOLED), None, 1e-9, 1)


def members(batches, n, when, agent, replica):
    """The batch as the kernels draw it."""
    out, key = np.empty(n, np.int64), batches.key(when.step)
    texts = (np.uint64(when.round), np.uint64(replica), np.uint64(agent), key)
    if batches.kind is BatchKind.FIXED:
        count = fixed_batch(n, batches.size, *texts, np.full(n, -1), 0, out)
    else:
        with np.errstate(divide="ignore"):
            count = poisson_batch(n, -np.log1p(-batches.size / n), *texts, out)
    return out[:count]


class TestLaw:
    N, DRAWS = 40, 20_000

    def table(self, batches):
        """Membership of every record in many draws, (draws, records)."""
        inside = np.zeros((self.DRAWS, self.N), dtype=bool)
        for i in range(self.DRAWS):
            who = members(batches, self.N, Moment(1 + i % 50, i // 50 % 20), i // 1000, i % 7)
            assert len(set(who)) == len(who)
            inside[i, who] = True
        return inside

    @pytest.mark.parametrize("kind", list(BatchKind))
    def test_every_record_is_drawn_equally_often(self, kind):
        inside = self.table(Batches(6, seed=11, kind=kind))
        z = (inside.mean(axis=0) - 6 / self.N) / math.sqrt(6 / self.N * (1 - 6 / self.N) / self.DRAWS)
        assert np.abs(z).max() < stats.norm.isf(1e-7 / self.N)

    def test_poisson_sizes_are_binomial_and_records_independent(self):
        inside = self.table(Batches(6, seed=12))
        sizes = np.bincount(inside.sum(axis=1), minlength=self.N + 1)
        expected = stats.binom.pmf(np.arange(self.N + 1), self.N, 6 / self.N) * self.DRAWS
        head = np.append(sizes[1:15], sizes[0] + sizes[15:].sum())
        tail = np.append(expected[1:15], expected[0] + expected[15:].sum())
        assert stats.chisquare(head, tail).pvalue > 1e-6
        pairs = np.corrcoef(inside.T.astype(float))[np.triu_indices(self.N, 1)]
        assert np.abs(pairs).max() * math.sqrt(self.DRAWS) < stats.norm.isf(1e-7 / len(pairs))

    def test_fixed_size_pairs_have_the_law_without_replacement(self):
        inside = self.table(Batches(6, seed=13, kind=BatchKind.FIXED))
        assert np.all(inside.sum(axis=1) == 6)
        together = (inside.T.astype(float) @ inside)[np.triu_indices(self.N, 1)] / self.DRAWS
        share = 6 * 5 / (self.N * (self.N - 1))
        z = (together - share) / math.sqrt(share * (1 - share) / self.DRAWS)
        assert np.abs(z).max() < stats.norm.isf(1e-7 / len(together))

    @pytest.mark.parametrize("kind", list(BatchKind))
    def test_the_whole_silo_can_be_the_batch(self, kind):
        assert sorted(members(Batches(9, seed=1, kind=kind), 9, Moment(3, 2), 0, 0)) == list(range(9))

    def test_rounds_steps_agents_replicas_and_seeds_draw_apart(self):
        first = members(Batches(20, seed=1), 400, Moment(1, 1), 1, 1)
        others = [
            members(Batches(20, seed=s), 400, Moment(k, t), agent, replica)
            for s, k, t, agent, replica in [(2, 1, 1, 1, 1), (1, 2, 1, 1, 1), (1, 1, 2, 1, 1), (1, 1, 1, 2, 1)]
        ] + [members(Batches(20, seed=1), 400, Moment(1, 1), 1, 2)]
        for other in others:
            assert len(set(first) & set(other)) < 10
        np.testing.assert_array_equal(first, members(Batches(20, seed=1), 400, Moment(1, 1), 1, 1))


class TestSums:
    @pytest.mark.parametrize("store", STORES)
    @pytest.mark.parametrize("kind", list(BatchKind))
    @pytest.mark.parametrize("loss", [Logistic(), Huber(0.4), SmoothedHinge(0.5)], ids=lambda v: type(v).__name__)
    def test_against_a_loop_over_records(self, loss, kind, store):
        rng = np.random.default_rng(3)
        agents = seated(EmpiricalRisk(silos_of(rng, store=store), loss, mu=0.3))
        batches, when, clip = Batches(4, seed=5, kind=kind), Moment(7, 2), 0.2
        v, base = (4 * rng.standard_normal((3, 5, 2)) for _ in range(2))
        got = batch_gradients(batches, when, agents, v, base=base, clip=clip)
        risk = agents.functions
        rows = as_array(risk.folded(slice(0, risk.silos.labels.size)))
        shifts = risk.shifts if risk.shifts.size else np.zeros(len(rows))
        for i, n in enumerate(SIZES):
            for r in range(2):
                expected = np.zeros(5)
                for m in members(batches, n, when, i, r):
                    a, shift = rows[risk.silos.offsets[i] + m], shifts[risk.silos.offsets[i] + m]
                    term = (loss.slope(a @ v[i, :, r] - shift) - loss.slope(a @ base[i, :, r] - shift)) * a
                    expected += term * min(1.0, clip / max(np.linalg.norm(term), 1e-300))
                np.testing.assert_allclose(got[i, :, r], agents.weights[i] * expected / 4, atol=1e-13)

    @pytest.mark.parametrize("store", STORES)
    @pytest.mark.parametrize("kind", list(BatchKind))
    def test_a_batch_of_all_records_is_the_gradient(self, kind, store):
        rng = np.random.default_rng(4)
        silos = silos_of(rng, sizes=(12, 12), store=store)
        agents = seated(EmpiricalRisk(silos, Logistic()))
        v = rng.standard_normal((2, 5, 3))
        got = batch_gradients(Batches(12, seed=0, kind=kind), Moment(1), agents, v)
        np.testing.assert_allclose(got, whole_gradients(agents, v), atol=1e-14)
        np.testing.assert_allclose(got, agents.weights[:, None, None] * agents.functions.gradient(v), atol=1e-14)

    def test_a_batch_gradient_is_unbiased(self):
        rng = np.random.default_rng(5)
        agents = seated(EmpiricalRisk(silos_of(rng), Logistic()))
        v = np.repeat(rng.standard_normal((3, 5, 1)), 20_000, axis=2)
        for kind in BatchKind:
            draws = batch_gradients(Batches(3, seed=1, kind=kind), Moment(1), agents, v)
            z = (draws.mean(axis=2) - whole_gradients(agents, v[:, :, :1])[:, :, 0]) / stats.sem(draws, axis=2)
            assert np.abs(z).max() < stats.norm.isf(1e-7 / z.size)

    @pytest.mark.parametrize("store", STORES)
    def test_an_agent_alone_and_fewer_replicas_give_the_same_bits(self, store):
        rng = np.random.default_rng(6)
        agents = seated(EmpiricalRisk(silos_of(rng, store=store), Logistic()))
        v, batches = rng.standard_normal((3, 5, 4)), Batches(5, seed=9)
        whole = batch_gradients(batches, Moment(2, 1), agents, v)
        alone = batch_gradients(batches, Moment(2, 1), agents.alone(1, 1e-9), v[[1], :, :2])
        np.testing.assert_array_equal(whole[[1], :, :2], alone)

    @pytest.mark.parametrize("store", [sparse.csr_array, centred])
    def test_no_record_pulls_harder_than_the_clip(self, store):
        """A batch of one record each: what is stored of centred rows may be longer or shorter than they are."""
        rng = np.random.default_rng(7)
        table, labels = rng.standard_normal((40, 5)), rng.choice([-1.0, 1.0], 40)
        table *= (rng.uniform(0, 1, 40) / np.linalg.norm(table, axis=1))[:, None]
        users = Silos.one_record_each(store(table), labels, row_norm=1.0)
        agents = seated(EmpiricalRisk(users, Logistic()))
        v = 3 * rng.standard_normal((40, 5, 2))
        got = batch_gradients(Batches(1, seed=0), Moment(1), agents, v, clip=0.1) / agents.weights[:, None, None]
        free = agents.functions.gradient(v)
        length = np.linalg.norm(free, axis=1, keepdims=True)
        assert (length > 0.1).any()
        assert (length < 0.1).any()
        np.testing.assert_allclose(got, free * np.minimum(1, 0.1 / length), rtol=1e-10, atol=1e-14)


class TestFacts:
    def test_correction_bound_is_the_range_of_the_slope(self):
        silos = silos_of(np.random.default_rng(0))
        bounds = [correction_bound(EmpiricalRisk(silos, loss)) for loss in (Logistic(), Huber(0.4), SmoothedHinge())]
        assert bounds == [1.0, 0.8, 1.0]
        assert math.isinf(correction_bound(EmpiricalRisk(silos, Squared())))

    def test_sampling_as_the_accountant_reads_it(self):
        assert Batches(5, seed=0).sampling(50) == PoissonSampling(rate=0.1)
        assert Batches(5, seed=0, kind=BatchKind.FIXED).sampling(50) == FixedSizeSampling(size=5, population=50)

    def test_a_secret_seed_is_not_shown(self):
        drawn = Batches.secret(5).with_drawn_seed()
        assert drawn.seed is not None
        assert str(drawn.seed) not in repr(drawn)
        assert repr(Batches(5, seed=1)) != repr(Batches(5, seed=2))

    def test_secret_batches_hold_nothing_that_could_be_used_twice(self):
        secret = Batches.secret(5)
        assert pickle.loads(pickle.dumps(secret)).seed is None
        assert len({secret.with_drawn_seed().seed for _ in range(8)}) == 8
        assert (
            secret.with_drawn_seed().seed >= 2**64 or secret.with_drawn_seed().seed >= 2**64
        )  # 128 bits; both below: 2^-128
        known = Batches(5, seed=3)
        assert known.with_drawn_seed() is known
