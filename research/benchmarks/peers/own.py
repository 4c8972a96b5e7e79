"""Methods that a user would find in papers rather than in a package, with noise that is certified for replace-one.

Rows e have norm at most 1, a constant feature included; labels s are -1 or +1; the loss is logistic, so that a record's
gradient has norm at most 1 and its curvature is at most 1/4. `m` is the one number to which Gaussian noise composes:
a release of sensitivity D with noise D/m_1, T times, costs `m^2 = T m_1^2` exactly.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import expit
from scipy.stats import norm

from dpadmm.privacy.curves import m_of

CURVATURE = 0.25
"""Most curvature of the logistic loss of a row of norm 1."""


def gradient_noise(epsilon: float, delta: float, rounds: int, records: int, clip: float = 1.0) -> float:
    """Return the deviation per coordinate for `rounds` mean gradients of records, one of which may be replaced."""
    return 2.0 * clip / records * math.sqrt(rounds) / m_of(epsilon, delta)


def descend(
    rows: np.ndarray,
    signs: np.ndarray,
    *,
    rounds: int,
    step: float,
    clip: float,
    noise_std: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return DP-GD: full gradients of clipped records with noise, the mean of the last half of the models."""
    lengths = np.linalg.norm(rows, axis=1)
    model, total, kept = np.zeros(rows.shape[1]), np.zeros(rows.shape[1]), 0
    for k in range(rounds):
        slopes = -signs * expit(-signs * (rows @ model.astype(rows.dtype)))
        slopes = slopes * clipped(slopes, lengths, clip)
        gradient = slopes @ rows / len(rows) + noise_std * rng.standard_normal(len(model))
        model = model - step * gradient
        if 2 * k >= rounds - 1:
            total, kept = total + model, kept + 1
    return total / kept


def clipped(slopes: np.ndarray, lengths: np.ndarray, clip: float) -> np.ndarray:
    """Return the factors that bring every record's gradient, of norm |slope| length, to norm `clip` at most."""
    return np.minimum(1.0, clip / np.maximum(np.abs(slopes) * lengths, 1e-30))


@dataclass(frozen=True)
class ObjectiveNoise:
    """Objective perturbation: the ridge that is added, and the deviation of the linear term's noise."""

    ridge: float
    noise_std: float


def objective_noise(epsilon: float, delta: float, share: float, gradient: float = 1.0) -> ObjectiveNoise:
    """Return ridge and noise after Kifer, Smith and Thakurta (2012), for replace-one.

    For the sum of the losses. Replacing a record changes the log-determinant of the Jacobian by at most
    `log(1 + c/ridge)`, which is to be `share` of epsilon; the rest is for the Gaussian density. There the difference of
    two records' gradients, `a x - b z` with |a|, |b| <= G, depends on the noise itself through a and b alone, so that
    with probability 1 - delta both `|<noise, x>|` and `|<noise, z>|` are below t = quantile(1 - delta/4) and the
    density's logarithm changes by at most `2 G t/std + 2 G^2/std^2`. (The paper counts one record more or less: G for
    2 G, and delta/2 for delta/4.)
    """
    ridge = CURVATURE / math.expm1(share * epsilon)
    return ObjectiveNoise(ridge, _smallest_noise((1 - share) * epsilon, 2 * gradient, float(norm.isf(delta / 4))))


def _smallest_noise(epsilon: float, change: float, quantile: float) -> float:
    """Return the least deviation s with `change quantile/s + change^2/(2 s^2) <= epsilon`."""
    return change / (math.sqrt(quantile**2 + 2 * epsilon) - quantile)


