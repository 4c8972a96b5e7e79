"""Coefficients with intervals: what they may spend, for how many there is hope, and how long intervals will be (C14).

All of it follows from public facts and, where one was released before, a column profile.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpadmm.checks import nearest, option_name
from dpadmm.core.budget import share_out
from dpadmm.core.spec import ReleaseFacts
from dpadmm.core.task import INFERENCE_LOSS, Task
from dpadmm.data.columns import Categorical
from dpadmm.data.encoding import CONSTANT
from dpadmm.data.schema import Schema
from dpadmm.errors import InputError
from dpadmm.methods.base import Setting
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.planner.candidates import INFERENCE_CLIP_RADIUS, unit_noise
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import Unit
from dpadmm.privacy.releases import seen_noise
from dpadmm.problems.losses import Poisson
from dpadmm.problems.problem import Problem
from dpadmm.queries.curvature import Curvature, plan_curvature

CURVATURE_SHARE, PRODUCTS_SHARE = 0.1, 0.05
"""Parts of the squared budget m^2 that are spent on the curvature, and on the products of gradients of numbers and
persons; on the curvature of numbers up to `_MOST_CURVATURE_SHARE`, until it is `_AMPLE` times its noise."""

_MOST_CURVATURE_SHARE, _AMPLE, _OF_RARE = 0.5, 8.0, 3.0  # three times that for categories, which may be rare
_AVERAGED_PART = 0.7  # of the rounds, whose gradients are averaged
_USUAL_CURVATURE = 0.9  # of a record along a direction, as a part of p (1 - p): not all have the mean probability
_USUAL_WEIGHT = 0.7  # of a record, times its square along a direction: long rows count less
RELATED = 1 / 3
"""The part of a column's variance that others do not explain in tables of related columns."""

_SURE = 2.0  # times the noise, from which on nearly all fits have an interval
_BEST_CURVATURE = 0.06  # of a record along a direction, times the number of directions, at best: columns in no relation


@dataclass(frozen=True)
class IntervalBudget:
    """What intervals may spend, and what that leaves to all others.

    curvature: None where there can be no intervals, and lacking says why. products: None where the curvature tells how
    much gradients differ between records.
    """

    rest: Target
    curvature: Target | None = None
    products: Target | None = None
    lacking: tuple[str, ...] = ()


def interval_budget(task: Task) -> IntervalBudget:
    """Return how the budget is shared out for intervals."""
    is_number, whole, share, products = task.loss == INFERENCE_LOSS, task.target, CURVATURE_SHARE, None
    if is_number:
        most, _ = share_out(whole, _MOST_CURVATURE_SHARE)
        assert most is not None
        clear = max(coefficient_ratios(task, most)[:1], default=1.0)
        ample = _AMPLE * (_OF_RARE if task.table is not None and task.table.categories else 1.0)
        share = max(share, _MOST_CURVATURE_SHARE * min(1.0, (ample / clear) ** 2))
    own, left = share_out(whole, share)
    if is_number or task.protection.unit is Unit.PERSON:
        products, left = share_out(left, PRODUCTS_SHARE / (1 - share))
    assert own is not None
    least = least_records(task, own)
    if task.n_records >= least:
        return IntervalBudget(left, own, products)
    rare = "" if task.prevalence is None else f", where the share of one class is {task.prevalence:g},"
    why = (
        f"no intervals can be expected: {directions(task)} coefficients at epsilon {whole.epsilon:g}{rare} need "
        f"about {least} records or more, and there are {task.n_records}. The plan spends nothing on intervals. Use "
        "fewer columns or a larger epsilon."
    )
    return IntervalBudget(whole, lacking=(why,))


def least_records(task: Task, own: Target) -> int:
    """Return how many records it takes for intervals at best: the curvature must exceed its noise in all directions.

    The noise moves eigenvalues by up to about `tau sqrt(2 (d + 1))`. Columns that say much the same need more, and so
    does a rare class: a record's curvature is `p (1 - p)` on average, at most 1/4.
    """
    least = directions(task) * _curvature_edge(task, own)
    return math.ceil(least / (4 * _mean_curvature(task) * _BEST_CURVATURE * task.row_norm**2))


def _mean_curvature(task: Task) -> float:
    """Return the curvature of a usual record's loss in its score, from public facts.

    p (1 - p) for classes, 1 for numbers; for counts that of a rate l of which the ceiling is `l + 4 sqrt(l)`, hardly
    ever exceeded.
    """
    if isinstance(task.loss, Poisson):
        rate = (math.sqrt(4 + task.loss.ceiling) - 2) ** 2
        return float(task.loss.curvature(np.log(rate)))
    if task.loss == INFERENCE_LOSS:
        return 1.0
    p = 0.5 if task.prevalence is None else task.prevalence
    return p * (1 - p)


def _curvature_edge(task: Task, own: Target) -> float:
    """Return what the noise alone shows in the curvature summed over the records."""
    setting = Setting(Problem.of(task.functions()), 1, 0.0, protection=task.protection)
    facts = ReleaseFacts(task.sizes, task.protection, is_pooled=True)
    (release,) = plan_curvature(setting, own, facts, 2, is_secure=False)
    return task.n_records * seen_noise(release) * math.sqrt(2 * (directions(task) + 1))


