"""Fixed-point ADMM's printed RDP theorems by hand, and the exact divergence of what the algorithms release.

The exact figures come from the updates written out below for linear losses f_i(x) = s_i L x, whose prox is a shift.
They use L = gamma = 1, r = 0, dimension 1, one round; everything is then Gaussian and nothing is approximated.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import norm

from dpadmm_research.papers.fixed_point import claims as fp

Array = NDArray[np.float64]


def sweep(slopes: Array, noise: Array, *, lam: float = 0.5, gamma: float = 1.0, active: Array | None = None) -> Array:
    """One round of Algorithms 2/3: z = mean u, x_i = prox_{gamma f_i}(2z - u_i), u_i += 2 lam (x_i - z + noise_i/2)."""
    u = np.zeros_like(slopes)
    z = u.mean()
    x = (2 * z - u) - gamma * slopes
    moved = u + 2 * lam * (x - z + noise / 2)
    return moved if active is None else np.where(active, moved, u)


def gaussian_of(release: Callable[[Array], float], count: int) -> tuple[float, float]:
    """Mean and unit-noise standard deviation of an affine function of `count` independent standard normals."""
    mean = release(np.zeros(count))
    return mean, float(np.linalg.norm([release(e) - mean for e in np.eye(count)]))


def neighbours(count: int) -> tuple[Array, Array]:
    """User 0's loss is +x or -x, everybody else's is -x."""
    one, other = -np.ones(count), -np.ones(count)
    one[0] = 1.0
    return one, other


# Inverses

THEOREMS: list[fp.RenyiTheorem] = [
    fp.CentralisedTheorem2(iterations=30, records=100, lipschitz=1.0, gamma=0.5),
    fp.LocalTheorem3(participations=7, lipschitz=1.0, gamma=0.5),
    fp.SecureAggregationRemark4(participations=7, sampled=20, lipschitz=1.0, gamma=0.5),
    fp.FederatedTheorem3(rounds=30, users=1000, sampled=100, lipschitz=1.0, gamma=0.5),
    fp.FederatedTheorem10(rounds=30, users=1000, sampled=100, lipschitz=1.0, gamma=0.5),
    fp.NetworkTheorem4(participations=7, users=100, lipschitz=1.0, gamma=0.5),
    fp.GeneralTheorem7(
        iterations=30, records=100, lipschitz=1.0, gamma=0.5, spectral_norm=2.0, least_singular_value=1.0
    ),
]


@settings(deadline=None, derandomize=True, max_examples=30)
@given(st.sampled_from(THEOREMS), st.floats(1.1, 30.0), st.floats(1e-4, 10.0))
def test_renyi_noise_is_the_inverse(theorem: fp.RenyiTheorem, order: float, rdp: float) -> None:
    noise = theorem.noise(order=order, rdp=rdp)
    assert theorem.rdp(order=order, noise_std=noise.value).value == pytest.approx(rdp, rel=1e-12)


@pytest.mark.parametrize("theorem", THEOREMS, ids=lambda theorem: type(theorem).__name__)
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_epsilon_noise_is_the_least_that_the_conditions_allow(theorem: fp.RenyiTheorem, epsilon: float) -> None:
    noise = theorem.noise_for_epsilon(epsilon=epsilon, delta=1e-6)
    assert noise.conditions_hold
    found = theorem.epsilon(noise_std=noise.value, delta=1e-6)
    assert found.value <= epsilon * (1 + 1e-9)
    less = theorem.epsilon(noise_std=0.999 * noise.value, delta=1e-6)
    assert less.value > epsilon or not less.conditions_hold


@pytest.mark.parametrize("theorem", THEOREMS, ids=lambda theorem: type(theorem).__name__)
@pytest.mark.parametrize("noise_std", [0.6, 4.0, 25.0])
def test_epsilon_is_the_best_over_a_grid_of_allowed_orders(theorem: fp.RenyiTheorem, noise_std: float) -> None:
    found = theorem.epsilon(noise_std=noise_std, delta=1e-6)
    claims = [theorem.rdp(order=float(order), noise_std=noise_std) for order in 1 + np.logspace(-3, 6, 3000)]
    allowed = [fp.epsilon_from_rdp(claim, 1e-6).value for claim in claims if claim.conditions_hold]
    if allowed:
        assert found.conditions_hold
        assert found.value == pytest.approx(min(allowed), rel=2e-2)
        assert found.value <= min(allowed) * (1 + 1e-9)
    else:
        assert not found.conditions_hold


def test_noise_is_marked_where_no_noise_meets_the_conditions() -> None:
    claim = fp.FederatedTheorem3(rounds=1, users=10, sampled=5, lipschitz=1.0, gamma=1.0)
    noise = claim.noise_for_epsilon(epsilon=1.0, delta=1e-6)
    assert not noise.conditions_hold
    assert noise.target.value == pytest.approx(1.0, rel=1e-9)


# The claims that fail, and those that do not


@pytest.mark.parametrize("lam", [0.3, 0.5, 1.0])
def test_centralised_1_over_n_squared_fails(lam: float) -> None:
    """K = 1, n = 100, sigma = 4, order 2: the released mean diverges by 0.01; Theorem 2 says 1e-4."""
    n, sigma, order = 100, 4.0, 2.0
    (mean, unit), (other, _) = (
        gaussian_of(lambda noise, s=slopes: float(sweep(s, noise, lam=lam).mean()), n)  # type: ignore[misc]
        for slopes in neighbours(n)
    )
    exact = order * (mean - other) ** 2 / (2 * (sigma * unit) ** 2)
    claim = fp.CentralisedTheorem2(iterations=1, records=n, lipschitz=1.0, gamma=1.0)
    assert exact == pytest.approx(0.01, rel=1e-9)
    assert claim.rdp(order=order, noise_std=sigma).value == pytest.approx(1e-4, rel=1e-12)


def test_centralised_is_right_with_algorithm_5s_gamma() -> None:
    """Read with prox_{gamma f_i/n}, the whole vector u diverges by exactly the printed 1e-4, its mean by less."""
    n, sigma, order = 100, 4.0, 2.0
    one, other = (sweep(slopes, np.zeros(n), gamma=1.0 / n) for slopes in neighbours(n))
    unit = sweep(np.zeros(n), np.ones(n))[0]
    claim = fp.CentralisedTheorem2(iterations=1, records=n, lipschitz=1.0, gamma=1.0)
    printed = claim.rdp(order=order, noise_std=sigma).value
    blocks = order * float(np.sum((one - other) ** 2)) / (2 * (sigma * unit) ** 2)
    mean = order * (one.mean() - other.mean()) ** 2 / (2 * (sigma * unit) ** 2 / n)
    assert blocks == pytest.approx(printed, rel=1e-9)
    assert mean == pytest.approx(printed / n, rel=1e-9)


def test_local_claim_holds_and_is_attained() -> None:
    """Theorem 3, local part: one user's message u_i diverges by exactly 8 order L^2 gamma^2/sigma^2."""
    one, other = (sweep(slopes, np.zeros(5))[0] for slopes in neighbours(5))
    unit = sweep(np.zeros(5), np.ones(5))[0]
    exact = 2.0 * (one - other) ** 2 / (2 * (4.0 * unit) ** 2)
    claim = fp.LocalTheorem3(participations=1, lipschitz=1.0, gamma=1.0)
    assert exact == pytest.approx(claim.rdp(order=2.0, noise_std=4.0).value, rel=1e-12)


