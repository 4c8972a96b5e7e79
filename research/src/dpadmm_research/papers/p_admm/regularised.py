"""Figs. 1 and 2 differ in their budget only: this is what both compute, draw and say."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from dpadmm_research.comparison.compare import LOSS
from dpadmm_research.papers.p_admm import pace
from dpadmm_research.papers.p_admm.panels import draw_above_bare, draw_losses, draw_spent
from dpadmm_research.papers.p_admm.setting import (
    CHOICES,
    NEAR,
    OTHER_ETAS,
    AdultRace,
    ground,
    lowest_loss,
    privacy_of,
    run_race,
)
from dpadmm_research.reproduction.figure import Figure, Finding, Part, Verdict
from dpadmm_research.reproduction.style import canvas, headline, readings_in
from dpadmm_research.reproduction.table import Reading, Table, chosen, mean_at, means

Panel = Callable[[Any, Table, AdultRace], None]


def together(ax: Any, table: Table, setting: AdultRace) -> None:
    """All methods with claimed noise on one logarithmic axis."""
    (epsilon,) = setting.epsilons
    draw_losses(ax, table, setting, setting.compared, Reading.CLAIMED, epsilon, "all on one axis", is_log_y=True)


def figure(number: int, setting: AdultRace, claimed_panel: Panel = together) -> Figure:
    """Return the figure of this number for a setting with one budget; claimed_panel: its last one on losses."""
    (epsilon,) = setting.epsilons
    return Figure(
        name=f"p-admm/fig{number}",
        title=f"P-ADMM, Fig. {number}: l2-regularised logistic regression, eps = {epsilon:g}",
        reports=(
            f"At a total eps of {epsilon:g} (delta 1e-4), R = 0.995 accumulates privacy loss more slowly than the "
            "other methods and keeps the loss low; P-ADMM ends below DVP, M-ADMM and R-ADMM, nearly as low as "
            "non-private ADMM."
        ),
        setting={**asdict(setting), "rounds_of_the_privacy_panel": pace.COUNTS},
        choices=CHOICES,
        parts=(
            Part(f"p-admm/fig{number}", partial(run_race, setting), seconds=48.0, needs_adult=True),
            Part(f"p-admm/fig{number}/K", partial(pace.compute, setting), seconds=8.0, needs_adult=True),
        ),
        draw=partial(draw, number, setting, claimed_panel),
        findings=partial(findings, setting),
        ground=ground(
            printed=f"N = {setting.agents}, an l2 term, total eps = {epsilon:g}, R = 0.995 among several R",
            used=f"K = {setting.rounds}, Lambda = {setting.l2_weight:g}, R = {', '.join(map(str, setting.decays))}",
            guessed="K, Lambda, and every R but 0.995",
        ),
    )


def draw(number: int, setting: AdultRace, claimed_panel: Panel, table: Table, data: str) -> Any:
    """Two rows per reading: losses (effect of R, comparison, a closer look), and privacy spent."""
    readings, (epsilon,) = readings_in(table), setting.epsilons
    picture, axes = canvas(2 * len(readings), 3, width=5.2, height=3.9)
    own = [_name(decay) for decay in setting.decays]
    for place, reading in enumerate(readings):
        losses, spent = axes[2 * place], axes[2 * place + 1]
        about = (reading, epsilon)
        if reading is Reading.CLAIMED:
            end = mean_at(table, metric=LOSS, reading=Reading.NON_PRIVATE)
            title = f"effect of R (non-private ends at {end:.3f})"
            draw_losses(losses[0], table, setting, own, *about, title, has_bare=False)
            others = [contender.label for contender in setting.baselines]
            draw_losses(losses[1], table, setting, others, *about, "the others")
            claimed_panel(losses[2], table, setting)
        else:
            draw_losses(losses[0], table, setting, own, *about, "effect of R")
            draw_losses(losses[1], table, setting, setting.compared, *about, "comparison")
            draw_above_bare(losses[2], table, setting, own, *about, "effect of R")
        draw_spent(spent[0], table, setting, own, reading, "effect of R")
        draw_spent(spent[1], table, setting, setting.compared, reading, "comparison")
        pace.draw(spent[2], table, setting, reading)
    headline(
        picture, f"P-ADMM, Fig. {number}", data=f"{data}, N = {setting.agents}, l2-regularised",
        privacy=privacy_of(setting, epsilon), shown="mean and std of the runs",
    )  # fmt: skip
    return picture


def _name(decay: float) -> str:
    return f"P-ADMM, R = {decay:g}"


def findings(setting: AdultRace, table: Table) -> tuple[Finding, ...]:
    """Privacy halfway and the effect of R for each reading, and the comparison."""
    (epsilon,) = setting.epsilons
    found = []
    for reading in readings_in(table):
        found += [pace.finding(setting, table, reading), _keeps_low(setting, table, reading)]
    return (*found, *lowest_loss(table, setting, epsilon))


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
        f"R = {by_end[0]:g}; highest R = {by_mean[-1]:g} and R = {by_end[-1]:g}"
        + (f"; {OTHER_ETAS}" if reading is Reading.CLAIMED and not any(is_low) else ""),
    )
