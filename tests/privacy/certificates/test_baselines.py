"""C9 and C8: gradients, linearised ADMM, output perturbation, general constraints, grids and norms."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from tests.contracts.local_facts import local_function, of
from tests.privacy.certificates.models import ball, gradient, solve

from dpadmm.errors import InputError
from dpadmm.privacy.certificates.gradients import (
    coordinate_gradient,
    full_gradient,
    general_constraint,
    gradient_step,
    gradient_sum,
    linearised_admm,
    output_perturbation,
    sampled_gradient,
)
from dpadmm.privacy.certificates.local import ORDER_OF_OTHERS, p_admm
from dpadmm.privacy.certificates.sums import column_profile
from dpadmm.privacy.protection import Norm, Protection, Strength, Unit, in_l1_norm, secure_grid, with_spherical_noise

SATURATED = np.array([[[-0.03, 0.99955], [0.0, 0.0]]])  # against its mirror image: gradients nearly 2 apart


def test_full_gradient_step_and_linearised_admm(rng):
    n, w, rho, step = 2, 1.7, 0.6, 0.3
    tries = 20_000
    v = ball(rng, (tries, n, 2))
    other = v.copy()
    other[:, 0] = ball(rng, (tries, 2))
    v[0], other[0] = SATURATED[0], SATURATED[0] * [1, -1]
    x = rng.standard_normal((tries, 2)) * 10.0 ** rng.uniform(-1, 3, (tries, 1))
    x[0] = [1e3, 0]
    g, h = gradient(v, x, w, 0.2), gradient(other, x, w, 0.2)
    centre = rng.standard_normal((tries, 2))
    facts = {"gradient_bound": 1, "n_records": n, "weight": w}
    outputs = {
        of(full_gradient, **facts).bound: (g, h),
        of(gradient_step, step=step, **facts).bound: (x - step * g, x - step * h),
        of(linearised_admm, penalty=rho, step=step, **facts).bound: tuple(
            (rho * centre + x / step - a) / (rho + 1 / step) for a in (g, h)
        ),
    }
    for bound, (a, b) in outputs.items():
        moved = np.linalg.norm(a - b, axis=1).max()
        assert 0.99 * bound <= moved <= bound * (1 + 1e-9)
    one = of(coordinate_gradient, gradient_bound=1.0, n_records=n, weight=w).bound
    assert 0.99 * one <= np.abs(g - h)[:, 1].max() <= one * (1 + 1e-9)


@given(
    gaps=st.lists(st.tuples(st.integers(1, 50), st.floats(0.1, 9)), min_size=1, max_size=5), people=st.integers(1, 5)
)
@example(gaps=[(10, 1.0), (10, 2.0), (10, 3.0)], people=1)
def test_the_silos_of_a_person_in_a_sum_are_those_that_move_it_most(gaps, people):
    """Whichever silos a person is in, the bound covers them, and no more than the worst of these choices."""
    silos = [local_function(gradient_bound=1, n_records=n, weight=w, silos_per_person=people) for n, w in gaps]
    choices = combinations([each.gap for each in silos], min(people, len(silos)))
    assert gradient_sum(silos).bound == pytest.approx(max(map(sum, choices)), rel=1e-12)


def test_statements_for_persons_say_that_the_order_of_the_others_rows_is_not_the_persons():
    own = local_function(gradient_bound=1, n_records=9, unit=Unit.PERSON)
    profile = column_profile(n_numeric=1, n_categorical=1, n_records=9, protection=Protection(unit=Unit.PERSON))
    assert all(any(ORDER_OF_OTHERS in texts for texts in each.assumptions) for each in (gradient_sum([own]), profile))
    records = gradient_sum([replace(own, protection=Protection())])
    assert not any(ORDER_OF_OTHERS in texts for texts in records.assumptions)


def test_output_perturbation(rng):
    n, mu, w = 2, 0.05, 2.0
    v = ball(rng, (3000, n, 3))
    other = v.copy()
    other[:, 0] = ball(rng, (3000, 3))
    # No public quadratic: all curvature is the ridge's, moved to `curvature` to keep one solver.
    x, y = (solve(a, np.zeros((3000, 3)), w * mu, w, 0.0) for a in (v, other))
    facts = {"gradient_bound": 1, "n_records": n, "strong_convexity": mu, "weight": w}
    bound = of(output_perturbation, **facts).bound
    assert np.linalg.norm(x - y, axis=1).max() <= bound
    # Records of slope one that never saturate, |t - c| against |t + c|: the optimum moves by the whole bound.
    found = [minimize_scalar(lambda t, c=c: abs(t - c) + mu / 2 * t * t, bounds=(-99, 99)).x for c in (100, -100)]
    assert abs(found[0] - found[1]) == pytest.approx(2 / mu, rel=1e-4)
    assert of(output_perturbation, gradient_bound=1, n_records=1, strong_convexity=mu).bound == pytest.approx(2 / mu)


def test_sampled_gradient():
    assert of(sampled_gradient, batch_size=20, gradient_bound=1, clip=0.4, weight=2.0).bound == pytest.approx(0.04)
    with pytest.raises(InputError, match="Huber"):
        of(sampled_gradient, batch_size=20)


def test_general_constraint_attacked_attained_and_the_printed_form_fails(rng):
    """Linear losses g'x, ||g|| <= G plus a ridge: x-update in closed form for random A."""
    gam, n, tries = 0.8, 4, 4000
    worst = 0.0
    a = rng.standard_normal((tries, 4, 3)) * 10.0 ** rng.uniform(-1, 1, (tries, 1, 1))
    omega = np.linalg.svd(a, compute_uv=False)[:, -1]
    g = rng.standard_normal((2, tries, 3))
    g /= np.linalg.norm(g, axis=2, keepdims=True)
    _, _, vt = np.linalg.svd(a)
    g[0, : tries // 2] = vt[: tries // 2, -1]  # the weakest direction of A is the worst one
    g[1, : tries // 2] = -vt[: tries // 2, -1]
    mu = np.where(np.arange(tries) % 2, 0.0, 0.1)
    q = np.einsum("tki,tkj->tij", a, a) / gam + mu[:, None, None] * np.eye(3)
    x = [np.linalg.solve(q, -(h / n)[..., None])[..., 0] for h in g]
    moved = 2 * np.linalg.norm(np.einsum("tij,tj->ti", a, x[0] - x[1]), axis=1)
    for m, o in zip(moved, omega, strict=True):
        bound = of(general_constraint, step=gam, smallest_singular_value=o, gradient_bound=1, n_records=n).bound
        assert m <= bound * (1 + 1e-9)
        worst = max(worst, m / bound)
    assert worst > 0.9999
    # A = I/2: the printed 4 lam gamma L ||A||/(n omega) on u, here lam = 1, is half of what happens.
    moved = 2 * 0.5 * np.linalg.norm(np.array([2.0 / n]) * gam / 0.25)
    assert moved > 1.99 * 4 * gam * 0.5 / (n * 0.5)
    assert moved == pytest.approx(
        of(general_constraint, step=gam, smallest_singular_value=0.5, gradient_bound=1, n_records=n).bound
    )


def test_grid_rounding_is_covered_and_attained(rng):
    d, grid = 5, 2.0**-4
    cert = of(full_gradient, gradient_bound=0.1, n_records=4)
    on_grid = secure_grid(cert, grid=grid, dimension=d)
    a = rng.standard_normal((50_000, d))
    step = rng.standard_normal((50_000, d))
    step *= cert.bound / np.linalg.norm(step, axis=1, keepdims=True)
    moved = np.linalg.norm(np.round((a + step) / grid) * grid - np.round(a / grid) * grid, axis=1)
    assert cert.bound < moved.max() <= on_grid.bound
    # Both values sit just inside opposite halves of their cells: every coordinate moves by one more grid step.
    shift = grid * np.ceil(cert.bound / np.sqrt(d) / grid)
    near = np.full(d, grid / 2 - 1e-9)
    far = near + (shift - grid) + 2e-9
    reached = np.linalg.norm(np.round(far / grid) * grid - np.round(near / grid) * grid)
    assert reached - np.linalg.norm(far - near) == pytest.approx(grid * np.sqrt(d), rel=1e-6)
    assert on_grid.bound - cert.bound == pytest.approx(grid * np.sqrt(d))
    assert on_grid.theorem.endswith("C8")
    assert (on_grid.grid, on_grid.grid_dimension) == (grid, d)
    l1 = secure_grid(in_l1_norm(cert, dimension=d), grid=grid, dimension=d)
    assert l1.norm is Norm.L1
    assert l1.bound == pytest.approx(cert.bound * np.sqrt(d) + grid * d)


def test_spherical_noise_is_never_fully_certified():
    facts = {"gradient_bound": 1, "n_records": 10, "edge_penalty": 0.1, "degree": 2}
    assert with_spherical_noise(of(p_admm, **facts, solver_tolerance=1e-9)).strength is Strength.UP_TO_FLOATING_POINT
    assert with_spherical_noise(of(p_admm, **facts)).strength is Strength.UP_TO_SOLVER_ERROR
