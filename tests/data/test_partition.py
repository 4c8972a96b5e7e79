"""Partitioners deal every row exactly once, leave no silo empty and depend on the generator alone."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpadmm.data import partition
from dpadmm.errors import InputError
from dpadmm_research.datasets.splits import split

FAST = settings(deadline=None, derandomize=True, max_examples=60)


def rng(seed=0):
    return np.random.default_rng(seed)


def assert_exact(parts, n_rows, least=1):
    assert sorted(np.concatenate(parts).tolist()) == list(range(n_rows))
    assert min(len(part) for part in parts) >= least
    assert all((np.diff(part) > 0).all() for part in parts)


@FAST
@given(st.integers(1, 200), st.integers(1, 20), st.integers(0, 10**6))
def test_iid(n_rows, n_silos, seed):
    if n_silos > n_rows:
        with pytest.raises(InputError):
            partition.iid(n_rows, n_silos, rng(seed))
        return
    parts = partition.iid(n_rows, n_silos, rng(seed))
    assert_exact(parts, n_rows)
    sizes = [len(part) for part in parts]
    assert len(sizes) == n_silos
    assert max(sizes) - min(sizes) <= 1


@FAST
@given(st.lists(st.integers(1, 30), min_size=1, max_size=8), st.integers(0, 10**6))
def test_by_sizes(sizes, seed):
    parts = partition.by_sizes(sum(sizes), sizes, rng(seed))
    assert_exact(parts, sum(sizes))
    assert [len(part) for part in parts] == sizes


@FAST
@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=50))
def test_by_column(values):
    parts = partition.by_column(pd.Series(values))
    names = partition.group_names(values)
    assert_exact(parts, len(values))
    assert names == tuple(sorted(set(values)))
    for name, part in zip(names, parts, strict=True):
        assert {values[row] for row in part} == {name}


@FAST
@given(
    st.lists(st.sampled_from([-1.0, 1.0]), min_size=1, max_size=120),
    st.integers(1, 8),
    st.sampled_from([1e-3, 0.1, 1.0, 100.0]),
    st.integers(1, 5),
    st.integers(0, 10**6),
)
def test_dirichlet_label_skew(labels, n_silos, alpha, least, seed):
    if n_silos * least > len(labels):
        with pytest.raises(InputError):
            partition.dirichlet_label_skew(labels, n_silos, alpha, rng(seed), least=least)
        return
    parts = partition.dirichlet_label_skew(labels, n_silos, alpha, rng(seed), least=least)
    assert len(parts) == n_silos
    assert_exact(parts, len(labels), least)


@pytest.mark.parametrize("seed", range(10))
def test_topping_up_never_robs_a_silo_below_the_least(seed):
    labels = np.repeat([-1.0, 1.0], 30)
    parts = partition.dirichlet_label_skew(labels, 4, 0.5, rng(seed), least=15)
    assert [len(part) for part in parts] == [15] * 4
    assert_exact(parts, 60, least=15)


def test_small_alpha_skews_labels_and_large_alpha_does_not():
    labels = np.repeat([-1.0, 1.0], 5000)

    def spread(alpha):
        parts = partition.dirichlet_label_skew(labels, 10, alpha, rng(1))
        return np.std([(labels[part] > 0).mean() for part in parts])

    assert spread(0.1) > 0.3
    assert spread(1e4) < 0.03


def test_the_same_seed_gives_the_same_deal_and_another_seed_another():
    def deals(seed):
        labels = np.repeat([0, 1], 50)
        return [
            *partition.iid(100, 3, rng(seed)),
            *partition.by_sizes(100, [50, 30, 20], rng(seed)),
            *partition.dirichlet_label_skew(labels, 3, 1.0, rng(seed)),
            *split(100, rng(seed)),
        ]

    assert all(map(np.array_equal, deals(1), deals(1)))
    assert not any(map(np.array_equal, deals(1), deals(2)))


@FAST
@given(st.integers(2, 300), st.floats(0.05, 0.95), st.integers(0, 10**6))
def test_split(n_rows, fraction, seed):
    if not 1 <= int(fraction * n_rows + 1e-9) < n_rows:
        with pytest.raises(InputError):
            split(n_rows, rng(seed), train_fraction=fraction)
        return
    train, test = split(n_rows, rng(seed), train_fraction=fraction)
    assert_exact([train, test], n_rows)
    assert abs(len(train) - fraction * n_rows) < 1


def test_split_of_ten_rows_is_seven_and_three():
    assert [len(part) for part in split(10, rng())] == [7, 3]
