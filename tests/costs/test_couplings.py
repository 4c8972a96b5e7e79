"""Consensus, graphs, general constraints and rows: optima without noise, neighbours' runs, rivals, refusals."""

import numpy as np
import pytest

import dpadmm
from dpadmm.costs import (
    Ball,
    Consensus,
    Gap,
    General,
    Graph,
    Limits,
    Linear,
    Person,
    Quadratics,
    Record,
    Rows,
    Sharing,
    Whole,
    plan,
)
from dpadmm.errors import InputError
from dpadmm.methods.base import Agents, Silence
from dpadmm.networks.graph import path, ring
from dpadmm.privacy.protection import Unit, View
from dpadmm.problems.regularisers import Box, ElasticNet, Quadratic

D, N = 4, 12
ASKED = {"epsilon": 1.0, "delta": 1e-6, "rounds": 6}
EXACT = {"epsilon": 1e9, "delta": 0.5, "rounds": 400, "seed": 1}


def spd(rng, low, high, n=None):
    vectors, _ = np.linalg.qr(rng.standard_normal((n or 1, D, D)))
    found = np.einsum("nik,k,njk->nij", vectors, np.linspace(low, high, D), vectors)
    return found if n else found[0]


@pytest.fixture
def agents(rng):
    return Quadratics(spd(rng, 0.5, 3.0, N), rng.standard_normal((N, D)), (0.5, 3.0))


METRIC = np.diag([0.5, 1.0, 1.5, 2.0]) + 0.1


@pytest.mark.parametrize("metric", [None, METRIC])
def test_consensus_without_noise_is_the_optimum(agents, metric):
    done = dpadmm.minimise(agents, Consensus(metric=metric), protect=Gap(1.0), **EXACT)
    wanted = np.linalg.solve(agents.P.sum(axis=0), -agents.q.sum(axis=0))
    assert done.public == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize("metric", [None, METRIC])
def test_a_regulariser_acts_on_the_common_model(agents, metric):
    done = dpadmm.minimise(agents, Consensus(Box(-0.1, 0.1), metric), protect=Gap(1.0), **EXACT)
    x = done.public
    slope = agents.P.sum(axis=0) @ x + agents.q.sum(axis=0)
    assert (np.abs(x) <= 0.1 + 1e-9).all()
    free = np.abs(x) < 0.1 - 1e-3
    assert np.abs(slope[free]).max(initial=0.0) < 1e-2
    assert (slope * np.sign(x) <= 1e-2)[~free].all()


def test_general_constraints_without_noise_are_kept(rng, agents):
    """Agents see z through wide, different maps: A_i x_i + B_i z = c_i with p = 2."""
    a, b, c = rng.standard_normal((N, 2, D)), rng.standard_normal((N, 2, 3)), rng.standard_normal((N, 2))
    done = dpadmm.minimise(agents, General(a, b, c, ElasticNet(0.0, 0.2)), protect=Gap(0.1), **EXACT)
    assert np.abs(np.einsum("npd,nd->np", a, done.kept) + b @ done.public - c).max() < 1e-3
    # The same by the conditions of optimality, all agents and multipliers at once.
    size = N * D + 3 + 2 * N
    kkt, right = np.zeros((size, size)), np.zeros(size)
    for i in range(N):
        own, row = slice(i * D, (i + 1) * D), slice(N * D + 3 + 2 * i, N * D + 5 + 2 * i)
        kkt[own, own], kkt[own, row], kkt[row, own] = agents.P[i], a[i].T, a[i]
        kkt[N * D : N * D + 3, row], kkt[row, N * D : N * D + 3] = b[i].T, b[i]
        right[own], right[row] = -agents.q[i], c[i]
    kkt[N * D : N * D + 3, N * D : N * D + 3] = 0.2 * np.eye(3)
    assert done.public == pytest.approx(np.linalg.solve(kkt, right)[N * D : N * D + 3], abs=1e-3)
    planned = plan(agents, General(a, b, c), protect=Gap(1.0), epsilon=1.0, delta=1e-6, guess=agents)
    assert (planned.forecast, planned.rounds) == (None, 20)
    assert str(planned).endswith("no forecast")
    for trust in ("sum", "masks"):
        real = dpadmm.minimise(agents, General(a, b, c), protect=Whole(Ball(1.0)), trust=trust, **ASKED)
        assert real.sums.shape == (6, 3)
        assert real.epsilon == pytest.approx(1.0, rel=1e-6)


