"""What plans for other budgets are expected to reach: a curve over epsilon, to be shown beside a plan or a model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpadmm.core.task import Task
from dpadmm.planner.forecast import Forecast, judged_signal
from dpadmm.planner.planner import plan
from dpadmm.privacy.accounting import Target
from dpadmm.problems.losses import LabelKind

_USUAL_EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)


@dataclass(frozen=True)
class UtilityPoint:
    """What a plan for this epsilon is expected to reach."""

    epsilon: float
    method: str
    expected: Forecast
    is_hopeless: bool


def epsilons_around(epsilon: float) -> tuple[float, ...]:
    """Return usual budgets and this one, in order.

    >>> epsilons_around(2.0)
    (0.1, 0.3, 1.0, 2.0, 3.0, 10.0)
    """
    return tuple(sorted({*_USUAL_EPSILONS, float(epsilon)}))


def utility_curve(
    task: Task,
    epsilons: Sequence[float],
    method: str | None = None,
    n_models: int | None = 1,
    *,
    all_signals: bool = False,
) -> tuple[UtilityPoint, ...]:
    """Return the forecast of the task at other budgets, delta unchanged.

    all_signals: for a weak, a moderate and a strong signal, which takes longer; otherwise for the moderate one alone. A
    stated signal replaces them.
    """
    if not all_signals:
        level = judged_signal(task)
        is_real = task.loss.target is LabelKind.REALS
        task = replace(task, expected_r2=level) if is_real else replace(task, expected_auc=level)
    points = []
    for epsilon in epsilons:
        made = plan(replace(task, target=Target(epsilon, task.target.delta)), method=method, n_models=n_models)
        points.append(UtilityPoint(float(epsilon), made.method, made.expected, made.is_hopeless))
    return tuple(points)
