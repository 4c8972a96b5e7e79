"""Figures of a private evaluation against exact ones, its two intervals, and its file."""

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit
from sklearn.metrics import confusion_matrix, log_loss, roc_auc_score

from dpadmm.core.model import Guarantee, NoiseSummary
from dpadmm.evaluation import PrivateEvaluation
from dpadmm.evaluation.evaluate import Evaluation, accuracy_of, text_of
from dpadmm.evaluation.metrics import BINS, RESOLUTIONS, WIDTH, ScoreBins, counts_of, least_squares
from dpadmm.evaluation.plot import draw_evaluation
from dpadmm.models.measurement import DEVIATIONS
from dpadmm.privacy.accounting import Target, calibrate_gaussian
from dpadmm.privacy.certificates.sums import cell_counts
from dpadmm.privacy.protection import Protection, Strength
from dpadmm.privacy.releases import Origin

STATEMENT = Guarantee(
    epsilon=0.2,
    delta=1e-6,
    protection=Protection(),
    theorems=("C10 + C8",),
    strength=Strength.FULL,
    noise=NoiseSummary(family="Gaussian", least_scale=1.0, greatest_scale=1.0, releases=1),
    origin=Origin.SECURE,
    assumptions=("made up",),
)
LEVEL = 1e-6  # rate of false alarms
STD = float(calibrate_gaussian(Target(0.2, 1e-6), [cell_counts(n_records=30_000, histograms=4).bound], [1.0])[0])


def evaluation(counts, records, noise_std=1e-6, **more):
    facts = {"model": "run", "label": "sick", "classes": ("no", "yes"), "limit": 8.0, "has_probabilities": True}
    return PrivateEvaluation(
        **(facts | more), counts=tuple(counts), records=records, noise_std=noise_std, privacy=STATEMENT
    )


def world(n=30_000, share=0.25, spread=1.6, seed=0):
    """Log-odds of records, and labels by them."""
    rng = np.random.default_rng(seed)
    log_odds = rng.normal(np.log(share / (1 - share)) - 0.4, spread, n)
    return log_odds, (rng.random(n) < expit(log_odds)).astype(np.intp)


@pytest.fixture(scope="module")
def records():
    return world()


@pytest.fixture(scope="module")
def counts(records):
    log_odds, labels = records
    return counts_of(ScoreBins().places(log_odds), labels, 2)


def grouped(log_odds, labels, group, n_groups):
    """Counts of all records, and of every group."""
    places = ScoreBins().places(log_odds)
    return np.append(counts_of(places, labels, 2), counts_of(places, 2 * group + labels, 2 * n_groups))


def noisy(counts, n, runs, std=STD):
    """Evaluations of the same counts with noise of the certified scale."""
    rng = np.random.default_rng(5)
    for _ in range(runs):
        yield evaluation(counts + std * rng.standard_normal(len(counts)), n, std)


def test_without_noise_figures_are_the_exact_ones_up_to_the_bins(records, counts):
    (log_odds, labels), found = records, evaluation(counts, 30_000)
    assert found.roc_auc().value == pytest.approx(roc_auc_score(labels, log_odds), abs=5e-4)
    assert found.log_loss().value == pytest.approx(log_loss(labels, expit(log_odds)), abs=1e-3)
    at = found.confusion()
    (tn, fp), (fn, tp) = confusion_matrix(labels, log_odds > 0)
    made = (at.true_negatives, at.false_positives, at.false_negatives, at.true_positives)
    assert [each.value for each in made] == pytest.approx([tn, fp, fn, tp], abs=1e-3)
    rates = (at.accuracy, at.sensitivity, at.specificity, at.precision)
    exact = ((tp + tn) / 30_000, tp / (tp + fn), tn / (tn + fp), tp / (tp + fp))
    assert [each.value for each in rates] == pytest.approx(exact, abs=1e-6)


def test_a_threshold_within_a_bin_is_covered(records, counts):
    (log_odds, labels), found = records, evaluation(counts, 30_000).confusion(0.3)
    low, high = found.sensitivity.noise_interval
    assert low <= (expit(log_odds) > 0.3)[labels == 1].mean() <= high
    assert found.sensitivity.noise_error > 10 * evaluation(counts, 30_000).confusion(0.5).sensitivity.noise_error


