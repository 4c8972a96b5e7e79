"""C11: neighbours that try to move a column profile further than its certificate, and pairs that reach it.

Histograms are counted here once more, cell by cell, in fractions. A row is a tuple of cells, None where one is missing;
numeric columns come first.
"""

import itertools
import math
from bisect import bisect
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpadmm.noise.sampler import grid_for
from dpadmm.privacy.accounting import worst_person
from dpadmm.privacy.certificates.sums import CATEGORY_WEIGHT, column_profile, profile_on_grid
from dpadmm.privacy.curves import GaussianCurve
from dpadmm.privacy.protection import NeighbouringRelation, Protection, Strength, Unit, View
from dpadmm.privacy.releases import GaussianRelease

quick = settings(deadline=None, derandomize=True, max_examples=100)
EDGES = (-1.0, 0.0, 0.5, 2.0)
CATEGORIES = ("a", "b", "c")
ADDED = NeighbouringRelation.ADD_OR_REMOVE
ROUNDING = 1 + 1e-12


def histogram(rows, n_numeric):
    """Count every cell of every row in its bin: (column, bin) -> weight."""
    counts = Counter()
    for row in rows:
        for column, cell in enumerate(row):
            is_numeric = column < n_numeric
            place = "missing" if cell is None else bisect(EDGES, cell) if is_numeric else cell
            counts[column, place] += Fraction(1) if is_numeric else Fraction(1, 2)
    return counts


def shares(users, n_numeric, grid=None):
    """Add up users' histograms, each divided by the user's number of rows, rounded first if there is a grid."""
    total = Counter()
    for rows in users:
        own = Counter({place: count / len(rows) for place, count in histogram(rows, n_numeric).items()})
        total += own if grid is None else rounded(own, grid)
    return total


def rounded(counts, grid):
    return Counter({place: round(count / Fraction(grid)) * Fraction(grid) for place, count in counts.items()})


def n_bins_of(shape):
    return shape[0] * (len(EDGES) + 2) + shape[1] * (len(CATEGORIES) + 1)


def distance(one, other):
    return math.sqrt(sum((one[place] - other[place]) ** 2 for place in one.keys() | other.keys()))


def certificate(columns, n, is_noise_shared=False, **who):
    numeric, categorical = columns
    return column_profile(
        n_numeric=numeric, n_categorical=categorical, n_records=n, protection=Protection(**who),
        is_noise_shared=is_noise_shared,
    )  # fmt: skip


columns = st.tuples(st.integers(0, 3), st.integers(0, 3)).filter(any)
cells = st.none() | st.sampled_from([-5.0, -1.0, -0.5, 0.0, 0.25, 1.0, 2.0, 1e9, math.inf])
texts = st.none() | st.sampled_from(CATEGORIES)


def rows_of(shape, least=0, most=6):
    row = st.tuples(*[cells] * shape[0], *[texts] * shape[1])
    return st.lists(row, min_size=least, max_size=most)


def opposite(rows, n_numeric):
    """Return rows of other bins in every column: the worst that can take the place of these."""

    def other(column, cell):
        if cell is None:
            return 1.0 if column < n_numeric else "b"
        return None

    return [tuple(other(column, cell) for column, cell in enumerate(row)) for row in rows]


@st.composite
def neighbours(draw, silos=1):
    """Rows of several silos in two worlds, (shape, r, P, Q): up to r records of a person replaced in each silo."""
    shape, r = draw(columns), draw(st.integers(1, 4))
    first = [draw(rows_of(shape, least=1)) for _ in range(silos)]
    second = []
    for rows in first:
        k = draw(st.integers(0, min(r, len(rows))))
        is_worst = draw(st.booleans())
        new = opposite(rows[:k], shape[0]) if is_worst else draw(rows_of(shape, least=k, most=k))
        second.append([*new, *rows[k:]])
    return shape, r, first, second


