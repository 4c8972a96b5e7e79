"""The pieces the figures are made of, against independent references."""

import numpy as np
import pytest

from dpadmm.errors import InputError
from dpadmm_research.comparison.adult import adult
from dpadmm_research.comparison.compare import logistic_problem, random_network
from dpadmm_research.comparison.contenders import (
    ComparisonSetting,
    DvpContender,
    MAdmmContender,
    PAdmmContender,
    RAdmmContender,
    trial,
)
from dpadmm_research.papers.consensus.bench import ERROR, RELEASED
from dpadmm_research.papers.consensus.dp_dgd_star import GeometricDescent, NoiseAt
from dpadmm_research.papers.consensus.expectation import response
from dpadmm_research.papers.consensus.lasso import Lasso
from dpadmm_research.papers.consensus.search import best_by, type_text
from dpadmm_research.papers.r_admm import claims as r_admm
from dpadmm_research.papers.r_admm import dvp_claims as dvp
from dpadmm_research.papers.r_admm import m_admm_claims as m_admm
from dpadmm_research.reproduction.figure import Order, Size
from dpadmm_research.reproduction.table import Reading, Rows, chosen
from dpadmm_research.reproduction.trials import Trial, record_run, run_trials

SMALL = Lasso(agents=300, dimension=3, l1_weight=3.0)


@pytest.fixture(scope="module")
def compared():
    data = adult(Order(Size.TOY))
    return ComparisonSetting(logistic_problem(data, 5, 1.0, 1e-3), random_network(5, 2.4, 0), rounds=6, delta=1e-4)


def test_exact_expectation_agrees_with_simulation():
    """2,000 runs: the mean of heavy-tailed squared noise is known to about 3 %; six standard errors are allowed.

    The noise is as large as the error without it, so that a wrong age would show.
    """
    bench = SMALL.bench()
    expected = response(bench, 6)
    for k in (2, 4, 6):
        rows, rates = Rows(""), bench.rates(Reading.CLAIMED, 0.01, k)
        bench.measure(rows, "", k, [bench.trial(Reading.CLAIMED, 0.01, k)], 2000, 0, x=k)
        for metric, value in ((ERROR, expected.error(rates)), (RELEASED, expected.released(rates))):
            seen = chosen(rows.table(), metric=metric)["value"]
            assert abs(seen.mean() - value) < 6 * seen.std() / np.sqrt(len(seen))
    with pytest.raises(InputError, match="6 iterations"):
        expected.error(bench.rates(Reading.CLAIMED, 1.0, 8))


@pytest.mark.parametrize("reading", [Reading.CLAIMED, Reading.CERTIFIED])
def test_rates_and_cost_are_those_of_the_plan(reading):
    bench = SMALL.bench()
    for epsilon, k in ((0.3, 5), (7.0, 5), (0.3, 12)):
        plan = bench.plan(reading, epsilon, k)
        np.testing.assert_allclose(bench.rates(reading, epsilon, k), [release.rate for release in plan], rtol=1e-9)
        assert bench.cost(reading, epsilon, k) == pytest.approx(plan.account().curve.epsilon(0.0), rel=1e-9)


def test_best_by_finds_the_least_mean_and_flags_the_edge():
    rows = Rows("")
    for epsilon, values in ((1.0, (3.0, 1.0, 2.0)), (2.0, (3.0, 2.0, 1.0))):
        for k, value in zip((2, 3, 5), values, strict=True):
            rows.add(
                panel="", curve="DP-ADMM", reading=Reading.CLAIMED, epsilon=epsilon, x=k, metric=ERROR,
                values=[value - 0.5, value + 0.5],
            )  # fmt: skip
    best = best_by(rows.table(), "epsilon", metric=ERROR, reading=Reading.CLAIMED)
    assert best[["epsilon", "k", "value", "is_edge"]].to_numpy().tolist() == [
        [1.0, 3.0, 1.0, False],
        [2.0, 5.0, 1.0, True],
    ]
    assert [type_text(row) for _, row in best.iterrows()] == ["K = 3", "K = 5, the largest tried"]
    assert not len(best_by(rows.table(), "epsilon", metric=ERROR, reading=Reading.CERTIFIED))


def test_lasso_optimum_satisfies_its_optimality_condition():
    bench = SMALL.bench()
    assert bench.problem.optimality(bench.optimum[:, None])[0] < 1e-8


def test_claimed_levels_spend_the_claimed_budget(compared):
    """The levels, put back into the theorems, give the epsilon they were made for."""
    objectives = compared.objectives(0.01)
    rates = DvpContender(0.01).claimed_levels(compared, 8.0)
    spent = [dvp.total_epsilon(agent, list(row)).value for agent, row in zip(objectives, rates, strict=True)]
    np.testing.assert_allclose(spent, 8.0, rtol=1e-9)
    rates = RAdmmContender(0.01, 0.002).claimed_levels(compared, 8.0)[:, ::2]
    spent = [r_admm.theorem_iv_1_epsilon(agent, list(row)).value for agent, row in zip(objectives, rates, strict=True)]
    np.testing.assert_allclose(spent, 8.0, rtol=1e-9)
    contender = MAdmmContender(0.01, 1.01)
    etas = 0.01 * 1.01 ** np.arange(1, 7)
    alphas = contender.claimed_levels(compared, 8.0) * 2 * etas * compared.network.degrees[:, None]
    np.testing.assert_allclose(alphas, np.repeat(alphas[:, :1], 6, axis=1), rtol=1e-9)
    spent = [m_admm.total_epsilon(agent, list(row)).value
             for agent, row in zip(contender._objectives(compared), alphas, strict=True)]  # fmt: skip
    np.testing.assert_allclose(spent, 8.0, rtol=1e-9)


