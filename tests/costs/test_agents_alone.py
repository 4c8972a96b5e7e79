"""What an agent answers depends on its own numbers alone, and what is chosen before a run on none that is private."""

import numpy as np
import pytest

import dpadmm
from dpadmm.costs import Allocations, Amount, Ball, Consensus, CostFamily, Gap, Prox, Quadratics, Sharing, Whole, plan
from dpadmm.costs.couplings import Maps
from dpadmm.costs.sharing import CostSolver, CoupledCosts
from dpadmm.errors import InputError, SolverError
from dpadmm.problems.regularisers import Quadratic

N, D = 40, 4
SLOPES = np.tile([1e-3, 1e-3, 1e-3, 1e-3], (N, 1))
STEEP = np.diag([1e-3, 0.01, 0.1, 1.0])


def first_differs(values, own):
    changed = np.array(values, dtype=np.float64)
    changed[0] = own
    return changed


def refusing(x, theta):
    """A gradient that names a private number as it fails."""
    if abs(theta[0]) > 0.5:
        raise KeyError(f"no entry for {theta[0]}")
    return x - theta


def half_square(x, theta):
    return 0.5 * (x - theta) @ (x - theta)


def family(theta):
    return CostFamily(half_square, refusing, theta, (-1.0, 1.0), (1.0, 1.0), D)


def box(values):
    return Prox(tuple(lambda s, y, own=own: s * y / (1 + s) + own for own in values), D)


@pytest.mark.parametrize(
    "worlds",
    [
        lambda own: Quadratics(STEEP, first_differs(SLOPES, own), (1e-3, 1.0), (-100.0, 100.0)),
        lambda own: Quadratics(STEEP, first_differs(SLOPES, 1e12 * own), (1e-3, 1.0)),
        lambda own: Allocations(first_differs(np.full(N, 2.0), 3.0 * own), 0.0, [1.0] * D, (0.1, 0.0)),
        lambda own: family(first_differs(0.1 * np.ones((N, D)), own)),
        lambda own: box(first_differs(SLOPES, np.inf if own else 0.0)),
    ],
    ids=["box", "quadratics", "allocations", "family", "black boxes"],
)
def test_the_others_answer_the_same_to_the_last_bit(worlds):
    """Solvers that stop, fail or start anew for all agents at once would move every message, not one (C16 to C19)."""
    answers = []
    for own in (0.0, 1.0):
        solver = CostSolver(CoupledCosts(worlds(own), Maps(None, D)), 1e-6)
        start = 0.1 * np.ones((N, D, 1))
        answers.append(solver.find(np.full(N, 0.01), start, start, is_kept=True))
    assert np.isfinite(answers).all()
    assert not np.array_equal(answers[0][0], answers[1][0])
    assert np.array_equal(answers[0][1:], answers[1][1:])


def test_what_own_code_raises_is_not_passed_on():
    agents = family(first_differs(0.1 * np.ones((N, D)), 1.0))
    asked = {"epsilon": 1.0, "delta": 1e-6, "rounds": 2, "gamma": 1.0}
    done = dpadmm.minimise(agents, Consensus(), protect=Whole(Ball(1.0)), **asked)
    assert done.kept[0] == pytest.approx(np.zeros(D))
    with pytest.raises(SolverError) as failure:
        CostSolver(CoupledCosts(agents, Maps(None, D)), 1e-6).find(np.ones(N), np.zeros((N, D, 1)), np.zeros((N, D, 1)))
    assert "entry" not in str(failure.value)
    assert failure.value.__context__ is None


@pytest.mark.parametrize("size", [1e-5, 1.0])
def test_maps_that_are_isometries_to_a_few_digits_are_refused(size):
    """Reached 1.29 times the bound of C17 with maps of norm 1e-5, which absolute tolerances take for isometries."""
    turned = np.linalg.qr(np.random.default_rng(0).standard_normal((D, D)))[0]
    agents, g = Allocations([1.0, 2.0], 0.0, [1.0] * D), Quadratic(np.eye(D), np.zeros(D))
    assert Maps.of(agents, size * turned).isometry == pytest.approx(size)
    for broken in (size * turned @ np.diag([1, 1, 1, 1 + 1e-6]), np.stack([size * turned, 0 * turned])):
        with pytest.raises(InputError, match=r"Nothing is proved|a_i"):
            plan(agents, Sharing(g, maps=broken), protect=Amount(1.0), epsilon=1.0, delta=1e-6, rounds=2, rho=1.0)


def test_no_broadcast_stops_allocations():
    """Whether a run stops would tell of the c_i in what is solved."""
    agents = Allocations([1.0, 2.0, 3.0], 0.0, [1.0] * D, (0.1, [0.0, 0.1, 0.2, 0.3]))
    near = np.zeros((3, D, 1))
    for far in (1e6, 1e9, 1e30, 1e300):
        target = far * np.array([1.0, -1.0, 0.5, 0.0])[None, :, None] + near
        x = agents.solve(None, np.full(3, 0.5), target, near, 1e-6)
        assert x.sum(axis=1)[:, 0] == pytest.approx([1.0, 2.0, 3.0], abs=1e-6)
        assert x[0, [1, 3], 0] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("private", ["upper", "curvature", "price"])
def test_whole_agents_are_planned_for_without_their_limits_and_costs(private):
    rng = np.random.default_rng(0)
    g = Quadratic(0.002 * np.eye(D), np.zeros(D))
    plans = []
    for scale in (1.0, 40.0):
        each = scale * rng.uniform(1, 2, (N, D))
        parts = {"upper": 2.0, "curvature": 0.05, "price": 0.0} | {private: each}
        agents = Allocations(np.ones(N), 0.0, parts["upper"], (parts["curvature"], parts["price"]), periods=D)
        plans.append(plan(agents, Sharing(g), protect=Whole(Ball(1.0)), epsilon=1.0, delta=1e-6))
        assert plan(agents, Sharing(g), protect=Amount(1.0), epsilon=1.0, delta=1e-6).forecast is not None
    assert plans[0].forecast is plans[1].forecast is None
    assert plans[0].numbers == plans[1].numbers
    common = Allocations(np.ones(N), 0.0, 2.0, (0.05, 0.0), periods=D)
    assert plan(common, Sharing(g), protect=Whole(Ball(1.0)), epsilon=1.0, delta=1e-6).forecast is not None


def test_curvature_that_is_protected_is_never_read_off_it():
    inside, outside = (
        plan(
            Quadratics(scale * np.eye(D), SLOPES, (0.5, 2.0)),
            Sharing(Quadratic(np.eye(D), np.zeros(D))), protect=Gap(1.0), epsilon=1.0, delta=1e-6,
        )
        for scale in (1.0, 50.0)
    )  # fmt: skip
    assert inside.numbers == outside.numbers
    assert inside.spec.noise_plan().releases == outside.spec.noise_plan().releases
