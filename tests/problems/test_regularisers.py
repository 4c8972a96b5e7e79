"""Regularisers: the contract for each, closed forms, scikit-learn's lasso, refusals."""

import json
import math

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet as SklearnElasticNet
from tests.contracts.regulariser_contract import RegulariserContract

from dpadmm.codec import decode, encode
from dpadmm.problems.regularisers import (
    REGULARISERS,
    AnyRegulariser,
    Box,
    ElasticNet,
    GroupLasso,
    Quadratic,
    Simplex,
    move_into_domain,
)


class TestElasticNet(RegulariserContract):
    instances = (ElasticNet(0.5, 2.0), ElasticNet(l1=1.0), ElasticNet(l2=1.5), ElasticNet())

    @pytest.mark.parametrize(
        ("g", "expected"),
        [
            (ElasticNet(), (0, 0, 0, True)),
            (ElasticNet(l2=2.0), (2, 2, math.inf, True)),
            (ElasticNet(l1=2.0), (0, math.inf, 6, False)),
        ],
    )
    def test_constants_without_a_part(self, g, expected):
        assert (g.strong_convexity, g.smoothness, g.lipschitz(9), g.is_smooth) == expected

    def test_values(self):
        x = [[3.0, -1.0], [-4.0, 0.0]]
        for g, expected in ((ElasticNet(l1=2.0), [14, 2]), (ElasticNet(l2=2.0), [25, 1]), (ElasticNet(), [0, 0])):
            np.testing.assert_array_equal(g.value(x), expected)

    def test_prox_has_exact_zeros(self):
        p = ElasticNet(l1=1.0).prox([[0.3, -0.3, -0.0, 0.1 + 0.2]], step=0.1 + 0.2)
        assert (p == 0).all()
        assert not np.signbit(p).any()

    def test_constants(self):
        g = ElasticNet(1.0, 2.0)
        assert (g.strong_convexity, g.smoothness, g.lipschitz(9), g.is_smooth) == (2, math.inf, math.inf, False)

    def test_residual_certifies_the_optimum_of_scikit_learn(self):
        rng = np.random.default_rng(1)
        a = rng.standard_normal((60, 8))
        b = a @ np.r_[2.0, -1.0, 0.5, np.zeros(5)] + 0.1 * rng.standard_normal(60)
        theirs = SklearnElasticNet(alpha=0.3, l1_ratio=0.6, fit_intercept=False, tol=1e-14, max_iter=100_000)
        x = theirs.fit(a, b).coef_[:, None]
        ours = ElasticNet(0.3 * 0.6, 0.3 * 0.4)
        gradient = a.T @ (a @ x - b[:, None]) / 60
        assert (x == 0).any()
        assert ours.subgradient_residual(x, gradient)[0] < 1e-7
        assert ours.subgradient_residual(x + 0.01, gradient)[0] > 0.1
        assert ElasticNet(0.19, 0.12).subgradient_residual(x, gradient)[0] > 0.01


class TestBox(RegulariserContract):
    instances = (
        Box(-1.0, 2.0),
        Box([-1.0, 0.0, 0.5], [0.5, 2.0, math.inf]),
        Box(-math.inf, [1.0, -0.5, 2.0]),
        Box(0.5, 0.5),
        Box(0.0, math.inf),
    )

    def test_values_at_the_walls(self):
        x = [[0.0, 1.0, 1.0 + 1e-15, -1e-300, math.nan, 0.5]]
        np.testing.assert_array_equal(Box(0.0, 1.0).value(x), [0, 0, math.inf, math.inf, math.inf, 0])

    def test_residual_outside_is_infinite(self):
        np.testing.assert_array_equal(Box(0.0, 1.0).subgradient_residual([[2.0, 0.5]], [[0.0, 0.0]]), [math.inf, 0])

    def test_bounds_are_kept_as_values(self):
        assert Box(np.zeros(2), np.ones(2)) == Box([0.0, 0.0], (1.0, 1.0))
        assert Box(0, 1) == Box(0.0, 1.0)
        assert Box(0.0, 1.0) != Box(0.0, 2.0)
        bounds = np.ones(2)
        box = Box(0.0, bounds)
        bounds[:] = -1
        np.testing.assert_array_equal(box.prox([[5.0], [5.0]], 1.0), [[1.0], [1.0]])


class TestGroupLasso(RegulariserContract):
    instances = (GroupLasso(0.613, [0, 0, 1]), GroupLasso(1.7, [7, 3, 7]), GroupLasso(0.3, [0, 0, 0]))

    def test_groups_of_one_are_the_lasso(self):
        v = np.random.default_rng(0).standard_normal((4, 6)) * 2
        np.testing.assert_allclose(GroupLasso(0.8, range(4)).prox(v, 0.5), ElasticNet(0.8).prox(v, 0.5), atol=1e-15)

    def test_whole_groups_are_exactly_zero(self):
        p = GroupLasso(1.0, [0, 0, 1, 1]).prox([[0.8], [0.8], [9.0], [0.01]], 1.0)
        assert (p[:2] == 0).all()
        assert (p[2:] != 0).all()


class TestSimplex(RegulariserContract):
    instances = (Simplex(), Simplex(3.5), Simplex(0.01))
    test_prox_against_brute_force = None  # no coordinate moves alone; the subgradient inequality sees the others

    @pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6, 1e12])
    def test_projections_are_members_and_leave_members_alone(self, scale):
        v = np.random.default_rng(1).standard_normal((50, 200)) * scale
        p = Simplex(2.0).prox(v, 1.0)
        assert (p >= 0).all()
        np.testing.assert_allclose(p.sum(axis=0), 2.0, rtol=1e-13)
        np.testing.assert_allclose(Simplex(2.0).prox(p, 1.0), p, rtol=0, atol=1e-13)

    def test_values(self):
        x = [[0.5, 1.0, 0.5, 1.1, math.nan], [0.5, 0.0, 0.4, -0.1, 0.5]]
        np.testing.assert_array_equal(Simplex().value(x), [0, 0, math.inf, math.inf, math.inf])


def test_points_outside_the_domain_move_to_the_nearest_point_in_it():
    x = np.array([[0.5, 2.0], [0.5, 0.0]])
    np.testing.assert_array_equal(move_into_domain(Simplex(), x), [[0.5, 1.0], [0.5, 0.0]])
    assert move_into_domain(ElasticNet(3.0, 2.0), x) is x


@pytest.mark.parametrize(
    "regulariser",
    [
        *(*REGULARISERS.values(), ElasticNet(0.1, 2.0), Box(0, [1, math.inf]), GroupLasso(0.5, [0, 0, 1])),
        *(Simplex(2.0), Quadratic(np.eye(2), [0.5, 0.0])),
    ],
    ids=repr,
)
def test_records_bring_back_the_regulariser(regulariser):
    assert decode(AnyRegulariser, json.loads(json.dumps(encode(regulariser, AnyRegulariser)))) == regulariser
