"""Counts of a column profile, and the encoding that follows from noisy ones."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from dpadmm.data.columns import BinaryLabel, Categorical, Numeric
from dpadmm.data.profile import NumberBins, ProfileForm, ReleasedProfile, on_simplex
from dpadmm.data.schema import Schema
from dpadmm.data.tables import screen_cells
from dpadmm.settings import CellRules

few = settings(max_examples=60, deadline=None, derandomize=True)
COLUMNS = (
    Numeric("age", 0, 120),
    Categorical("ward", ("a", "b", "c")),
    Numeric("change", -50, 200),
    Numeric("year", 1900, 2030),
)
SCHEMA = Schema(COLUMNS, BinaryLabel("sick", positive=("yes",), negative=("no",)), constant=0.3)
FORM = ProfileForm(COLUMNS)
NUMBERS = ProfileForm((COLUMNS[0], COLUMNS[2], COLUMNS[3]))
CELLS = {
    "age": st.sampled_from(["0", "-0.0", "1e-9", "0.1171875", "119.9", "120", "999", None]),
    "ward": st.sampled_from(["a", "b", "c", "d", None]),
    "change": st.sampled_from(["0", "-50", "-25", "200", "3.25", None]),
    "year": st.sampled_from(["1900", "1901", "2030", "1965", None]),
}


def place_by_hand(bins, cell):
    """The bin of a cell by exact arithmetic: the first whose end lies beyond it, the last also at its end."""
    if cell is None:
        return bins.number - 1
    value = min(max(Fraction(float(cell)), Fraction(bins.lower)), Fraction(bins.upper))
    if value == Fraction(bins.anchor):
        return bins.number - 2
    ends = [Fraction(edge) for edge in bins.edges.tolist()]
    inside = [i for i, (low, high) in enumerate(pairwise(ends)) if low <= value < high]
    return inside[0] if inside else len(ends) - 2


@few
@given(st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=8), st.booleans())
def test_every_record_is_one_count_in_every_column(rows, is_blanked):
    frame = pd.DataFrame([{**row, "sick": "yes"} for row in rows], dtype=object)
    if is_blanked and all(None in row.values() for row in rows):
        return
    screening = CellRules(missing="blank" if is_blanked else "fill", unlisted="zero")
    found = screen_cells(SCHEMA, frame, "t", screening)
    wanted = []
    for column, bins in zip(COLUMNS, FORM.bins, strict=True):
        counts = np.zeros(bins.number)
        for row in rows:
            cell = None if is_blanked and None in row.values() else row[column.name]
            if isinstance(bins, NumberBins):
                counts[place_by_hand(bins, cell)] += 1
            else:
                counts[column.categories.index(cell) if cell in column.categories else bins.number - 1] += 0.5
        wanted.append(counts)
    got = found.counts(FORM)
    np.testing.assert_array_equal(got, np.concatenate(wanted))
    parts = np.split(got, np.cumsum([bins.number for bins in FORM.bins])[:-1])
    assert [part.sum() for part in parts] == [len(rows), len(rows) / 2, len(rows), len(rows)]


@few
@given(hnp.arrays(np.float64, (6, 3), elements=st.sampled_from([0.0, -7.0, 1900.0, 31.5, 1e9])))
def test_an_array_is_counted_like_a_table(X):
    frame = pd.DataFrame(X, columns=[column.name for column in NUMBERS.columns])
    cells = [column.read(frame[column.name]) for column in NUMBERS.columns]
    wanted = NUMBERS.counts(cells, np.zeros(6, dtype=bool))
    np.testing.assert_array_equal(NUMBERS.counts_of_numbers(X), wanted)
    np.testing.assert_array_equal(NUMBERS.counts_of_numbers(sparse.csr_array(X)), wanted)


def test_bins_of_signed_columns_halve_on_both_sides_and_cover_the_range():
    bins = NumberBins(-50.0, 200.0)
    assert {-25.0, -12.5, 0.0, 100.0, 50.0, 25.0} <= set(bins.edges.tolist())
    assert (bins.edges[0], bins.edges[-1]) == (-50.0, 200.0)
    assert NumberBins(1900.0, 2030.0).anchor == 1900.0
    for low, high in ((0.0, 1.0), (-1.0, 0.0), (-3.0, 8.0), (5.0, 9.0), (1e-300, 1e300)):
        assert 19 <= NumberBins(low, high).number <= 34


def profile_of(form, counts, noise_std, records):
    return ReleasedProfile.of(form, np.asarray(counts, dtype=float), noise_std, records)


@few
@given(
    hnp.arrays(np.float64, FORM.size, elements=st.floats(-1e6, 1e6)),
    st.sampled_from([1e-6, 0.5, 30.0, 1e5]),
    st.sampled_from([1, 50, 10**6]),
)
def test_whatever_the_noise_says_rows_keep_their_norm(counts, noise_std, records):
    """The certificates of training rest on this alone, for any profile."""
    profile = profile_of(FORM, counts, noise_std, records)
    encoding = SCHEMA.encoding(0.6, profile)
    assert np.all(np.isfinite([*encoding.centre, *encoding.scale, encoding.radius]))
    frame = pd.DataFrame(
        {"age": ["0", "120", None], "ward": ["a", None, "c"], "change": ["-50", "200", "0"], "year": ["1900"] * 3}
    )
    rows = screen_cells(SCHEMA, frame, "t", CellRules(missing="fill"), is_labelled=False).rows(encoding)
    assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12


def counted(values):
    """The exact counts of one column of numbers from 0 to 1000."""
    form = ProfileForm((Numeric("x", 0, 1000),))
    return form, form.counts_of_numbers(np.asarray(values, dtype=float)[:, None])


@pytest.mark.parametrize(("mean", "deviation"), [(500, 100), (100, 30), (800, 150)])
def test_without_noise_centre_and_scale_are_mean_and_deviation(mean, deviation):
    x = np.clip(np.random.default_rng(1).normal(mean, deviation, 20_000), 0, 1000)
    form, counts = counted(x)
    [scale] = profile_of(form, counts, 1e-9, len(x)).scales(form.columns)
    assert scale.centre[0] == pytest.approx(mean, abs=25)
    assert scale.scale[0] == pytest.approx(deviation, rel=0.35)


@pytest.mark.parametrize("width", [1e-290, 1e-200, 1e155, 1e200, 1e299])
def test_the_unit_of_a_column_does_not_matter(width):
    """Neither at the ends of 64-bit numbers, where a fit would fail after it was paid for."""
    found = []
    for each in (1.0, width):
        column = Numeric("x", -each, each)
        form = ProfileForm((column,))
        counts = np.random.default_rng(0).integers(0, 1000, form.size).astype(float)
        (scale,) = ReleasedProfile.of(form, counts, 1.0, int(counts.sum())).scales((column,))
        found.append(np.array([*scale.centre, *scale.scale, *scale.lower, *scale.upper]) / each)
    assert found[1] == pytest.approx(found[0], rel=1e-9)


def test_where_nothing_stands_out_of_the_noise_the_public_default_stays():
    noise = np.random.default_rng(2)
    for column in COLUMNS:
        form = ProfileForm((column,))
        for _ in range(20):
            counts = noise.normal(0, 30, form.size)
            [scale] = profile_of(form, counts * form.weights, 30.0, 100).scales(form.columns)
            assert scale.scale[0] > 0
        [scale] = profile_of(form, np.zeros(form.size), 30.0, 100).scales(form.columns)
        assert scale == column.usual_scale()


def test_a_column_that_is_mostly_zero_keeps_space_for_the_rest():
    """Capital gains: with the deviation of what is visible alone, few large values would drown all other columns."""
    rng = np.random.default_rng(3)
    x = np.where(rng.random(30_000) < 0.92, 0.0, np.minimum(rng.lognormal(4, 1, 30_000), 1000))
    form, counts = counted(x)
    noisy = counts + rng.normal(0, 300, len(counts))
    [scale] = profile_of(form, noisy, 300.0, len(x)).scales(form.columns)
    assert abs(scale.centre[0]) < 20
    assert scale.scale[0] > 0.5 * x.std()
    form, counts = counted(np.zeros(1000))
    [scale] = profile_of(form, counts, 1e-9, 1000).scales(form.columns)
    assert (scale.centre[0], scale.scale[0]) == (0.0, 30.0)


@pytest.mark.parametrize("times", [1, 30, 300])
def test_bounds_that_are_far_too_wide_do_not_become_the_scale(times):
    """The noise leaves a share of the records unseen; spread over bounds far too wide it would hide the column."""
    rng = np.random.default_rng(4)
    ages = rng.integers(18, 95, 6000).astype(float)
    form = ProfileForm((Numeric("age", 0, 120 * times),))
    counts = form.counts_of_numbers(ages[:, None])
    for _ in range(20):
        noisy = counts + rng.normal(0, 60, len(counts))
        [scale] = profile_of(form, noisy, 60.0, len(ages)).scales(form.columns)
        assert 15 < scale.scale[0] < 250


def test_a_typed_typical_value_still_wins():
    column = Numeric("x", 0, 1000, typical=300)
    form = ProfileForm((column,))
    counts = form.counts_of_numbers(np.full((1000, 1), 500.0))
    [scale] = profile_of(form, counts, 1.0, 1000).scales((column,))
    assert scale.centre == (300.0,)
    assert scale.scale[0] >= 200.0


def test_frequencies_of_rare_categories_share_what_is_left():
    column = Categorical("ward", tuple("abcde"))
    form = ProfileForm((column,))
    counts = np.array([600, 300, 4, -3, 2, 0]) * 0.5
    [scale] = profile_of(form, counts, 5.0, 1000).scales((column,))
    np.testing.assert_allclose(scale.centre, [0.6, 0.3, 0.1 / 3, 0.1 / 3, 0.1 / 3])
    assert scale.scale == (1.0,) * 5


@few
@given(hnp.arrays(np.float64, st.integers(1, 6), elements=st.floats(-2, 2)))
def test_the_projection_is_the_nearest_point_of_the_simplex(values):
    found = on_simplex(values)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)
    others = np.random.default_rng(0).dirichlet(np.ones(len(values)), 50)
    assert np.linalg.norm(found - values) <= np.linalg.norm(others - values, axis=1).min() + 1e-9


def test_other_bins_are_another_form(monkeypatch):
    """A profile that was counted in the bins of another version must not be taken for one in these."""
    form = ProfileForm((Numeric("x", 0.0, 1.0),))
    before = form.digest
    monkeypatch.setattr("dpadmm.data.profile._BINS_VERSION", 0)
    assert form.digest != before


def test_other_columns_or_counts_are_another_form():
    wider = ProfileForm((Numeric("age", 0, 121), *COLUMNS[1:]))
    assert wider.digest != FORM.digest
    assert ProfileForm(COLUMNS).digest == FORM.digest


class TestNominalNumbers:
    """Where the number of records is secret, shares are taken of what the noisy counts say it is."""

    COLUMNS = (Numeric("a", -1.0, 1.0), Categorical("b", ("u", "v")))

    def released(self, nominal, noise_std=3.0, number=5000):
        form, rng = ProfileForm(self.COLUMNS), np.random.default_rng(1)
        counts = np.concatenate([np.full(n, number / n) for n in (form.bins[0].number, form.bins[1].number)])
        noisy = counts * form.weights + rng.normal(0, noise_std, form.size)
        return ReleasedProfile.of(form, noisy, noise_std, nominal, is_nominal=True)

    def test_a_nominal_number_stays_unless_the_counts_clearly_say_another(self):
        assert self.released(5000).counted == 5000
        assert self.released(5010, noise_std=30.0).counted == 5010
        for nominal in (1000, 9000):
            assert self.released(nominal).counted == pytest.approx(5000, abs=60)

    def test_the_encoding_hardly_depends_on_the_nominal_number(self):
        near, far = (self.released(nominal).scales(self.COLUMNS) for nominal in (5000, 500))
        assert near[0].centre == pytest.approx(far[0].centre, abs=0.02)
        assert near[0].scale == pytest.approx(far[0].scale, rel=0.02)

    def test_a_public_number_is_taken_as_it_is(self):
        assert replace(self.released(1000), is_nominal=False).counted == 1000

    def test_an_empty_table_has_a_profile(self):
        released = self.released(5000, number=0)
        assert released.counted >= 1
        assert len(released.table()) == 2
