"""The documentation's pages, made from finished results: one per figure, an index, the scoreboard, README's block."""

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd

from dpadmm.errors import InputError
from dpadmm.papers.reproduction.figure import Accounting, Figure, Finding, Size, Verdict
from dpadmm.papers.reproduction.output import write_text
from dpadmm.papers.reproduction.registry import ALL
from dpadmm.papers.reproduction.table import Reading, Table, chosen, mean_at
from dpadmm.papers.scoreboard import adult, star
from dpadmm.papers.scoreboard.entries import RoundKind, Sight, entry_of
from dpadmm.papers.scoreboard.standings import duels_in_words, ranking

MARKS = ("<!-- scoreboard: begin -->", "<!-- scoreboard: end -->")
EDGE = "\\*"
"""Beside a number that rests on a choice at the edge of its grid; escaped, since Markdown takes a star for emphasis."""
SHOWN = 3

# The same noise by the paper's formula and by the certificates: (figure, method, curve, metric).
SAME_NOISE = (
    ("p-admm/fig1", "P-ADMM (R = 0.995)", "P-ADMM, R = 0.995", "certified eps"),
    ("p-admm/fig1", "DVP", "DVP", "certified eps"),
    ("p-admm/fig1", "M-ADMM", "M-ADMM", "certified eps"),
    ("p-admm/fig1", "R-ADMM", "R-ADMM", "certified eps"),
    ("consensus/fig2a", "Consensus DP-ADMM, LASSO", "DP-ADMM", "certified epsilon"),
    ("consensus/fig2d", "Consensus DP-ADMM, harder LASSO", "DP-ADMM", "certified epsilon"),
    ("consensus/fig3", "Consensus DP-ADMM, control", "DP-ADMM", "certified epsilon"),
    ("ps-admm/fig2", "PS-ADMM", "PS-ADMM", "certified eps"),
    ("fixed-point/fig1", "Fixed-point ADMM, noise as coded", "private ADMM, as coded", "certified eps"),
    ("fixed-point/fig1", "Fixed-point ADMM, square root taken", "private ADMM, square root taken", "certified eps"),
)


def write_pages(out: Path, docs: Path) -> list[Path]:
    """Write `docs/reproduction/*` and `docs/scoreboard.md` from the results in `out`.

    All figures must be there, at the papers' size, with their number of runs and both accountings. A `README.md` beside
    `docs` with the marks gets the scoreboard's block between them.
    """
    _refuse_all_but_full_results(out)
    readme = _readme_with(readme_block(out), docs.absolute().parent / "README.md")
    written = []
    for figure in ALL:
        page = docs / "reproduction" / f"{figure.name.replace('/', '-')}.md"
        picture = page.with_suffix(".png")
        stem = figure.name.rsplit("/", 1)[-1]
        text = _file(out, figure.name, "md").read_text(encoding="utf-8").replace(f"({stem}.png)", f"({picture.name})")
        write_text(page, text)
        shutil.copyfile(_file(out, figure.name, "png"), picture)
        written += [page, picture]
    texts = {docs / "reproduction" / "index.md": index(out), docs / "scoreboard.md": scoreboard(out), **readme}
    for path, text in texts.items():
        write_text(path, text)
    return [*written, *texts]


def _refuse_all_but_full_results(out: Path) -> None:
    """Refuse results that are not what the pages say they are, before anything is written."""
    kinds = ("parquet", "json", "md", "png")
    missing = [figure.name for figure in ALL if not all(_file(out, figure.name, kind).is_file() for kind in kinds)]
    if missing:
        raise InputError(f"These figures are not in {str(out)!r} yet: {', '.join(missing)}. Run reproduce --all first.")
    wanted = {"size": Size.FULL.value, "runs": "the paper's", "accounting": Accounting.BOTH.value}
    for figure in ALL:
        facts = _facts(out, figure.name)
        wrong = [f"{name}: {facts.get(name)!r}" for name, value in wanted.items() if facts.get(name) != value]
        if wrong:
            raise InputError(
                f"{figure.name} in {str(out)!r} was made with {', '.join(wrong)}; the pages need the papers' size and "
                "number of runs and both accountings. Run reproduce --all without --toy, --runs and --accounting."
            )


