"""The scoreboard's page and README's block, from the numbers of its tables."""

from collections.abc import Sequence

from dpadmm.privacy.protection import View
from dpadmm_research.reproduction.figure import Figure
from dpadmm_research.reproduction.table import Reading, Table, chosen, mean_at
from dpadmm_research.scoreboard import adult, star
from dpadmm_research.scoreboard.entries import VIEWS, RoundKind, entry_of
from dpadmm_research.scoreboard.measured import AT_LIMIT, BARE, IS_TAIL
from dpadmm_research.scoreboard.planned import METHOD, planned_name
from dpadmm_research.scoreboard.rows import DELTA, ERROR, ROUND_COUNT, SECONDS, SILOS, TRAIN
from dpadmm_research.scoreboard.standings import duels_text, ranking

FIGURES = (adult.FIGURE, star.LASSO_FIGURE, star.CONTROL_FIGURE)
"""Whose tables the page shows, in this order."""
MARKS = ("<!-- scoreboard: begin -->", "<!-- scoreboard: end -->")
LIMIT = "\\*"
"""Beside a number that rests on a choice at a limit; escaped, since Markdown takes a star for emphasis."""
SHOWN = 3


def scoreboard(tables: Sequence[Table], cost: str) -> str:
    """Return the page from the tables of FIGURES; `cost` says what they took to make."""
    table = tables[0]
    lines = [
        "# Scoreboard",
        "",
        "For readers who compare methods: what each method reaches at the same budget. Each table says what the "
        f"budget means there, which unit is protected, and from whom. Made by `dpadmm reproduce scoreboard`: {cost}.",
        "",
        *readme_block(table).splitlines(),
        "",
        f"## {table['data'].iloc[0]}: training loss",
        "",
        f"All at the same certified budget, (eps, {DELTA:g}); a record is hidden.",
        "",
    ]
    for view in VIEWS:
        texts = f"ADMM against gradient methods, each the best of its kind: {duels_text(table, view, TRAIN)}."
        lines += [f"### View: {VIEWS[view].text}", "", texts, "", *_adult_rows(table, view), ""]
    lines += [f"{LIMIT} a number at a limit, which is named at the setting: the search could not go beyond it.", ""]
    lines += [f"* {choice}" for choice in adult.FIGURE.choices]
    for figure, numbers in zip(FIGURES[1:], tables[1:], strict=True):
        lines += _star_section(figure, numbers)
    return "\n".join([*lines, ""])


def readme_block(table: Table) -> str:
    """Return the short table for the README, between its markers."""
    budgets = _budgets(table)
    lines = [
        MARKS[0],
        "",
        f"| {table['data'].iloc[0]}, training loss | view | {' | '.join(f'eps {epsilon:g}' for epsilon in budgets)} |",
        "|---|---|" + "---|" * len(budgets),
    ]
    for view in VIEWS:
        for shown, name in ((PLANNED, planned_name(view)), *((name, name) for name in _leaders(table, view))):
            cells = [_loss_cell(table, name, epsilon, digits=3) for epsilon in budgets]
            lines.append(f"| {shown} | {VIEWS[view].name} | {' | '.join(cells)} |")
    bare = mean_at(table, metric=TRAIN, curve=BARE)
    mark = f" {LIMIT} a setting at a limit of its search." if any(LIMIT in line for line in lines) else ""
    lines += [
        f"| non-private | | {' | '.join([f'{bare:.3f}'] * len(budgets))} |",
        "",
        f"Certified for (eps, {DELTA:g}); {SILOS} silos; a record is hidden. *messages*: from an eavesdropper, "
        "*release*: with a trusted coordinator. **dpadmm as planned**: the defaults, nothing tuned on the data. All "
        "other settings are searched by training loss, so they show what a method can reach; of each view: the "
        f"{SHOWN} lowest at eps {_middle(budgets):g}, and the best ADMM and gradient method there. No ridge; rows "
        f"encoded by a column profile that every epsilon counts.{mark}",
        "",
        MARKS[1],
    ]
    return "\n".join(lines)


PLANNED = "**dpadmm as planned**"


def _budgets(table: Table) -> list[float]:
    return sorted(set(chosen(table, reading=Reading.CERTIFIED)["epsilon"]))