def test_a_graph_without_noise_agrees_on_the_optimum(agents):
    done = dpadmm.minimise(agents, Graph(ring(N)), protect=Gap(1.0), **EXACT | {"rounds": 1500})
    assert done.public == pytest.approx(np.linalg.solve(agents.P.sum(axis=0), -agents.q.sum(axis=0)), abs=1e-3)
    real = dpadmm.minimise(agents, Graph(ring(N)), protect=Linear(1.0), eta=0.5, **ASKED)
    assert real.account.protection.view is View.EAVESDROPPER
    assert real.epsilon == pytest.approx(1.0, rel=1e-6)
    assert real.statement.startswith("certified: ")


@pytest.mark.parametrize("kind", ["linear", "gap", "box", "metric", "wide", "whole", "different"])
def test_neighbours_that_hear_the_same_stay_within_the_certificate(kind, rng):
    rounds, move = 10, np.zeros((N, D))
    move[0] = [0.6, 0.8, 0.0, 0.0]
    p, q = spd(rng, 0.5, 3.0), rng.standard_normal((N, D))
    box = (-0.3, 0.3) if kind == "box" else None
    worlds = [Quadratics(p, q + d * move, (0.5, 3.0), box) for d in (0.0, 1.0)]
    coupling, protect, least = Consensus(), Gap(1.0), 0.5
    if kind in ("linear", "box"):
        protect, least = Linear(1.0), 0.1 if kind == "box" else 0.8
    if kind == "metric":
        coupling, protect, least = Consensus(metric=METRIC), Linear(1.0), 0.3
    if kind == "wide":
        coupling, least = General(rng.standard_normal((N, 2, D)), np.eye(2), np.zeros(2)), 0.02
    if kind == "different":
        parts = rng.standard_normal((N, 5, D)), rng.standard_normal((N, 5, 2)), np.zeros((N, 5))
        coupling, least = General(*parts), 0.02
    if kind == "whole":
        protect, least = Whole(Ball(0.2)), 0.4
    made = plan(worlds[0], coupling, protect=protect, epsilon=1.0, delta=1e-6, rounds=rounds)
    setup, method = made.setup, made.setup.method(rounds, made.numbers)
    proofs, reached = setup.certificates(rounds, made.numbers), 0.0
    certified = [each.bound for each in proofs]
    assert proofs[0].theorem == {"linear": "C18 (linear terms)", "metric": "C18 (linear terms)", "whole": "C19"}.get(
        kind, "C18"
    )
    for scale in (0.0, 0.3, 3.0):
        found = []
        heard = [scale * rng.standard_normal((1, setup.b.shape[-1], 1)) for _ in range(rounds)]
        for world in worlds:
            here = Agents.of(setup.problem(world), None, setup.tolerance, 1)
            state, sums = method.start(here, 1)[0], []
            for k, z in enumerate(heard, start=1):
                state, sent = method.local_step(k, here, state, z, Silence())
                sums.append(sent.sum(axis=0)[:, 0])
            found.append(sums)
        for bound, one, other in zip(certified, *found, strict=True):
            assert np.linalg.norm(one - other) <= bound
            reached = max(reached, np.linalg.norm(one - other) / bound)
    assert reached > least


@pytest.mark.parametrize("trust", ["sum", "masks"])
@pytest.mark.parametrize("protect", [Linear(1.0), Gap(1.0), Whole(Limits(-1.0, 1.0))])
def test_releases_cost_the_budget(agents, protect, trust):
    done = dpadmm.minimise(agents, Consensus(), protect=protect, trust=trust, **ASKED)
    assert done.is_private_release
    assert done.epsilon == pytest.approx(1.0, rel=1e-6)
    assert done.sums.shape == (6, D)


def test_under_masks_the_hidden_parts_are_counted(agents):
    """A share of the noise hides little of the part that is kept, so the bound of the first round does not do."""
    sharing = Sharing(Quadratic(np.eye(D), np.zeros(D)))
    found = {
        trust: [
            each.bound
            for each in plan(agents, sharing, protect=Gap(1.0), trust=trust, **ASKED).setup.certificates(6, {})
        ]
        for trust in ("sum", "masks", "nobody")
    }
    assert found["masks"] == found["sum"]
    assert found["sum"][0] < found["sum"][-1]
    assert found["nobody"] == [found["sum"][0]] * 6


