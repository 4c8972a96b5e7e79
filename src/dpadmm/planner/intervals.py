"""What intervals cost, and whether any can be expected; from public facts alone (C14)."""

import math

from dpadmm.checks import setting as named
from dpadmm.core.budget import share_out
from dpadmm.core.spec import ReleaseFacts
from dpadmm.errors import InputError
from dpadmm.methods.method import Setting
from dpadmm.planner.task import Task
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.releases import seen_noise
from dpadmm.problems.problem import Problem
from dpadmm.queries.curvature import plan_curvature

CURVATURE_SHARE = 0.1
"""Part of the squared budget m^2 that is spent on the curvature."""

_BEST_CURVATURE = 0.02  # of a record along a direction, times the number of directions, at best: columns in no relation


def interval_budget(task: Task, problems: int) -> tuple[Target | None, Target, tuple[str, ...]]:
    """Return what intervals cost, and what that leaves to all others; or None, and why none can be told."""
    if problems != 1:
        raise InputError("Intervals are told for one model of two classes, not for one model per class (C14).")
    own, left = share_out(task.target, CURVATURE_SHARE)
    assert own is not None
    least = least_records(task, own)
    if task.n_records < least:
        return None, task.target, (_too_few_words(task, least),)
    return own, left, ()


def least_records(task: Task, own: Target) -> int:
    """Return how many records it takes for intervals at best: the curvature must exceed its noise in all directions.

    The noise moves eigenvalues by up to about `tau sqrt(2 (d + 1))`. Columns that say much the same need more, and so
    does a rare class: a record's curvature is `p (1 - p)` on average, at most 1/4.
    """
    d = directions(task)
    setting = Setting(Problem.of(task.functions()), 1, None, protection=task.protection)
    facts = ReleaseFacts(task.sizes, task.protection, is_pooled=True)
    (release,) = plan_curvature(setting, own, facts, 2, is_secure=False)
    edge = task.n_records * seen_noise(release) * math.sqrt(2 * (d + 1))
    p = 0.5 if task.prevalence is None else task.prevalence
    return math.ceil(d * edge / (4 * p * (1 - p) * _BEST_CURVATURE * task.row_norm**2))


def directions(task: Task) -> int:
    """Return how many coefficients there are to tell: the categories of a column always sum to one."""
    return task.dimension - (0 if task.table is None else len(task.table.categories))


def _too_few_words(task: Task, least: int) -> str:
    """Say that no intervals can be expected, and what would help."""
    rare = "" if task.prevalence is None else f", where the share of one class is {task.prevalence:g},"
    return (
        f"no intervals can be expected: {directions(task)} coefficients at epsilon {task.target.epsilon:g}{rare} need "
        f"about {least} records or more, and there are {task.n_records}. The plan spends nothing on intervals. Use "
        "fewer columns or a larger epsilon."
    )


def no_sum_words(task: Task) -> str:
    """Say that no intervals are offered against this observer, and what would help."""
    return (
        f"No intervals are offered against {task.protection.observer} among several silos: they follow from noisy sums "
        f"over all silos (C14). Use the view 'aggregate' or 'public', one silo, or {named('aim', 'prediction')}. "
        "Nothing was spent."
    )
