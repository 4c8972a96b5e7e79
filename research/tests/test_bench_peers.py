"""The comparison with peers: methods keep their guarantees, budgets add up, runs go on, and losses are said."""

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from scipy.special import comb, expit
from scipy.stats import norm

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "benchmarks" / "bench_peers.py"
EPSILON, DELTA = 1.0, 1e-5


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch):
    """Let the benchmark's modules be imported as they are when it runs."""
    for place in (ROOT.parent / "benchmarks", SCRIPT.parent):
        monkeypatch.syspath_prepend(str(place))


@pytest.fixture
def own():
    """Return the methods that are written for the benchmark."""
    from peers import own

    return own


def test_noise_of_dp_gd_costs_what_dp_accounting_says(own):
    records, rounds = 500, 40
    multiplier = own.gradient_noise(EPSILON, DELTA, rounds, records) / (2 / records)
    event = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(multiplier), rounds)
    spent = PLDAccountant().compose(event).get_epsilon(DELTA)
    assert spent == pytest.approx(EPSILON, rel=0.01)


def test_noise_of_the_objective_is_below_the_paper_s_for_its_own_relation(own):
    """Kifer, Smith and Thakurta add one record: half of epsilon for the density, whose change is G = 1."""
    paper = math.sqrt(8 * math.log(2 / DELTA) + 4 * EPSILON) / EPSILON
    ours = own._smallest_noise(EPSILON / 2, 1.0, float(norm.isf(DELTA / 2)))
    assert 0.8 * paper < ours <= paper
    assert own.objective_noise(EPSILON, DELTA, 0.5).noise_std > 2 * ours, "replace-one changes twice as much"
    assert own.objective_noise(EPSILON, DELTA, 0.5).ridge == pytest.approx(0.25 / math.expm1(EPSILON / 2))


@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
@pytest.mark.parametrize("other", [(-1.0, 1.0), (1.0, -1.0), (0.3, -1.0)], ids=["opposite row", "other label", "short"])
def test_objective_perturbation_keeps_its_budget_in_one_dimension(own, share, other):
    """The model's density is known there: that of the noise at which it is the minimiser, times the curvature."""
    noise = own.objective_noise(EPSILON, DELTA, share)

    def density(records, model):
        slopes = sum(-s * x * expit(-s * x * model) for x, s in records)
        curvature = sum(x**2 * expit(x * model) * expit(-x * model) for x, s in records)
        return norm.pdf(-slopes - noise.ridge * model, scale=noise.noise_std) * (curvature + noise.ridge)

    here, there = [(1.0, 1.0), (1.0, 1.0)], [(1.0, 1.0), other]
    reach = 40 * noise.noise_std / noise.ridge
    for one, two in ((here, there), (there, here)):
        grid = np.linspace(-reach, reach, 100_001)
        excess = np.maximum(density(one, grid) - math.exp(EPSILON) * density(two, grid), 0.0)
        assert np.trapezoid(density(one, grid), grid) == pytest.approx(1, abs=1e-4)
        assert np.trapezoid(excess, grid) <= DELTA


def test_rounds_of_laplace_noise_compose_as_the_optimal_theorem_says(own):
    """Kairouz, Oh and Viswanath: the smallest delta of k pure mechanisms, exactly."""

    def delta_of(each, rounds):
        terms = [
            comb(rounds, k) * max(math.exp((rounds - k) * each) - math.exp(EPSILON + k * each), 0.0)
            for k in range(rounds + 1)
        ]
        return sum(terms) / (1 + math.exp(each)) ** rounds

    for rounds in (1, 5, 50):
        each = own.laplace_round(EPSILON, DELTA, rounds)
        assert each >= EPSILON / rounds
        assert delta_of(each, rounds) <= DELTA
        assert delta_of(1.15 * each, rounds) > DELTA, "not much more noise than needed"


