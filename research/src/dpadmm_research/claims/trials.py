"""Claims on trial: what attackers demonstrably get from methods whose papers promise less.

Each trial runs the method *as its paper prints it*, with the paper's own noise, on data that meet the paper's
conditions, and compares a lower bound that holds at a stated confidence with the printed figure. The fixed-point paper
states Renyi divergences, so its claims are tried in Renyi terms (`audit.renyi`); PS-ADMM's Theorem 2 states
(epsilon, delta). A trial can refute a claim, never prove it.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from dpadmm import checks
from dpadmm.methods.base import OneNoise
from dpadmm.methods.batches import Batches
from dpadmm.methods.fixed_point import CentralisedADMM, FederatedADMM, Participation
from dpadmm.methods.ps_admm import PSADMM, Averaging
from dpadmm.noise.mechanisms import MessageKind
from dpadmm.privacy.curves import epsilon_of_delta
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.problems.losses import Huber
from dpadmm.problems.problem import EmpiricalRisk, Problem, Weighting
from dpadmm.problems.silos import Silos
from dpadmm_research.audit.estimates import gdp_bound
from dpadmm_research.audit.neighbours import FAR, saturated
from dpadmm_research.audit.renyi import renyi_bound
from dpadmm_research.audit.token import arrivals
from dpadmm_research.audit.transcripts import RunSetup, record
from dpadmm_research.papers.fixed_point import claims
from dpadmm_research.papers.ps_admm import claims as ps_admm

CONFIDENCE = 0.95
_BATCH = 4_000  # runs at a time: memory stays within a few hundred megabytes


class ClaimedQuantity(Enum):
    """What a claim is a bound of."""

    RENYI = "Renyi divergence"
    EPSILON = "epsilon"


class TrialVerdict(Enum):
    """How a trial ended."""

    REFUTED = "refuted"
    NOT_REFUTED = "not refuted"


@dataclass(frozen=True)
class ClaimTrial:
    """One claim, one setting: the printed figure, what is known exactly, and what an attacker showed.

    at: the order of the divergence, or delta. exact: the true figure where it is known in closed form. audited: a lower
    bound, wrong with probability at most `1 - confidence`. has_conditions: whether the printed conditions are met.
    """

    claim: str
    setting: str
    figure: ClaimedQuantity
    at: float
    claimed: float
    audited: float
    exact: float | None
    has_conditions: bool
    confidence: float
    runs: int

    @property
    def verdict(self) -> TrialVerdict:
        """Refuted if the lower bound passes the printed figure while the printed conditions hold."""
        return TrialVerdict.REFUTED if self.has_conditions and self.audited > self.claimed else TrialVerdict.NOT_REFUTED


class FixedNoise(OneNoise):
    """The papers' noise: N(0, std^2) on every coordinate, seeded, so that both worlds can be given the same."""

    def __init__(self, std: float, seed: int) -> None:
        self.std = checks.positive("noise_std", std)
        self._rng = np.random.default_rng(seed)

    def perturb(self, kind: MessageKind, k: int, agents: Ints, values: Floats) -> Floats:
        """Return the values with fresh noise."""
        return values + self.std * self._rng.standard_normal(values.shape)


def centralised(runs: int = 20_000, confidence: float = CONFIDENCE, users: int = 100, seed: int = 0) -> ClaimTrial:
    """Theorems 2 and 8 with Algorithm 2's own gamma: the final model after one update of every block."""
    sigma, order = 4.0, 2.0
    method = CentralisedADMM(gamma=1.0)
    scores = _paired(lambda world, noise, r: _final(method, world, noise, r), users, sigma, runs, seed)
    m = 4 / (sigma * math.sqrt(users))
    claim = claims.CentralisedTheorem2(iterations=1, records=users, lipschitz=1.0, gamma=1.0)
    return _renyi_trial(
        "Fixed-point, Theorem 2", f"n = {users}, K = 1, sigma = 4", claim, order, sigma,
        _gaussian(users * scores, m, users), order * m * m / 2, confidence,
    )  # fmt: skip


def secure_aggregation(
    runs: int = 20_000, confidence: float = CONFIDENCE, users: int = 100, seed: int = 1
) -> ClaimTrial:
    """Remark 4: the server sees the sum of the messages of m users only."""
    sigma, order = 4.0, 2.0
    method = FederatedADMM(gamma=1.0)
    scores = _paired(lambda world, noise, r: _sum_of_messages(method, world, noise, r), users, sigma, runs, seed)
    m = 4 / (sigma * math.sqrt(users))
    claim = claims.SecureAggregationRemark4(participations=1, sampled=users, lipschitz=1.0, gamma=1.0)
    return _renyi_trial(
        "Fixed-point, Remark 4", f"m = {users}, K_i = 1, sigma = 4", claim, order, sigma, _gaussian(scores, m, users),
        order * m * m / 2, confidence,
    )  # fmt: skip


