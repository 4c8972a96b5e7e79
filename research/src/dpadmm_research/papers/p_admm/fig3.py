"""Fig. 3: unregularised logistic regression, R = 0.995, a small (a) and a large (b) total budget."""

from dataclasses import asdict
from functools import partial
from typing import Any

from dpadmm_research.papers.p_admm.panels import draw_above_bare, draw_losses
from dpadmm_research.papers.p_admm.setting import CHOICES, AdultRace, ground, lowest_loss, privacy_of, run_race
from dpadmm_research.reproduction.figure import Figure, Finding, Part
from dpadmm_research.reproduction.style import canvas, headline, readings_in
from dpadmm_research.reproduction.table import Reading, Table

SETTING = AdultRace(epsilons=(5.0, 10.0), agents=5, delta=1e-4, decays=(0.995,), l2_weight=0.0, runs=10)


def draw(table: Table, data: str) -> Any:
    """One column per budget; two rows per reading: claimed P-ADMM alone and the others, certified all and P-ADMM."""
    readings, epsilons = readings_in(table), _budgets(table)
    picture, axes = canvas(2 * len(readings), len(epsilons), width=5.8, height=3.9)
    own, others = [SETTING.champion], [contender.label for contender in SETTING.baselines]
    for place, reading in enumerate(readings):
        for column, epsilon in enumerate(epsilons):
            upper, lower = axes[2 * place : 2 * place + 2, column]
            about, title = (reading, epsilon), f"eps = {epsilon:g}"
            if reading is Reading.CLAIMED:
                draw_losses(upper, table, SETTING, others, *about, f"the others, {title}")
                draw_losses(lower, table, SETTING, own, *about, f"P-ADMM alone, {title}", has_bare=False)
            else:
                draw_losses(upper, table, SETTING, SETTING.compared, *about, f"comparison, {title}")
                draw_above_bare(lower, table, SETTING, own, *about, f"P-ADMM, {title}")
    headline(
        picture, "P-ADMM, Fig. 3", data=f"{data}, N = {SETTING.agents}, unregularised, R = 0.995",
        privacy=privacy_of(SETTING, *epsilons), shown="mean and std of the runs",
    )  # fmt: skip
    return picture


def findings(table: Table) -> tuple[Finding, ...]:
    """Whether P-ADMM is lowest at both budgets."""
    return tuple(finding for epsilon in _budgets(table) for finding in lowest_loss(table, SETTING, epsilon))


def _budgets(table: Table) -> list[float]:
    """At toy size there is one only."""
    return [epsilon for epsilon in SETTING.epsilons if epsilon in set(table["epsilon"])]


FIGURE = Figure(
    name="p-admm/fig3",
    title="P-ADMM, Fig. 3: unregularised logistic regression",
    reports="P-ADMM outperforms DVP, M-ADMM and R-ADMM significantly at the small (a) and the large (b) total budget.",
    setting=asdict(SETTING),
    choices=("The two budgets are not printed with the figure: those of Figs. 1 and 2.", *CHOICES),
    parts=(Part("p-admm/fig3", partial(run_race, SETTING), seconds=50.0, needs_adult=True),),
    draw=draw,
    findings=findings,
    ground=ground(
        printed="N = 5, no l2 term, R = 0.995, a small and a large total eps that are not stated",
        used="total eps = 5 and 10, K = 50",
        guessed="the two budgets (those of Figs. 1 and 2) and K",
    ),
)
