"""DP-GD, objective perturbation and the inexact ADMM, written for this benchmark; run in dpadmm's own environment."""

import sys
from pathlib import Path

import numpy as np
from protocol import Job, Probabilities, Rows, serve
from scipy.special import expit

sys.path.insert(0, str(Path(__file__).parents[2]))

from peers import own


def unit_rows(features: np.ndarray, norm: float, constant: float) -> np.ndarray:
    """Return rows of norm at most 1, a constant feature included; those longer than `norm` are shortened."""
    lengths = np.maximum(np.linalg.norm(features, axis=1, keepdims=True) / norm, 1.0)
    part = np.float32(np.sqrt(1 - constant**2) / norm)
    return np.hstack([features * part / lengths, np.full((len(features), 1), constant, dtype=np.float32)])


def fit(job: Job, rows: Rows) -> Probabilities:
    """Fit with the method that the settings name."""
    wanted = job.settings
    norm = rows.norm * wanted.get("norm", 1.0)
    train, everything = (unit_rows(each, norm, wanted["constant"]) for each in (rows.train, rows.everything))
    signs = 2 * rows.labels.astype(np.float32) - 1
    model = METHODS[wanted["method"]](job, train, signs, rows.silo, np.random.default_rng(job.seed))
    return expit(everything.astype(np.float64) @ model)


def dp_gd(job: Job, train: np.ndarray, signs: np.ndarray, silo: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Noisy full gradients of all records."""
    rounds, clip = job.settings["rounds"], job.settings["clip"]
    noise_std = own.gradient_noise(job.epsilon, job.delta, rounds, len(train), clip)
    step = job.settings["step"] / clip  # in units of what a record can move
    return own.descend(train, signs, rounds=rounds, step=step, clip=clip, noise_std=noise_std, rng=rng)


def objective(job: Job, train: np.ndarray, signs: np.ndarray, silo: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One noisy objective of all records."""
    return own.perturbed_objective(
        train, signs, own.objective_noise(job.epsilon, job.delta, job.settings["share"]), rng
    )


def silo_objectives(
    job: Job, train: np.ndarray, signs: np.ndarray, silo: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """One noisy objective in every silo; the models' mean, weighted by records."""
    noise = own.objective_noise(job.epsilon, job.delta, job.settings["share"])
    parts = [silo == name for name in np.unique(silo)]
    models = [own.perturbed_objective(train[part], signs[part], noise, rng) for part in parts]
    return np.average(models, axis=0, weights=[part.sum() for part in parts])


def admm(job: Job, train: np.ndarray, signs: np.ndarray, silo: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The inexact ADMM of APPFL's authors."""
    wanted = job.settings
    noise = own.admm_noise(job.epsilon, job.delta, wanted["rounds"], wanted["clip"], wanted["noise"] == "laplace")
    silos = [(train[silo == name], signs[silo == name]) for name in np.unique(silo)]
    return own.inexact_admm(
        silos, rounds=wanted["rounds"], penalty=wanted["penalty"], clip=wanted["clip"], noise=noise, rng=rng
    )


METHODS = {"dp-gd": dp_gd, "objective": objective, "silo-objectives": silo_objectives, "admm": admm}

if __name__ == "__main__":
    serve(fit)
