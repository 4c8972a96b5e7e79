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
    score, judged = points[0].expected.score.value, points[0].expected.judged
    table = Table(
        title=f"Expected {score} against epsilon, if a model without privacy reaches {judged.non_private:g}",
        title_justify="left",
        caption="simulated on synthetic data; learned: share of what a model without noise learns, by the loss",
        caption_justify="left",
    )
    table.add_column("epsilon", justify="right")
    table.add_column(score, justify="right")
    table.add_column("learned", no_wrap=True, min_width=_BAR)
    table.add_column("method", overflow="fold")
    for point in points:
        style = "bold" if point.epsilon == epsilon else "dim" if point.is_hopeless else ""
        filled = round(_BAR * point.expected.judged.learned)
        bar = Text("█" * filled + "·" * (_BAR - filled))
        words = f"{point.method} (hopeless)" if point.is_hopeless else point.method
        table.add_row(f"{point.epsilon:g}", point.expected.judged.range, bar, words, style=style)
    return table


def draw_utility(points: Sequence[UtilityPoint], epsilon: float, path: Path) -> None:
    """Write the range of the score by epsilon, the model without noise and a model that knows nothing; SVG or PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    score, judged = points[0].expected.score, points[0].expected.judged
    chance = 0.0 if score is ScoreKind.R2 else 0.5
    x = [point.epsilon for point in points]
    low, high = ([getattr(point.expected.judged, end) for point in points] for end in ("low", "high"))
    with matplotlib.rc_context({"svg.hashsalt": "dpadmm", "font.size": 10}):
        figure = Figure(figsize=(6.4, 4.0), layout="constrained")
        axes = figure.add_subplot()
        axes.fill_between(x, low, high, alpha=0.3, color="#1f5fa8", linewidth=1, label="with privacy, simulated runs")
        axes.axhline(judged.non_private, linestyle="--", color="#3b7d4f", label="without privacy")
        axes.axhline(chance, linestyle=":", color="#b3540d", label="nothing learned")
        axes.axvline(epsilon, color="#777777", linewidth=0.8)
        axes.annotate(
            "asked for", (epsilon, axes.get_ylim()[0]), xytext=(4, 4), textcoords="offset points", color="#555"
        )
        axes.set(xscale="log", xlabel="epsilon", ylabel=f"{score.value} on synthetic data")
        axes.set_xticks(x, [f"{value:g}" for value in x])
        axes.minorticks_off()
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        axes.legend(frameon=False, loc="lower right")
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
