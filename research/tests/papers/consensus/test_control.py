"""The control problem on the bench: errors for any ||x_0|| from two runs, against runs of their own."""

from dataclasses import replace

import numpy as np
import pytest

from dpadmm_research.papers.consensus import fig3
from dpadmm_research.papers.consensus.control import Control, ErrorByStart, condition, sample
from dpadmm_research.papers.consensus.expectation import response
from dpadmm_research.reproduction.table import Reading, Rows

SMALL = Control(agents=60, horizon=3)


@pytest.mark.parametrize("reading", [Reading.CLAIMED, Reading.CERTIFIED])
@pytest.mark.parametrize("norm", [1.0, 7.0, 300.0])
def test_errors_for_another_start_are_those_of_its_own_runs(norm, reading):
    counts = [2, 5, 9]
    by_start = ErrorByStart(SMALL, 30, counts)
    own = replace(SMALL, start_norm=norm).bench()
    direct = response(sample(own, 30), max(counts))
    seen = by_start.errors(norm, response(sample(SMALL.bench(), 30), max(counts)), reading, 0.5)
    expected = [direct.error(own.rates(reading, 0.5, k)) for k in counts]
    np.testing.assert_allclose(seen, expected, rtol=1e-6)
    np.testing.assert_allclose(by_start.bare(norm), direct.bare[[k - 1 for k in counts]], rtol=1e-6)


def test_relative_error_depends_on_delta_over_the_start_alone_once_the_start_is_large():
    """Ten times delta and ten times ||x_0||: the same relative error, up to what a_i and b add to the controls."""
    errors = []
    for factor in (1.0, 10.0):
        control = replace(SMALL, start_norm=300 * factor, gradient_distance=factor)
        bench = control.bench()
        errors.append(response(bench, 9).error(bench.rates(Reading.CLAIMED, 0.5, 9)))
    assert errors[1] == pytest.approx(errors[0], rel=0.02)


def test_sample_responds_like_the_whole():
    whole = Control(agents=400, horizon=3).bench()
    few, all_of_them = response(sample(whole, 100), 12), response(whole, 12)
    np.testing.assert_allclose(few.gain[1:], all_of_them.gain[1:], rtol=0.3)
    np.testing.assert_allclose(sample(whole, 400).optimum, whole.optimum, rtol=1e-9)


def test_the_draws_shown_have_the_spectral_radii_that_are_shown():
    radii = [replace(each, agents=1).world().spectral_radius for each in (fig3.CONTROL, *fig3.OTHERS)]
    assert [round(radius, 2) for radius in radii] == [0.67, 0.47, 0.84, 1.06]


def test_condition_is_that_of_the_summed_quadratics_and_orders_the_draws_as_shown():
    """Spectral radii 0.47, 0.67, 0.68, 0.73 and 0.71, 0.73: the condition number grows 140-fold. 60 agents, as told."""
    found = []
    for seed in (24, 17, 12, 6, 20, 18):
        bench = Control(agents=60, start_norm=1.0, data_seed=seed).bench()
        spectrum = np.linalg.eigvalsh(bench.problem.functions.curvatures.sum(axis=0))
        assert condition(bench) == pytest.approx(spectrum[-1] / spectrum[0], rel=1e-6)
        found.append(condition(bench))
    np.testing.assert_allclose(found, [6.4, 38, 55, 180, 690, 880], rtol=0.1)


def steering_condition(transition, actuation, horizon=20):
    """Condition number of C'C, C the map from all controls to all states: the agents' mean for costs Q = I."""
    powers = [actuation]
    for _ in range(horizon - 1):
        powers.append(transition @ powers[-1])
    none = np.zeros_like(actuation)
    steering = np.block([[powers[t - s] if s <= t else none for s in range(horizon)] for t in range(horizon)])
    return np.linalg.cond(steering) ** 2


def test_few_draws_are_as_well_conditioned_as_the_one_shown():
    """6 % of 4000; here of 1000, where 3 standard deviations are 2.2 %."""
    rng = np.random.default_rng(0)
    world = replace(fig3.CONTROL, agents=1).world()
    shown = steering_condition(world.transition, world.actuation)
    others = [steering_condition(rng.uniform(-1, 1, (3, 3)), rng.uniform(-1, 1, (3, 2))) for _ in range(1000)]
    assert np.mean(np.array(others) <= shown) == pytest.approx(0.06, abs=0.022)


def test_rho_near_the_least_takes_far_more_claimed_noise_and_hardly_more_certified_noise():
    """Lemma 3 is 3 delta rho/((rho - 2L)(rho n - M)): 0.5/0.01 = 50 times as much at 1.01 as at 1.5, n large."""
    near, far = (replace(SMALL, rho_over_least=factor).bench() for factor in (1.01, 1.5))
    claimed, certified = (
        near.rates(r, 0.5, 9)[0] / far.rates(r, 0.5, 9)[0] for r in (Reading.CLAIMED, Reading.CERTIFIED)
    )
    assert claimed == pytest.approx(1 / 50, rel=0.05)
    assert 0.5 < certified < 1


def test_draws_are_listed_by_condition_number():
    rows = Rows("")
    for curve in ("seed 3: radius 0.84, condition 1.9e+02", "seed 24: radius 0.47, condition 6.4"):
        rows.fact(
            panel="start", curve=curve, reading=Reading.CLAIMED, epsilon=0.5, x=1.0, metric=fig3.BY_NORM, value=1.0
        )
    assert [name.split(":")[0] for name in fig3._draws(rows.table())] == ["seed 24", "seed 3"]


def test_the_least_start_is_found_between_those_tried():
    """Errors 1e-1/x^2 pass 1e-3 at x = 10."""
    rows = Rows("")
    for norm in (1.0, 4.0, 16.0, 64.0):
        rows.fact(
            panel="start", curve="a", reading=Reading.CLAIMED, epsilon=0.5, x=norm, metric=fig3.BY_NORM,
            value=0.1 / norm**2,
        )  # fmt: skip
    assert fig3._least_norm(rows.table(), Reading.CLAIMED, "a") == pytest.approx(10.0)
    few = rows.table().iloc[:2]
    assert fig3._least_norm(few, Reading.CLAIMED, "a") == np.inf
    assert fig3._least_norm(rows.table().iloc[3:], Reading.CLAIMED, "a") == pytest.approx(64.0)