def test_p_admm_levels_by_hand(compared):
    """Theorem 3: rho_tot solves eps = rho + 2 sqrt(rho ln(1/delta)); s_1 = (1/(eta deg))/sqrt(2 rho_1)."""
    levels = PAdmmContender(0.02, 0.9).claimed_levels(compared, 5.0)
    log = np.log(1 / compared.delta)
    total = (np.sqrt(log + 5.0) - np.sqrt(log)) ** 2
    first = total / sum(0.9**-k for k in range(6))
    np.testing.assert_allclose(levels[:, 0], 1 / (0.02 * compared.network.degrees) / np.sqrt(2 * first), rtol=1e-9)
    np.testing.assert_allclose(levels[:, 3] / levels[:, 0], 0.9**1.5, rtol=1e-9)


def test_certified_noise_meets_the_budget_and_claims_are_never_cheaper(compared):
    for contender, delta in (
        (PAdmmContender(0.02, 0.95), 1e-4),
        (DvpContender(0.05), 0.0),
        (RAdmmContender(0.05, 0.01), 0.0),
    ):
        assert trial(contender, compared, Reading.CERTIFIED, 8.0).certified_epsilon(delta) == pytest.approx(
            8.0, rel=1e-6
        )
        assert trial(contender, compared, Reading.CLAIMED, 8.0).certified_epsilon(delta) < 8.0


def test_trials_side_by_side_equal_trials_alone(compared):
    contender = PAdmmContender(0.02, 0.95)
    both = [trial(contender, compared, Reading.CERTIFIED, eps) for eps in (2.0, 8.0)]
    together = run_trials(
        contender.method, compared.problem, 6, [*both, Trial.bare()], runs=2, seed=3, network=compared.network
    )
    alone = run_trials(contender.method, compared.problem, 6, [both[1]], runs=2, seed=3, network=compared.network)
    np.testing.assert_allclose(together.run.estimate[:, together.columns[1]], alone.run.estimate, atol=1e-9)
    bare = run_trials(contender.method, compared.problem, 6, [Trial.bare()], runs=2, seed=9, network=compared.network)
    np.testing.assert_allclose(together.run.estimate[:, together.columns[2]], bare.run.estimate, atol=1e-9)
    *_, (last, stopped) = record_run(
        contender.method, compared.problem, [2, 5, 6], both, runs=2, seed=3, network=compared.network
    )
    assert last == 6
    np.testing.assert_allclose(stopped.run.estimate, together.run.estimate[:, :4], atol=1e-9)
    with pytest.raises(InputError, match="no noise"):
        Trial.bare().certified_curve(0.0, [1])


def test_dp_dgd_spends_epsilon_on_what_it_releases():
    """Two neighbours fed the same released points: the noise really drawn, compared with how far their steps differ.

    The mean length of spherical Laplace noise on the mean is d/(N rate); 4,000 runs tell each rate to 1 %, the sum over
    the rounds to about 0.2 %.
    """
    delta, epsilon, runs, problem = 2.0, 0.7, 4000, SMALL.bench().problem
    descent, number = GeometricDescent(0.5, 0.8, 0.9, rounds=40), problem.n_agents
    matrix, slope = problem.functions.curvatures.mean(axis=0), problem.functions.slopes.mean(axis=0)[:, None]
    moved = slope + delta / number * np.array([[1.0], [0.0], [0.0]])  # one agent's linear term, and so its gradient
    before, spent = np.zeros((3, runs)), 0.0
    for k, y in enumerate(descent.points(problem, epsilon, delta, NoiseAt.COORDINATOR, runs, seed=1), start=1):
        mine, theirs = (
            before - 0.5 * 0.8 ** (k - 1) * (matrix @ before + linear + 3.0 / number * np.sign(before))
            for linear in (slope, moved)
        )
        rate = 3 / np.linalg.norm(y - mine, axis=0).mean()
        spent += rate * np.linalg.norm(mine - theirs, axis=0).max()
        before = y
    assert k == 40
    assert spent == pytest.approx(epsilon, rel=0.015)


@pytest.mark.parametrize("place", list(NoiseAt))
def test_dp_dgd_expected_error_agrees_with_simulation(place):
    descent, bench = GeometricDescent(0.5, 0.9, 0.95, rounds=80), SMALL.bench()
    about = (bench.problem, bench.optimum, 50.0, 1.0, place)
    seen = descent.errors(*about, runs=2000, seed=0)
    assert abs(seen.mean() - descent.expected_error(*about)) < 6 * seen.std() / np.sqrt(len(seen))


def test_dp_dgd_reaches_the_optimum_with_large_budgets():
    descent, bench = GeometricDescent(0.5, 0.95, 0.975, rounds=200), SMALL.bench()
    errors = {
        place: descent.errors(bench.problem, bench.optimum, 1e6, 1.0, place, runs=3, seed=0).mean() for place in NoiseAt
    }
    assert max(errors.values()) < 1e-4
    tight = descent.errors(bench.problem, bench.optimum, 1.0, 1.0, NoiseAt.AGENTS, runs=20, seed=0).mean()
    assert tight > descent.errors(bench.problem, bench.optimum, 1.0, 1.0, NoiseAt.COORDINATOR, runs=20, seed=0).mean()
