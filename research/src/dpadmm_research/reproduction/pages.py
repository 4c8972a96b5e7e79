"""The documentation's pages, made from finished results: one per figure, an index, the scoreboard, README's block."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from dpadmm.errors import InputError
from dpadmm_research.reproduction.figure import Accounting, Figure, Finding, Size, Verdict
from dpadmm_research.reproduction.output import write_text
from dpadmm_research.reproduction.registry import ALL
from dpadmm_research.reproduction.table import Reading, Table, chosen, mean_at
from dpadmm_research.scoreboard import page
from dpadmm_research.scoreboard.page import MARKS

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


def write_pages(out: Path, docs: Path, figures: Sequence[Figure] = ALL) -> list[Path]:
    """Write `docs/reproduction/*` and `docs/scoreboard.md` from the results in `out`: all, or the scoreboard's alone.

    The figures must be there, at the papers' size, with their number of runs and both accountings. A `README.md` beside
    `docs` with the marks gets the scoreboard's block between them. The index needs all figures.
    """
    _refuse_all_but_full_results(out, figures)
    texts = {docs / "scoreboard.md": scoreboard(out)}
    texts |= _readme_with(readme_block(out), docs.absolute().parent / "README.md")
    if len(figures) == len(ALL):
        texts[docs / "reproduction" / "index.md"] = index(out)
    written = []
    for figure in figures:
        target = docs / "reproduction" / f"{figure.name.replace('/', '-')}.md"
        picture = target.with_suffix(".png")
        stem = figure.name.rsplit("/", 1)[-1]
        text = _file(out, figure.name, "md").read_text(encoding="utf-8").replace(f"({stem}.png)", f"({picture.name})")
        write_text(target, text)
        shutil.copyfile(_file(out, figure.name, "png"), picture)
        written += [target, picture]
    for path, text in texts.items():
        write_text(path, text)
    return [*written, *texts]


def _refuse_all_but_full_results(out: Path, figures: Sequence[Figure]) -> None:
    """Refuse results that are not what the pages say they are, before anything is written."""
    kinds = ("parquet", "json", "md", "png")
    missing = [figure.name for figure in figures if not all(_file(out, figure.name, kind).is_file() for kind in kinds)]
    if missing:
        raise InputError(
            f"These figures are not in {str(out)!r} yet: {', '.join(missing)}. Reproduce them first.", setting="figures"
        )
    wanted = {"size": Size.FULL.value, "runs": "the paper's", "accounting": Accounting.BOTH.value}
    for figure in figures:
        facts = _facts(out, figure.name)
        wrong = [f"{name}: {facts.get(name)!r}" for name, value in wanted.items() if facts.get(name) != value]
        if wrong:
            raise InputError(
                f"{figure.name} in {str(out)!r} was made with {', '.join(wrong)}; the pages need the papers' size and "
                "number of runs and both accountings. Run reproduce --all without --toy, --runs and --accounting.",
                setting="figure",
            )


def _readme_with(block: str, readme: Path) -> dict[Path, str]:
    """Return README with the new block, by its path; nothing where there is no README, or none with the marks."""
    text = readme.read_text(encoding="utf-8") if readme.is_file() else ""
    counts = [text.count(mark) for mark in MARKS]
    if counts == [0, 0]:
        return {}
    begin, end = (text.find(mark) for mark in MARKS)
    if counts != [1, 1] or end < begin:
        raise InputError(
            f"{str(readme)!r} must have {MARKS[0]} once and {MARKS[1]} once after it, or neither.", setting="readme"
        )
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
    for paper in dict.fromkeys(figure.paper for figure in ALL if figure.name in answered):
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
    lines += ["", "## The same noise, two readings", "", *_same_noise_rows(out)]
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
    """Return the scoreboard page, with what its figures took."""
    facts = [_facts(out, figure.name) for figure in page.FIGURES]
    parts = sum(len(figure.parts) for figure in page.FIGURES)
    cost = f"{parts} parts, {sum(each['processor_seconds'] for each in facts):.0f} s of processor time"
    return page.scoreboard([_table(out, figure.name) for figure in page.FIGURES], cost)


def readme_block(out: Path) -> str:
    """Return the short table for the README, between its markers."""
    return page.readme_block(_table(out, page.FIGURES[0].name))


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
