"""What other budgets would have meant: for the report, from the planner's simulations."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from markupsafe import Markup

from dpadmm.errors import InputError
from dpadmm.planning.planner import UtilityPoint, epsilons_around, utility_curve
from dpadmm.planning.task import Task
from dpadmm.reporting.charts import svg
from dpadmm.reporting.facts import BudgetFacts
from dpadmm.reporting.labels import method_words


def best_guess(epsilon: float, delta: float) -> float:
    """Return the most often anybody can be right about one record between two even choices.

    An (epsilon, delta) guarantee bounds the total variation by `(e^eps - 1 + 2 delta)/(e^eps + 1)`, so the best guess
    is right with probability at most `(e^eps + delta)/(e^eps + 1)`.

    >>> round(best_guess(1.0, 0.0), 3), best_guess(0.0, 0.0)
    (0.731, 0.5)
    """
    return min(1.0, (1.0 + delta * math.exp(-epsilon)) / (1.0 + math.exp(-epsilon)))


@dataclass(frozen=True)
class OtherBudget:
    """One budget: how well a record can be guessed, and what is expected of a model for it, on synthetic data.

    range: of the score, where a model without privacy reaches `non_private`.
    """

    epsilon: float
    guess: float
    score: str
    non_private: float
    range: str
    learned: float
    bar: Markup
    method: str
    is_own: bool


def budgets_around(task: Task, method: str | None = None, problems: int | None = 1) -> tuple[UtilityPoint, ...]:
    """Return what the planner expects of usual budgets and of the task's; one that it cannot plan for is left out."""
    found: list[UtilityPoint] = []
    for epsilon in epsilons_around(task.target.epsilon):
        with suppress(InputError):
            found += utility_curve(task, (epsilon,), method, problems)
    return tuple(found)


def budget_facts(points: Sequence[UtilityPoint]) -> tuple[BudgetFacts, ...]:
    """Return what a model keeps of the planner's figures."""
    return tuple(
        BudgetFacts(
            epsilon=point.epsilon,
            method=point.method,
            score=point.expected.score.value,
            non_private=point.expected.judged.non_private,
            low=point.expected.judged.low,
            high=point.expected.judged.high,
            learned=point.expected.judged.learned,
        )
        for point in points
    )


def other_budgets(points: Sequence[BudgetFacts], epsilon: float, delta: float) -> tuple[OtherBudget, ...]:
    """Return a row for each budget; `epsilon` is that of the report."""
    return tuple(
        OtherBudget(
            epsilon=point.epsilon,
            guess=best_guess(point.epsilon, delta),
            score=point.score,
            non_private=point.non_private,
            range=f"{point.low:.2f} to {point.high:.2f}",
            learned=point.learned,
            bar=_bar(point.learned),
            method=method_words(point.method),
            is_own=math.isclose(point.epsilon, epsilon, rel_tol=1e-3),
        )
        for point in points
    )


def _bar(share: float) -> Markup:
    parts = [
        Markup('<rect class="bar-left" x="0.5" y="1.5" width="99" height="11" rx="2"/>'),
        Markup('<rect class="bar-spent" x="0.5" y="1.5" width="{:.1f}" height="11" rx="2"/>').format(99 * share),
    ]
    return svg(f"{share:.0%} of what can be learned without noise", 100, 14, parts)
