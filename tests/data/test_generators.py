"""Generators: spectra, planted models, and the shape of the Adult-like table."""

import numpy as np
import pytest
from scipy import sparse, stats
from scipy.special import expit
from sklearn.linear_model import LassoCV, LogisticRegression

from dpadmm.data import logistic_table, random_quadratics
from dpadmm.data.examples import BLOCK_NUMBERS, EntryDistribution, random_spd
from dpadmm.data.tables import encode_table
from dpadmm.problems.silos import row_norms
from dpadmm_research.datasets.adult import SCHEMA
from dpadmm_research.datasets.adult_synthetic import adult_like, adult_like_frame
from dpadmm_research.datasets.generators import sparse_regression
from dpadmm_research.datasets.splits import split_data


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("entries", list(EntryDistribution))
@pytest.mark.parametrize(("size", "bounds"), [(2, (1.0, 2.0)), (5, (1.0, 2.0)), (20, (1.0, 10.0)), (3, (0.5, 0.5))])
def test_spectra_reach_exactly_from_tau_to_smoothness(size, bounds, entries):
    agents = random_quadratics(50, size, rng=rng(), tau=bounds[0], smoothness=bounds[1], entries=entries)
    spectra = np.linalg.eigvalsh(agents.curvatures)
    np.testing.assert_allclose(spectra[:, 0], bounds[0], rtol=1e-12)
    np.testing.assert_allclose(spectra[:, -1], bounds[1], rtol=1e-12)
    np.testing.assert_array_equal(agents.curvatures, agents.curvatures.transpose(0, 2, 1))
    assert (agents.constants.strong_convexity, agents.constants.smoothness) == bounds


def test_blocks_of_matrices_all_keep_the_spectrum():
    size = 300
    count = 2 * (BLOCK_NUMBERS // size**2) + 1
    matrices = random_spd(count, size, 1.0, 3.0, rng())
    for matrix in (matrices[0], matrices[count // 2], matrices[-1]):
        spectrum = np.linalg.eigvalsh(matrix)
        assert (spectrum[0], spectrum[-1]) == (pytest.approx(1.0), pytest.approx(3.0))
    assert not np.allclose(matrices[0], matrices[-1])


def test_one_dimensional_curvatures_fill_the_interval():
    curvatures = random_quadratics(2000, 1, rng=rng(), tau=1.0, smoothness=2.0).curvatures.ravel()
    assert stats.kstest(curvatures, stats.uniform(1, 1).cdf).pvalue > 1e-6


def test_slopes_are_uniform():
    slopes = random_quadratics(2000, 5, rng=rng()).slopes.ravel()
    assert stats.kstest(slopes, stats.uniform(0, 60).cdf).pvalue > 1e-6


@pytest.mark.parametrize("entries", list(EntryDistribution))
def test_matrices_are_the_scaled_symmetric_part_of_the_drawn_entries(entries):
    """Written again for one matrix at a time, as the paper words it: scale, then shift by a multiple of I."""
    generator = rng(4)
    for matrix in random_spd(6, 5, 1.0, 2.0, rng(4), entries):
        drawn = (
            generator.random((5, 5)) if entries is EntryDistribution.NON_NEGATIVE else generator.standard_normal((5, 5))
        )
        symmetric = (drawn + drawn.T) / 2
        spectrum = np.linalg.eigvalsh(symmetric)
        scaled = symmetric / (spectrum[-1] - spectrum[0])
        shifted = scaled + (1.0 - np.linalg.eigvalsh(scaled)[0]) * np.eye(5)
        np.testing.assert_allclose(matrix, shifted, rtol=1e-12)


def test_the_mean_of_many_matrices_keeps_a_condition_number_only_if_shared_or_non_negative():
    """In the paper's Fig. 2: 1.01 for signed entries, 1.68 for non-negative ones, L/tau for one matrix."""
    conditions = {
        (entries, is_shared): np.linalg.cond(
            random_quadratics(4000, 5, rng=rng(), entries=entries, is_shared=is_shared).curvatures.mean(axis=0)
        )
        for entries in EntryDistribution
        for is_shared in (False, True)
    }
    assert conditions[EntryDistribution.GAUSSIAN, False] == pytest.approx(1.0, abs=0.05)
    assert conditions[EntryDistribution.NON_NEGATIVE, False] == pytest.approx(1.68, abs=0.05)
    for entries in EntryDistribution:
        assert conditions[entries, True] == pytest.approx(2.0, rel=1e-9)


def test_sparse_regression_follows_the_papers_setting():
    planted = sparse_regression(4000, 64, rng=rng(), noise_std=0.1)
    features, labels = planted.data.features, planted.data.labels
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1.0, rtol=1e-14)
    residual = (labels - features @ planted.truth) / 0.1
    assert stats.kstest(residual, "norm").pvalue > 1e-6
    assert np.count_nonzero(planted.truth) == 8
    assert np.abs(planted.truth).max() <= 1
    found = LassoCV(cv=3, fit_intercept=False).fit(features, labels).coef_
    assert np.linalg.norm(found - planted.truth) < 0.3 * np.linalg.norm(planted.truth)
    users = planted.users()
    assert users.sizes.tolist() == [1] * 4000
    np.testing.assert_array_equal(users.labels, labels)


def test_logistic_table_has_the_stated_probabilities():
    planted = logistic_table(20_000, 6, rng=rng(), signal=8.0, intercept=-1.0, row_norm=2.0)
    data = planted.data
    assert row_norms(data.features).max() <= 2.0 * (1 + 1e-12)
    assert np.linalg.norm(planted.truth) == pytest.approx(4.0)
    chance = expit(data.features @ planted.truth - 1.0)
    hits = data.labels > 0
    # Sum of independent Bernoulli draws, in standard deviations: 5 is a false alarm of 6e-7.
    score = (hits - chance).sum() / np.sqrt((chance * (1 - chance)).sum())
    assert abs(score) < 5
    fit = LogisticRegression(C=1e4).fit(data.features, hits)
    assert fit.coef_[0] == pytest.approx(planted.truth, abs=0.5)


def test_adult_like_has_the_shape_of_adult():
    data = adult_like(20_000, seed=7)
    assert sparse.issparse(data.features)
    assert data.features.shape == (20_000, 104)
    assert 11.5 < data.features.nnz / data.n_rows < 12.5
    assert row_norms(data.features).max() <= 1 + 1e-12
    assert 0.22 < (data.labels > 0).mean() < 0.28
    assert data.notes == ()
    assert (np.asarray(data.features.sum(axis=0)) > 0).all(), "every category occurs"
    train, test = split_data(data, rng())
    accuracy = (
        LogisticRegression(C=100, max_iter=500).fit(train.features, train.labels).score(test.features, test.labels)
    )
    assert accuracy > 0.81, "a linear model must beat the majority class (0.75) clearly"


def test_adult_like_is_a_function_of_its_seed_and_survives_csv(tmp_path):
    import pandas as pd

    frame = adult_like_frame(200, seed=1)
    pd.testing.assert_frame_equal(frame, adult_like_frame(200, seed=1))
    assert not frame.equals(adult_like_frame(200, seed=2))
    frame.to_csv(tmp_path / "people.csv", index=False)
    again = encode_table(SCHEMA.with_constant(None), pd.read_csv(tmp_path / "people.csv"))
    np.testing.assert_array_equal(again.features.toarray(), adult_like(200, seed=1).features.toarray())
