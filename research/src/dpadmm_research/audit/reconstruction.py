"""Reading an agent's function off the broadcasts of consensus ADMM (Consensus DP-ADMM paper, Section II-A).

The adversary hears every z and knows all functions but agent j's. It replays the others' steps and is left with

    phi_j(k) = N mean(k) - sum_{i != j} phi_i(k),          phi_i = x_i + a_i/rho,
    2 a_j(k) = a_j(k-1) + rho (phi_j(k) - z(k-1)),         x_j(k) = phi_j(k) - a_j(k)/rho,
    grad (w_j f_j)(x_j(k)) = -a_j(k),

the gradient of the secret function at one more point in every round. A quadratic is known after d+1 rounds. With
noise v(k) on the broadcasts `phi_j(k)` is off by `N v(k)`; the attacker then seeks the most probable quadratic, given
what it supposed beforehand.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.methods.base import Agents, Silence
from dpadmm.methods.consensus import ConsensusADMM
from dpadmm.methods.decentralised import is_ridge
from dpadmm.problems.arrays import Floats


@dataclass(frozen=True)
class QuadraticFunction:
    """`f(x) = x'B x/2 + c'x`: `curvature` B (d, d), `slope` c (d,)."""

    curvature: Floats
    slope: Floats


@dataclass(frozen=True)
class Supposition:
    """What the attacker takes for granted before it listens: independent normal entries around a centre.

    curvature_std, slope_std: standard deviations of each entry of B and c, > 0.
    """

    centre: QuadraticFunction
    curvature_std: float
    slope_std: float

    def __post_init__(self) -> None:
        """Refuse spreads that are none."""
        checks.positive("curvature_std", self.curvature_std)
        checks.positive("slope_std", self.slope_std)


@dataclass(frozen=True)
class Trail:
    """What the broadcasts say about agent j: phi_j(k) in rounds 1..K, and the z it reacted to; (K, d) each.

    message_std: the noise on one coordinate of a phi_j, 0 without noise. rho, weight: public numbers of the method.
    """

    messages: Floats
    centres: Floats
    rho: float
    weight: float
    message_std: float = 0.0

    def gradients(self) -> tuple[Floats, Floats]:
        """Return the points x_j(k) and the gradients of f_j there, (K, d) each."""
        a, duals = np.zeros(self.messages.shape[1]), []
        for phi, z in zip(self.messages, self.centres, strict=True):
            a = (a + self.rho * (phi - z)) / 2
            duals.append(a)
        stack = np.array(duals)
        return self.messages - stack / self.rho, -stack / self.weight


def follow(method: ConsensusADMM, others: Agents, broadcasts: Floats, weight: float, noise_std: float = 0.0) -> Trail:
    """Return the trail of the one agent that is not among `others`.

    Parameters
    ----------
    method: its rho is public. others: all agents but one (`Agents.of(...).take(...)`), with their functions.
    broadcasts: (K+1, d): the first z, which is free of data, and those of rounds 1..K.
    weight: w_j > 0 of the secret function. noise_std: of one coordinate of the noise on a broadcast, >= 0.

    The regulariser must be none or a ridge: then the mean can be told from its prox (l1 sets entries to zero, and what
    they were stays hidden).
    """
    tape = np.asarray(broadcasts, dtype=np.float64)
    if tape.ndim != 2 or len(tape) < 2 or tape.shape[1] != others.dimension:
        raise InputError(
            f"broadcasts must be (rounds + 1, {others.dimension}), the first z included, got shape {tape.shape}.",
            setting="broadcasts",
        )
    if len(others.index) != others.number - 1:
        raise InputError(
            f"others must be {others.number - 1} agents, all but one, got {len(others.index)}.", setting="others"
        )
    if not is_ridge(others.regulariser, others.dimension):
        raise InputError(f"{others.regulariser} hides the mean; use a ridge or no regulariser.", setting="regulariser")
    checks.positive("weight", weight)
    checks.non_negative("noise_std", noise_std)
    n, unprox = others.number, 1 + others.regulariser.strong_convexity / (method.rho * others.number)
    state, _ = method.start(others, replicas=1)
    messages = []
    for k in range(1, len(tape)):
        state, sent = method.local_step(k, others, state, tape[k - 1][None, :, None], Silence())
        messages.append(n * (unprox * tape[k] - sent[:, :, 0].sum(axis=0)))  # phi_i/n is what is sent
    return Trail(np.array(messages), tape[:-1], method.rho, weight, n * unprox * noise_std)


def reconstruct_quadratic(trail: Trail) -> QuadraticFunction:
    """Return the quadratic whose gradients fit the trail best; exact without noise from d+1 rounds on.

    Linear least squares on `B x_k + c = g_k` over symmetric B.
    """
    points, gradients = trail.gradients()
    rounds, d = points.shape
    if rounds <= d:
        raise InputError(f"A quadratic in dimension {d} takes at least {d + 1} rounds, got {rounds}.", setting="rounds")
    upper = np.triu_indices(d)
    design = np.zeros((rounds, d, len(upper[0]) + d))
    for column, (i, j) in enumerate(zip(*upper, strict=True)):
        design[:, i, column] = points[:, j]
        design[:, j, column] = points[:, i]
    design[:, np.arange(d), len(upper[0]) + np.arange(d)] = 1.0
    # Columns of equal length: points shrink together as the method converges.
    flat = design.reshape(rounds * d, -1)
    lengths = np.linalg.norm(flat, axis=0)
    solution = np.linalg.lstsq(flat / lengths, gradients.ravel(), rcond=None)[0] / lengths
    return _unpack(solution, d)


def most_probable_quadratic(trail: Trail, supposed: Supposition) -> QuadraticFunction:
    """Return the most probable quadratic, given a noisy trail and what was supposed before.

    Minimises `sum_k ||phi_j(k) - phi(k; B, c)||^2/message_std^2` plus the squared distance from the supposition in its
    own units, where phi(k; B, c) are the messages that an agent with this function would have sent: the best such
    attack there is if noise and supposition are normal.
    """
    d = trail.messages.shape[1]
    if trail.message_std <= 0:
        raise InputError("A trail without noise needs no assumption; use reconstruct_quadratic.", setting="noise_std")
    centre = _pack(supposed.centre)
    spread = np.where(np.arange(len(centre)) < d * (d + 1) // 2, supposed.curvature_std, supposed.slope_std)

    def residual(u: Floats) -> Floats:
        guess = _unpack(centre + spread * u, d)
        return np.concatenate([((_messages(trail, guess) - trail.messages) / trail.message_std).ravel(), u])

    fit = least_squares(residual, np.zeros(len(centre)), method="lm", xtol=1e-10, ftol=1e-10, gtol=1e-10)
    return _unpack(centre + spread * fit.x, d)


def _messages(trail: Trail, guess: QuadraticFunction) -> Floats:
    """The messages an agent with this function sends when it hears the trail's broadcasts."""
    d, rho, w = len(guess.slope), trail.rho, trail.weight
    inverse = np.linalg.pinv(w * guess.curvature + rho * np.eye(d))
    a, sent = np.zeros(d), []
    for z in trail.centres:
        x = inverse @ (rho * z - a - w * guess.slope)
        a = a + rho * (x - z)
        sent.append(x + a / rho)
    return np.array(sent)


def _pack(quadratic: QuadraticFunction) -> Floats:
    return np.concatenate([quadratic.curvature[np.triu_indices(len(quadratic.slope))], quadratic.slope])


def _unpack(flat: Floats, d: int) -> QuadraticFunction:
    upper, matrix = np.triu_indices(d), np.zeros((d, d))
    matrix[upper] = flat[: len(upper[0])]
    matrix = matrix + np.triu(matrix, 1).T
    return QuadraticFunction(matrix, flat[len(upper[0]) :])