def _middle(budgets: list[float]) -> float:
    return budgets[len(budgets) // 2]


def _leaders(table: Table, view: View) -> list[str]:
    """Return the first few at the middle budget, and the first ADMM and gradient method if they are not among them."""
    names = ranking(table, view, TRAIN, _middle(_budgets(table)))
    first = {
        next((name for name in names if entry_of(name).kind is kind), "")
        for kind in (RoundKind.ADMM, RoundKind.GRADIENT)
    }
    return [name for place, name in enumerate(names) if place < SHOWN or name in first]


def _loss_cell(table: Table, name: str, epsilon: float, digits: int) -> str:
    """Return the mean training loss, marked where any choice behind it is at a limit; a dash without a plan."""
    rows = chosen(table, curve=name, epsilon=epsilon)
    value = mean_at(rows, metric=TRAIN)
    if value != value:
        return "-"
    is_limit = bool((rows["metric"].str.startswith(AT_LIMIT) & (rows["value"] != 0)).any())
    return (f"{value:.{digits}f}" if value < 10 else f"{value:.3g}") + (LIMIT if is_limit else "")


def _setting_cell(table: Table, name: str, epsilon: float) -> str:
    """Return every choice by name, and the limit that it is at."""
    rows, entry = chosen(table, curve=name, epsilon=epsilon), entry_of(name)
    texts = []
    for knob in (*entry.knobs, entry.rounds):
        side = mean_at(rows, metric=AT_LIMIT + knob.name)
        mark = f"{LIMIT} ({knob.limit_text(side)})" if side else ""
        texts.append(f"{knob.name} {mean_at(rows, metric=knob.name):.4g}{mark}")
    return ", ".join([*texts, "tail average" if mean_at(rows, metric=IS_TAIL) > 0 else "last iterate"])


def _planned_cell(table: Table, name: str, epsilon: float) -> str:
    """Return what the planner chose."""
    rows = chosen(table, curve=name, epsilon=epsilon)
    method = next(metric for metric in rows["metric"] if metric.startswith(METHOD))
    return f"not tuned; {method}, rounds {mean_at(rows, metric=ROUND_COUNT):g}"


def _adult_rows(table: Table, view: View) -> list[str]:
    budgets = _budgets(table)
    at = _middle(budgets)
    lines = [
        "| method | certified for | " + " | ".join(f"eps {epsilon:g}" for epsilon in budgets)
        + f" | test error, eps {at:g} | setting there | s a run |",
        "|---|---|" + "---|" * (len(budgets) + 3),
    ]  # fmt: skip
    own = planned_name(view)
    lines.append(_adult_row(table, PLANNED, own, view, _planned_cell(table, own, at)))
    for name in ranking(table, view, TRAIN, at):
        has_numbers = len(chosen(table, curve=name, epsilon=at)) > 0
        lines.append(
            _adult_row(table, name, name, entry_of(name).view, _setting_cell(table, name, at) if has_numbers else "-")
        )
    bare = mean_at(table, metric=TRAIN, curve=BARE)
    error = mean_at(table, metric=ERROR, curve=BARE)
    lines.append("| non-private | | " + " | ".join([f"{bare:.4f}"] * len(budgets)) + f" | {error:.4f} | - | - |")
    return lines


def _adult_row(table: Table, shown: str, name: str, view: View, setting: str) -> str:
    budgets = _budgets(table)
    rows = chosen(table, curve=name, epsilon=_middle(budgets))
    error, seconds = mean_at(rows, metric=ERROR), mean_at(rows, metric=SECONDS)
    cells = [shown, VIEWS[view].name, *(_loss_cell(table, name, epsilon, 4) for epsilon in budgets)]
    cells += [f"{error:.4f}" if len(rows) else "-", setting, f"{seconds:.2f}" if len(rows) else "-"]
    return f"| {' | '.join(cells)} |"


def _star_section(figure: Figure, table: Table) -> list[str]:
    lines = ["", f"## {figure.title.removeprefix('Scoreboard: ')}: relative error of the release", ""]
    lines += ["An agent's function is hidden from whoever hears the broadcasts.", "", *_star_rows(table), ""]
    if any(LIMIT in line for line in lines):
        lines += [f"{LIMIT} at a limit: one round, or no more than {star.MOST_ROUNDS} rounds are tried.", ""]
    return [*lines, *(f"* {choice}" for choice in figure.choices)]


def _star_rows(table: Table) -> list[str]:
    budgets = sorted(set(table["epsilon"]))
    lines = [
        "| noise | " + " | ".join(f"eps {epsilon:g}" for epsilon in budgets)
        + " | certified eps | rounds | rho | s a run |",
        "|---|" + "---|" * (len(budgets) + 4),
    ]  # fmt: skip
    for curve in star.CURVES:
        rows = chosen(table, curve=curve)
        values = {
            metric: [mean_at(rows, metric=metric, epsilon=epsilon) for epsilon in budgets]
            for metric in (star.ERROR, star.CERTIFIED_EPS, star.ROUND_COUNT, star.PENALTY, star.IS_LIMIT)
        }
        marks = [LIMIT if side else "" for side in values[star.IS_LIMIT]]
        cells = [f"{value:.2g}{mark}" for value, mark in zip(values[star.ERROR], marks, strict=True)]
        cells += [_listed(values[metric]) for metric in (star.CERTIFIED_EPS, star.ROUND_COUNT, star.PENALTY)]
        cells.append(f"{chosen(rows, metric=star.SECONDS)['value'].mean():.2f}")
        lines.append(f"| {curve} | " + " | ".join(cells) + " |")
    return lines


def _listed(values: list[float]) -> str:
    """Return one value per budget, in their order; a single one if they are all the same."""
    texts = [f"{value:.4g}" for value in values]
    return texts[0] if len(set(texts)) == 1 else ", ".join(texts)
