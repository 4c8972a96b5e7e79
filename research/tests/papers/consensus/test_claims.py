"""Consensus DP-ADMM's printed H, Theorem 1 and schedule, against the certified recursion C3."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpadmm.errors import InputError
from dpadmm_research.claims.base import ClaimedSensitivity
from dpadmm_research.papers.consensus import claims as consensus

GOLDEN = json.loads((Path(__file__).parents[4] / "tests" / "golden" / "c3.json").read_text())["rows"]


def claimed(row: dict[str, Any], *, subgradient_gap: float = 0.0) -> ClaimedSensitivity:
    return consensus.lemma_3_sensitivity(
        agents=row["N"],
        rho=row["rho"],
        strong_convexity=row["tau"],
        smoothness=row["L"],
        gradient_distance=row["delta"],
        subgradient_gap=subgradient_gap,
    )


def certified(agents: int, rho: float, tau: float, smooth: float, distance: float, rounds: int) -> float:
    """C3, written out: the bound on ||dz|| in the round after `rounds` private steps."""
    gam = 1 / rho
    b = gam * distance
    low, high = gam * tau / (1 + gam * tau), gam * smooth / (1 + gam * smooth)
    c, r = (low + high) / 2, (high - low) / 2
    v = 0.0
    for _ in range(rounds - 1):
        v = (1 + r**2 / (c * (1 - c))) * (c * v + (1 - c) * b**2)
    reflect = max(abs(rho - smooth) / (rho + smooth), abs(rho - tau) / (rho + tau))
    return (reflect * math.sqrt(v) + 2 * b / (1 + gam * tau)) / agents


def test_lemma_3_in_the_papers_setting_by_hand() -> None:
    # G = 2 * 100 * sqrt(5) = 447.2135955, rho n = 50000, M = 0:
    # 447.2135955/50000 = 8.94427191e-3; 3 * 1 * 5/((5 - 4) * 50000) = 3e-4; together 9.24427191e-3
    gap = consensus.l1_subgradient_gap(100.0, 5)
    assert gap == pytest.approx(447.21359549995793, rel=1e-14)
    claim = claimed(GOLDEN[0], subgradient_gap=gap)
    assert claim.value == pytest.approx(9.24427191e-3, rel=1e-9)
    assert claim.conditions_hold


def test_lemma_3_with_a_smooth_regulariser_by_hand() -> None:
    # n = 10, rho = 6, L = 2, delta = 0.5, G = 0, M = 20: 3 * 0.5 * 6/((6 - 4)(60 - 20)) = 9/80
    claim = consensus.lemma_3_sensitivity(
        agents=10,
        rho=6.0,
        strong_convexity=1.0,
        smoothness=2.0,
        gradient_distance=0.5,
        regulariser_smoothness=20.0,
    )
    assert claim.value == pytest.approx(0.1125, rel=1e-14)


def test_theorem_1_by_hand() -> None:
    # H = 0.1125, alphas 2 + 3 + 5 = 10
    claim = consensus.theorem_1_epsilon(
        claimed({"N": 8, "rho": 6.0, "tau": 1.0, "L": 2.0, "delta": 0.6}), [2.0, 3.0, 5.0]
    )
    # H = 3 * 0.6 * 6/(2 * 48) = 10.8/96 = 0.1125
    assert claim.value == pytest.approx(1.125, rel=1e-14)
    assert claim.delta == 0.0


def test_schedule_21_by_hand() -> None:
    # beta = 15, q = 2, K = 4, eps/H = 7: alpha = 7 * (1, 2, 4) * 1/(8 - 1) = 1, 2, 4
    bound = claimed({"N": 8, "rho": 6.0, "tau": 1.0, "L": 2.0, "delta": 0.6})
    schedule = consensus.theorem_3_schedule(bound, epsilon=7 * bound.value, rounds=4, beta=15.0)
    assert schedule.values == pytest.approx((1.0, 2.0, 4.0), rel=1e-13)
    assert schedule.first_round == 2


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.floats(1e-3, 5.0), st.integers(2, 400), st.floats(1e-4, 3.0))
def test_schedules_spend_exactly_the_budget(epsilon: float, rounds: int, beta: float) -> None:
    bound = claimed(GOLDEN[0])
    schedule = consensus.theorem_3_schedule(bound, epsilon=epsilon, rounds=rounds, beta=beta)
    assert len(schedule.values) == rounds - 1
    assert consensus.theorem_1_epsilon(bound, schedule.values).value == pytest.approx(epsilon, rel=1e-11)
    ratios = np.array(schedule.values[1:]) / np.array(schedule.values[:-1])
    assert np.allclose(ratios, (1 + beta) ** 0.25, rtol=1e-12)
    flat = consensus.theorem_1_noise(bound, epsilon=epsilon, rounds=rounds)
    spent = consensus.theorem_1_epsilon(bound, [flat.value] * (rounds - 1)).value
    assert spent == pytest.approx(epsilon, rel=1e-11)


def test_a_very_long_schedule_does_not_overflow() -> None:
    schedule = consensus.theorem_3_schedule(claimed(GOLDEN[0]), epsilon=1.0, rounds=5000, beta=3.0)
    assert all(math.isfinite(value) for value in schedule.values)
    assert schedule.values[-1] > 0


def test_lemma_3_is_true_but_loose_in_the_papers_settings() -> None:
    """The paper's two settings: 9.24e-3 against 4.684e-5, and 3.01e-3 against 9.745e-6."""
    easy = claimed(GOLDEN[0], subgradient_gap=consensus.l1_subgradient_gap(100.0, 5)).value
    assert GOLDEN[0]["dz_60"] == pytest.approx(4.684e-5, rel=1e-3)
    assert easy / GOLDEN[0]["dz_60"] == pytest.approx(197.4, rel=1e-3)
    assert easy / GOLDEN[0]["dz_first"] == pytest.approx(277.3, rel=1e-3)
    # Without the term the z-update does not need, 3e-4 is still 6.4 times the certified bound.
    assert claimed(GOLDEN[0]).value / GOLDEN[0]["dz_60"] == pytest.approx(6.405, rel=1e-3)
    hard = claimed(GOLDEN[1], subgradient_gap=consensus.l1_subgradient_gap(100.0, 20)).value
    assert hard == pytest.approx(3.0114e-3, rel=1e-4)
    assert hard / GOLDEN[1]["dz_60"] == pytest.approx(309.0, rel=1e-3)