class TestRecords:
    @given(neighbours())
    @quick
    def test_replaced(self, case):
        shape, r, (first,), (second,) = case
        moved = distance(histogram(first, shape[0]), histogram(second, shape[0]))
        assert moved <= certificate(shape, len(first), records_per_person=r).bound * ROUNDING

    @given(st.data(), columns, st.integers(1, 4))
    @quick
    def test_added_or_removed(self, data, shape, r):
        """To an empty silo as well: the sizes of neighbours differ, so none of them caps the bound."""
        rows, new = data.draw(rows_of(shape)), data.draw(rows_of(shape, least=1, most=r))
        if data.draw(st.booleans()):
            new = [new[0]] * r
        moved = distance(histogram(rows, shape[0]), histogram([*rows, *new], shape[0]))
        assert moved <= certificate(shape, max(len(rows), 1), records_per_person=r, relation=ADDED).bound * ROUNDING

    @given(neighbours(silos=3), st.integers(1, 3), st.floats(0.5, 50.0))
    @quick
    def test_a_person_in_several_silos_with_noise_of_their_own(self, case, s, std):
        """What leaves the silos that changed composes (C0) to no more than the accountant says."""
        shape, r, first, second = case
        second = [*second[:s], *first[s:]]
        releases = [
            GaussianRelease(
                certificate=certificate(shape, len(rows), records_per_person=r, silos_per_person=s),
                noise_std=std * (i + 1), agent=i, round=0,
            )
            for i, rows in enumerate(first)
        ]  # fmt: skip
        moved = [distance(histogram(p, shape[0]), histogram(q, shape[0])) for p, q in zip(first, second, strict=True)]
        m = math.hypot(*(gap / release.noise_std for gap, release in zip(moved, releases, strict=True)))
        stated = worst_person(releases)
        assert isinstance(stated, GaussianCurve)
        assert m <= stated.m * ROUNDING

    @given(neighbours(silos=3), st.integers(1, 3))
    @quick
    def test_a_person_in_several_silos_behind_one_noise(self, case, s):
        shape, r, first, second = case
        second = [*second[:s], *first[s:]]
        pooled = [[row for rows in world for row in rows] for world in (first, second)]
        said = certificate(shape, len(pooled[0]), is_noise_shared=True, records_per_person=r, silos_per_person=s)
        assert distance(*(histogram(rows, shape[0]) for rows in pooled)) <= said.bound * ROUNDING
        assert said.protection.silos_per_person == s

    @pytest.mark.parametrize(("r", "n"), [(1, 1), (1, 2), (2, 2), (3, 2)])
    def test_the_worst_of_all_tables_attains_the_bound(self, r, n):
        """All tables of n rows with one numeric and one categorical column, all of their neighbours."""
        table = list(itertools.product((None, -2.0, 0.25), (None, "a", "b")))
        worlds = [histogram(rows, 1) for rows in itertools.combinations_with_replacement(table, min(r, n))]
        worst = max(distance(p, q) for p, q in itertools.combinations(worlds, 2))
        assert worst == pytest.approx(certificate((1, 1), n, records_per_person=r).bound, rel=1e-14)

    @pytest.mark.parametrize("shape", [(1, 0), (0, 1), (3, 2), (7, 40)])
    @pytest.mark.parametrize(("r", "s", "n"), [(1, 1, 1), (1, 1, 90), (3, 1, 2), (3, 2, 90), (3, 2, 5)])
    def test_pairs_that_attain_it(self, shape, r, s, n):
        """All of a person's cells missing, and then none: the bound up to rounding, with one noise for s silos."""
        k = min(r * s, n)
        first = [(None,) * sum(shape)] * k
        p, q = (histogram(rows, shape[0]) for rows in (first, opposite(first, shape[0])))
        who = {"records_per_person": r, "silos_per_person": s}
        assert distance(p, q) == pytest.approx(certificate(shape, n, is_noise_shared=True, **who).bound, rel=1e-14)
        alone = certificate(shape, 1, is_noise_shared=True, relation=ADDED, **who)
        assert distance(histogram(first, shape[0]), Counter()) * r * s / k == pytest.approx(alone.bound, rel=1e-14)


