"""Figs. 1 and 2 differ in their budget only: this is what both compute, draw and say."""

from dataclasses import asdict
from functools import partial
from typing import Any

from dpadmm.papers.p_admm.setting import (
    CHOICES,
    NEAR,
    AdultRace,
    draw_bare,
    draw_comparison,
    lowest_loss,
    run_race,
)
from dpadmm.papers.race.race import CERTIFIED_EPS, CLAIMED_EPS, LOSS, cost_notes
from dpadmm.papers.reproduction.figure import Figure, Finding, Part, Verdict
from dpadmm.papers.reproduction.style import Spread, canvas, draw_curves, finish, readings_in
from dpadmm.papers.reproduction.table import Reading, Table, chosen, mean_at, means


def figure(number: int, setting: AdultRace) -> Figure:
    """Return the figure of this number for a setting with one budget."""
    (epsilon,) = setting.epsilons
    return Figure(
        name=f"p-admm/fig{number}",
        title=f"P-ADMM, Fig. {number}: l2-regularised logistic regression, eps = {epsilon:g}",
        reports=(
            f"At a total eps of {epsilon:g} (delta 1e-4), R = 0.995 accumulates privacy loss more slowly than the "
            "other methods and keeps the loss low; P-ADMM ends below DVP, M-ADMM and R-ADMM, nearly as low as "
            "non-private ADMM."
        ),
        setting=asdict(setting),
        choices=CHOICES,
        parts=(Part(f"p-admm/fig{number}", partial(run_race, setting), seconds=50.0, needs_adult=True),),
        draw=partial(draw, number, setting),
        findings=partial(findings, setting),
    )


def draw(number: int, setting: AdultRace, table: Table, data: str) -> Any:
    """A row per reading; effect of R, accumulated privacy, comparison."""
    readings, (epsilon,) = readings_in(table), setting.epsilons
    picture, axes = canvas(len(readings), 3, width=5.2, height=4.4)
    own = [_name(decay) for decay in setting.decays]
    for row, reading in enumerate(readings):
        is_claimed = reading is Reading.CLAIMED
        losses, notes = chosen(table, metric=LOSS, curve=own), cost_notes(table, own, reading=reading)
        draw_curves(axes[row, 0], losses, setting.curves, reading=reading, spread=Spread.STD,
                    notes=notes if is_claimed else None)  # fmt: skip
        draw_bare(axes[row, 0], table)
        finish(axes[row, 0], f"effect of R, {reading.value} noise", "iteration", LOSS, is_log_y=is_claimed,
               legend="above")  # fmt: skip
        metric = CLAIMED_EPS if is_claimed else CERTIFIED_EPS
        draw_curves(axes[row, 1], chosen(table, metric=metric), setting.curves, reading=reading, is_stepped=True)
        finish(axes[row, 1], f"accumulated privacy loss, {reading.value}", "iteration", metric, legend="above")
        draw_comparison(axes[row, 2], table, setting, reading, epsilon)
    picture.suptitle(
        f"P-ADMM, Fig. {number}: {data}, N = {setting.agents}, l2-regularised, total eps = {epsilon:g}; mean and std "
        "of the runs", fontsize=11,
    )  # fmt: skip
    return picture


def _name(decay: float) -> str:
    return f"P-ADMM, R = {decay:g}"


def findings(setting: AdultRace, table: Table) -> tuple[Finding, ...]:
    """Privacy halfway and the effect of R for each reading, and the comparison."""
    (epsilon,) = setting.epsilons
    found = []
    for reading in readings_in(table):
        found += [_halfway(setting, table, reading), _keeps_low(setting, table, reading)]
    return (*found, *lowest_loss(table, setting, epsilon))


def _halfway(setting: AdultRace, table: Table, reading: Reading) -> Finding:
    """What every method has spent halfway."""
    half = float(chosen(table, metric=LOSS)["x"].max() // 2)
    metric = CLAIMED_EPS if reading is Reading.CLAIMED else CERTIFIED_EPS
    spent = {curve: mean_at(table, half, metric=metric, reading=reading, curve=curve) for curve in setting.curves}
    others = [spent[contender.label] for contender in setting.baselines]
    wins = sum(spent[setting.champion] < other for other in others)
    slower = [f"{decay:g}" for decay in setting.decays if spent[_name(decay)] < min(others)]
    return Finding(
        f"R = 0.995 accumulates privacy loss more slowly than the other methods ({metric})",
        f"{metric} after {half:g} iterations: " + ", ".join(f"{curve} {value:.3g}" for curve, value in spent.items()),
        Verdict.SAME if wins == len(others) else Verdict.PARTLY if wins else Verdict.DIFFERENT,
        f"slower than all others halfway: R = {', '.join(slower) or 'none'}; Gaussian losses add in squares, so equal "
        "noise spends more than half of eps on the first half of the rounds, and noise that falls (R < 1) spends late",
    )


def _keeps_low(setting: AdultRace, table: Table, reading: Reading) -> Finding:
    """How far every R is above non-private, on the way and at the end."""
    bare = means(chosen(table, metric=LOSS, reading=Reading.NON_PRIVATE))
    rows = chosen(table, metric=LOSS, reading=reading)
    excess = {decay: means(chosen(rows, curve=_name(decay))) / bare - 1 for decay in setting.decays}
    own = excess[max(excess)]
    is_low = (own.max() <= NEAR, own.iloc[-1] <= NEAR)
    by_mean, by_end = (sorted(excess, key=key) for key in (lambda r: excess[r].mean(), lambda r: excess[r].iloc[-1]))
    return Finding(
        f"R = 0.995 keeps the loss low during the whole run ({reading.value} noise)",
        "loss over non-private loss, largest during the run and at the end: "
        + ", ".join(f"R = {r:g}: {1 + e.max():.5g}, {1 + e.iloc[-1]:.5g}" for r, e in excess.items()),
        (Verdict.DIFFERENT, Verdict.PARTLY, Verdict.SAME)[sum(is_low)],
        f"low means within {NEAR:.0%}; lowest on average over the run is R = {by_mean[0]:g}, at the end "
        f"R = {by_end[0]:g}; highest R = {by_mean[-1]:g} and R = {by_end[-1]:g}",
    )
