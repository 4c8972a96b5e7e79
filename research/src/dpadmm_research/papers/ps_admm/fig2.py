"""Fig. 2: expected loss per iteration for three budgets, PS-ADMM against DVP-ADMM and non-private."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial

from dpadmm_research.comparison.compare import CERTIFIED_EPS
from dpadmm_research.papers.ps_admm.runs import (
    CHOICES,
    CURVES,
    DVP_NAME,
    ERROR,
    FULL_SHARE,
    GROUND,
    LOSS,
    MAJORITY,
    PARTS,
    PS,
    SETTING,
    TUNED,
    draw,
)
from dpadmm_research.reproduction.figure import Figure, Finding, Verdict
from dpadmm_research.reproduction.style import readings_in
from dpadmm_research.reproduction.table import Reading, Table, chosen, mean_at, means

CLOSE = 0.01
"""Losses that differ by less count as the same."""
SHARE = 0.1
RIVALS = (DVP_NAME, TUNED)
CLEARLY = f"clearly below: by more than two standard errors and at least {SHARE:.0%} of the other's gap to non-private"


def answers(table: Table, metric: str, texts: str) -> tuple[Finding, ...]:
    """PS-ADMM against DVP with our K and eta and with tuned ones, at every budget, for both readings."""
    found = []
    bare = mean_at(table, metric=metric, reading=Reading.NON_PRIVATE)
    for reading in readings_in(table):
        rows = chosen(table, metric=metric, reading=reading)
        budgets = sorted(set(rows["epsilon"]))
        own, plain, tuned = ({eps: mean_at(rows, epsilon=eps, curve=curve) for eps in budgets} for curve in CURVES)
        spent = {eps: mean_at(table, metric=CERTIFIED_EPS, reading=reading, curve=PS, epsilon=eps) for eps in budgets}
        lost = {curve: [eps for eps in budgets if not _is_clear(rows, curve, eps, bare)] for curve in RIVALS}
        count = sum(map(len, lost.values()))
        why = [_claimed_why(table, spent) if reading is Reading.CLAIMED else _paid_for(own, bare)]
        why += [
            f"not clearly below {curve} at eps {', '.join(f'{e:g}' for e in at)}" for curve, at in lost.items() if at
        ]
        why += [_against_constant(own, mean_at(table, metric=MAJORITY)) if metric == ERROR else "", CLEARLY]
        found.append(
            Finding(
                f"PS-ADMM has {texts} than DVP-ADMM for all three budgets ({reading.value} noise)",
                "; ".join(
                    f"eps {e:g}: {own[e]:.4g} against {plain[e]:.4g}, tuned {tuned[e]:.4g} (certified eps of PS-ADMM "
                    f"{spent[e]:.3g})"
                    for e in budgets
                )
                + f"; non-private {bare:.4g}",
                Verdict.SAME if not count else Verdict.PARTLY if count < 2 * len(budgets) else Verdict.DIFFERENT,
                "; ".join(filter(None, why)),
            )
        )
    return tuple(found)


def _is_clear(rows: Table, rival: str, epsilon: float, bare: float) -> bool:
    """Whether PS-ADMM ends below a rival by two standard errors and a share of the rival's gap to non-private."""
    here = chosen(rows, epsilon=epsilon)
    own, other = (_at_the_end(chosen(here, curve=curve)) for curve in (PS, rival))
    gap, error = other.mean() - own.mean(), math.hypot(_error(own), _error(other))
    return bool(gap > 2 * error and gap >= SHARE * (other.mean() - bare))


def _at_the_end(rows: Table) -> Table:
    return rows[rows["x"] == rows["x"].max()]["value"]


def _error(values: Table) -> float:
    """Return the standard error of the mean, 0 for a single run."""
    return float(values.sem()) if len(values) > 1 else 0.0


def _against_constant(own: Mapping[float, float], constant: float) -> str:
    """At which budgets the test error is no better than that of always answering the majority class."""
    at = ", ".join(f"{eps:g}" for eps in own if own[eps] >= constant)
    reported = f"always answering the majority class errs {constant:.4f}"
    return reported + (f", and PS-ADMM no less at eps {at}" if at else "")


def _claimed_why(table: Table, spent: Mapping[float, float]) -> str:
    """What the claimed noise costs, as a multiple of its budget."""
    shares = [mean_at(table, metric=FULL_SHARE, epsilon=eps) for eps in spent]
    times = ", ".join(f"{cost / eps:.3g}" for eps, cost in spent.items())
    return (
        f"by C4 the claimed noise costs {times} times its budget (an upper bound, with "
        f"{', '.join(f'{100 * share:.2g}' for share in shares)} % of the variance on the full gradient)"
    )


def _paid_for(own: Mapping[float, float], bare: float) -> str:
    """How far from non-private noise that is paid for keeps PS-ADMM."""
    worst = max(own, key=lambda eps: own[eps] / bare)
    return f"paid for in full it stays at up to {own[worst] / bare:.3g} times the non-private value (eps {worst:g})"


def curve_answers(table: Table) -> tuple[Finding, ...]:
    """Whether the loss rises at the smallest budget, and follows the non-private one at the largest."""
    found = []
    bare = means(chosen(table, metric=LOSS, reading=Reading.NON_PRIVATE))
    for reading in readings_in(table):
        rows = chosen(table, metric=LOSS, curve=PS, reading=reading)
        small, large = rows["epsilon"].min(), rows["epsilon"].max()
        rise = float(means(chosen(rows, epsilon=small)).diff().max())
        gap = float((means(chosen(rows, epsilon=large)) - bare).abs().max())
        is_paid_for = reading is Reading.CERTIFIED
        found += [
            Finding(
                f"at a small budget the loss does not always fall ({reading.value} noise)",
                f"largest change of the mean loss between measured iterations at eps {small:g}: {rise:+.4f}",
                Verdict.SAME if rise > 0 else Verdict.DIFFERENT,
            ),
            Finding(
                f"at eps = 0.5 the loss follows the non-private one ({reading.value} noise)",
                f"largest difference from the non-private mean loss at eps {large:g}: {gap:.4f}",
                Verdict.SAME if gap < CLOSE else Verdict.DIFFERENT,
                f"follows: within {CLOSE:g} at every measured iteration"
                + ("; with certified noise it does not with any step tried" if is_paid_for and gap >= CLOSE else ""),
            ),
        ]
    return tuple(found)


FIGURE = Figure(
    name="ps-admm/fig2",
    title="PS-ADMM, Fig. 2: expected loss",
    reports=(
        "For all three budgets PS-ADMM reaches much less expected loss than DVP-ADMM; at small eps the loss does "
        "not always fall; at eps = 0.5 it follows the non-private curve."
    ),
    setting=asdict(SETTING),
    choices=CHOICES,
    parts=PARTS,
    draw=partial(draw, "PS-ADMM, Fig. 2", LOSS),
    findings=lambda table: answers(table, LOSS, "much less loss") + curve_answers(table),
    ground=GROUND,
)
