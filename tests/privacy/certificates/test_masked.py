"""C12: neighbours that try to move the honest silos' sum further than its certificate, and what is refused."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from tests.contracts.certificates import changed
from tests.contracts.local_facts import local_function

from dpadmm.noise.sampler import grid_for
from dpadmm.privacy.accounting import account_for
from dpadmm.privacy.certificates.gradients import gradient_sum
from dpadmm.privacy.certificates.local import TRUSTED_SUM
from dpadmm.privacy.certificates.sums import Shares, masked_sum
from dpadmm.privacy.curves import GaussianCurve, epsilon_of_delta, m_of
from dpadmm.privacy.protection import Certificate, Protection, Unit, View
from dpadmm.privacy.releases import GaussianRelease, SummedGaussianRelease, seen_noise

quick = settings(deadline=None, derandomize=True, max_examples=150)
GRID = 2.0**-3  # coarse, so that rounding shows
PLAIN = Certificate(
    bound=2.0,
    protection=Protection(unit=Unit.RECORD, view=View.PUBLIC),
    theorem="C9",
    assumptions=("bounded", TRUSTED_SUM),
)


def released(certificate, std=1.0, silos=5):
    return SummedGaussianRelease(certificate=certificate, noise_std=std, silos=silos, agent=-1, round=1)


def rounded_sum(silos, weights, grid):
    """The sum of all silos' weighted mean gradients, each rounded to the grid, in exact arithmetic."""
    total = [Fraction(0)] * len(silos[0][0])
    for rows, weight in zip(silos, weights, strict=True):
        for j in range(len(total)):
            exact = sum(Fraction(row[j]) for row in rows) * Fraction(weight) / len(rows)
            total[j] += round(exact / Fraction(grid)) * Fraction(grid)
    return total


def distance(one, other):
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(one, other, strict=True)))


@st.composite
def neighbouring(draw):
    """Silos of records (vectors of norm at most 1), and the same with r records of a person changed in each of s."""
    n_silos, d = draw(st.integers(3, 6)), draw(st.integers(1, 3))
    sizes = draw(st.lists(st.integers(1, 5), min_size=n_silos, max_size=n_silos))
    r, s = draw(st.integers(1, 3)), draw(st.integers(1, n_silos))
    where = draw(st.permutations(range(n_silos)))[:s]
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    is_worst = draw(st.booleans())

    def unit(shape):
        x = rng.standard_normal(shape)
        return x / np.linalg.norm(x, axis=-1, keepdims=True)

    silos = [unit((n, d)) for n in sizes]
    others = [rows.copy() for rows in silos]
    way = unit((d,)) if is_worst else None
    for i in where:
        changed = min(r, sizes[i])
        silos[i][:changed] = unit((changed, d)) if way is None else way
        others[i][:changed] = unit((changed, d)) if way is None else -way
    weights = draw(st.lists(st.sampled_from([0.25, 0.5, 1.0]), min_size=n_silos, max_size=n_silos))
    return silos, others, weights, r, s, where