def federated(
    runs: int = 60_000, confidence: float = CONFIDENCE, users: int = 31, sampled: int = 6, seed: int = 2
) -> ClaimTrial:
    """Theorem 3 (central) and 10: the model after one round with m of n users drawn in secret.

    All users but user 0 are alike, so that only whether user 0 was drawn matters for what is published.
    """
    sigma, order, rate = 4.0, 2.0, sampled / users
    drawn = np.random.default_rng(seed).binomial(1, rate, runs).astype(bool)
    tables = {True: np.arange(sampled), False: np.arange(1, sampled + 1)}
    scores = np.zeros((2, runs))
    for is_in, table in tables.items():
        method = FederatedADMM(1.0, participation=Participation(users, table[None]))
        part = _paired(
            lambda world, noise, r, method=method: _final(method, world, noise, r),  # type: ignore[misc]
            users, sigma, int(np.count_nonzero(drawn == is_in)), seed + 10 + is_in,
        )  # fmt: skip
        scores[:, drawn == is_in] = part
    # In units of the noise of the sum: user 0 shifts it by `shift` in one world, if drawn.
    shift = 4 / (sigma * math.sqrt(sampled))
    unit = scores * users / (0.5 * sigma * math.sqrt(sampled))
    rest = -2.0 / (sigma * math.sqrt(sampled)) * sampled  # where the sum is if everybody pulls the same way
    ratio = np.log1p(rate * np.expm1(shift * (unit - rest) - shift**2 / 2))
    claim = claims.FederatedTheorem10(rounds=1, users=users, sampled=sampled, lipschitz=1.0, gamma=1.0)
    exact = math.log1p(rate**2 * math.expm1(shift**2))
    return _renyi_trial(
        "Fixed-point, Theorems 3 and 10", f"n = {users}, m = {sampled}, K = 1, sigma = 4", claim, order, sigma, ratio,
        exact, confidence,
    )  # fmt: skip


def network(
    runs: int = 200_000, confidence: float = CONFIDENCE, users: int = 3, has_clock: bool = False, seed: int = 3
) -> ClaimTrial:
    """Theorem 4: a token on the complete graph, as another user sees it at its first visit (`audit.token`).

    User i holds the token first and may contribute once (K_i = 1). has_clock: whether the peer knows how many rounds
    went by; without a clock it sees the value only.
    """
    sigma, order = 4.0, 2.0
    seen = arrivals(users, sigma, runs, np.random.default_rng(seed))
    ratios = seen.log_ratios(has_clock)
    claim = claims.NetworkTheorem4(participations=1, users=users, lipschitz=1.0, gamma=1.0)
    texts = "knows the round" if has_clock else "sees values only"
    # Of two users, one sees all that the other sends.
    exact = order * 8 / sigma**2 if users == 2 else None
    return _renyi_trial(
        "Fixed-point, Theorem 4", f"n = {users}, K_i = 1, sigma = 4, the peer {texts}", claim, order, sigma, ratios,
        exact, confidence,
    )  # fmt: skip


def ps_admm_theorem_2(
    runs: int = 20_000, confidence: float = CONFIDENCE, epsilon: float = 0.5, delta: float = 1e-3, seed: int = 4
) -> ClaimTrial:
    """PS-ADMM's Theorem 2 with c = c1 = 1 and one inner step a round, where sampling plays no part."""
    rounds, records = 8, 4
    claim = ps_admm.Theorem2(rounds=rounds, inner_steps=1, records=records, lipschitz=1.0)
    noise = claim.noise(epsilon=epsilon, delta=delta)
    method = PSADMM(rho=1.0, step=0.1, inner_steps=1, batches=Batches(1, seed=0), averaging=Averaging.PLAIN)
    replicas = checks.count("runs", runs, least=200) // 2
    stage = RunSetup(method, rounds, None, replicas)
    # The attacker reads the noisy gradients off the messages: -G/M a round in P, +G/M in Q.
    scores = [
        -read_gradients(method, record(stage, world, FixedNoise(noise.value, seed)).messages).sum(axis=0)
        for world in saturated(n_agents=1, records=records)
    ]
    found = gdp_bound(scores[0], scores[1], delta, confidence, threshold=0.0, is_paired=True)
    m = math.sqrt(rounds) * (2 / records) / noise.value
    return ClaimTrial(
        "PS-ADMM, Theorem 2 (c = 1)", f"K = {rounds}, S = 1, M = {records}", ClaimedQuantity.EPSILON, delta, epsilon,
        found.epsilon_lower, epsilon_of_delta(m, delta), noise.conditions_hold, confidence, 2 * replicas,
    )  # fmt: skip


