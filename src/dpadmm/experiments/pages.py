"""The documentation's pages, made from finished results: one per figure, an index, and the scoreboard."""

import json
import shutil
from pathlib import Path

import pandas as pd

from dpadmm.errors import InputError
from dpadmm.experiments.output import write_text
from dpadmm.experiments.registry import ALL
from dpadmm.experiments.scoreboard import adult, star
from dpadmm.experiments.scoreboard.entries import Sight
from dpadmm.experiments.table import Reading, Table, chosen, mean_at

MARKS = ("<!-- scoreboard: begin -->", "<!-- scoreboard: end -->")
SHORT_BUDGETS = (1.0,)

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
    ("fixed-point/fig1", "Fixed-point ADMM, federated", "private ADMM (Alg. 3/6)", "certified eps"),
)


def write_pages(out: Path, docs: Path) -> list[Path]:
    """Write `docs/reproduction/*` and `docs/scoreboard.md` from the results in `out`; all figures must be there."""
    missing = [figure.name for figure in ALL if not _file(out, figure.name, "parquet").is_file()]
    if missing:
        raise InputError(f"These figures are not in {str(out)!r} yet: {', '.join(missing)}. Run reproduce --all first.")
    written = []
    for figure in ALL:
        page = docs / "reproduction" / f"{figure.name.replace('/', '-')}.md"
        picture = page.with_suffix(".png")
        stem = figure.name.rsplit("/", 1)[-1]
        text = _file(out, figure.name, "md").read_text(encoding="utf-8").replace(f"({stem}.png)", f"({picture.name})")
        write_text(page, text)
        shutil.copyfile(_file(out, figure.name, "png"), picture)
        written += [page, picture]
    write_text(docs / "reproduction" / "index.md", index(out))
    write_text(docs / "scoreboard.md", scoreboard(out))
    return [*written, docs / "reproduction" / "index.md", docs / "scoreboard.md"]


def _file(out: Path, name: str, kind: str) -> Path:
    return out / name / f"{name.rsplit('/', 1)[-1]}.{kind}"


def _table(out: Path, name: str) -> Table:
    return pd.read_parquet(_file(out, name, "parquet"))


def index(out: Path) -> str:
    """Return the list of figures with the verdict on every claim."""
    lines = [
        "# The papers' figures",
        "",
        "`dpadmm reproduce --all` makes every page here, `--list` names the figures.",
        "",
    ]
    lines += ["| figure | claim of the paper | verdict | what we see |", "|---|---|---|---|"]
    for figure in ALL:
        link = f"[{figure.name}]({figure.name.replace('/', '-')}.md)"
        for finding in figure.findings(_table(out, figure.name)):
            if not finding.claim.startswith("("):
                lines.append(f"| {link} | {finding.claim} | {finding.verdict.value} | {finding.seen} |")
    seconds = sum(
        json.loads(_file(out, figure.name, "json").read_text(encoding="utf-8"))["processor_seconds"] for figure in ALL
    )
    lines += ["", f"All of it took {seconds:.0f} s of processor time.", ""]
    return "\n".join(lines)


def scoreboard(out: Path) -> str:
    """Return the scoreboard page."""
    table = _table(out, adult.FIGURE.name)
    data = table["data"].iloc[0]
    lines = [
        "# Scoreboard",
        "",
        "Every method at equal *certified* epsilon, unit and view. Made by `dpadmm reproduce --all`.",
        "",
    ]
    lines += [*readme_block(out).splitlines(), ""]
    lines += [f"## {data}: training loss", ""]
    for sight in Sight:
        lines += [f"### View: {sight.value}", "", *_adult_rows(table, sight), ""]
    lines += [f"* {choice}" for choice in adult.FIGURE.choices]
    for figure in (star.LASSO_FIGURE, star.CONTROL_FIGURE):
        lines += ["", f"## {figure.title.removeprefix('Scoreboard: ')}: relative error of the release", ""]
        lines += [*_star_rows(_table(out, figure.name)), "", *(f"* {choice}" for choice in figure.choices)]
    lines += ["", "## The same noise, two readings", "", *_same_noise_rows(out), ""]
    return "\n".join(lines)


