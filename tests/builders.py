"""What several tests build alike."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.grouped import grouped

from dpadmm.core.spec import TrainingSpec
from dpadmm.estimators import PrivateLogisticRegression
from dpadmm.planner import planner
from dpadmm.planner.forecast import SignalScores
from dpadmm.planner.simulations import SimulatedScores


class Bare:
    """A sampler that adds no noise, so that a test sees what the noise would be added to."""

    is_secure = False

    def perturb(self, values, releases, draw):
        return values


def with_rounds(plan, rounds):
    """Return a plan with fewer rounds: enough for a test, and quicker with exact noise."""
    run = plan.run
    short = replace(run, setting=replace(run.setting, rounds=rounds))
    return replace(plan, spec=TrainingSpec.of(*(short if step is run else step for step in plan.spec.steps)))


def logistic(**changes: Any) -> PrivateLogisticRegression:
    """Return a logistic regression with public bounds and classes, and these changes."""
    public = {"epsilon": 1.0, "delta": 1e-5, "feature_bounds": (-1, 1), "classes": (0, 1)}
    return PrivateLogisticRegression(**grouped(**public | changes))


@contextmanager
def instant_plans() -> Iterator[None]:
    """Skip the planner's simulations, which have tests of their own.

    Every trial looks equally good, so plans follow the rules of theory; all else is as ever.
    """
    scores = SimulatedScores(score=0.8, loss=0.4, norm=1.0, loss_best=0.3, loss_trivial=0.7)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("run_simulation", "run_apart"):
            patch.setattr(planner, name, lambda *_args, **_options: scores)
        patch.setattr(planner, "run_signal", lambda *_: SignalScores((0.8,), 0.9, kept=0.5))
        yield