def read_gradients(method: PSADMM, messages: tuple[Floats, ...]) -> Floats:
    """Return agent 0's noisy gradients (rounds, R) from its messages `x + a/rho`: one agent, one dimension, S = 1.

    With one agent and no regulariser z is the message itself; x starts at 0, and `x+ = x - step (g + a + rho (x - z))`.
    """
    x, a, z = (np.zeros(messages[0].shape[2]) for _ in range(3))
    found = []
    for message in messages:
        sent = message[0, 0]
        new = sent - a / method.rho
        found.append((x - new) / method.step - a - method.rho * (x - z))
        x, z = new, sent
        a = a + method.rho * (x - z)
    return np.array(found)


def all_trials(confidence: float = CONFIDENCE) -> Iterator[ClaimTrial]:
    """Hold every trial, one by one; a minute or two. Each bound holds with this confidence by itself."""
    yield centralised(confidence=confidence)
    yield secure_aggregation(confidence=confidence)
    yield federated(confidence=confidence)
    # Larger networks with and without a clock, whatever comes out.
    yield network(users=2, confidence=confidence)
    yield network(users=3, confidence=confidence)
    yield network(users=10, confidence=confidence)
    yield network(users=30, confidence=confidence)
    yield network(users=10, has_clock=True, confidence=confidence)
    yield network(users=30, has_clock=True, confidence=confidence)
    yield network(users=100, has_clock=True, confidence=confidence, runs=100_000)
    yield ps_admm_theorem_2(confidence=confidence)


def _renyi_trial(
    claim: str, setting: str, theorem: claims.RenyiTheorem, order: float, sigma: float, ratios: Floats,
    exact: float | None, confidence: float,
) -> ClaimTrial:  # fmt: skip
    printed = theorem.rdp(order=order, noise_std=sigma)
    found = renyi_bound(ratios[0], ratios[1], order, confidence)
    return ClaimTrial(
        claim, setting, ClaimedQuantity.RENYI, order, printed.value, found.divergence_lower, exact,
        printed.conditions_hold, confidence, 2 * ratios.shape[1],
    )  # fmt: skip


def _gaussian(scores: Floats, m: float, users: int) -> Floats:
    """Log ratios of two normals m standard deviations apart, from the sum of the blocks.

    After one update a block is +1 or -1 and noise, so that the sum lies around 2 - n in P and -n in Q. Both are known
    beforehand: a centre read off the scored runs themselves would not be the attacker's to use.
    """
    return (scores - (1 - users)) * (m * m / 2)


def _paired(
    seen: Callable[[Problem, FixedNoise, int], Floats], users: int, sigma: float, runs: int, seed: int
) -> Floats:
    """Return what is seen (2, runs), P in the first row, the same noise in both worlds."""
    parts = []
    for start in range(0, checks.count("runs", runs), _BATCH):
        size = min(_BATCH, runs - start)
        parts.append([seen(world, FixedNoise(sigma, seed + 1000 * start), size) for world in _pullers(users)])
    return np.concatenate(parts, axis=1)


def _pullers(users: int) -> tuple[Problem, Problem]:
    """Users with one saturated Huber record each (losses +-x, L = 1): all pull down but user 0, which pulls up in P."""

    def world(sign: float) -> Problem:
        labels = np.full(users, -FAR)
        labels[0] = sign * FAR
        silos = Silos.one_record_each(np.ones((users, 1)), labels, row_norm=1.0)
        return Problem.of(EmpiricalRisk(silos, Huber(1.0)), Weighting.AVERAGE)

    return world(1.0), world(-1.0)


def _final(method: CentralisedADMM | FederatedADMM, world: Problem, noise: FixedNoise, replicas: int) -> Floats:
    return record(RunSetup(method, 1, None, replicas), world, noise).estimate[0]


def _sum_of_messages(method: FederatedADMM, world: Problem, noise: FixedNoise, replicas: int) -> Floats:
    return record(RunSetup(method, 1, None, replicas), world, noise).messages[0].sum(axis=0)[0]