def problem(records=400, silos=2, seed=0):
    """Return silos of rows of norm at most 1 with labels."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(records, 3))
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    signs = np.where(rng.random(records) < expit(3 * rows[:, 0] - rows[:, 1]), 1.0, -1.0)
    return [(rows[part], signs[part]) for part in np.array_split(np.arange(records), silos)]


def gradient(silos, model):
    """Return the mean over silos of their mean gradients."""
    return np.mean([(-s * expit(-s * (x @ model))) @ x / len(x) for x, s in silos], axis=0)


def test_methods_without_noise_find_the_optimum(own):
    silos = problem()
    rows, signs = (np.concatenate(parts) for parts in zip(*silos, strict=True))
    found = {
        "dp-gd": own.descend(rows, signs, rounds=4000, step=4.0, clip=1.0, noise_std=0.0, rng=np.random.default_rng(0)),
        "objective": own.perturbed_objective(rows, signs, own.ObjectiveNoise(1e-9, 0.0), np.random.default_rng(0)),
        "admm": own.inexact_admm(
            silos, rounds=3000, penalty=1.0, clip=10.0, noise=own.AdmmNoise(False, 0.0), rng=np.random.default_rng(0)
        ),
    }
    for name, model in found.items():
        assert np.linalg.norm(gradient(silos, model)) < 1e-5, name


@pytest.mark.parametrize("is_laplace", [True, False])
def test_a_record_moves_the_admm_by_no_more_than_its_noise_is_for(own, is_laplace):
    clip, penalty, order = 0.2, 0.5, 1 if is_laplace else 2
    (rows, signs), worst = problem(records=20, silos=1)[0], 0.0
    for place in range(20):
        for other in np.eye(3):
            changed, labels = rows.copy(), signs.copy()
            changed[place], labels[place] = other, -signs[place]
            first, second = (
                own.inexact_admm(
                    [each], rounds=1, penalty=penalty, clip=clip, noise=own.AdmmNoise(is_laplace, 0.0),
                    rng=np.random.default_rng(0),
                )
                for each in ((rows, signs), (changed, labels))
            )  # fmt: skip
            worst = max(worst, float(np.linalg.norm(first - second, ord=order)))
    # What is sent is z; one round later the model is 2 z, and z is what noise of sensitivity 2 clip/(n penalty) hides.
    assert 0.5 < worst / (2 * 2 * clip / (20 * penalty)) <= 1 + 1e-9
    scale = own.admm_noise(EPSILON, DELTA, 1, clip, True).scale
    assert scale == pytest.approx(2 * clip / EPSILON)


def test_two_steps_of_add_remove_make_one_replacement():
    from peers.contenders import CONTENDERS
    from peers.measuring import at_budget

    opacus = next(each for each in CONTENDERS if each.name == "opacus")
    epsilon, delta = at_budget(opacus, EPSILON, DELTA)
    assert 2 * epsilon == pytest.approx(EPSILON)
    assert (1 + math.exp(epsilon)) * delta == pytest.approx(DELTA)
    native = next(each for each in CONTENDERS if each.name == "opacus-add-remove")
    assert at_budget(native, EPSILON, DELTA) == (EPSILON, DELTA)


def test_rows_keep_their_public_norm_and_profiles_their_price(monkeypatch):
    from peers import sets

    monkeypatch.syspath_prepend(str(SCRIPT.parent / "peers" / "workers"))
    import protocol

    data = sets.load("toy")
    features = data.features()
    bounds = sets.by_bounds(data, EPSILON)
    assert (bounds.epsilon, bounds.delta) == (EPSILON, DELTA)
    rows = protocol.encoded(features, bounds.encoding)
    assert np.abs(rows).max() <= 1 + 1e-6, "every number is within its bounds"
    reused = sets.by_profile(data, 5.0, 0, 1, is_pooled=True)
    assert (reused.epsilon, reused.delta) == (4.5, DELTA / 2)
    assert reused.encoding["scale"][0] < bounds.encoding["scale"][0] / 10, "the profile has seen where the records are"
    hopeless = sets.by_profile(data, 0.1, 0, 1, is_pooled=True)
    assert (hopeless.epsilon, hopeless.delta) == (0.1, DELTA)
    for each in (bounds, reused, hopeless):
        norms = np.linalg.norm(protocol.encoded(features, each.encoding), axis=1)
        assert norms.max() <= each.encoding["radius"] * (1 + 1e-6)


def test_names_are_unique_and_grids_hold_the_settings_they_vary():
    from peers.contenders import CONTENDERS, Kind

    assert len({each.name for each in CONTENDERS}) == len(CONTENDERS)
    for each in CONTENDERS:
        assert bool(each.grid) == (each.kind is Kind.TUNED)
        assert set(each.grid) <= set(each.settings)
        assert len(each.choices()) == math.prod(len(values) for values in each.grid.values())


@pytest.fixture
def bench(tmp_path):
    """Return a benchmark with made-up scores: ours 0.5, a peer's defaults 0.45, tuned 0.6."""
    from peers.contenders import CONTENDERS
    from peers.measuring import Bench
    from peers.results import LOSS, METRICS, Results

    made = Bench((EPSILON,), 5, tmp_path, Results(tmp_path), lambda text: None, 2)
    losses = {"dpadmm": 0.5, "opacus": 0.45, "opacus-tuned": 0.6, "pooled": 0.4}
    chosen = [each for each in CONTENDERS if each.name in losses]
    for each in chosen:
        tried = [c for s in each.choices()[:2] for c in made.tried(each, "toy", EPSILON, s)]
        for cell in tried if each.grid else []:
            best = each.choices()[1]
            score = 0.6 if json.loads(cell.settings) == best else 0.7
            made.results.add(each, cell, dict.fromkeys(METRICS, score))
        for cell in made.shown(each, "toy", EPSILON):
            made.results.add(each, cell, dict.fromkeys(METRICS, 0.5) | {LOSS: losses[each.name]})
    return made, chosen