def renyi_2_of_mixture(rate: float, shift: float) -> float:
    """D_2 of (1-q) N(0,1) + q N(shift,1) against N(0,1), by quadrature."""

    def integrand(x: float) -> float:
        base = norm.pdf(x)
        # p = base (1 + q a), so p^2/base = base (1 + 2 q a + q^2 a^2) and the middle term integrates to zero.
        ratio = math.expm1(shift * x - shift**2 / 2)
        return float(rate**2 * ratio**2 * base)

    value, _ = quad(integrand, -12.0, 12.0, epsabs=1e-15, epsrel=1e-11)
    return math.log1p(value)


def test_federated_1_over_m_squared_fails() -> None:
    """n = 1000, m = 100, sigma = 4, order 2: what is released diverges by 1.0e-4; Theorem 3 says 2e-6."""
    n, m, sigma = 1000, 100, 4.0
    in_sample, out_of_sample = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    in_sample[:m], out_of_sample[1 : m + 1] = True, True

    def released(slopes: Array, noise: Array, active: Any) -> float:
        return float(np.sum(sweep(slopes, noise, active=active)) / n)  # z_0 + (1/n) sum of the sampled updates

    one, other = neighbours(n)
    quiet = np.zeros(n)
    # All other users are alike, so only whether user 0 is sampled matters, and for `other` not even that.
    assert released(other, quiet, in_sample) == pytest.approx(released(other, quiet, out_of_sample), rel=1e-12)
    assert released(one, quiet, out_of_sample) == pytest.approx(released(other, quiet, out_of_sample), rel=1e-12)
    unit = math.sqrt(m) * (released(other, np.eye(n)[1], in_sample) - released(other, quiet, in_sample))
    shift = (released(other, quiet, in_sample) - released(one, quiet, in_sample)) / (sigma * unit)
    exact = renyi_2_of_mixture(m / n, shift)
    assert exact == pytest.approx(math.log1p(0.01 * math.expm1(0.01)), rel=1e-8)
    assert exact == pytest.approx(1.005e-4, rel=1e-3)
    for theorem in (fp.FederatedTheorem3, fp.FederatedTheorem10):
        claim = theorem(rounds=1, users=n, sampled=m, lipschitz=1.0, gamma=1.0).rdp(order=2.0, noise_std=sigma)
        assert claim.conditions_hold
        assert claim.value == pytest.approx(2e-6, rel=1e-12)
        assert exact > 50 * claim.value
    # One N(0, sigma^2) on the mean of the m updates instead of one in each: then the printed figure holds.
    shared = renyi_2_of_mixture(m / n, shift / math.sqrt(m))
    assert shared == pytest.approx(1.00005e-6, rel=1e-4)
    assert shared < 2e-6


