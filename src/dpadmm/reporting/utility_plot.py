"""Expected utility against epsilon: a few bars on the terminal, and a plot in a file."""

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from dpadmm.planning.forecast import ScoreKind
from dpadmm.planning.planner import UtilityPoint

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
_BAR = 10  # so that the table is whole on a terminal of 80 columns


def epsilons_around(epsilon: float) -> tuple[float, ...]:
    """Return the budgets to plot: the usual ones and the one asked for, in order.

    >>> epsilons_around(2.0)
    (0.1, 0.3, 1.0, 2.0, 3.0, 10.0)
    """
    return tuple(sorted({*EPSILONS, float(epsilon)}))


def terminal_curve(points: Sequence[UtilityPoint], epsilon: float) -> Table:
    """Return a table with one bar per epsilon, from having learned nothing to the model without noise."""
    score = points[0].expected.score.value
    table = Table(
        title=f"Expected {score} against epsilon (simulated on synthetic data)",
        title_justify="left",
        caption="learned: share of what a model without noise learns, by the loss",
        caption_justify="left",
    )
    table.add_column("epsilon", justify="right")
    table.add_column(score, justify="right")
    table.add_column("+-", justify="right")
    more = list(points[0].expected.figures)
    for name in more:
        table.add_column(name, justify="right")
    table.add_column("learned", no_wrap=True, min_width=_BAR)
    table.add_column("method", overflow="fold")
    for point in points:
        style = "bold" if point.epsilon == epsilon else "dim" if point.is_hopeless else ""
        filled = round(_BAR * min(1.0, max(0.0, point.expected.kept)))
        bar = Text("█" * filled + "·" * (_BAR - filled))
        words = f"{point.method} (hopeless)" if point.is_hopeless else point.method
        expected = point.expected
        figures = [expected.mean, expected.spread, *(expected.figures[name] for name in more)]
        table.add_row(f"{point.epsilon:g}", *(f"{x:.3f}" for x in figures), bar, words, style=style)
    return table


def draw_utility(points: Sequence[UtilityPoint], epsilon: float, path: Path) -> None:
    """Write the curve with its spread, the model without noise and the simplest answer, as SVG or PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    score = points[0].expected.score.value
    simplest = "majority class" if points[0].expected.score is ScoreKind.ACCURACY else "mean"
    x = [point.epsilon for point in points]
    mean = [point.expected.mean for point in points]
    low = [point.expected.mean - point.expected.spread for point in points]
    high = [point.expected.mean + point.expected.spread for point in points]
    with matplotlib.rc_context({"svg.hashsalt": "dpadmm", "font.size": 10}):
        figure = Figure(figsize=(6.4, 4.0), layout="constrained")
        axes = figure.add_subplot()
        axes.fill_between(x, low, high, alpha=0.2, color="#1f5fa8", linewidth=0)
        axes.plot(x, mean, "o-", color="#1f5fa8", label="with privacy")
        axes.plot(x, [p.expected.non_private for p in points], "--", color="#3b7d4f", label="without noise")
        axes.plot(
            x, [p.expected.trivial for p in points], ":", color="#b3540d", label=f"{simplest} of the synthetic data"
        )
        axes.axvline(epsilon, color="#777777", linewidth=0.8)
        axes.annotate(
            "asked for", (epsilon, axes.get_ylim()[0]), xytext=(4, 4), textcoords="offset points", color="#555"
        )
        axes.set(xscale="log", xlabel="epsilon", ylabel=f"{score} on synthetic data")
        axes.set_xticks(x, [f"{value:g}" for value in x])
        axes.minorticks_off()
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        axes.legend(frameon=False, loc="lower right")
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