@st.composite
def users(draw, silos=1):
    """Users of several silos in two worlds, (shape, P, Q): one has other rows in each, and another number of them."""
    shape = draw(columns)
    first = [draw(st.lists(rows_of(shape, least=1), min_size=1, max_size=3)) for _ in range(silos)]
    second = []
    for everybody in first:
        new = opposite(everybody[0], shape[0]) if draw(st.booleans()) else draw(rows_of(shape, least=1, most=9))
        second.append([new, *everybody[1:]])
    return shape, first, second


class TestUsers:
    def certificate(self, shape, n=1, is_noise_shared=False, **who):
        return certificate(shape, n, is_noise_shared, unit=Unit.USER, **who)

    @given(users())
    @quick
    def test_all_rows_replaced_and_their_number(self, case):
        shape, (first,), (second,) = case
        moved = distance(shares(first, shape[0]), shares(second, shape[0]))
        assert moved <= self.certificate(shape).bound * ROUNDING

    @given(users(silos=2))
    @quick
    def test_in_two_silos_behind_one_noise(self, case):
        shape, first, second = case
        p, q = (sum((shares(silo, shape[0]) for silo in world), Counter()) for world in (first, second))
        assert distance(p, q) <= self.certificate(shape, is_noise_shared=True, silos_per_person=2).bound * ROUNDING

    @given(users())
    @quick
    def test_added_or_removed(self, case):
        shape, (first,), _ = case
        moved = distance(shares(first, shape[0]), shares(first[1:], shape[0]))
        assert moved <= self.certificate(shape, relation=ADDED).bound * ROUNDING

    @given(users(silos=2), st.integers(-8, 0))
    @quick
    def test_rounded_to_a_grid_one_by_one(self, case, exponent):
        shape, first, second = case
        grid, n_bins = 2.0**exponent, n_bins_of(shape)
        for is_noise_shared, silos in ((False, 1), (True, 2)):
            own = self.certificate(shape, is_noise_shared=is_noise_shared, silos_per_person=silos)
            said = profile_on_grid(own, grid=grid, n_bins=n_bins)
            p, q = (
                sum((shares(silo, shape[0], grid) for silo in world[:silos]), Counter()) for world in (first, second)
            )
            assert distance(p, q) <= said.bound * ROUNDING
            assert (said.grid, said.grid_dimension, said.theorem) == (grid, n_bins, "C11 + C8")

    @pytest.mark.parametrize("n_rows", [1, 3, 50])
    def test_a_user_who_attains_it(self, n_rows):
        gone, there = [(None, None)] * n_rows, [(1.0, "a")]
        moved = distance(shares([gone], 1), shares([there], 1))
        assert moved == pytest.approx(self.certificate((1, 1)).bound, rel=1e-14)

    def test_rows_of_a_user_do_not_multiply_the_bound(self):
        many = self.certificate((2, 3), records_per_person=40)
        assert many.bound == self.certificate((2, 3)).bound
        assert (many.protection.unit, many.protection.records_per_person) == (Unit.USER, 1)

    @pytest.mark.parametrize("exponent", [-24, -20, -30])
    def test_floating_point_shares_round_like_exact_ones(self, exponent):
        """Below 2^53 grid rows a share computed in 64-bit numbers lies at the same multiple of the grid."""
        rng, grid = np.random.default_rng(exponent % 100), 2.0**exponent
        sizes = rng.integers(1, int(min(2**53 * grid, 2**28)), 2000)
        counts = np.minimum(rng.integers(0, 2**28, 2000), sizes)
        found = np.rint(counts / sizes / grid)
        exact = [round(Fraction(int(a), int(n)) / Fraction(grid)) for a, n in zip(counts, sizes, strict=True)]
        assert found.tolist() == exact


