"""Plain NumPy models of the local problems, written apart from the library: many tries at once, exact to rounding.

A try has records `v = y a` (shape (n, d)), and the local function `(w/n) sum log(1 + exp(-v'x)) + (w mu/2)||x||^2`.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import expit


def gradient(v: np.ndarray, x: np.ndarray, weight, mu) -> np.ndarray:
    """Gradient of the weighted local function; v (T, n, d), x (T, d), weight and mu scalars or (T, 1)."""
    push = expit(-np.einsum("tnd,td->tn", v, x))
    return -weight / v.shape[1] * np.einsum("tn,tnd->td", push, v) + weight * mu * x


def hessian(v: np.ndarray, x: np.ndarray, weight, mu) -> np.ndarray:
    """Hessian of the weighted local function, (T, d, d)."""
    push = expit(-np.einsum("tnd,td->tn", v, x))
    curve = np.einsum("tn,tnd,tne->tde", push * (1 - push), v, v)
    weight, mu = (np.broadcast_to(np.asarray(a, float), (len(x), 1))[..., None] for a in (weight, mu))
    return weight / v.shape[1] * curve + weight * mu * np.eye(x.shape[1])


def solve(v: np.ndarray, public: np.ndarray, curvature, weight, mu) -> np.ndarray:
    """Minimise `w f(x) + (curvature/2)||x||^2 - public'x` by damped Newton until the gradient is rounding."""
    curvature = np.broadcast_to(np.asarray(curvature, float), (len(public), 1))
    x = public / (curvature + weight * mu)
    residual = gradient(v, x, weight, mu) + curvature * x - public
    scale = np.linalg.norm(public, axis=1) + np.max(np.linalg.norm(v, axis=2)) * np.max(weight) + 1e-300
    for _ in range(200):
        size = np.linalg.norm(residual, axis=1)
        active = size > 4e-15 * scale
        if not active.any():
            break
        direction = np.linalg.solve(
            hessian(v, x, weight, mu) + curvature[..., None] * np.eye(x.shape[1]), residual[..., None]
        )
        step = np.ones((len(x), 1))
        for _ in range(30):
            trial = x - step * direction[..., 0]
            new = gradient(v, trial, weight, mu) + curvature * trial - public
            # Sufficient decrease: merely "not larger" would admit two-point cycles.
            worse = active & (np.linalg.norm(new, axis=1) > (1 - 0.25 * step[:, 0]) * size)
            if not worse.any():
                break
            step[worse] /= 2
        x, residual = np.where(active[:, None], trial, x), np.where(active[:, None], new, residual)
    assert np.all(np.linalg.norm(residual, axis=1) <= 1e-11 * scale), "unconverged solves would fake violations"
    return x


def ball(rng: np.random.Generator, shape: tuple[int, ...], radius: float = 1.0) -> np.ndarray:
    """Points of norm at most `radius`, most of them on the sphere, where the worst cases are."""
    x = rng.standard_normal(shape)
    x *= radius / np.linalg.norm(x, axis=-1, keepdims=True)
    return x * np.where(rng.random((*shape[:-1], 1)) < 0.2, rng.random((*shape[:-1], 1)), 1.0)


def climb(
    score: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    rng: np.random.Generator,
    rounds: int = 60,
) -> np.ndarray:
    """Greedy search: each row of `start` keeps the best of its random perturbations; return the scores."""
    best, value = start.copy(), score(start)
    for k in range(rounds):
        trial = best + rng.standard_normal(best.shape) * 2.0 ** rng.uniform(-8, 1, (len(best), 1)) * (1 + (k % 3))
        new = score(trial)
        better = new > value
        best[better], value[better] = trial[better], new[better]
    return value
