"""What several tests build alike."""

from dataclasses import replace
from typing import Any

from tests.grouped import grouped

from dpadmm.core.spec import TrainingSpec
from dpadmm.estimators import PrivateLogisticRegression


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