class TestGrid:
    @given(neighbours(), st.integers(-30, -1))
    @quick
    def test_counts_lie_on_every_grid_up_to_a_half(self, case, exponent):
        shape, r, (first,), _ = case
        grid = Fraction(2) ** exponent
        assert all((count / grid).denominator == 1 for count in histogram(first, shape[0]).values())
        own = certificate(shape, len(first), records_per_person=r)
        said = profile_on_grid(own, grid=float(grid), n_bins=64)
        assert said.bound == own.bound
        assert (said.grid, said.grid_dimension, said.theorem) == (float(grid), 64, "C11 + C8")

    def test_a_coarser_grid_rounds(self):
        own = certificate((2, 3), 100)
        assert profile_on_grid(own, grid=4.0, n_bins=25).bound == own.bound + 4.0 * 5
        two = certificate((2, 3), 100, is_noise_shared=True, silos_per_person=2)
        assert profile_on_grid(two, grid=4.0, n_bins=25).bound == two.bound + 2 * 4.0 * 5

    @pytest.mark.parametrize("unit", [Unit.PERSON, Unit.USER])
    def test_shares_of_persons_and_users_are_rounded_on_every_grid(self, unit):
        own = certificate((2, 3), 100, unit=unit)
        assert profile_on_grid(own, grid=2.0**-24, n_bins=25).bound == own.bound + 2.0**-24 * 5

    @given(neighbours(silos=2), st.integers(0, 3))
    @quick
    def test_counts_rounded_silo_by_silo(self, case, exponent):
        shape, r, first, second = case
        grid, total = 2.0**exponent, sum(map(len, first))
        own = certificate(shape, total, is_noise_shared=True, records_per_person=r, silos_per_person=2)
        p, q = (
            sum((rounded(histogram(rows, shape[0]), grid) for rows in world), Counter()) for world in (first, second)
        )
        assert distance(p, q) <= profile_on_grid(own, grid=grid, n_bins=n_bins_of(shape)).bound * ROUNDING

    def test_counts_whose_rounding_needs_all_of_it(self):
        """Counts of half a grid and a hair less, in two silos: rounding moves them by nearly the whole term more."""
        grid, n, k = 2.0**20, 2**19, 64
        p, q = (Counter({column: Fraction(n + sign) for column in range(k)}) for sign in (1, -1))
        assert distance(p, q) < 20
        moved = 2 * distance(rounded(p, grid), rounded(q, grid))
        own = certificate((k, 0), 2 * k * n, is_noise_shared=True, records_per_person=2, silos_per_person=2)
        assert moved == 2 * grid * math.sqrt(k)
        assert moved <= profile_on_grid(own, grid=grid, n_bins=2 * k).bound
        assert moved > own.bound + grid * math.sqrt(k)

    def test_the_grid_of_usual_noise_adds_nothing(self):
        own = certificate((6, 8), 30_000)
        said = profile_on_grid(own, grid=grid_for(1000 * own.bound), n_bins=250)
        assert said.bound == own.bound
        assert said.strength is Strength.FULL


class TestTerms:
    def test_by_hand(self):
        """Adult: 6 numeric and 8 categorical columns, `D_0^2 = 2 6 + 2 8/4`."""
        assert certificate((6, 8), 30_000).bound == 4.0
        assert certificate((6, 8), 30_000, relation=ADDED).bound == pytest.approx(math.sqrt(8))
        assert CATEGORY_WEIGHT == 0.5

    @pytest.mark.parametrize("unit", [Unit.RECORD, Unit.USER])
    @pytest.mark.parametrize("relation", list(NeighbouringRelation))
    def test_what_the_certificate_says_of_itself(self, unit, relation):
        who = Protection(unit=unit, relation=relation, records_per_person=3, silos_per_person=2)
        said = column_profile(n_numeric=1, n_categorical=1, n_records=9, protection=who)
        assert (said.protection.unit, said.protection.relation, said.protection.silos_per_person) == (unit, relation, 2)
        assert said.protection.records_per_person == (3 if unit is Unit.RECORD else 1)
        assert (said.theorem, said.strength, said.protection.view) == ("C11", Strength.FULL, View.EAVESDROPPER)
        assert any("public" in text for text in said.assumptions)

    def test_one_noise_protects_from_those_who_see_the_result(self):
        assert certificate((1, 1), 9, is_noise_shared=True).protection.view is View.PUBLIC