def coefficient_ratios(task: Task, own: Target) -> list[float]:
    """Return, for the numbers and then the categories' contrasts, the curvature along each over what noise may show.

    As if columns were in no relation to each other: below 1 there is no interval, up to 2 half of the fits have one.
    Without a profile that was released before, the categories of a column count as equally frequent.
    """
    table = task.table
    if table is None:
        return [math.inf] * (directions(task) - 1)
    shares = table.shares or tuple((1 / k,) * k for k in table.categories)
    of_number = _mean_curvature(task) * task.n_records * _unit_square(task) / _curvature_edge(task, own)
    ratios = [_USUAL_CURVATURE * of_number] * table.n_numeric
    for each in shares:
        common = max(range(len(each)), key=each.__getitem__)
        rest = [f for place, f in enumerate(each) if place != common]
        ratios += [_USUAL_CURVATURE * 2 * of_number * f * each[common] / (f + each[common]) for f in rest]
    return ratios


def _unit_square(task: Task) -> float:
    """Return the weighted mean square of an encoded number: what one deviation of it is worth."""
    table = task.table
    assert table is not None
    shares = table.shares or tuple((1 / k,) * k for k in table.categories)
    spread = table.n_numeric + sum(1 - math.fsum(f * f for f in each) for each in shares)
    return _USUAL_WEIGHT * (1 - CONSTANT**2) * task.row_norm**2 / (INFERENCE_CLIP_RADIUS**2 * spread)


def expected_intervals(task: Task, own: Target, related: float = 1.0) -> float:
    """Return how many coefficients are expected to get intervals.

    related: the part of a column's variance that the others do not explain, 1 for columns in no relation.
    """
    ratios = [related * ratio for ratio in coefficient_ratios(task, own)]
    number = sum(0.0 if ratio < 1 else 0.5 if ratio <= _SURE else 1.0 for ratio in ratios)
    return number + (directions(task) > len(ratios) and number > 0)


def expected_error(task: Task) -> float | None:
    """Return the standard error of the coefficient of a number, for one deviation of it, over that without privacy.

    None where there is no table. What gradients leave of the budget, as if columns were in no relation to each other.
    """
    if task.table is None:
        return None
    rounds, sampled = 1.0 if task.loss == INFERENCE_LOSS else _AVERAGED_PART, _mean_curvature(task)
    sampled *= task.n_records * _unit_square(task)
    noise = (task.n_records * unit_noise(task, NoisyGradients)) ** 2 / rounds
    return math.sqrt(1 + noise / sampled)


def directions(task: Task) -> int:
    """Return how many coefficients there are: the categories of a column always sum to one."""
    return task.dimension - (0 if task.table is None else len(task.table.categories))


def interval_text(task: Task, curvature: Curvature | None) -> str:
    """Say what intervals cost and what to expect of them; why there are none is a warning."""
    if curvature is None:
        return ""
    table, longer = task.table, expected_error(task)
    rare = "" if table is None or table.shares or not table.categories else " and no category is rare"
    length = "" if longer is None else f"; about {longer:.2g} times as long as without privacy for unrelated columns"
    most, related = (expected_intervals(task, curvature.target, part) for part in (1.0, RELATED))
    return (
        f"from the curvature of the loss, released last for epsilon {curvature.target.epsilon:.3g}; expected for at "
        f"most {most:.3g} of {directions(task)} coefficients, if columns are unrelated{rare}, and for {related:.3g} if "
        f"the others explain two thirds of each{length}"
    )


def interval_json(task: Task, curvature: Curvature | None) -> dict[str, Any]:
    """Return what is expected of intervals as plain values, nothing without any."""
    if curvature is None:
        return {}
    most, related = (expected_intervals(task, curvature.target, part) for part in (1.0, RELATED))
    return {"expected_intervals": most, "if_related": related, "expected_length": expected_error(task)}


def check_wanted(task: Task, curvature: Curvature | None, schema: Schema, wanted: Sequence[str]) -> None:
    """Refuse to go on where a wanted coefficient has no hope of an interval, as far as is known.

    wanted: names of columns, or of categories as `column=category`; of a column with categories, one of them must have
    hope. How frequent these are is known once a profile is released: before, they are not judged.
    """
    table, hopeless, known = task.table, [], dict[str, list[float]]()
    ratios = iter([] if curvature is None else coefficient_ratios(task, curvature.target))
    numbers = [next(ratios, 0.0) for column in schema.columns if not isinstance(column, Categorical)]
    shares = iter(() if table is None else table.shares)
    for column in schema.columns:
        if not isinstance(column, Categorical):
            known[column.name] = [numbers.pop(0)]
            continue
        own = next(shares, None)
        common = None if own is None else max(range(len(own)), key=own.__getitem__)
        each = {name: next(ratios, 0.0) for place, name in enumerate(column.feature_names) if place != common}
        if own is None:
            each = dict.fromkeys(column.feature_names, math.inf if curvature else 0.0)
        known |= {column.name: list(each.values())} | {name: [ratio] for name, ratio in each.items()}
    for name in wanted:
        if name not in known:
            raise InputError(
                f"{option_name('wanted')} names the coefficient {name!r}, which there is not, or which others are "
                f"compared with.{nearest(name, known)} Names are those of columns, or column=category.",
                setting="wanted",
            )
        if max(known[name], default=0.0) < 1:
            hopeless.append(name)
    if hopeless:
        spent = "Nothing was spent." if table is None or not table.shares else "Only the column profile was spent."
        raise InputError(
            f"No interval can be expected for {', '.join(hopeless)}: too few records, or too rare a category, for this "
            f"epsilon. {spent} Leave it out of {option_name('wanted')}, merge rare categories, use fewer columns or a "
            "larger epsilon.",
            setting="wanted",
        )
