"""Silos for the tests of this room."""

import numpy as np
import pytest

from dpadmm.planner import planner
from dpadmm.planner.forecast import SignalScores
from dpadmm.planner.simulations import SimulatedScores
from dpadmm.problems.silos import Silos


@pytest.fixture
def instant(monkeypatch):
    """Skip simulations: all candidates look equally good, so plans follow the rules."""
    scores = SimulatedScores(score=0.8, loss=0.4, norm=1.0, loss_best=0.3, loss_trivial=0.7)
    monkeypatch.setattr(planner, "run_simulation", lambda *_args, **_kwargs: scores)
    monkeypatch.setattr(planner, "run_signal", lambda *_: SignalScores((0.8,), 0.9, kept=0.5))


@pytest.fixture
def make_silos():
    """Silos of given sizes with labels from a linear model; sorted by a feature, so that silos differ."""

    def make(sizes, dimension=3, is_regression=False, seed=0):
        rng = np.random.default_rng(seed)
        n = sum(sizes)
        rows = rng.standard_normal((n, dimension))
        rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
        rows = rows[np.argsort(rows[:, 0])]
        truth = 3.0 * rng.standard_normal(dimension)
        if is_regression:
            labels = rows @ truth / 3 + 0.1 * rng.standard_normal(n)
        else:
            labels = np.where(rng.random(n) < 1 / (1 + np.exp(-rows @ truth)), 1.0, -1.0)
        cuts = np.cumsum(sizes)[:-1]
        return Silos.from_parts(np.split(rows, cuts), np.split(labels, cuts), row_norm=1.0)

    return make
