"""Planning: choose method, rounds, penalty, schedule and output rule from public facts, before any data are touched.

`plan(task)` chooses, `carry_out(plan, silos, sampler)` runs. Settings are never tuned on the private data: that would
be a release of its own. They come from theory and from simulations on synthetic data of the same shape.
"""

from dpadmm.planning.curve import UtilityPoint, utility_curve
from dpadmm.planning.forecast import Forecast, Score
from dpadmm.planning.plan import Outcome, Plan, carry_out
from dpadmm.planning.planner import plan
from dpadmm.planning.task import Task

__all__ = [
    "Forecast",
    "Outcome",
    "Plan",
    "Score",
    "Task",
    "UtilityPoint",
    "carry_out",
    "plan",
    "utility_curve",
]
