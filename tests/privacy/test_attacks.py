"""Attacks on the accounting: releases that reach everybody, discrete noise, silos behind one noise, rounding."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.certificates import by_agent, changed
from tests.contracts.local_facts import of

from dpadmm.privacy.accounting import compose, worst_person
from dpadmm.privacy.certificates.hidden_state import (
    SpectralInterval,
    consensus_broadcast_records,
    fixed_point_mean_record,
    hidden_drift,
)
from dpadmm.privacy.curves import GaussianCurve, InfiniteCurve, delta_of_epsilon, epsilon_of_delta
from dpadmm.privacy.protection import Certificate, Protection, Unit, View
from dpadmm.privacy.releases import (
    BareRelease,
    GaussianRelease,
    PoissonSampling,
    SampledGaussianRelease,
    SphericalLaplaceRelease,
)

quick = settings(deadline=None, derandomize=True, max_examples=100)
BASE = Certificate(
    bound=1.0, protection=Protection(unit=Unit.RECORD, view=View.PUBLIC), theorem="C", assumptions=("norm <= 1",)
)


def gaussian(std, agent, silos=1, **terms):
    certificate = changed(BASE, silos_per_person=silos, **terms)
    return GaussianRelease(certificate=certificate, noise_std=std, agent=agent, round=1)


def sampled(std, sampling, agent=0, count=1):
    return SampledGaussianRelease(certificate=BASE, noise_std=std, sampling=sampling, agent=agent, round=1, count=count)


class TestReleasesThatReachEverybody:
    def test_pure_mixed_and_bare(self):
        rates = [SphericalLaplaceRelease(certificate=BASE, rate=r, agent=a, round=1) for r, a in ((0.5, -1), (0.25, 0))]
        assert worst_person(rates).epsilon(0.0) == pytest.approx(0.75)
        mixed = [gaussian(3.0, -1), sampled(2.0, PoissonSampling(rate=0.1), agent=4)]
        assert worst_person(mixed).epsilon(1e-6) == pytest.approx(compose(mixed).epsilon(1e-6))
        alone = [gaussian(3.0, -1), rates[0]]
        assert worst_person(alone).epsilon(1e-6) == pytest.approx(compose(alone).epsilon(1e-6))
        bare = BareRelease(reason="-", agent=-1, round=1)
        assert worst_person([bare, gaussian(3.0, 0)]) == InfiniteCurve()
        assert math.isinf(by_agent([bare, gaussian(3.0, 0)])[0].epsilon(1e-6))


class TestSilosBehindOneNoise:
    """The counterexample: every silo of a person pushes the mean the same way, and one noise must hide them all."""

    def test_consensus(self):
        n, rho, mu, silos = 5, 2.0, 0.5, 3
        # Loss +x against -x in three of five silos, first private round: x = prox, sent 2x - y, y = zhat = 0.
        sent = {sign: 2 * (-sign / (rho + mu)) for sign in (1.0, -1.0)}
        moved = silos * abs(sent[1.0] - sent[-1.0]) / n
        bound = of(consensus_broadcast_records,
            rounds=1, gradient_bound=1, n_records=1, n_agents=n, penalty=rho, strong_convexity=mu, smoothness=mu,
            solver_tolerance=0.0, silos_per_person=silos,
        )[0].bound  # fmt: skip
        assert bound == pytest.approx(moved)

    def test_fixed_point(self):
        n, gamma, silos = 5, 0.7, 3
        # Linear losses, lam = 1/2: after an update u = z - gamma k.
        bound = of(fixed_point_mean_record,
            updates=1, step=gamma, gradient_bound=1, n_records=1, smoothness=0.0, n_users=n, silos_per_person=silos,
            solver_tolerance=0.0,
        )[0].bound  # fmt: skip
        assert bound == pytest.approx(silos * 2 * gamma / n)


class TestDiscreteNoise:
    @pytest.mark.parametrize("ratio", [0.7, 1.0, 2.0, 5.0])
    def test_the_factor_covers_the_discrete_gaussians_excess(self, ratio):
        reach = int(40 * ratio) + 40
        k = np.arange(-reach, 2 * reach)
        at = {shift: np.exp(-((k - shift) ** 2) / (2 * ratio**2)) for shift in range(int(4 * ratio) + 2)}
        at = {shift: weights / weights.sum() for shift, weights in at.items()}
        is_needed = False
        for shift in range(1, len(at)):
            m = shift / ratio
            curve = compose([gaussian(ratio, 0, bound=float(shift), grid=1.0, grid_dimension=1)])
            for eps in np.linspace(m * m / 2, m * m / 2 + 5 * m, 60):
                exact = np.maximum(at[shift] - math.exp(eps) * at[0], 0).sum()
                assert exact <= curve.delta(eps) + 1e-13
                is_needed |= exact > delta_of_epsilon(m, eps) * (1 + 1e-6) > 1e-10
        assert is_needed

    def test_without_a_grid_nothing_changes(self):
        assert gaussian(1.0, 0).grid_factor == 1.0
        assert compose([gaussian(2.0, 0)]) == GaussianCurve(0.5)


class TestRounding:
    @quick
    @given(m=st.floats(1e-5, 50), log_delta=st.floats(-600, -0.01))
    def test_epsilon_is_never_below_the_root(self, m, log_delta):
        delta = math.exp(log_delta)
        assert delta_of_epsilon(m, epsilon_of_delta(m, delta)) <= delta * (1 + 1e-15 * max(1.0, -log_delta))

    def test_curvature_so_large_that_the_spectrum_rounds_to_one(self):
        assert hidden_drift(SpectralInterval(1.0, 1.0), 1.0, 3)[-1] == 0.0
        assert hidden_drift(SpectralInterval(0.0, 0.0), 1.0, 3)[-1] == 1.0