def perturbed_objective(
    rows: np.ndarray, signs: np.ndarray, noise: ObjectiveNoise, rng: np.random.Generator
) -> np.ndarray:
    """Return the minimiser of the sum of the losses, the ridge and the noise's linear term."""
    rows = rows.astype(np.float64)  # the guarantee is for the minimiser, which single precision does not find
    linear = noise.noise_std * rng.standard_normal(rows.shape[1])

    def value(model: np.ndarray) -> tuple[float, np.ndarray]:
        margins = signs * (rows @ model)
        slopes = -signs * expit(-margins)
        loss = float(np.logaddexp(0.0, -margins).sum() + noise.ridge / 2 * model @ model + linear @ model)
        return loss / len(rows), (slopes @ rows + noise.ridge * model + linear) / len(rows)

    found = minimize(
        value, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 1000, "gtol": 1e-9}
    )
    return found.x


@cache
def laplace_round(epsilon: float, delta: float, rounds: int) -> float:
    """Return the pure epsilon of each round such that all together keep (epsilon, delta), by optimal composition."""
    from dp_accounting.pld import common  # late: the others do without
    from dp_accounting.pld.privacy_loss_distribution import from_privacy_parameters

    def spent(each: float) -> float:
        if rounds == 1:
            return each
        one = from_privacy_parameters(
            common.DifferentialPrivacyParameters(each, 0.0), value_discretization_interval=each / 20
        )
        return float(one.self_compose(rounds).get_epsilon_for_delta(delta))

    plain = epsilon / rounds
    if rounds == 1 or spent(plain) >= epsilon * (1 - 1e-9):
        return plain
    high = plain
    while spent(high) < epsilon:
        high *= 1.5
    found = float(brentq(lambda each: spent(each) - epsilon, high / 1.5, high, rtol=1e-4))
    return max(plain, found * (1 - 1e-3))


@dataclass(frozen=True)
class AdmmNoise:
    """Noise of the inexact ADMM, times the number of a silo's records and the penalty."""

    is_laplace: bool
    scale: float


def admm_noise(epsilon: float, delta: float, rounds: int, clip: float, is_laplace: bool) -> AdmmNoise:
    """Return the noise for mean gradients of records clipped to `clip`: in l1 for Laplace noise, else in l2."""
    if is_laplace:
        return AdmmNoise(True, 2 * clip / laplace_round(epsilon, delta, rounds))
    return AdmmNoise(False, 2 * clip * math.sqrt(rounds) / m_of(epsilon, delta))


def inexact_admm(
    silos: list[tuple[np.ndarray, np.ndarray]],
    *,
    rounds: int,
    penalty: float,
    clip: float,
    noise: AdmmNoise,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return the inexact ADMM of APPFL's authors (IIADMM): one linearised step a round, noise on what a silo sends.

    z_i <- w + (y_i - g_i(w))/penalty + noise        each silo, g_i the mean of its records' clipped gradients
    y_i <- y_i + penalty (w - z_i)                   silo and server alike, from the noisy z_i
    w   <- mean of z_i - y_i/penalty

    The package clips a silo's mean gradient, whose noise then hides the whole silo however many records it has; here
    each record is clipped, so that the noise falls with their number, as it does for everybody else in the table.
    """
    order = 1 if noise.is_laplace else 2
    lengths = [np.linalg.norm(rows, ord=order, axis=1) for rows, _ in silos]
    width = silos[0][0].shape[1]
    model, duals = np.zeros(width), [np.zeros(width) for _ in silos]
    for _ in range(rounds):
        sent = []
        for place, (rows, signs) in enumerate(silos):
            slopes = -signs * expit(-signs * (rows @ model.astype(rows.dtype)))
            slopes = slopes * clipped(slopes, lengths[place], clip)
            gradient = slopes @ rows / len(rows)
            drawn = rng.laplace(size=width) if noise.is_laplace else rng.standard_normal(width)
            own = model + (duals[place] - gradient + noise.scale / len(rows) * drawn) / penalty
            duals[place] = duals[place] + penalty * (model - own)
            sent.append(own - duals[place] / penalty)
        model = np.mean(sent, axis=0)
    return model