def test_settings_are_those_with_the_least_loss_and_none_before_all_were_tried(bench):
    made, chosen = bench
    tuned = next(each for each in chosen if each.grid)
    assert made.chosen(tuned, "toy", EPSILON) == tuned.choices()[1]
    assert replace(made, most_choices=3).chosen(tuned, "toy", EPSILON) is None
    assert replace(made, most_choices=3).shown(tuned, "toy", EPSILON) == []


def test_scores_of_other_code_are_not_used(bench, tmp_path, monkeypatch):
    from peers import results

    made, chosen = bench
    ours = next(each for each in chosen if each.name == "dpadmm")
    (cell, *_) = made.shown(ours, "toy", EPSILON)
    assert results.Results(tmp_path).get(ours, cell) is not None
    monkeypatch.setattr(results, "source_digest", lambda contender: "other")
    assert results.Results(tmp_path).get(ours, cell) is None


def test_pages_say_where_ours_is_behind(bench, tmp_path):
    from peers.pages import BEGIN, END, between, write_pages

    made, chosen = bench
    write_pages(made, ["toy"], chosen, tmp_path)
    page = (tmp_path / "docs" / "peers.md").read_text()
    assert "against the best peer, defaults: ahead in 0 of 1, level in 0, behind in 1." in page
    assert "eps 1: 0.5000 against 0.4500 (Opacus DP-SGD)" in page
    assert "against the best peer, tuned †: ahead in 1 of 1" in page
    assert "Not measured" not in page
    write_pages(replace(made, runs=6), ["toy"], chosen, tmp_path)
    assert "Not measured, or failed, at some budget: Synthetic" in (tmp_path / "docs" / "peers.md").read_text()
    assert between(f"a {BEGIN} old {END} b", "new") == f"a {BEGIN}\n\nnew\n\n{END} b"


def test_what_runs_take_adds_up_even_if_they_are_interrupted(tmp_path):
    from peers.effort import Effort, counted, effort_of

    def interrupted():
        with counted(tmp_path):
            subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
            raise KeyboardInterrupt

    assert effort_of(tmp_path) == Effort()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    first = effort_of(tmp_path)
    assert first.sittings == 1
    assert first.processor > 0.01, "the processes that were started count"
    with counted(tmp_path):
        pass
    both = effort_of(tmp_path)
    assert both.sittings == 2
    assert both.seconds > first.seconds