def test_calibration_and_roc_are_those_of_the_records(records, counts):
    (log_odds, labels), found = records, evaluation(counts, 30_000)
    parts = found.calibration(parts=8)
    assert all(a.high == b.low for a, b in itertools.pairwise(parts))
    assert 6 <= len(parts) <= 8
    assert (parts[0].low, parts[-1].high) == (0.0, 1.0)
    for part in parts:
        inside = (expit(log_odds) > part.low) & (expit(log_odds) <= part.high)
        assert part.records == pytest.approx(inside.sum(), abs=1)
        assert part.observed.value == pytest.approx(labels[inside].mean(), abs=1e-4)
        assert part.predicted == pytest.approx(expit(log_odds)[inside].mean(), abs=0.005)
    curve = found.roc_curve()
    for place in (10, 16, 20):
        above = log_odds > curve.thresholds[place]
        assert curve.true_positive_rate[place] == pytest.approx(above[labels == 1].mean(), abs=1e-6)
        assert curve.false_positive_rate[place] == pytest.approx(above[labels == 0].mean(), abs=1e-6)


@pytest.mark.parametrize("share", [0.25, 0.05])
def test_noise_intervals_cover_the_exact_figures_as_often_as_they_say(share):
    """False alarms: once in a million for coverages between 93 and 97 %; half the noise is never mistaken for it."""
    log_odds, labels = world(share=share)
    counts, runs, n = counts_of(ScoreBins().places(log_odds), labels, 2), 300, len(labels)
    exact = np.array([roc_auc_score(labels, log_odds), ((log_odds > 0) == labels).mean()])
    found = [(each.roc_auc(), each.confusion().accuracy) for each in noisy(counts, n, runs)]
    off = np.abs(np.array([[each.value for each in pair] for pair in found]) - exact)
    reach = np.array([[each.noise_error for each in pair] for pair in found]) * DEVIATIONS
    for covered in (off <= reach).sum(axis=0):
        assert stats.binom.ppf(LEVEL / 2, runs, 0.93) <= covered <= stats.binom.ppf(1 - LEVEL / 2, runs, 0.97)
    assert ((off <= reach / 2).sum(axis=0) < stats.binom.ppf(LEVEL, runs, 0.93)).all()
    if share == 0.25:
        assert (off[:, 0] <= 0.02).sum() >= stats.binom.ppf(LEVEL, runs, 0.95)


def test_population_intervals_cover_the_population(records):
    """Fresh records and fresh noise each time; the noise alone would not do where there is little of it."""
    truth = roc_auc_score(*reversed(world(n=400_000, seed=1)))
    runs, std, covered, short = 300, STD / 40, 0, 0
    rng = np.random.default_rng(2)
    for seed in range(runs):
        log_odds, labels = world(n=3000, seed=seed + 10)
        counts = counts_of(ScoreBins().places(log_odds), labels, 2)
        figure = evaluation(counts + std * rng.standard_normal(len(counts)), 3000, std).roc_auc()
        covered += figure.population_interval[0] <= truth <= figure.population_interval[1]
        short += figure.noise_interval[0] <= truth <= figure.noise_interval[1]
    assert stats.binom.ppf(LEVEL / 2, runs, 0.93) <= covered <= stats.binom.ppf(1 - LEVEL / 2, runs, 0.97)
    assert short < stats.binom.ppf(LEVEL, runs, 0.93)


def test_groups_are_distinguished_and_add_up(records):
    (log_odds, labels), group = records, np.arange(30_000) % 3
    found = evaluation(grouped(log_odds, labels, group, 3), 30_000, by="ward", groups=("a", "b", "c"))
    for place, name in enumerate("abc"):
        own = group == place
        assert found.roc_auc(name).value == pytest.approx(roc_auc_score(labels[own], log_odds[own]), abs=1e-3)
        assert found.confusion(group=name).accuracy.value == pytest.approx(((log_odds > 0) == labels)[own].mean())
    assert found.roc_auc().value == pytest.approx(roc_auc_score(labels, log_odds), abs=5e-4)


