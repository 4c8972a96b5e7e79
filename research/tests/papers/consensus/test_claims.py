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
from dpadmm.privacy.certificates.hidden_state import consensus_broadcast
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


@settings(deadline=None, derandomize=True, max_examples=100)
@given(st.floats(0.01, 10.0), st.floats(0.001, 1.0), st.floats(2.001, 1000.0), st.integers(1, 10_000))
def test_lemma_3_is_never_below_the_certified_bound(smooth: float, share: float, ratio: float, agents: int) -> None:
    """Wherever Assumption 3 holds the proved bound is smaller, even with G = M = 0: the lemma's figure is true."""
    tau, rho = share * smooth, ratio * smooth
    row = {"N": agents, "rho": rho, "tau": tau, "L": smooth, "delta": 1.0}
    proved = consensus_broadcast(
        gradient_distance=1.0, n_agents=agents, penalty=rho, strong_convexity=tau, smoothness=smooth, rounds=500
    )
    assert proved[-1].bound <= claimed(row).value


@pytest.mark.parametrize("row", GOLDEN[2:])
def test_lemma_3_claims_nothing_outside_assumption_3(row: dict[str, Any]) -> None:
    claim = claimed(row)
    assert claim.value == math.inf
    assert not claim.conditions_hold
    assert math.isfinite(row["dz_60"])
    with pytest.raises(InputError) as refusal:
        consensus.theorem_3_schedule(claim, epsilon=1.0, rounds=5, beta=0.1)
    assert refusal.value.setting == "rho"
