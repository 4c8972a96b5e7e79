"""`minimise` on shared resources, end to end: what is released, kept, recorded and refused, and neighbours' runs."""

import pickle

import numpy as np
import pytest

import dpadmm
from dpadmm.costs import Allocations, Amount, Ball, Gap, Limits, Quadratics, Sharing, Whole, plan
from dpadmm.errors import BudgetError, InputError, LedgerError
from dpadmm.methods.base import Agents, Silence
from dpadmm.privacy.ledger import Budget, Ledger
from dpadmm.privacy.protection import Unit, View
from dpadmm.problems.regularisers import Box, ElasticNet, Quadratic

HOURS = 6
GRID = Quadratic(0.002 * np.eye(HOURS), [0.4, 0.3, 0.0, 0.1, 0.3, 0.6])
ASKED = {"epsilon": 1.0, "delta": 1e-6, "rounds": 6, "rho": 0.5}


def fleet(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return Allocations(rng.uniform(1, 8, n), lower=0.0, upper=[2.0, 2.0, 3.0, 3.0, 2.0, 2.0], costs=(0.05, 0.0))


@pytest.mark.parametrize("trust", ["sum", "masks", "nobody"])
@pytest.mark.parametrize("protect", [Amount(3.0), Whole(Ball(5.0, is_positive=True)), Whole(Limits(0.0, 2.5))])
def test_every_agent_gets_its_amount_and_the_account_is_the_budget(protect, trust):
    agents = fleet()
    done = dpadmm.minimise(agents, Sharing(GRID), protect=protect, trust=trust, **ASKED)
    assert done.is_private_release
    assert done.epsilon == pytest.approx(1.0, rel=1e-6)
    assert done.kept.sum(axis=1) == pytest.approx(agents.amount, abs=1e-5)
    assert (done.kept >= 0).all()
    assert (done.kept <= agents.upper).all()
    views = {"sum": View.PUBLIC, "masks": View.AGGREGATE, "nobody": View.EAVESDROPPER}
    assert done.account.protection.view is views[trust]
    assert done.account.protection.unit is (Unit.FUNCTION if isinstance(protect, Amount) else Unit.USER)
    assert done.statement.startswith("certified: ")
    assert done.statement.startswith(f"{done}, if ")
    assert done.public.shape == (HOURS,)
    assert done.sums.shape == ((0,) if trust == "nobody" else (6, HOURS))
    assert pickle.loads(pickle.dumps(done)).kept is None


def test_without_noise_it_ends_at_the_optimum():
    agents = fleet(40)
    done = dpadmm.minimise(
        agents, Sharing(GRID), protect=Amount(3.0), epsilon=1e9, delta=0.5, rounds=300, rho=0.1, seed=1
    )
    total = done.kept.sum(axis=0)
    marginal = 0.002 * total + np.array(GRID.slope) + 0.05 * done.kept
    for own, price in zip(done.kept, marginal, strict=True):  # equal marginal cost wherever a share can move
        is_free = (own > 1e-4) & (own < agents.upper[0] - 1e-4)
        assert np.ptp(price[is_free]) < 1e-4 if is_free.any() else True
    assert done.public == pytest.approx(0.002 * total + np.array(GRID.slope), abs=1e-4)
    assert not done.is_private_release
    assert "NOT a private release" in done.statement


def sums_of(setup, agents, rounds, numbers, broadcasts):
    """Every round's noise-free sum where an agent hears these broadcasts."""
    method, problem = setup.method(rounds, numbers), setup.problem(agents)
    here = Agents.of(problem, None, setup.tolerance, 1)
    state, found = method.start(here, 1)[0], []
    for k, inbox in enumerate(broadcasts, start=1):
        state, sent = method.local_step(k, here, state, inbox, Silence())
        found.append(sent.sum(axis=0)[:, 0])
    return found


@pytest.mark.parametrize("kind", ["amount", "whole", "gap", "gap in a box"])
def test_neighbours_that_hear_the_same_stay_within_the_certificate(kind, rng):
    n, rounds = 3, 8
    if kind in ("amount", "whole"):
        amounts = np.array([0.5, 3.0, 4.0])
        worlds = [Allocations(amounts + np.array([d, 0, 0]), 0.0, [2.0] * HOURS, (0.01, 0.0)) for d in (0.0, 3.0)]
        protect = Amount(3.0) if kind == "amount" else Whole(Ball(1.5, is_positive=True))
        coupling, least = Sharing(GRID), 0.6
    else:
        box = (-1.0, 1.0) if kind.endswith("box") else None
        q = rng.standard_normal((n, HOURS))
        move = np.zeros((n, HOURS))
        move[0, 0] = 1.0
        p = np.diag(np.linspace(0.5, 4.0, HOURS))
        worlds = [Quadratics(p, q + d * move, (0.5, 4.0), box) for d in (0.0, 1.0)]
        protect, coupling, least = Gap(1.0), Sharing(GRID, maps=np.eye(HOURS)), 0.1 if box else 0.9
    numbers = {"rho": 0.8}
    made = plan(worlds[0], coupling, protect=protect, epsilon=1.0, delta=1e-6, rounds=rounds, **numbers)
    certified = [each.bound for each in made.setup.certificates(rounds, numbers)]
    reached = 0.0
    for scale in (0.0, 0.1, 1.0, 10.0):
        heard = [scale * rng.standard_normal((3, HOURS, 1)) for _ in range(rounds)]
        one, other = (sums_of(made.setup, world, rounds, numbers, heard) for world in worlds)
        for bound, a, b in zip(certified, one, other, strict=True):
            assert np.linalg.norm(a - b) <= bound
            reached = max(reached, np.linalg.norm(a - b) / bound)
    assert reached > least


@pytest.mark.parametrize("trust", ["sum", "masks", "nobody"])
@pytest.mark.parametrize("protect", [Amount(3.0), Whole(Ball(5.0, is_positive=True))])
def test_a_ledger_pays_and_refuses_what_its_budget_does_not_cover(tmp_path, protect, trust):
    agents, path = fleet(30), tmp_path / "fleet.ledger"
    asked = {"protect": protect, "trust": trust, **ASKED}
    made = plan(agents, Sharing(GRID), **asked)
    Ledger.create(path, agents.ledger_data(), Budget(epsilon=1.5, delta=1e-6), protection=made.setup.protection).close()
    dpadmm.minimise(agents, Sharing(GRID), ledger=path, **asked)
    with Ledger.open(path) as ledger:
        assert ledger.statement().spent_epsilon == pytest.approx(1.0, rel=1e-6)
    dpadmm.minimise(agents, Sharing(GRID), ledger=path, **asked | {"epsilon": 0.5})
    with pytest.raises(BudgetError):
        dpadmm.minimise(agents, Sharing(GRID), ledger=path, **asked)
    with pytest.raises(InputError, match="seed"):
        dpadmm.minimise(agents, Sharing(GRID), ledger=path, seed=1, **asked)
    with pytest.raises(LedgerError, match="other data"):
        dpadmm.minimise(fleet(30, seed=4), Sharing(GRID), ledger=path, **asked)


def test_a_margin_keeps_hard_limits_at_a_price():
    """Runs are judged by the limit itself, and planned for the one that is tightened."""
    agents = Allocations(fleet(600).amount, 0.0, [3.0] * HOURS, costs=(0.3, [0.0, -0.3, -0.1, 0.0, 0.0, 0.0]))
    found = {}
    for margin in (0.0, 60.0):
        coupling = Sharing(Box(0.0, 560.0), margin=margin)
        asked = {"protect": Amount(2.0), "epsilon": 1.0, "delta": 1e-6, "guess": agents, "guess_error": 0.02}
        assert plan(agents, coupling, rounds=10, rho=0.09, **asked).forecast is None  # nothing is left to choose
        found[margin] = plan(agents, coupling, **asked).forecast
    assert found[0.0].margin_cost == pytest.approx(0.0, abs=1e-4)
    assert found[0.0].limits_kept < found[60.0].limits_kept == 1.0
    assert found[60.0].margin_cost > 0.05
    assert "margin" in str(found[60.0])
    assert min(found[60.0].private, found[60.0].nothing) > -1e-3


def test_a_plan_reads_no_private_number():
    one, other = (
        plan(fleet(200, seed), Sharing(GRID), protect=Amount(3.0), epsilon=1.0, delta=1e-6) for seed in (1, 2)
    )
    assert (one.rounds, one.numbers, one.forecast) == (other.rounds, other.numbers, other.forecast)
    assert str(one) == str(other)
    assert one.spec.noise_plan().releases == other.spec.noise_plan().releases


def test_few_agents_are_shown_not_to_spend():
    guess = fleet(20, 5)
    small = Sharing(Quadratic(0.03 * np.eye(HOURS), [0.4, 0.3, 0.0, 0.1, 0.3, 0.6]))
    asked = {"protect": Amount(3.0), "epsilon": 1.0, "delta": 1e-6, "guess": guess}
    with pytest.raises(InputError, match="not spend"):
        dpadmm.minimise(fleet(20), small, **asked)
    done = dpadmm.minimise(fleet(20), small, method="admm", **asked)
    assert done.baseline < done.forecast.private
    assert done.forecast.advice.startswith("Do not spend")


def test_many_agents_keep_most_of_what_they_can_save():
    agents = fleet(1000)
    for protect, least in ((Amount(3.0), 0.98), (Whole(Ball(5.0, is_positive=True)), 0.95)):
        made = plan(agents, Sharing(GRID), protect=protect, epsilon=1.0, delta=1e-6, guess=fleet(1000, 7))
        assert 1 - made.forecast.private / made.forecast.alone > least


def test_infeasible_amounts_are_cut_and_do_not_stop_the_run():
    agents = Allocations([-5.0, 900.0, 3.0], 0.0, [2.0] * HOURS)
    done = dpadmm.minimise(agents, Sharing(GRID), protect=Amount(3.0), **ASKED)
    assert done.kept.sum(axis=1) == pytest.approx([0.0, 12.0, 3.0], abs=1e-5)


def test_a_margin_is_planned_for_on_both_sides():
    tightened = Sharing(Box(0.0, 100.0), margin=10.0).planned
    assert (tightened.lower, tightened.upper) == ((10.0,), (90.0,))
    assert Sharing(ElasticNet(1.0, 1.0)).planned == ElasticNet(1.0, 1.0)


def test_what_is_not_finite_is_replaced_and_a_failed_solve_is_not_seen():
    from dpadmm.costs.sharing import project

    ball = Ball(1.0)
    seen = project(ball, np.array([[np.nan, 0.0], [np.inf, 1.0], [3.0, 4.0]])[:, :, None])
    assert np.isfinite(seen).all()
    assert np.linalg.norm(seen, axis=1).max() <= 1.0
    assert ball.project(np.full((1, 3, 1), 1e9)).shape == (1, 3, 1)


@pytest.mark.parametrize(
    "region", [Ball(2.0), Ball(2.0, is_positive=True), Limits(-1.0, 3.0), Limits(0.0, (1.0, 2.0, 3.0))]
)
def test_regions_hold_what_they_project_and_are_as_wide_as_stated(region, rng):
    for d in (1, 3) if not isinstance(getattr(region, "upper", 0.0), tuple) else (3,):
        far = region.project(1e3 * rng.standard_normal((20_000, d, 1)))[:, :, 0]
        ends = np.concatenate([far, region.project(np.concatenate([np.eye(d), -np.eye(d)])[:, :, None] * 1e3)[:, :, 0]])
        assert region.project(ends[:, :, None])[:, :, 0] == pytest.approx(ends)
        widest = max(np.linalg.norm(ends - each, axis=1).max() for each in ends[-2 * d - 200 :])
        assert widest <= region.diameter(d)
        assert widest > 0.9 * region.diameter(d)
