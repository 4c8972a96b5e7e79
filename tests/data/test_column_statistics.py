"""Figures from noisy counts: right without noise, covered by their error bars with it, absent where nothing is seen."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpadmm.data.columns import Categorical, Numeric
from dpadmm.data.profile import ProfileForm, ReleasedProfile

FALSE_ALARM = 1e-6
TINY = 1e-9
COLUMNS = (Numeric("age", 0, 100), Numeric("change", -40, 10), Categorical("ward", ("a", "b", "c")))
FORM = ProfileForm(COLUMNS)


def frame(n: int = 4000, seed: int = 5) -> pd.DataFrame:
    """Ages with gaps, changes that are mostly 0, wards of unequal size with cells that are none of them."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(38, 12, n).clip(0, 100)),
            "change": np.where(rng.random(n) < 0.6, 0.0, rng.uniform(-40, 10, n)),
            "ward": rng.choice(["a", "b", "c", "?"], n, p=[0.6, 0.3, 0.05, 0.05]),
        }
    )


def counts_of(table: pd.DataFrame) -> np.ndarray:
    cells = [column.read(table[column.name]) for column in COLUMNS]
    return FORM.counts(cells, np.zeros(len(table), dtype=bool))


def released(counts: np.ndarray, noise_std: float, n: int) -> ReleasedProfile:
    return ReleasedProfile.of(FORM, counts, noise_std, n)


def width_at(name: str, value: float) -> float:
    edges = FORM.bins[[column.name for column in COLUMNS].index(name)].edges
    place = np.clip(np.searchsorted(edges, value, side="right"), 1, len(edges) - 1)
    return float(max(np.diff(edges)[max(place - 2, 0) : place + 1]))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(values=st.lists(st.floats(0, 100), min_size=1, max_size=200), share=st.floats(0.01, 0.99))
def test_without_noise_figures_are_those_of_the_records_up_to_their_bins(values, share):
    table = pd.DataFrame({"age": values, "change": 0.0, "ward": "a"})
    column = released(counts_of(table), TINY, len(values))["age"]
    edges = FORM.bins[0].edges
    mean = column.mean()
    assert abs(mean.value - np.mean(values)) <= np.diff(edges).max() / 2 + 1e-6
    assert mean.low - 1e-6 <= np.mean(values) <= mean.high + 1e-6
    exact = float(np.quantile(values, share, method="inverted_cdf"))
    found = column.quantile(share)
    if abs(share * len(values) - round(share * len(values))) > 1e-6:  # elsewhere the noise decides
        assert found.low <= exact <= found.high
        assert abs(found.value - exact) <= width_at("age", exact) + 1e-9


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), noise_std=st.sampled_from([1.0, 30.0, 100.0]))
def test_quantiles_rise_whatever_the_noise_is(seed, noise_std):
    counts = counts_of(frame()) + np.random.default_rng(seed).normal(0, noise_std, FORM.size)
    for name in ("age", "change"):
        found = [released(counts, noise_std, 4000)[name].quantile(share) for share in np.linspace(0.02, 0.98, 25)]
        seen = [each for each in found if each.is_visible]
        for sides in ([e.value for e in seen], [e.low for e in found], [e.high for e in found]):
            assert np.all(np.diff(sides) >= 0)
        assert all(each.low <= each.value <= each.high for each in seen)


def truths(table: pd.DataFrame) -> dict[str, float]:
    age = table["age"].dropna()
    return {
        "mean": age.mean(),
        "median": np.quantile(age, 0.5, method="inverted_cdf"),
        "tail": np.quantile(age, 0.9, method="inverted_cdf"),
        "zero": np.quantile(table["change"], 0.7, method="inverted_cdf"),
        "empty": table["age"].isna().mean(),
    }


@pytest.mark.parametrize("noise_std", [5.0, 40.0, 150.0])
def test_intervals_hold_as_often_as_they_say(noise_std):
    table, trials, rng = frame(), 400, np.random.default_rng(11)
    counts, true, missed = counts_of(table), truths(table), dict.fromkeys(truths(table), 0)
    for _ in range(trials):
        profile = released(counts + rng.normal(0, noise_std, FORM.size), noise_std, len(table))
        age = profile["age"]
        found = {
            "mean": age.mean(),
            "median": age.quantile(0.5),
            "tail": age.quantile(0.9),
            "zero": profile["change"].quantile(0.7),
            "empty": age.empty_share(),
        }
        for name, figure in found.items():
            missed[name] += not figure.low <= true[name] <= figure.high
    most = stats.binom.isf(FALSE_ALARM / len(true), trials, 2 * stats.norm.sf(2.0))
    assert max(missed.values()) <= most, missed


def test_standard_errors_are_those_of_the_noise():
    """Shares and the mean, against what the same bins say without noise."""
    table, trials, noise_std, rng = frame(), 800, 20.0, np.random.default_rng(12)
    counts = counts_of(table)
    exact = released(counts, TINY, len(table))
    exact_mean, exact_share = exact["age"].mean().value, exact["ward"].frequencies().loc["a", "share"]
    scores = []
    for _ in range(trials):
        profile = released(counts + rng.normal(0, noise_std, FORM.size), noise_std, len(table))
        mean, share, error = profile["age"].mean(), *profile["ward"].frequencies().loc["a"]
        scores.append([(mean.value - exact_mean) / mean.std_error, (share - exact_share) / error])
    low, high = stats.chi2.ppf([FALSE_ALARM / 4, 1 - FALSE_ALARM / 4], trials - 1) / (trials - 1)
    spread = np.var(scores, axis=0, ddof=1)
    assert np.all((spread > low) & (spread < high)), spread


def test_nothing_is_made_up_where_nothing_is_visible():
    rng = np.random.default_rng(3)
    profile = released(counts_of(frame()) + rng.normal(0, 1e6, FORM.size), 1e6, 4000)
    for figure in (profile["age"].mean(), profile["age"].quantile(0.5), profile["change"].quantile(0.1)):
        assert not figure.is_visible
        assert math.isnan(float(figure))
        assert "not visible" in str(figure)
    assert (profile["age"].mean().low, profile["age"].mean().high) == (0, 100)
    assert profile.table()[["mean", "median", "q25", "q75"]].isna().all(axis=None)


def test_a_column_of_empty_cells_has_no_mean():
    empty = pd.DataFrame({"age": [math.nan] * 50, "change": 0.0, "ward": "a"})
    column = released(counts_of(empty), 0.5, 50)["age"]
    assert not column.mean().is_visible
    assert not column.quantile(0.5).is_visible
    assert column.empty_share().value == pytest.approx(1.0)


def test_tables_name_every_column_and_every_bin():
    counts = counts_of(frame())
    profile = released(counts, TINY, 4000)
    table = profile.table()
    assert table.index.tolist() == ["age", "change", "ward"]
    assert table.loc["ward", "top"] == "a"
    assert table.loc["age", "empty"] == pytest.approx(frame()["age"].isna().mean(), abs=1e-6)
    by_bin = profile["change"].counts_by_bin()
    assert by_bin["count"].sum() == pytest.approx(4000)
    assert by_bin[(by_bin["low"] == 0) & (by_bin["high"] == 0)]["count"].item() == (frame()["change"] == 0).sum()
    assert profile["ward"].counts_by_bin()["std_error"].tolist() == [2 * TINY] * 4  # categories are halved
    assert profile["ward"].frequencies().loc["b", "share"] == pytest.approx((frame()["ward"] == "b").mean(), abs=1e-6)