def test_groups_have_the_noise_that_they_state(records):
    """Of all records and of a group: the mean square of their errors is that of the stated ones, within a fifth."""
    (log_odds, labels), group = records, np.arange(30_000) % 3
    counts, rng, runs = grouped(log_odds, labels, group, 3), np.random.default_rng(4), 300
    exact = [roc_auc_score(labels[own], log_odds[own]) for own in (group >= 0, group == 1)]
    facts = {"by": "ward", "groups": ("a", "b", "c")}
    ratios = np.zeros((runs, 2))
    for run in range(runs):
        found = evaluation(counts + STD * rng.standard_normal(len(counts)), 30_000, STD, **facts)
        figures = (found.roc_auc(), found.roc_auc("b"))
        ratios[run] = [(each.value - truth) / each.noise_error for each, truth in zip(figures, exact, strict=True)]
    squares = (ratios**2).sum(axis=0)
    assert (stats.chi2.ppf(LEVEL / 4, runs) * 0.9 < squares).all()
    assert (squares < stats.chi2.isf(LEVEL / 4, runs) * 1.1).all()
    whole = evaluation(counts, 30_000, STD, **facts).confusion().accuracy.noise_error
    alone = evaluation(counts[: 2 * WIDTH], 30_000, STD).confusion().accuracy.noise_error
    assert whole == pytest.approx(alone * np.sqrt(3 / 4), rel=1e-6)


def test_least_squares_has_the_variance_it_states(counts):
    """Against a plain solution of the normal equations; and the number of all records is the public one."""
    joined = least_squares()
    table = np.vstack([np.kron(np.eye(size), np.ones(BINS // size)) for size in RESOLUTIONS])
    rng = np.random.default_rng(0)
    seen = table @ np.arange(BINS) + rng.normal(size=WIDTH)
    assert joined.solve @ seen == pytest.approx(np.linalg.lstsq(table, seen, rcond=None)[0])
    assert joined.spread == pytest.approx(joined.solve @ joined.solve.T)
    found = evaluation(counts + 7.0, 30_000)
    at = found.confusion()
    parts = (at.true_negatives, at.false_positives, at.false_negatives, at.true_positives)
    assert sum(each.value for each in parts) == pytest.approx(30_000)


def test_what_the_noise_hides_is_not_shown(counts):
    hidden = evaluation(counts * 0.001, 30, STD)
    assert not hidden.roc_auc().is_visible
    assert str(hidden.roc_auc()) == "not visible above the noise"
    assert hidden.roc_auc().noise_interval == (0.0, 1.0)
    assert hidden.roc_auc().as_json()["value"] is None


def test_an_auc_that_noise_leaves_open_is_not_determined(counts):
    """Its interval is shown, its value is not; with little noise both are."""
    some = evaluation(counts * 0.05, 1500, 40.0)
    auc = some.roc_auc()
    low, high = auc.noise_interval
    assert auc.is_visible
    assert high - low > 0.3
    assert str(auc) == f"not determined (noise interval {low:.3g} to {high:.3g})"
    (line,) = [line for line in text_of(Evaluation(counts=some), None).splitlines() if line.startswith("  AUC")]
    assert f"not determined (noise interval {low:.3g} to {high:.3g})" in line
    assert len(line) <= 80
    assert f"{auc.value:.4f}" not in line
    assert "not determined" in " ".join(map(str, accuracy_of(some)[1]))
    assert evaluation(counts, 30_000, STD).roc_auc().is_determined


def test_a_threshold_of_scores_may_be_any_number(counts):
    assert evaluation(counts, 30_000, has_probabilities=False).confusion(-1.0).threshold == -1.0


def test_the_file_gives_it_back(counts, tmp_path):
    found, place = evaluation(counts, 30_000, STD), tmp_path / "e.json"
    assert found.save(place) == place
    assert PrivateEvaluation.load(place) == found


@pytest.mark.parametrize("has_probabilities", [True, False])
def test_the_drawing_shows_every_group(counts, tmp_path, has_probabilities):
    split = np.concatenate([2 * counts, counts, counts])
    found = evaluation(split, 60_000, STD, by="ward", groups=("a", "b"), has_probabilities=has_probabilities)
    draw_evaluation(found, tmp_path / "e.svg")
    draw_evaluation(found, tmp_path / "e.png")
    assert (tmp_path / "e.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "e.svg").stat().st_size > 5000
