"""Reading records off the broadcasts of decentralised ADMM.

The minimiser that agent i broadcasts satisfies its optimality condition, in which all but the gradient is public:

    grad (w_i f_i)(x_i) = -( a_i + 2 eta deg_i x_i - eta sum_j (x_i_prev + x_j_prev) ),    a_i from earlier broadcasts.

With a logistic loss and `b = y a` the gradient of the loss part is `-(1/n) sum_m sigma(-b_m'x) b_m`. Whoever knows
all records but one is left with `sigma(-b'x) b`; whoever knows none has, over K rounds, a K x d matrix of rank n whose
rows lie in the span of the records, and finds them there by least squares with n^2 unknowns. With noise v on the
broadcasts the same equations hold up to `(2 eta deg_i + Hessian) v`, and the attacker makes the best of them.

Only `b = y a` shows: a feature that is never negative, or constant, tells the label from the sign.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares, linear_sum_assignment
from scipy.special import expit

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.methods.decentralised import DecentralisedADMM
from dpadmm.networks.graph import Network
from dpadmm.problems.arrays import Floats

# A fit this close (half the squared residual, relative to the gradients') has found the records.
_FOUND = 1e-15
_MOST_STEPS = 600


@dataclass(frozen=True)
class Gossip:
    """What an eavesdropper knows of one agent: where its gradient was evaluated, and the gradient of its mean loss.

    points, gradients: (K, d). stiffness: curvature of everything but the loss in the agent's objective, per unit of its
    weight. noise_std: of one coordinate of a point, 0 without noise.
    """

    points: Floats
    gradients: Floats
    stiffness: float
    noise_std: float = 0.0


def listen(
    broadcasts: Floats,
    method: DecentralisedADMM,
    network: Network,
    agent: int,
    weight: float,
    ridge: float,
    noise_std: float = 0.0,
) -> Gossip:
    """Turn the broadcasts of all agents into the gradients of one.

    Parameters
    ----------
    broadcasts: (K, N, d), from the first round on. method: its eta is public. agent: whom to listen to.
    weight: w_i > 0. ridge: curvature of the data-free terms in the agent's objective, >= 0: w_i mu, and the agent's
        share of a ridge regulariser. noise_std: of the noise on the agent's broadcasts, >= 0.
    """
    tape = np.asarray(broadcasts, dtype=np.float64)
    if tape.ndim != 3 or tape.shape[1] != network.n_agents or len(tape) == 0:
        raise InputError(
            f"broadcasts must be (rounds, {network.n_agents} agents, d), got shape {tape.shape}; take one replica.",
            setting="broadcasts",
        )
    checks.positive("weight", weight)
    checks.non_negative("ridge", ridge)
    checks.non_negative("noise_std", noise_std)
    eta, degree = method.eta, float(network.degrees[agent])
    before, a, found = np.zeros(tape.shape[2]), np.zeros(tape.shape[2]), []
    heard = np.zeros_like(before)
    for sent in tape:
        own = sent[agent]
        gradient = -(a + 2 * eta * degree * own - eta * (degree * before + heard))
        found.append((gradient - ridge * own) / weight)
        heard = network.neighbour_sum(sent[:, :, None])[agent, :, 0]
        a = a + eta * (degree * own - heard)
        before = own
    return Gossip(tape[:, agent], np.array(found), (2 * eta * degree + ridge) / weight, noise_std)


def reconstruct_record(gossip: Gossip, known: Floats, prior_std: float | None = None) -> Floats:
    """Return the one unknown record `y a` (d,) of a silo whose other records (n-1, d), labels folded in, are known.

    Least squares on `sigma(-b'x_k) b` over the rounds. With noise, the most probable record to first order when its
    coordinates are N(0, prior_std^2) beforehand (default: norm 1 spread evenly, 1/sqrt(d)): an equation is weighted by
    the inverse of what turns the noise into its error.
    """
    points, d = gossip.points, gossip.points.shape[1]
    rows = np.asarray(known, dtype=np.float64).reshape(-1, d)
    n = len(rows) + 1
    slopes = expit(-(points @ rows.T))
    left = -n * gossip.gradients - slopes @ rows
    std = checks.positive("prior_std", 1 / math.sqrt(d) if prior_std is None else prior_std)
    weights, pull = np.broadcast_to(np.eye(d), (len(points), d, d)), 0.0
    if gossip.noise_std > 0:
        hessians = np.einsum("km,mi,mj->kij", slopes * (1 - slopes), rows, rows) / n
        weights = np.linalg.inv(n * gossip.noise_std * (gossip.stiffness * np.eye(d) + hessians))
        pull = 1 / std

    def residual(b: Floats) -> Floats:
        missed = expit(-(points @ b))[:, None] * b - left
        return np.concatenate([np.einsum("kij,kj->ki", weights, missed).ravel(), pull * b])

    def jacobian(b: Floats) -> Floats:
        s = expit(-(points @ b))
        moved = s[:, None, None] * np.eye(d) - (s * (1 - s))[:, None, None] * b[:, None] * points[:, None, :]
        return np.concatenate([(weights @ moved).reshape(-1, d), pull * np.eye(d)])

    # sigma lies between 0 and 1; near the start of a run it is about 1/2. Several lengths, because s sigma(-s c)
    # takes a value at two lengths s.
    start = left.mean(axis=0)
    fits = [_fit(residual, jacobian, factor * start) for factor in (1.0, 2.0, 4.0, 8.0)]
    return np.asarray(min(fits, key=lambda fit: fit[1])[0])


def reconstruct_silo(
    gossip: Gossip, n_records: int, rng: np.random.Generator, row_norm: float = 1.0, starts: int = 60
) -> Floats:
    """Return all records `y a` (n, d) of a small silo, in no particular order, none of them known beforehand.

    The records span the row space of the gradients, so only their n^2 coordinates in it are sought, from up to
    `starts` random starts inside the ball of radius `row_norm`. Needs at least n rounds and n <= d; six or more similar
    records take too many starts to be practical. Without noise a fit is exact or visibly not: `InputError` if none is.
    """
    rounds, d = gossip.points.shape
    n = checks.count("n_records", n_records)
    if n > min(rounds, d):
        raise InputError(
            f"n_records must be at most the rounds ({rounds}) and the dimension ({d}), got {n}.", setting="n_records"
        )
    checks.positive("row_norm", row_norm)
    axes = np.linalg.svd(gossip.gradients, full_matrices=False)[2][:n].T
    seen, points = gossip.gradients @ axes, gossip.points @ axes
    scale = np.maximum(np.linalg.norm(seen, axis=0), 1e-300)

    def residual(flat: Floats) -> Floats:
        b = flat.reshape(n, n) * scale
        return ((expit(-(points @ b.T)) @ b / n + seen) / scale).ravel()

    def jacobian(flat: Floats) -> Floats:
        b = flat.reshape(n, n) * scale
        s = expit(-(points @ b.T))
        slope = (s * (1 - s) / n)[:, None, :, None] * (b.T / scale[:, None])[None, :, :, None]
        moved = -slope * (points * scale)[:, None, None, :]
        diagonal = np.arange(n)
        moved[:, diagonal, :, diagonal] += s / n
        return moved.reshape(rounds * n, n * n)

    best, cost = np.zeros(n * n), math.inf
    for _ in range(checks.count("starts", starts)):
        start = rng.standard_normal((n, n)) * math.exp(rng.uniform(0, 4))
        start[:, 0] = rng.choice((-1.0, 1.0), n) * rng.uniform(0.2, 1.0, n) * row_norm / scale[0]
        point, value = _fit(residual, jacobian, start.ravel())
        best, cost = (point, value) if value < cost else (best, cost)
        if cost < _FOUND:
            break
    if cost >= _FOUND and gossip.noise_std == 0:
        raise InputError(
            f"No fit of {n} records explains the gradients (cost {cost:.1e}); give more rounds or starts.",
            setting="starts",
        )
    return np.asarray((best.reshape(n, n) * scale) @ axes.T)


def relative_error(found: Floats, truth: Floats) -> float:
    """Return the largest `||b - b_true|| / ||b_true||` over the records, matched so that the sum is least."""
    one, other = np.atleast_2d(found), np.atleast_2d(truth)
    apart = np.linalg.norm(one[:, None] - other[None], axis=2)
    i, j = linear_sum_assignment(apart)
    return float(np.max(apart[i, j] / np.linalg.norm(other[j], axis=1)))


def _fit(residual: object, jacobian: object, start: Floats) -> tuple[Floats, float]:
    fit = least_squares(
        residual, start, jac=jacobian, method="lm", xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=_MOST_STEPS
    )
    return fit.x, float(fit.cost)
