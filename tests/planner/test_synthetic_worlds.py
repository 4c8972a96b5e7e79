"""Synthetic worlds: tables that look like tables, encoded by the code that encodes private rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import skew

from dpadmm.core.task import TableShape
from dpadmm.data.encoding import CONSTANT
from dpadmm.planner.candidates import STANDARD, RowForm
from dpadmm.planner.simulations import WORLDS, draw, encode_world, shrink_table
from dpadmm.problems.losses import LabelKind

TABLE = TableShape(9, (4, 11, 2))
FORMS = (STANDARD, RowForm(0.6), RowForm(0.6, 0.002), RowForm(1.4, 0.05))


def drawn(world, n=2000, kind=LabelKind.SIGNS, positive=None):
    return draw(world, TABLE, n, kind, positive)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_rows_are_encoded_as_private_rows_are(world):
    table = drawn(world)
    for form in FORMS:
        rows = encode_world(table, form)
        assert rows.shape == (2000, 9 + 4 + 11 + 2 + 1)
        assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12
        assert np.all(rows[:, -1] == CONSTANT)
    # With this reach most rows are shortened; a usual row is not.
    full = np.linalg.norm(encode_world(table, RowForm(0.6)), axis=1) > 1 - 1e-9
    assert full.mean() > 0.8


def test_worlds_have_heavy_tails_and_rare_categories():
    columns = [cells for world in WORLDS for cells in drawn(world).cells]
    numbers = [cells.values for cells in columns if not cells.is_category]
    assert max(skew(values) for values in numbers) > 4
    assert any((values == 0).mean() > 0.5 for values in numbers)
    assert all(values.min() >= 0 and values.max() <= 1 for values in numbers)
    shares = [np.bincount(cells.codes) / len(cells.codes) for cells in columns if cells.is_category]
    assert min(share.min() for share in shares) < 0.05


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_a_profile_of_nothing_but_noise_is_no_profile(world):
    table = drawn(world)
    assert np.array_equal(encode_world(table, RowForm(0.6, 50.0)), encode_world(table, RowForm(0.6)))
    assert not np.allclose(encode_world(table, RowForm(0.6, 0.001)), encode_world(table, RowForm(0.6)))


def test_a_clear_profile_centres_columns_better_than_bounds_do():
    for world in WORLDS:
        table = drawn(world)
        seen, blind = (
            np.abs(encode_world(table, RowForm(3.0, noise)).mean(axis=0)[:-1]).max() for noise in (1e-4, None)
        )
        assert seen < blind / 2


@pytest.mark.parametrize("positive", [0.02, 0.3, 0.9])
def test_a_stated_prevalence_is_kept(positive):
    for world in WORLDS:
        share = (drawn(world, 20_000, positive=positive).labels > 0).mean()
        assert share == pytest.approx(positive, abs=5 * np.sqrt(positive * (1 - positive) / 20_000))
    assert set(np.unique(drawn(WORLDS[0]).labels)) == {-1.0, 1.0}


def test_real_labels_have_the_scale_that_they_should():
    for world in WORLDS:
        labels = drawn(world, 20_000, LabelKind.REALS).labels
        assert labels.std() == pytest.approx(1.0, abs=0.05)


def test_a_world_is_the_same_whenever_it_is_drawn():
    first = drawn(WORLDS[0]).labels.copy()
    draw.cache_clear()
    assert np.array_equal(drawn(WORLDS[0]).labels, first)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(n_numeric=st.integers(0, 300), categories=st.lists(st.integers(1, 80), max_size=40), width=st.integers(4, 60))
def test_wide_tables_are_shrunk_to_the_width_and_others_left_alone(n_numeric, categories, width):
    if n_numeric + len(categories) == 0:
        return
    table = TableShape(n_numeric, tuple(categories))
    made = shrink_table(table, width)
    features = made.n_numeric + sum(made.categories)
    assert 1 <= features <= width
    if n_numeric + sum(categories) <= width:
        assert made == table
    assert (made.n_numeric > 0) == (n_numeric > 0)
    assert len(made.categories) <= len(categories)