def test_secure_aggregation_1_over_m_squared_fails() -> None:
    """The sum of m = 100 messages carries m noises: 0.01 at order 2 and sigma = 4, where Remark 4 says 1e-4."""
    m, sigma = 100, 4.0
    one, other = (float(sweep(slopes, np.zeros(m)).sum()) for slopes in neighbours(m))
    unit = math.sqrt(m) * sweep(np.zeros(m), np.ones(m))[0]
    exact = 2.0 * (one - other) ** 2 / (2 * (sigma * unit) ** 2)
    claim = fp.SecureAggregationRemark4(participations=1, sampled=m, lipschitz=1.0, gamma=1.0)
    assert exact == pytest.approx(0.01, rel=1e-9)
    assert claim.rdp(order=2.0, noise_std=sigma).value == pytest.approx(1e-4, rel=1e-12)


def general_update(a: float, slope: float, n: int, *, lam: float = 0.5, gamma: float = 1.0) -> float:
    """Algorithm 5 for A = a: x = argmin slope x/n + (a x + w)^2/(2 gamma), then u = 2 lam a x, at w = u_0 = 0."""
    x = -gamma * slope / (n * a**2)
    derivative = slope / n + a * (a * x) / gamma
    assert abs(derivative) < 1e-12
    return 2 * lam * a * x


@pytest.mark.parametrize(("a", "ratio"), [(0.5, 4.0), (1.0, 1.0), (2.0, 0.25)])
def test_theorem_7_fails_for_small_a(a: float, ratio: float) -> None:
    """The subproblem is omega^2/gamma strongly convex, not omega/gamma: below norm 1 the claim is too small."""
    n, sigma, lam = 10, 4.0, 0.5
    moved = general_update(a, 1.0, n) - general_update(a, -1.0, n)
    exact = 2.0 * moved**2 / (2 * (lam * sigma) ** 2)
    claim = fp.GeneralTheorem7(
        iterations=1, records=n, lipschitz=1.0, gamma=1.0, spectral_norm=a, least_singular_value=a
    )
    assert exact / claim.rdp(order=2.0, noise_std=sigma).value == pytest.approx(ratio, rel=1e-9)


def token_map(z: float, u: float, n: int, lam: float, prox: Callable[[float], float]) -> float:
    """Lines 4 to 6 of Algorithm 4 without noise and with r = 0."""
    x = prox(2 * z - u)
    u_new = u + 2 * lam * (x - z)
    return z + (u_new - u) / n


@pytest.mark.parametrize(("lam", "n"), [(0.5, 10), (1.0, 10), (0.5, 100)])
def test_token_map_of_network_dp_expands(lam: float, n: int) -> None:
    """Amplification by iteration needs a non-expansive map of what is noised; at fixed u, z -> z+ is not one.

    For a linear loss the map stretches distances by exactly 1 + 2 lam/n; a curved one stretches less, and this
    is the most any convex loss can do because the slope of a prox lies in [0, 1].
    """

    def stretch(prox: Callable[[float], float]) -> float:
        points = np.linspace(-3.0, 3.0, 61)
        images = np.array([token_map(float(z), 0.3, n, lam, prox) for z in points])
        return float(np.max(np.abs(np.diff(images) / np.diff(points))))

    most = 1 + 2 * lam / n
    assert stretch(lambda v: v - 1.0) == pytest.approx(most, rel=1e-9)
    assert most > 1
    for curvature in (0.1, 0.5, 0.9):
        expected = 1 + 2 * lam / n * (2 / (1 + curvature) - 1)
        assert stretch(lambda v, h=curvature: v / (1 + h)) == pytest.approx(expected, rel=1e-9)  # type: ignore[misc]
        assert 1 < expected < most


def test_network_proof_starts_from_half_the_local_loss() -> None:
    """The steps of the proof, summed as it says, give (1 + c) times the printed bound, c up to 1."""
    n, order, sigma = 100, 2.0, 4.0
    local = fp.LocalTheorem3(participations=1, lipschitz=1.0, gamma=1.0).rdp(order=order, noise_std=sigma).value
    c = (order - 1) * local
    assert c == pytest.approx(1.0)  # the largest c for which weak convexity is stated
    steps = np.arange(1, 200_000)
    by_its_steps = (1 + c) * float(np.sum((1 - 1 / n) ** steps / n * local / steps))
    printed = fp.NetworkTheorem4(participations=1, users=n, lipschitz=1.0, gamma=1.0)
    assert by_its_steps == pytest.approx(2 * printed.rdp(order=order, noise_std=sigma).value, rel=1e-6)
    # Within the printed condition c can pass 1, where the lemma used says nothing.
    inside = printed.rdp(order=order, noise_std=3.0)
    wide = fp.LocalTheorem3(participations=1, lipschitz=1.0, gamma=1.0).rdp(order=order, noise_std=3.0)
    assert inside.conditions_hold
    assert (order - 1) * wide.value > 1.7