class TestBound:
    @quick
    @given(neighbouring(), st.booleans())
    def test_no_neighbours_move_the_rounded_sum_further(self, found, is_colluding):
        """Nor with a colluder's part taken off, of whom the person may have records too."""
        silos, others, weights, r, s, where = found
        locals_ = [
            local_function(
                gradient_bound=1, n_records=len(rows), weight=weight, records_per_person=r, silos_per_person=s
            )
            for rows, weight in zip(silos, weights, strict=True)
        ]
        dimension = silos[0].shape[1]
        said = masked_sum(gradient_sum(locals_), shares=Shares(len(silos), 1), grid=GRID, dimension=dimension)
        honest = [i for i in range(len(silos)) if not (is_colluding and i == where[0])]
        moved = distance(*(
            rounded_sum([world[i] for i in honest], [weights[i] for i in honest], GRID) for world in (silos, others)
        ))  # fmt: skip
        assert moved <= said.bound * (1 + 1e-12)

    def test_the_silos_of_a_person_add_up(self):
        """One noise hides all of them, so the changes add linearly; pairs that pull alike reach it."""
        for s in (1, 2, 3):
            locals_ = [local_function(gradient_bound=1, n_records=2, weight=0.5, silos_per_person=s) for _ in range(4)]
            said = masked_sum(gradient_sum(locals_), shares=Shares(4, 1), grid=2.0**-30, dimension=1)
            worlds = [[np.array([[sign * (i < s)], [0.25]]) for i in range(4)] for sign in (1.0, -1.0)]
            moved = distance(*(rounded_sum(world, [0.5] * 4, 2.0**-30) for world in worlds))
            assert moved == s * 0.5
            assert moved <= said.bound <= moved * (1 + 1e-8)

    @pytest.mark.parametrize("s", [1, 2, 3])
    def test_the_rounding_of_every_silo_counts(self, s):
        """Values on either side of the edge of a cell are next to nothing apart, and a whole grid once rounded."""
        cell, hair = Fraction(GRID), Fraction(1, 10**6)
        plain = changed(PLAIN, bound=float(s * 2 * hair * cell), silos_per_person=s)
        said = masked_sum(plain, shares=Shares(4, 1), grid=GRID, dimension=1)
        worlds = [[np.array([[float(cell * (Fraction(1, 2) + x * (i < s)))]]) for i in range(4)] for x in (-hair, hair)]
        moved = distance(*(rounded_sum(world, [1.0] * 4, GRID) for world in worlds))
        assert moved == s * GRID
        assert moved <= said.bound <= 1.001 * moved

    def test_values_on_the_grid_need_no_rounding(self):
        said = masked_sum(PLAIN, shares=Shares(5, 1), grid=0.25, dimension=9, is_on_grid=True)
        assert said.bound == PLAIN.bound
        assert masked_sum(PLAIN, shares=Shares(5, 1), grid=0.25, dimension=9).bound == PLAIN.bound + 3 * 0.25


class TestWhatIsSaid:
    def test_whom_it_names(self):
        said = masked_sum(PLAIN, shares=Shares(5, 2), grid=GRID, dimension=1)
        assert said.protection == Protection(view=View.AGGREGATE, colluders=2)
        assert said.theorem == "C9 + C12"
        assert TRUSTED_SUM not in said.assumptions
        assert "bounded" in said.assumptions
        texts = " ".join(said.assumptions)
        for part in ("at most 2 of the 5 silos look", "1/3 of the variance", "computationally bounded", "fingerprints"):
            assert part in texts

    @pytest.mark.parametrize(("silos", "factor"), [(2, "1.41"), (5, "1.12"), (20, "1.03")])
    def test_what_no_colluders_leave_out(self, silos, factor):
        said = masked_sum(PLAIN, shares=Shares(silos, 0), grid=GRID, dimension=1)
        assert any("no silo looks" in texts and f"{factor} times" in texts for texts in said.assumptions)

    def test_the_statement_names_the_view(self):
        said = account_for([released(masked_sum(PLAIN, shares=Shares(5, 1), grid=GRID, dimension=1))])
        assert said.protection == Protection(view=View.AGGREGATE, colluders=1)
        assert said.curve.m == pytest.approx(2.125 * (1 + GRID**2 / 4))