def test_one_sum_of_linear_terms_beats_rounds_and_is_chosen(rng):
    p, q = spd(rng, 0.5, 3.0), rng.standard_normal((400, D)) * 0.2 + 1.0
    agents, guess = Quadratics(p, q, (0.5, 3.0)), Quadratics(p, np.ones((400, D)), (0.5, 3.0))
    asked = {"protect": Linear(1.0), "epsilon": 1.0, "delta": 1e-6, "guess": guess}
    made = plan(agents, Consensus(), **asked)
    assert made.forecast.sums < made.forecast.private < made.forecast.nothing
    assert made.rounds == 1
    for trust in ("sum", "masks"):
        done = dpadmm.minimise(agents, Consensus(), trust=trust, **asked)
        assert done.epsilon == pytest.approx(1.0, rel=1e-6)
        assert done.public == pytest.approx(-np.linalg.solve(p, q.mean(axis=0)), abs=0.3)
    exact = dpadmm.minimise(
        agents, Consensus(ElasticNet(30.0)), protect=Linear(1.0), method="sums", epsilon=1e9, delta=0.5, seed=1
    )
    slope = 400 * p @ exact.public + q.sum(axis=0)
    assert np.abs(slope).max() <= 30.0 + 1e-3
    assert slope[exact.public != 0] == pytest.approx(-30 * np.sign(exact.public[exact.public != 0]), abs=1e-3)


def test_a_hundred_agents_with_known_preferences_are_shown_not_to_spend(rng):
    p, q = spd(rng, 0.5, 3.0), np.ones((20, D))
    agents = Quadratics(p, q, (0.5, 3.0))
    with pytest.raises(InputError, match="not spend"):
        dpadmm.minimise(
            agents,
            Consensus(),
            protect=Gap(5.0),
            epsilon=1.0,
            delta=1e-6,
            guess=agents.take(np.arange(20)),
            guess_error=0.05,
        )


def test_five_generators_are_shown_not_to_spend():
    """Costs by 1 $/MWh: what noise does to a dispatch of five is worse than guessing the costs."""
    curvature = np.array([0.086, 0.5, 0.1, 0.1, 0.1])[:, None, None]
    prices = np.array([[20.0], [20.0], [40.0], [40.0], [40.0]])
    generators = Quadratics(curvature, prices, (0.05, 0.5), box=(0.0, 200.0))
    demand = Sharing(Quadratic(np.eye(1), [-259.0]))
    with pytest.raises(InputError, match="not spend"):
        dpadmm.minimise(
            generators,
            demand,
            protect=Linear(1.0),
            epsilon=1.0,
            delta=1e-6,
            guess=generators.take(np.arange(5)),
            guess_error=0.0,
        )


def test_curvature_is_projected_where_it_is_protected(rng):
    wild = Quadratics(np.diag([0.1, 1.0, 2.0, 9.0]), rng.standard_normal((N, D)), (0.5, 3.0))
    assert np.linalg.eigvalsh(wild.P[0]) == pytest.approx([0.5, 1.0, 2.0, 3.0])
    assert plan(wild, Consensus(), protect=Gap(1.0), **ASKED).rounds == 6


CORNERS = {n: np.array(list(np.ndindex(*(2,) * n))) * 2.0 - 1 for n in (1, 2, 3)}


def farthest(p, q, middle, half):
    """Return how far the gradients of two quadratics are apart in a box: a convex function, so at a corner."""
    x = middle + CORNERS[len(middle)] * half
    return np.linalg.norm(x @ (p[0] - p[1]).T + q[0] - q[1], axis=1).max()


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("middle", [0.0, 5.0])
def test_projected_neighbours_are_no_further_apart_than_counted(n, middle):
    """Also off centre, and in long boxes: a search over pairs on both sides of the bounds, the worst ones moved on."""
    rng, middles, passed = np.random.default_rng(0), np.full(n, middle), 0.0
    for half in (np.ones(n), np.linspace(0.2, 1.0, n)):
        box, worst, kept = (middles - half, middles + half), 0.0, None
        for trial in range(300):
            near = kept is not None and trial % 3
            first, move = rng.standard_normal((2, n, n)) * ([[[0.05]], [[0.05]]] if near else [[[1.0]], [[0.4]]])
            first, move = (first + first.T) / 2, (move + move.T) / 2
            if near:
                first, move = kept[0] + first, kept[1] + move
            p = np.stack([first, first + move])
            q = np.stack([np.zeros(n), -move @ middles])
            given = farthest(p, q, middles, half)
            agents = Quadratics(p, q, (0.5, 2.0), box)
            moved = farthest(agents.P, agents.q, middles, half)
            assert moved <= agents.projected_distance(given) * (1 + 1e-12)
            if moved / given > worst:
                worst, kept = moved / given, (first, move)
        passed = max(passed, worst)
    assert passed > 1.08 if n > 1 else passed <= 1 + 1e-9