@pytest.mark.parametrize("row", GOLDEN)
def test_certified_reference_agrees_with_the_golden_file(row: dict[str, Any]) -> None:
    for rounds, name in ((1, "dz_first"), (2, "dz_second"), (10, "dz_tenth"), (60, "dz_60")):
        ours = certified(row["N"], row["rho"], row["tau"], row["L"], row["delta"], rounds)
        assert ours == pytest.approx(row[name], rel=1e-9)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(st.floats(0.01, 10.0), st.floats(0.001, 1.0), st.floats(2.001, 1000.0), st.integers(1, 10_000))
def test_lemma_3_is_never_below_the_certified_bound(smooth: float, share: float, ratio: float, agents: int) -> None:
    """Wherever Assumption 3 holds the proved bound is smaller, even with G = M = 0: the lemma's figure is true."""
    tau, rho = share * smooth, ratio * smooth
    row = {"N": agents, "rho": rho, "tau": tau, "L": smooth, "delta": 1.0}
    assert certified(agents, rho, tau, smooth, 1.0, 500) <= claimed(row).value


@pytest.mark.parametrize(("rho", "fine"), [(3.0, False), (4.0, False), (4.001, True)])
def test_assumption_3_starts_beyond_twice_the_smoothness(rho: float, fine: bool) -> None:
    claim = claimed(GOLDEN[0] | {"rho": rho})
    assert claim.conditions_hold is fine
    assert math.isfinite(claim.value) is fine


@pytest.mark.parametrize("row", GOLDEN[2:])
def test_lemma_3_claims_nothing_outside_assumption_3(row: dict[str, Any]) -> None:
    claim = claimed(row)
    assert claim.value == math.inf
    assert not claim.conditions_hold
    assert math.isfinite(row["dz_60"])
    with pytest.raises(InputError, match="rho greater than 2L"):
        consensus.theorem_3_schedule(claim, epsilon=1.0, rounds=5, beta=0.1)


@pytest.mark.parametrize("rounds", [2, 9, 40])
def test_bound_22_lacks_a_factor_q_minus_1(rounds: int) -> None:
    """Schedule (21) put into the noise term of (19), against that term as (22) prints it: off by exactly q - 1."""
    agents, rho, tau, smooth, d, epsilon = 10_000, 5.0, 1.0, 2.0, 5, 0.1
    beta = 2 * tau * rho / (rho**2 + tau * smooth)
    q = (1 + beta) ** 0.25
    bound = claimed(GOLDEN[0], subgradient_gap=consensus.l1_subgradient_gap(100.0, d))
    alphas = consensus.theorem_3_schedule(bound, epsilon=epsilon, rounds=rounds, beta=beta).values
    front = 4 * math.sqrt(agents * rho * d * (d + 1))
    total = sum(math.sqrt(1 + beta) ** level / alpha for level, alpha in enumerate(alphas, start=2))
    inserted = front / math.sqrt(1 + beta) ** (rounds + 2) * total
    printed = front * bound.value / (epsilon * (q**3 - q**2)) * (1 - q ** -(rounds - 1)) ** 2
    corrected = front * bound.value * (1 - q ** -(rounds - 1)) ** 2 / (epsilon * q**2 * (q - 1) ** 2)
    assert inserted == pytest.approx(corrected, rel=1e-10)
    assert printed / inserted == pytest.approx(q - 1, rel=1e-10)


@pytest.mark.parametrize(
    "changes", [{"N": 0}, {"rho": 0.0}, {"tau": 0.0}, {"L": 0.5}, {"delta": 0.0}, {"rho": math.nan}]
)
def test_bad_input_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        claimed(GOLDEN[0] | changes)


def test_bad_rates_and_rounds_are_refused() -> None:
    bound = claimed(GOLDEN[0])
    with pytest.raises(InputError, match="alpha"):
        consensus.theorem_1_epsilon(bound, [])
    with pytest.raises(InputError, match="at least 2"):
        consensus.theorem_1_noise(bound, epsilon=1.0, rounds=1)