def readme_block(out: Path) -> str:
    """Return the short table for the README, between its markers."""
    table = _table(out, adult.FIGURE.name)
    budgets = sorted(set(chosen(table, reading=Reading.CERTIFIED)["epsilon"]))
    head = [f"eps {epsilon:g}" for epsilon in budgets]
    lines = [
        MARKS[0],
        "",
        f"| {table['data'].iloc[0]}, training loss | {' | '.join(head)} |",
        "|---|" + "---|" * len(head),
    ]
    for sight in Sight:
        losses = chosen(table, metric=adult.TRAIN, panel=sight.name)
        mean = losses.groupby(["curve", "epsilon"])["value"].mean().unstack()
        order = mean.mean(axis=1).sort_values().index[:3]
        lines += [
            f"| {name} ({sight.name.lower()}) | "
            + " | ".join(f"{mean.loc[name].get(e, float('nan')):.3f}" for e in budgets)
            + " |"
            for name in order
        ]
    bare = mean_at(table, metric=adult.TRAIN, curve="non-private")
    lines += [f"| non-private | {' | '.join([f'{bare:.3f}'] * len(budgets))} |", "", MARKS[1]]
    return "\n".join(lines)


def _adult_rows(table: Table, sight: Sight) -> list[str]:
    budgets = sorted(set(chosen(table, reading=Reading.CERTIFIED)["epsilon"]))
    names = list(dict.fromkeys(chosen(table, panel=sight.name)["curve"]))
    at = budgets[len(budgets) // 2]
    lines = [
        "| method | " + " | ".join(f"eps {epsilon:g}" for epsilon in budgets)
        + f" | test error, eps {at:g} | setting there | rounds | s a run |",
        "|---|" + "---|" * (len(budgets) + 4),
    ]  # fmt: skip

    def mean(name: str, metric: str, epsilon: float) -> float:
        return mean_at(table, metric=metric, curve=name, epsilon=epsilon)

    for name in sorted(names, key=lambda name: mean(name, adult.TRAIN, at)):
        cells = []
        for epsilon in budgets:
            value = mean(name, adult.TRAIN, epsilon)
            cells.append("-" if value != value else f"{value:.4f}" if value < 10 else f"{value:.3g}")
        tail = "tail" if mean(name, adult.IS_TAIL, at) else "last"
        cells += [f"{mean(name, adult.ERROR, at):.4f}", f"{mean(name, adult.NUMBER, at):g}, {tail}"]
        cells += [f"{mean(name, adult.ROUND_COUNT, at):g}", f"{mean(name, adult.SECONDS, at):.2f}"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    bare = mean_at(table, metric=adult.TRAIN, curve="non-private")
    error = mean_at(table, metric=adult.ERROR, curve="non-private")
    lines.append("| non-private | " + " | ".join([f"{bare:.4f}"] * len(budgets)) + f" | {error:.4f} | - | - | - |")
    return lines


def _star_rows(table: Table) -> list[str]:
    budgets = sorted(set(table["epsilon"]))
    lines = [
        "| noise | " + " | ".join(f"eps {epsilon:g}" for epsilon in budgets) + " | rounds | rho | s a run |",
        "|---|" + "---|" * (len(budgets) + 3),
    ]
    for curve in star.CURVES:
        rows = chosen(table, curve=curve)
        cells = [f"{mean_at(rows, metric=star.ERROR, epsilon=epsilon):.2g}" for epsilon in budgets]
        rounds = [f"{mean_at(rows, metric=star.ROUND_COUNT, epsilon=epsilon):g}" for epsilon in budgets]
        penalties = sorted({f"{value:.3g}" for value in chosen(rows, metric=star.PENALTY)["value"]})
        seconds = chosen(rows, metric=star.SECONDS)["value"].mean()
        lines.append(
            f"| {curve} | " + " | ".join(cells) + f" | {', '.join(rounds)} | {', '.join(penalties)} | {seconds:.2f} |"
        )
    return lines


def _same_noise_rows(out: Path) -> list[str]:
    lines = [
        "What the papers' own noise costs by the certificates. Above 1: the paper adds that much too much noise; "
        "below 1: its noise does not pay for its epsilon. Certified figures are upper bounds: PS-ADMM's is for an "
        "even split of its noise, fixed-point ADMM's for whoever sees the messages, while its paper speaks of "
        "the final model only.",
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
