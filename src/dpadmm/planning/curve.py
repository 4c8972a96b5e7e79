"""Expected utility against epsilon."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpadmm.planning.forecast import Forecast
from dpadmm.planning.planner import plan
from dpadmm.planning.task import Task
from dpadmm.privacy.calibration import Target


@dataclass(frozen=True)
class UtilityPoint:
    """What a plan for this epsilon is expected to reach."""

    epsilon: float
    method: str
    expected: Forecast
    is_hopeless: bool


def utility_curve(task: Task, epsilons: Sequence[float], method: str | None = None) -> tuple[UtilityPoint, ...]:
    """Return the forecast of the task at other budgets, delta unchanged."""
    points = []
    for epsilon in epsilons:
        made = plan(replace(task, target=Target(epsilon, task.target.delta)), method=method)
        points.append(UtilityPoint(float(epsilon), made.method, made.expected, made.is_hopeless))
    return tuple(points)
