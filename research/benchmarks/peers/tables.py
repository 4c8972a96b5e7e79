"""The figures of the comparison as Markdown tables, and who is ahead of whom."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from accuracy import Figure
from peers.contenders import Contender, Kind, Scaling, View
from peers.measuring import Bench
from peers.results import LOSS, MEGABYTES, PROCESSOR, SECONDS, cost_of, figure_of
from peers.sets import load

TIE = 2.0
"""Standard errors of the difference within which two contenders are level."""


@dataclass(frozen=True)
class Board:
    """All that was measured, to be looked up."""

    bench: Bench
    contenders: Sequence[Contender]
    sets: Sequence[str]

    def figure(self, contender: Contender, name: str, epsilon: float, metric: str) -> Figure | None:
        """Return the mean of the runs with its standard error, None where runs are missing or failed."""
        cells = self.bench.shown(contender, name, epsilon)
        return figure_of(
            (self.bench.results.get(contender, cell) for cell in cells), metric, len(load(name).train)
        )  # fmt: skip

    def costs(self, contender: Contender, name: str) -> tuple[float, float, float]:
        """Return seconds, processor seconds and megabytes of a first fit, calibration or planning included."""
        epsilons = self.bench.epsilons_of(contender)
        first = [cell for epsilon in epsilons for cell in self.bench.shown(contender, name, epsilon)[:1]]
        found = [self.bench.results.get(contender, cell) for cell in first]
        seconds, processor, megabytes = (cost_of(found, what) for what in (SECONDS, PROCESSOR, MEGABYTES))
        return seconds, processor, megabytes

    def missing(self) -> list[str]:
        """Return what has no figure at some budget, by data set and name; such cells show a dash."""
        return [
            f"{load(name).title}: {', '.join(left)}"
            for name in self.sets
            if (left := [each.name for each in self.contenders if not self._is_complete(each, name)])
        ]

    def _is_complete(self, contender: Contender, name: str) -> bool:
        return all(self.figure(contender, name, epsilon, LOSS) is not None for epsilon in self.bench.epsilons)

    def of(self, view: View, scalings: Iterable[Scaling]) -> list[Contender]:
        """Return the contenders of a table, ours first and the non-private one last; it is in all of them."""
        wanted = set(scalings)
        return [
            each
            for kind in (Kind.OURS, Kind.DEFAULT, Kind.TUNED)
            for each in self.contenders
            if each.kind is kind and each.view is view and (each.scaling in wanted or kind is Kind.OURS)
        ] + [each for each in self.contenders if each.kind is Kind.NON_PRIVATE]

    def best(self, among: Sequence[Contender], name: str, epsilon: float) -> tuple[Contender, Figure] | None:
        """Return the contender with the least held-out loss."""
        found = [(each, self.figure(each, name, epsilon, LOSS)) for each in among]
        known = [(each, score) for each, score in found if score is not None]
        return min(known, key=lambda pair: pair[1].mean, default=None)

    def ours(self, view: View, name: str, epsilon: float) -> Figure | None:
        """Return our own held-out loss in a view."""
        found = self.best(
            [each for each in self.contenders if each.kind is Kind.OURS and each.view is view], name, epsilon
        )
        return None if found is None else found[1]


def said(score: Figure | None) -> str:
    """Say a figure shortly."""
    if score is None:
        return "-"
    digits = 4 if abs(score.mean) < 1 else 2
    error = "" if not score.standard_error > 0 else f" ± {score.standard_error:.{digits}f}"
    return f"{score.mean:.{digits}f}{error}"


def lead(ours: Figure, theirs: Figure) -> float:
    """Return by how many standard errors of the difference our loss is lower; without errors, the sign alone."""
    error = math.hypot(ours.standard_error, theirs.standard_error)
    better = theirs.mean - ours.mean
    return better / error if error > 0 else math.copysign(math.inf, better)


def name_for(ours: Figure, theirs: Figure) -> str:
    """Say whether ours is ahead, level or behind."""
    found = lead(ours, theirs)
    return "ahead" if found > TIE else "**behind**" if found < -TIE else "level"


def metric_table(board: Board, among: Sequence[Contender], name: str, metric: str) -> list[str]:
    """Return one metric of one data set: a row a contender, a column a budget."""
    epsilons = board.bench.epsilons
    lines = _head([metric, "guarantee", *(f"eps {epsilon:g}" for epsilon in epsilons)])
    for each in among:
        cells = [said(board.figure(each, name, epsilon, metric)) for epsilon in epsilons]
        if any(cell != "-" for cell in cells):
            lines.append(_row([each.title, each.guarantee, *cells]))
    return lines


def cost_table(board: Board) -> list[str]:
    """Return what a first fit takes: a row a contender, three numbers a data set."""
    lines = _head(["a first fit", "view", *(load(name).title for name in board.sets)])
    for each in board.contenders:
        if each.scaling is Scaling.PROFILE:
            continue
        cells = []
        for name in board.sets:
            seconds, processor, megabytes = board.costs(each, name)
            cells.append("-" if math.isnan(seconds) else f"{seconds:.2g} s, {processor:.2g} s, {megabytes:.0f} MB")
        lines.append(_row([each.title, each.view.value, *cells]))
    return lines


def choice_table(board: Board) -> list[str]:
    """Return the settings that were chosen with the data, a row a contender and data set."""
    lines = _head(["tuned †", "encoding", "data", *(f"eps {epsilon:g}" for epsilon in board.bench.epsilons)])
    for each in board.contenders:
        if each.kind is not Kind.TUNED:
            continue
        for name in board.sets:
            cells = []
            for epsilon in board.bench.epsilons:
                chosen = board.bench.chosen(each, name, epsilon)
                cells.append("-" if chosen is None else _settings(each, chosen))
            title = each.title.removesuffix(", tuned †") + (", add-remove" if each.view is View.ADD_REMOVE else "")
            lines.append(_row([title, each.scaling.value, load(name).title, *cells]))
    return lines


def _settings(contender: Contender, chosen: dict[str, Any]) -> str:
    varied = ", ".join(f"{key} {chosen[key]}" for key, values in contender.grid.items() if len(values) > 1)
    return varied + (" \\*" if contender.is_at_edge(chosen) else "")


def summary_table(board: Board, groups: Sequence[tuple[str, Sequence[Contender]]], view: View) -> list[str]:
    """Return, for every data set and budget, our loss, the best of every group beside it, and the non-private one."""
    bare = [each for each in board.contenders if each.kind is Kind.NON_PRIVATE]
    lines = _head(["held-out log-loss", "eps", "dpadmm", *(title for title, _ in groups), "pooled, not private"])
    for name in board.sets:
        for epsilon in board.bench.epsilons:
            own = board.ours(view, name, epsilon)
            if own is None:
                continue
            cells = [_beside(board, own, among, name, epsilon) for _, among in groups]
            lines.append(_row([load(name).title, f"{epsilon:g}", said(own), *cells, _mean(board, bare, name, epsilon)]))
    return lines


def _mean(board: Board, among: Sequence[Contender], name: str, epsilon: float) -> str:
    found = board.best(among, name, epsilon)
    return "-" if found is None else f"{found[1].mean:.4f}"


def _beside(board: Board, own: Figure, among: Sequence[Contender], name: str, epsilon: float) -> str:
    found = board.best(among, name, epsilon)
    if found is None:
        return "-"
    title = found[0].title.split(",")[0].removesuffix(" LogisticRegression").removesuffix(" DP-SGD")
    term = name_for(own, found[1])
    lower = ", theirs lower" if term == "level" and found[1].mean < own.mean else ""
    return f"{said(found[1])} {title}: {term}{lower}"


def tally(board: Board, among: Sequence[Contender], view: View) -> tuple[str, list[str]]:
    """Return how often ours is ahead of the best of these, level and behind, and in words where it is behind."""
    texts, behind = [], []
    for name in board.sets:
        for epsilon in board.bench.epsilons:
            own, found = board.ours(view, name, epsilon), board.best(among, name, epsilon)
            if own is None or found is None:
                continue
            texts.append(name_for(own, found[1]))
            if own.mean > found[1].mean:
                verdict = "" if texts[-1] != "level" else ", within two standard errors"
                behind.append(
                    f"{load(name).title}, eps {epsilon:g}: {said(own)} against {said(found[1])} "
                    f"({found[0].title.removesuffix(', tuned †')}{verdict})"
                )
    total = len(texts)
    counts = {term: texts.count(term) for term in ("ahead", "level", "**behind**")}
    text = f"ahead in {counts['ahead']} of {total}, level in {counts['level']}, behind in {counts['**behind**']}"
    return text, behind


def _head(titles: Sequence[str]) -> list[str]:
    return [_row(titles), "|" + "---|" * len(titles)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