def test_a_fit_that_fails_leaves_no_figure():
    from peers.results import FAILED, LOSS, figure_of

    assert figure_of([{LOSS: 0.5}, {FAILED: "why"}], LOSS, 1) is None
    assert figure_of([{LOSS: 0.5}, None], LOSS, 1) is None
    assert figure_of([{LOSS: 0.5}, {LOSS: 0.7}], LOSS, 1).mean == pytest.approx(0.6)


@pytest.mark.slow
def test_smoke_run_fills_the_tables_and_goes_on(tmp_path):
    contenders = ["pooled", "dpadmm", "dpadmm-eavesdropper", "objective", "admm", "dp-gd-tuned", "dp-gd-tuned-profile"]
    texts = ["--smoke", "--folder", tmp_path / "kept", "--pages", tmp_path, "--contenders", *contenders]
    env = {**os.environ, "PYTHONWARNINGS": "ignore"}
    for _ in range(2):
        done = subprocess.run([sys.executable, SCRIPT, *texts], capture_output=True, text=True, timeout=500, env=env)
        assert done.returncode == 0, done.stderr
    assert "1 of 1" not in done.stdout, "nothing is measured again"
    page = (tmp_path / "docs" / "peers.md").read_text()
    lines = [json.loads(line) for line in (tmp_path / "kept" / "scores.jsonl").read_text().splitlines()]
    assert {cell[0] for _, cell, _ in lines} == set(contenders)
    assert not any("failed" in found for *_, found in lines)
    assert all(title in page for title in ("DP-GD, tuned †", "objective perturbation", "inexact ADMM", "scikit-learn"))


def test_pictures_are_drawn_from_the_page(monkeypatch, tmp_path):
    import draw_peers

    page = draw_peers.PAGE.read_text()
    (_, header, rows), *_ = draw_peers.tables(page, "AUC")
    assert header[2:] == ["eps 0.1", "eps 0.5", "eps 1", "eps 5"]
    assert {*draw_peers.TOOLS, draw_peers.NOT_PRIVATE} <= rows.keys()
    monkeypatch.setattr(draw_peers, "PICTURES", tmp_path)
    draw_peers.main()
    for name in ("peers.png", "peers-seconds.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
        assert (draw_peers.ROOT / "docs" / "pictures" / name).is_file()


@pytest.fixture
def numbers():
    """Return the comparison of targets that are numbers."""
    from peers import numbers

    return numbers


def test_methods_for_numbers_without_noise_are_least_squares(numbers):
    data = numbers.numbers("strong-small", 0)
    best = np.linalg.lstsq(data.train, data.y, rcond=None)[0]
    found = numbers.adassp(data, 1e9, np.random.default_rng(0))
    np.testing.assert_allclose(found, best, atol=1e-3)
    found = numbers.descend(data, 1e9, np.random.default_rng(0), rounds=3000, step=1.0, clip=100.0)
    assert numbers.r2(data.truth, data.test @ found) == pytest.approx(
        numbers.r2(data.truth, data.test @ best), abs=0.01
    )


def test_what_adassp_releases_moves_by_no_more_than_its_noise_is_for(numbers):
    """Replaced rows within the public bounds, the worst of them among the corners."""
    rng, width = np.random.default_rng(1), 4
    rows = np.column_stack([rng.choice([-1.0, 1.0], (400, width)), np.ones(400)])
    square, y = width + 1.0, rng.choice([-1.0, 1.0], 400)
    shared = rng.uniform(-1, 1, (20, width + 1))
    for a, b, ya, yb in zip(rows[::2], rows[1::2], y[::2], y[1::2], strict=True):
        moments = [shared.T @ shared + np.outer(each, each) for each in (a, b)]
        least = [np.linalg.eigvalsh(each)[0] for each in moments]
        assert abs(least[0] - least[1]) <= square * (1 + 1e-12)
        assert np.linalg.norm(moments[0] - moments[1]) <= np.sqrt(2) * square * (1 + 1e-12)
        assert np.linalg.norm(a * ya - b * yb) <= 2 * np.sqrt(square) * (1 + 1e-12)
