"""Intervals side by side: a forest plot as inline SVG."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dpadmm.reporting.charts import WIDTH, Axis, short, svg
from dpadmm.reporting.column_charts import plain_words
from dpadmm.reporting.intervals import INTERCEPT, CoefficientRow

_ROW, _NAMES, _TOP, _BOTTOM, _MOST_LETTERS = 30, 168, 6, 36, 23


@dataclass(frozen=True)
class IntervalBar:
    """An interval with its middle, for one step of a column."""

    label: str
    low: float
    middle: float
    high: float

    @property
    def has_zero(self) -> bool:
        """Whether no effect at all is within the interval."""
        return self.low <= 0 <= self.high


def bars(rows: Sequence[CoefficientRow], steps: Sequence[float | None]) -> tuple[IntervalBar, ...]:
    """Return the intervals for one step of every number, and for categories as they are; not of the intercept.

    steps: for each row but the intercept how far a step is, None for a category.
    """
    found = []
    for row, step in zip((row for row in rows if row.name != INTERCEPT), steps, strict=True):
        if row.low is not None and row.high is not None:
            label, times = (row.name, 1.0) if step is None else (f"{row.name} +{plain_words(step)}", step)
            found.append(IntervalBar(label, row.low * times, row.coef * times, row.high * times))
    return tuple(found)


def forest_plot(title: str, shown: Sequence[IntervalBar]) -> Markup:
    """Return one line for each interval on a common scale, with a line at 0; those that leave 0 out are stronger."""
    low, high = min(0.0, *(bar.low for bar in shown)), max(0.0, *(bar.high for bar in shown))
    room = 0.06 * (high - low) or 0.1
    x = Axis(low - room, high + room, _NAMES, WIDTH - 12)
    bottom = _TOP + _ROW * len(shown)
    parts = []
    for tick in x.ticks():
        p = x.place(tick)
        kind = "axis" if abs(tick) < 1e-12 * (high - low) else "grid"
        parts.append(
            Markup('<line class="{}" x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}"/>').format(kind, p, p, _TOP, bottom)
        )
        parts.append(
            Markup('<text class="tick" x="{:.1f}" y="{}" text-anchor="middle">{}</text>').format(
                p, bottom + 15, short(tick if kind == "grid" else 0.0)
            )
        )
    for number, bar in enumerate(shown):
        y = _TOP + _ROW * number + _ROW // 2
        label = bar.label if len(bar.label) <= _MOST_LETTERS else f"{bar.label[: _MOST_LETTERS - 1]}…"
        kind = "plain" if bar.has_zero else "span"
        parts += [
            Markup('<text class="label" x="0" y="{}">{}<title>{}</title></text>').format(y + 4, label, bar.label),
            Markup('<line class="spread" x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}"/>').format(
                x.place(bar.low), x.place(bar.high), y, y
            ),
            Markup('<circle class="mark mark-{}" cx="{:.1f}" cy="{}" r="5"/>').format(kind, x.place(bar.middle), y),
        ]
    words = "change of the log-odds"
    parts.append(
        Markup('<text class="label" x="{:.1f}" y="{}" text-anchor="middle">{}</text>').format(
            (_NAMES + WIDTH - 12) / 2, bottom + _BOTTOM - 4, words
        )
    )
    return svg(title, WIDTH, bottom + _BOTTOM, parts)
