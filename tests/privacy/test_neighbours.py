"""Whole fits on neighbouring tables that hear the same releases: no message moves further than its noise is made for.

The row that is replaced is as long as a row may be, in one direction or at a right angle to it, with a label that is as
expected or far off. Constants that are too small anywhere between the settings and the plan show up here.
"""

import warnings
from itertools import combinations

import numpy as np
import pytest

from dpadmm import PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor
from dpadmm.noise.sampler import SimulatedSampler

N, PRICE = 1000, {"epsilon": 8.0, "delta": 1e-6, "random_state": 0, "feature_bounds": (-9.0, 9.0)}


def linear(X, y):
    return PrivateLinearRegression(**PRICE, target_bounds=(-20.0, 20.0), aim="inference").fit(X, 20 * y - 10)


def counts(X, y):
    days, found = 2.5 * 1e9 ** (2 * y - 1), np.where(y == 0.5, 2, 5 * (y == 0))
    return PrivatePoissonRegressor(**PRICE, aim="inference").fit(X, found, exposure=days)


def preconditioned(X, y):
    return PrivateLogisticRegression(**PRICE, method="noisy-gradients-preconditioned", view="public").fit(X, y > 0.4)


class Replayed:
    """The releases of the first fit, for all others; and what each fit would have released, by kind and round."""

    def __init__(self):
        self.first, self.bare, self.bounds = {}, [], {}

    def perturb(self, sampler, values, releases, draw, usual):
        if draw.replicas.size > 1:  # a simulation of the planner
            return usual(sampler, values, releases, draw)
        name = draw.kind, draw.round, tuple(draw.agents)
        released = releases[0] if isinstance(releases, list) else releases
        self.bounds[name] = released.certificate.bound
        self.first.setdefault(name, usual(sampler, values, releases, draw))
        self.bare[-1][name] = values.copy()
        return self.first[name]


@pytest.mark.parametrize("fit", [linear, counts, preconditioned])
def test_no_message_of_neighbours_moves_further_than_planned_and_some_move_so_far(fit, monkeypatch):
    replayed, usual = Replayed(), SimulatedSampler.perturb
    monkeypatch.setattr(SimulatedSampler, "perturb", lambda *given: replayed.perturb(*given, usual))
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (N, 2)), rng.choice([0.0, 0.5, 1.0], N, p=[0.01, 0.98, 0.01])

    def fitted():
        replayed.bare.append({})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return fit(X, y).released_.encoding

    rows = fitted()
    for direction in np.eye(2):
        for label in (0.0, 0.5, 1.0):
            X[0], y[0] = np.array(rows.centre) + rows.radius * np.array(rows.scale) * direction, label
            fitted()
    reached = {}
    for mine, other in combinations(replayed.bare[1:], 2):
        for name, bound in replayed.bounds.items():
            moved = float(np.linalg.norm(mine[name] - other[name])) / bound
            reached[name[0].name] = max(reached.get(name[0].name, 0.0), moved)
    assert max(reached.values()) <= 1 + 1e-9
    assert min(reached.values()) > 0.5
