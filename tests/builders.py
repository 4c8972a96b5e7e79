"""What several tests build alike."""

from dataclasses import replace

from dpadmm.core.spec import TrainingSpec


def with_rounds(plan, rounds):
    """Return a plan with fewer rounds: enough for a test, and quicker with exact noise."""
    run = plan.run
    short = replace(run, setting=replace(run.setting, rounds=rounds))
    return replace(plan, spec=TrainingSpec.of(*(short if step is run else step for step in plan.spec.steps)))
