"""Planning: choose method, rounds, penalty, schedule and output rule from public facts, before any data are touched.

`plan(task)` chooses, `dpadmm.core.train.train` runs, `drafting` hands plans to federations. Settings are
never tuned on the private data: that would be a release of its own. They come from theory and from simulations on
synthetic data of the same shape. `plan_search` ranks candidates that a user proposes in the same way, for nothing, and
plans a comparison of the best of them on the records, under one budget (C15).
"""

from dpadmm.core.task import Aim, Task
from dpadmm.planner.forecast import Forecast, ScoreKind
from dpadmm.planner.planner import Plan, plan
from dpadmm.planner.search import SearchPlan, plan_search
from dpadmm.planner.utility import UtilityPoint, utility_curve

__all__ = [
    "Aim",
    "Forecast",
    "Plan",
    "ScoreKind",
    "SearchPlan",
    "Task",
    "UtilityPoint",
    "plan",
    "plan_search",
    "utility_curve",
]
