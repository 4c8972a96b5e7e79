"""Fig. 4: loss after K = 50 iterations against the number of agents, l2-regularised, total eps = 10."""

from dataclasses import asdict, replace
from functools import partial
from typing import Any

from dpadmm_research.comparison.compare import LOSS, cost_notes
from dpadmm_research.papers.p_admm.panels import ABOVE_BARE
from dpadmm_research.papers.p_admm.setting import CHOICES, OTHER_ETAS, AdultRace, ground, privacy_of, run_race
from dpadmm_research.reproduction.figure import Figure, Finding, Part, Verdict
from dpadmm_research.reproduction.style import Spread, canvas, draw_curve, draw_curves, finish, headline, readings_in
from dpadmm_research.reproduction.table import Reading, Table, chosen, means

AGENTS = (5, 10, 20, 40, 80)
SETTING = AdultRace(epsilons=(10.0,), rounds=50, delta=1e-4, decays=(0.995,), mean_degree=4.0, runs=10)


def _at(agents: int) -> AdultRace:
    return replace(SETTING, agents=agents)


def final_losses(table: Table) -> Table:
    """Return the losses of the last iteration with x the number of agents."""
    last = chosen(table, metric=LOSS, x=float(chosen(table, metric=LOSS)["x"].max())).copy()
    last["x"] = [float(panel.removeprefix("N = ")) for panel in last["panel"]]
    return last


def draw(table: Table, data: str) -> Any:
    """Final loss against N, a row per reading: claimed P-ADMM alone and the others, certified all and P-ADMM."""
    readings, losses = readings_in(table), final_losses(table)
    picture, axes = canvas(len(readings), 2, width=6.0, height=4.2)
    own, others = [SETTING.champion], [contender.label for contender in SETTING.baselines]
    bare = means(chosen(losses, reading=Reading.NON_PRIVATE))
    for row, reading in zip(axes, readings, strict=True):
        if reading is Reading.CLAIMED:
            notes = cost_notes(table, SETTING.curves, reading=reading)
            _panel(row[0], losses, others, reading, "the others", notes, has_bare=True)
            _panel(row[1], losses, own, reading, "P-ADMM alone", notes)
        else:
            above = losses.assign(value=losses["value"] - bare.reindex(losses["x"]).to_numpy())
            _panel(row[0], losses, SETTING.compared, reading, "comparison", has_bare=True)
            _panel(row[1], above, own, reading, "P-ADMM", y=ABOVE_BARE)
    headline(
        picture, "P-ADMM, Fig. 4", data=data, privacy=privacy_of(SETTING, *SETTING.epsilons),
        shown="mean and std of the runs",
    )  # fmt: skip
    return picture


def _panel(
    ax: Any, losses: Table, curves: list[str], reading: Reading, title: str, notes: dict[str, str] | None = None,
    *, y: str = LOSS, has_bare: bool = False,
) -> None:  # fmt: skip
    """Draw these curves against N; on a logarithmic axis where all methods are compared."""
    rows = chosen(losses, curve=curves)
    draw_curves(ax, rows, SETTING.curves, reading=reading, spread=Spread.STD, is_marked=True, notes=notes)
    if has_bare:
        draw_curve(ax, chosen(losses, reading=Reading.NON_PRIVATE), label="non-private", place=None,
                   reading=Reading.NON_PRIVATE)  # fmt: skip
    finish(ax, f"{title}, {reading.value} noise", "agents N", f"{y} after {SETTING.rounds} iterations",
           is_log_x=True, is_log_y=has_bare, legend="above")  # fmt: skip
    ax.set_xticks(AGENTS, [str(agents) for agents in AGENTS])
    ax.xaxis.minorticks_off()


def findings(table: Table) -> tuple[Finding, ...]:
    """P-ADMM against R-ADMM for every N."""
    losses = final_losses(table)
    found = []
    for reading in readings_in(table):
        groups = [
            chosen(losses, reading=reading, curve=curve).groupby("x")["value"] for curve in (SETTING.champion, "R-ADMM")
        ]
        own, other = (group.mean() for group in groups)
        error = sum(group.var().fillna(0) / group.size() for group in groups) ** 0.5
        wins = own + 2 * error < other
        found.append(
            Finding(
                f"P-ADMM stays significantly below R-ADMM for large networks ({reading.value} noise)",
                "; ".join(f"N = {n:g}: {own[n]:.4g} against {other[n]:.4g}" for n in own.index)
                + "; significantly: by two standard errors",
                Verdict.SAME if wins.all() else Verdict.PARTLY if wins.any() else Verdict.DIFFERENT,
                f"Lemma 4 does not depend on the number of records; {OTHER_ETAS}" if reading is Reading.CLAIMED else
                f"from N = {own.index[0]:g} to {own.index[-1]:g}, with fewer records per agent, P-ADMM's loss changes "
                f"by {own.iloc[-1] - own.iloc[0]:+.2g}, R-ADMM's by {other.iloc[-1] - other.iloc[0]:+.2g}",
            )
        )  # fmt: skip
    return tuple(found)


FIGURE = Figure(
    name="p-admm/fig4",
    title="P-ADMM, Fig. 4: loss against the number of agents, eps = 10",
    reports="At the same total budget (eps = 10, K = 50) P-ADMM continues to outperform R-ADMM for large networks.",
    setting={**asdict(SETTING), "agents": AGENTS},
    choices=("The numbers of agents are not readable: 5 to 80, random networks of mean degree about 4.", *CHOICES),
    parts=tuple(
        Part(f"p-admm/fig4/n{agents}", partial(run_race, _at(agents)), seconds=40.0, needs_adult=True)
        for agents in AGENTS
    ),
    draw=draw,
    findings=findings,
    ground=ground(
        printed="an l2 term, total eps = 10, K = 50",
        used=f"N = {', '.join(map(str, AGENTS))}, R = 0.995, Lambda = {SETTING.l2_weight:g}",
        guessed="the numbers of agents, R and Lambda",
    ),
)