def test_a_private_curvature_in_a_box_takes_more_noise_and_a_public_one_does_not(rng):
    p, q = spd(rng, 0.5, 3.0), rng.standard_normal((N, D))
    boxed = Quadratics(p, q, (0.5, 3.0), box=(0.0, 1.0))
    bounds = [
        plan(boxed, Sharing(Quadratic(np.eye(D), np.zeros(D))), protect=protect, **ASKED).setup.certificates(1, {})[0]
        for protect in (Gap(1.0), Linear(1.0))
    ]
    assert bounds[0].bound == pytest.approx(np.sqrt(1 + D) * bounds[1].bound, rel=1e-5)
    with pytest.raises(InputError, match="length 0"):
        plan(Quadratics(p, q, (0.5, 3.0), ([0.0] * D, [1.0, 1.0, 1.0, 0.0])), Consensus(), protect=Gap(1.0), **ASKED)


def test_neighbours_outside_their_bounds_stay_within_the_certificate():
    """Curvatures of 0 and 1, bounds (1, 2), a box around 100: q must follow what is projected."""
    curvatures, prices = (0.0, 1.0), (0.0, -100.0)
    worlds = [
        Quadratics(np.full((N, 1, 1), 1.0) * ([[[own]]] + [[[1.0]]] * (N - 1)), [[price]] + [[0.0]] * (N - 1),
                   (1.0, 2.0), box=(99.0, 101.0))
        for own, price in zip(curvatures, prices, strict=True)
    ]  # fmt: skip
    made = plan(worlds[0], Consensus(), protect=Gap(1.0), epsilon=1.0, delta=1e-6, rounds=3)
    setup, method, found = made.setup, made.setup.method(3, made.numbers), []
    for world in worlds:
        here = Agents.of(setup.problem(world), None, setup.tolerance, 1)
        state, sums = method.start(here, 1)[0], []
        for k, z in enumerate((50.0, 50.0, 50.0), start=1):
            state, sent = method.local_step(k, here, state, np.full((1, 1, 1), z), Silence())
            sums.append(sent.sum())
        found.append(sums)
    for bound, one, other in zip(setup.certificates(3, made.numbers), *found, strict=True):
        assert abs(one - other) <= bound.bound


@pytest.mark.parametrize("coupling", [Consensus(), Graph(ring(N)), Sharing(Quadratic(np.eye(D), np.zeros(D)))])
def test_noise_that_falls_spends_the_same(coupling, rng):
    agents = Quadratics(spd(rng, 0.5, 3.0), rng.standard_normal((N, D)), (0.5, 3.0))
    made = plan(agents, coupling, protect=Linear(1.0), schedule="geometric:0.81", **ASKED)
    assert made.account.curve.epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)
    noise = {each.round: each.noise_std for each in made.spec.noise_plan()}
    assert [noise[k + 1] / noise[k] for k in range(1, 6)] == pytest.approx([0.9] * 5, rel=1e-6)
    done = dpadmm.minimise(agents, coupling, protect=Linear(1.0), schedule="geometric:0.81", **ASKED, method="admm")
    assert done.epsilon == pytest.approx(1.0, rel=1e-6)


def test_rows_run_the_methods_for_records(rng):
    x = rng.uniform(-0.5, 0.5, (400, D))
    rows = Rows([(x[part::2], np.sign(x[part::2, 0])) for part in (0, 1)], mu=0.01)
    asked = {"epsilon": 1.0, "delta": 1e-5}
    for coupling, trust, view in (
        (Consensus(), "sum", View.PUBLIC),
        (Consensus(), "nobody", View.EAVESDROPPER),
        (Graph(path(2)), "sum", View.EAVESDROPPER),
    ):
        done = dpadmm.minimise(rows, coupling, protect=Record(), trust=trust, **asked)
        assert done.account.protection.view is view
        assert done.epsilon <= 1.0
        assert done.kept is None
        assert done.baseline is None
        assert "certified" in done.statement
    owned = Rows([(x[part::2], np.sign(x[part::2, 0]), 200 * part + np.arange(200) // 4) for part in (0, 1)], mu=0.01)
    persons = dpadmm.minimise(owned, Consensus(), protect=Person(), trust="sum", method="noisy-gradients", **asked)
    assert persons.account.protection.unit is Unit.PERSON