class TestShares:
    @pytest.mark.parametrize(("silos", "colluders"), [(2, 0), (5, 0), (5, 1), (5, 3), (100, 50)])
    def test_variances(self, silos, colluders):
        """Those of the honest silos add up to what is counted, those of all to what is seen."""
        said = masked_sum(PLAIN, shares=Shares(silos, colluders), grid=GRID, dimension=1)
        release = released(said, std=3.0, silos=silos)
        assert release.share_std**2 * (silos - colluders) == pytest.approx(9.0)
        assert release.total_std**2 == pytest.approx(release.share_std**2 * silos)
        assert seen_noise(release) == release.total_std >= release.noise_std
        alone = release.share(2)
        assert (alone.agent, alone.noise_std, type(alone)) == (2, release.share_std, GaussianRelease)

    def test_what_a_share_by_itself_would_cost(self):
        """If all others collude, m grows by sqrt(N - t): 2.15 for 1 at N = 5, t = 1."""
        said = masked_sum(PLAIN, shares=Shares(5, 1), grid=2.0**-30, dimension=1)
        release = released(said, std=said.bound / m_of(1.0, 1e-5))
        whole, alone = (math.sqrt(one.cost.m_squared) for one in (release, release.share(0)))
        assert alone == pytest.approx(2 * whole, rel=1e-12)
        assert epsilon_of_delta(alone, 1e-5) == pytest.approx(2.15, abs=0.01)

    def test_what_a_curious_silo_sees_where_none_is_counted(self):
        """At N = 5 1.13 for a certified 1, at N = 2 1.47."""
        m = m_of(1.0, 1e-5)
        for silos, epsilon in ((5, 1.13), (2, 1.47)):
            assert epsilon_of_delta(m * math.sqrt(silos / (silos - 1)), 1e-5) == pytest.approx(epsilon, abs=0.01)

    def test_the_grid_of_a_share_is_finer_than_the_noise(self):
        """What discreteness costs is counted by the noise of the honest sum, on the grid of one share."""
        grid = grid_for(1.0)
        release = released(masked_sum(PLAIN, shares=Shares(5, 1), grid=grid, dimension=1), std=2.0)
        assert release.share_std / grid == 2.0**24
        assert release.grid_factor == 1 + (grid / 4) ** 2

    def test_sums_of_discrete_gaussians_are_discrete_gaussians(self):
        """As the proof says: `4 e^(-pi^2 s^2)` per share in the log ratio; at s = 1 it can be seen."""
        x = np.arange(-60, 61)

        def law(variance):
            weights = np.exp(-(x**2) / (2 * variance))
            return weights / weights.sum()

        share = law(1.0)
        total, inside = share, np.abs(x) <= 12
        for number in (2, 3, 4):
            total = np.convolve(total, share)[60:-60]
            gap = np.abs(np.log(total[inside] / law(float(number))[inside])).max()
            assert 1e-6 < gap <= (number - 1) * 4.01 * math.exp(-(math.pi**2))

    def test_discrete_noise_is_rounded_continuous_noise(self):
        """C8: continuous noise of variance `r^2 - a^2`, rounded at random by a, is discrete up to a log ratio."""
        r, a, whole = 2.0, 0.7, np.arange(-20, 21)
        x, step = np.linspace(-24, 24, 48001, retstep=True)
        weights = np.exp(-((whole[:, None] - x) ** 2) / (2 * a * a))
        law = (weights / weights.sum(0)) @ norm.pdf(x, scale=math.sqrt(r * r - a * a)) * step
        exact = np.exp(-(whole**2) / (2 * r * r))
        gap = np.abs(np.log(law * exact.sum() / exact))[np.abs(whole) < 9].max()
        eta = 2 * math.exp(-2 * (math.pi * a) ** 2)
        assert 1e-9 < gap <= math.log((1 + eta) / (1 - eta))

    @pytest.mark.parametrize("shift", [(1, 0, 0), (3, 0, 0), (1, 1, 0), (2, 1, 1)])
    def test_the_factor_for_discrete_noise_in_several_dimensions(self, shift):
        """A sixth of `1/(4 r^2)` is needed along an axis, and `1/||p||^2` of that along a primitive vector p."""
        r, x = 2.0, np.arange(-24, 25)
        law, inner = np.ones(1), np.zeros(1)
        for step in shift:
            weights = np.exp(-(x**2) / (2 * r * r))
            law = np.outer(law, weights / weights.sum()).ravel()
            inner = np.add.outer(inner, step * x).ravel()
        squared = sum(step * step for step in shift)
        m, loss = math.sqrt(squared) / r, (inner + squared / 2) / (r * r)
        needed = []
        for epsilon in np.linspace(m * m / 2, m * m / 2 + 4 * m, 15):
            discrete = np.sum(law * np.clip(-np.expm1(epsilon - loss), 0, None))
            assert discrete <= GaussianCurve(m * (1 + 1 / (4 * r * r))).delta(epsilon)
            slope = m * norm.pdf(epsilon / m - m / 2)
            needed.append((discrete - GaussianCurve(m).delta(epsilon)) / slope * 4 * r * r)
        expected = math.gcd(*shift) ** 2 / squared / 6
        assert 0.8 * expected <= max(needed) <= 1.05 * expected
