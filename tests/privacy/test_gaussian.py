"""The closed form of Gaussian DP against golden numbers, mpmath and dp-accounting."""

import json
import math
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpadmm.privacy.curves import delta_of_epsilon, epsilon_of_delta, log_delta, m_of, zcdp_epsilon_classical

# Origin: mpmath with 60 digits, as named in the file.
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "gdp.json").read_text())["rows"]
quick = settings(deadline=None, derandomize=True, max_examples=300)


def exact(m: float, eps: float) -> mp.mpf:
    """The two-term formula of C0 with enough digits to survive its cancellation."""
    with mp.workdps(80):
        m_, eps_ = mp.mpf(m), mp.mpf(eps)
        phi = lambda x: mp.erfc(-x / mp.sqrt(2)) / 2  # noqa: E731
        return phi(-eps_ / m_ + m_ / 2) - mp.exp(eps_) * phi(-eps_ / m_ - m_ / 2)


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: f"m{row['m']}-eps{row['eps']}")
def test_golden(row):
    m, eps, delta = float(row["m"]), float(row["eps"]), mp.mpf(row["delta"])
    assert log_delta(m, eps) == pytest.approx(float(mp.log(delta)), rel=1e-12, abs=1e-13)
    if delta > 1e-300:
        assert delta_of_epsilon(m, eps) == pytest.approx(float(delta), rel=1e-10, abs=0)
    else:
        assert delta_of_epsilon(m, eps) < 1e-300


@quick
@given(st.floats(-4, 2), st.floats(-3, 2), st.floats(-2, 7.2), st.booleans())
def test_delta_matches_mpmath(log_m, log_eps, sigmas, free):
    m = 10**log_m
    # Half of the points at random, half where delta lies between 1e-13 and 1.
    eps = 10**log_eps if free else min(max(m * sigmas + m * m / 2, 1e-3), 100.0)
    reference = exact(m, eps)
    assert log_delta(m, eps) == pytest.approx(float(mp.log(reference)), rel=1e-11, abs=1e-11)
    if reference > 1e-300:
        assert delta_of_epsilon(m, eps) == pytest.approx(float(reference), rel=1e-12, abs=0)


@pytest.mark.parametrize("m", [1e-4, 1e-3, 1e-2, 0.1, 0.999, 1.001, 5.0, 100.0])
def test_no_digits_are_lost_where_the_two_terms_nearly_cancel(m):
    for sigmas in np.linspace(-0.5, 7.0, 31):
        eps = max(m * sigmas + m * m / 2, 0.0)
        assert delta_of_epsilon(m, eps) == pytest.approx(float(exact(m, eps)), rel=1e-12, abs=0)


def test_ends_of_the_range():
    assert delta_of_epsilon(0.0, 1.0) == 0.0
    assert delta_of_epsilon(math.inf, 1.0) == 1.0
    assert log_delta(0.0, 0.0) == -math.inf
    assert delta_of_epsilon(1.0, 0.0) == pytest.approx(math.erf(1 / (2 * math.sqrt(2))), rel=1e-14)
    assert delta_of_epsilon(1e-9, 0.0) == pytest.approx(1e-9 / math.sqrt(2 * math.pi), rel=1e-12, abs=0)
    assert delta_of_epsilon(1e200, 1.0) == 1.0


@quick
@given(st.floats(-4, 2), st.floats(-30, -0.01))
def test_epsilon_inverts_delta(log_m, log_d):
    m, delta = 10**log_m, 10**log_d
    eps = epsilon_of_delta(m, delta)
    if eps == 0.0:
        assert log_delta(m, 0.0) <= math.log(delta)
    else:
        assert log_delta(m, eps) <= math.log(delta)  # rounded up, so that a statement never claims too much
        assert exact(m, eps * (1 + 1e-9) + 1e-14) < delta
        assert exact(m, max(eps * (1 - 1e-9) - 1e-14, 0.0)) > delta


def test_epsilon_at_the_ends():
    assert epsilon_of_delta(0.0, 0.0) == 0.0
    assert epsilon_of_delta(1.0, 0.0) == math.inf
    assert epsilon_of_delta(1.0, 1.0) == 0.0
    assert epsilon_of_delta(math.inf, 0.5) == math.inf


@quick
@given(st.floats(-3, 2), st.floats(-12, -0.05))
def test_m_is_rounded_down_and_tight(log_eps, log_d):
    eps, delta = 10**log_eps, 10**log_d
    m = m_of(eps, delta)
    assert delta_of_epsilon(m, eps) <= delta
    assert exact(m, eps) <= mp.mpf(delta)
    assert exact(m * (1 + 1e-9), eps) > mp.mpf(delta)


def test_m_for_zero_epsilon_is_a_total_variation_budget():
    # delta(0) = 2 Phi(m/2) - 1
    assert m_of(0.0, 0.1) == pytest.approx(2 * 0.12566134685507416, rel=1e-9)


@quick
@given(st.floats(-6, 1.5), st.floats(-12, -1))
@example(-2.0625, -1.125)  # epsilon below rho
def test_the_papers_zcdp_conversion_is_an_upper_bound(log_rho, log_d):
    rho, delta = 10**log_rho, 10**log_d
    assert epsilon_of_delta(math.sqrt(2 * rho), delta) <= zcdp_epsilon_classical(rho, delta) * (1 + 1e-9) + 1e-12
