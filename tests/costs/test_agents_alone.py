"""What an agent answers depends on its own numbers alone, and what is chosen before a run on none that is private."""

import numpy as np
import pytest

import dpadmm
from dpadmm.costs import Allocations, Amount, Ball, Consensus, CostFamily, Gap, Prox, Quadratics, Sharing, Whole, plan
from dpadmm.costs.couplings import Maps
from dpadmm.costs.sharing import CostSolver, CoupledCosts
from dpadmm.errors import InputError, SolverError
from dpadmm.methods.base import Agents, Silence
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
        lambda own: Allocations(first_differs(np.full(N, 1.7), 2.3 * own), 0.0, [1.0] * D, (STEEP.diagonal(), 0.0)),
        lambda own: family(first_differs(0.1 * np.ones((N, D)), own)),
        lambda own: box(first_differs(SLOPES, np.inf if own else 0.0)),
    ],
    ids=["box", "quadratics", "allocations", "family", "black boxes"],
)
@pytest.mark.parametrize("tolerance", [1e-6, 0.3])
def test_the_others_answer_the_same_to_the_last_bit(worlds, tolerance):
    """Solvers that stop, fail or start anew for all agents at once would move every message, not one (C16 to C19)."""
    answers = []
    for own in (0.0, 1.0):
        solver = CostSolver(CoupledCosts(worlds(own), Maps(None, D)), tolerance)
        start = 0.1 * np.ones((N, D, 1))
        target = np.random.default_rng(0).uniform(-1, 1, (N, D, 1))
        answers.append(solver.find(np.full(N, 0.01), target, start, is_kept=True))
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
        with pytest.raises(InputError, match="a_i"):
            plan(agents, Sharing(g, maps=broken), protect=Amount(1.0), epsilon=1.0, delta=1e-6, rounds=2, rho=1.0)


def test_no_broadcast_stops_allocations():
    """Whether a run stops would tell of the c_i in what is solved."""
    agents = Allocations([0.4, 1.4, 2.3], 0.0, [1.0] * D, (0.1, [0.0, 0.1, 0.2, 0.3]))
    near = np.zeros((3, D, 1))
    for far in (1e6, 1e9, 1e30, 1e300):
        target = far * np.array([1.0, -1.0, 0.5, 0.0])[None, :, None] + near
        x = agents.solve(None, np.full(3, 0.5), target, near, 1e-6)
        assert x.sum(axis=1)[:, 0] == pytest.approx([0.4, 1.4, 2.3], abs=1e-6)
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
    assert plans[0].forecast is plans[1].forecast is None
    assert plans[0].numbers == plans[1].numbers


def test_limits_and_costs_that_are_public_are_planned_for():
    rng = np.random.default_rng(0)
    g = Sharing(Quadratic(0.002 * np.eye(D), np.zeros(D)))
    own = Allocations(np.ones(N), 0.0, rng.uniform(1, 2, (N, D)), (rng.uniform(1, 2, (N, D)), 0.0), periods=D)
    common = Allocations(np.ones(N), 0.0, 2.0, (0.05, 0.0), periods=D)
    for agents, protect in ((own, Amount(1.0)), (common, Whole(Ball(1.0)))):
        assert plan(agents, g, protect=protect, epsilon=1.0, delta=1e-6).forecast is not None


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


def test_a_region_of_ones_own_is_taken_as_declared():
    class Anything:
        """Its diameter is a number that nothing here computes."""

        def project(self, values):
            return np.clip(values, -1, 1)

        def diameter(self, dimension):
            return 2 * dimension**0.5

    agents = Quadratics(np.eye(D), SLOPES, (1.0, 1.0))
    asked = {"epsilon": 1.0, "delta": 1e-6, "rounds": 2, "gamma": 1.0}
    done = dpadmm.minimise(agents, Consensus(), protect=Whole(Anything()), **asked)
    assert done.account.declared == ("region Anything",)
    assert dpadmm.minimise(agents, Consensus(), protect=Whole(Ball(1.0)), **asked).account.declared == ()


def test_allocations_are_the_same_together_and_alone():
    rng = np.random.default_rng(0)
    agents = Allocations(rng.uniform(0, 8, N), 0.0, [1.0, 2.0, 3.0, 4.0], (STEEP.diagonal(), 0.0))
    pull, target = np.full(N, 0.01), rng.uniform(-9, 9, (N, D, 1))
    together = agents.solve(None, pull, target, target, 0.3)
    for i in range(N):
        alone = agents.take([i]).solve(None, pull[:1], target[i : i + 1], target[i : i + 1], 0.3)
        assert np.array_equal(alone[0], together[i])


def test_noise_for_amounts_uses_public_limits_and_the_size_of_maps():
    g, asked = Quadratic(np.eye(D), np.zeros(D)), {"epsilon": 1.0, "delta": 1e-6, "rounds": 1, "rho": 1.0}

    def bound(upper, maps=None):
        agents = Allocations(np.ones(N), 0.0, upper, periods=D)
        made = plan(agents, Sharing(g, maps=maps), protect=Amount(4.0), **asked)
        return made.setup.certificates(1, {"rho": 1.0})[0].bound

    assert bound(1.0) == pytest.approx(2.0, rel=1e-4)
    assert bound(np.ones((N, D))) == pytest.approx(4.0, rel=1e-4)  # limits of single agents are not read
    assert bound(1.0, 3 * np.eye(D)) == pytest.approx(6.0, rel=1e-4)


def test_agents_who_trust_nobody_keep_what_they_have_sent():
    """With the noise-free c_i the state would be hidden, and the bound of the first round too small (C16)."""

    class One(Silence):
        def perturb(self, kind, k, agents, values):
            return values + 1.0

    agents = Quadratics(np.eye(D), SLOPES, (1.0, 1.0))
    g = Sharing(Quadratic(np.eye(D), np.zeros(D)))
    setup = plan(agents, g, protect=Gap(1.0), trust="nobody", epsilon=1.0, delta=1e-6, rounds=1, rho=1.0).setup
    method, here = setup.method(1, {"rho": 1.0}), Agents.of(setup.problem(agents), None, setup.tolerance, 1)
    state, inbox = method.start(here, 1)
    state, sent = method.local_step(1, here, state, inbox, One())
    assert np.array_equal(state.own, sent)
    assert sent == pytest.approx(state.x + 1.0)
