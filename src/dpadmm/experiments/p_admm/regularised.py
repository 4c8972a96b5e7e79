"""Figs. 1 and 2 differ in their budget only: this is what both compute, draw and say."""

from dataclasses import asdict
from functools import partial
from typing import Any

from dpadmm.experiments.figure import Figure, Finding, Part, Verdict
from dpadmm.experiments.p_admm.setting import CHOICES, AdultRace, draw_comparison, lowest_loss, run_race, told
from dpadmm.experiments.race import CERTIFIED_EPS, CLAIMED_EPS, LOSS
from dpadmm.experiments.style import Spread, canvas, draw_curve, draw_curves, finish
from dpadmm.experiments.table import Reading, Table, chosen, mean_at


def figure(number: int, setting: AdultRace) -> Figure:
    """Return the figure of this number for a setting with one budget."""
    (epsilon,) = setting.epsilons
    return Figure(
        name=f"p-admm/fig{number}",
        title=f"P-ADMM, Fig. {number}: l2-regularised logistic regression, eps = {epsilon:g}",
        reports=(
            f"At a total eps of {epsilon:g} (delta 1e-4), R = 0.995 accumulates privacy loss more slowly than "
            f"the other "
            "methods and keeps the loss low; P-ADMM ends below DVP, M-ADMM and R-ADMM, nearly as low as "
            "non-private ADMM."
        ),
        setting=asdict(setting),
        choices=CHOICES,
        parts=(Part(f"p-admm/fig{number}", partial(run_race, setting), seconds=60.0, needs_adult=True),),
        draw=partial(draw, number, setting),
        findings=partial(findings, setting),
    )


def draw(number: int, setting: AdultRace, table: Table, data: str) -> Any:
    """Two rows, claimed and certified; effect of R, accumulated privacy, comparison."""
    picture, axes = canvas(2, 3, width=4.9, height=3.9)
    (epsilon,) = setting.epsilons
    own = [f"P-ADMM, R = {decay:g}" for decay in setting.decays]
    for row, reading in enumerate((Reading.CLAIMED, Reading.CERTIFIED)):
        losses = chosen(table, metric=LOSS)
        draw_curves(axes[row, 0], losses, own, reading=reading, spread=Spread.STD)
        draw_curve(
            axes[row, 0], chosen(losses, reading=Reading.NON_PRIVATE), label="non-private", place=None,
            reading=Reading.NON_PRIVATE,
        )  # fmt: skip
        finish(axes[row, 0], f"effect of R, {reading.value} noise", "iteration", LOSS,
               is_log_y=reading is Reading.CLAIMED, legend="upper right")  # fmt: skip
        metric = CLAIMED_EPS if reading is Reading.CLAIMED else CERTIFIED_EPS
        curves = [*own, *(contender.label for contender in setting.baselines)]
        draw_curves(axes[row, 1], chosen(table, metric=metric), curves, reading=reading)
        finish(axes[row, 1], f"accumulated privacy loss, {reading.value}", "iteration", metric, legend="upper left")
        draw_comparison(axes[row, 2], table, setting, reading, epsilon)
    spent = told(mean_at(table, metric=CERTIFIED_EPS, reading=Reading.CLAIMED, curve=setting.champion))
    picture.suptitle(
        f"P-ADMM, Fig. {number}: {data}, N = {setting.agents}, l2-regularised, total eps = {epsilon:g}; mean and "
        f"std of "
        f"the runs. Certified eps of P-ADMM's claimed noise: {spent}", fontsize=11,
    )  # fmt: skip
    return picture


def findings(setting: AdultRace, table: Table) -> tuple[Finding, ...]:
    """Privacy halfway, effect of R, and the comparison."""
    (epsilon,) = setting.epsilons
    half = float(table["x"].max() // 2)
    accumulated = chosen(table, metric=CERTIFIED_EPS, reading=Reading.CERTIFIED)
    spent = {
        curve: mean_at(accumulated, half, curve=curve)
        for curve in (setting.champion, *(contender.label for contender in setting.baselines))
    }
    others = [value for curve, value in spent.items() if curve != setting.champion]
    losses = chosen(table, metric=LOSS, reading=Reading.CERTIFIED)
    by_decay = {decay: mean_at(losses, curve=f"P-ADMM, R = {decay:g}") for decay in setting.decays}
    is_slower = spent[setting.champion] < min(others)
    is_best = by_decay[max(by_decay)] <= min(by_decay.values()) * 1.005
    return (
        Finding(
            "R = 0.995 accumulates privacy loss more slowly than the other methods",
            f"certified eps after {half:g} iterations: " + ", ".join(f"{c} {v:.3g}" for c, v in spent.items()),
            Verdict.SAME if is_slower else Verdict.DIFFERENT,
            "Gaussian losses add in squares, so half of the rounds cost more than half of eps; only smaller R "
            "(late noise "
            "smaller) are slower at first" if not is_slower else "",
        ),
        Finding(
            "R = 0.995 keeps the loss low during the whole run",
            "certified noise, loss at the end: " + ", ".join(f"R = {r:g}: {v:.4f}" for r, v in by_decay.items()),
            Verdict.SAME if is_best else Verdict.PARTLY,
            "" if is_best else "a faster decay leaves less noise in the last broadcast and ends lower; R = 0.995 is "
            "lower on the way",
        ),
        *lowest_loss(table, setting, epsilon),
    )  # fmt: skip
