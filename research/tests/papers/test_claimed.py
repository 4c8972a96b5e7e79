"""A claimed figure cannot be taken for a number or for a certified figure, and never loses its label."""

import dataclasses
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mypy import api as mypy_api

import dpadmm
import dpadmm_research
from dpadmm.privacy.protection import Certificate
from dpadmm_research.claims.base import (
    ClaimedEpsilon,
    ClaimedNoise,
    ClaimedSensitivity,
    Condition,
    NoiseKind,
    Paper,
    Provenance,
    epsilon_of_linear_renyi,
    largest,
    linear_renyi_of_epsilon,
    merged,
)
from dpadmm_research.papers.consensus import claims as consensus
from dpadmm_research.papers.fixed_point import claims as fixed_point
from dpadmm_research.papers.p_admm import claims as p_admm
from dpadmm_research.papers.ps_admm import claims as ps_admm
from dpadmm_research.papers.r_admm import claims as r_admm
from dpadmm_research.papers.r_admm import dvp_claims as dvp
from dpadmm_research.papers.r_admm import m_admm_claims as m_admm


def claimed(value: float = 0.5, *conditions: Condition) -> ClaimedEpsilon:
    return ClaimedEpsilon(value=value, delta=0.0, paper=Paper.R_ADMM, theorem="Theorem IV.1", conditions=conditions)


AS_A_NUMBER: list[Callable[[Any], Any]] = [
    float,
    int,
    math.sqrt,
    np.float64,
    lambda claim: claim + 1,
    lambda claim: 2.0 * claim,
    lambda claim: np.float64(2.0) * claim,
    lambda claim: claim < 1.0,
    lambda claim: claim <= np.float64(1.0),
    lambda claim: np.asarray([claim], dtype=np.float64),
    lambda claim: np.exp(claim),
    lambda claim: f"{claim:.3f}",
    lambda claim: range(claim),
]


@pytest.mark.parametrize("use", AS_A_NUMBER)
def test_a_claim_is_not_a_number(use: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError):
        use(claimed())


def test_a_claim_does_not_equal_its_number() -> None:
    assert claimed(0.5) != 0.5
    assert claimed(0.5).value == 0.5


def test_mypy_refuses_claims_for_numbers_and_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
from dpadmm_research.claims.base import ClaimedEpsilon, ClaimedNoise, ClaimedSensitivity
from dpadmm.privacy.protection import Certificate
def takes_number(epsilon: float) -> None: ...
def takes_certificate(certificate: Certificate) -> None: ...
def check(eps: ClaimedEpsilon, noise: ClaimedNoise, bound: ClaimedSensitivity) -> None:
    takes_number(eps)
    takes_number(noise)
    takes_certificate(bound)
    takes_number(eps.value)
"""
    monkeypatch.setenv(
        "MYPYPATH", os.pathsep.join(str(Path(each.__file__).parents[1]) for each in (dpadmm, dpadmm_research))
    )
    file = tmp_path / "misuse.py"
    file.write_text(source)
    options = ["--strict", "--config-file", os.devnull, "--cache-dir", str(tmp_path), "--no-error-summary"]
    output, _, status = mypy_api.run([*options, str(file)])
    lines = [int(line.split(":")[1]) for line in output.splitlines() if "error" in line]
    # Lines 7, 8 and 9 misuse a claim; line 10 asks for the value by name.
    assert lines == [7, 8, 9], output
    assert output.count("[arg-type]") == 3
    assert status == 1


def test_no_claimed_type_is_related_to_a_certified_one() -> None:
    for kind in (ClaimedEpsilon, ClaimedSensitivity, ClaimedNoise):
        assert not issubclass(kind, Certificate)
        assert not issubclass(kind, float)
        assert not hasattr(kind, "__float__")


def test_a_claim_cannot_be_edited() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        claimed().value = 0.1  # type: ignore[misc]


def test_label_names_paper_theorem_provenance_and_broken_conditions() -> None:
    plain = claimed()
    assert plain.label == "[claimed: R-ADMM, Theorem IV.1]"
    broken = claimed(0.5, Condition("a", True), Condition("b", False))
    assert not broken.conditions_hold
    assert broken.failed_conditions == (Condition("b", False),)
    assert "printed conditions" in str(broken)
    assert "reconstructed" in str(dataclasses.replace(plain, provenance=Provenance.RECONSTRUCTED))


def test_every_noise_calibrated_by_a_claim_carries_its_label() -> None:
    agent = r_admm.PerturbedObjective(records=1000, degree=2, eta=1.0, ridge=0.1)
    bound = consensus.lemma_3_sensitivity(
        agents=100, rho=5.0, strong_convexity=1.0, smoothness=2.0, gradient_distance=1.0
    )
    central = fixed_point.CentralisedTheorem2(iterations=3, records=10, lipschitz=1.0, gamma=1.0)
    noises = [
        p_admm.theorem_3_noise(epsilon=1.0, delta=1e-4, decay=0.9, rounds=5, gradient_bound=1.0, eta=1.0, degree=2),
        r_admm.theorem_iv_1_noise(agent, epsilon=1.0, noisy_iterations=5),
        dvp.total_epsilon_noise(agent, epsilon=1.0, iterations=5),
        m_admm.total_epsilon_noise([agent] * 5, epsilon=1.0),
        consensus.theorem_1_noise(bound, epsilon=1.0, rounds=5),
        consensus.theorem_3_schedule(bound, epsilon=1.0, rounds=5, beta=0.3),
        ps_admm.Theorem2(rounds=5, inner_steps=5, records=100, lipschitz=1.0).noise(epsilon=1e-3, delta=1e-3),
        central.noise(order=2.0, rdp=0.1),
        central.noise_for_epsilon(epsilon=1.0, delta=1e-5),
    ]
    for noise in noises:
        assert "claimed" in str(noise)
        assert noise.paper.value in str(noise)
        assert noise.target.label
        assert isinstance(noise.kind, NoiseKind)
        assert not isinstance(noise, float)


def test_largest_keeps_every_agents_conditions() -> None:
    found = largest([claimed(0.2, Condition("a", False)), claimed(0.7, Condition("a", True))])
    assert found.value == 0.7
    assert found.conditions == (Condition("a", False),)


def test_merged_conditions_hold_only_where_all_do() -> None:
    texts = [Condition("a", True), Condition("b", True), Condition("a", False)]
    assert merged(texts) == (Condition("a", False), Condition("b", True))


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.floats(1e-4, 100.0), st.floats(1e-12, 0.5))
def test_conversion_and_its_inverse(epsilon: float, delta: float) -> None:
    slope = linear_renyi_of_epsilon(epsilon, delta)
    assert epsilon_of_linear_renyi(slope, delta) == pytest.approx(epsilon, rel=1e-9)
    # The conversion is the minimum over orders of slope * order + ln(1/delta)/(order - 1).
    orders = 1 + np.logspace(-6, 8, 4001)
    curve = slope * orders + math.log(1 / delta) / (orders - 1)
    assert curve.min() == pytest.approx(epsilon, rel=1e-4)
    assert curve.min() >= epsilon * (1 - 1e-9)
