"""The pieces the figures are made of, against independent references."""

import numpy as np
import pytest

from dpadmm.errors import InputError
from dpadmm.experiments.adult import adult
from dpadmm.experiments.consensus.bench import ERROR
from dpadmm.experiments.consensus.dp_dgd_star import GeometricDescent, NoiseAt
from dpadmm.experiments.consensus.expectation import response
from dpadmm.experiments.consensus.lasso import Lasso
from dpadmm.experiments.contenders import Arena, DvpRacer, MAdmmRacer, PAdmmRacer, RAdmmRacer, trial
from dpadmm.experiments.figure import Order, Size
from dpadmm.experiments.race import logistic_problem, random_network
from dpadmm.experiments.table import Reading, Rows, chosen
from dpadmm.experiments.trials import Trial, run_course, run_trials
from dpadmm.privacy.claims import dvp, m_admm, r_admm

SMALL = Lasso(agents=300, dimension=3, l1_weight=3.0)


@pytest.fixture(scope="module")
def arena():
    data = adult(Order(Size.TOY))
    return Arena(logistic_problem(data, 5, 1.0, 1e-3), random_network(5, 2.4, 0), rounds=6, delta=1e-4)


def test_exact_expectation_agrees_with_simulation():
    """2,000 runs: the mean of heavy-tailed squared noise is known to about 3 %; six standard errors are allowed."""
    bench = SMALL.bench()
    expected = response(bench, 6)
    for k in (2, 4, 6):
        one = bench.trial(Reading.CLAIMED, 30.0, k)
        rows = Rows("")
        bench.measure(rows, "", k, [one], 2000, 0, x=k)
        seen = chosen(rows.table(), metric=ERROR)["value"]
        assert abs(seen.mean() - expected.error(one.plan)) < 6 * seen.std() / np.sqrt(len(seen))
    with pytest.raises(InputError, match="6 iterations"):
        expected.error(bench.plan(Reading.CLAIMED, 1.0, 8))


def test_lasso_optimum_satisfies_its_optimality_condition():
    bench = SMALL.bench()
    assert bench.problem.optimality(bench.optimum[:, None])[0] < 1e-8


def test_claimed_levels_spend_the_claimed_budget(arena):
    """The levels, put back into the theorems, give the epsilon they were made for."""
    objectives = arena.objectives(0.01)
    rates = DvpRacer(0.01).claimed_levels(arena, 8.0)
    spent = [dvp.total_epsilon(agent, list(row)).value for agent, row in zip(objectives, rates, strict=True)]
    np.testing.assert_allclose(spent, 8.0, rtol=1e-9)
    rates = RAdmmRacer(0.01, 0.002).claimed_levels(arena, 8.0)[:, ::2]
    spent = [r_admm.theorem_iv_1_epsilon(agent, list(row)).value for agent, row in zip(objectives, rates, strict=True)]
    np.testing.assert_allclose(spent, 8.0, rtol=1e-9)
    racer = MAdmmRacer(0.01, 1.01)
    etas = 0.01 * 1.01 ** np.arange(1, 7)
    alphas = racer.claimed_levels(arena, 8.0) * 2 * etas * arena.network.degrees[:, None]
    np.testing.assert_allclose(alphas, np.repeat(alphas[:, :1], 6, axis=1), rtol=1e-9)
    spent = [m_admm.total_epsilon(agent, list(row)).value
             for agent, row in zip(racer._objectives(arena), alphas, strict=True)]  # fmt: skip
    np.testing.assert_allclose(spent, 8.0, rtol=1e-9)


def test_p_admm_levels_by_hand(arena):
    """Theorem 3: rho_tot solves eps = rho + 2 sqrt(rho ln(1/delta)); s_1 = (1/(eta deg))/sqrt(2 rho_1)."""
    levels = PAdmmRacer(0.02, 0.9).claimed_levels(arena, 5.0)
    log = np.log(1 / arena.delta)
    total = (np.sqrt(log + 5.0) - np.sqrt(log)) ** 2
    first = total / sum(0.9**-k for k in range(6))
    np.testing.assert_allclose(levels[:, 0], 1 / (0.02 * arena.network.degrees) / np.sqrt(2 * first), rtol=1e-9)
    np.testing.assert_allclose(levels[:, 3] / levels[:, 0], 0.9**1.5, rtol=1e-9)


def test_certified_noise_meets_the_budget_and_claims_are_never_cheaper(arena):
    for racer, delta in ((PAdmmRacer(0.02, 0.95), 1e-4), (DvpRacer(0.05), 0.0), (RAdmmRacer(0.05, 0.01), 0.0)):
        assert trial(racer, arena, Reading.CERTIFIED, 8.0).certified_epsilon(delta) == pytest.approx(8.0, rel=1e-6)
        assert trial(racer, arena, Reading.CLAIMED, 8.0).certified_epsilon(delta) < 8.0


def test_trials_side_by_side_equal_trials_alone(arena):
    racer = PAdmmRacer(0.02, 0.95)
    both = [trial(racer, arena, Reading.CERTIFIED, eps) for eps in (2.0, 8.0)]
    together = run_trials(racer.method, arena.problem, 6, [*both, Trial.bare()], runs=2, seed=3, network=arena.network)
    alone = run_trials(racer.method, arena.problem, 6, [both[1]], runs=2, seed=3, network=arena.network)
    np.testing.assert_allclose(together.run.estimate[:, together.columns[1]], alone.run.estimate, atol=1e-9)
    bare = run_trials(racer.method, arena.problem, 6, [Trial.bare()], runs=2, seed=9, network=arena.network)
    np.testing.assert_allclose(together.run.estimate[:, together.columns[2]], bare.run.estimate, atol=1e-9)
    *_, (last, stopped) = run_course(
        racer.method, arena.problem, [2, 5, 6], both, runs=2, seed=3, network=arena.network
    )
    assert last == 6
    np.testing.assert_allclose(stopped.run.estimate, together.run.estimate[:, :4], atol=1e-9)
    with pytest.raises(InputError, match="no noise"):
        Trial.bare().certified_course(0.0, [1])


def test_dp_dgd_rates_spend_epsilon_and_large_budgets_reach_the_optimum():
    descent, bench = GeometricDescent(0.5, 0.95, 0.975, rounds=200), SMALL.bench()
    rates = descent.rates(0.7, 2.0)
    assert float((rates * 0.5 * 0.95 ** np.arange(200) * 2.0).sum()) == pytest.approx(0.7, rel=1e-9)
    errors = {
        place: descent.errors(bench.problem, bench.optimum, 1e6, 1.0, place, runs=3, seed=0).mean() for place in NoiseAt
    }
    assert max(errors.values()) < 1e-4
    tight = descent.errors(bench.problem, bench.optimum, 1.0, 1.0, NoiseAt.AGENTS, runs=20, seed=0).mean()
    assert tight > descent.errors(bench.problem, bench.optimum, 1.0, 1.0, NoiseAt.COORDINATOR, runs=20, seed=0).mean()