def _readme_with(block: str, readme: Path) -> dict[Path, str]:
    """Return README with the new block, by its path; nothing where there is no README, or none with the marks."""
    text = readme.read_text(encoding="utf-8") if readme.is_file() else ""
    counts = [text.count(mark) for mark in MARKS]
    if counts == [0, 0]:
        return {}
    begin, end = (text.find(mark) for mark in MARKS)
    if counts != [1, 1] or end < begin:
        raise InputError(f"{str(readme)!r} must have {MARKS[0]} once and {MARKS[1]} once after it, or neither.")
    return {readme: text[:begin] + block + text[end + len(MARKS[1]) :]}


def _file(out: Path, name: str, kind: str) -> Path:
    return out / name / f"{name.rsplit('/', 1)[-1]}.{kind}"


def _table(out: Path, name: str) -> Table:
    return pd.read_parquet(_file(out, name, "parquet"))


def _facts(out: Path, name: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(_file(out, name, "json").read_text(encoding="utf-8"))
    return facts


def index(out: Path) -> str:
    """Return the list of figures with the verdict on every claim, and how many of each there are for every paper."""
    answered = {figure.name: _answered(out, figure) for figure in ALL if figure.ground is not None}
    lines = [
        "# The papers' figures",
        "",
        "`dpadmm reproduce --all` makes every page here, `--list` names the figures. A verdict is about the setting "
        "that the paper prints; each page says what was printed, what was used and what had to be guessed.",
        "",
        f"| paper | {' | '.join(verdict.value for verdict in Verdict)} |",
        "|---|" + "---|" * len(Verdict),
    ]
    for paper in dict.fromkeys(name.split("/")[0] for name in answered):
        mine = [
            finding.verdict for name, found in answered.items() for finding in found if name.startswith(f"{paper}/")
        ]
        lines.append(f"| {paper} | {' | '.join(str(mine.count(verdict)) for verdict in Verdict)} |")
    lines += ["", "| figure | claim of the paper | verdict | what we see | guessed |", "|---|---|---|---|---|"]
    for figure in ALL:
        link = f"[{figure.name}]({figure.name.replace('/', '-')}.md)"
        for finding in answered.get(figure.name, ()):
            ground = figure.ground_of(finding)
            guessed = "" if ground is None else ground.guessed
            lines.append(f"| {link} | {finding.claim} | {finding.verdict.value} | {finding.seen} | {guessed} |")
    return "\n".join([*lines, *_cost(out), ""])


def _answered(out: Path, figure: Figure) -> list[Finding]:
    """Return the answers to what the paper itself says; those in brackets are about what it does not show."""
    return [finding for finding in figure.findings(_table(out, figure.name)) if not finding.claim.startswith("(")]


def _cost(out: Path) -> list[str]:
    """Return what the run took, if `out` tells and one call computed every part: else the wall time means nothing."""
    path = out / "outcome.json"
    outcome = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    parts = len({part.name for figure in ALL for part in figure.parts})
    if outcome.get("found") != 0 or outcome.get("computed") != parts:
        return []
    processor, wall, cores = (outcome[name] for name in ("processor_seconds", "wall_seconds", "processes"))
    return ["", f"{parts} parts, {processor:.0f} s of processor time; {wall:.0f} s on {cores} cores."]


def scoreboard(out: Path) -> str:
    """Return the scoreboard page."""
    table = _table(out, adult.FIGURE.name)
    data = table["data"].iloc[0]
    lines = [
        "# Scoreboard",
        "",
        "What each method reaches at the same budget. Each table says what the budget means there, which unit is "
        "hidden, and from whom. Made by `dpadmm reproduce --all`.",
        *_cost(out),
        "",
        *readme_block(out).splitlines(),
        "",
        f"## {data}: training loss",
        "",
        f"All at the same certified budget, (eps, {adult.DELTA:g}) or pure eps; a record is hidden.",
        "",
    ]
    for sight in Sight:
        words = (
            f"ADMM against gradient methods, each the best of its kind: {duels_in_words(table, sight, adult.TRAIN)}."
        )
        lines += [f"### View: {sight.value}", "", words, "", *_adult_rows(table, sight), ""]
    lines += [f"{EDGE} a choice at the edge of its grid: beyond it the method may do better.", ""]
    lines += [f"* {choice}" for choice in adult.FIGURE.choices]
    for figure in (star.LASSO_FIGURE, star.CONTROL_FIGURE):
        lines += ["", f"## {figure.title.removeprefix('Scoreboard: ')}: relative error of the release", ""]
        lines += ["An agent's function is hidden from whoever hears the broadcasts.", ""]
        lines += [*_star_rows(_table(out, figure.name)), ""]
        lines += [f"{EDGE} the fewest or the most rounds that were tried: others may do better.", ""]
        lines += [f"* {choice}" for choice in figure.choices]
    lines += ["", "## The same noise, two readings", "", *_same_noise_rows(out), ""]
    return "\n".join(lines)


def readme_block(out: Path) -> str:
    """Return the short table for the README, between its markers."""
    table = _table(out, adult.FIGURE.name)
    budgets = _budgets(table)
    lines = [
        MARKS[0],
        "",
        f"| {table['data'].iloc[0]}, training loss | view | {' | '.join(f'eps {epsilon:g}' for epsilon in budgets)} |",
        "|---|---|" + "---|" * len(budgets),
    ]
    for sight in Sight:
        for name in _leaders(table, sight):
            cells = [_loss_cell(table, name, epsilon, digits=3) for epsilon in budgets]
            lines.append(f"| {name} | {sight.name.lower()} | {' | '.join(cells)} |")
    bare = mean_at(table, metric=adult.TRAIN, curve=adult.BARE)
    lines += [
        f"| non-private | | {' | '.join([f'{bare:.3f}'] * len(budgets))} |",
        "",
        f"Certified for (eps, {adult.DELTA:g}); {adult.SILOS} silos; a record is hidden. *messages*: from an "
        "eavesdropper, *release*: with a trusted coordinator. Settings are chosen by training loss, so it shows what a "
        f"method can reach. Of each view: the {SHOWN} lowest at eps {_middle(budgets):g}, and the best ADMM and "
        f"gradient method there. {EDGE} a choice at the edge of its grid. All models, the non-private one included, "
        "carry a small ridge that is not counted in the loss.",
        "",
        MARKS[1],
    ]
    return "\n".join(lines)


def _budgets(table: Table) -> list[float]:
    return sorted(set(chosen(table, reading=Reading.CERTIFIED)["epsilon"]))


def _middle(budgets: list[float]) -> float:
    return budgets[len(budgets) // 2]


def _leaders(table: Table, sight: Sight) -> list[str]:
    """Return the first few at the middle budget, and the first ADMM and gradient method if they are not among them."""
    names = ranking(table, sight, adult.TRAIN, _middle(_budgets(table)))
    first = {
        next((name for name in names if entry_of(name).kind is kind), "")
        for kind in (RoundKind.ADMM, RoundKind.GRADIENT)
    }
    return [name for place, name in enumerate(names) if place < SHOWN or name in first]


def _loss_cell(table: Table, name: str, epsilon: float, digits: int) -> str:
    """Return the mean training loss, marked where any choice behind it is at an edge; a dash without a plan."""
    rows = chosen(table, curve=name, epsilon=epsilon)
    value = mean_at(rows, metric=adult.TRAIN)
    if value != value:
        return "-"
    is_edge = bool((rows["metric"].str.startswith(adult.EDGE) & (rows["value"] > 0)).any())
    return (f"{value:.{digits}f}" if value < 10 else f"{value:.3g}") + (EDGE if is_edge else "")


def _setting_cell(table: Table, name: str, epsilon: float) -> str:
    """Return every choice by name, marked where it is at an edge."""
    rows = chosen(table, curve=name, epsilon=epsilon)
    words = []
    for choice in (*(knob.name for knob in entry_of(name).knobs), adult.ROUND_COUNT):
        mark = EDGE if mean_at(rows, metric=adult.EDGE + choice) > 0 else ""
        words.append(f"{choice} {mean_at(rows, metric=choice):g}{mark}")
    return ", ".join([*words, "tail average" if mean_at(rows, metric=adult.IS_TAIL) > 0 else "last iterate"])


def _adult_rows(table: Table, sight: Sight) -> list[str]:
    budgets = _budgets(table)
    at = _middle(budgets)
    lines = [
        "| method | certified for | " + " | ".join(f"eps {epsilon:g}" for epsilon in budgets)
        + f" | test error, eps {at:g} | setting there | s a run |",
        "|---|---|" + "---|" * (len(budgets) + 3),
    ]  # fmt: skip
    for name in ranking(table, sight, adult.TRAIN, at):
        cells = [entry_of(name).sight.name.lower(), *(_loss_cell(table, name, epsilon, 4) for epsilon in budgets)]
        rows = chosen(table, curve=name, epsilon=at)
        if len(rows):
            cells += [f"{mean_at(rows, metric=adult.ERROR):.4f}", _setting_cell(table, name, at)]
            cells += [f"{mean_at(rows, metric=adult.SECONDS):.2f}"]
        else:
            cells += ["-"] * 3
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    bare = mean_at(table, metric=adult.TRAIN, curve=adult.BARE)
    error = mean_at(table, metric=adult.ERROR, curve=adult.BARE)
    lines.append("| non-private | | " + " | ".join([f"{bare:.4f}"] * len(budgets)) + f" | {error:.4f} | - | - |")
    return lines


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
            for metric in (star.ERROR, star.CERTIFIED_EPS, star.ROUND_COUNT, star.PENALTY, star.IS_EDGE)
        }
        marks = [EDGE if is_edge > 0 else "" for is_edge in values[star.IS_EDGE]]
        cells = [f"{value:.2g}{mark}" for value, mark in zip(values[star.ERROR], marks, strict=True)]
        cells += [_listed(values[metric]) for metric in (star.CERTIFIED_EPS, star.ROUND_COUNT, star.PENALTY)]
        cells.append(f"{chosen(rows, metric=star.SECONDS)['value'].mean():.2f}")
        lines.append(f"| {curve} | " + " | ".join(cells) + " |")
    return lines


def _listed(values: list[float]) -> str:
    """Return one value per budget, in their order; a single one if they are all the same."""
    words = [f"{value:.3g}" for value in values]
    return words[0] if len(set(words)) == 1 else ", ".join(words)


def _same_noise_rows(out: Path) -> list[str]:
    lines = [
        "What the papers' own noise costs by the certificates. A ratio above 1: the noise is certified for that much "
        "less than the paper claims; below 1: the certificates do not bear out the paper's epsilon. Certified figures "
        "are upper bounds: fixed-point ADMM's is for whoever sees the messages, while its paper speaks of the final "
        "model only.",
        "",
        "| method | eps by the paper | certified eps | ratio | figure |",
        "|---|---|---|---|---|",
    ]
    for name, label, curve, metric in SAME_NOISE:
        rows = chosen(_table(out, name), metric=metric, curve=curve, reading=Reading.CLAIMED)
        for epsilon in sorted(set(rows["epsilon"])):
            spent = mean_at(rows, epsilon=epsilon)
            ratio = f"{epsilon / spent:.3g}" if spent > 0 else "infinite: delta alone covers it"
            lines.append(f"| {label} | {epsilon:g} | {spent:.3g} | {ratio} | {name} |")
    return lines
